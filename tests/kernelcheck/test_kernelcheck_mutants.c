/*
 * Kernels that are wrong on purpose: each wraps a reference kernel and breaks one promise. The checker must
 * name each of them, and say which promise it was.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/device_cpu.h"
#include "kernelcheck/case_args.h"
#include "kernelcheck/kernelcheck.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_table.h"

/* The output of an RMS norm as (rows, width) elements. */
struct view {
    struct tensor out;
    int64_t rows;
    int64_t width;
};

static struct view run_reference(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    assert_int_equal(rms_norm_reference.run(env, arguments), STATUS_OK);
    struct view view = {.out = args->out, .rows = args->out.shape[0]};
    view.width = view.rows == 0 ? 0 : tensor_elements(&args->out) / view.rows;
    return view;
}

/* Flips the lowest bit of an element: within every ULP limit. */
static void nudge(const struct view *view, int64_t row, int64_t element) {
    size_t bytes = dtype_bytes(view->out.dtype);
    ((unsigned char *)view->out.data)[(size_t)(row * view->width + element) * bytes] ^= 1;
}

/* Flips the highest bit of the mantissa or an exponent bit: beyond every limit. */
static void spoil(const struct view *view, int64_t row, int64_t element) {
    size_t bytes = dtype_bytes(view->out.dtype);
    ((unsigned char *)view->out.data)[(size_t)(row * view->width + element + 1) * bytes - 2] ^= 0x60;
}

static enum status run_unchanged(const struct kernel_env *env, const void *arguments) {
    run_reference(env, arguments);
    return STATUS_OK;
}

static enum status run_wrong_lane(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < view.rows; row++) {
        for (int64_t i = 11; i < view.width; i += 16) {
            spoil(&view, row, i);
        }
    }
    return STATUS_OK;
}

static enum status run_wrong_tail(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    const struct rms_norm_args *args = arguments;
    for (int64_t row = 0; row < view.rows; row++) {
        if (args->x.shape[args->x.rank - 1] % 16 == 15) {
            spoil(&view, row, view.width - 1);
        }
    }
    return STATUS_OK;
}

/* Row 2 gets the result of row 1. */
static enum status run_wrong_row(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    size_t bytes = (size_t)view.width * dtype_bytes(view.out.dtype);
    if (view.rows > 2) {
        memcpy((char *)view.out.data + 2 * bytes, (char *)view.out.data + bytes, bytes);
    }
    return STATUS_OK;
}

/* A row's last bit comes from the next row. */
static enum status run_reads_neighbour(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    size_t bytes = (size_t)view.width * dtype_bytes(view.out.dtype);
    for (int64_t row = 0; row + 1 < view.rows; row++) {
        if ((((const unsigned char *)view.out.data)[(size_t)(row + 1) * bytes] & 2) != 0) {
            nudge(&view, row, 0);
        }
    }
    return STATUS_OK;
}

/* The first four rows of a launch take another path. */
static enum status run_treats_first_rows_apart(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < 4 && view.rows >= 4; row++) {
        nudge(&view, row, 0);
    }
    return STATUS_OK;
}

static enum status run_depends_on_row_count(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < view.rows && view.rows > 1; row++) {
        nudge(&view, row, 0);
    }
    return STATUS_OK;
}

static enum status run_depends_on_threads(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < view.rows && env->pool != NULL; row++) {
        nudge(&view, row, 0);
    }
    return STATUS_OK;
}

static enum status run_changes_its_mind(const struct kernel_env *env, const void *arguments) {
    static int runs;
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < view.rows && runs % 2 == 1; row++) {
        nudge(&view, row, 0);
    }
    runs++;
    return STATUS_OK;
}

static enum status run_writes_past_the_end(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    ((unsigned char *)view.out.data)[tensor_bytes(&view.out)] = 0;
    return STATUS_OK;
}

static enum status run_writes_in_front(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    ((unsigned char *)view.out.data)[-1] = 0;
    return STATUS_OK;
}

static enum status run_writes_its_input(const struct kernel_env *env, const void *arguments) {
    const struct rms_norm_args *args = arguments;
    struct view view = run_reference(env, arguments);
    if (view.rows > 0 && args->x.data != args->out.data) {
        *(unsigned char *)args->x.data ^= 1;
    }
    return STATUS_OK;
}

static enum status run_overruns_workspace(const struct kernel_env *env, const void *arguments) {
    run_reference(env, arguments);
    const struct rms_norm_args *args = arguments;
    unsigned threads = env->pool == NULL ? 1 : worker_pool_thread_count(env->pool);
    ((unsigned char *)env->workspace)[rms_norm_reference.workspace_bytes(args, threads)] = 0;
    return STATUS_OK;
}

