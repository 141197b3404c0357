/* What layers and the ends of a model read, compute and hold, from its lists of tensors and states. */
#ifndef SLUICE_ENGINE_STAGE_BYTES_H
#define SLUICE_ENGINE_STAGE_BYTES_H

#include "engine/state_pool.h"
#include "model/model.h"
#include "model/step_work.h"

/* What stages hold, and may hold. */
struct stage_memory {
    const struct state_table *states;
    struct state_pool_options pool; /* its slots and contexts */
    const double *byte_limits;      /* [stages]: of all ranks of a stage; infinite: no matter */
};

struct stage_bytes {
    struct weight_work *layers; /* [layer_count]; then those beside layers, in the same memory: */
    struct weight_work *first;
    struct weight_work *last;
    struct weight_work *draft;
    double *layer_bytes;      /* [layer_count] held: weights, all slots, the pages of one full sequence */
    double *layer_page_bytes; /* [layer_count] of one page */
    double first_bytes;       /* held besides by the first stage, */
    double last_bytes;        /* and by the last one: head, draft layer, its embedding and its state */
    double last_page_bytes;
};

/* Owned: stage_bytes_deinit, also after a failure. */
enum status stage_bytes_sum(struct model *model, enum numerics numerics, const struct stage_memory *memory,
                            struct stage_bytes *out);
void stage_bytes_deinit(struct stage_bytes *bytes);

#endif
