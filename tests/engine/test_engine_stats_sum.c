/*
 * Every field of the statistics against a table of how it adds up. The table is compared with the header's
 * text, so that a field that nobody adds is found the day it is declared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_stats_sum.h"

enum rule { COUNTER, SUMMED_GAUGE, LARGEST_GAUGE };
enum kind { I32, I64, F64 };

struct field {
    const char *name;
    enum rule rule;
    enum kind kind;
    size_t offset;
    int count;
};

#define FIELD(OWNER, NAME, RULE, KIND) \
    { #NAME, RULE, KIND, offsetof(struct OWNER, NAME), 1 }
#define LIST(NAME, COUNT) \
    { #NAME, COUNTER, I64, offsetof(struct sluice_engine_stats, NAME), COUNT }

/* All but stage_count and stages. */
static const struct field engine_fields[] = {
    FIELD(sluice_engine_stats, running_requests, SUMMED_GAUGE, I32),
    FIELD(sluice_engine_stats, waiting_requests, SUMMED_GAUGE, I32),
    FIELD(sluice_engine_stats, free_pages, SUMMED_GAUGE, I32),
    FIELD(sluice_engine_stats, cached_pages, SUMMED_GAUGE, I32),
    FIELD(sluice_engine_stats, steps, COUNTER, I64),
    FIELD(sluice_engine_stats, step_rows, COUNTER, I64),
    FIELD(sluice_engine_stats, step_seconds, COUNTER, F64),
    FIELD(sluice_engine_stats, planning_seconds, COUNTER, F64),
    FIELD(sluice_engine_stats, draft_seconds, COUNTER, F64),
    FIELD(sluice_engine_stats, finished_requests, COUNTER, I64),
    FIELD(sluice_engine_stats, preemptions, COUNTER, I64),
    FIELD(sluice_engine_stats, prompt_tokens, COUNTER, I64),
    FIELD(sluice_engine_stats, cached_prompt_tokens, COUNTER, I64),
    FIELD(sluice_engine_stats, output_tokens, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_queried_tokens, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_found_tokens, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_read_bytes, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_written_bytes, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_damaged_entries, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_failed_writes, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_dropped_entries, COUNTER, I64),
    FIELD(sluice_engine_stats, disk_evicted_entries, COUNTER, I64),
    FIELD(sluice_engine_stats, draft_tokens, COUNTER, I64),
    LIST(verified_drafts, SLUICE_DRAFT_POSITIONS_MAX),
    LIST(accepted_drafts, SLUICE_DRAFT_POSITIONS_MAX),
    LIST(ticks_by_draft_length, SLUICE_DRAFT_POSITIONS_MAX + 1),
    FIELD(sluice_engine_stats, cold_ticks, COUNTER, I64),
    FIELD(sluice_engine_stats, warm_ticks, COUNTER, I64),
    FIELD(sluice_engine_stats, draft_switches, COUNTER, I64),
    FIELD(sluice_engine_stats, draft_guard_trips, COUNTER, I64),
    FIELD(sluice_engine_stats, draft_probe_gain, LARGEST_GAUGE, F64),
    FIELD(sluice_engine_stats, draft_length, LARGEST_GAUGE, I32),
    FIELD(sluice_engine_stats, draft_regime, LARGEST_GAUGE, I32),
};

static const struct field stage_fields[] = {
    FIELD(sluice_stage_stats, compute_seconds, COUNTER, F64),
    FIELD(sluice_stage_stats, wait_seconds, COUNTER, F64),
    FIELD(sluice_stage_stats, send_seconds, COUNTER, F64),
    FIELD(sluice_stage_stats, boundary_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, plan_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, feedback_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, sum_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, gather_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, exchange_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, relay_bytes, COUNTER, I64),
    FIELD(sluice_stage_stats, expert_moves, COUNTER, I64),
    FIELD(sluice_stage_stats, expert_imbalance, LARGEST_GAUGE, F64),
};

enum {
    ENGINE_FIELDS = sizeof(engine_fields) / sizeof(engine_fields[0]),
    STAGE_FIELDS = sizeof(stage_fields) / sizeof(stage_fields[0]),
};

static double value_of(const void *record, const struct field *field, int index) {
    const char *at = (const char *)record + field->offset;
    if (field->kind == I32) {
        return ((const int32_t *)at)[index];
    }
    return field->kind == I64 ? (double)((const int64_t *)at)[index] : ((const double *)at)[index];
}

static void set_value(void *record, const struct field *field, int index, int value) {
    char *at = (char *)record + field->offset;
    if (field->kind == I32) {
        ((int32_t *)at)[index] = value;
    } else if (field->kind == I64) {
        ((int64_t *)at)[index] = value;
    } else {
        ((double *)at)[index] = value;
    }
}