static enum status run_forgets_a_row(const struct kernel_env *env, const void *arguments) {
    struct rms_norm_args args = *(const struct rms_norm_args *)arguments;
    if (args.x.shape[0] > 1) {
        args.x.shape[0]--;
        args.out.shape[0]--;
    }
    return rms_norm_reference.run(env, &args);
}

static enum status run_nudged(const struct kernel_env *env, const void *arguments) {
    struct view view = run_reference(env, arguments);
    for (int64_t row = 0; row < view.rows; row++) {
        nudge(&view, row, 0);
    }
    return STATUS_OK;
}

/* Operations on the state: the arguments are changed, not the results. */
static enum status run_short_window(const struct kernel_env *env, const void *arguments) {
    struct sparse_attention_args args = *(const struct sparse_attention_args *)arguments;
    args.window -= args.window > 1;
    return sparse_attention_reference.run(env, &args);
}

static enum status run_keeps_oldest(const struct kernel_env *env, const void *arguments) {
    struct commit_rows_args args = *(const struct commit_rows_args *)arguments;
    struct batch_view batch = *args.batch;
    int32_t *first = malloc(((size_t)batch.segment_count + 1) * sizeof *first);
    assert_non_null(first);
    for (int64_t s = 0; s < batch.segment_count; s++) {
        first[s] = batch.segment_first_position[s] + 1;
    }
    batch.segment_first_position = first;
    args.batch = &batch;
    enum status status = commit_rows_reference.run(env, &args);
    free(first);
    return status;
}

static enum status run_swaps_picks(const struct kernel_env *env, const void *arguments) {
    const struct route_experts_args *args = arguments;
    assert_int_equal(route_experts_reference.run(env, arguments), STATUS_OK);
    int32_t *experts = args->experts.data;
    int64_t picks = args->experts.shape[1];
    for (int64_t row = 0; row < args->experts.shape[0] && picks > 1; row++) {
        int32_t first = experts[row * picks];
        experts[row * picks] = experts[row * picks + 1];
        experts[row * picks + 1] = first;
    }
    return STATUS_OK;
}

static bool never(const void *arguments) {
    (void)arguments;
    return false;
}

static size_t norm_workspace(const void *arguments, unsigned thread_count) {
    return rms_norm_reference.workspace_bytes(arguments, thread_count);
}

static size_t attention_workspace(const void *arguments, unsigned thread_count) {
    return sparse_attention_reference.workspace_bytes(arguments, thread_count);
}

static size_t route_workspace(const void *arguments, unsigned thread_count) {
    return route_experts_reference.workspace_bytes(arguments, thread_count);
}

enum { NO_SUCH_FEATURE = 1 << 30 };

struct mutant {
    struct op_entry entry;
    enum kernel_verdict verdict;
    const char *message; /* what the failure must say */
};

#define NORM_WITH(mutation, arithmetic_id, ...)                                                     \
    {                                                                                               \
        .op = OP_RMS_NORM, .name = #mutation, .arithmetic = (arithmetic_id), .modes = OP_MODE_BOTH, \
        .run = run_##mutation, .workspace_bytes = norm_workspace, __VA_ARGS__                       \
    }
#define NORM(mutation, arithmetic_id) NORM_WITH(mutation, arithmetic_id, .can_run = NULL)

static const char FAR_OFF[] = "differs from the reference";
static const char DAMAGE[] = "writes where it may not";
static const char OTHER_ORDER[] = "the same row in another order of rows differs";

