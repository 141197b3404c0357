/* Arrays lie behind the head in the order of their counts; all are made of 32-bit integers. */
#include "engine/plan_record.h"

#include <string.h>

enum { PLAN_MAGIC = 0x534c4350, PLAN_VERSION = 1, SEGMENT_WORDS = 3 };

struct plan_head {
    uint32_t magic;
    uint32_t version;
    uint64_t number;
    int32_t kind;
    int32_t draft_source;
    int32_t writes_state_only;
    int32_t segment_count;
    int32_t row_count;
    int32_t logit_row_count;
    int32_t source_row_count;
    int32_t page_update_count;
    int32_t slot_operation_count;
    int32_t unused;
};

static size_t words_bytes(const struct plan_head *head) {
    size_t words = (size_t)head->segment_count * SEGMENT_WORDS + (size_t)head->row_count +
                   (size_t)head->logit_row_count + (size_t)head->source_row_count;
    return words * sizeof(int32_t) + (size_t)head->page_update_count * sizeof(struct step_page_update) +
           (size_t)head->slot_operation_count * sizeof(struct step_slot_operation);
}

size_t plan_record_bytes_max(const struct plan_bounds *bounds) {
    struct plan_head head = {.segment_count = bounds->segment_limit,
                             .row_count = bounds->row_limit,
                             .logit_row_count = bounds->logit_row_limit,
                             .source_row_count = bounds->row_limit,
                             .page_update_count = bounds->page_update_limit,
                             .slot_operation_count = bounds->slot_operation_limit};
    return sizeof head + words_bytes(&head);
}

static int32_t row_count(const struct step_segment *segments, int32_t count) {
    int32_t rows = 0;
    for (int32_t i = 0; i < count; i++) {
        rows += segments[i].row_count;
    }
    return rows;
}

static unsigned char *put(unsigned char *at, const void *from, size_t bytes) {
    if (bytes > 0) {
        memcpy(at, from, bytes);
    }
    return at + bytes;
}

static unsigned char *put_segments(unsigned char *at, const struct step_segment *segments, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t words[SEGMENT_WORDS] = {segments[i].slot, segments[i].first_position, segments[i].row_count};
        at = put(at, words, sizeof words);
    }
    for (int32_t i = 0; i < count; i++) {
        at = put(at, segments[i].token_ids, (size_t)segments[i].row_count * sizeof(int32_t));
    }
    return at;
}

static void fill_head(struct plan_head *head, const struct step_plan *step, const struct draft_plan *draft) {
    if (step != NULL) {
        head->segment_count = step->segment_count;
        head->row_count = row_count(step->segments, step->segment_count);
        head->logit_row_count = step->logit_row_count;
        head->page_update_count = step->page_update_count;
        head->slot_operation_count = step->slot_operation_count;
    }
    if (draft != NULL) {
        head->segment_count = draft->segment_count;
        head->row_count = row_count(draft->segments, draft->segment_count);
        head->source_row_count = head->row_count;
        head->draft_source = (int32_t)draft->source;
        head->writes_state_only = draft->writes_state_only;
    }
}

size_t plan_record_write(enum plan_kind kind, uint64_t number, const struct step_plan *step,
                         const struct draft_plan *draft, void *memory) {
    struct plan_head head = {
        .magic = PLAN_MAGIC, .version = PLAN_VERSION, .number = number, .kind = (int32_t)kind};
    fill_head(&head, step, draft);
    unsigned char *at = put(memory, &head, sizeof head);
    if (step != NULL) {
        at = put_segments(at, step->segments, step->segment_count);
        at = put(at, step->logit_rows, (size_t)step->logit_row_count * sizeof *step->logit_rows);
        at = put(at, step->page_updates, (size_t)step->page_update_count * sizeof *step->page_updates);
        at = put(at, step->slot_operations,
                 (size_t)step->slot_operation_count * sizeof *step->slot_operations);
    }
    if (draft != NULL) {
        at = put_segments(at, draft->segments, draft->segment_count);
        at = put(at, draft->source_rows, (size_t)head.source_row_count * sizeof *draft->source_rows);
    }
    return (size_t)(at - (unsigned char *)memory);
}

