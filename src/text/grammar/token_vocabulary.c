/* One pass over the ids. */
#include "text/grammar/token_vocabulary.h"

#include <stdlib.h>

const char *token_vocabulary_text(const struct token_vocabulary *vocabulary, int32_t token, size_t *length) {
    *length = 0;
    if (token < 0 || token >= vocabulary->token_count ||
        (vocabulary->text_words[token / 32] >> (token % 32) & 1) == 0) {
        return NULL;
    }
    return tokenizer_token_bytes(vocabulary->tokenizer, token, length);
}

enum control_token token_vocabulary_control(const struct token_vocabulary *vocabulary, int32_t token) {
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        if (token >= 0 && vocabulary->control_ids[i] == token) {
            return (enum control_token)i;
        }
    }
    return CONTROL_TOKEN_NONE;
}

static enum status add_tokens(struct token_vocabulary *vocabulary) {
    struct token_trie_entry *entries = malloc(((size_t)vocabulary->token_count + 1) * sizeof *entries);
    CHECK_MEMORY(entries);
    size_t count = 0;
    for (int32_t token = 0; token < vocabulary->token_count; token++) {
        size_t length;
        const char *bytes = tokenizer_token_bytes(vocabulary->tokenizer, token, &length);
        if (bytes != NULL && length > 0 && !tokenizer_is_added(vocabulary->tokenizer, token)) {
            entries[count++] = (struct token_trie_entry){bytes, (uint32_t)length, token};
            vocabulary->text_words[token / 32] |= UINT32_C(1) << token % 32;
            token_characters_add(&vocabulary->characters, token, bytes, length);
        }
    }
    token_characters_finish(&vocabulary->characters);
    enum status status = token_trie_init(&vocabulary->trie, entries, count);
    free(entries);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status token_vocabulary_create(const struct tokenizer *tokenizer, int32_t token_limit,
                                    struct token_vocabulary **out) {
    *out = NULL;
    struct token_vocabulary *vocabulary = calloc(1, sizeof *vocabulary);
    CHECK_MEMORY(vocabulary);
    int32_t size = tokenizer_vocabulary_size(tokenizer);
    vocabulary->tokenizer = tokenizer;
    vocabulary->token_count = size < token_limit ? size : token_limit;
    vocabulary->word_count = ((uint32_t)vocabulary->token_count + 31) / 32;
    enum status status = STATUS_OK;
    vocabulary->text_words = calloc(vocabulary->word_count + 1, sizeof *vocabulary->text_words);
    CHECK_MEMORY_GOTO(vocabulary->text_words);
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        int32_t id = tokenizer_added_token_id(tokenizer, control_token_text((enum control_token)i));
        vocabulary->control_ids[i] = id < vocabulary->token_count ? id : -1;
    }
    TRY_GOTO(token_characters_init(&vocabulary->characters, vocabulary->word_count));
    TRY_GOTO(add_tokens(vocabulary));
    *out = vocabulary;
    return STATUS_OK;
fail:
    token_vocabulary_destroy(&vocabulary);
    return status;
}

void token_vocabulary_destroy(struct token_vocabulary **vocabulary) {
    if (*vocabulary != NULL) {
        token_trie_deinit(&(*vocabulary)->trie);
        token_characters_deinit(&(*vocabulary)->characters);
        free((*vocabulary)->text_words);
        free(*vocabulary);
        *vocabulary = NULL;
    }
}
