/* Checks and copies what a request asks for. */
#include <stdlib.h>
#include <string.h>

#include "text/request_constraint_internal.h"

/* A copy of tokens that the vocabulary has; `what` names them in the error. */
static enum status copy_tokens(struct request_constraint *constraint, const int32_t **tokens, size_t count,
                               const char *what) {
    int32_t *copy = ARENA_NEW(&constraint->arena, int32_t, count);
    CHECK_MEMORY(copy);
    for (size_t i = 0; i < count; i++) {
        int32_t token = (*tokens)[i];
        CHECK(token >= 0 && token < constraint->vocabulary->token_count, STATUS_OUT_OF_RANGE,
              "%s has token %d, which the vocabulary of %d tokens does not have", what, (int)token,
              (int)constraint->vocabulary->token_count);
        copy[i] = token;
    }
    *tokens = copy;
    return STATUS_OK;
}

static enum status copy_allowed(struct request_constraint *constraint) {
    const int32_t *tokens = constraint->options.allowed_tokens;
    size_t count = constraint->options.allowed_token_count;
    if (tokens == NULL) {
        return STATUS_OK;
    }
    CHECK(count > 0, STATUS_BAD_ARGUMENT, "allowed_token_ids is empty; it must leave at least one token");
    uint32_t *words = ARENA_NEW(&constraint->arena, uint32_t, constraint->vocabulary->word_count);
    CHECK_MEMORY(words);
    TRY(copy_tokens(constraint, &tokens, count, "allowed_token_ids"));
    for (size_t i = 0; i < count; i++) {
        words[tokens[i] / 32] |= UINT32_C(1) << tokens[i] % 32;
    }
    constraint->allowed_words = words;
    return STATUS_OK;
}

static enum status copy_bad_words(struct request_constraint *constraint) {
    struct request_constraint_options *options = &constraint->options;
    struct token_sequence *words =
        ARENA_NEW(&constraint->arena, struct token_sequence, options->bad_word_count);
    CHECK_MEMORY(words);
    for (size_t i = 0; i < options->bad_word_count; i++) {
        words[i] = options->bad_words[i];
        CHECK(words[i].count > 0, STATUS_BAD_ARGUMENT, "bad_words[%zu] has no tokens", i);
        TRY(copy_tokens(constraint, &words[i].tokens, words[i].count, "bad_words"));
    }
    options->bad_words = words;
    return STATUS_OK;
}

static enum status copy_stop_strings(struct request_constraint *constraint) {
    struct request_constraint_options *options = &constraint->options;
    struct stop_string *stops = ARENA_NEW(&constraint->arena, struct stop_string, options->stop_string_count);
    CHECK_MEMORY(stops);
    for (size_t i = 0; i < options->stop_string_count; i++) {
        size_t length = options->stop_strings[i].length;
        CHECK(length > 0, STATUS_BAD_ARGUMENT, "stop string %zu is empty", i);
        const char *bytes = arena_copy_string(&constraint->arena, options->stop_strings[i].bytes, length);
        CHECK_MEMORY(bytes);
        stops[i] = (struct stop_string){bytes, length};
    }
    options->stop_strings = stops;
    return stop_text_init(&constraint->stop, stops, options->stop_string_count);
}

static enum status start_grammar(struct request_constraint *constraint, const struct grammar_source *source) {
    bool has_think_end = constraint->vocabulary->control_ids[CONTROL_TOKEN_THINK_END] >= 0;
    constraint->place.is_thinking = constraint->options.starts_in_reasoning;
    CHECK(has_think_end || !constraint->options.starts_in_reasoning, STATUS_UNSUPPORTED,
          "the tokenizer has no token that ends thinking, %s; ask without thinking",
          control_token_text(CONTROL_TOKEN_THINK_END));
    if (source->kind == GRAMMAR_NONE) {
        return STATUS_OK;
    }
    TRY(grammar_cache_acquire(constraint->cache, source, &constraint->grammar));
    struct grammar_automaton *automaton = grammar_lock(constraint->grammar);
    constraint->epoch = automaton->epoch;
    constraint->accepts_empty = automaton->grammar->accepts_empty;
    constraint->place.set = grammar_automaton_start(automaton);
    grammar_unlock(constraint->grammar);
    return STATUS_OK;
}

enum status request_constraint_create(struct grammar_cache *cache,
                                      const struct request_constraint_options *options,
                                      struct request_constraint **out) {
    *out = NULL;
    enum status status = STATUS_OK;
    struct request_constraint *constraint = calloc(1, sizeof *constraint);
    CHECK_MEMORY(constraint);
    arena_init(&constraint->arena, 1 << 12);
    constraint->cache = cache;
    constraint->vocabulary = grammar_cache_vocabulary(cache);
    constraint->options = *options;
    struct request_constraint_options *own = &constraint->options;
    own->grammar = (struct grammar_source){.kind = GRAMMAR_NONE};
    TRY_GOTO(copy_tokens(constraint, &own->end_tokens, own->end_token_count, "the list of stop tokens"));
    TRY_GOTO(
        copy_tokens(constraint, &own->banned_tokens, own->banned_token_count, "the list of banned tokens"));
    TRY_GOTO(copy_allowed(constraint));
    TRY_GOTO(copy_bad_words(constraint));
    TRY_GOTO(copy_stop_strings(constraint));
    TRY_GOTO(start_grammar(constraint, &options->grammar));
    *out = constraint;
    return STATUS_OK;
fail:
    request_constraint_destroy(&constraint);
    return status;
}

void request_constraint_prepare(struct request_constraint *constraint, double seconds) {
    if (constraint->grammar != NULL) {
        grammar_prepare(constraint->grammar, seconds);
    }
}

void request_constraint_destroy(struct request_constraint **constraint) {
    if (*constraint != NULL) {
        grammar_cache_release((*constraint)->cache, &(*constraint)->grammar);
        stop_text_deinit(&(*constraint)->stop);
        token_list_deinit(&(*constraint)->tokens);
        arena_deinit(&(*constraint)->arena);
        free(*constraint);
        *constraint = NULL;
    }
}
