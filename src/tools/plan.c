/* Blocks first, then their times, then the partition, then the stages. */
#include "tools/plan.h"

#include <stdlib.h>
#include <string.h>

#include "engine/stage_point.h"
#include "parallel/partition.h"
#include "tools/plan_check.h"
#include "tools/plan_memory.h"
#include "tools/plan_speed.h"
#include "tools/plan_traffic.h"

struct plan_request plan_request_default(void) {
    return (struct plan_request){
        .mesh = mesh_shape_single(),
        .has_prefix_cache = true,
        .numerics = NUMERICS_NATIVE,
        .context_tokens = 4096,
        .sequence_limit = 1,
        .step_tokens = 512,
        .page_tokens = 128,
        .boundary_buffers = 3,
        .thread_count = 1,
    };
}

/* What a plan is made in. */
struct making {
    struct plan *plan;
    const struct plan_step_bytes *step;
    struct plan_block *blocks;    /* [block_count] */
    struct plan_seconds *decode;  /* the same */
    struct plan_seconds *prefill; /* the same */
    struct plan_seconds *design;  /* the same: of a step that the partition is made for */
    double *layer_costs[2];       /* [layer_count]: of one such step, and of another */
    double *layer_bytes;          /* [layer_count] */
    double *layer_page_bytes;     /* the same */
};

/* Whether no group of a kind has ranks on two hosts. */
static enum status find_local_groups(struct plan *plan) {
    const struct mesh_shape *mesh = &plan->request.mesh;
    int *ranks = calloc((size_t)mesh_rank_count(mesh), sizeof *ranks);
    CHECK_MEMORY(ranks);
    for (int group = 0; group <= MESH_GROUP_EXPERT; group++) {
        bool *is_local = &plan->is_group_local[group];
        *is_local = true;
        for (int rank = 0; rank < mesh_rank_count(mesh); rank++) {
            if (mesh_group_index(mesh, (enum mesh_group)group, rank) == 0) {
                mesh_group_ranks(mesh, (enum mesh_group)group, rank, ranks);
                for (int i = 1; i < mesh_group_size(mesh, (enum mesh_group)group); i++) {
                    *is_local = *is_local && plan_machine_host(&plan->machine, ranks[i]) ==
                                                 plan_machine_host(&plan->machine, rank);
                }
            }
        }
    }
    free(ranks);
    return STATUS_OK;
}

/* Times at a design point of so many running sequences. */
static enum status time_blocks(struct making *making, int64_t running_sequences) {
    struct plan *plan = making->plan;
    struct plan_tick decode = plan_decode_tick(plan, running_sequences, plan->request.draft_limit);
    struct plan_tick prefill = plan_prefill_tick(plan);
    TRY(plan_block_seconds(plan, making->blocks, &decode, making->decode));
    TRY(plan_block_seconds(plan, making->blocks, &prefill, making->prefill));
    plan->decode_hop_seconds = plan_hop_seconds(plan, &decode);
    plan->prefill_hop_seconds = plan_hop_seconds(plan, &prefill);
    struct plan_traffic_input input =
        plan_traffic_input_of(plan, (double)(decode.sequences * decode.rows), (double)decode.logit_rows);
    plan->decode_traffic = plan_traffic_make(&input);
    input = plan_traffic_input_of(plan, (double)prefill.sequences, (double)prefill.logit_rows);
    plan->prefill_traffic = plan_traffic_make(&input);
    return STATUS_OK;
}

/* What stages have besides layers, from the memory of stages that have none. */
static enum status fill_end_bytes(const struct making *making, struct partition_input *input) {
    const struct plan *plan = making->plan;
    int last = plan->request.mesh.pipeline - 1;
    struct plan_stage first_stage = {0};
    struct plan_stage last_stage = {0};
    TRY(plan_stage_fill_memory(plan, making->blocks, making->step, 0, &first_stage));
    TRY(plan_stage_fill_memory(plan, making->blocks, making->step, last, &last_stage));
    input->stage_bytes = (double)making->step->layers;
    input->first_bytes = (double)first_stage.fixed_bytes;
    input->last_bytes = last > 0 ? (double)last_stage.fixed_bytes : 0.0;
    input->byte_limit = (double)plan_usable_bytes(&plan->machine);
    input->last_page_bytes = last > 0 ? (double)last_stage.page_bytes : 0.0;
    return STATUS_OK;
}

