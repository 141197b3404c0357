/*
 * All rules of a request together, on the bundled model's tokenizer: each token is asked about by its own
 * plain check of the rules, and drafts by a second constraint that accepted them.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/grammar_fixture.h"
#include "text/request_constraint.h"
#include "text/tokenizer_fixture.h"

enum { WORDS_MAX = 256, END = 1, TOKENS_MAX = 64 };

struct fixture {
    struct tokenizer *tokenizer;
    struct token_vocabulary *vocabulary;
    struct grammar_cache *cache;
    int32_t think_end, think_start;
};

static const int32_t end_tokens[] = {END};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->tokenizer = load_tokenizer(MINI_V4_TOKENIZER);
    fixture->vocabulary = make_vocabulary(fixture->tokenizer);
    fixture->think_end = tokenizer_added_token_id(fixture->tokenizer, "</think>");
    fixture->think_start = tokenizer_added_token_id(fixture->tokenizer, "<think>");
    assert_int_equal(grammar_cache_create(fixture->vocabulary, SIZE_MAX, &fixture->cache), STATUS_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    grammar_cache_destroy(&fixture->cache);
    token_vocabulary_destroy(&fixture->vocabulary);
    tokenizer_destroy(&fixture->tokenizer);
    free(fixture);
    return 0;
}

static struct request_constraint *make(const struct fixture *fixture,
                                       const struct request_constraint_options *options) {
    struct request_constraint *constraint;
    if (request_constraint_create(fixture->cache, options, &constraint) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    return constraint;
}

static struct request_constraint_options options_of(enum grammar_kind kind, const char *text) {
    return (struct request_constraint_options){
        .grammar = grammar_source_of(kind, text), .end_tokens = end_tokens, .end_token_count = 1};
}

/* The mask behind some drafts; all ones if everything is allowed. */
static void ask(struct request_constraint *constraint, const int32_t *drafts, size_t count, uint32_t *mask) {
    struct sluice_constraint interface = request_constraint_interface(constraint);
    memset(mask, 0, WORDS_MAX * sizeof *mask);
    if (!interface.allow(interface.context, drafts, count, mask)) {
        for (size_t i = 0; i < WORDS_MAX; i++) {
            assert_int_equal(mask[i], 0);
        }
        memset(mask, 0xFF, WORDS_MAX * sizeof *mask);
    }
}

static bool accept_token(struct request_constraint *constraint, int32_t token) {
    struct sluice_constraint interface = request_constraint_interface(constraint);
    return interface.accept(interface.context, token);
}

static size_t count_allowed(struct request_constraint *constraint, const int32_t *drafts, size_t count) {
    struct sluice_constraint interface = request_constraint_interface(constraint);
    return interface.count_allowed(interface.context, drafts, count);
}

/* Accepts the tokens of a text; returns whether one of them ended the request, which is then the last. */
static bool accept_text(const struct fixture *fixture, struct request_constraint *constraint,
                        const char *text) {
    struct token_list tokens = {0};
    bool is_over = false;
    encode_into(fixture->tokenizer, text, strlen(text), false, &tokens);
    for (size_t i = 0; i < tokens.count; i++) {
        assert_false(is_over);
        is_over = accept_token(constraint, tokens.ids[i]);
    }
    token_list_deinit(&tokens);
    return is_over;
}

static bool may_end(struct request_constraint *constraint) {
    uint32_t mask[WORDS_MAX];
    ask(constraint, NULL, 0, mask);
    return mask_has(mask, END);
}

static int32_t token_of(const struct fixture *fixture, const char *text) {
    struct token_list tokens = {0};
    encode_into(fixture->tokenizer, text, strlen(text), false, &tokens);
    assert_int_equal(tokens.count, 1);
    int32_t token = tokens.ids[0];
    token_list_deinit(&tokens);
    return token;
}

