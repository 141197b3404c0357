#include "engine/feedback_record.h"

#include <stdio.h>
#include <string.h>

enum { FEEDBACK_MAGIC = 0x534c4342, FEEDBACK_VERSION = 2, NO_TOKEN = -1 };

enum { FLAG_ERROR = 1, FLAG_RECORDS = 2 };

struct feedback_head {
    uint32_t magic;
    uint32_t version;
    uint64_t number;
    int32_t count;
    int32_t status;
    struct stage_seconds stages;
    uint64_t extra_bytes;
};

/* A.3; ids [draft_limit + 1] and drafts [draft_limit] follow. */
struct feedback_words {
    uint32_t slot;
    uint32_t generation;
    uint16_t new_count;
    uint16_t draft_count;
    uint16_t flags;
    uint16_t reserved;
};

/* A part of what is extra, filled up to 8 bytes. */
struct extra_head {
    int32_t is_sentence; /* of an error; else log-probabilities */
    int32_t unused;
    int32_t first;  /* status of the error; tokens that have log-probabilities */
    int32_t second; /* bytes of the sentence, 0 at its end included; entries per token */
};

static size_t round_up(size_t bytes) {
    return (bytes + 7) / 8 * 8;
}

static size_t record_bytes(const struct feedback_shape *shape) {
    return sizeof(struct feedback_words) + (2 * (size_t)shape->draft_limit + 1) * sizeof(int32_t);
}

size_t feedback_record_bytes(const struct feedback_shape *shape, int32_t count) {
    return sizeof(struct feedback_head) + (size_t)count * record_bytes(shape);
}

size_t feedback_extra_bytes_max(const struct feedback_shape *shape) {
    size_t sentence = sizeof((struct round_feedback *)NULL)->message;
    size_t entries = (size_t)(shape->draft_limit + 1) * (1 + SLUICE_LOG_PROBABILITIES_MAX);
    size_t records = entries * sizeof(struct sluice_log_probability);
    size_t most = sizeof(struct extra_head) + round_up(sentence > records ? sentence : records);
    size_t prompts = (size_t)shape->row_limit * (1 + SLUICE_LOG_PROBABILITIES_MAX);
    return most * (2 * (size_t)shape->sequence_limit + 1) + prompts * sizeof(struct sluice_log_probability);
}

static unsigned char *put_sentence(unsigned char *at, enum status status, const char *message) {
    struct extra_head head = {.is_sentence = 1, .first = (int32_t)status};
    size_t bytes = strlen(message) + 1;
    size_t most = sizeof((struct round_feedback *)NULL)->message;
    bytes = bytes < most ? bytes : most;
    head.second = (int32_t)bytes;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, message, bytes);
    at[sizeof head + bytes - 1] = 0;
    return at + sizeof head + round_up(bytes);
}

static unsigned char *put_records(unsigned char *at, const struct round_feedback *feedback) {
    struct extra_head head = {.first = feedback->recorded_tokens, .second = feedback->record_width};
    size_t bytes = (size_t)head.first * (size_t)head.second * sizeof *feedback->log_probabilities;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, feedback->log_probabilities, bytes);
    return at + sizeof head + round_up(bytes);
}

static unsigned char *put_extra(unsigned char *at, const struct round_feedback *feedback) {
    return feedback->status != STATUS_OK ? put_sentence(at, feedback->status, feedback->message)
                                         : put_records(at, feedback);
}

static uint16_t flags_of(const struct round_feedback *feedback) {
    return (uint16_t)((feedback->status != STATUS_OK ? FLAG_ERROR : 0) |
                      (feedback->status == STATUS_OK && feedback->recorded_tokens > 0 ? FLAG_RECORDS : 0));
}

static unsigned char *put_feedback(unsigned char *at, const struct feedback_shape *shape,
                                   const struct round_plan *plan, const struct round_feedback *feedback) {
    struct feedback_words words = {.slot = (uint32_t)plan->step.segments[feedback->segment].slot,
                                   .generation = plan->segments[feedback->segment].generation,
                                   .new_count = (uint16_t)feedback->token_count,
                                   .draft_count = (uint16_t)feedback->draft_count,
                                   .flags = flags_of(feedback)};
    int32_t ids[2 * DRAFT_LIMIT_MAX + 1];
    for (int32_t i = 0; i <= shape->draft_limit; i++) {
        ids[i] = i < feedback->token_count ? feedback->tokens[i] : NO_TOKEN;
    }
    for (int32_t i = 0; i < shape->draft_limit; i++) {
        ids[shape->draft_limit + 1 + i] = i < feedback->draft_count ? feedback->drafts[i] : NO_TOKEN;
    }
    size_t id_bytes = (2 * (size_t)shape->draft_limit + 1) * sizeof ids[0];
    memcpy(at, &words, sizeof words);
    memcpy(at + sizeof words, ids, id_bytes);
    return at + sizeof words + id_bytes;
}

