/*
 * What stands in front of the rows that a stage sends to the next one (spec parallelism P-17, appendix A.1):
 * 64 bytes in the message of the boundary's first tensor.
 *
 * The receiver knows all of it from its own plan. A message that was lost, doubled, overtaken by another or
 * meant for other rows has other numbers, though it may be as long as the right one. Pure functions.
 */
#ifndef SLUICE_ENGINE_BOUNDARY_HEADER_H
#define SLUICE_ENGINE_BOUNDARY_HEADER_H

#include <stdint.h>

#include "model/model.h"

enum { BOUNDARY_HEADER_BYTES = 64, BOUNDARY_MAGIC = 0x534c4254, BOUNDARY_VERSION = 1 };

enum { BOUNDARY_HAS_CHECKSUM = 1, BOUNDARY_IS_HEADER_ONLY = 2 };

/* Builds that check assertions sum up the rows too. */
#ifdef NDEBUG
enum { BOUNDARY_FLAGS = 0 };
#else
enum { BOUNDARY_FLAGS = BOUNDARY_HAS_CHECKSUM };
#endif

/* In the order of A.1. */
struct boundary_header {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint64_t step_number; /* of all steps that the engine has run */
    uint32_t epoch;       /* of the group: another for each engine that a job opens */
    uint16_t stage;       /* that sends, */
    uint16_t tensor_rank; /* and which of its ranks */
    uint32_t step_rows;
    uint32_t rows; /* of them, in this message, */
    uint32_t first_row;
    uint16_t layout; /* enum rows_layout */
    uint16_t tensor_count;
    uint64_t payload_bytes; /* of all tensors */
    uint32_t list;          /* of what the tensors are called and how wide they are */
    uint32_t dtype;
    uint64_t checksum; /* 0 without BOUNDARY_HAS_CHECKSUM */
};

_Static_assert(sizeof(struct boundary_header) == BOUNDARY_HEADER_BYTES, "as in A.1");

/* The header of a boundary's rows on rank `tensor_rank` of `tensor_count`, but for step, epoch and stage. */
struct boundary_header boundary_header_of(const struct boundary *boundary, int tensor_rank, int tensor_count);

/* INTERNAL names the first field that is not as expected. The checksum is the caller's to compare. */
enum status boundary_header_check(const struct boundary_header *came, const struct boundary_header *expected);

#endif