/* What stages cost if blocks take so long. */
static void make_load(const struct making *making, const struct plan_seconds *seconds, double *layer_costs,
                      struct partition_load *out) {
    const struct plan_model *model = making->plan->model;
    for (int l = 0; l < model->model->layer_count; l++) {
        layer_costs[l] = seconds[l].total;
    }
    *out = (struct partition_load){.layer_costs = layer_costs,
                                   .first_cost = seconds[plan_block_first(model)].total,
                                   .last_cost = seconds[plan_block_last(model)].total +
                                                seconds[plan_block_draft(model)].total};
}

static enum status time_design(struct making *making, int drafts, double *layer_costs,
                               struct partition_load *out) {
    struct plan_tick tick = plan_decode_tick(making->plan, making->plan->request.sequence_limit, drafts);
    TRY(plan_block_seconds(making->plan, making->blocks, &tick, making->design));
    make_load(making, making->design, layer_costs, out);
    out->tokens = stage_point_tokens(drafts);
    return STATUS_OK;
}

/* The steps that the engine cuts for (engine/stage_cut.h); there may be two kinds. */
static enum status make_loads(struct making *making, struct partition_load loads[2], bool *are_two) {
    const struct plan_request *request = &making->plan->request;
    *are_two = false;
    if (request->objective == SLUICE_STAGES_FOR_PREFILL) {
        make_load(making, making->prefill, making->layer_costs[0], &loads[0]);
        return STATUS_OK;
    }
    if (request->draft_limit == 0 || !request->chooses_drafts) {
        return time_design(making, request->draft_limit, making->layer_costs[0], &loads[0]);
    }
    *are_two = true;
    TRY(time_design(making, 0, making->layer_costs[0], &loads[0]));
    return time_design(making, 1, making->layer_costs[1], &loads[1]);
}

static void set_load(struct partition_input *input, const struct partition_load *load) {
    input->layer_costs = load->layer_costs;
    input->first_cost = load->first_cost;
    input->last_cost = load->last_cost;
}

static enum status choose_partition(struct making *making) {
    struct plan *plan = making->plan;
    int stages = plan->request.mesh.pipeline;
    bool is_for_state = plan->request.objective == SLUICE_STAGES_FOR_STATE;
    bool are_two;
    struct partition_load loads[2];
    struct partition_input input = {
        .layer_count = plan->model->model->layer_count,
        .layer_bytes = making->layer_bytes,
        .objective = is_for_state ? PARTITION_BY_PAGES : PARTITION_BY_COST,
        .layer_page_bytes = making->layer_page_bytes,
        .dependencies = plan->model->model->dependencies,
        .dependency_count = plan->model->model->dependency_count,
    };
    TRY(make_loads(making, loads, &are_two));
    set_load(&input, &loads[0]);
    input.other = are_two ? &loads[1] : NULL;
    TRY(plan_layer_bytes(plan, making->blocks, making->layer_bytes, making->layer_page_bytes));
    TRY(fill_end_bytes(making, &input));
    if (plan->request.layer_partition != NULL) {
        TRY(partition_read(&input, plan->request.layer_partition, stages, plan->first_layers));
    } else if (partition_choose(&input, stages, plan->first_layers) != STATUS_OK) {
        /* Nothing fits: the ledger of the best partition by time says by how much. */
        input.layer_bytes = NULL;
        TRY(partition_choose(&input, stages, plan->first_layers));
    }
    make_load(making, making->decode, making->layer_costs[0], &loads[0]);
    set_load(&input, &loads[0]);
    plan->imbalance = partition_imbalance(&input, stages, plan->first_layers);
    return STATUS_OK;
}

static void add_seconds(const struct plan_seconds *part, struct plan_seconds *sum) {
    sum->total += part->total;
    sum->read += part->read;
    sum->compute += part->compute;
    sum->link += part->link;
}

static void sum_stage(const struct making *making, const struct plan_seconds *blocks, int stage,
                      struct plan_seconds *out) {
    const struct plan *plan = making->plan;
    *out = (struct plan_seconds){0};
    for (int l = plan->first_layers[stage]; l < plan->first_layers[stage + 1]; l++) {
        add_seconds(&blocks[l], out);
    }
    if (stage == 0) {
        add_seconds(&blocks[plan_block_first(plan->model)], out);
    }
    if (stage == plan->request.mesh.pipeline - 1) {
        add_seconds(&blocks[plan_block_last(plan->model)], out);
        add_seconds(&blocks[plan_block_draft(plan->model)], out);
    }
}

