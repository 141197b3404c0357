/* Builds each case once and runs all entries on it. */
#include "kernelcheck/kernel_bench.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/roofline_loops.h"
#include "base/clock.h"
#include "kernelcheck/case_families.h"
#include "kernelcheck/kernel_run.h"

enum { RUNS_MIN = 5, RUNS_MAX = 40, CONTEXT = 4096, CACHE_LINE_BYTES = 64, ENTRIES_MAX = 512 };

static const size_t COLD_BYTES = (size_t)1 << 20;
static const size_t EVICTION_BYTES = (size_t)128 << 20;
static const size_t EVICTION_PIECE_BYTES = (size_t)1 << 20;
static const double BATCH_SECONDS = 0.002;
static const double RUNS_SECONDS = 0.2;
static const double LAUNCH_SECONDS_MAX = 1.0;

static const struct {
    int64_t rows;
    bool is_prefill;
} loads[] = {{1, false}, {4, false}, {16, false}, {128, true}, {512, true}};

enum { LOAD_COUNT = sizeof loads / sizeof loads[0] };

struct bench {
    const struct kernel_bench_request *request;
    struct case_place place;
    struct roofline_loops loops;
    unsigned char *eviction; /* memory that takes the operands' place in the caches */
    uint64_t checksum;
    double seconds_per_row[ENTRIES_MAX]; /* of the last shape's launches, to leave out hopeless ones */
};

/* Reading a lot of other memory leaves nothing of the operands in the caches. */
static void evict_piece(void *context, size_t index, unsigned worker) {
    struct bench *bench = context;
    uint64_t sum = bench->loops.read(bench->eviction + index * EVICTION_PIECE_BYTES, EVICTION_PIECE_BYTES);
    if (worker == 0) {
        bench->checksum += sum;
    }
}

static enum status time_launch(struct bench *bench, const struct kernel_case *kernel_case,
                               const struct op_entry *entry, const struct kernel_workspace *workspace,
                               int64_t launches, double *seconds) {
    double started = clock_seconds();
    for (int64_t i = 0; i < launches; i++) {
        TRY(kernel_launch(kernel_case, entry, bench->request->pool, workspace));
    }
    *seconds = (clock_seconds() - started) / (double)launches;
    return STATUS_OK;
}

/* How often to measure what takes so long: other load on the machine should miss one run at least. */
static int run_count(double seconds) {
    double runs = RUNS_SECONDS / seconds;
    if (seconds > RUNS_SECONDS) {
        return 1;
    }
    return runs < RUNS_MIN ? RUNS_MIN : runs > RUNS_MAX ? RUNS_MAX : (int)runs;
}

/* The fastest of several launches, or of several batches of them. */
static enum status time_best(struct bench *bench, const struct kernel_case *kernel_case,
                             const struct op_entry *entry, const struct kernel_workspace *workspace,
                             bool is_cold, double *best) {
    TRY(time_launch(bench, kernel_case, entry, workspace, 1, best));
    int64_t launches = 1;
    if (!is_cold && *best < BATCH_SECONDS) {
        launches = 1 + (int64_t)(BATCH_SECONDS / (*best + 1e-9));
    }
    int runs = run_count(*best * (double)launches + 1e-9);
    for (int run = 0; run < runs; run++) {
        double seconds;
        if (is_cold) {
            worker_pool_run(bench->request->pool, EVICTION_BYTES / EVICTION_PIECE_BYTES, evict_piece, bench);
        }
        TRY(time_launch(bench, kernel_case, entry, workspace, launches, &seconds));
        *best = run == 0 || seconds < *best ? seconds : *best;
    }
    return STATUS_OK;
}

static double case_bytes(const struct kernel_case *kernel_case) {
    size_t bytes = kernel_case->used_bytes;
    for (size_t i = 0; kernel_case->used_bytes == 0 && i < kernel_case->operand_count; i++) {
        bytes += kernel_case->operands[i].bytes;
    }
    return (double)bytes;
}

static double limit_of(const struct bench *bench, const struct kernel_timing *timing) {
    const struct roofline *roofline = &bench->request->roofline;
    bool is_bf16 = timing->numerics == NUMERICS_NATIVE && roofline->bf16_flops_per_second > 0.0;
    double flops = is_bf16 ? roofline->bf16_flops_per_second : roofline->f32_flops_per_second;
    double limit = timing->operations / flops;
    double read = timing->is_cold ? timing->bytes / roofline->read_bytes_per_second : 0.0;
    return read > limit ? read : limit;
}

