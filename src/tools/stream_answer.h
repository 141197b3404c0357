/*
 * A streamed answer of OpenAI's completions or chat API as it comes in: when, and how it ended.
 */
#ifndef SLUICE_TOOLS_STREAM_ANSWER_H
#define SLUICE_TOOLS_STREAM_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/event_stream.h"
#include "lib/json.h"
#include "tools/bench_samples.h"

struct stream_answer {
    double first_seconds; /* clock_seconds of the first and last piece with text; 0 before */
    double last_seconds;
    struct bench_samples gaps; /* seconds between pieces */
    int64_t piece_count;       /* with text */
    int64_t prompt_tokens;     /* what the server counted; -1: it did not say */
    int64_t output_tokens;
    bool is_finished;           /* a finish reason came */
    bool is_over;               /* "[DONE]" came */
    struct string_buffer error; /* what the server said instead, or what is wrong with the stream */
    struct event_stream events;
};

/* Makes a zeroed or used answer ready for another one. */
void stream_answer_start(struct stream_answer *answer);

/* Takes bytes that came in just now. */
void stream_answer_push(struct stream_answer *answer, const char *bytes, size_t length);

void stream_answer_deinit(struct stream_answer *answer);

#endif
