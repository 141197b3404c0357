/*
 * Text to token ids and back, as the checkpoint's tokenizer.json says (spec deepseek-v4, section 7).
 *
 * A tokenizer is immutable once loaded: any number of threads may use it at the same time.
 *
 * Text is bytes. Well-formed UTF-8 gives the ids of the reference implementation; a byte that is not part of
 * a well-formed character is a piece of its own and becomes its byte's token. So decoding gives back exactly
 * the bytes that were encoded, whatever they were. No begin or end mark is ever added: prompts carry theirs.
 */
#ifndef SLUICE_TEXT_TOKENIZER_H
#define SLUICE_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "text/token_list.h"

struct tokenizer;

/* What encoding cost, counted rather than timed. */
struct tokenizer_work {
    uint64_t piece_count;
    uint64_t heap_step_count;
};

struct tokenizer_encode_options {
    /*
     * Whether the texts of added tokens ("<think>") become those tokens. True for what a template writes and
     * for raw prompts, false for what a user wrote: there they are plain text.
     */
    bool match_added_tokens;
    struct tokenizer_work *work; /* NULL, or added to */
};

/* Reads tokenizer.json. Errors say what is wrong and where in the file. Owned: tokenizer_destroy. */
enum status tokenizer_load(const char *path, struct tokenizer **out);

/*
 * The tokenizer of a model: the file at `path`, or in the folder at `path`, or with NULL in the model's own
 * folder. NOT_FOUND if there is none.
 */
enum status tokenizer_load_of_model(const char *model_directory, const char *path, struct tokenizer **out);

/* The same from memory; `what` names the text in errors. */
enum status tokenizer_parse(const char *bytes, size_t length, const char *what, struct tokenizer **out);

/* Frees and nulls. Nothing may use the tokenizer any more. */
void tokenizer_destroy(struct tokenizer **tokenizer);

/* Appends the ids of `length` bytes, at most 1 GiB. On failure `out` is as before. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                             const struct tokenizer_encode_options *options, struct token_list *out);

/*
 * Appends the bytes of the ids, those of added tokens as their text; with `skip_special` the tokens that the
 * file flags as special are left out. The bytes need not be UTF-8: a character may be cut at either end.
 * OUT_OF_RANGE names an id that is no token; `out` is as before then.
 */
enum status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                             bool skip_special, struct string_buffer *out);

/* A token's bytes, not terminated, valid as long as the tokenizer; NULL if the id is no token. */
const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *length);

/* The id of the added token with exactly this text ("<think>"), -1 if there is none. */
int32_t tokenizer_added_token_id(const struct tokenizer *tokenizer, const char *text);

/* The highest id + 1. Ids below it may be holes. */
int32_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer);

/* Whether the file lists the token under added_tokens, and as special there. False for no token. */
bool tokenizer_is_added(const struct tokenizer *tokenizer, int32_t id);
bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id);

#endif
