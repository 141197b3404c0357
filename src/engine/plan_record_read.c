/* Reading plan records: nothing in them is believed before it was looked at. */
#include "engine/plan_record_layout.h"

static bool is_within(int32_t count, int32_t limit) {
    return count >= 0 && count <= limit;
}

static bool is_about_prefixes(const struct plan_head *head) {
    return head->kind >= PLAN_KIND_PREFIX_FIND && head->kind <= PLAN_KIND_PREFIX_KEEP;
}

/* What is 0 unless the record is of some kind. */
static bool has_parts_of_its_kind(const struct plan_head *head) {
    bool is_round = head->kind == PLAN_KIND_ROUND;
    bool is_draft = head->kind == PLAN_KIND_DRAFT;
    return head->round_segment_count == (is_round ? head->segment_count : 0) &&
           (is_round || (head->start_count == 0 && head->mask_flag_count == 0)) &&
           (head->mask_flag_count == 0 || head->mask_flag_count == head->logit_row_count) &&
           head->source_row_count == (is_draft ? head->row_count : 0) &&
           (is_about_prefixes(head) || (head->prefix_token_count == 0 && head->prefix_page_count == 0));
}

/* Pages of a sequence, and no more tokens than it can have. */
static bool has_possible_prefix(const struct plan_head *head, const struct plan_bounds *bounds) {
    return is_within(head->prefix_token_count, bounds->token_limit) &&
           is_within(head->prefix_first_page, bounds->page_limit) &&
           is_within(head->prefix_page_count, bounds->page_limit - head->prefix_first_page);
}

static enum status check_head(const struct plan_head *head, size_t bytes, uint64_t number,
                              const struct plan_bounds *bounds) {
    CHECK(head->magic == PLAN_MAGIC && head->version == PLAN_VERSION, STATUS_INTERNAL,
          "a plan of version %u came in, expected version %d", head->version, PLAN_VERSION);
    CHECK(head->number == number, STATUS_INTERNAL, "plan %llu came in, expected number %llu",
          (unsigned long long)head->number, (unsigned long long)number);
    CHECK(head->kind >= PLAN_KIND_STEP && head->kind <= PLAN_KIND_END &&
              is_within(head->start_count, bounds->segment_limit) &&
              is_within(head->segment_count, bounds->segment_limit) &&
              is_within(head->row_count, bounds->row_limit) &&
              is_within(head->joint_draft_passes, DRAFT_LIMIT_MAX) &&
              is_within(head->logit_row_count, bounds->logit_row_limit) &&
              is_within(head->page_update_count, bounds->page_update_limit) &&
              is_within(head->slot_operation_count, bounds->slot_operation_limit) &&
              is_within(head->snapshot_count, head->segment_count) && has_possible_prefix(head, bounds),
          STATUS_INTERNAL, "plan %llu has counts beyond what this engine plans", (unsigned long long)number);
    CHECK(has_parts_of_its_kind(head) && head->regime >= DRAFT_REGIME_COLD &&
              head->regime <= DRAFT_REGIME_DRAFT && head->draft_source >= DRAFT_SOURCE_STEP &&
              head->draft_source <= DRAFT_SOURCE_SAVED,
          STATUS_INTERNAL, "plan %llu has parts that are not of its kind", (unsigned long long)number);
    size_t expected = sizeof *head + plan_record_body_bytes(head);
    CHECK(expected == bytes, STATUS_INTERNAL, "plan %llu has %zu bytes, expected %zu",
          (unsigned long long)number, bytes, expected);
    return STATUS_OK;
}

static enum status read_start(const struct start_words *words, const struct plan_bounds *bounds,
                              struct sequence_rules *rules, struct round_start *out) {
    CHECK(words->slot >= 0 && words->slot < bounds->segment_limit &&
              is_within(words->token_count, bounds->token_limit) &&
              is_within(words->prompt_count, words->token_count) && words->log_probability_count >= -1 &&
              words->log_probability_count <= SLUICE_LOG_PROBABILITIES_MAX &&
              words->prompt_log_probability_count >= -1 &&
              words->prompt_log_probability_count <= SLUICE_LOG_PROBABILITIES_MAX,
          STATUS_INTERNAL, "a sequence that starts in slot %d has sizes beyond what this engine plans",
          words->slot);
    *rules = (struct sequence_rules){.sampling = words->sampling,
                                     .choice_index = words->choice_index,
                                     .log_probability_count = words->log_probability_count,
                                     .prompt_log_probability_count = words->prompt_log_probability_count};
    *out = (struct round_start){.slot = words->slot,
                                .generation = words->generation,
                                .rules = rules,
                                .prompt_count = words->prompt_count,
                                .token_count = words->token_count};
    return STATUS_OK;
}

/* A segment is of a sequence's slot and of positions that a sequence can have. */
static bool is_in_bounds(const struct step_segment *segment, const struct plan_bounds *bounds) {
    return segment->slot >= 0 && segment->slot < bounds->segment_limit && segment->first_position >= 0 &&
           segment->first_position <= bounds->token_limit - segment->row_count;
}

