/* Creation of a model, its state table and its boundary. */
#include <assert.h>

#include "model/deepseek_v4/deepseek_v4.h"

static enum status check_request(const struct deepseek_v4_config *config,
                                 const struct model_request *request) {
    if (request->draft_limit == 0) {
        return STATUS_OK;
    }
    CHECK(config->drafter != DRAFTER_DSPARK, STATUS_UNSUPPORTED,
          "this checkpoint drafts with DSpark (dspark_block_size in config.json), which is not implemented: "
          "load it "
          "with num_speculative_tokens 0");
    CHECK(config->drafter == DRAFTER_MTP, STATUS_UNSUPPORTED,
          "speculative decoding is on (num_speculative_tokens %d), but the checkpoint has no MTP layer "
          "(num_nextn_predict_layers is 0)",
          request->draft_limit);
    return STATUS_OK;
}

static enum status create_layers(struct deepseek_v4 *model) {
    const struct deepseek_v4_config *config = &model->config;
    model->layers = ARENA_NEW(model->arena, struct deepseek_v4_layer, (size_t)config->layer_count);
    CHECK_MEMORY(model->layers);
    for (int64_t l = 0; l < config->layer_count; l++) {
        model->layers[l].ratio = config->ratios[l];
        model->layers[l].is_hash_routed = l < config->hash_layer_count;
    }
    return STATUS_OK;
}

static struct model_stage whole_model(const struct deepseek_v4_config *config) {
    return (struct model_stage){.end_layer = (int)config->layer_count, .is_first = true, .is_last = true};
}

enum status deepseek_v4_create(struct arena *arena, const struct json *config,
                               const struct model_request *request, struct model **out) {
    struct deepseek_v4 *model = ARENA_NEW(arena, struct deepseek_v4, 1);
    CHECK_MEMORY(model);
    model->arena = arena;
    TRY(deepseek_v4_config_parse(arena, config, &model->config));
    TRY(check_request(&model->config, request));
    model->base = (struct model){
        .family = &deepseek_v4_family,
        .vocabulary_size = model->config.vocabulary_size,
        .hidden_size = model->config.hidden_size,
        .position_limit = model->config.position_limit,
        .expert_count = model->config.expert_count,
        .expert_picks = model->config.expert_picks,
        .shared_expert_bytes = 3 * model->config.inner_size * model->config.hidden_size,
        .held_experts = model->config.expert_count,
        .stage = request->stage == NULL ? whole_model(&model->config) : *request->stage,
        .layer_count = (int)model->config.layer_count,
        .draft_limit = request->draft_limit,
        .has_draft_layer = model->config.drafter == DRAFTER_MTP,
    };
    assert(model->base.stage.first_layer >= 0 && model->base.stage.end_layer <= model->base.layer_count);
    int pairs = (int)(model->config.rotary_dim / 2);
    rope_table_init(&model->plain_rope, pairs, model->config.rope_theta, NULL);
    rope_table_init(&model->compress_rope, pairs, model->config.compress_rope_theta,
                    &model->config.rope_scaling);
    TRY(create_layers(model));
    *out = &model->base;
    return STATUS_OK;
}

/* The window ring keeps room for the drafts of one round (parallelism M-22). */
static enum status add_window(const struct deepseek_v4 *model, struct state_table *table, int layer,
                              struct deepseek_v4_layer *target) {
    struct state_kind kind = {.name = "window", .layer = layer, .shape = STATE_RING, .row = ROW_KIND_KV};
    kind.is_draft = layer >= model->base.layer_count;
    kind.rows = model->config.window + model->base.draft_limit;
    kind.width = model->config.head_dim;
    kind.plain_width = model->config.rotary_dim;
    return state_table_add(table, &kind, &target->window_state);
}