/* The end is allowed exactly where a text of the grammar is complete. */
static void test_end_is_where_the_grammar_may_end(void **state) {
    const struct fixture *fixture = *state;
    const char *const texts[] = {"re", "d", "green", "ish"};
    const bool may_it_end[] = {false, true, true, true};
    for (size_t start = 0; start < 4; start += 2) {
        struct request_constraint_options options =
            options_of(GRAMMAR_CHOICE, "[\"red\", \"green\", \"greenish\"]");
        struct request_constraint *constraint = make(fixture, &options);
        assert_false(may_end(constraint));
        for (size_t i = start; i < start + 2; i++) {
            accept_text(fixture, constraint, texts[i]);
            assert_int_equal(may_end(constraint), may_it_end[i]);
        }
        request_constraint_destroy(&constraint);
    }
}

/* Without end tokens a request ends by itself where nothing can follow, and not before. */
static void test_request_without_end_tokens_ends(void **state) {
    const struct fixture *fixture = *state;
    struct request_constraint_options options = options_of(GRAMMAR_CHOICE, "[\"red\", \"redder\"]");
    options.end_token_count = 0;
    struct request_constraint *constraint = make(fixture, &options);
    assert_false(accept_text(fixture, constraint, "red"));
    assert_true(accept_text(fixture, constraint, "der"));
    assert_null(request_constraint_stop(constraint));
    request_constraint_destroy(&constraint);
}

/* On random ways: what is asked about drafts is what is asked after accepting them, and asking changes
 * nothing. */
static void check_drafts(const struct fixture *fixture, const struct request_constraint_options *options,
                         uint64_t seed) {
    struct request_constraint *constraint = make(fixture, options);
    struct request_constraint *ahead = make(fixture, options);
    int32_t drafts[TOKENS_MAX];
    uint32_t mask[WORDS_MAX];
    uint32_t wanted[WORDS_MAX];
    size_t count = 0;
    uint64_t random_state = seed;
    bool is_over = false;
    while (count < TOKENS_MAX && !is_over) {
        ask(ahead, NULL, 0, wanted);
        ask(constraint, drafts, count, mask);
        assert_memory_equal(mask, wanted, sizeof mask);
        assert_int_equal(count_allowed(constraint, drafts, count), count);
        int32_t token = pick_token(wanted, fixture->vocabulary->token_count, &random_state);
        int32_t other = (int32_t)(next_random(&random_state) % (uint64_t)fixture->vocabulary->token_count);
        assert_true(token >= 0);
        drafts[count] = other;
        assert_int_equal(count_allowed(constraint, drafts, count + 1), count + mask_has(wanted, other));
        drafts[count++] = token;
        is_over = token == END || accept_token(ahead, token);
    }
    ask(constraint, NULL, 0, mask);
    for (size_t i = 0; i < count && drafts[i] != END; i++) {
        accept_token(constraint, drafts[i]);
    }
    request_constraint_destroy(&constraint);
    request_constraint_destroy(&ahead);
}

static void test_drafts(void **state) {
    const struct fixture *fixture = *state;
    const int32_t word[] = {token_of(fixture, "a"), token_of(fixture, "b")};
    const struct token_sequence bad_words[] = {{word, 2}, {word + 1, 1}};
    for (size_t i = 0; i < grammar_example_count; i++) {
        struct request_constraint_options options =
            options_of(grammar_examples[i].kind, grammar_examples[i].text);
        check_drafts(fixture, &options, i);
        options.minimum_tokens = 5;
        options.bad_words = bad_words;
        options.bad_word_count = 2;
        check_drafts(fixture, &options, i);
    }
}

/* A cache that forgets all between any two questions gives the same answers. */
static void test_forgetting_changes_nothing(void **state) {
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < grammar_example_count; i++) {
        struct grammar_cache *forgetful;
        struct fixture second = *fixture;
        struct shared_grammar *shared;
        struct request_constraint_options options =
            options_of(grammar_examples[i].kind, grammar_examples[i].text);
        assert_int_equal(grammar_cache_create(fixture->vocabulary, SIZE_MAX, &forgetful), STATUS_OK);
        second.cache = forgetful;
        assert_int_equal(grammar_cache_acquire(forgetful, &options.grammar, &shared), STATUS_OK);
        grammar_lock(shared)->byte_limit = 0;
        grammar_unlock(shared);
        struct request_constraint *constraint = make(fixture, &options);
        struct request_constraint *forgetting = make(&second, &options);
        uint64_t random_state = i;
        uint32_t mask[WORDS_MAX];
        uint32_t wanted[WORDS_MAX];
        for (int step = 0; step < 30; step++) {
            ask(constraint, NULL, 0, wanted);
            ask(forgetting, NULL, 0, mask);
            assert_memory_equal(mask, wanted, sizeof mask);
            int32_t token = pick_token(wanted, fixture->vocabulary->token_count, &random_state);
            if (token == END) {
                break;
            }
            assert_int_equal(accept_token(constraint, token), accept_token(forgetting, token));
        }
        assert_true(grammar_lock(shared)->epoch > 0);
        grammar_unlock(shared);
        request_constraint_destroy(&constraint);
        request_constraint_destroy(&forgetting);
        grammar_cache_release(forgetful, &shared);
        grammar_cache_destroy(&forgetful);
    }
}

