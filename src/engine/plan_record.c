/*
 * Starts lie behind the head, then arrays in the order of their counts; these are made of 32-bit integers.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/plan_record_layout.h"

enum status plan_room_init(struct plan_room *room, const struct plan_bounds *bounds) {
    size_t segments = (size_t)bounds->segment_limit;
    *room = (struct plan_room){0};
    room->segments = calloc(segments, sizeof *room->segments);
    room->round_segments = calloc(segments, sizeof *room->round_segments);
    room->starts = calloc(segments, sizeof *room->starts);
    room->rules = calloc(segments, sizeof *room->rules);
    CHECK_MEMORY(room->segments);
    CHECK_MEMORY(room->round_segments);
    CHECK_MEMORY(room->starts);
    CHECK_MEMORY(room->rules);
    return STATUS_OK;
}

void plan_room_deinit(struct plan_room *room) {
    free(room->segments);
    free(room->round_segments);
    free(room->starts);
    free(room->rules);
    *room = (struct plan_room){0};
}

size_t plan_record_body_bytes(const struct plan_head *head) {
    size_t words = (size_t)head->segment_count * SEGMENT_WORDS +
                   (size_t)head->round_segment_count * ROUND_SEGMENT_WORDS + (size_t)head->row_count +
                   (size_t)head->logit_row_count + (size_t)head->mask_flag_count +
                   (size_t)head->source_row_count;
    return (size_t)head->start_count * sizeof(struct start_words) + words * sizeof(int32_t) +
           (size_t)head->page_update_count * sizeof(struct step_page_update) +
           (size_t)head->slot_operation_count * sizeof(struct step_slot_operation) +
           (size_t)head->snapshot_count * sizeof(struct step_snapshot) +
           ((size_t)head->prefix_token_count + (size_t)head->prefix_page_count) * sizeof(int32_t);
}

size_t plan_record_bytes_max(const struct plan_bounds *bounds) {
    struct plan_head head = {.start_count = bounds->segment_limit,
                             .segment_count = bounds->segment_limit,
                             .round_segment_count = bounds->segment_limit,
                             .row_count = bounds->row_limit,
                             .logit_row_count = bounds->logit_row_limit,
                             .mask_flag_count = bounds->logit_row_limit,
                             .source_row_count = bounds->row_limit,
                             .page_update_count = bounds->page_update_limit,
                             .slot_operation_count = bounds->slot_operation_limit,
                             .snapshot_count = bounds->segment_limit,
                             .prefix_token_count = bounds->token_limit,
                             .prefix_page_count = bounds->page_limit};
    return sizeof head + plan_record_body_bytes(&head);
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

static unsigned char *put_starts(unsigned char *at, const struct round_plan *round) {
    for (int32_t i = 0; i < round->start_count; i++) {
        const struct round_start *start = &round->starts[i];
        struct start_words words = {.sampling = start->rules->sampling,
                                    .slot = start->slot,
                                    .generation = start->generation,
                                    .choice_index = start->rules->choice_index,
                                    .log_probability_count = start->rules->log_probability_count,
                                    .prompt_log_probability_count =
                                        start->rules->prompt_log_probability_count,
                                    .prompt_count = start->prompt_count,
                                    .token_count = start->token_count};
        words.sampling.logit_bias = NULL;
        at = put(at, &words, sizeof words);
    }
    return at;
}

static unsigned char *put_segments(unsigned char *at, const struct step_segment *segments, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        int32_t words[SEGMENT_WORDS] = {segments[i].slot, segments[i].first_position, segments[i].row_count};
        at = put(at, words, sizeof words);
    }
    return at;
}

static unsigned char *put_round_segments(unsigned char *at, const struct round_segment *segments,
                                         int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        const struct round_segment *segment = &segments[i];
        int32_t words[ROUND_SEGMENT_WORDS] = {
            (int32_t)segment->generation, segment->draft_count,     segment->is_sampled,
            segment->catch_up_rows,       segment->following_token, segment->next_draft_count,
            segment->token_room,          segment->saved_row,       segment->kept_row,
            segment->first_scored_row,    segment->end_scored_row};
        at = put(at, words, sizeof words);
    }
    return at;
}

static unsigned char *put_tokens(unsigned char *at, const struct step_segment *segments, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        at = put(at, segments[i].token_ids, (size_t)segments[i].row_count * sizeof(int32_t));
    }
    return at;
}

static unsigned char *put_mask_flags(unsigned char *at, const struct round_plan *round) {
    for (int32_t i = 0; round->row_masks != NULL && i < round->step.logit_row_count; i++) {
        int32_t flag = round->row_masks[i] != NULL;
        at = put(at, &flag, sizeof flag);
    }
    return at;
}

static struct plan_head make_head(const struct plan_record *record, const struct step_plan *step,
                                  uint64_t number) {
    const struct round_plan *round = &record->round;
    bool is_round = record->kind == PLAN_KIND_ROUND;
    const struct draft_plan *draft = &record->draft;
    bool is_draft = record->kind == PLAN_KIND_DRAFT;
    int32_t segments = is_draft ? draft->segment_count : step->segment_count;
    int32_t rows = row_count(is_draft ? draft->segments : step->segments, segments);
    return (struct plan_head){.magic = PLAN_MAGIC,
                              .version = PLAN_VERSION,
                              .number = number,
                              .kind = (int32_t)record->kind,
                              .draft_source = (int32_t)draft->source,
                              .writes_state_only = draft->writes_state_only,
                              .regime = (int32_t)round->regime,
                              .group = round->group,
                              .start_count = round->start_count,
                              .segment_count = segments,
                              .round_segment_count = is_round ? segments : 0,
                              .row_count = rows,
                              .logit_row_count = step->logit_row_count,
                              .mask_flag_count = round->row_masks != NULL ? step->logit_row_count : 0,
                              .source_row_count = is_draft ? rows : 0,
                              .page_update_count = step->page_update_count,
                              .slot_operation_count = step->slot_operation_count,
                              .joint_draft_passes = round->joint_draft_passes,
                              .snapshot_count = is_draft ? draft->snapshot_count : step->snapshot_count,
                              .prefix_token_count = record->prefix.token_count,
                              .prefix_first_page = record->prefix.first_page,
                              .prefix_page_count = record->prefix.page_count,
                              .prefix_snapshot_slot = record->prefix.snapshot_slot,
                              .prefix_has_snapshot = record->prefix.has_snapshot,
                              .prefix_has_draft_rows = record->prefix.has_draft_rows};
}

size_t plan_record_write(const struct plan_record *record, uint64_t number, void *memory) {
    const struct step_plan *step = record->kind == PLAN_KIND_ROUND ? &record->round.step : &record->step;
    struct plan_head head = make_head(record, step, number);
    const struct step_segment *segments =
        record->kind == PLAN_KIND_DRAFT ? record->draft.segments : step->segments;
    unsigned char *at = put(memory, &head, sizeof head);
    at = put_starts(at, &record->round);
    at = put_segments(at, segments, head.segment_count);
    at = put_round_segments(at, record->round.segments, head.round_segment_count);
    at = put_tokens(at, segments, head.segment_count);
    at = put(at, step->logit_rows, (size_t)head.logit_row_count * sizeof(int32_t));
    at = put_mask_flags(at, &record->round);
    at = put(at, record->draft.source_rows, (size_t)head.source_row_count * sizeof(int32_t));
    at = put(at, step->page_updates, (size_t)head.page_update_count * sizeof *step->page_updates);
    at = put(at, step->slot_operations, (size_t)head.slot_operation_count * sizeof *step->slot_operations);
    const struct step_snapshot *snapshots =
        record->kind == PLAN_KIND_DRAFT ? record->draft.snapshots : step->snapshots;
    at = put(at, snapshots, (size_t)head.snapshot_count * sizeof *snapshots);
    at = put(at, record->prefix.tokens, (size_t)head.prefix_token_count * sizeof(int32_t));
    at = put(at, record->prefix.pages, (size_t)head.prefix_page_count * sizeof(int32_t));
    return (size_t)(at - (unsigned char *)memory);
}
