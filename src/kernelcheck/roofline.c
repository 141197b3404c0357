/* The best of several runs of each loop: other load on the machine only ever slows a run down. */
#include "kernelcheck/roofline.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/roofline_loops.h"
#include "base/clock.h"

enum { RUNS = 16, TASKS_PER_THREAD = 4, MEMORY_ALIGNMENT = 64 };

static const size_t READ_PIECE_BYTES = (size_t)1 << 20;
static const double RUN_SECONDS = 0.005;

struct measurement {
    const struct roofline_loops *loops;
    const unsigned char *memory;
    float (*multiply)(int64_t rounds);
    int64_t rounds;
    volatile uint64_t sink; /* keeps results alive */
};

static void read_piece(void *context, size_t index, unsigned worker) {
    (void)worker;
    struct measurement *measurement = context;
    uint64_t sum = measurement->loops->read(measurement->memory + index * READ_PIECE_BYTES, READ_PIECE_BYTES);
    if (sum == 1) {
        measurement->sink = sum;
    }
}

static void multiply_piece(void *context, size_t index, unsigned worker) {
    (void)worker;
    struct measurement *measurement = context;
    if (measurement->multiply(measurement->rounds) == -1.0f) {
        measurement->sink = index;
    }
}

/* Seconds of one run of `count` tasks. */
static double time_tasks(struct worker_pool *pool, size_t count,
                         void (*task)(void *context, size_t index, unsigned worker),
                         struct measurement *measurement) {
    double started = clock_seconds();
    if (pool != NULL) {
        worker_pool_run(pool, count, task, measurement);
    } else {
        for (size_t i = 0; i < count; i++) {
            task(measurement, i, 0);
        }
    }
    return clock_seconds() - started;
}

static double best_rate(struct worker_pool *pool, size_t count,
                        void (*task)(void *context, size_t index, unsigned worker),
                        struct measurement *measurement, double amount) {
    double best = 0.0;
    for (int run = 0; run < RUNS; run++) {
        double rate = amount / time_tasks(pool, count, task, measurement);
        best = rate > best ? rate : best;
    }
    return best;
}

static double multiply_rate(struct worker_pool *pool, struct measurement *measurement,
                            double operations_per_round) {
    size_t threads = pool == NULL ? 1 : worker_pool_thread_count(pool);
    size_t tasks = threads * TASKS_PER_THREAD;
    measurement->rounds = 1 << 10;
    while (time_tasks(pool, tasks, multiply_piece, measurement) < RUN_SECONDS) {
        measurement->rounds *= 2;
    }
    double amount = (double)tasks * (double)measurement->rounds * operations_per_round;
    return best_rate(pool, tasks, multiply_piece, measurement, amount);
}

double roofline_read_rate(struct worker_pool *pool, unsigned features, const void *memory) {
    struct roofline_loops loops = roofline_loops_choose(features);
    struct measurement measurement = {.loops = &loops, .memory = memory};
    return best_rate(pool, ROOFLINE_READ_BYTES / READ_PIECE_BYTES, read_piece, &measurement,
                     (double)ROOFLINE_READ_BYTES);
}

enum status roofline_measure(struct worker_pool *pool, unsigned features, struct roofline *out) {
    struct roofline_loops loops = roofline_loops_choose(features);
    struct measurement measurement = {.loops = &loops};
    *out = (struct roofline){0};
    unsigned char *memory = aligned_alloc(MEMORY_ALIGNMENT, ROOFLINE_READ_BYTES);
    CHECK_MEMORY(memory);
    memset(memory, 1, ROOFLINE_READ_BYTES);
    out->read_bytes_per_second = roofline_read_rate(pool, features, memory);
    free(memory);
    measurement.multiply = loops.multiply_f32;
    out->f32_flops_per_second = multiply_rate(pool, &measurement, loops.f32_operations);
    if (loops.multiply_bf16 != NULL) {
        measurement.multiply = loops.multiply_bf16;
        out->bf16_flops_per_second = multiply_rate(pool, &measurement, loops.bf16_operations);
    }
    return STATUS_OK;
}
