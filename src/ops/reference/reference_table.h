/*
 * The reference: plain C of every operation, its specification in code.
 *
 * No intrinsics and no cleverness; sums run in double. Every other implementation is compared with it. It
 * is also the fallback of the CPU backend for operations that have nothing faster.
 */
#ifndef SLUICE_OPS_REFERENCE_REFERENCE_TABLE_H
#define SLUICE_OPS_REFERENCE_REFERENCE_TABLE_H

#include "ops/op_queue.h"

/* All entries, of both modes. Static. */
const struct op_entry *const *reference_entries(size_t *count);

#endif
