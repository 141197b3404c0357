/*
 * No control token's text is the beginning of another's, so a match is decided at its last byte. The tag
 * token starts with U+FF5C, all others with '<': a '<' in front of a tag token is given up as a character
 * as soon as the text differs from every other token.
 */
#include "text/output_lexer.h"

#include <string.h>

void output_lexer_init(struct output_lexer *lexer, const int32_t control_ids[CONTROL_TOKEN_COUNT]) {
    *lexer = (struct output_lexer){0};
    memcpy(lexer->control_ids, control_ids, sizeof lexer->control_ids);
}

/* Whether the token is looked for in text. */
static bool is_matched_by_text(const struct output_lexer *lexer, int control) {
    return !lexer->has_ids || lexer->control_ids[control] < 0;
}

/* The token that `pending` spells; *is_prefix says whether it may become one. */
static enum control_token match_pending(const struct output_lexer *lexer, bool *is_prefix) {
    *is_prefix = false;
    if (lexer->pending[0] != '<' && lexer->pending[0] != control_token_text(CONTROL_TOKEN_DSML)[0]) {
        return CONTROL_TOKEN_NONE;
    }
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        size_t length = control_token_length((enum control_token)i);
        if (!is_matched_by_text(lexer, i) || length < lexer->pending_length ||
            memcmp(control_token_text((enum control_token)i), lexer->pending, lexer->pending_length) != 0) {
            continue;
        }
        if (length == lexer->pending_length) {
            return (enum control_token)i;
        }
        *is_prefix = true;
    }
    return CONTROL_TOKEN_NONE;
}

static enum status hand_on_character(struct output_lexer *lexer, const char *bytes, size_t length,
                                     const struct output_lexer_handler *handler) {
    lexer->before[0] = lexer->before[1];
    lexer->before[1] = *bytes == '<' || *bytes == '/' ? *bytes : '\0';
    return handler->on_character(handler->context, bytes, length);
}

static enum status hand_on_control(struct output_lexer *lexer, enum control_token control,
                                   const struct output_lexer_handler *handler) {
    memset(lexer->before, 0, sizeof lexer->before);
    return handler->on_control(handler->context, control);
}

/* Hands on the first character of `pending`. */
static enum status release_character(struct output_lexer *lexer, const struct output_lexer_handler *handler) {
    char bytes[UTF8_CHARACTER_BYTES_MAX];
    size_t length = utf8_next(lexer->pending, lexer->pending_length).length;
    memcpy(bytes, lexer->pending, length);
    lexer->pending_length -= length;
    memmove(lexer->pending, lexer->pending + length, lexer->pending_length);
    return hand_on_character(lexer, bytes, length, handler);
}

static enum status take_character(struct output_lexer *lexer, const char *bytes, size_t length,
                                  const struct output_lexer_handler *handler) {
    memcpy(lexer->pending + lexer->pending_length, bytes, length);
    lexer->pending_length += length;
    while (lexer->pending_length > 0) {
        bool is_prefix;
        enum control_token control = match_pending(lexer, &is_prefix);
        if (control != CONTROL_TOKEN_NONE) {
            lexer->pending_length = 0;
            return hand_on_control(lexer, control, handler);
        }
        if (is_prefix) {
            return STATUS_OK;
        }
        TRY(release_character(lexer, handler));
    }
    return STATUS_OK;
}

static enum status take_bytes(struct output_lexer *lexer, const char *bytes, size_t length,
                              const struct output_lexer_handler *handler) {
    for (size_t i = 0; i < length; i++) {
        lexer->partial[lexer->partial_length++] = bytes[i];
        while (lexer->partial_length > 0) {
            struct utf8_step step = utf8_next(lexer->partial, lexer->partial_length);
            if (step.kind == UTF8_INCOMPLETE) {
                break;
            }
            char character[UTF8_CHARACTER_BYTES_MAX];
            size_t character_length = step.length;
            memcpy(character, lexer->partial, step.length);
            lexer->partial_length -= step.length;
            memmove(lexer->partial, lexer->partial + step.length, lexer->partial_length);
            if (step.kind == UTF8_INVALID) {
                character_length = UTF8_REPLACEMENT_BYTES;
                memcpy(character, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
            }
            TRY(take_character(lexer, character, character_length, handler));
        }
    }
    return STATUS_OK;
}

/* Hands on everything that was kept back as ordinary characters. */
static enum status release_all(struct output_lexer *lexer, const struct output_lexer_handler *handler) {
    while (lexer->pending_length > 0) {
        TRY(release_character(lexer, handler));
    }
    if (lexer->partial_length > 0) {
        lexer->partial_length = 0;
        return hand_on_character(lexer, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES, handler);
    }
    return STATUS_OK;
}

enum status output_lexer_push_token(struct output_lexer *lexer, int32_t id, const char *bytes, size_t length,
                                    const struct output_lexer_handler *handler) {
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        if (id >= 0 && lexer->control_ids[i] == id) {
            bool is_end = i == CONTROL_TOKEN_EOS || i == CONTROL_TOKEN_USER;
            TRY(is_end ? output_lexer_finish(lexer, handler) : release_all(lexer, handler));
            return hand_on_control(lexer, (enum control_token)i, handler);
        }
    }
    lexer->has_ids = true;
    return take_bytes(lexer, bytes, length, handler);
}

enum status output_lexer_push_text(struct output_lexer *lexer, const char *bytes, size_t length,
                                   const struct output_lexer_handler *handler) {
    lexer->has_ids = false;
    return take_bytes(lexer, bytes, length, handler);
}

/* How much of `pending` is the "<" or "</" in front of a tag token: both look like other tokens at first. */
static size_t angle_length(const struct output_lexer *lexer) {
    size_t length = lexer->pending_length > 0 && lexer->pending[0] == '<' ? 1 : 0;
    return length == 1 && lexer->pending_length > 1 && lexer->pending[1] == '/' ? 2 : length;
}

/* Whether what is kept back ends with the beginning of the tag token, behind "<" or "</". */
static bool ends_inside_tag(const struct output_lexer *lexer) {
    size_t skipped = angle_length(lexer);
    bool is_behind_angle =
        skipped > 0 || lexer->before[1] == '<' || (lexer->before[0] == '<' && lexer->before[1] == '/');
    char rest[OUTPUT_LEXER_PENDING_BYTES + UTF8_CHARACTER_BYTES_MAX];
    size_t length = lexer->pending_length - skipped;
    memcpy(rest, lexer->pending + skipped, length);
    memcpy(rest + length, lexer->partial, lexer->partial_length);
    length += lexer->partial_length;
    return is_behind_angle && length > 0 && is_matched_by_text(lexer, CONTROL_TOKEN_DSML) &&
           length <= control_token_length(CONTROL_TOKEN_DSML) &&
           memcmp(rest, control_token_text(CONTROL_TOKEN_DSML), length) == 0;
}

enum status output_lexer_finish(struct output_lexer *lexer, const struct output_lexer_handler *handler) {
    if (!ends_inside_tag(lexer)) {
        return release_all(lexer, handler);
    }
    for (size_t left = angle_length(lexer); left > 0; left--) {
        TRY(release_character(lexer, handler));
    }
    lexer->pending_length = 0;
    lexer->partial_length = 0;
    return hand_on_control(lexer, CONTROL_TOKEN_DSML, handler);
}