size_t feedback_record_write(const struct feedback_shape *shape, const struct feedback_tick *tick,
                             const struct round_plan *plan, const struct round_result *result, void *memory,
                             void *extra) {
    unsigned char *at = (unsigned char *)memory + sizeof(struct feedback_head);
    unsigned char *extra_at = extra;
    if (tick->status != STATUS_OK) {
        extra_at = put_sentence(extra_at, tick->status, tick->message);
    }
    for (int32_t i = 0; i < result->feedback_count; i++) {
        at = put_feedback(at, shape, plan, &result->feedback[i]);
        if (flags_of(&result->feedback[i]) != 0) {
            extra_at = put_extra(extra_at, &result->feedback[i]);
        }
    }
    for (int32_t i = 0; i < result->prompt_feedback_count; i++) {
        extra_at = put_extra(extra_at, &result->prompt_feedback[i]);
    }
    struct feedback_head head = {.magic = FEEDBACK_MAGIC,
                                 .version = FEEDBACK_VERSION,
                                 .number = tick->number,
                                 .count = result->feedback_count,
                                 .status = (int32_t)tick->status,
                                 .stages = tick->stages,
                                 .extra_bytes = (uint64_t)(extra_at - (unsigned char *)extra)};
    memcpy(memory, &head, sizeof head);
    return head.extra_bytes;
}

enum status feedback_record_check(const struct feedback_shape *shape, uint64_t number, int32_t count,
                                  const void *memory, size_t *extra_bytes) {
    const struct feedback_head *head = memory;
    CHECK(head->magic == FEEDBACK_MAGIC && head->version == FEEDBACK_VERSION, STATUS_INTERNAL,
          "feedback of version %u came in, expected version %d", head->version, FEEDBACK_VERSION);
    CHECK(head->number == number, STATUS_INTERNAL, "feedback of tick %llu came in, expected tick %llu",
          (unsigned long long)head->number, (unsigned long long)number);
    CHECK(head->count == count && head->extra_bytes <= feedback_extra_bytes_max(shape), STATUS_INTERNAL,
          "feedback of tick %llu is for %d segments, expected %d", (unsigned long long)number, head->count,
          count);
    *extra_bytes = (size_t)head->extra_bytes;
    return STATUS_OK;
}

/* What is left of the second part. */
struct extra_reader {
    const unsigned char *at;
    size_t bytes;
};

/* The next part, and where its sentence or its log-probabilities are. */
static enum status take_extra(struct extra_reader *reader, struct extra_head *head, const void **out) {
    CHECK(reader->bytes >= sizeof *head, STATUS_INTERNAL, "feedback lacks a part that it announces");
    memcpy(head, reader->at, sizeof *head);
    CHECK(head->first >= 0 && head->second >= 1 && head->second <= ERROR_MESSAGE_BYTES, STATUS_INTERNAL,
          "feedback has a part of impossible size");
    size_t bytes = head->is_sentence != 0
                       ? (size_t)head->second
                       : (size_t)head->first * (size_t)head->second * sizeof(struct sluice_log_probability);
    CHECK(round_up(bytes) <= reader->bytes - sizeof *head, STATUS_INTERNAL,
          "feedback has a part that is longer than the feedback");
    *out = reader->at + sizeof *head;
    CHECK(head->is_sentence == 0 || ((const char *)*out)[bytes - 1] == 0, STATUS_INTERNAL,
          "feedback has a sentence without an end");
    reader->at += sizeof *head + round_up(bytes);
    reader->bytes -= sizeof *head + round_up(bytes);
    return STATUS_OK;
}

/* An error, or log-probabilities of `tokens_most` tokens at most. */
static enum status read_extra(struct extra_reader *reader, int32_t tokens_most, struct round_feedback *out) {
    struct extra_head head;
    const void *part;
    TRY(take_extra(reader, &head, &part));
    if (head.is_sentence != 0) {
        CHECK(head.first != STATUS_OK, STATUS_INTERNAL, "feedback has a sentence for no error");
        out->status = (enum status)head.first;
        snprintf(out->message, sizeof out->message, "%s", (const char *)part);
        return STATUS_OK;
    }
    CHECK(head.first <= tokens_most && head.second <= 1 + SLUICE_LOG_PROBABILITIES_MAX, STATUS_INTERNAL,
          "feedback has log-probabilities of %d tokens, of %d that there are", head.first, tokens_most);
    out->recorded_tokens = head.first;
    out->record_width = head.second;
    out->log_probabilities = part;
    return STATUS_OK;
}