/* The grammar counts from the token that ends thinking; no other control token and no end comes before. */
static void test_thinking(void **state) {
    const struct fixture *fixture = *state;
    uint32_t mask[WORDS_MAX];
    struct request_constraint_options options = options_of(GRAMMAR_CHOICE, "[\"red\"]");
    options.starts_in_reasoning = true;
    struct request_constraint *constraint = make(fixture, &options);
    accept_text(fixture, constraint, "green or red? ");
    ask(constraint, NULL, 0, mask);
    assert_true(mask_has(mask, token_of(fixture, "x")));
    assert_true(mask_has(mask, fixture->think_end));
    assert_false(mask_has(mask, fixture->think_start));
    assert_false(mask_has(mask, END));
    const int32_t drafts[] = {fixture->think_end, token_of(fixture, "r"), token_of(fixture, "x")};
    assert_int_equal(count_allowed(constraint, drafts, 3), 2);
    ask(constraint, drafts, 2, mask);
    assert_true(mask_has(mask, token_of(fixture, "e")));
    assert_false(mask_has(mask, fixture->think_end));
    assert_false(accept_token(constraint, fixture->think_end));
    accept_text(fixture, constraint, "red");
    assert_true(may_end(constraint));
    request_constraint_destroy(&constraint);
    /* An answer that may be empty may be left out. */
    options.grammar = grammar_source_of(GRAMMAR_REGEX, "x?");
    constraint = make(fixture, &options);
    assert_true(may_end(constraint));
    request_constraint_destroy(&constraint);
}

/* A stop string lies anywhere within tokens; thinking and the first tokens are not searched. */
static void test_stop_strings(void **state) {
    const struct fixture *fixture = *state;
    const struct stop_string stops[] = {{"dog", 3}, {"at b", 4}};
    struct request_constraint_options options = options_of(GRAMMAR_NONE, "");
    options.stop_strings = stops;
    options.stop_string_count = 2;
    struct request_constraint *constraint = make(fixture, &options);
    assert_false(accept_text(fixture, constraint, "the cat do"));
    assert_true(accept_token(constraint, token_of(fixture, "g")));
    assert_string_equal(request_constraint_stop(constraint)->bytes, "dog");
    request_constraint_destroy(&constraint);

    constraint = make(fixture, &options);
    assert_false(accept_text(fixture, constraint, "the cat"));
    assert_true(accept_text(fixture, constraint, " b"));
    assert_string_equal(request_constraint_stop(constraint)->bytes, "at b");
    request_constraint_destroy(&constraint);

    options.starts_in_reasoning = true;
    constraint = make(fixture, &options);
    assert_false(accept_text(fixture, constraint, "a dog and a do"));
    assert_false(accept_token(constraint, fixture->think_end));
    assert_false(accept_text(fixture, constraint, "g, a do"));
    assert_true(accept_text(fixture, constraint, "g"));
    request_constraint_destroy(&constraint);

    options.starts_in_reasoning = false;
    options.minimum_tokens = 3;
    constraint = make(fixture, &options);
    for (int i = 0; i < 3; i++) {
        assert_false(accept_token(constraint, token_of(fixture, i == 0 ? "d" : i == 1 ? "o" : "g")));
    }
    assert_false(accept_text(fixture, constraint, " do"));
    assert_true(accept_text(fixture, constraint, "g"));
    request_constraint_destroy(&constraint);
}