/* Whether the segments of a record, of which nothing is believed yet, have the rows that its head says. */
static bool are_rows_right(const struct plan_head *head) {
    const int32_t *words = (const int32_t *)(const void *)(head + 1);
    int64_t rows = 0;
    for (int32_t i = 0; i < head->segment_count; i++) {
        int32_t of_segment = words[SEGMENT_WORDS * i + SEGMENT_WORDS - 1];
        if (of_segment < 1) {
            return false;
        }
        rows += of_segment;
    }
    return rows == head->row_count;
}

static bool is_within(int32_t count, int32_t limit) {
    return count >= 0 && count <= limit;
}

static enum status check_head(const struct plan_head *head, size_t bytes, uint64_t number,
                              const struct plan_bounds *bounds) {
    CHECK(head->magic == PLAN_MAGIC && head->version == PLAN_VERSION, STATUS_INTERNAL,
          "a plan of version %u came in, expected version %d", head->version, PLAN_VERSION);
    CHECK(head->number == number, STATUS_INTERNAL, "plan %llu came in, expected number %llu",
          (unsigned long long)head->number, (unsigned long long)number);
    CHECK(head->kind >= PLAN_KIND_STEP && head->kind <= PLAN_KIND_END &&
              is_within(head->segment_count, bounds->segment_limit) &&
              is_within(head->row_count, bounds->row_limit) &&
              is_within(head->logit_row_count, bounds->logit_row_limit) &&
              is_within(head->source_row_count, bounds->row_limit) &&
              is_within(head->page_update_count, bounds->page_update_limit) &&
              is_within(head->slot_operation_count, bounds->slot_operation_limit),
          STATUS_INTERNAL, "plan %llu has counts beyond what this engine plans", (unsigned long long)number);
    CHECK(sizeof *head + words_bytes(head) == bytes, STATUS_INTERNAL, "plan %llu has %zu bytes, expected %zu",
          (unsigned long long)number, bytes, sizeof *head + words_bytes(head));
    return STATUS_OK;
}

/* Segments and their tokens; what lies behind them. */
static const unsigned char *read_segments(const struct plan_head *head, const unsigned char *at,
                                          struct step_segment *segments) {
    const int32_t *words = (const int32_t *)(const void *)at;
    const int32_t *tokens = words + (size_t)head->segment_count * SEGMENT_WORDS;
    for (int32_t i = 0; i < head->segment_count; i++) {
        segments[i] = (struct step_segment){.slot = words[SEGMENT_WORDS * i],
                                            .first_position = words[SEGMENT_WORDS * i + 1],
                                            .row_count = words[SEGMENT_WORDS * i + 2],
                                            .token_ids = tokens};
        tokens += segments[i].row_count;
    }
    return (const unsigned char *)(words + (size_t)head->segment_count * SEGMENT_WORDS + head->row_count);
}

enum status plan_record_read(const void *memory, size_t bytes, uint64_t number,
                             const struct plan_bounds *bounds, struct step_segment *segments,
                             struct plan_record *out) {
    const struct plan_head *head = memory;
    CHECK(bytes >= sizeof *head, STATUS_INTERNAL, "a plan of %zu bytes came in, which has no head", bytes);
    TRY(check_head(head, bytes, number, bounds));
    CHECK(are_rows_right(head), STATUS_INTERNAL, "plan %llu has segments that do not make its %d rows",
          (unsigned long long)number, head->row_count);
    const unsigned char *at = read_segments(head, (const unsigned char *)(head + 1), segments);
    const int32_t *rows = (const int32_t *)(const void *)at;
    *out = (struct plan_record){.kind = (enum plan_kind)head->kind};
    if (out->kind == PLAN_KIND_DRAFT) {
        out->draft = (struct draft_plan){.segments = segments,
                                         .segment_count = head->segment_count,
                                         .source = (enum draft_source)head->draft_source,
                                         .source_rows = rows,
                                         .writes_state_only = head->writes_state_only != 0};
        return STATUS_OK;
    }
    const struct step_page_update *updates =
        (const struct step_page_update *)(const void *)(rows + head->logit_row_count);
    out->step = (struct step_plan){
        .segments = segments,
        .segment_count = head->segment_count,
        .logit_rows = rows,
        .logit_row_count = head->logit_row_count,
        .page_updates = updates,
        .page_update_count = head->page_update_count,
        .slot_operations =
            (const struct step_slot_operation *)(const void *)(updates + head->page_update_count),
        .slot_operation_count = head->slot_operation_count};
    return STATUS_OK;
}
