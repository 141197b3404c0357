/* Cut shapes go through the same sums as whole ones: bytes held and bytes read cannot disagree. */
#include "tools/plan_model.h"

#include <stdio.h>
#include <string.h>

#include "lib/json.h"
#include "model/model_registry.h"
#include "parallel/shard.h"

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    ARENA_BLOCK_BYTES = 1 << 20,
    FP8_BLOCK = 128,
    FP4_GROUP = 32,
    FP4_CODES_PER_BYTE = 2,
    EXTRA_BLOCKS = 3,
};

const char *plan_weights_name(enum plan_weights kind) {
    static const char *const names[PLAN_WEIGHTS_COUNT] = {
        [PLAN_ATTENTION] = "attention",
        [PLAN_COMPRESSORS] = "compressors",
        [PLAN_EXPERTS] = "experts",
        [PLAN_SHARED_EXPERTS] = "shared experts",
        [PLAN_ROUTERS] = "routers",
        [PLAN_STREAM_MIXES] = "stream mixes",
        [PLAN_NORMS] = "norms",
        [PLAN_EMBEDDING] = "embedding",
        [PLAN_HEAD] = "head",
        [PLAN_DRAFT_LAYER] = "draft layer",
        [PLAN_DRAFT_EMBEDDING] = "embedding for drafts",
    };
    return names[kind];
}

/* By name, first match first: the official names of both families. */
static enum plan_weights kind_of(const struct tensor_spec *spec) {
    static const struct {
        const char *part;
        enum plan_weights kind;
    } names[] = {
        {"hc_", PLAN_STREAM_MIXES},      {".compressor.", PLAN_COMPRESSORS},
        {".indexer.", PLAN_COMPRESSORS}, {"shared_experts.", PLAN_SHARED_EXPERTS},
        {".experts.", PLAN_EXPERTS},     {".gate.", PLAN_ROUTERS},
        {"norm.", PLAN_NORMS},
    };
    if (spec->stage == STAGE_DRAFT) {
        return PLAN_DRAFT_LAYER;
    }
    if (spec->placement == PLACEMENT_SPLIT_VOCABULARY) {
        return spec->stage == STAGE_LAST ? PLAN_HEAD : PLAN_EMBEDDING;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strstr(spec->name, names[i].part) != NULL) {
            return names[i].kind;
        }
    }
    return PLAN_ATTENTION;
}

static int block_of(const struct plan_model *model, const struct tensor_spec *spec) {
    switch (spec->stage) {
    case STAGE_OF_LAYER:
        return spec->layer;
    case STAGE_FIRST:
    case STAGE_FIRST_AND_DRAFT:
        return plan_block_first(model);
    case STAGE_LAST:
        return plan_block_last(model);
    case STAGE_DRAFT:
        return plan_block_draft(model);
    }
    return plan_block_last(model);
}

/* Takes a spec or not: unused ones are not, and of a block's experts, listed one by one, only the first is.
 */
static bool is_taken(const struct plan_model *model, const struct tensor_spec *spec, size_t *experts_seen,
                     const size_t *expert_specs) {
    int block = block_of(model, spec);
    if (!spec->is_used || spec->placement != PLACEMENT_SPLIT_EXPERTS) {
        return spec->is_used;
    }
    return experts_seen[block]++ < expert_specs[block] / (size_t)model->model->expert_count;
}

/* Counts first, then copies: blocks lie one after the other. */
static void fill_blocks(struct plan_model *model, size_t *experts_seen, const size_t *expert_specs) {
    size_t zeroed = (size_t)model->block_count * sizeof *experts_seen;
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        model->blocks[block_of(model, spec)].count += is_taken(model, spec, experts_seen, expert_specs);
    }
    for (int b = 1; b < model->block_count; b++) {
        model->blocks[b].first = model->blocks[b - 1].first + model->blocks[b - 1].count;
        model->blocks[b - 1].count = 0;
    }
    model->blocks[model->block_count - 1].count = 0;
    memset(experts_seen, 0, zeroed);
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        struct plan_block_specs *block = &model->blocks[block_of(model, spec)];
        if (is_taken(model, spec, experts_seen, expert_specs)) {
            model->specs[block->first + block->count++] = *spec;
        }
    }
}