static void test_minimum_of_tokens(void **state) {
    const struct fixture *fixture = *state;
    uint32_t mask[WORDS_MAX];
    struct request_constraint_options options = options_of(GRAMMAR_NONE, "");
    options.minimum_tokens = 2;
    struct request_constraint *constraint = make(fixture, &options);
    const int32_t drafts[] = {token_of(fixture, "a"), END, token_of(fixture, "a")};
    assert_false(may_end(constraint));
    assert_int_equal(count_allowed(constraint, drafts, 3), 1);
    accept_token(constraint, drafts[0]);
    assert_false(may_end(constraint));
    assert_int_equal(count_allowed(constraint, drafts, 3), 2);
    accept_token(constraint, drafts[0]);
    struct sluice_constraint interface = request_constraint_interface(constraint);
    assert_false(interface.allow(interface.context, NULL, 0, mask));
    /* The end is a draft like others, and nothing comes behind it. */
    assert_int_equal(count_allowed(constraint, drafts + 1, 2), 1);
    request_constraint_destroy(&constraint);
    /* A grammar that leaves nothing else goes before. */
    options.grammar = grammar_source_of(GRAMMAR_CHOICE, "[\"x\"]");
    constraint = make(fixture, &options);
    accept_text(fixture, constraint, "x");
    assert_true(may_end(constraint));
    request_constraint_destroy(&constraint);
}

/* Behind drafts that end the request nothing can be asked for: no mask, which would be an empty one. */
static void test_drafts_that_end(void **state) {
    const struct fixture *fixture = *state;
    uint32_t mask[WORDS_MAX] = {0};
    struct request_constraint_options options = options_of(GRAMMAR_CHOICE, "[\"x\"]");
    struct request_constraint *constraint = make(fixture, &options);
    const int32_t drafts[] = {token_of(fixture, "x"), END, END};
    assert_int_equal(count_allowed(constraint, drafts, 3), 2);
    struct sluice_constraint interface = request_constraint_interface(constraint);
    assert_false(interface.allow(interface.context, drafts, 2, mask));
    assert_true(interface.allow(interface.context, drafts, 1, mask));
    assert_true(mask_has(mask, END));
    request_constraint_destroy(&constraint);
    /* Without end tokens the grammar's end is the request's. */
    options.end_token_count = 0;
    constraint = make(fixture, &options);
    interface = request_constraint_interface(constraint);
    assert_int_equal(count_allowed(constraint, drafts, 3), 1);
    assert_false(interface.allow(interface.context, drafts, 1, mask));
    assert_true(accept_token(constraint, drafts[0]));
    request_constraint_destroy(&constraint);
}

static void test_lists_of_tokens(void **state) {
    const struct fixture *fixture = *state;
    const int32_t a = token_of(fixture, "a");
    const int32_t b = token_of(fixture, "b");
    const int32_t c = token_of(fixture, "c");
    const int32_t allowed[] = {a, b, c};
    const int32_t word[] = {a, b, a};
    const struct token_sequence bad_words[] = {{word, 3}};
    uint32_t mask[WORDS_MAX];
    struct request_constraint_options options = options_of(GRAMMAR_NONE, "");
    options.allowed_tokens = allowed;
    options.allowed_token_count = 3;
    options.banned_tokens = &c;
    options.banned_token_count = 1;
    options.bad_words = bad_words;
    options.bad_word_count = 1;
    struct request_constraint *constraint = make(fixture, &options);
    for (int step = 0; step < 3; step++) {
        ask(constraint, word, (size_t)step, mask);
        for (int32_t token = 0; token < fixture->vocabulary->token_count; token++) {
            bool is_wanted = (token == a && step != 2) || token == b;
            assert_int_equal(mask_has(mask, token), is_wanted);
            int32_t drafts[] = {word[0], word[1], word[2]};
            drafts[step] = token;
            assert_int_equal(count_allowed(constraint, drafts, (size_t)step + 1), step + is_wanted);
        }
    }
    request_constraint_destroy(&constraint);
}

static void assert_refused(const struct fixture *fixture, const struct request_constraint_options *options,
                           const char *part) {
    struct request_constraint *constraint;
    assert_int_not_equal(request_constraint_create(fixture->cache, options, &constraint), STATUS_OK);
    if (strstr(error_last()->message, part) == NULL) {
        fail_msg("<%s> lacks <%s>", error_last()->message, part);
    }
}

