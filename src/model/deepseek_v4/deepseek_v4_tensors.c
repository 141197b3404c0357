/* Evaluates the tensor table with a configuration, and binds what was loaded. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/deepseek_v4/deepseek_v4.h"
#include "model/deepseek_v4/deepseek_v4_tensor_table.h"

/* Where the rows of one table go. */
struct listing {
    struct deepseek_v4 *model;
    struct tensor_spec_list *list;
    const char *prefix;
    enum placement_stage stage;
    int layer;
    int64_t ratio;
    bool is_hash_routed;
    bool is_used;
    bool has_fp8_experts;
};

static int64_t dim_value(const struct listing *listing, enum dim dim) {
    const struct deepseek_v4_config *config = &listing->model->config;
    int64_t halves = listing->ratio == RATIO_INDEXED ? 2 : 1;
    switch (dim) {
    case DIM_NONE:
        return 0;
    case DIM_ONE:
        return 1;
    case DIM_THREE:
        return 3;
    case DIM_VOCABULARY:
        return config->vocabulary_size;
    case DIM_HIDDEN:
        return config->hidden_size;
    case DIM_STREAMS:
        return config->stream_count;
    case DIM_STREAMS_HIDDEN:
        return config->stream_count * config->hidden_size;
    case DIM_MIXES:
        return (2 + config->stream_count) * config->stream_count;
    case DIM_HEADS:
        return config->head_count;
    case DIM_HEAD:
        return config->head_dim;
    case DIM_HEADS_ALL:
        return config->head_count * config->head_dim;
    case DIM_Q_RANK:
        return config->q_rank;
    case DIM_OUTPUT_RANK_ALL:
        return config->output_groups * config->output_rank;
    case DIM_GROUP_INPUT:
        return config->head_count * config->head_dim / config->output_groups;
    case DIM_EXPERTS:
        return config->expert_count;
    case DIM_PICKS:
        return config->expert_picks;
    case DIM_INNER:
        return config->inner_size;
    case DIM_RATIO:
        return listing->ratio;
    case DIM_COMPRESSOR:
        return halves * config->head_dim;
    case DIM_INDEX_ALL:
        return config->index_head_count * config->index_head_dim;
    case DIM_INDEX_HEADS:
        return config->index_head_count;
    case DIM_INDEX:
        return config->index_head_dim;
    case DIM_INDEX_COMPRESSOR:
        return halves * config->index_head_dim;
    case DIM_MARKOV:
        return config->dspark_markov_rank;
    case DIM_TARGETS_HIDDEN:
        return config->dspark_target_count * config->hidden_size;
    case DIM_HIDDEN_MARKOV:
        return config->hidden_size + config->dspark_markov_rank;
    }
    return 0;
}

/* Rows (or columns) that a cut may not tear apart. */
static int unit_value(const struct listing *listing, enum unit unit) {
    const struct deepseek_v4_config *config = &listing->model->config;
    switch (unit) {
    case UNIT_ONE:
    case UNIT_SINK:
        return 1;
    case UNIT_BLOCK:
        return WEIGHT_FP8_BLOCK;
    case UNIT_HEAD:
        return (int)config->head_dim;
    case UNIT_GROUP:
        return (int)config->output_rank;
    }
    return 1;
}

/* What units are that each rank must have equally many of: what is made of them is shared by them too. */
static const char *even_units(enum unit unit) {
    switch (unit) {
    case UNIT_ONE:
    case UNIT_BLOCK:
        break;
    case UNIT_SINK:
    case UNIT_HEAD:
        return "attention heads (num_attention_heads)";
    case UNIT_GROUP:
        return "output groups (o_groups)";
    }
    return NULL;
}

/*
 * Leaves of a weight's sums. Where columns may be cut there are as many as the largest legal cut has parts,
 * on any number of ranks: one per output group (folded if there are more than LEAF_COUNT_MAX), else blocks
 * folded into LEAF_COUNT_MAX. Groups that are no whole blocks are cut at blocks only (parallelism 1.5).
 */
static int leaf_count(const struct listing *listing, enum placement placement, enum unit unit) {
    const struct deepseek_v4_config *config = &listing->model->config;
    if (placement != PLACEMENT_SPLIT_COLUMNS) {
        return 1;
    }
    bool is_by_group = unit == UNIT_GROUP && config->output_rank % LEAF_BLOCK == 0 &&
                       config->output_groups <= LEAF_COUNT_MAX;
    return is_by_group ? (int)config->output_groups : LEAF_COUNT_MAX;
}