static enum status condense(struct plan_model *model) {
    model->block_count = model->model->layer_count + EXTRA_BLOCKS;
    size_t blocks = (size_t)model->block_count;
    model->blocks = ARENA_NEW(&model->arena, struct plan_block_specs, blocks);
    size_t *experts_seen = ARENA_NEW(&model->arena, size_t, blocks);
    size_t *expert_specs = ARENA_NEW(&model->arena, size_t, blocks);
    model->specs = ARENA_NEW(&model->arena, struct tensor_spec, model->list.count);
    CHECK_MEMORY(model->blocks);
    CHECK_MEMORY(experts_seen);
    CHECK_MEMORY(expert_specs);
    CHECK_MEMORY(model->specs);
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        expert_specs[block_of(model, spec)] += spec->is_used && spec->placement == PLACEMENT_SPLIT_EXPERTS;
    }
    fill_blocks(model, experts_seen, expert_specs);
    return STATUS_OK;
}

/* What layouts are checked against, from the shapes: each head has a sink, each group a unit of columns. */
static void find_axes(struct plan_model *model) {
    for (size_t i = 0; i < model->list.count; i++) {
        const struct tensor_spec *spec = &model->list.specs[i];
        bool is_matrix = spec->rank == 2 && spec->role != TENSOR_BLOCK_SCALE;
        model->hash_layer_count += spec->role == TENSOR_EXPERT_TABLE;
        if (spec->layer == 0 && spec->placement == PLACEMENT_SPLIT_ROWS && spec->rank == 1) {
            model->head_count = spec->shape[0];
        }
        if (spec->layer == 0 && spec->placement == PLACEMENT_SPLIT_COLUMNS && is_matrix &&
            kind_of(spec) == PLAN_ATTENTION) {
            model->group_count = spec->shape[1] / spec->placement_unit;
        }
    }
}

static enum status list_model(const struct json *config, const struct tensor_probe *probe, int draft_limit,
                              struct plan_model *out) {
    const struct model_family *family;
    const struct model_request request = {.draft_limit = draft_limit};
    TRY(model_family_find(config, &family));
    TRY(family->create(&out->arena, config, &request, &out->model));
    TRY(family->list_tensors(out->model, probe, &out->list));
    TRY(family->list_states(out->model, &out->states));
    TRY(condense(out));
    find_axes(out);
    return STATUS_OK;
}