static void test_refusals(void **state) {
    const struct fixture *fixture = *state;
    const int32_t outside = fixture->vocabulary->token_count;
    const struct token_sequence nothing = {&outside, 0};
    struct request_constraint_options options = options_of(GRAMMAR_NONE, "");
    options.allowed_tokens = &outside;
    assert_refused(fixture, &options, "allowed_token_ids is empty");
    options.allowed_token_count = 1;
    assert_refused(fixture, &options,
                   "allowed_token_ids has token 4096, which the vocabulary of 4096 tokens");
    options = options_of(GRAMMAR_NONE, "");
    options.bad_words = &nothing;
    options.bad_word_count = 1;
    assert_refused(fixture, &options, "bad_words[0] has no tokens");
    options = options_of(GRAMMAR_JSON_SCHEMA, "{\"typ\": 1}");
    assert_refused(fixture, &options, "\"typ\" at $ is not supported");
}

/* One compilation for all who ask for the same text; who is unused is dropped when room is short. */
static void test_cache(void **state) {
    const struct fixture *fixture = *state;
    struct grammar_cache *cache;
    struct shared_grammar *grammars[3];
    const struct grammar_source x = grammar_source_of(GRAMMAR_REGEX, "x");
    const struct grammar_source y = grammar_source_of(GRAMMAR_EBNF, "root ::= \"x\"");
    assert_int_equal(grammar_cache_create(fixture->vocabulary, 1, &cache), STATUS_OK);
    assert_int_equal(grammar_cache_acquire(cache, &x, &grammars[0]), STATUS_OK);
    assert_int_equal(grammar_cache_acquire(cache, &x, &grammars[1]), STATUS_OK);
    assert_ptr_equal(grammars[0], grammars[1]);
    assert_int_equal(grammar_cache_acquire(cache, &y, &grammars[2]), STATUS_OK);
    assert_int_equal(grammar_cache_counts(cache).compilations, 2);
    grammar_cache_release(cache, &grammars[0]);
    assert_int_equal(grammar_cache_counts(cache).grammars, 2);
    grammar_cache_release(cache, &grammars[1]);
    assert_int_equal(grammar_cache_counts(cache).grammars, 1);
    grammar_cache_release(cache, &grammars[2]);
    assert_int_equal(grammar_cache_counts(cache).grammars, 0);
    grammar_cache_destroy(&cache);
}

static void *ask_from_thread(void *context) {
    const struct fixture *fixture = context;
    uint64_t random_state = (uint64_t)(uintptr_t)&random_state;
    for (size_t round = 0; round < 2 * grammar_example_count; round++) {
        const struct grammar_example *example = &grammar_examples[round % grammar_example_count];
        struct request_constraint_options options = options_of(example->kind, example->text);
        struct request_constraint *constraint;
        uint32_t mask[WORDS_MAX];
        if (request_constraint_create(fixture->cache, &options, &constraint) != STATUS_OK) {
            return NULL;
        }
        struct sluice_constraint interface = request_constraint_interface(constraint);
        for (int step = 0; step < 20; step++) {
            memset(mask, 0, sizeof mask);
            interface.allow(interface.context, NULL, 0, mask);
            int32_t token = pick_token(mask, fixture->vocabulary->token_count, &random_state);
            if (token == END || interface.accept(interface.context, token)) {
                break;
            }
        }
        request_constraint_destroy(&constraint);
    }
    return context;
}

/* For ThreadSanitizer: requests of several threads share grammars. */
static void test_threads(void **state) {
    enum { THREADS = 4 };
    struct fixture *fixture = *state;
    struct fixture own = *fixture;
    pthread_t threads[THREADS];
    assert_int_equal(grammar_cache_create(fixture->vocabulary, 1 << 18, &own.cache), STATUS_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask_from_thread, &own), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    grammar_cache_destroy(&own.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end_is_where_the_grammar_may_end),
        cmocka_unit_test(test_request_without_end_tokens_ends),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_forgetting_changes_nothing),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_stop_strings),
        cmocka_unit_test(test_minimum_of_tokens),
        cmocka_unit_test(test_drafts_that_end),
        cmocka_unit_test(test_lists_of_tokens),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
