/*
 * The queue and the step arena: what a dry queue does, workspace and its return, failures of a kernel, and
 * tables that lack an entry.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/op_queue.h"
#include "ops/reference/reference_table.h"
#include "ops/rms_norm.h"
#include "support/op_fixture.h"

/* Arguments of a kernel that reports how it was called. */
struct probe {
    int *run_count;
    unsigned *thread_count;
    void **workspace;
    size_t workspace_bytes;
    enum status result;
};

static enum status run_probe(const struct kernel_env *env, const void *arguments) {
    const struct probe *probe = arguments;
    ++*probe->run_count;
    *probe->workspace = env->workspace;
    if (env->workspace != NULL) {
        memset(env->workspace, 1, probe->workspace_bytes);
    }
    CHECK(probe->result == STATUS_OK, probe->result, "the probe fails");
    return STATUS_OK;
}

static size_t probe_workspace(const void *arguments, unsigned thread_count) {
    const struct probe *probe = arguments;
    *probe->thread_count = thread_count;
    return probe->workspace_bytes;
}

static const struct op_entry PROBE = {
    .op = OP_ROPE, .name = "probe", .run = run_probe, .workspace_bytes = probe_workspace};
static const struct op_entry BARE_PROBE = {.op = OP_LINEAR, .name = "bare_probe", .run = run_probe};
static const struct op_table PROBES = {{[OP_ROPE] = {&PROBE}, [OP_LINEAR] = {&BARE_PROBE}}};

static void dry_queue_counts_and_launches_nothing(void **state) {
    struct op_fixture *fixture = *state;
    int run_count = 0;
    unsigned thread_count = 0;
    void *workspace = NULL;
    struct probe probe = {&run_count, &thread_count, &workspace, 1000, STATUS_OK};
    struct op_queue *queue = op_fixture_plan(fixture, NUMERICS_IDEAL);
    queue->table = &PROBES;
    struct tensor held;
    op_fixture_expect_ok(DEVICE_ARENA_TENSOR(queue->arena, DTYPE_F32, &held, 3, 5)); /* 60 bytes take 64 */
    op_fixture_expect_ok(op_queue_submit(queue, OP_ROPE, &probe));
    op_fixture_expect_ok(op_queue_submit(queue, OP_LINEAR, &probe));
    assert_int_equal(run_count, 0);
    assert_int_equal(thread_count, fixture->pool == NULL ? 1 : worker_pool_thread_count(fixture->pool));
    assert_int_equal(queue->arena->used, 64);
    assert_int_equal(queue->arena->high_water, 64 + 1024);
    device_arena_release(queue->arena, 0);
    op_fixture_prepare(fixture);
    op_fixture_expect_ok(DEVICE_ARENA_TENSOR(queue->arena, DTYPE_F32, &held, 3, 5));
    op_fixture_expect_ok(op_queue_submit(queue, OP_ROPE, &probe));
    assert_int_equal(run_count, 1);
    assert_non_null(workspace);
    assert_int_equal((uintptr_t)workspace % 64, 0);
    assert_true((unsigned char *)workspace >= (unsigned char *)held.data + 60);
    op_fixture_expect_ok(op_queue_submit(queue, OP_LINEAR, &probe));
    assert_int_equal(run_count, 2);
    assert_null(workspace);
    device_arena_release(queue->arena, 0);
    op_fixture_finish(fixture); /* compares the high-water marks */
}

/* What an operation would write stays as it is in a dry run. */
static void dry_run_writes_nothing(void **state) {
    struct op_fixture *fixture = *state;
    const float before[4] = {1, 2, 3, 4};
    float after[4];
    struct rms_norm_args args = {.x = OP_TENSOR(fixture, DTYPE_F32, before, 2, 2), .epsilon = 1e-6f};
    args.out = args.x;
    op_fixture_expect_ok(op_rms_norm(op_fixture_plan(fixture, NUMERICS_IDEAL), &args));
    op_fixture_read(fixture, args.out, after);
    assert_memory_equal(after, before, sizeof before);
    OP_RUN(fixture, NUMERICS_IDEAL, rms_norm, &args);
    op_fixture_read(fixture, args.out, after);
    assert_memory_not_equal(after, before, sizeof before);
}

static void failing_kernel_is_named(void **state) {
    struct op_fixture *fixture = *state;
    int run_count = 0;
    unsigned thread_count = 0;
    void *workspace = NULL;
    struct probe probe = {&run_count, &thread_count, &workspace, 64, STATUS_INTERNAL};
    struct op_queue *queue = op_fixture_plan(fixture, NUMERICS_IDEAL);
    queue->table = &PROBES;
    op_fixture_expect_ok(op_queue_submit(queue, OP_ROPE, &probe));
    op_fixture_prepare(fixture);
    assert_int_equal(op_queue_submit(queue, OP_ROPE, &probe), STATUS_INTERNAL);
    const struct error_record *record = error_last();
    assert_string_equal(record->message, "the probe fails");
    assert_string_equal(record->frames[record->frame_count - 1].function, "probe");
    op_fixture_finish(fixture); /* the workspace went back */
}

