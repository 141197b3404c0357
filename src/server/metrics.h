/*
 * Counters and histograms of what the APIs have done, and their text for Prometheus, by vLLM's names and
 * buckets.
 *
 * What is counted here is what clients got: a token counts once, whatever restarts of workers were needed.
 * What only engines know (preemptions, pages, drafts, steps) is added from their stats when the text is
 * written; it may be a second old. Any thread.
 */
#ifndef SLUICE_SERVER_METRICS_H
#define SLUICE_SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/string_buffer.h"
#include "server/service.h"

struct metrics;

/* Tokens that came together. */
struct metrics_tokens {
    size_t count;
    bool is_first;  /* of their answer */
    double seconds; /* since the ones before, or since the request came */
};

enum metrics_finish { METRICS_STOP, METRICS_LENGTH, METRICS_ABORT, METRICS_ERROR, METRICS_FINISH_COUNT };

/* An answer that ended; times in seconds. */
struct metrics_request {
    enum metrics_finish finish;
    size_t prompt_tokens;
    size_t cached_prompt_tokens;
    size_t tokens;
    int64_t token_limit;  /* -1: none was asked for */
    double total_seconds; /* since the request came */
    double queue_seconds;
    double first_token_seconds; /* from submission; 0: there was none */
    double last_token_seconds;
    bool is_corrupted;     /* the model gave numbers that are none */
    size_t longest_tokens; /* of all answers to this request; only with the last one, else 0 */
    size_t choice_count;   /* the same */
};

/* What the text says besides. */
struct metrics_context {
    const char *model_name;
    const struct service_stats *stats;
    const struct sluice_engine_facts *facts;
    bool has_prefix_cache;
    bool has_prefix_disk; /* which keeps beginnings over restarts */
    size_t unknown_field_count;
    uint64_t dropped_line_count; /* of the access log */
    uint64_t lost_line_count;    /* of the log on stderr */
};

/* `context_tokens` bounds the buckets of token counts. Owned: metrics_destroy. */
enum status metrics_create(int64_t context_tokens, struct metrics **out);
void metrics_destroy(struct metrics **metrics);

/* NULL metrics: nothing is counted. */
void metrics_record_tokens(struct metrics *metrics, const struct metrics_tokens *tokens);
void metrics_record_request(struct metrics *metrics, const struct metrics_request *request);
void metrics_record_rejection(struct metrics *metrics); /* a request for which there was no place */
void metrics_record_reply(struct metrics *metrics, int status);

/* Share of the pages that requests use; pages of the cache alone count as free. 0 before engines told
 * anything. */
double metrics_page_use(const struct sluice_engine_stats *stats, const struct sluice_memory_ledger *memory);

/* Appends the text (exposition format 0.0.4). */
void metrics_write(struct metrics *metrics, const struct metrics_context *context, struct string_buffer *out);

#endif
