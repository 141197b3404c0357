/* What a step reads and computes is counted by the benchmark's floors (model/step_work.h), block by block.
 */
#include "tools/plan_speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/stage_point.h"
#include "tools/plan_sharing.h"
#include "tools/plan_traffic.h"

int plan_groups_in_flight(const struct plan *plan, int64_t running_sequences) {
    int groups =
        plan->request.groups_in_flight > 0 ? plan->request.groups_in_flight : plan->request.mesh.pipeline;
    return running_sequences < groups ? (int)(running_sequences > 0 ? running_sequences : 1) : groups;
}

struct plan_tick plan_decode_tick(const struct plan *plan, int64_t running_sequences, int drafts) {
    int groups = plan_groups_in_flight(plan, running_sequences);
    struct plan_tick tick = {
        .rows = 1 + drafts, .position = plan->request.context_tokens / 2, .draft_passes = drafts};
    tick.sequences = (running_sequences + groups - 1) / groups;
    tick.sequences = tick.sequences > 0 ? tick.sequences : 1;
    tick.logit_rows = tick.sequences * tick.rows;
    return tick;
}

struct plan_tick plan_prefill_tick(const struct plan *plan) {
    return (struct plan_tick){.sequences = plan->request.step_tokens,
                              .rows = 1,
                              .position = plan->request.context_tokens / 2,
                              .logit_rows = 1,
                              .is_prefill = true};
}

/* What the blocks of one step share. */
struct timing {
    const struct plan *plan;
    const struct plan_tick *tick;
    struct plan_traffic traffic;
    const struct state_rows *states; /* all */
    struct state_rows *masked;       /* those of one block keep their bytes */
    double *scratch;
    double attention_operations; /* of one layer, on one rank: what products with weights do not count */
};

/* Time of `bytes` sent in `exchanges` exchanges of a group: its ranks find each other in log2 steps. */
static double link_seconds(const struct plan *plan, enum mesh_group group, double bytes, double exchanges) {
    const struct plan_machine *machine = &plan->machine;
    int size = mesh_group_size(&plan->request.mesh, group);
    bool is_local = plan->is_group_local[group];
    double rate = is_local ? machine->device.link_bytes_per_second : machine->device.network_bytes_per_second;
    double latency =
        is_local ? machine->device.link_latency_seconds : machine->device.network_latency_seconds;
    return size == 1 ? 0.0 : bytes / rate + exchanges * ceil(log2(size)) * latency;
}

static void add_limits(const struct plan *plan, double bytes, double operations, double link,
                       struct plan_seconds *out) {
    double read = device_profile_read_seconds(&plan->machine.device, bytes);
    double compute = device_profile_compute_seconds(&plan->machine.device, operations);
    out->read += read;
    out->compute += compute;
    out->link += link;
    out->total += (read > compute ? read : compute) + link;
}

/* Exchanges of a layer: gather and scatter around attention, there and back around experts. */
static double layer_link_seconds(const struct timing *timing) {
    const struct plan_traffic *traffic = &timing->traffic;
    enum { EXCHANGES = 2 };
    enum mesh_group experts =
        timing->plan->request.mesh.has_expert_parallelism ? MESH_GROUP_EXPERT : MESH_GROUP_TENSOR;
    return link_seconds(timing->plan, MESH_GROUP_TENSOR, traffic->attention_bytes + traffic->shared_bytes,
                        EXCHANGES) +
           link_seconds(timing->plan, experts,
                        traffic->route_bytes + traffic->dispatch_bytes + traffic->combine_bytes, EXCHANGES);
}

/* First projections of other ranks' rows, which a rank that gathers late leaves to them. */
static double spared_operations(const struct timing *timing, int index, double rows) {
    const struct plan_request *request = &timing->plan->request;
    const struct model *model = timing->plan->model->model;
    struct attention_rows gathered;
    model->family->describe_attention_rows(model, numerics_activation_dtype(request->numerics), index,
                                           &gathered);
    bool is_spared = plan_shares_rows(request, rows) && plan_gathers_late(request, &gathered);
    return is_spared ? rows * (1.0 - 1.0 / request->mesh.tensor) * gathered.operations : 0.0;
}

/* A layer or the draft layer: everything but experts for the replica's rows, experts for those of all
 * replicas. */
static void add_layer(const struct timing *timing, const struct plan_block *block, int index,
                      int64_t rows_each, struct plan_seconds *out) {
    const struct plan_model *model = timing->plan->model;
    const struct plan_tick *tick = timing->tick;
    const struct step_shape shape = {tick->sequences, rows_each, tick->position, 0};
    struct weight_work dense = block->work;
    struct step_work work = {0};
    double rows = (double)(tick->sequences * rows_each);
    double expert_rows =
        rows * (timing->plan->request.mesh.has_expert_parallelism ? timing->plan->request.mesh.data : 1);
    dense.expert_bytes = 0.0;
    dense.expert_operations = 0.0;
    for (int i = 0; i < model->states.count; i++) {
        timing->masked[i] = timing->states[i];
        timing->masked[i].row_bytes *= !tick->is_prefill && model->states.kinds[i].layer == index;
    }
    step_work_add(model->model, &dense, timing->masked, model->states.count, &shape, timing->scratch, &work);
    double experts = step_work_distinct_experts(model->model->expert_count, model->model->expert_picks,
                                                (int64_t)expert_rows);
    double operations = rows * dense.dense_operations - spared_operations(timing, index, rows) +
                        timing->attention_operations +
                        expert_rows * (double)model->model->expert_picks * block->work.expert_operations;
    add_limits(timing->plan, work.bytes + experts * block->work.expert_bytes, operations,
               layer_link_seconds(timing), out);
}

