/* State is described by the engine's own pool, from the records of the stage's layers. */
#include "tools/plan_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "engine/boundary_header.h"
#include "parallel/shard.h"
#include "tools/plan_sharing.h"

enum { SNAPSHOTS_BESIDE_SEQUENCES = 4, ALIGNMENT = 64, END_BUFFERS = 2, DRAFT_BUFFERS = 2 };

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t aligned(uint64_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int32_t plan_snapshot_count(const struct plan_request *request) {
    return request->has_prefix_cache ? 2 * request->sequence_limit + SNAPSHOTS_BESIDE_SEQUENCES : 0;
}

int64_t plan_pages_of(const struct plan_request *request, int64_t context_tokens) {
    return (context_tokens + request->page_tokens - 1) / request->page_tokens;
}

uint64_t plan_usable_bytes(const struct plan_machine *machine) {
    return (uint64_t)(machine->device.memory_bytes * machine->memory_share);
}

uint64_t plan_stage_weight_bytes(const struct plan_stage *stage) {
    uint64_t bytes = 0;
    for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
        bytes += stage->weight_bytes[kind];
    }
    return bytes;
}

enum status plan_blocks_make(const struct plan_model *model, const struct plan_request *request,
                             struct plan_block *blocks) {
    const struct mesh_shape *mesh = &request->mesh;
    struct shard_layout layout = {
        .mesh = *mesh, .has_whole_shared_experts = plan_has_whole_shared_experts(model->model, request)};
    layout.expert_copies = plan_expert_copies(request);
    layout.place.expert = mesh_group_size(mesh, MESH_GROUP_EXPERT) - 1;
    for (int b = 0; b < model->block_count; b++) {
        layout.place.tensor = b == plan_block_last(model) ? 0 : mesh->tensor - 1;
        TRY(plan_block_make(model, b, &layout, &blocks[b]));
    }
    return STATUS_OK;
}

static void add_weights(const struct plan_block *block, struct plan_stage *stage) {
    for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
        stage->weight_bytes[kind] += block->weight_bytes[kind];
    }
}

static void fill_weights(const struct plan *plan, const struct plan_block *blocks, int stage_index,
                         struct plan_stage *stage) {
    const struct plan_model *model = plan->model;
    bool is_last = stage_index == plan->request.mesh.pipeline - 1;
    for (int l = stage->first_layer; l < stage->end_layer; l++) {
        add_weights(&blocks[l], stage);
    }
    if (stage_index == 0) {
        add_weights(&blocks[plan_block_first(model)], stage);
    }
    if (is_last) {
        add_weights(&blocks[plan_block_last(model)], stage);
        add_weights(&blocks[plan_block_draft(model)], stage);
    }
    if (is_last && stage_index > 0 && plan->request.draft_limit > 0) {
        stage->weight_bytes[PLAN_DRAFT_EMBEDDING] = plan_block_bytes(&blocks[plan_block_first(model)]);
    }
}

/* State of the kinds of layers first to end - 1, draft layers as `has_draft` says. */
static enum status describe_states(const struct plan *plan, int first, int end, bool has_draft,
                                   struct state_pool *pool, struct state_table *table) {
    const struct plan_model *model = plan->model;
    const struct state_pool_options options = {.sequence_slot_count = plan->request.sequence_limit,
                                               .snapshot_slot_count = plan_snapshot_count(&plan->request),
                                               .context_tokens = plan->request.context_tokens,
                                               .page_tokens = plan->request.page_tokens};
    *table = (struct state_table){.kinds = calloc((size_t)model->states.count + 1, sizeof *table->kinds)};
    CHECK_MEMORY(table->kinds);
    for (int i = 0; i < model->states.count; i++) {
        const struct state_kind *kind = &model->states.kinds[i];
        if (kind->is_draft ? has_draft : kind->layer >= first && kind->layer < end) {
            table->kinds[table->count++] = *kind;
        }
    }
    return state_pool_init(pool, NULL, table, plan->request.numerics, &options);
}