/* Raw rows of the tokens that unfinished (and, with overlap, previous) blocks need, and the entries. */
static enum status add_compressor(const struct deepseek_v4 *model, struct state_table *table, int layer,
                                  int64_t ratio, bool is_index, struct deepseek_v4_compressor *target) {
    int64_t width = is_index ? model->config.index_head_dim : model->config.head_dim;
    int64_t halves = ratio == RATIO_INDEXED ? 2 : 1;
    struct state_kind raw = {.layer = layer, .shape = STATE_RING, .row = ROW_KIND_FLOAT};
    raw.name = is_index ? "index raw" : "raw";
    raw.rows = halves * ratio + model->base.draft_limit;
    raw.width = 2 * halves * width;
    /* Without overlap a finished block is pooled and done with. */
    raw.snapshot_period = halves == 1 ? ratio : 0;
    TRY(state_table_add(table, &raw, &target->raw_state));
    struct state_kind entries = {.layer = layer, .shape = STATE_APPEND, .ratio = ratio, .width = width};
    entries.name = is_index ? "index" : "compressed";
    entries.row = is_index ? ROW_KIND_INDEX : ROW_KIND_KV;
    entries.plain_width = is_index ? 0 : model->config.rotary_dim;
    return state_table_add(table, &entries, &target->entry_state);
}

enum status deepseek_v4_list_states(struct model *base, struct state_table *table) {
    struct deepseek_v4 *model = (struct deepseek_v4 *)(void *)base;
    for (int l = base->stage.first_layer; l < base->stage.end_layer; l++) {
        struct deepseek_v4_layer *layer = &model->layers[l];
        TRY(add_window(model, table, l, layer));
        if (layer->ratio != 0) {
            TRY(add_compressor(model, table, l, layer->ratio, false, &layer->compressor));
        }
        if (layer->ratio == RATIO_INDEXED) {
            TRY(add_compressor(model, table, l, layer->ratio, true, &layer->indexer.compressor));
        }
    }
    if (deepseek_v4_has_draft(model)) {
        TRY(add_window(model, table, model->base.layer_count, &model->draft.layer));
    }
    return STATUS_OK;
}

void deepseek_v4_describe_boundary(const struct model *base, enum dtype activation, int64_t rows,
                                   struct boundary *out) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    *out = (struct boundary){.count = 1, .names = {"streams"}};
    out->tensors[0] = (struct tensor){.dtype = activation, .rank = 3};
    out->tensors[0].shape[0] = rows;
    out->tensors[0].shape[1] = model->config.stream_count;
    out->tensors[0].shape[2] = model->config.hidden_size;
}

void deepseek_v4_describe(const struct model *base, struct string_buffer *out) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    const struct deepseek_v4_config *config = &model->config;
    int window_only = 0;
    int indexed = 0;
    for (int l = 0; l < base->layer_count; l++) {
        window_only += config->ratios[l] == 0;
        indexed += config->ratios[l] == RATIO_INDEXED;
    }
    static const char *const drafters[] = {"no draft layer", "one MTP layer", "a DSpark drafter"};
    string_buffer_append_format(
        out,
        "%d layers (%d window-only, %d compressed with indexer, %d compressed), hidden %lld x %lld streams, "
        "%lld heads of "
        "%lld, %lld experts (%lld picked, first %lld layers by token id), window %lld, vocabulary %lld, %s",
        base->layer_count, window_only, indexed, base->layer_count - window_only - indexed,
        (long long)config->hidden_size, (long long)config->stream_count, (long long)config->head_count,
        (long long)config->head_dim, (long long)config->expert_count, (long long)config->expert_picks,
        (long long)config->hash_layer_count, (long long)config->window, (long long)config->vocabulary_size,
        drafters[config->drafter]);
}

const struct model_family deepseek_v4_family = {
    .model_type = "deepseek_v4",
    .create = deepseek_v4_create,
    .list_tensors = deepseek_v4_list_tensors,
    .bind = deepseek_v4_bind,
    .list_states = deepseek_v4_list_states,
    .describe_boundary = deepseek_v4_describe_boundary,
    .forward_embed = deepseek_v4_forward_embed,
    .forward_layers = deepseek_v4_forward_layers,
    .forward_head = deepseek_v4_forward_head,
    .forward_draft = deepseek_v4_forward_draft,
    .forward_draft_state = deepseek_v4_forward_draft_state,
    .forward_draft_head = deepseek_v4_forward_draft_head,
    .describe_row_work = deepseek_v4_describe_row_work,
    .list_expert = deepseek_v4_list_expert,
    .describe_attention_rows = deepseek_v4_describe_attention_rows,
    .describe = deepseek_v4_describe,
};