static const struct mutant mutants[] = {
    {NORM(unchanged, "unchanged"), KERNEL_PASSED, ""},
    {NORM(wrong_lane, "m1"), KERNEL_FAILED, FAR_OFF},
    {NORM(wrong_tail, "m2"), KERNEL_FAILED, FAR_OFF},
    {NORM(wrong_row, "m3"), KERNEL_FAILED, FAR_OFF},
    {NORM(reads_neighbour, "m4"), KERNEL_FAILED, OTHER_ORDER},
    {NORM(treats_first_rows_apart, "m5"), KERNEL_FAILED, OTHER_ORDER},
    {NORM(depends_on_row_count, "m6"), KERNEL_FAILED, "the same row alone differs"},
    {NORM(depends_on_threads, "m7"), KERNEL_FAILED, "one thread gives other bits than two"},
    {NORM(changes_its_mind, "m8"), KERNEL_FAILED, "a second run differs"},
    {NORM(writes_past_the_end, "m9"), KERNEL_FAILED, DAMAGE},
    {NORM(writes_in_front, "m10"), KERNEL_FAILED, DAMAGE},
    {NORM(writes_its_input, "m11"), KERNEL_FAILED, DAMAGE},
    {NORM(overruns_workspace, "m12"), KERNEL_FAILED, "writes outside its workspace"},
    {NORM(forgets_a_row, "m13"), KERNEL_FAILED, FAR_OFF},
    {NORM(nudged, "reference"), KERNEL_FAILED, "has other bits than"},
    {NORM_WITH(unchanged, "m15", .can_run = never), KERNEL_UNCHECKED, ""},
    {NORM_WITH(wrong_lane, "m16", .features = NO_SUCH_FEATURE), KERNEL_NOT_RUN, ""},
    {{.op = OP_SPARSE_ATTENTION,
      .name = "short_window",
      .arithmetic = "m17",
      .modes = OP_MODE_BOTH,
      .run = run_short_window,
      .workspace_bytes = attention_workspace},
     KERNEL_FAILED,
     FAR_OFF},
    {{.op = OP_COMMIT_ROWS,
      .name = "keeps_oldest",
      .arithmetic = "m18",
      .modes = OP_MODE_BOTH,
      .run = run_keeps_oldest},
     KERNEL_FAILED,
     ""},
    {{.op = OP_ROUTE_EXPERTS,
      .name = "swaps_picks",
      .arithmetic = "m19",
      .modes = OP_MODE_NATIVE,
      .run = run_swaps_picks,
      .workspace_bytes = route_workspace},
     KERNEL_FAILED,
     FAR_OFF},
};

enum { MUTANT_COUNT = sizeof mutants / sizeof mutants[0], ENTRIES_MAX = 128 };

/* The reference's list behind one mutant alone, so that mutants are not compared with each other. */
static void check_mutant(struct device *device, const struct mutant *mutant) {
    const struct op_entry *entries[ENTRIES_MAX];
    size_t count;
    const struct op_entry *const *references = reference_entries(&count);
    assert_true(count < ENTRIES_MAX);
    memcpy(entries, references, count * sizeof entries[0]);
    entries[count] = &mutant->entry;
    const struct kernelcheck_request request = {.entries = entries,
                                                .entry_count = count + 1,
                                                .operations = (uint64_t)1 << mutant->entry.op,
                                                .is_quick = true,
                                                .device = device};
    struct kernelcheck_result result;
    assert_int_equal(kernelcheck_run(&request, &result), STATUS_OK);
    const struct kernelcheck_entry *found = &result.entries[result.entry_count - 1];
    assert_ptr_equal(found->entry, &mutant->entry);
    if (found->verdict != mutant->verdict || strstr(found->message, mutant->message) == NULL) {
        fail_msg("%s: %s, \"%s\", expected %s, \"%s\"", mutant->entry.name,
                 kernel_verdict_name(found->verdict), found->message, kernel_verdict_name(mutant->verdict),
                 mutant->message);
    }
    assert_true((found->failure_count > 0) == (mutant->verdict == KERNEL_FAILED));
    /* Only the mutant is at fault. */
    for (size_t i = 0; i + 1 < result.entry_count; i++) {
        assert_int_equal(result.entries[i].verdict, KERNEL_PASSED);
    }
    bool is_failure = mutant->verdict == KERNEL_FAILED || mutant->verdict == KERNEL_UNCHECKED;
    assert_int_equal(result.failed_count, is_failure);
    kernelcheck_result_deinit(&result);
}

static void test_each_mutant_is_named(void **state) {
    (void)state;
    struct device *device;
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    for (int i = 0; i < MUTANT_COUNT; i++) {
        check_mutant(device, &mutants[i]);
    }
    device_destroy(&device);
}

/* A list without a reference cannot be checked at all, and says so. */
static void test_missing_reference_is_an_error(void **state) {
    (void)state;
    struct device *device;
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    const struct op_entry *const entries[] = {&mutants[0].entry};
    const struct kernelcheck_request request = {
        .entries = entries, .entry_count = 1, .operations = (uint64_t)1 << OP_RMS_NORM, .device = device};
    struct kernelcheck_result result;
    assert_int_equal(kernelcheck_run(&request, &result), STATUS_NOT_FOUND);
    assert_non_null(strstr(error_last()->message, "rms_norm"));
    kernelcheck_result_deinit(&result);
    device_destroy(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_mutant_is_named),
        cmocka_unit_test(test_missing_reference_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
