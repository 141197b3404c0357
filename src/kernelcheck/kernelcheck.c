/*
 * Cases on the outside, entries on the inside: a case is built once, in all the variants that the checks need
 * (the plan, its rows reversed, some rows alone), and every entry of the operation runs on it.
 */
#include "kernelcheck/kernelcheck.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/worker_pool.h"
#include "kernelcheck/case_compare.h"
#include "kernelcheck/case_families.h"
#include "kernelcheck/kernel_run.h"

enum { THREADS = 2, SINGLES_MAX = 5, VARIANTS_MAX = 2 + SINGLES_MAX, ENTRIES_PER_OP_MAX = 64 };

/* variants[0]: the plan; [1]: reversed; the others: one row each. */
struct case_set {
    struct kernel_case variants[VARIANTS_MAX];
    int variant_count;
    size_t packed_bytes; /* of all rows of the plan */
    unsigned char *wanted;
    unsigned char *first; /* an entry's first run; later runs must be the same */
    unsigned char *other;
};

struct check {
    const struct kernelcheck_request *request;
    struct kernelcheck_result *result;
    struct case_place place;
    struct worker_pool *pool;
    struct case_set set;
    /* First results of each arithmetic id in the current case. */
    const struct op_entry *arithmetic_owner[ENTRIES_PER_OP_MAX];
    unsigned char *arithmetic_bytes[ENTRIES_PER_OP_MAX];
    int arithmetic_count;
};

const char *kernel_verdict_name(enum kernel_verdict verdict) {
    static const char *const names[] = {"passed", "FAILED", "not run", "UNCHECKED"};
    return names[verdict];
}

