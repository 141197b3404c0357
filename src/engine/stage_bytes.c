/* Tensors say by their stage where they are, states by their layer. */
#include "engine/stage_bytes.h"

#include <stdlib.h>

#include "base/arena.h"
#include "tensor/dtype.h"

enum { LIST_ARENA_BLOCK_BYTES = 1 << 20, BLOCKS_BESIDE_LAYERS = 3 };

static double stored_bytes(const struct tensor_spec *spec) {
    double bytes = (double)dtype_bytes(spec->dtype);
    for (int axis = 0; axis < spec->rank; axis++) {
        bytes *= (double)spec->shape[axis];
    }
    return bytes;
}

static void add_tensor(const struct model *model, const struct tensor_spec *spec, struct stage_bytes *out) {
    double bytes = spec->is_used ? stored_bytes(spec) : 0.0;
    bool drafts = model->draft_limit > 0;
    switch (spec->stage) {
    case STAGE_OF_LAYER:
        out->layer_bytes[spec->layer] += bytes;
        weight_work_add(model, spec, &out->layers[spec->layer]);
        return;
    case STAGE_FIRST_AND_DRAFT:
        out->last_bytes += drafts ? bytes : 0.0;
        out->first_bytes += bytes;
        weight_work_add(model, spec, out->first);
        return;
    case STAGE_FIRST:
        out->first_bytes += bytes;
        weight_work_add(model, spec, out->first);
        return;
    case STAGE_LAST:
        out->last_bytes += bytes;
        weight_work_add(model, spec, out->last);
        return;
    case STAGE_DRAFT:
        out->last_bytes += drafts ? bytes : 0.0;
        weight_work_add(model, spec, out->draft);
        return;
    }
}

static enum status sum_weights(struct model *model, struct stage_bytes *out) {
    struct arena arena;
    arena_init(&arena, LIST_ARENA_BLOCK_BYTES);
    struct tensor_spec_list list = {.arena = &arena};
    enum status status = model->family->list_tensors(model, NULL, &list);
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++) {
        add_tensor(model, &list.specs[i], out);
    }
    arena_deinit(&arena);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* State of one kind: all slots and one full sequence's pages, and one page. */
static enum status add_state(const struct stage_memory *memory, const struct state_kind *kind,
                             enum numerics numerics, double *bytes, double *page_bytes) {
    struct state_kind alone = *kind;
    const struct state_table table = {.kinds = &alone, .count = 1};
    struct state_pool pool = {0};
    enum status status = state_pool_init(&pool, NULL, &table, numerics, &memory->pool);
    if (status == STATUS_OK) {
        *bytes += (double)memory->pool.sequence_slot_count * (double)pool.slot_bytes +
                  (double)memory->pool.snapshot_slot_count * (double)pool.snapshot_bytes +
                  (double)pool.pages_per_slot * (double)pool.page_bytes;
        *page_bytes += (double)pool.page_bytes;
    }
    state_pool_deinit(&pool);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status sum_states(const struct stage_memory *memory, enum numerics numerics,
                              struct stage_bytes *out) {
    for (int i = 0; i < memory->states->count; i++) {
        const struct state_kind *kind = &memory->states->kinds[i];
        TRY(add_state(memory, kind, numerics,
                      kind->is_draft ? &out->last_bytes : &out->layer_bytes[kind->layer],
                      kind->is_draft ? &out->last_page_bytes : &out->layer_page_bytes[kind->layer]));
    }
    return STATUS_OK;
}

enum status stage_bytes_sum(struct model *model, enum numerics numerics, const struct stage_memory *memory,
                            struct stage_bytes *out) {
    size_t layers = (size_t)model->layer_count;
    *out = (struct stage_bytes){.layers = calloc(layers + BLOCKS_BESIDE_LAYERS, sizeof *out->layers),
                                .layer_bytes = calloc(layers, sizeof *out->layer_bytes),
                                .layer_page_bytes = calloc(layers, sizeof *out->layer_page_bytes)};
    CHECK_MEMORY(out->layers);
    CHECK_MEMORY(out->layer_bytes);
    CHECK_MEMORY(out->layer_page_bytes);
    out->first = &out->layers[layers];
    out->last = out->first + 1;
    out->draft = out->last + 1;
    TRY(sum_weights(model, out));
    return sum_states(memory, numerics, out);
}

void stage_bytes_deinit(struct stage_bytes *bytes) {
    free(bytes->layers);
    free(bytes->layer_bytes);
    free(bytes->layer_page_bytes);
}