/* Rows whose logits are wanted: of this step, or for `head` of one that was before. */
static enum status check_logit_rows(const struct plan_head *head, const int32_t *rows,
                                    const struct plan_bounds *bounds) {
    int32_t limit = head->kind == PLAN_KIND_HEAD ? bounds->row_limit : head->row_count;
    for (int32_t i = 0; i < head->logit_row_count; i++) {
        CHECK(rows[i] >= 0 && rows[i] < limit, STATUS_INTERNAL,
              "plan %llu wants logits of row %d, of %d rows", (unsigned long long)head->number, rows[i],
              limit);
    }
    return STATUS_OK;
}

/* Segments and their tokens. */
static enum status read_segments(const struct plan_head *head, const int32_t *words, const int32_t *tokens,
                                 const struct plan_bounds *bounds, struct step_segment *segments) {
    int64_t rows = 0;
    for (int32_t i = 0; i < head->segment_count; i++) {
        segments[i] = (struct step_segment){.slot = words[SEGMENT_WORDS * i],
                                            .first_position = words[SEGMENT_WORDS * i + 1],
                                            .row_count = words[SEGMENT_WORDS * i + 2],
                                            .token_ids = tokens + rows};
        rows += segments[i].row_count;
        if (segments[i].row_count < 1 || rows > head->row_count) {
            break;
        }
        CHECK(is_in_bounds(&segments[i], bounds), STATUS_INTERNAL,
              "plan %llu has a segment of slot %d from position %d on, which there is not",
              (unsigned long long)head->number, segments[i].slot, segments[i].first_position);
    }
    CHECK(rows == head->row_count, STATUS_INTERNAL, "plan %llu has segments that do not make its %d rows",
          (unsigned long long)head->number, head->row_count);
    return STATUS_OK;
}

static bool is_possible(const struct step_segment *step, const struct round_segment *segment) {
    return segment->draft_count >= 0 && segment->draft_count < step->row_count &&
           segment->draft_count <= DRAFT_LIMIT_MAX &&
           is_within(segment->catch_up_rows, step->row_count - segment->draft_count) &&
           is_within(segment->next_draft_count, DRAFT_LIMIT_MAX) && segment->kept_row >= -1 &&
           segment->kept_row < step->row_count && is_within(segment->end_scored_row, step->row_count) &&
           is_within(segment->first_scored_row, segment->end_scored_row);
}

static enum status read_round_segments(const struct plan_head *head, const int32_t *words,
                                       const struct plan_room *room) {
    int32_t logit_rows = 0;
    for (int32_t i = 0; i < head->round_segment_count; i++) {
        const int32_t *of = words + (size_t)ROUND_SEGMENT_WORDS * (size_t)i;
        struct round_segment *segment = &room->round_segments[i];
        *segment = (struct round_segment){.generation = (uint32_t)of[0],
                                          .draft_count = of[1],
                                          .is_sampled = of[2] != 0,
                                          .catch_up_rows = of[3],
                                          .following_token = of[4],
                                          .next_draft_count = of[5],
                                          .token_room = of[6],
                                          .saved_row = of[7],
                                          .kept_row = of[8],
                                          .first_scored_row = of[9],
                                          .end_scored_row = of[10]};
        CHECK(is_possible(&room->segments[i], segment), STATUS_INTERNAL,
              "plan %llu has a segment %d that cannot be", (unsigned long long)head->number, i);
        logit_rows += segment->is_sampled ? 1 + segment->draft_count : 0;
    }
    CHECK(head->kind != PLAN_KIND_ROUND || logit_rows == head->logit_row_count, STATUS_INTERNAL,
          "plan %llu has %d rows of logits for %d tokens", (unsigned long long)head->number,
          head->logit_row_count, logit_rows);
    return STATUS_OK;
}

static const struct step_snapshot *snapshots_at(const struct plan_head *head, const int32_t *logit_rows) {
    const int32_t *updates =
        logit_rows + head->logit_row_count + head->mask_flag_count + head->source_row_count;
    const unsigned char *at = (const unsigned char *)updates +
                              (size_t)head->page_update_count * sizeof(struct step_page_update) +
                              (size_t)head->slot_operation_count * sizeof(struct step_slot_operation);
    return (const struct step_snapshot *)(const void *)at;
}

/* Whether each is of a segment and its rows; slots are checked where the state is known. */
static enum status check_snapshots(const struct plan_head *head, const struct step_segment *segments,
                                   const struct step_snapshot *snapshots) {
    for (int32_t i = 0; i < head->snapshot_count; i++) {
        const struct step_snapshot *snapshot = &snapshots[i];
        CHECK(is_within(snapshot->segment, head->segment_count - 1) && snapshot->row_count >= 1 &&
                  snapshot->row_count <= segments[snapshot->segment].row_count,
              STATUS_INTERNAL, "plan %llu has a snapshot %d of rows that it does not have",
              (unsigned long long)head->number, i);
    }
    return STATUS_OK;
}

