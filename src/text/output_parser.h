/*
 * A completion in, reasoning, content and tool calls out, while it is being generated.
 *
 * The parser takes tokens (tags are then recognised by id: the same characters spelled with ordinary tokens
 * are text) or pieces of text, split anywhere; the events joined do not depend on the splits. Robust mode
 * (spec deepseek-v4 8.9), the default, recovers from damaged markup by these rules:
 *
 * - The end mark or a user mark stops the parser; what follows is ignored. No control token is ever text,
 *   but inside a parameter value, which is taken as it is.
 * - Reasoning ends at the first thinking-end mark or at a tool block. Without either all is reasoning.
 * - Tags imply what is missing: an invoke opens the block, a parameter or invoke or closing tag closes an
 *   open value (less one newline), an invoke or the block's end closes an invoke that has parameters.
 *   Attributes may lack quotes; a parameter without string="..." is a string. Unknown tags and text between
 *   tags are dropped. The second of two parameters with one name is dropped.
 * - A value that is announced as JSON but is none becomes a string.
 * - An invoke that the completion's end cuts is dropped (an ABANDON event if its header was reported).
 * - Text behind a block is content. The newlines around the block are kept only in front of such text.
 * - Without tools, blocks are dropped where they stand.
 * - If all that came besides reasoning was dropped markup, the content is a sentence that says so.
 *
 * One thread at a time. After an error only deinit is allowed.
 */
#ifndef SLUICE_TEXT_OUTPUT_PARSER_H
#define SLUICE_TEXT_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "text/control_token.h"
#include "text/output_calls.h"
#include "text/output_event.h"
#include "text/output_lexer.h"
#include "text/output_writer.h"

struct tokenizer;

struct output_parser_options {
    bool starts_in_reasoning; /* the prompt ends with an open thinking mark */
    bool are_tools_enabled;   /* false without tools or with tool_choice "none" */
    bool is_strict;           /* the official grammar (8.8): all events come at the end, damage is an error */
    uint64_t call_id_seed;    /* differs between requests */
    int32_t control_ids[CONTROL_TOKEN_COUNT]; /* -1: unknown, matched by text */
};

enum output_finish { OUTPUT_FINISH_STOP, OUTPUT_FINISH_TOOL_CALLS };

struct output_result {
    enum output_finish finish;
    size_t tool_call_count;     /* complete ones */
    bool is_reasoning_unclosed; /* thinking never ended */
    bool is_markup_dropped;     /* damaged, cut or disabled tool markup was left out */
};

enum output_level { OUTPUT_LEVEL_TEXT, OUTPUT_LEVEL_BLOCK, OUTPUT_LEVEL_INVOKE, OUTPUT_LEVEL_VALUE };

enum { OUTPUT_HELD_BYTES = 4 };

/* Up to two newlines, then "<" or "</": what may belong to a tag that follows. */
struct output_held {
    char bytes[OUTPUT_HELD_BYTES];
    size_t length;
};

/* The tag being read. */
struct output_tag {
    bool is_open;
    bool is_closing; /* "</" */
    bool is_name_done;
    enum dsml_tag_kind kind;   /* once the name is done */
    size_t name_length;        /* of `text` */
    bool is_quoted;            /* inside an attribute's quotes */
    bool is_quote_ending;      /* the last character was a quote that may be the closing one */
    struct string_buffer text; /* everything behind the control token */
    struct output_held before; /* what was held when it began */
};

struct output_parser {
    struct output_parser_options options;
    struct output_lexer lexer;
    struct output_writer writer;
    struct output_calls calls;
    enum output_level level;
    bool is_reasoning;
    bool is_stopped;
    bool has_wrapper;      /* the block was opened by its own tag */
    bool is_after_block;   /* blanks wait in `gap` until text follows */
    bool has_section_text; /* the reasoning, or the content, is not empty */
    bool has_visible_content;
    struct output_held held;
    struct output_tag tag;
    struct string_buffer gap;
    struct string_buffer transcript; /* strict mode: the whole completion */
};

/* Not reasoning, tools enabled, robust, no ids known. */
struct output_parser_options output_parser_options_default(void);

/* Fills in the ids that the tokenizer has. */
void output_parser_options_set_ids(struct output_parser_options *options, const struct tokenizer *tokenizer);

void output_parser_init(struct output_parser *parser, const struct output_parser_options *options);
void output_parser_deinit(struct output_parser *parser);

/* A generated token and the bytes it decodes to (which may end inside a character). */
enum status output_parser_push_token(struct output_parser *parser, int32_t id, const char *bytes,
                                     size_t length, const struct output_sink *sink);

/* Text whose ids are not known. */
enum status output_parser_push_text(struct output_parser *parser, const char *bytes, size_t length,
                                    const struct output_sink *sink);

/*
 * The completion is over. BAD_FORMAT in strict mode says what is malformed. `result` is filled in if the
 * status is OK.
 */
enum status output_parser_finish(struct output_parser *parser, const struct output_sink *sink,
                                 struct output_result *result);

/* Whether an end mark was seen: generation can stop. */
bool output_parser_is_stopped(const struct output_parser *parser);

#endif
