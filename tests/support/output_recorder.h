/* Collects the events of an output parser, as a client that joins deltas does, and checks their order. */
#ifndef SLUICE_TESTS_SUPPORT_OUTPUT_RECORDER_H
#define SLUICE_TESTS_SUPPORT_OUTPUT_RECORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"

enum { RECORDED_CALLS_MAX = 64 };

struct recorded_call {
    char id[OUTPUT_CALL_ID_BYTES];
    struct string_buffer name;
    struct string_buffer arguments;
    size_t fragment_count;
    bool is_ended, is_abandoned;
};

struct output_recorder {
    struct string_buffer reasoning, content;
    struct recorded_call calls[RECORDED_CALLS_MAX];
    size_t call_count; /* headers seen, an abandoned one included */
    size_t event_count;
    bool is_order_broken;    /* a call's events came without header, after its end, or with another index */
    bool is_character_split; /* a delta is not whole characters */
};

/* A sink that fills the recorder, which starts zeroed. */
struct output_sink output_recorder_sink(struct output_recorder *recorder);

void output_recorder_deinit(struct output_recorder *recorder);

/*
 * All that a client gets to see, as one text: {reasoning}{content}name(arguments)... with complete calls
 * only. Owned: string_buffer_deinit.
 */
struct string_buffer output_recorder_summary(const struct output_recorder *recorder);

/* How a completion is cut into pieces. */
enum split {
    SPLIT_WHOLE,
    SPLIT_BYTES,
    SPLIT_CHARACTERS,
    SPLIT_COUNT,
};

/* Pushes text in pieces and finishes. Returns the first status that is not OK. */
enum status parse_text(const struct output_parser_options *options, const char *text, size_t length,
                       enum split split, struct output_recorder *recorder, struct output_result *result);

/* The same with the text cut in two at `position`. */
enum status parse_text_cut_at(const struct output_parser_options *options, const char *text, size_t length,
                              size_t position, struct output_recorder *recorder,
                              struct output_result *result);

/* Pushes token ids with their bytes and finishes. */
enum status parse_tokens(const struct output_parser_options *options, const struct tokenizer *tokenizer,
                         const int32_t *ids, size_t count, struct output_recorder *recorder,
                         struct output_result *result);

#endif