static bool is_present(const struct listing *listing, enum condition condition) {
    switch (condition) {
    case ALWAYS:
        return true;
    case IF_COMPRESSED:
        return listing->ratio != 0;
    case IF_INDEXED:
        return listing->ratio == RATIO_INDEXED;
    case IF_HASH_ROUTED:
        return listing->is_hash_routed;
    case IF_SCORE_ROUTED:
        return !listing->is_hash_routed;
    }
    return false;
}

/* Remembers which weight the list's last record fills. */
static enum status add_binding(struct deepseek_v4 *model, const struct tensor_spec_list *list,
                               struct weight *weight) {
    size_t index = list->count - 1;
    if (index >= model->binding_count) {
        size_t count = model->binding_count == 0 ? 256 : 2 * model->binding_count;
        struct weight **bindings = ARENA_NEW(model->arena, struct weight *, count);
        CHECK_MEMORY(bindings);
        if (model->bindings != NULL) {
            memcpy(bindings, model->bindings, index * sizeof *bindings);
        }
        model->bindings = bindings;
        model->binding_count = count;
    }
    model->bindings[index] = weight;
    return STATUS_OK;
}

/* Appends a record with the listing's common fields. */
static enum status add_record(const struct listing *listing, const char *name, struct weight *weight,
                              struct tensor_spec **out) {
    size_t index;
    TRY(tensor_spec_list_add(listing->list, &index));
    TRY(add_binding(listing->model, listing->list, weight));
    struct tensor_spec *spec = &listing->list->specs[index];
    spec->name = name;
    spec->stage = listing->stage;
    spec->layer = listing->layer;
    spec->is_used = listing->is_used;
    *out = spec;
    return STATUS_OK;
}

static int64_t divide_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* Appends the scales of the matrix that was appended last. */
static enum status add_scales(const struct listing *listing, struct weight *weight) {
    size_t matrix_index = listing->list->count - 1;
    struct tensor_spec matrix = listing->list->specs[matrix_index];
    size_t stem = strlen(matrix.name) - strlen("weight");
    char *name = arena_format(listing->list->arena, "%.*sscale", (int)stem, matrix.name);
    CHECK_MEMORY(name);
    struct tensor_spec *spec;
    TRY(add_record(listing, name, weight, &spec));
    listing->list->specs[matrix_index].partner = (int)(listing->list->count - 1);
    spec->role = TENSOR_BLOCK_SCALE;
    spec->dtype = DTYPE_F8_E8M0;
    spec->other_dtypes = DTYPE_BIT(DTYPE_F32);
    spec->partner = (int)matrix_index;
    spec->rank = 2;
    spec->placement = matrix.placement;
    spec->inner_placement = matrix.inner_placement;
    spec->expert = matrix.expert;
    if (matrix.role == TENSOR_FP4_MATRIX) {
        spec->shape[0] = matrix.shape[0];
        spec->shape[1] = 2 * matrix.shape[1] / WEIGHT_FP4_GROUP;
    } else {
        spec->shape[0] = divide_up(matrix.shape[0], WEIGHT_FP8_BLOCK);
        spec->shape[1] = divide_up(matrix.shape[1], WEIGHT_FP8_BLOCK);
    }
    return STATUS_OK;
}

static void fill_storage(struct tensor_spec *spec, enum storage storage) {
    switch (storage) {
    case STORAGE_BF16:
        spec->dtype = DTYPE_BF16;
        break;
    case STORAGE_F32:
        spec->dtype = DTYPE_F32;
        break;
    case STORAGE_FP8:
        spec->role = TENSOR_FP8_MATRIX;
        spec->dtype = DTYPE_F8_E4M3;
        break;
    case STORAGE_TABLE:
        spec->role = TENSOR_EXPERT_TABLE;
        spec->dtype = DTYPE_I64;
        break;
    }
}

/* Describes the weight that a record fills, as the record says; data, scales and cuts follow at bind. */
static void describe_weight(struct weight *weight, const struct tensor_spec *spec, int64_t rows,
                            int64_t columns) {
    enum weight_format format = WEIGHT_PLAIN;
    if (spec->role == TENSOR_FP8_MATRIX) {
        format = WEIGHT_FP8;
    } else if (spec->role == TENSOR_FP4_MATRIX) {
        format = WEIGHT_FP4;
    }
    *weight = (struct weight){.name = spec->name, .format = format, .dtype = spec->dtype};
    weight->rows = rows;
    weight->columns = columns;
    weight->leaves = leaves_whole(columns, spec->leaf_count);
}