static enum status fill_state(const struct plan *plan, int stage_index, struct plan_stage *stage) {
    struct state_table table;
    struct state_pool pool = {0};
    enum status status = describe_states(plan, stage->first_layer, stage->end_layer,
                                         stage_index == plan->request.mesh.pipeline - 1, &pool, &table);
    if (status == STATUS_OK) {
        stage->slot_bytes = pool.slot_bytes;
        stage->snapshot_bytes = pool.snapshot_bytes;
        stage->page_bytes = pool.page_bytes;
        stage->state_fixed_bytes = state_pool_bytes(&pool, 0);
    }
    state_pool_deinit(&pool);
    free(table.kinds);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static uint64_t boundary_row_bytes(const struct plan *plan) {
    const struct model *model = plan->model->model;
    struct boundary boundary;
    uint64_t bytes = 0;
    model->family->describe_boundary(model, numerics_activation_dtype(plan->request.numerics), 1, &boundary);
    for (int i = 0; i < boundary.count; i++) {
        bytes += tensor_bytes(&boundary.tensors[i]);
    }
    return bytes;
}

/* A middle stage receives, computes and sends at once; the ends do two of these, a single stage one (P-19).
 */
static int buffer_count(const struct plan *plan, int stage_index) {
    int stages = plan->request.mesh.pipeline;
    if (stages == 1) {
        return 1;
    }
    return stage_index == 0 || stage_index == stages - 1 ? END_BUFFERS : plan->request.boundary_buffers;
}

/* Boundary rows kept by slot, if there are snapshots to draft from. */
static uint64_t saved_rows(const struct plan_request *request) {
    int32_t snapshots = plan_snapshot_count(request);
    return snapshots == 0 ? 0 : (uint64_t)request->sequence_limit + (uint64_t)snapshots;
}

static void fill_buffers(const struct plan *plan, const struct plan_step_bytes *step, int stage_index,
                         struct plan_stage *stage) {
    const struct plan_request *request = &plan->request;
    uint64_t row_bytes = boundary_row_bytes(plan);
    uint64_t rows = (uint64_t)plan_boundary_rows(request);
    uint64_t draft_rows = (uint64_t)(request->sequence_limit < request->step_tokens ? request->sequence_limit
                                                                                    : request->step_tokens);
    bool is_last = stage_index == request->mesh.pipeline - 1;
    uint64_t scratch = stage->end_layer > stage->first_layer ? step->layers : 0;
    scratch = larger(scratch, stage_index == 0 ? step->embedding : 0);
    scratch = larger(scratch, is_last ? step->head : 0);
    uint64_t header_bytes = request->mesh.pipeline > 1 ? BOUNDARY_HEADER_BYTES : 0;
    stage->boundary_bytes =
        (uint64_t)buffer_count(plan, stage_index) * aligned(header_bytes + rows * row_bytes);
    stage->step_bytes = aligned(step->batch) + scratch;
    if (is_last && request->draft_limit > 0) {
        stage->draft_bytes =
            DRAFT_BUFFERS * aligned(draft_rows * row_bytes) + aligned(saved_rows(request) * row_bytes);
        stage->step_bytes += step->draft > scratch ? step->draft - scratch : 0;
    }
}

enum status plan_stage_fill_memory(const struct plan *plan, const struct plan_block *blocks,
                                   const struct plan_step_bytes *step, int stage_index,
                                   struct plan_stage *stage) {
    fill_weights(plan, blocks, stage_index, stage);
    TRY(fill_state(plan, stage_index, stage));
    fill_buffers(plan, step, stage_index, stage);
    stage->fixed_bytes = plan_stage_weight_bytes(stage) + stage->state_fixed_bytes + stage->boundary_bytes +
                         stage->step_bytes + stage->draft_bytes;
    uint64_t usable = plan_usable_bytes(&plan->machine);
    uint64_t left = usable > stage->fixed_bytes ? usable - stage->fixed_bytes : 0;
    /* A stage without paged layers has room for any number; the index of a page has 31 bits. */
    uint64_t pages = stage->page_bytes == 0 ? INT32_MAX : left / stage->page_bytes;
    stage->page_count = pages < INT32_MAX ? (int64_t)pages : INT32_MAX;
    return STATUS_OK;
}

enum status plan_layer_bytes(const struct plan *plan, const struct plan_block *blocks, double *layer_bytes,
                             double *page_bytes) {
    int64_t pages = plan_pages_of(&plan->request, plan->request.context_tokens);
    for (int l = 0; l < plan->model->model->layer_count; l++) {
        struct state_table table;
        struct state_pool pool = {0};
        enum status status = describe_states(plan, l, l + 1, false, &pool, &table);
        if (status == STATUS_OK) {
            layer_bytes[l] = (double)plan_block_bytes(&blocks[l]) + (double)state_pool_bytes(&pool, pages);
            page_bytes[l] = (double)pool.page_bytes;
        }
        state_pool_deinit(&pool);
        free(table.kinds);
        TRY(status);
    }
    return STATUS_OK;
}

/* Pages that fit on the stage with least room, whose activations take what they take in `plan`. */
static enum status count_pages(const struct plan *plan, const struct plan_block *blocks, int64_t *pages) {
    *pages = INT64_MAX;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        const struct plan_stage *as_is = &plan->stages[s];
        const struct plan_step_bytes step = {
            .embedding = as_is->step_bytes, .layers = as_is->step_bytes, .head = as_is->step_bytes};
        struct plan_stage stage = {.first_layer = as_is->first_layer, .end_layer = as_is->end_layer};
        TRY(plan_stage_fill_memory(plan, blocks, &step, s, &stage));
        *pages = stage.page_count < *pages ? stage.page_count : *pages;
    }
    return STATUS_OK;
}

