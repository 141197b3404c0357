/*
 * Steps on several ranks that are threads: each with a device, an arena and the reference kernels.
 *
 * Cmocka's assertions belong to one thread, so failures inside of a rank are printed and counted.
 */
#ifndef SLUICE_TESTS_PARALLEL_RANK_STEPS_H
#define SLUICE_TESTS_PARALLEL_RANK_STEPS_H

#include <stdio.h>

#include "ops/numerics.h"
#include "parallel/collectives.h"
#include "parallel/expert_trip.h"

enum { RANKS_MAX = 8, ROWS_MAX = 64, ARENA_BYTES = 4 << 20 };

struct rank_step {
    struct device *device;
    struct stream *stream;
    struct device_arena arena;
    struct op_table table;
    struct op_queue queue;
    struct batch_view batch;
    int32_t integers[3 * ROWS_MAX]; /* of the batch: token ids 100 + row, positions, segments */
    struct row_shares shares;
    struct step_ranks ranks;
    struct step step;
    int32_t pair_experts[ROWS_MAX * 8];
    size_t offsets[2 * (RANKS_MAX + 1)];
    const void *context;
    int failure_count;
};

/* What a rank does in its thread. */
typedef void rank_body(struct rank_step *rank);

/* How a group of ranks runs a body. */
struct rank_setting {
    int count;
    int64_t rows;
    bool is_shared; /* rows are dealt out */
    enum numerics numerics;
    bool has_expert_parallelism;
    enum expert_exchange exchange;
};

/* Runs `body` on all ranks at once; fails the test if an expectation did not hold on one. */
void rank_steps_run(const struct rank_setting *setting, rank_body *body, const void *context);

/* Adds to the failures of the struct rank_step `rank` that is in scope. */
#define EXPECT(condition)                                                                                 \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "%s:%d: rank %d of %d, %lld rows: not so: %s (last failure: %s)\n", __FILE__, \
                    __LINE__, rank->ranks.rank, rank->ranks.count, (long long)rank->batch.row_count,      \
                    #condition, error_last()->message);                                                   \
            rank->failure_count++;                                                                        \
        }                                                                                                 \
    } while (0)

/* A number in [-1, 1), a function of its arguments. */
float rank_steps_value(uint64_t seed, int64_t index);

/* A tensor (rows, width) in the rank's arena. */
struct tensor rank_steps_tensor(struct rank_step *rank, enum dtype dtype, int64_t rows, int64_t width);

#endif