/* Notes a failure of an entry on the current case; the first one is kept in words. */
static void note_failure(struct check *check, struct kernelcheck_entry *entry, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void note_failure(struct check *check, struct kernelcheck_entry *entry, const char *format, ...) {
    entry->verdict = KERNEL_FAILED;
    if (entry->failure_count++ > 0) {
        return;
    }
    char text[KERNEL_MESSAGE_BYTES / 2];
    char description[KERNEL_MESSAGE_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kernel_case_describe(&check->set.variants[0], description, sizeof description);
    snprintf(entry->message, sizeof entry->message, "%s [%.180s; seed %llu]", text, description,
             (unsigned long long)check->request->seed);
}

static void note_difference(struct check *check, struct kernelcheck_entry *entry, const char *what,
                            const struct case_difference *difference) {
    note_failure(check, entry, "%s: output %d, row %lld, element %lld: got %.9g, wanted %.9g", what,
                 difference->output, (long long)difference->place.row, (long long)difference->place.element,
                 difference->place.got, difference->place.wanted);
}

/* Runs the entry on one variant and packs its results; damage is a failure. */
static enum status run_variant(struct check *check, struct kernelcheck_entry *entry, int variant,
                               struct worker_pool *pool, unsigned char *packed) {
    struct kernel_case *kernel_case = &check->set.variants[variant];
    bool is_damaged;
    size_t operand;
    int64_t offset;
    TRY(kernel_run(kernel_case, entry->entry, pool, &is_damaged));
    kernel_case_pack(kernel_case, packed);
    if (is_damaged) {
        note_failure(check, entry, "writes outside its workspace");
    }
    if (kernel_case_find_damage(kernel_case, &operand, &offset)) {
        note_failure(check, entry, "writes where it may not: operand %zu, byte %lld of %zu", operand,
                     (long long)offset, kernel_case->operands[operand].bytes);
    }
    return STATUS_OK;
}

static enum status check_near(struct check *check, struct kernelcheck_entry *entry) {
    const struct kernel_case *kernel_case = &check->set.variants[0];
    struct case_difference difference;
    bool is_near;
    TRY(case_compare_near(kernel_case, check->set.first, check->set.wanted, &is_near, &difference));
    if (!is_near) {
        char limit[64];
        char what[128];
        tolerance_describe(kernel_case->outputs[difference.output].tolerance, limit, sizeof limit);
        snprintf(what, sizeof what, "differs from the reference by %.3g, limit %s", difference.place.measure,
                 limit);
        note_difference(check, entry, what, &difference);
    }
    return STATUS_OK;
}

/* Runs a variant and compares its rows with those of the entry's first run. */
static enum status check_same(struct check *check, struct kernelcheck_entry *entry, const char *what,
                              int variant, struct worker_pool *pool) {
    struct case_set *set = &check->set;
    struct case_difference difference;
    bool is_same;
    TRY(run_variant(check, entry, variant, pool, set->other));
    TRY(case_compare_bytes(&set->variants[0], set->first, &set->variants[variant], set->other, &is_same,
                           &difference));
    if (!is_same) {
        note_difference(check, entry, what, &difference);
    }
    return STATUS_OK;
}

/* Compares with the first entry of the same arithmetic, or becomes it. */
static enum status check_arithmetic(struct check *check, struct kernelcheck_entry *entry) {
    struct case_set *set = &check->set;
    for (int i = 0; i < check->arithmetic_count; i++) {
        const struct op_entry *owner = check->arithmetic_owner[i];
        if (strcmp(owner->arithmetic, entry->entry->arithmetic) != 0) {
            continue;
        }
        struct case_difference difference;
        bool is_same;
        TRY(case_compare_bytes(&set->variants[0], check->arithmetic_bytes[i], &set->variants[0], set->first,
                               &is_same, &difference));
        if (!is_same) {
            char what[128];
            snprintf(what, sizeof what, "has other bits than %s of the same arithmetic", owner->name);
            note_difference(check, entry, what, &difference);
        }
        return STATUS_OK;
    }
    if (check->arithmetic_count < ENTRIES_PER_OP_MAX) {
        unsigned char *bytes = malloc(set->packed_bytes + 1);
        CHECK_MEMORY(bytes);
        memcpy(bytes, set->first, set->packed_bytes);
        check->arithmetic_owner[check->arithmetic_count] = entry->entry;
        check->arithmetic_bytes[check->arithmetic_count++] = bytes;
    }
    return STATUS_OK;
}

static enum status check_entry(struct check *check, struct kernelcheck_entry *entry) {
    struct case_set *set = &check->set;
    if (check->request->progress != NULL) {
        check->request->progress(check->request->progress_context, entry->entry);
    }
    entry->case_count++;
    TRY(run_variant(check, entry, 0, check->pool, set->first));
    TRY(check_near(check, entry));
    TRY(check_arithmetic(check, entry));
    if (!device_reads_host_memory(check->place.device)) {
        return STATUS_OK; /* where memory is guarded, one run shows all that the guard can show */
    }
    TRY(check_same(check, entry, "a second run differs", 0, check->pool));
    TRY(check_same(check, entry, "one thread gives other bits than two", 0, NULL));
    if (set->variant_count > 1) {
        TRY(check_same(check, entry, "the same row in another order of rows differs", 1, check->pool));
    }
    for (int i = 2; i < set->variant_count; i++) {
        TRY(check_same(check, entry, "the same row alone differs", i, check->pool));
    }
    return STATUS_OK;
}

/* What the contract says of the arguments, and the reference's result. */
static enum status prepare_wanted(struct check *check, const struct op_entry *reference,
                                  enum numerics numerics) {
    struct kernel_case *kernel_case = &check->set.variants[0];
    struct device_arena arena;
    struct op_table table;
    bool is_damaged;
    device_arena_init_planning(&arena);
    op_table_build(&table, &reference, 1, 1u << (unsigned)numerics, 0);
    struct op_queue queue = {.table = &table, .arena = &arena, .is_dry = true};
    TRY(case_submit(&queue, reference->op, &kernel_case->args));
    TRY(kernel_run(kernel_case, reference, NULL, &is_damaged));
    kernel_case_pack(kernel_case, check->set.wanted);
    return STATUS_OK;
}

static void free_set(struct check *check) {
    struct case_set *set = &check->set;
    for (int i = 0; i < set->variant_count; i++) {
        kernel_case_deinit(&set->variants[i]);
    }
    for (int i = 0; i < check->arithmetic_count; i++) {
        free(check->arithmetic_bytes[i]);
    }
    check->arithmetic_count = 0;
    free(set->wanted);
    free(set->first);
    free(set->other);
    *set = (struct case_set){0};
}

static enum status add_variant(struct check *check, const struct case_family *family, enum op_id op,
                               const struct case_shape *shape, enum numerics numerics, enum case_style style,
                               const struct case_plan *plan) {
    struct case_set *set = &check->set;
    TRY(kernel_case_init(&set->variants[set->variant_count++], check->place, family, op, shape, numerics,
                         style, check->request->seed, plan));
    return STATUS_OK;
}

/* Builds the case and its variants. */
static enum status build_set(struct check *check, enum op_id op, const struct case_shape *shape,
                             enum numerics numerics, enum case_style style, int plan_number) {
    struct case_set *set = &check->set;
    const struct case_family *family = case_family_of(op);
    struct case_plan plan;
    struct case_plan variant;
    case_plan_init(&plan, plan_number, family->is_stateful, check->request->seed);
    TRY(add_variant(check, family, op, shape, numerics, style, &plan));
    if (plan.row_count > 1 && device_reads_host_memory(check->place.device)) {
        case_plan_reverse(&plan, &variant);
        TRY(add_variant(check, family, op, shape, numerics, style, &variant));
        int singles = check->request->is_quick ? 2 : SINGLES_MAX;
        singles = singles < plan.row_count ? singles : (int)plan.row_count;
        for (int i = 0; i < singles; i++) {
            case_plan_single(&plan, (plan.row_count - 1) * i / (singles > 1 ? singles - 1 : 1), &variant);
            TRY(add_variant(check, family, op, shape, numerics, style, &variant));
        }
    }
    set->packed_bytes = (size_t)plan.row_count * kernel_case_packed_bytes(&set->variants[0]);
    set->wanted = malloc(set->packed_bytes + 1);
    set->first = malloc(set->packed_bytes + 1);
    set->other = malloc(set->packed_bytes + 1);
    CHECK_MEMORY(set->wanted);
    CHECK_MEMORY(set->first);
    CHECK_MEMORY(set->other);
    return STATUS_OK;
}

static bool is_able(const struct check *check, const struct op_entry *entry, enum op_id op,
                    enum numerics numerics) {
    return entry->op == op && (entry->modes & 1u << (unsigned)numerics) != 0 &&
           (entry->features & ~check->request->features) == 0;
}

/* The reference of an operation in a mode: the entry whose arithmetic says so. */
static enum status find_reference(const struct check *check, enum op_id op, enum numerics numerics,
                                  const struct op_entry **out) {
    for (size_t i = 0; i < check->request->entry_count; i++) {
        const struct op_entry *entry = check->request->entries[i];
        if (is_able(check, entry, op, numerics) && strcmp(entry->arithmetic, "reference") == 0) {
            *out = entry;
        }
    }
    CHECK(*out != NULL, STATUS_NOT_FOUND,
          "%s has no reference in %s numerics to check against; add one to the list", op_name(op),
          numerics_name(numerics));
    return STATUS_OK;
}

static enum status check_case(struct check *check, enum op_id op, const struct case_shape *shape,
                              enum numerics numerics, enum case_style style, int plan_number) {
    enum status status = STATUS_OK;
    const struct op_entry *reference = NULL;
    TRY_GOTO(find_reference(check, op, numerics, &reference));
    TRY_GOTO(build_set(check, op, shape, numerics, style, plan_number));
    TRY_GOTO(prepare_wanted(check, reference, numerics));
    for (size_t i = 0; i < check->result->entry_count; i++) {
        struct kernelcheck_entry *entry = &check->result->entries[i];
        bool can_run = is_able(check, entry->entry, op, numerics) &&
                       (entry->entry->can_run == NULL || entry->entry->can_run(&check->set.variants[0].args));
        if (can_run) {
            TRY_GOTO(check_entry(check, entry));
        }
    }
fail:
    free_set(check);
    return status;
}

static enum status check_operation(struct check *check, enum op_id op) {
    const struct case_family *family = case_family_of(op);
    int plans = check->request->is_quick ? CASE_PLAN_MANY : CASE_PLAN_COUNT;
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        for (int s = 0; s < family->shape_count; s++) {
            for (int style = 0; style < CASE_STYLE_COUNT; style++) {
                if ((family->styles & CASE_STYLE_BIT(style)) == 0) {
                    continue;
                }
                for (int plan = 0; plan < plans; plan++) {
                    TRY(check_case(check, op, &family->shapes[s], (enum numerics)numerics,
                                   (enum case_style)style, plan));
                }
            }
        }
    }
    return STATUS_OK;
}

/* The entries of the asked operations, not run so far. */
static enum status list_entries(struct check *check) {
    struct kernelcheck_result *result = check->result;
    result->entries = calloc(check->request->entry_count + 1, sizeof *result->entries);
    CHECK_MEMORY(result->entries);
    for (size_t i = 0; i < check->request->entry_count; i++) {
        const struct op_entry *entry = check->request->entries[i];
        if ((check->request->operations >> (unsigned)entry->op & 1u) != 0) {
            result->entries[result->entry_count++].entry = entry;
        }
    }
    return STATUS_OK;
}

static void settle_verdicts(const struct check *check) {
    for (size_t i = 0; i < check->result->entry_count; i++) {
        struct kernelcheck_entry *entry = &check->result->entries[i];
        if ((entry->entry->features & ~check->request->features) != 0) {
            entry->verdict = KERNEL_NOT_RUN;
        } else if (entry->case_count == 0) {
            entry->verdict = KERNEL_UNCHECKED;
        }
        check->result->failed_count += entry->verdict == KERNEL_FAILED || entry->verdict == KERNEL_UNCHECKED;
    }
}

enum status kernelcheck_run(const struct kernelcheck_request *request, struct kernelcheck_result *out) {
    enum status status = STATUS_OK;
    struct check check = {.request = request, .result = out, .place = {.device = request->device}};
    *out = (struct kernelcheck_result){0};
    TRY_GOTO(list_entries(&check));
    TRY_GOTO(device_stream_create(request->device, &check.place.stream));
    TRY_GOTO(worker_pool_create(THREADS, &check.pool));
    for (int op = 0; op < OP_COUNT; op++) {
        if ((request->operations >> (unsigned)op & 1u) != 0) {
            TRY_GOTO(check_operation(&check, (enum op_id)op));
        }
    }
    settle_verdicts(&check);
fail:
    worker_pool_destroy(&check.pool);
    if (check.place.stream != NULL) {
        device_stream_destroy(&check.place.stream);
    }
    return status;
}

void kernelcheck_result_deinit(struct kernelcheck_result *result) {
    free(result->entries);
    *result = (struct kernelcheck_result){0};
}
