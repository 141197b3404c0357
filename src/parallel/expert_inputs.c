/* Rounding is done once, where the row lives; doing it again, as experts do, changes no value. */
#include "parallel/expert_inputs.h"

#include "ops/decode_rows.h"
#include "ops/encode_rows.h"

static struct row_layout layout_of(const struct step *step, const struct expert_weights *bank,
                                   int64_t width) {
    bool is_quantised = bank->gate->format != WEIGHT_PLAIN;
    return numerics_row_layout(step->ranks->numerics, is_quantised ? ROW_KIND_INPUT : ROW_KIND_FLOAT, width,
                               0);
}

enum status expert_inputs_pack(const struct step *step, const struct expert_weights *bank, struct tensor x,
                               struct tensor *out) {
    struct row_layout layout = layout_of(step, bank, x.shape[1]);
    *out = x;
    if (layout.encoding == ROW_F32) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, DTYPE_U8, out, x.shape[0], (int64_t)row_layout_bytes(&layout));
    return op_encode_rows(step->queue,
                          &(struct encode_rows_args){.x = x, .layout = layout, .out = out->data});
}

enum status expert_inputs_unpack(const struct step *step, const struct expert_weights *bank, int64_t width,
                                 struct tensor arrived, struct tensor *out) {
    struct row_layout layout = layout_of(step, bank, width);
    *out = arrived;
    if (layout.encoding == ROW_F32) {
        return STATUS_OK;
    }
    STEP_TENSOR(step, step->activation, out, arrived.shape[0], width);
    return op_decode_rows(step->queue,
                          &(struct decode_rows_args){.out = *out, .layout = layout, .rows = arrived.data});
}

size_t expert_input_bytes(enum numerics numerics, int64_t width) {
    struct row_layout layout = numerics_row_layout(numerics, ROW_KIND_INPUT, width, 0);
    return row_layout_bytes(&layout);
}
