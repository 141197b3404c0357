/*
 * What ranks have done so far, from each of them to the leader.
 *
 * The leader asks by a record, as for all else, and every other rank answers by one message. So it knows when
 * the answers are on their way: before whatever that rank sends for a round that was started later.
 */
#include "engine/executor_internal.h"
#include "engine/prefix_part.h"

static void count_links(const struct executor *executor, struct sluice_stage_stats *out) {
    const struct executor_ranks *ranks = executor->options.ranks;
    const struct comm *tensor = ranks->step.tensor;
    const struct comm *experts = ranks->step.experts;
    out->boundary_bytes = ranks->pipeline == NULL ? 0 : (int64_t)comm_sent_bytes(ranks->pipeline);
    out->plan_bytes = (int64_t)executor->meter.plan_bytes;
    out->feedback_bytes = executor_is_leader(executor) ? 0 : (int64_t)comm_sent_bytes(ranks->control);
    out->sum_bytes = (int64_t)comm_sent_bytes_in(tensor, COMM_TRAFFIC_SUM);
    out->gather_bytes = (int64_t)comm_sent_bytes_in(tensor, COMM_TRAFFIC_GATHER);
    out->exchange_bytes = (int64_t)comm_sent_bytes_in(tensor, COMM_TRAFFIC_EXCHANGE);
    out->relay_bytes =
        (int64_t)comm_sent_bytes(tensor) - out->sum_bytes - out->gather_bytes - out->exchange_bytes;
    if (experts != tensor) {
        int64_t exchanged = (int64_t)comm_sent_bytes_in(experts, COMM_TRAFFIC_EXCHANGE);
        out->exchange_bytes += exchanged;
        out->gather_bytes += (int64_t)comm_sent_bytes(experts) - exchanged;
    }
    out->expert_moves = ranks->expert_moves;
    out->expert_imbalance = ranks->expert_imbalance;
}

void executor_report(const struct executor *executor, struct rank_report *out) {
    const struct executor_ranks *ranks = executor->options.ranks;
    *out = (struct rank_report){.stage = ranks == NULL ? 0 : ranks->stage};
    rank_meter_read(&executor->meter, &out->stats);
    if (executor->prefixes != NULL) {
        out->disk = prefix_part_counters(executor->prefixes);
    }
    if (ranks != NULL) {
        count_links(executor, &out->stats);
    }
}

struct rank_meter *executor_meter(struct executor *executor) {
    return &executor->meter;
}

enum status executor_send_report(struct executor *executor) {
    struct comm *control = executor->options.ranks->control;
    TRY(comm_wait(control, &executor->report_request));
    executor_report(executor, &executor->report);
    return comm_start_send(control, NULL, 0, &executor->report, sizeof executor->report,
                           &executor->report_request);
}

enum status executor_take_report(struct executor *executor, int rank, struct rank_report *out) {
    struct comm *control = executor->options.ranks->control;
    struct comm_request request;
    TRY(comm_start_receive(control, NULL, rank, out, sizeof *out, &request));
    TRY(comm_wait(control, &request));
    CHECK(out->stage >= 0 && out->stage < executor->options.ranks->stage_count, STATUS_INTERNAL,
          "rank %d says that it is of stage %d of %d", rank, out->stage,
          executor->options.ranks->stage_count);
    return STATUS_OK;
}
