#include "parallel/rank_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "backends/backend_registry.h"
#include "backends/cpu/device_cpu.h"
#include "comm/comm_threads.h"

struct rank_thread {
    pthread_t thread;
    struct rank_step *rank;
    rank_body *body;
};

static void fill_batch(struct rank_step *rank, int64_t rows) {
    for (int64_t row = 0; row < rows; row++) {
        rank->integers[row] = 100 + (int32_t)row;
        rank->integers[ROWS_MAX + row] = (int32_t)row;
    }
    rank->batch = (struct batch_view){.row_count = rows,
                                      .segment_count = 1,
                                      .token_ids = rank->integers,
                                      .positions = rank->integers + ROWS_MAX,
                                      .row_segment = rank->integers + 2 * ROWS_MAX};
}

static struct rank_step *make_rank(const struct rank_setting *setting, struct comm *comm, int index) {
    const struct backend *backend;
    struct rank_step *rank = calloc(1, sizeof *rank);
    assert_non_null(rank);
    assert_int_equal(device_cpu_create(&rank->device), STATUS_OK);
    assert_int_equal(device_stream_create(rank->device, &rank->stream), STATUS_OK);
    assert_int_equal(device_arena_init(&rank->arena, rank->device, ARENA_BYTES), STATUS_OK);
    assert_int_equal(backend_find("cpu", &backend), STATUS_OK);
    assert_int_equal(backend->build_table(setting->numerics, "auto", &rank->table), STATUS_OK);
    rank->queue = (struct op_queue){.table = &rank->table, .stream = rank->stream, .arena = &rank->arena};
    fill_batch(rank, setting->rows);
    rank->shares = row_shares_even(setting->rows, setting->count);
    rank->ranks = (struct step_ranks){.tensor = comm,
                                      .rank = index,
                                      .count = setting->count,
                                      .experts = comm,
                                      .expert_rank = index,
                                      .expert_rank_count = setting->count,
                                      .has_expert_parallelism = setting->has_expert_parallelism,
                                      .exchange = setting->exchange,
                                      .numerics = setting->numerics,
                                      .pair_experts = rank->pair_experts,
                                      .offsets = rank->offsets};
    rank->step = (struct step){.queue = &rank->queue,
                               .batch = &rank->batch,
                               .activation = numerics_activation_dtype(setting->numerics),
                               .ranks = &rank->ranks,
                               .shares = setting->is_shared ? &rank->shares : NULL,
                               .expert_shares = setting->is_shared ? &rank->shares : NULL};
    return rank;
}

static void drop_rank(struct rank_step *rank) {
    device_arena_deinit(&rank->arena);
    device_stream_destroy(&rank->stream);
    device_destroy(&rank->device);
    comm_destroy(&rank->ranks.tensor);
    free(rank);
}

static void *run_thread(void *argument) {
    struct rank_thread *thread = argument;
    comm_set_deadline(thread->rank->ranks.tensor, 30);
    thread->body(thread->rank);
    return NULL;
}

void rank_steps_run(const struct rank_setting *setting, rank_body *body, const void *context) {
    struct comm *ends[RANKS_MAX];
    struct rank_thread threads[RANKS_MAX];
    int failure_count = 0;
    assert_int_equal(comm_threads_create(setting->count, ends), STATUS_OK);
    for (int i = 0; i < setting->count; i++) {
        threads[i] = (struct rank_thread){.rank = make_rank(setting, ends[i], i), .body = body};
        threads[i].rank->context = context;
    }
    for (int i = 0; i < setting->count; i++) {
        assert_int_equal(pthread_create(&threads[i].thread, NULL, run_thread, &threads[i]), 0);
    }
    for (int i = 0; i < setting->count; i++) {
        assert_int_equal(pthread_join(threads[i].thread, NULL), 0);
    }
    for (int i = 0; i < setting->count; i++) {
        failure_count += threads[i].rank->failure_count;
        drop_rank(threads[i].rank);
    }
    assert_int_equal(failure_count, 0);
}

float rank_steps_value(uint64_t seed, int64_t index) {
    uint64_t mixed = (seed * 0x9E3779B97F4A7C15u) ^ ((uint64_t)index * 0xD1B54A32D192ED03u);
    mixed ^= mixed >> 29;
    mixed *= 0xBF58476D1CE4E5B9u;
    return (float)((double)(mixed >> 40) / (double)(1 << 23) - 1.0);
}

struct tensor rank_steps_tensor(struct rank_step *rank, enum dtype dtype, int64_t rows, int64_t width) {
    struct tensor tensor = {.rank = 0};
    EXPECT(DEVICE_ARENA_TENSOR(&rank->arena, dtype, &tensor, rows, width) == STATUS_OK);
    return tensor;
}
