/* Which answers come when. */
#include "engine/round_prefixes.h"

#include "engine/round_internal.h"

/* The stages that answer: all but the leader's. */
static int first_other_stage(const struct round_runner_options *options) {
    return round_has_stage(options) ? 1 : 0;
}

static int stage_count(const struct round_runner_options *options) {
    return options->ranks == NULL ? 1 : options->ranks->stage_count;
}

enum status round_order_prefixes(struct round_runner *runner, const struct plan_record *record) {
    const struct round_runner_options *options = &runner->options;
    bool has_others = first_other_stage(options) < stage_count(options);
    bool is_find = record->kind == PLAN_KIND_PREFIX_FIND;
    bool is_question = is_find || record->kind == PLAN_KIND_PREFIX_LOAD;
    CHECK(!is_question || !runner->is_prefix_asked, STATUS_INTERNAL,
          "a prefix was asked for while another question is open");
    if (is_question) {
        runner->prefix_answers = (struct prefix_answers){.lowest_end = INT32_MAX, .has_draft_rows = true};
        runner->is_prefix_asked = has_others;
        runner->is_prefix_behind_round = false;
    }
    /* Who has no files has nothing to find. */
    return is_find && !has_others ? STATUS_OK : executor_lead(options->executor, record);
}

bool round_has_prefix_answers(const struct round_runner *runner, struct prefix_answers *out) {
    *out = runner->prefix_answers;
    return !runner->is_prefix_asked;
}

bool round_carries_prefix_answers(struct round_runner *runner) {
    bool carries = runner->is_prefix_asked && !runner->is_prefix_behind_round;
    runner->is_prefix_behind_round |= carries;
    return carries;
}

static enum status take_answers(struct round_runner *runner, struct prefix_answers *out) {
    for (int stage = first_other_stage(&runner->options); stage < stage_count(&runner->options); stage++) {
        struct prefix_answer answer;
        TRY(executor_take_prefix_answer(runner->options.executor, stage, &answer));
        out->lowest_end = answer.end_page < out->lowest_end ? answer.end_page : out->lowest_end;
        out->highest_end = answer.end_page > out->highest_end ? answer.end_page : out->highest_end;
        out->has_draft_rows = out->has_draft_rows && answer.has_draft_rows != 0;
    }
    return STATUS_OK;
}

enum status round_take_prefix_answers(struct round_runner *runner) {
    struct prefix_answers *answers = &runner->prefix_answers;
    if (!runner->is_prefix_asked) {
        return STATUS_OK;
    }
    enum status status = take_answers(runner, answers);
    runner->is_prefix_asked = false;
    answers->lowest_end = status == STATUS_OK ? answers->lowest_end : 0;
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
