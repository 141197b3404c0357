/*
 * The control tokens of the V4 prompt format: one list of names and texts (spec deepseek-v4 7.2).
 *
 * Their ids differ between checkpoints, so ids are always looked up by text in the tokenizer at hand.
 * Any thread; nothing is allocated.
 */
#ifndef SLUICE_TEXT_CONTROL_TOKEN_H
#define SLUICE_TEXT_CONTROL_TOKEN_H

#include <stddef.h>
#include <stdint.h>

/* X(name, text). The bars are U+FF5C, the blanks inside names U+2581. The last seven name tasks. */
#define CONTROL_TOKEN_LIST(X)                   \
    X(BOS, "<｜begin▁of▁sentence｜>")           \
    X(EOS, "<｜end▁of▁sentence｜>")             \
    X(USER, "<｜User｜>")                       \
    X(ASSISTANT, "<｜Assistant｜>")             \
    X(LATEST_REMINDER, "<｜latest_reminder｜>") \
    X(THINK_START, "<think>")                   \
    X(THINK_END, "</think>")                    \
    X(DSML, "｜DSML｜")                         \
    X(ACTION, "<｜action｜>")                   \
    X(QUERY, "<｜query｜>")                     \
    X(AUTHORITY, "<｜authority｜>")             \
    X(DOMAIN, "<｜domain｜>")                   \
    X(TITLE, "<｜title｜>")                     \
    X(READ_URL, "<｜read_url｜>")               \
    X(EXTRACTED_URL, "<｜extracted_url｜>")

enum control_token {
#define X(name, text) CONTROL_TOKEN_##name,
    CONTROL_TOKEN_LIST(X)
#undef X
        CONTROL_TOKEN_COUNT,
    CONTROL_TOKEN_NONE = CONTROL_TOKEN_COUNT
};

/* The token's text and its length in bytes. Static. */
const char *control_token_text(enum control_token token);
size_t control_token_length(enum control_token token);

/* The control token that the bytes start with, CONTROL_TOKEN_NONE if there is none. */
enum control_token control_token_at(const char *bytes, size_t length);

/* The token of a task by its plain name ("title"), CONTROL_TOKEN_NONE if there is no such task. */
enum control_token control_token_of_task(const char *name, size_t length);

#endif