/* Says how a record may be cut between ranks. */
static void fill_cut(const struct listing *listing, struct tensor_spec *spec, enum placement placement,
                     enum unit unit) {
    spec->placement_unit = unit_value(listing, unit);
    spec->even_units = even_units(unit);
    spec->leaf_count = leaf_count(listing, placement, unit);
}

/* Appends one row's tensor (and scales). `base` is the struct that the row's target lies in, NULL for none.
 */
static enum status add_row(const struct listing *listing, const struct tensor_row *row, void *base) {
    if (!is_present(listing, row->condition)) {
        return STATUS_OK;
    }
    char *name = arena_format(listing->list->arena, "%s%s", listing->prefix, row->name);
    CHECK_MEMORY(name);
    struct weight *weight = base == NULL ? NULL : (struct weight *)(void *)((char *)base + row->target);
    struct tensor_spec *spec;
    TRY(add_record(listing, name, weight, &spec));
    fill_storage(spec, row->storage);
    int64_t rows = dim_value(listing, row->rows);
    int64_t columns = dim_value(listing, row->columns);
    spec->rank = row->columns == DIM_NONE ? 1 : 2;
    spec->shape[0] = rows;
    spec->shape[1] = columns;
    spec->placement = row->placement;
    fill_cut(listing, spec, row->placement, row->unit);
    spec->is_shared_expert = row->unit == UNIT_BLOCK; /* nothing else in these tables is cut at blocks */
    spec->value_limit = listing->model->config.expert_count;
    if (weight != NULL) {
        describe_weight(weight, spec, row->columns == DIM_NONE ? 1 : rows,
                        row->columns == DIM_NONE ? rows : columns);
    }
    return row->storage == STORAGE_FP8 ? add_scales(listing, weight) : STATUS_OK;
}

static enum status add_rows(const struct listing *listing, const struct tensor_table *table, void *base) {
    for (size_t i = 0; i < table->count; i++) {
        TRY(add_row(listing, &table->rows[i], base));
    }
    return STATUS_OK;
}

/* Appends one expert's matrix; FP4 packs two inputs a byte. */
static enum status add_expert(const struct listing *listing, const struct expert_row *row, int64_t expert,
                              struct weight *weight) {
    char *name = arena_format(listing->list->arena, "%sffn.experts.%lld.%s.weight", listing->prefix,
                              (long long)expert, row->name);
    CHECK_MEMORY(name);
    struct tensor_spec *spec;
    TRY(add_record(listing, name, weight, &spec));
    int64_t rows = dim_value(listing, row->rows);
    int64_t columns = dim_value(listing, row->columns);
    spec->role = listing->has_fp8_experts ? TENSOR_FP8_MATRIX : TENSOR_FP4_MATRIX;
    spec->dtype = listing->has_fp8_experts ? DTYPE_F8_E4M3 : DTYPE_I8;
    spec->rank = 2;
    spec->shape[0] = rows;
    spec->shape[1] = listing->has_fp8_experts ? columns : columns / 2;
    spec->placement = PLACEMENT_SPLIT_EXPERTS;
    spec->inner_placement = row->inner_placement;
    spec->expert = (int)expert;
    fill_cut(listing, spec, row->inner_placement, row->unit);
    if (weight != NULL) {
        describe_weight(weight, spec, rows, columns);
    }
    return add_scales(listing, weight);
}

static enum status add_experts(const struct listing *listing, struct deepseek_v4_layer *layer) {
    int64_t count = listing->model->config.expert_count;
    struct weight *arrays[EXPERT_TENSORS] = {NULL};
    for (size_t r = 0; layer != NULL && r < EXPERT_TENSORS; r++) {
        arrays[r] = ARENA_NEW(listing->model->arena, struct weight, (size_t)count);
        CHECK_MEMORY(arrays[r]);
        memcpy((char *)layer + deepseek_v4_expert_rows[r].target, &arrays[r], sizeof arrays[r]);
    }
    for (int64_t e = 0; e < count; e++) {
        for (size_t r = 0; r < EXPERT_TENSORS; r++) {
            TRY(add_expert(listing, &deepseek_v4_expert_rows[r], e,
                           arrays[r] == NULL ? NULL : &arrays[r][e]));
        }
    }
    return STATUS_OK;
}

