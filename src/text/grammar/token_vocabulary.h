/*
 * The tokens that a grammar may choose from, by their bytes.
 *
 * Tokens that tokenizer.json lists as added are no text: they are left out, and those of them that are
 * control tokens are known by their ids. Made once per model, then read by any thread.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_VOCABULARY_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_VOCABULARY_H

#include "text/control_token.h"
#include "text/grammar/token_characters.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"

struct token_vocabulary {
    const struct tokenizer *tokenizer; /* borrowed */
    struct token_trie trie;
    struct token_characters characters;
    int32_t token_count;                      /* ids are below */
    uint32_t word_count;                      /* of a mask */
    uint32_t *text_words;                     /* mask of the tokens that are text */
    int32_t control_ids[CONTROL_TOKEN_COUNT]; /* -1: unknown */
};

/*
 * `token_limit` is the model's vocabulary: higher ids are left out. The tokenizer must outlive the
 * vocabulary. Owned: token_vocabulary_destroy.
 */
enum status token_vocabulary_create(const struct tokenizer *tokenizer, int32_t token_limit,
                                    struct token_vocabulary **out);

/* Frees and nulls. */
void token_vocabulary_destroy(struct token_vocabulary **vocabulary);

/* The text of a token; NULL if it is none. */
const char *token_vocabulary_text(const struct token_vocabulary *vocabulary, int32_t token, size_t *length);

/* The control token with this id, CONTROL_TOKEN_NONE if it is none. */
enum control_token token_vocabulary_control(const struct token_vocabulary *vocabulary, int32_t token);

#endif