static void exceeding_the_plan_is_refused(void **state) {
    struct op_fixture *fixture = *state;
    int run_count = 0;
    unsigned thread_count = 0;
    void *workspace = NULL;
    struct probe probe = {&run_count, &thread_count, &workspace, 128, STATUS_OK};
    struct op_queue *queue = op_fixture_plan(fixture, NUMERICS_IDEAL);
    queue->table = &PROBES;
    op_fixture_expect_ok(op_queue_submit(queue, OP_ROPE, &probe));
    op_fixture_prepare(fixture);
    probe.workspace_bytes = 129;
    assert_int_equal(op_queue_submit(queue, OP_ROPE, &probe), STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(error_last()->message, "64 bytes more than the 128 planned"));
    assert_int_equal(run_count, 0);
    probe.workspace_bytes = 128;
    op_fixture_expect_ok(op_queue_submit(queue, OP_ROPE, &probe));
    op_fixture_finish(fixture);
}

static bool takes_even(const void *args) {
    return *(const int *)args % 2 == 0;
}

/* The best entry first; features, mode and arguments decide which of them count. */
static void tables_are_built_in_order_of_preference(void **state) {
    (void)state;
    const struct op_entry picky = {
        .op = OP_ROPE, .name = "picky", .modes = 2, .features = 6, .can_run = takes_even};
    const struct op_entry fast = {.op = OP_ROPE, .name = "fast", .modes = 3, .features = 2};
    const struct op_entry plain = {.op = OP_ROPE, .name = "plain", .modes = 3};
    const struct op_entry *const entries[] = {&picky, &fast, &plain};
    const int even = 2;
    const int odd = 3;
    struct op_table table;
    op_table_build(&table, entries, 3, 2, 7);
    assert_ptr_equal(op_table_choose(&table, OP_ROPE, &even), &picky);
    assert_ptr_equal(op_table_choose(&table, OP_ROPE, &odd), &fast);
    assert_null(op_table_choose(&table, OP_LINEAR, &even));
    op_table_build(&table, entries, 3, 1, 7);
    assert_ptr_equal(op_table_choose(&table, OP_ROPE, &even), &fast);
    op_table_build(&table, entries, 3, 2, 4);
    assert_ptr_equal(op_table_choose(&table, OP_ROPE, &even), &plain);
}

static void arena_hands_out_and_takes_back(void **state) {
    (void)state;
    struct device_arena arena;
    device_arena_init_planning(&arena);
    void *first;
    void *second;
    op_fixture_expect_ok(device_arena_alloc(&arena, 1, &first));
    size_t mark = device_arena_mark(&arena);
    op_fixture_expect_ok(device_arena_alloc(&arena, 65, &second));
    assert_non_null(first);
    assert_ptr_equal((char *)first + 64, second);
    assert_int_equal(arena.high_water, 64 + 128);
    device_arena_release(&arena, mark);
    assert_int_equal(arena.used, 64);
    struct tensor tensor;
    op_fixture_expect_ok(DEVICE_ARENA_TENSOR(&arena, DTYPE_BF16, &tensor, 4, 2, 8));
    assert_ptr_equal(tensor.data, second);
    assert_int_equal(tensor.rank, 3);
    assert_int_equal(tensor.shape[0] * 100 + tensor.shape[1] * 10 + tensor.shape[2], 428);
    assert_int_equal(tensor.dtype, DTYPE_BF16);
    assert_int_equal(arena.used, 64 + 128);
    assert_int_equal(arena.high_water, 64 + 128);
    assert_int_equal(device_arena_alloc(&arena, SIZE_MAX - 10, &second), STATUS_OUT_OF_MEMORY);
    device_arena_deinit(&arena);
}

static void reference_tables_are_complete(void **state) {
    (void)state;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        struct op_table table;
        op_fixture_reference_table((enum numerics)numerics, &table);
        op_fixture_expect_ok(op_table_check(&table, "cpu"));
        for (int op = 0; op < OP_COUNT; op++) {
            assert_int_equal(table.entries[op][0]->op, op);
            assert_non_null(strstr(table.entries[op][0]->name, op_name((enum op_id)op)));
        }
    }
}

static void a_missing_entry_is_named(void **state) {
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        struct op_table table;
        op_fixture_reference_table(NUMERICS_NATIVE, &table);
        table.entries[op][0] = NULL;
        assert_int_equal(op_table_check(&table, "toaster"), STATUS_UNSUPPORTED);
        assert_non_null(strstr(error_last()->message, op_name((enum op_id)op)));
        assert_non_null(strstr(error_last()->message, "toaster"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        OP_TEST(dry_queue_counts_and_launches_nothing),
        OP_TEST(dry_run_writes_nothing),
        OP_TEST(failing_kernel_is_named),
        OP_TEST(exceeding_the_plan_is_refused),
        cmocka_unit_test(tables_are_built_in_order_of_preference),
        cmocka_unit_test(arena_hands_out_and_takes_back),
        cmocka_unit_test(reference_tables_are_complete),
        cmocka_unit_test(a_missing_entry_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