/* All tensors of one block. `layer` NULL: the block is known but not used here. */
static enum status add_layer(const struct listing *listing, struct deepseek_v4_layer *layer) {
    TRY(add_rows(listing, &deepseek_v4_layer_table, layer));
    return add_experts(listing, layer);
}

/* Layers of other stages are known, but have no weights here. */
static enum status list_layers(struct deepseek_v4 *model, struct listing *listing) {
    const struct model_stage *stage = &model->base.stage;
    for (int l = 0; l < model->base.layer_count; l++) {
        bool is_own = l >= stage->first_layer && l < stage->end_layer;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "layers.%d.", l);
        listing->prefix = prefix;
        listing->layer = l;
        listing->ratio = model->layers[l].ratio;
        listing->is_hash_routed = model->layers[l].is_hash_routed;
        TRY(add_layer(listing, is_own ? &model->layers[l] : NULL));
    }
    return STATUS_OK;
}

/* The listing of draft tensors: window-only, routed by score, on the last stage. */
static struct listing draft_listing(const struct listing *layers, int index, const char *prefix) {
    struct listing listing = *layers;
    listing.prefix = prefix;
    listing.stage = STAGE_DRAFT;
    listing.layer = layers->model->base.layer_count + index;
    listing.ratio = 0;
    listing.is_hash_routed = false;
    listing.is_used = layers->model->base.draft_limit > 0;
    return listing;
}

static enum status list_mtp(struct deepseek_v4 *model, const struct listing *layers) {
    struct listing listing = draft_listing(layers, 0, "mtp.0.");
    struct deepseek_v4_draft *draft = deepseek_v4_has_draft(model) ? &model->draft : NULL;
    TRY(add_layer(&listing, draft == NULL ? NULL : &draft->layer));
    return add_rows(&listing, &deepseek_v4_draft_table, draft);
}

static enum status list_dspark(const struct listing *layers, int64_t stage_count) {
    for (int s = 0; s < stage_count; s++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "mtp.%d.", s);
        struct listing listing = draft_listing(layers, s, prefix);
        TRY(add_layer(&listing, NULL));
        if (s == 0) {
            TRY(add_rows(&listing, &deepseek_v4_dspark_first_table, NULL));
        }
        if (s == stage_count - 1) {
            TRY(add_rows(&listing, &deepseek_v4_dspark_last_table, NULL));
        }
    }
    return STATUS_OK;
}

/* Draft tensors, unless the files have none and nobody asked for drafting. */
static enum status list_draft(struct deepseek_v4 *model, const struct tensor_probe *probe,
                              const struct listing *layers) {
    bool is_in_files =
        probe == NULL || probe->dtype_of(probe->context, "mtp.0.attn_norm.weight") != DTYPE_COUNT;
    if (!is_in_files && model->base.draft_limit == 0) {
        return STATUS_OK;
    }
    switch (model->config.drafter) {
    case DRAFTER_MTP:
        return list_mtp(model, layers);
    case DRAFTER_DSPARK:
        return list_dspark(layers, model->config.dspark_stage_count);
    case DRAFTER_NONE:
        break;
    }
    return STATUS_OK;
}

/* The files say how experts are stored, whatever the configuration claims (spec 1.4). */
static bool has_fp8_experts(const struct deepseek_v4 *model, const struct tensor_probe *probe) {
    if (probe == NULL) {
        return model->config.has_fp8_experts;
    }
    return probe->dtype_of(probe->context, "layers.0.ffn.experts.0.w1.weight") == DTYPE_F8_E4M3;
}

/* Converted copies repeat the shared embedding and head under the draft layer (spec 3.2). */
static const char *const tolerated_patterns[] = {"mtp.*.emb*", "mtp.*.head.weight", NULL};

enum status deepseek_v4_list_tensors(struct model *base, const struct tensor_probe *probe,
                                     struct tensor_spec_list *list) {
    struct deepseek_v4 *model = (struct deepseek_v4 *)(void *)base;
    assert(model != NULL);
    struct listing listing = {.model = model, .list = list, .prefix = "", .layer = -1, .is_used = true};
    listing.has_fp8_experts = has_fp8_experts(model, probe);
    list->tolerated_patterns = tolerated_patterns;
    for (size_t i = 0; i < MODEL_TENSORS; i++) {
        listing.stage = deepseek_v4_model_rows[i].stage;
        TRY(add_row(&listing, &deepseek_v4_model_rows[i].row, model));
    }
    listing.stage = STAGE_OF_LAYER;
    TRY(list_layers(model, &listing));
    return list_draft(model, probe, &listing);
}
