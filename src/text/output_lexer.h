/*
 * Splits a completion into characters and control tokens.
 *
 * Control tokens are recognised by id when their id is known, otherwise by their text. Bytes may be split
 * anywhere: at most one incomplete character and one text that may become a control token are kept back.
 * Ill-formed UTF-8 becomes U+FFFD. One thread at a time; nothing is allocated.
 */
#ifndef SLUICE_TEXT_OUTPUT_LEXER_H
#define SLUICE_TEXT_OUTPUT_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/control_token.h"
#include "text/utf8.h"

enum { OUTPUT_LEXER_PENDING_BYTES = 40 };

struct output_lexer {
    int32_t control_ids[CONTROL_TOKEN_COUNT]; /* -1: unknown */
    char partial[UTF8_CHARACTER_BYTES_MAX];   /* the beginning of a character */
    size_t partial_length;
    char pending[OUTPUT_LEXER_PENDING_BYTES]; /* whole characters: the beginning of a control token */
    size_t pending_length;
    bool has_ids;   /* whether the last bytes came as a token */
    char before[2]; /* the last two characters handed on, if they are "<" or "/" */
};

/* What the lexer calls: one whole character, or one control token. */
struct output_lexer_handler {
    enum status (*on_character)(void *context, const char *bytes, size_t length);
    enum status (*on_control)(void *context, enum control_token control);
    void *context;
};

void output_lexer_init(struct output_lexer *lexer, const int32_t control_ids[CONTROL_TOKEN_COUNT]);

/* A generated token: its id and the bytes it decodes to. */
enum status output_lexer_push_token(struct output_lexer *lexer, int32_t id, const char *bytes, size_t length,
                                    const struct output_lexer_handler *handler);

/* Text without ids: all control tokens are matched by their text. */
enum status output_lexer_push_text(struct output_lexer *lexer, const char *bytes, size_t length,
                                   const struct output_lexer_handler *handler);

/*
 * The completion ends: hands on what was kept back. The beginning of a tag's control token is handed on as
 * that token, so that half a tag is treated as a tag and never as text.
 */
enum status output_lexer_finish(struct output_lexer *lexer, const struct output_lexer_handler *handler);

#endif
