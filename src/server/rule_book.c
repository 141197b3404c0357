/* Texts become tokens here, because only who knows the model's tokens can tell what a word is made of. */
#include "server/rule_book.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/string_buffer.h"
#include "text/request_constraint.h"

enum { CACHE_BYTES = 256 << 20, ARENA_BYTES = 4096 };

/* Where grammars are compiled a first request may wait for masks; on the engine's thread all requests would.
 */
static const double PREPARE_SECONDS = 0.05;

struct rule_book {
    struct tokenizer *tokenizer; /* NULL: the model has none */
    struct token_vocabulary *vocabulary;
    struct grammar_cache *cache;
};

static enum status load_tokenizer(const char *model_directory, struct tokenizer **out) {
    struct string_buffer path = {0};
    string_buffer_append_format(&path, "%s/tokenizer.json", model_directory);
    enum status status = string_buffer_check(&path);
    if (status == STATUS_OK) {
        status = tokenizer_load(string_buffer_text(&path), out);
    }
    string_buffer_deinit(&path);
    return status == STATUS_OK || status == STATUS_NOT_FOUND ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status rule_book_open(const char *model_directory, int64_t vocabulary_size, struct rule_book **out) {
    enum status status = STATUS_OK;
    struct rule_book *book = calloc(1, sizeof *book);
    CHECK_MEMORY(book);
    TRY_GOTO(load_tokenizer(model_directory, &book->tokenizer));
    if (book->tokenizer != NULL) {
        TRY_GOTO(token_vocabulary_create(book->tokenizer, (int32_t)vocabulary_size, &book->vocabulary));
        TRY_GOTO(grammar_cache_create(book->vocabulary, CACHE_BYTES, &book->cache));
    }
    *out = book;
    return STATUS_OK;
fail:
    rule_book_close(&book);
    return status;
}

void rule_book_close(struct rule_book **pointer) {
    struct rule_book *book = *pointer;
    *pointer = NULL;
    if (book != NULL) {
        grammar_cache_destroy(&book->cache);
        token_vocabulary_destroy(&book->vocabulary);
        tokenizer_destroy(&book->tokenizer);
        free(book);
    }
}

bool rule_book_has_rules(const struct service_rules *rules) {
    return rules->grammar != SERVICE_GRAMMAR_NONE || rules->stop_count > 0 || rules->min_tokens > 0 ||
           rules->allowed_token_count > 0 || rules->bad_word_count > 0;
}

bool rule_book_is_slow(const struct service_rules *rules) {
    return rules->grammar != SERVICE_GRAMMAR_NONE;
}

static enum grammar_kind kind_of(enum service_grammar grammar) {
    switch (grammar) {
    case SERVICE_GRAMMAR_NONE:
        break;
    case SERVICE_GRAMMAR_JSON:
        return GRAMMAR_JSON_OBJECT;
    case SERVICE_GRAMMAR_JSON_SCHEMA:
        return GRAMMAR_JSON_SCHEMA;
    case SERVICE_GRAMMAR_REGEX:
        return GRAMMAR_REGEX;
    case SERVICE_GRAMMAR_CHOICE:
        return GRAMMAR_CHOICE;
    case SERVICE_GRAMMAR_EBNF:
        return GRAMMAR_EBNF;
    case SERVICE_GRAMMAR_TOOLS:
        return GRAMMAR_TOOLS;
    }
    return GRAMMAR_NONE;
}

/* Appends the tokens of a word, behind a blank or not, in the arena. */
static enum status add_word(const struct tokenizer *tokenizer, struct service_text word, bool has_blank,
                            struct arena *arena, struct token_sequence *out) {
    static const struct tokenizer_encode_options plain = {0};
    struct string_buffer text = {0};
    struct token_list tokens = {0};
    string_buffer_append_text(&text, has_blank ? " " : "");
    string_buffer_append(&text, word.bytes, word.length);
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        status = tokenizer_encode(tokenizer, text.data, text.length, &plain, &tokens);
    }
    int32_t *ids = status == STATUS_OK ? ARENA_NEW(arena, int32_t, tokens.count) : NULL;
    for (size_t i = 0; ids != NULL && i < tokens.count; i++) {
        ids[i] = tokens.ids[i];
    }
    *out = (struct token_sequence){ids, tokens.count};
    token_list_deinit(&tokens);
    string_buffer_deinit(&text);
    TRY(status);
    CHECK_MEMORY(ids);
    return STATUS_OK;
}

static struct service_text without_blanks(struct service_text word) {
    while (word.length > 0 && word.bytes[0] == ' ') {
        word.bytes++;
        word.length--;
    }
    return word;
}

/* Whether the tokens end with all of the other ones. */
static bool ends_with(const struct token_sequence *tokens, const struct token_sequence *others) {
    return tokens->count >= others->count &&
           memcmp(tokens->tokens + (tokens->count - others->count), others->tokens,
                  others->count * sizeof *others->tokens) == 0;
}