/* The last arrays. */
static struct prefix_order make_order(const struct plan_head *head, const struct step_snapshot *snapshots) {
    const int32_t *tokens = (const int32_t *)(const void *)(snapshots + head->snapshot_count);
    return (struct prefix_order){.tokens = tokens,
                                 .token_count = head->prefix_token_count,
                                 .first_page = head->prefix_first_page,
                                 .pages = tokens + head->prefix_token_count,
                                 .page_count = head->prefix_page_count,
                                 .snapshot_slot = head->prefix_snapshot_slot,
                                 .has_snapshot = head->prefix_has_snapshot != 0,
                                 .has_draft_rows = head->prefix_has_draft_rows != 0};
}

static struct step_plan make_step(const struct plan_head *head, const int32_t *logit_rows,
                                  const struct step_segment *segments) {
    const struct step_page_update *updates =
        (const struct step_page_update *)(const void *)(logit_rows + head->logit_row_count +
                                                        head->mask_flag_count);
    return (struct step_plan){
        .segments = segments,
        .segment_count = head->segment_count,
        .logit_rows = logit_rows,
        .logit_row_count = head->logit_row_count,
        .page_updates = updates,
        .page_update_count = head->page_update_count,
        .slot_operations =
            (const struct step_slot_operation *)(const void *)(updates + head->page_update_count),
        .slot_operation_count = head->slot_operation_count,
        .snapshots = snapshots_at(head, logit_rows),
        .snapshot_count = head->snapshot_count};
}

static void fill_round(const struct plan_head *head, const int32_t *logit_rows, const struct plan_room *room,
                       struct plan_record *out) {
    out->round = (struct round_plan){.step = make_step(head, logit_rows, room->segments),
                                     .segments = room->round_segments,
                                     .regime = (enum draft_regime)head->regime,
                                     .starts = room->starts,
                                     .start_count = head->start_count,
                                     .group = head->group,
                                     .joint_draft_passes = head->joint_draft_passes};
    out->mask_flags = logit_rows + head->logit_row_count;
    for (int32_t i = 0; i < head->mask_flag_count; i++) {
        out->mask_count += out->mask_flags[i] != 0;
    }
}

enum status plan_record_read(const void *memory, size_t bytes, uint64_t number,
                             const struct plan_bounds *bounds, const struct plan_room *room,
                             struct plan_record *out) {
    const struct plan_head *head = memory;
    CHECK(bytes >= sizeof *head, STATUS_INTERNAL, "a plan of %zu bytes came in, which has no head", bytes);
    TRY(check_head(head, bytes, number, bounds));
    const struct start_words *starts = (const struct start_words *)(const void *)(head + 1);
    for (int32_t i = 0; i < head->start_count; i++) {
        TRY(read_start(&starts[i], bounds, &room->rules[i], &room->starts[i]));
    }
    const int32_t *words = (const int32_t *)(const void *)(starts + head->start_count);
    const int32_t *round_words = words + (size_t)head->segment_count * SEGMENT_WORDS;
    const int32_t *tokens = round_words + (size_t)head->round_segment_count * ROUND_SEGMENT_WORDS;
    const int32_t *rows = tokens + head->row_count;
    TRY(read_segments(head, words, tokens, bounds, room->segments));
    TRY(check_logit_rows(head, rows, bounds));
    TRY(read_round_segments(head, round_words, room));
    TRY(check_snapshots(head, room->segments, snapshots_at(head, rows)));
    *out = (struct plan_record){.kind = (enum plan_kind)head->kind};
    switch (out->kind) {
    case PLAN_KIND_ROUND:
        fill_round(head, rows, room, out);
        break;
    case PLAN_KIND_DRAFT:
        out->draft = (struct draft_plan){.segments = room->segments,
                                         .segment_count = head->segment_count,
                                         .source = (enum draft_source)head->draft_source,
                                         .source_rows = rows + head->logit_row_count,
                                         .writes_state_only = head->writes_state_only != 0,
                                         .snapshots = snapshots_at(head, rows),
                                         .snapshot_count = head->snapshot_count};
        break;
    case PLAN_KIND_PREFIX_FIND:
    case PLAN_KIND_PREFIX_LOAD:
    case PLAN_KIND_PREFIX_RESTORE:
    case PLAN_KIND_PREFIX_KEEP:
        out->prefix = make_order(head, snapshots_at(head, rows));
        out->step = make_step(head, rows, room->segments);
        break;
    case PLAN_KIND_STEP:
    case PLAN_KIND_CHANGE_STATE:
    case PLAN_KIND_PASSES_END:
    case PLAN_KIND_HEAD:
    case PLAN_KIND_REPORT:
    case PLAN_KIND_REST:
    case PLAN_KIND_TRACE:
    case PLAN_KIND_END:
        out->step = make_step(head, rows, room->segments);
        break;
    }
    return STATUS_OK;
}