enum status plan_tokens_as_replicas(const struct plan *plan, int64_t *tokens) {
    struct plan other = *plan; /* borrows the stages */
    struct mesh_shape *mesh = &other.request.mesh;
    struct plan_block *blocks = calloc((size_t)plan->model->block_count, sizeof *blocks);
    CHECK_MEMORY(blocks);
    int64_t pages = 0;
    mesh->data *= mesh->tensor;
    mesh->has_expert_parallelism = true;
    other.request.sequence_limit = (other.request.sequence_limit + mesh->tensor - 1) / mesh->tensor;
    mesh->tensor = 1;
    enum status status = plan_blocks_make(plan->model, &other.request, blocks);
    status = status == STATUS_OK ? count_pages(&other, blocks, &pages) : status;
    bool fits = pages >= plan_pages_of(&other.request, other.request.context_tokens);
    *tokens = fits ? pages * other.request.page_tokens * mesh->data : 0;
    free(blocks);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static void append_part(struct string_buffer *text, const char *name, uint64_t bytes) {
    if (bytes > 0) {
        string_buffer_append_format(text, "%s%s %.2f", text->length == 0 ? "" : ", ", name,
                                    (double)bytes / 1e9);
    }
}

enum status plan_check_memory(const struct plan *plan) {
    const struct plan_stage *worst = NULL;
    int64_t pages = plan_pages_of(&plan->request, plan->request.context_tokens);
    uint64_t most = 0;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        uint64_t needed = stage->fixed_bytes + (uint64_t)pages * stage->page_bytes;
        if (needed > most) {
            most = needed;
            worst = stage;
        }
    }
    uint64_t usable = plan_usable_bytes(&plan->machine);
    if (most <= usable || worst == NULL) {
        return STATUS_OK;
    }
    struct string_buffer text = {0};
    append_part(&text, "weights", plan_stage_weight_bytes(worst));
    append_part(&text, "state of all sequences", worst->state_fixed_bytes);
    append_part(&text, "pages of one full sequence", (uint64_t)pages * worst->page_bytes);
    append_part(&text, "boundary buffers", worst->boundary_bytes);
    append_part(&text, "step", worst->step_bytes);
    append_part(&text, "draft buffers", worst->draft_bytes);
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        int stage = (int)(worst - plan->stages);
        status = STATUS_OUT_OF_MEMORY;
        error_raise(
            status, ERROR_HERE,
            "a rank of stage %d needs %.2f GB (%s), but %.2f of %.2f GB may be used: take more ranks, or "
            "lower --max-model-len, --max-num-seqs or --max-num-batched-tokens",
            stage, (double)most / 1e9, string_buffer_text(&text), (double)usable / 1e9,
            plan->machine.device.memory_bytes / 1e9);
    }
    string_buffer_deinit(&text);
    return status;
}