/*
 * Each word as it stands at the beginning of a text, and as it stands within one, behind a blank, unless that
 * is the same with a token of its own for the blank.
 */
static enum status list_words(const struct tokenizer *tokenizer, const struct service_rules *rules,
                              struct arena *arena, struct request_constraint_options *out) {
    struct token_sequence *words = ARENA_NEW(arena, struct token_sequence, 2 * rules->bad_word_count);
    CHECK_MEMORY(words);
    for (size_t i = 0; i < rules->bad_word_count; i++) {
        struct service_text word = without_blanks(rules->bad_words[i]);
        CHECK(word.length > 0, STATUS_BAD_ARGUMENT, "bad_words[%zu] is empty", i);
        struct token_sequence *bare = &words[out->bad_word_count];
        struct token_sequence *within = bare + 1;
        TRY(add_word(tokenizer, word, false, arena, bare));
        TRY(add_word(tokenizer, word, true, arena, within));
        out->bad_word_count += ends_with(within, bare) ? 1 : 2;
    }
    out->bad_words = words;
    return STATUS_OK;
}

static enum status list_stops(const struct service_rules *rules, struct arena *arena,
                              struct request_constraint_options *out) {
    struct stop_string *stops = ARENA_NEW(arena, struct stop_string, rules->stop_count);
    CHECK_MEMORY(stops);
    for (size_t i = 0; i < rules->stop_count; i++) {
        stops[i] = (struct stop_string){rules->stops[i].bytes, rules->stops[i].length};
    }
    out->stop_strings = stops;
    out->stop_string_count = rules->stop_count;
    return STATUS_OK;
}

static enum status make(struct rule_book *book, const struct service_request *request,
                        enum rule_effort effort, struct arena *arena, struct request_constraint **out) {
    const struct service_rules *rules = &request->rules;
    struct request_constraint_options options = {
        .grammar = {.kind = kind_of(rules->grammar),
                    .text = rules->grammar_text.bytes,
                    .length = rules->grammar_text.length,
                    .work_limit = effort == RULE_EFFORT_SMALL ? GRAMMAR_WORK_SMALL : GRAMMAR_WORK_MAX},
        .starts_in_reasoning = rules->starts_in_reasoning,
        .minimum_tokens = (int64_t)rules->min_tokens,
        .end_tokens = request->options.stop_tokens,
        .end_token_count = request->options.stop_token_count,
        .allowed_tokens = rules->allowed_token_count == 0 ? NULL : rules->allowed_tokens,
        .allowed_token_count = rules->allowed_token_count,
    };
    TRY(list_stops(rules, arena, &options));
    TRY(list_words(book->tokenizer, rules, arena, &options));
    TRY(request_constraint_create(book->cache, &options, out));
    request_constraint_prepare(*out, PREPARE_SECONDS);
    return STATUS_OK;
}

/* Shows the constraint those tokens of the answer that are in the prompt. */
static enum status replay(const struct sluice_request_options *options, struct sluice_constraint constraint) {
    size_t count = options->output_prefix_count;
    CHECK(count <= options->prompt_count, STATUS_BAD_ARGUMENT,
          "%zu tokens of the answer cannot be in a prompt of %zu", count, options->prompt_count);
    const int32_t *tokens = options->prompt + (options->prompt_count - count);
    for (size_t i = 0; i < count; i++) {
        CHECK(!constraint.accept(constraint.context, tokens[i]), STATUS_BAD_ARGUMENT,
              "the answer's rules end it with its token %zu, behind which nothing can come", i);
    }
    return STATUS_OK;
}

static void release(void *context) {
    struct request_constraint *constraint = context;
    request_constraint_destroy(&constraint);
}

enum status rule_book_apply(struct rule_book *book, const struct service_request *request,
                            enum rule_effort effort, struct sluice_constraint *out, bool *is_done) {
    CHECK(
        book->tokenizer != NULL, STATUS_UNSUPPORTED,
        "the model's folder has no tokenizer.json, so nothing is known of the text of its tokens: leave out "
        "formats, tools, stop strings, min_tokens, allowed_token_ids and bad_words");
    struct request_constraint *constraint = NULL;
    struct arena arena;
    arena_init(&arena, ARENA_BYTES);
    enum status status = make(book, request, effort, &arena, &constraint);
    *is_done = status != STATUS_UNSUPPORTED || effort == RULE_EFFORT_ALL || !grammar_source_is_cut_short();
    if (*is_done && status == STATUS_UNSUPPORTED && request->rules.is_grammar_optional) {
        struct service_request without = *request;
        without.rules.grammar = SERVICE_GRAMMAR_NONE;
        status = make(book, &without, effort, &arena, &constraint);
    }
    arena_deinit(&arena);
    if (!*is_done) {
        return STATUS_OK;
    }
    TRY(status);
    *out = request_constraint_interface(constraint);
    out->release = release;
    status = replay(&request->options, *out);
    if (status != STATUS_OK) {
        request_constraint_destroy(&constraint);
    }
    return status;
}