static enum status fill_memory(struct making *making) {
    struct plan *plan = making->plan;
    int64_t least = INT64_MAX;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        struct plan_stage *stage = &plan->stages[s];
        *stage =
            (struct plan_stage){.first_layer = plan->first_layers[s], .end_layer = plan->first_layers[s + 1]};
        TRY(plan_stage_fill_memory(plan, making->blocks, making->step, s, stage));
        if (stage->page_count < least) {
            least = stage->page_count;
            plan->fullest_stage = s;
        }
    }
    plan->token_capacity = least * plan->request.page_tokens;
    plan->fits = least >= plan_pages_of(&plan->request, plan->request.context_tokens);
    return STATUS_OK;
}

/* Sequences that run at once: as many as were asked for, or as have room at half their length. */
static int64_t running_sequences(const struct plan *plan) {
    int64_t pages = plan_pages_of(&plan->request, plan->request.context_tokens / 2 + 1);
    int64_t room = plan->token_capacity / plan->request.page_tokens / (pages > 0 ? pages : 1);
    int64_t limit = plan->request.sequence_limit;
    room = room > 1 ? room : 1;
    return room < limit ? room : limit;
}

static enum status make_stages(struct making *making) {
    struct plan *plan = making->plan;
    TRY(plan_blocks_make(plan->model, &plan->request, making->blocks));
    TRY(time_blocks(making, plan->request.sequence_limit));
    TRY(choose_partition(making));
    TRY(fill_memory(making));
    int64_t running = running_sequences(plan);
    if (running < plan->request.sequence_limit) {
        TRY(time_blocks(making, running));
    }
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        sum_stage(making, making->decode, s, &plan->stages[s].decode);
        sum_stage(making, making->prefill, s, &plan->stages[s].prefill);
    }
    plan_speed_sum(plan, running);
    return STATUS_OK;
}

enum status plan_make(const struct plan_model *model, const struct plan_machine *machine,
                      const struct plan_request *request, const struct plan_step_bytes *step,
                      struct plan *out) {
    enum status status = STATUS_OK;
    size_t blocks = (size_t)model->block_count;
    struct making making = {.plan = out, .step = step};
    *out = (struct plan){.model = model, .machine = *machine, .request = *request};
    TRY(plan_check_request(model, machine, request));
    TRY(find_local_groups(out));
    out->first_layers = calloc((size_t)request->mesh.pipeline + 1, sizeof *out->first_layers);
    out->stages = calloc((size_t)request->mesh.pipeline, sizeof *out->stages);
    making.blocks = calloc(blocks, sizeof *making.blocks);
    making.decode = calloc(blocks, sizeof *making.decode);
    making.prefill = calloc(blocks, sizeof *making.prefill);
    making.design = calloc(blocks, sizeof *making.design);
    making.layer_costs[0] = calloc(blocks, sizeof *making.layer_costs[0]);
    making.layer_costs[1] = calloc(blocks, sizeof *making.layer_costs[1]);
    making.layer_bytes = calloc(blocks, sizeof *making.layer_bytes);
    making.layer_page_bytes = calloc(blocks, sizeof *making.layer_page_bytes);
    CHECK_MEMORY_GOTO(out->first_layers);
    CHECK_MEMORY_GOTO(out->stages);
    CHECK_MEMORY_GOTO(making.blocks);
    CHECK_MEMORY_GOTO(making.decode);
    CHECK_MEMORY_GOTO(making.prefill);
    CHECK_MEMORY_GOTO(making.design);
    CHECK_MEMORY_GOTO(making.layer_costs[0]);
    CHECK_MEMORY_GOTO(making.layer_costs[1]);
    CHECK_MEMORY_GOTO(making.layer_bytes);
    CHECK_MEMORY_GOTO(making.layer_page_bytes);
    TRY_GOTO(make_stages(&making));
fail:
    free(making.blocks);
    free(making.decode);
    free(making.prefill);
    free(making.design);
    free(making.layer_costs[0]);
    free(making.layer_costs[1]);
    free(making.layer_bytes);
    free(making.layer_page_bytes);
    return status;
}

void plan_deinit(struct plan *plan) {
    free(plan->first_layers);
    free(plan->stages);
    *plan = (struct plan){0};
}

int64_t plan_sessions(const struct plan *plan, int64_t context_tokens) {
    int64_t pages = plan_pages_of(&plan->request, context_tokens);
    int64_t least = INT64_MAX;
    uint64_t usable = plan_usable_bytes(&plan->machine);
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        uint64_t fixed = stage->fixed_bytes - (uint64_t)plan->request.sequence_limit * stage->slot_bytes;
        uint64_t each = stage->slot_bytes + (uint64_t)pages * stage->page_bytes;
        int64_t count = usable > fixed && each > 0 ? (int64_t)((usable - fixed) / each) : 0;
        least = count < least || each == 0 ? (each == 0 ? least : count) : least;
    }
    return least == INT64_MAX ? 0 : least;
}