enum status plan_model_read(const char *config_path, const struct tensor_probe *probe, int draft_limit,
                            struct plan_model *out) {
    *out = (struct plan_model){0};
    arena_init(&out->arena, ARENA_BLOCK_BYTES);
    out->list.arena = &out->arena;
    out->states.arena = &out->arena;
    struct json *config;
    TRY(json_parse_file(config_path, CONFIG_BYTES_MAX, &config));
    enum status status = list_model(config, probe, draft_limit, out);
    json_free(&config);
    if (status != STATUS_OK) {
        /* The family knows the keys but not the file. The record is copied because raising overwrites it. */
        char message[ERROR_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", error_last()->message);
        FAIL(status, "%s: %s", config_path, message);
    }
    return STATUS_OK;
}

void plan_model_deinit(struct plan_model *model) {
    arena_deinit(&model->arena);
    *model = (struct plan_model){0};
}

/* Elements of a matrix that one stored element of a tensor stands for along an axis. */
static int64_t elements_per_stored(const struct tensor_spec *spec, const struct tensor_spec *matrix,
                                   int axis) {
    if (spec->role != TENSOR_BLOCK_SCALE) {
        return spec->role == TENSOR_FP4_MATRIX && axis == 1 ? FP4_CODES_PER_BYTE : 1;
    }
    if (matrix->role == TENSOR_FP4_MATRIX) {
        return axis == 1 ? FP4_GROUP : 1;
    }
    return FP8_BLOCK;
}

/* Experts cut inside: gate and up by rows, down by columns, at blocks (G-10). */
static int expert_axis(const struct plan_model *model, const struct tensor_spec *matrix) {
    return matrix->shape[0] == model->model->hidden_size;
}

struct tensor_spec plan_spec_cut(const struct plan_model *model, const struct tensor_spec *spec,
                                 const struct shard_layout *layout) {
    const struct mesh_shape *mesh = &layout->mesh;
    const struct mesh_place *place = &layout->place;
    const struct tensor_spec *matrix =
        spec->role == TENSOR_BLOCK_SCALE ? &model->list.specs[spec->partner] : spec;
    int64_t unit = matrix->placement_unit;
    struct tensor_spec cut = *spec;
    int axis = 0;
    if (matrix->is_shared_expert && layout->has_whole_shared_experts) {
        return cut;
    }
    switch (spec->placement) {
    case PLACEMENT_REPLICATED:
        return cut;
    case PLACEMENT_SPLIT_VOCABULARY:
        if (spec->stage == STAGE_LAST) {
            cut.shape[0] = shard_cut_vocabulary(spec->shape[0], place->tensor, mesh->tensor).count;
        }
        return cut; /* an embedding is whole: its readers look up single rows */
    case PLACEMENT_SPLIT_EXPERTS:
        if (mesh->has_expert_parallelism) {
            return cut;
        }
        axis = expert_axis(model, matrix);
        unit = FP8_BLOCK;
        break;
    case PLACEMENT_SPLIT_ROWS:
        break;
    case PLACEMENT_SPLIT_COLUMNS:
        axis = 1;
        break;
    }
    int64_t length = matrix->shape[axis] * elements_per_stored(matrix, matrix, axis);
    int64_t step = elements_per_stored(spec, matrix, axis);
    struct shard_range range = shard_cut(length, unit, place->tensor, mesh->tensor);
    /* Scales have the blocks of their matrix (G-11). */
    cut.shape[axis] = (range.first + range.count + step - 1) / step - range.first / step;
    return cut;
}

static uint64_t spec_bytes(const struct tensor_spec *spec) {
    uint64_t bytes = dtype_bytes(spec->dtype);
    for (int axis = 0; axis < spec->rank; axis++) {
        bytes *= (uint64_t)spec->shape[axis];
    }
    return bytes;
}

uint64_t plan_block_bytes(const struct plan_block *block) {
    uint64_t bytes = 0;
    for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
        bytes += block->weight_bytes[kind];
    }
    return bytes;
}

/* Experts of a layer that the rank has a part of. */
static int64_t local_experts(const struct plan_model *model, const struct shard_layout *layout) {
    int64_t count = model->model->expert_count;
    return layout->mesh.has_expert_parallelism
               ? shard_cut_experts(count + layout->expert_copies, layout->place.expert,
                                   mesh_group_size(&layout->mesh, MESH_GROUP_EXPERT))
                     .count
               : count;
}

enum status plan_block_make(const struct plan_model *model, int block, const struct shard_layout *layout,
                            struct plan_block *out) {
    enum { SPECS_MAX = 256 };
    const struct plan_block_specs *specs = &model->blocks[block];
    struct tensor_spec cut[SPECS_MAX];
    struct tensor_spec_list view = {.specs = cut, .count = specs->count};
    int64_t experts = local_experts(model, layout);
    *out = (struct plan_block){0};
    CHECK(specs->count <= SPECS_MAX, STATUS_UNSUPPORTED,
          "a layer has %zu tensors besides its experts, expected at most %d", specs->count, SPECS_MAX);
    for (size_t i = 0; i < specs->count; i++) {
        const struct tensor_spec *spec = &model->specs[specs->first + i];
        bool is_expert = spec->placement == PLACEMENT_SPLIT_EXPERTS;
        cut[i] = plan_spec_cut(model, spec, layout);
        out->weight_bytes[kind_of(spec)] += spec_bytes(&cut[i]) * (is_expert ? (uint64_t)experts : 1);
    }
    weight_work_sum(model->model, &view, &out->work);
    /* The list held one expert, and work is per expert of the layer: spread the local ones over all. */
    out->work.expert_bytes *= (double)experts;
    out->work.expert_operations *= (double)experts;
    return STATUS_OK;
}
