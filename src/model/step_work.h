/*
 * Bytes and operations that a forward step cannot do without: the floor that a measurement stands beside.
 *
 * Weights come from the model's tensor list, state from its state table. Bytes count what must be read from
 * memory once a step: every used tensor, but of tables only the rows that tokens look up, of routed experts
 * those that are expected to be picked, the head only if logits are wanted. Operations count additions and
 * multiplications of products with weights and of attention. Activations and writes count nothing.
 */
#ifndef SLUICE_MODEL_STEP_WORK_H
#define SLUICE_MODEL_STEP_WORK_H

#include <stdint.h>

#include "model/model.h"
#include "ops/state_rows.h"
#include "weights/tensor_spec.h"

/* What the weights cost. */
struct weight_work {
    double dense_bytes; /* per step */
    double dense_operations;
    double head_bytes;        /* per step with logits */
    double head_operations;   /* per row of logits */
    double lookup_bytes;      /* per row */
    double expert_bytes;      /* of one routed expert in every layer that has experts */
    double expert_operations; /* the same, per row that goes to it */
};

/* A step: rows of `segment_count` sequences that start at `first_position`, equally long. */
struct step_shape {
    int64_t segment_count;
    int64_t segment_rows;
    int64_t first_position;
    int64_t logit_rows;
};

struct step_work {
    double bytes;
    double operations;
};

/* Adds one tensor of the model to `sum`. */
void weight_work_add(const struct model *model, const struct tensor_spec *spec, struct weight_work *sum);

/* Of all tensors of a list. */
void weight_work_sum(const struct model *model, const struct tensor_spec_list *tensors,
                     struct weight_work *out);

/* Experts of `count` that at least one of `rows` rows with `picks` each is expected to go to (M-30). */
double step_work_distinct_experts(int64_t count, int64_t picks, int64_t rows);

/*
 * Adds the work of one step to `sum`. `states`: the state pool's rows, `state_count` of them. `scratch`
 * (state_count) is overwritten.
 */
void step_work_add(const struct model *model, const struct weight_work *weights,
                   const struct state_rows *states, int state_count, const struct step_shape *shape,
                   double *scratch, struct step_work *sum);

#endif