static void add_head(const struct timing *timing, const struct plan_block *block, int64_t rows,
                     struct plan_seconds *out) {
    double link = link_seconds(timing->plan, MESH_GROUP_TENSOR, timing->traffic.logit_bytes, 1.0);
    add_limits(timing->plan, block->work.head_bytes, (double)rows * block->work.head_operations, link, out);
}

static void time_blocks(const struct timing *timing, const struct plan_block *blocks,
                        struct plan_seconds *seconds) {
    const struct plan_model *model = timing->plan->model;
    const struct plan_tick *tick = timing->tick;
    int first = plan_block_first(model);
    int last = plan_block_last(model);
    int draft = plan_block_draft(model);
    for (int l = 0; l < model->model->layer_count; l++) {
        add_layer(timing, &blocks[l], l, tick->rows, &seconds[l]);
    }
    add_limits(timing->plan, (double)(tick->sequences * tick->rows) * blocks[first].work.lookup_bytes, 0.0,
               0.0, &seconds[first]);
    add_head(timing, &blocks[last], tick->logit_rows, &seconds[last]);
    for (int64_t pass = 0; pass < tick->draft_passes; pass++) {
        add_layer(timing, &blocks[draft], draft, 1, &seconds[draft]);
        add_head(timing, &blocks[last], tick->sequences, &seconds[draft]);
    }
}

/* What a layer computes besides products with weights, shared evenly by layers and by the ranks' heads. */
static double attention_operations(const struct timing *timing) {
    const struct plan *plan = timing->plan;
    const struct model *model = plan->model->model;
    const struct plan_tick *tick = timing->tick;
    double operations = 0.0;
    for (int64_t i = 0; i < tick->rows; i++) {
        operations += model->family->describe_row_work(model, tick->position + i, timing->scratch);
    }
    return operations * (double)tick->sequences / model->layer_count / plan->request.mesh.tensor;
}

enum status plan_block_seconds(const struct plan *plan, const struct plan_block *blocks,
                               const struct plan_tick *tick, struct plan_seconds *seconds) {
    enum status status = STATUS_OK;
    const struct plan_model *model = plan->model;
    struct state_pool pool = {0};
    const struct state_pool_options options = {.sequence_slot_count = 1,
                                               .context_tokens = plan->request.context_tokens,
                                               .page_tokens = plan->request.page_tokens};
    struct timing timing = {.plan = plan, .tick = tick};
    const struct plan_traffic_input input =
        plan_traffic_input_of(plan, (double)(tick->sequences * tick->rows), (double)tick->logit_rows);
    timing.traffic = plan_traffic_make(&input);
    memset(seconds, 0, (size_t)model->block_count * sizeof *seconds);
    timing.masked = calloc((size_t)model->states.count, sizeof *timing.masked);
    timing.scratch = calloc((size_t)model->states.count, sizeof *timing.scratch);
    CHECK_MEMORY_GOTO(timing.masked);
    CHECK_MEMORY_GOTO(timing.scratch);
    TRY_GOTO(state_pool_init(&pool, NULL, &model->states, plan->request.numerics, &options));
    timing.states = pool.rows;
    timing.attention_operations = attention_operations(&timing);
    time_blocks(&timing, blocks, seconds);
fail:
    state_pool_deinit(&pool);
    free(timing.masked);
    free(timing.scratch);
    return status;
}

double plan_hop_seconds(const struct plan *plan, const struct plan_tick *tick) {
    const struct plan_traffic_input input =
        plan_traffic_input_of(plan, (double)(tick->sequences * tick->rows), (double)tick->logit_rows);
    struct plan_traffic traffic = plan_traffic_make(&input);
    const struct plan_machine *machine = &plan->machine;
    bool is_local = plan->is_group_local[MESH_GROUP_PIPELINE];
    double rate = is_local ? machine->device.link_bytes_per_second : machine->device.network_bytes_per_second;
    double latency =
        is_local ? machine->device.link_latency_seconds : machine->device.network_latency_seconds;
    return plan->request.mesh.pipeline == 1 ? 0.0 : traffic.boundary_bytes / rate + latency;
}

void plan_speed_sum(struct plan *plan, int64_t running_sequences) {
    struct plan_speed *speed = &plan->speed;
    int stages = plan->request.mesh.pipeline;
    /* Boundaries travel while stages compute: they are a limit of their own, and part of a token's way. */
    double sum = plan->decode_hop_seconds * stages;
    double slowest = plan->decode_hop_seconds;
    double slowest_prefill = plan->prefill_hop_seconds;
    speed->bottleneck_stage = PLAN_BOUNDARIES;
    for (int s = 0; s < stages; s++) {
        double seconds = plan->stages[s].decode.total;
        double prefill = plan->stages[s].prefill.total;
        sum += seconds;
        speed->bottleneck_stage = seconds > slowest ? s : speed->bottleneck_stage;
        slowest = seconds > slowest ? seconds : slowest;
        slowest_prefill = prefill > slowest_prefill ? prefill : slowest_prefill;
    }
    double turns = plan_groups_in_flight(plan, running_sequences) * slowest;
    double replicas = plan->request.mesh.data;
    speed->running_sequences = running_sequences;
    speed->tokens_per_round = stage_point_tokens(plan->request.draft_limit);
    speed->cycle_seconds = turns > sum ? turns : sum;
    speed->tokens_per_second =
        replicas * (double)running_sequences * speed->tokens_per_round / speed->cycle_seconds;
    speed->prefill_tokens_per_second = replicas * plan->request.step_tokens / slowest_prefill;
}
