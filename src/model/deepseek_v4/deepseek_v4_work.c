/* Keys per row decide: what else a row computes outside of matrices does not grow and is small. */
#include "model/deepseek_v4/deepseek_v4.h"

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A multiplication and an addition. */
enum { OPERATIONS_PER_PRODUCT = 2 };

/* Attention of all heads over `keys` rows: the logits, and the sum of the values (4.7). */
static double attend_operations(const struct deepseek_v4_config *config, int64_t keys) {
    return 2.0 * OPERATIONS_PER_PRODUCT * (double)(config->head_count * config->head_dim * keys);
}

/* Each raw row is read by the block that it completes, and with overlap by the next one too (4.9). */
static double raw_rows_read(int64_t ratio) {
    return ratio == RATIO_INDEXED ? 2.0 : 1.0;
}

double deepseek_v4_describe_row_work(const struct model *base, int64_t position, double *rows_read) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    const struct deepseek_v4_config *config = &model->config;
    double operations = 0.0;
    for (int l = base->stage.first_layer; l < base->stage.end_layer; l++) {
        const struct deepseek_v4_layer *layer = &model->layers[l];
        int64_t window_keys = smaller(position + 1, config->window);
        int64_t entries = layer->ratio == 0 ? 0 : (position + 1) / layer->ratio;
        int64_t chosen = entries;
        rows_read[layer->window_state] = (double)window_keys;
        if (layer->ratio == RATIO_INDEXED) {
            const struct deepseek_v4_indexer *indexer = &layer->indexer;
            chosen = smaller(entries, config->index_limit);
            rows_read[indexer->compressor.entry_state] = (double)entries;
            rows_read[indexer->compressor.raw_state] = raw_rows_read(layer->ratio);
            operations += (double)OPERATIONS_PER_PRODUCT *
                          (double)(config->index_head_count * config->index_head_dim * entries);
        }
        if (layer->ratio != 0) {
            rows_read[layer->compressor.entry_state] = (double)chosen;
            rows_read[layer->compressor.raw_state] = raw_rows_read(layer->ratio);
        }
        operations += attend_operations(config, window_keys + chosen);
    }
    if (deepseek_v4_has_draft(model)) {
        rows_read[model->draft.layer.window_state] = 0.0;
    }
    return operations;
}

/* Values and scores of a row: what one compressor's two projections give. */
static int64_t compressor_values(int64_t ratio, int64_t width) {
    int64_t halves = ratio == RATIO_INDEXED ? 2 : 1;
    return 2 * halves * width;
}

void deepseek_v4_describe_attention_rows(const struct model *base, enum dtype activation, int layer,
                                         struct attention_rows *out) {
    const struct deepseek_v4_config *config = &deepseek_v4_of(base)->config;
    int64_t ratio = layer < config->layer_count ? config->ratios[layer] : 0; /* drafts see a window only */
    int64_t activations = config->q_rank + config->head_dim;
    int64_t floats = 0; /* compressors project in fp32 */
    size_t element = dtype_bytes(activation);
    *out = (struct attention_rows){.hidden_bytes = (size_t)config->hidden_size * element};
    if (ratio != 0) {
        floats += compressor_values(ratio, config->head_dim);
    }
    if (ratio == RATIO_INDEXED) {
        floats += compressor_values(ratio, config->index_head_dim);
        out->chosen_bytes = (size_t)config->index_limit * sizeof(int32_t);
    }
    out->projected_bytes = (size_t)activations * element + (size_t)floats * sizeof(float);
    out->operations = (double)OPERATIONS_PER_PRODUCT * (double)(config->hidden_size * (activations + floats));
}
