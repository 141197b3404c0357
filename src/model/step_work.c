/* Tensors tell by role, placement and stage how they are used; no name is looked at. */
#include "model/step_work.h"

#include <math.h>

#include "tensor/dtype.h"

enum { OPERATIONS_PER_PRODUCT = 2, FP4_CODES_PER_BYTE = 2 };

static double stored_elements(const struct tensor_spec *spec) {
    double elements = 1.0;
    for (int axis = 0; axis < spec->rank; axis++) {
        elements *= (double)spec->shape[axis];
    }
    return elements;
}

/* Operations of one row's product with a matrix; vectors and scales have none worth counting. */
static double matrix_operations(const struct tensor_spec *spec) {
    if (spec->rank != 2 || spec->role == TENSOR_BLOCK_SCALE) {
        return 0.0;
    }
    double codes = spec->role == TENSOR_FP4_MATRIX ? FP4_CODES_PER_BYTE : 1.0;
    return OPERATIONS_PER_PRODUCT * codes * stored_elements(spec);
}

/* Tables of which a token reads one row: by vocabulary, except the head, which is read whole. */
static bool is_lookup(const struct tensor_spec *spec) {
    return spec->role == TENSOR_EXPERT_TABLE ||
           (spec->placement == PLACEMENT_SPLIT_VOCABULARY && spec->stage != STAGE_LAST);
}

void weight_work_add(const struct model *model, const struct tensor_spec *spec, struct weight_work *sum) {
    double bytes = stored_elements(spec) * (double)dtype_bytes(spec->dtype);
    if (!spec->is_used) {
        return;
    }
    if (is_lookup(spec)) {
        sum->lookup_bytes += bytes / (double)spec->shape[0];
    } else if (spec->placement == PLACEMENT_SPLIT_EXPERTS) {
        sum->expert_bytes += bytes / (double)model->expert_count;
        sum->expert_operations += matrix_operations(spec) / (double)model->expert_count;
    } else if (spec->stage == STAGE_LAST) {
        sum->head_bytes += bytes;
        sum->head_operations += matrix_operations(spec);
    } else {
        sum->dense_bytes += bytes;
        sum->dense_operations += matrix_operations(spec);
    }
}

void weight_work_sum(const struct model *model, const struct tensor_spec_list *tensors,
                     struct weight_work *out) {
    *out = (struct weight_work){0};
    for (size_t i = 0; i < tensors->count; i++) {
        weight_work_add(model, &tensors->specs[i], out);
    }
}

double step_work_distinct_experts(int64_t count, int64_t picks, int64_t rows) {
    if (count == 0) {
        return 0.0;
    }
    double missed_by_one = 1.0 - (double)picks / (double)count;
    return (double)count * (1.0 - pow(missed_by_one, (double)rows));
}

static double state_bytes(const struct state_rows *states, int state_count, const double *rows_read) {
    double bytes = 0.0;
    for (int i = 0; i < state_count; i++) {
        bytes += rows_read[i] * (double)states[i].row_bytes;
    }
    return bytes;
}

void step_work_add(const struct model *model, const struct weight_work *weights,
                   const struct state_rows *states, int state_count, const struct step_shape *shape,
                   double *scratch, struct step_work *sum) {
    double rows = (double)(shape->segment_count * shape->segment_rows);
    double experts = step_work_distinct_experts(model->expert_count, model->expert_picks,
                                                shape->segment_count * shape->segment_rows);
    sum->bytes += weights->dense_bytes + rows * weights->lookup_bytes + experts * weights->expert_bytes;
    sum->operations +=
        rows * (weights->dense_operations + (double)model->expert_picks * weights->expert_operations);
    if (shape->logit_rows > 0) {
        sum->bytes += weights->head_bytes;
        sum->operations += (double)shape->logit_rows * weights->head_operations;
    }
    for (int64_t i = 0; i < shape->segment_rows; i++) {
        double operations = model->family->describe_row_work(model, shape->first_position + i, scratch);
        sum->operations += (double)shape->segment_count * operations;
        /* Rows of one segment share what they read of the state, as far as it was there before the step. */
        if (i == 0 && shape->first_position > 0) {
            sum->bytes += (double)shape->segment_count * state_bytes(states, state_count, scratch);
        }
    }
}