static bool are_tokens(const struct feedback_shape *shape, const int32_t *ids, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= shape->vocabulary_size) {
            return false;
        }
    }
    return true;
}

static enum status read_record(const struct feedback_shape *shape, const struct round_plan *plan,
                               int32_t segment, const unsigned char *at, struct extra_reader *reader,
                               struct round_feedback *out) {
    struct feedback_words words;
    int32_t ids[2 * DRAFT_LIMIT_MAX + 1];
    memcpy(&words, at, sizeof words);
    memcpy(ids, at + sizeof words, (2 * (size_t)shape->draft_limit + 1) * sizeof ids[0]);
    const int32_t *drafts = ids + shape->draft_limit + 1;
    CHECK(words.slot == (uint32_t)plan->step.segments[segment].slot &&
              words.generation == plan->segments[segment].generation,
          STATUS_INTERNAL, "feedback is for slot %u generation %u, expected slot %d generation %u",
          words.slot, words.generation, plan->step.segments[segment].slot,
          plan->segments[segment].generation);
    bool has_error = (words.flags & FLAG_ERROR) != 0;
    int32_t tokens_most = has_error ? 0 : 1 + plan->segments[segment].draft_count;
    CHECK(words.new_count <= tokens_most && (has_error || words.new_count >= 1) &&
              words.draft_count <= shape->draft_limit && are_tokens(shape, ids, words.new_count) &&
              are_tokens(shape, drafts, words.draft_count),
          STATUS_INTERNAL, "feedback has %u tokens and %u drafts for slot %u, or such as do not exist",
          words.new_count, words.draft_count, words.slot);
    *out = (struct round_feedback){.segment = segment,
                                   .accepted_drafts = has_error ? 0 : words.new_count - 1,
                                   .token_count = words.new_count,
                                   .draft_count = words.draft_count};
    memcpy(out->tokens, ids, words.new_count * sizeof ids[0]);
    memcpy(out->drafts, drafts, words.draft_count * sizeof ids[0]);
    if (words.flags == 0) {
        return STATUS_OK;
    }
    TRY(read_extra(reader, out->token_count, out));
    CHECK(has_error == (out->status != STATUS_OK), STATUS_INTERNAL,
          "feedback of slot %u is an error or is not", words.slot);
    return STATUS_OK;
}

static enum status read_prompts(const struct round_plan *plan, struct extra_reader *reader,
                                struct round_result *out) {
    out->prompt_feedback_count = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        int32_t rows = plan->segments[i].end_scored_row - plan->segments[i].first_scored_row;
        if (rows > 0) {
            struct round_feedback *feedback = &out->prompt_feedback[out->prompt_feedback_count++];
            *feedback = (struct round_feedback){.segment = i};
            TRY(read_extra(reader, rows, feedback));
            CHECK(feedback->status != STATUS_OK || feedback->recorded_tokens == rows, STATUS_INTERNAL,
                  "feedback has log-probabilities of %d prompt tokens, of %d that there are",
                  feedback->recorded_tokens, rows);
        }
    }
    return STATUS_OK;
}

enum status feedback_record_read(const struct feedback_shape *shape, const struct round_plan *plan,
                                 const void *memory, const void *extra, struct feedback_tick *tick,
                                 struct round_result *out) {
    const struct feedback_head *head = memory;
    const unsigned char *at = (const unsigned char *)(head + 1);
    struct extra_reader reader = {extra, (size_t)head->extra_bytes};
    *tick = (struct feedback_tick){
        .number = head->number, .status = (enum status)head->status, .stages = head->stages};
    if (tick->status != STATUS_OK) {
        struct extra_head part;
        const void *message;
        TRY(take_extra(&reader, &part, &message));
        tick->message = part.is_sentence != 0 ? message : "";
    }
    out->feedback_count = 0;
    for (int32_t i = 0; i < plan->step.segment_count; i++) {
        if (plan->segments[i].is_sampled) {
            CHECK(out->feedback_count < head->count, STATUS_INTERNAL, "feedback has too few records");
            TRY(read_record(shape, plan, i, at, &reader, &out->feedback[out->feedback_count++]));
            at += record_bytes(shape);
        }
    }
    return read_prompts(plan, &reader, out);
}
