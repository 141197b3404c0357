/* Orders about prefixes on disk, where they are carried out, and the answers to them. */
#include "engine/executor_internal.h"
#include "engine/prefix_part.h"

void executor_set_prefixes(struct executor *executor, struct prefix_part *prefixes) {
    executor->prefixes = prefixes;
}

enum status executor_obey_prefixes(struct executor *executor, const struct plan_record *record,
                                   struct prefix_answer *answer) {
    struct prefix_part *part = executor->prefixes;
    *answer = (struct prefix_answer){0};
    CHECK(part != NULL, STATUS_INTERNAL, "a prefix on disk was asked for, but this rank keeps none");
    switch (record->kind) {
    case PLAN_KIND_PREFIX_FIND:
        return prefix_part_find(part, &record->prefix, answer);
    case PLAN_KIND_PREFIX_LOAD:
        return prefix_part_load(part, &record->prefix, answer);
    case PLAN_KIND_PREFIX_RESTORE:
        TRY(executor_change_own_state(executor, &record->step));
        return prefix_part_restore(part, &record->prefix);
    case PLAN_KIND_PREFIX_KEEP:
        TRY(executor_change_own_state(executor, &record->step));
        return prefix_part_keep(part, &record->prefix);
    default:
        FAIL(STATUS_INTERNAL, "a record of kind %d came in where prefixes are ordered", (int)record->kind);
    }
}

enum status executor_follow_prefixes(struct executor *executor, const struct plan_record *record) {
    const struct executor_ranks *ranks = executor->options.ranks;
    bool is_question = record->kind == PLAN_KIND_PREFIX_FIND || record->kind == PLAN_KIND_PREFIX_LOAD;
    struct prefix_answer answer;
    TRY(executor_obey_prefixes(executor, record, &answer));
    bool is_asked = is_question && ranks->step.rank == 0;
    if (!is_asked) {
        return STATUS_OK;
    }
    TRY(comm_wait(ranks->control, &executor->answer_request));
    executor->prefix_answer = answer;
    return comm_start_send(ranks->control, NULL, 0, &executor->prefix_answer, sizeof executor->prefix_answer,
                           &executor->answer_request);
}

enum status executor_take_prefix_answer(struct executor *executor, int stage, struct prefix_answer *out) {
    const struct executor_ranks *ranks = executor->options.ranks;
    struct comm_request request;
    TRY(comm_start_receive(ranks->control, NULL, ranks->control_first + stage * ranks->step.count, out,
                           sizeof *out, &request));
    return comm_wait(ranks->control, &request);
}