static enum status time_entry(struct bench *bench, struct kernel_case *kernel_case,
                              const struct op_entry *entry, struct kernel_timing *timing) {
    enum status status = STATUS_OK;
    struct kernel_workspace workspace = {0};
    TRY_GOTO(kernel_workspace_init(&workspace, kernel_case, entry, bench->request->pool));
    timing->entry = entry;
    timing->bytes = case_bytes(kernel_case);
    timing->operations = kernel_case->operation_count;
    timing->is_cold = timing->bytes > (double)COLD_BYTES;
    TRY_GOTO(time_best(bench, kernel_case, entry, &workspace, timing->is_cold, &timing->seconds));
    timing->limit_seconds = limit_of(bench, timing);
    TRY_GOTO(bench->request->report(bench->request->report_context, timing));
fail:
    kernel_workspace_deinit(&workspace, kernel_case);
    return status;
}

static bool is_able(const struct bench *bench, const struct op_entry *entry, enum op_id op,
                    enum numerics numerics) {
    return entry->op == op && (entry->modes & 1u << (unsigned)numerics) != 0 &&
           (entry->features & ~bench->request->features) == 0;
}

/* All entries of the operation on one case. */
static enum status time_case(struct bench *bench, enum op_id op, const struct case_shape *shape,
                             enum numerics numerics, int load) {
    enum status status = STATUS_OK;
    struct kernel_case kernel_case = {0};
    struct case_plan plan;
    case_plan_init_bench(&plan, loads[load].rows, loads[load].is_prefill,
                         CONTEXT - (loads[load].is_prefill ? (int32_t)loads[load].rows : 1));
    TRY_GOTO(kernel_case_init(&kernel_case, bench->place, case_family_of(op), op, shape, numerics,
                              op == OP_INDEXER_SELECT ? CASE_INTEGERS : CASE_NORMAL, bench->request->seed,
                              &plan));
    TRY_GOTO(kernel_case_upload(&kernel_case));
    for (size_t i = 0; i < bench->request->entry_count; i++) {
        const struct op_entry *entry = bench->request->entries[i];
        bool can_run = is_able(bench, entry, op, numerics) &&
                       (entry->can_run == NULL || entry->can_run(&kernel_case.args));
        double expected = bench->seconds_per_row[i] * (double)loads[load].rows;
        if (!can_run || (load > 0 && expected > LAUNCH_SECONDS_MAX)) {
            continue;
        }
        struct kernel_timing timing = {.numerics = numerics,
                                       .label = shape->label,
                                       .rows = loads[load].rows,
                                       .is_prefill = loads[load].is_prefill};
        TRY_GOTO(time_entry(bench, &kernel_case, entry, &timing));
        bench->seconds_per_row[i] = timing.seconds / (double)loads[load].rows;
    }
fail:
    kernel_case_deinit(&kernel_case);
    return status;
}

static enum status time_operation(struct bench *bench, enum op_id op) {
    const struct case_family *family = case_family_of(op);
    for (int numerics = NUMERICS_COUNT - 1; numerics >= 0; numerics--) {
        for (int s = 0; s < family->bench_shape_count; s++) {
            for (int load = 0; load < LOAD_COUNT; load++) {
                TRY(time_case(bench, op, &family->bench_shapes[s], (enum numerics)numerics, load));
            }
        }
    }
    return STATUS_OK;
}

enum status kernel_bench_run(const struct kernel_bench_request *request) {
    enum status status = STATUS_OK;
    struct bench bench = {.request = request, .place = {.device = request->device}};
    CHECK(request->entry_count <= ENTRIES_MAX, STATUS_BAD_ARGUMENT, "%zu kernels cannot be timed, at most %d",
          request->entry_count, ENTRIES_MAX);
    bench.loops = roofline_loops_choose(request->features);
    bench.eviction = aligned_alloc(CACHE_LINE_BYTES, EVICTION_BYTES);
    CHECK_MEMORY_GOTO(bench.eviction);
    memset(bench.eviction, 1, EVICTION_BYTES);
    TRY_GOTO(device_stream_create(request->device, &bench.place.stream));
    for (int op = 0; op < OP_COUNT; op++) {
        if ((request->operations >> (unsigned)op & 1u) != 0) {
            TRY_GOTO(time_operation(&bench, (enum op_id)op));
        }
    }
fail:
    if (bench.place.stream != NULL) {
        device_stream_destroy(&bench.place.stream);
    }
    free(bench.eviction);
    return status;
}