/* Different in every field and item; `scale` tells one record from another. */
static int filling(int field, int item, int scale) {
    return scale * (1 + 20 * field + item);
}

static void fill(void *record, const struct field *fields, int count, int scale) {
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < fields[i].count; k++) {
            set_value(record, &fields[i], k, filling(i, k, scale));
        }
    }
}

static struct sluice_engine_stats filled(int32_t stage_count, int scale) {
    struct sluice_engine_stats stats = {.stage_count = stage_count};
    fill(&stats, engine_fields, ENGINE_FIELDS, scale);
    for (int32_t i = 0; i < stage_count; i++) {
        fill(&stats.stages[i], stage_fields, STAGE_FIELDS, scale * (i + 1));
    }
    return stats;
}

/* What the counters and the gauges are in multiples of the filling. */
struct expectation {
    int counters, summed_gauges, largest_gauges;
};

static void check(const void *record, const struct field *fields, int count, struct expectation expected) {
    const int scales[] = {expected.counters, expected.summed_gauges, expected.largest_gauges};
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < fields[i].count; k++) {
            double wanted = filling(i, k, scales[fields[i].rule]);
            if (value_of(record, &fields[i], k) != wanted) {
                fail_msg("%s[%d] is %g, not %g", fields[i].name, k, value_of(record, &fields[i], k), wanted);
            }
        }
    }
}

static void counters_are_added_and_taken_away(void **state) {
    (void)state;
    struct sluice_engine_stats sum = filled(2, 5);
    struct sluice_engine_stats more = filled(3, 7);
    engine_stats_add_counters(&sum, &more, 1);
    check(&sum, engine_fields, ENGINE_FIELDS, (struct expectation){12, 5, 5});
    check(&sum.stages[1], stage_fields, STAGE_FIELDS, (struct expectation){24, 10, 10});
    check(&sum.stages[2], stage_fields, STAGE_FIELDS, (struct expectation){21, 0, 0});
    assert_int_equal(sum.stage_count, 3);
    engine_stats_add_counters(&sum, &more, -1);
    check(&sum, engine_fields, ENGINE_FIELDS, (struct expectation){5, 5, 5});
    check(&sum.stages[1], stage_fields, STAGE_FIELDS, (struct expectation){10, 10, 10});
}

static void gauges_are_summed_or_the_largest_stays(void **state) {
    (void)state;
    struct sluice_engine_stats small = filled(2, 5);
    struct sluice_engine_stats large = filled(2, 7);
    struct sluice_engine_stats sum = small;
    engine_stats_add_gauges(&sum, &large);
    check(&sum, engine_fields, ENGINE_FIELDS, (struct expectation){5, 12, 7});
    check(&sum.stages[1], stage_fields, STAGE_FIELDS, (struct expectation){10, 0, 14});
    sum = large;
    engine_stats_add_gauges(&sum, &small);
    check(&sum, engine_fields, ENGINE_FIELDS, (struct expectation){7, 12, 7});
    check(&sum.stages[1], stage_fields, STAGE_FIELDS, (struct expectation){14, 0, 14});
}

static void stages_add_up(void **state) {
    (void)state;
    struct sluice_engine_stats sum = filled(1, 5);
    struct sluice_engine_stats more = filled(1, 7);
    stage_stats_add(&sum.stages[0], &more.stages[0]);
    check(&sum.stages[0], stage_fields, STAGE_FIELDS, (struct expectation){12, 0, 7});
}

/* The text of the public header; the caller frees it. */
static char *header_text(void) {
    FILE *file = fopen(SLUICE_SOURCE_DIR "/include/sluice/engine.h", "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    size_t length = fread(text, 1, (1 << 16) - 1, file);
    assert_true(length > 0 && feof(file));
    assert_int_equal(fclose(file), 0);
    return text;
}

/* Members are declared one a line: as many semicolons in code as members. */
static int count_members(const char *text, const char *head) {
    const char *at = strstr(text, head);
    assert_non_null(at);
    const char *end = strstr(at, "\n};");
    assert_non_null(end);
    int count = 0;
    for (at += strlen(head); at < end; at++) {
        if (strncmp(at, "/*", 2) == 0) {
            at = strstr(at, "*/") + 1;
        } else if (*at == ';') {
            count++;
        }
    }
    return count;
}

static void no_field_is_forgotten(void **state) {
    (void)state;
    char *text = header_text();
    assert_int_equal(count_members(text, "struct sluice_stage_stats {"), STAGE_FIELDS);
    assert_int_equal(count_members(text, "struct sluice_engine_stats {"), ENGINE_FIELDS + 2);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_added_and_taken_away),
        cmocka_unit_test(gauges_are_summed_or_the_largest_stays),
        cmocka_unit_test(stages_add_up),
        cmocka_unit_test(no_field_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
