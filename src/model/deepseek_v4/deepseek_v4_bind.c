/*
 * From loaded tensors, or this rank's parts of them, to the weights that the forward pass reads.
 *
 * Nothing here knows ranks: a weight becomes what its part is. Other ranks' experts keep the shape of their
 * array, without data; other weights without data are zeroed.
 */
#include "model/deepseek_v4/deepseek_v4.h"

/* Rows, columns and leaves of what was loaded. A vector is one row. */
static void set_shape(struct weight *weight, const struct tensor_spec *spec, const struct tensor_part *part) {
    int64_t codes = spec->role == TENSOR_FP4_MATRIX ? 2 : 1;
    weight->rows = spec->rank == 1 ? 1 : part->shape[0];
    weight->columns = spec->rank == 1 ? part->shape[0] : codes * part->shape[1];
    if (weight->leaves.count > 1) {
        weight->leaves = leaves_part(&weight->leaves, part->index, part->count);
    }
}

static void bind_weight(struct weight *weight, const struct tensor_spec *spec,
                        const struct loaded_tensor *loaded) {
    if (spec->role == TENSOR_BLOCK_SCALE) {
        weight->scales = loaded->data;
        weight->scale_dtype = loaded->dtype;
        return;
    }
    weight->data = loaded->data;
    weight->dtype = loaded->dtype;
    set_shape(weight, spec, &loaded->part);
}

/* Every layer lists its experts in order, and a rank has the same range of them in each. */
static void note_expert(struct model *model, int64_t expert) {
    if (model->held_experts == 0) {
        model->first_expert = expert;
    }
    model->held_experts = expert - model->first_expert + 1;
}

/* The loader and the model were told of the same stage. */
static enum status check_ends(const struct deepseek_v4 *model) {
    const struct model_stage *stage = &model->base.stage;
    bool has_draft = deepseek_v4_has_draft(model);
    CHECK(model->embedding.data != NULL || (!stage->is_first && !has_draft), STATUS_INTERNAL,
          "the embedding was not loaded on a stage that looks tokens up");
    CHECK(model->head.data != NULL || !stage->is_last, STATUS_INTERNAL,
          "the head was not loaded on the last stage");
    return STATUS_OK;
}

enum status deepseek_v4_bind(struct model *base, const struct tensor_spec_list *list,
                             const struct loaded_tensor *loaded) {
    struct deepseek_v4 *model = (struct deepseek_v4 *)(void *)base;
    base->first_expert = 0;
    base->held_experts = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor_spec *spec = &list->specs[i];
        struct weight *weight = model->bindings[i];
        if (weight == NULL) {
            continue;
        }
        if (loaded[i].data == NULL) {
            CHECK(spec->layer < 0 || spec->expert >= 0, STATUS_INTERNAL, "tensor %s was not loaded",
                  spec->name);
            *weight = spec->expert >= 0 ? *weight : (struct weight){0};
            continue;
        }
        bind_weight(weight, spec, &loaded[i]);
        if (spec->expert >= 0) {
            note_expert(base, spec->expert);
        }
    }
    return check_ends(model);
}

int deepseek_v4_list_expert(const struct model *base, int layer, int expert, struct memory_range *ranges) {
    const struct deepseek_v4 *model = deepseek_v4_of(base);
    bool is_draft = layer == base->layer_count;
    if (is_draft ? !deepseek_v4_has_draft(model)
                 : layer < base->stage.first_layer || layer >= base->stage.end_layer) {
        return 0;
    }
    const struct deepseek_v4_layer *of = is_draft ? &model->draft.layer : &model->layers[layer];
    const struct weight *weights[] = {&of->expert_gate[expert], &of->expert_up[expert],
                                      &of->expert_down[expert]};
    int count = 0;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        ranges[count++] =
            (struct memory_range){.bytes = weights[i]->data, .length = weight_data_bytes(weights[i])};
        ranges[count++] =
            (struct memory_range){.bytes = weights[i]->scales, .length = weight_scale_bytes(weights[i])};
    }
    return count;
}
