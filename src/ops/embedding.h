/*
 * Embedding: out[row][copy] = table[ids[row]] for every copy (spec deepseek-v4 4.1).
 *
 * out: (rows, copies, width), activation type. table: PLAIN (vocabulary, width). ids: device I32 [rows];
 * an id outside the vocabulary is clamped before the lookup (spec parallelism G-18). Tolerance: exact.
 */
#ifndef SLUICE_OPS_EMBEDDING_H
#define SLUICE_OPS_EMBEDDING_H

#include "ops/op_queue.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"

struct embedding_args {
    struct tensor out;
    const struct weight *table;
    const int32_t *ids;
};

enum status op_embedding(struct op_queue *queue, const struct embedding_args *args);

#endif
