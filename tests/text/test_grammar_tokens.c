/* Masks against trying every token byte by byte, on random ways through grammars of every kind. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/grammar/grammar_cache.h"
#include "text/grammar_fixture.h"
#include "text/tokenizer_fixture.h"
#include "text/utf8.h"

/* What a token leads to, by its bytes or as a control token; added tokens that are neither lead nowhere. */
static uint32_t follow(struct grammar_automaton *automaton, uint32_t set, int32_t token) {
    const struct tokenizer *tokenizer = automaton->vocabulary->tokenizer;
    size_t length;
    const char *bytes = tokenizer_token_bytes(tokenizer, token, &length);
    if (bytes == NULL) {
        return GRAMMAR_SET_DEAD;
    }
    if (!tokenizer_is_added(tokenizer, token)) {
        return grammar_automaton_read(automaton, set, bytes, length);
    }
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        const char *text = control_token_text((enum control_token)i);
        if (strlen(text) == length && memcmp(text, bytes, length) == 0) {
            return grammar_automaton_step(automaton, set, GRAMMAR_BYTES + (uint32_t)i);
        }
    }
    return GRAMMAR_SET_DEAD;
}

static void expand(const struct token_set *set, uint32_t *mask, uint32_t word_count) {
    memset(mask, 0, word_count * sizeof *mask);
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->is_mask) {
            mask[i] = set->values[i];
        } else {
            mask[set->values[i] / 32] |= UINT32_C(1) << set->values[i] % 32;
        }
    }
}

static void check_mask(struct grammar_automaton *automaton, uint32_t set, const uint32_t *mask,
                       const char *what) {
    for (int32_t token = 0; token < automaton->vocabulary->token_count; token++) {
        bool is_wanted = follow(automaton, set, token) != GRAMMAR_SET_DEAD;
        if (mask_has(mask, token) != is_wanted) {
            fail_msg("%s: token %d is %s", what, token, is_wanted ? "missing" : "too much");
        }
    }
}

/* A random way of some tokens; starts again where the text must end. */
static void walk(struct grammar_automaton *automaton, const char *what, int step_count, uint64_t seed) {
    uint32_t word_count = automaton->vocabulary->word_count;
    uint32_t *mask = malloc(word_count * sizeof *mask);
    struct string_buffer text = {0};
    uint32_t set = grammar_automaton_start(automaton);
    uint64_t random_state = seed;
    for (int i = 0; i < step_count; i++) {
        const struct token_set *tokens = grammar_automaton_tokens(automaton, set);
        assert_non_null(tokens);
        expand(tokens, mask, word_count);
        check_mask(automaton, set, mask, what);
        int32_t token = pick_token(mask, automaton->vocabulary->token_count, &random_state);
        if (token < 0) {
            assert_true(grammar_automaton_must_end(automaton, set));
            assert_int_equal(utf8_valid_length(string_buffer_text(&text), text.length), text.length);
            string_buffer_clear(&text);
            set = grammar_automaton_start(automaton);
            continue;
        }
        assert_false(grammar_automaton_must_end(automaton, set));
        set = follow(automaton, set, token);
        assert_int_not_equal(set, GRAMMAR_SET_DEAD);
        size_t length;
        const char *bytes = tokenizer_token_bytes(automaton->vocabulary->tokenizer, token, &length);
        string_buffer_append(&text, bytes, length);
    }
    string_buffer_deinit(&text);
    free(mask);
}

static void check_tokenizer(const char *path, int step_count) {
    struct tokenizer *tokenizer = load_tokenizer(path);
    struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
    for (size_t i = 0; i < grammar_example_count; i++) {
        const struct grammar_example *example = &grammar_examples[i];
        struct grammar *grammar = compile_grammar(example->kind, example->text);
        struct grammar_automaton *automaton;
        assert_int_equal(grammar_automaton_create(grammar, vocabulary, SIZE_MAX, &automaton), STATUS_OK);
        walk(automaton, example->text, step_count, 1 + i);
        grammar_automaton_destroy(&automaton);
        grammar_destroy(&grammar);
    }
    token_vocabulary_destroy(&vocabulary);
    tokenizer_destroy(&tokenizer);
}

static void test_masks_of_mini_v4(void **state) {
    (void)state;
    check_tokenizer(MINI_V4_TOKENIZER, 60);
}

static void test_masks_of_deepseek_v3(void **state) {
    (void)state;
    check_tokenizer(DEEPSEEK_V3_TOKENIZER, 12);
}

/*
 * Places where many tokens follow by their characters and their number alone: characters of several bytes and
 * single letters that do something else than most do, counts that end within tokens, with something else or
 * nothing behind them, blanks before words, and rules that may end within a token.
 */
static void test_characters_that_do_otherwise(void **state) {
    (void)state;
    static const struct grammar_example grammars[] = {
        {GRAMMAR_REGEX, "[^\\u00e9\\u4e2d]{2,30}(\\u00e9[a-m]{0,5}|\\u4e2d\\n*)"},
        {GRAMMAR_REGEX, "[^\\u00e9]*\\u00e9[^b]{0,40}b[^\\u00e8]{0,9}"},
        {GRAMMAR_REGEX, "([^,]{0,9},){2,6}x"},
        {GRAMMAR_REGEX, "[\\u4e00-\\u9fff ]{3,12}[^\\u4e00-\\u5fff]{1,8}"},
        {GRAMMAR_REGEX, "([a-eg-z]|f[^ ]){4,20}"},
        {GRAMMAR_REGEX, "(.|\\n){0,5}\\u00df(.|\\n){0,3}"},
        {GRAMMAR_REGEX, "[^x]{0,7}"},
        {GRAMMAR_REGEX, "( [^q ]{1,4}){1,3}"},
        {GRAMMAR_REGEX, "[a-z ]{3}([0-9]{3,}|[a-zA-Z]*)"},
        {GRAMMAR_EBNF, "root ::= item (\",\" item)*\nitem ::= [^,;]+ | word\nword ::= [a-z]{2,9}"},
        {GRAMMAR_EBNF, "root ::= \"(\" root \")\" | text+\ntext ::= [^()]{1,6}"},
        {GRAMMAR_JSON_SCHEMA, "{\"type\": \"string\", \"pattern\": \"e[^u]*$\", \"maxLength\": 9}"},
    };
    const char *const paths[] = {MINI_V4_TOKENIZER, DEEPSEEK_V3_TOKENIZER};
    for (int i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = load_tokenizer(paths[i]);
        struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
        for (size_t k = 0; k < sizeof grammars / sizeof *grammars; k++) {
            struct grammar *grammar = compile_grammar(grammars[k].kind, grammars[k].text);
            struct grammar_automaton *automaton;
            assert_int_equal(grammar_automaton_create(grammar, vocabulary, SIZE_MAX, &automaton), STATUS_OK);
            walk(automaton, grammars[k].text, i == 0 ? 40 : 8, 77 + k);
            grammar_automaton_destroy(&automaton);
            grammar_destroy(&grammar);
        }
        token_vocabulary_destroy(&vocabulary);
        tokenizer_destroy(&tokenizer);
    }
}

/* Which tokens are selected, against their texts one by one. */
static void check_selection(const struct token_vocabulary *vocabulary, bool has_blank,
                            struct character_groups groups, uint32_t count_max) {
    uint32_t *words = calloc(vocabulary->word_count, sizeof *words);
    token_characters_select(&vocabulary->characters, has_blank, groups, count_max, words);
    for (int32_t token = 0; token < vocabulary->token_count; token++) {
        size_t length;
        uint32_t count = 0;
        const char *text = token_vocabulary_text(vocabulary, token, &length);
        bool is_wanted = text != NULL && (text[0] == ' ') == has_blank;
        for (size_t i = has_blank ? 1 : 0; is_wanted && i < length; count++) {
            struct utf8_step step = utf8_next(text + i, length - i);
            is_wanted = step.kind != UTF8_INVALID && groups_have(groups, character_group((uint8_t)text[i]));
            i += step.length;
        }
        is_wanted = is_wanted && (count <= count_max || count_max > TOKEN_CHARACTERS_MAX);
        assert_int_equal(mask_has(words, token), is_wanted);
    }
    free(words);
}

static void test_tokens_by_their_characters(void **state) {
    (void)state;
    const char *const paths[] = {MINI_V4_TOKENIZER, DEEPSEEK_V3_TOKENIZER};
    static const uint32_t counts[] = {0, 1, 4, TOKEN_CHARACTERS_MAX, UINT32_MAX};
    struct character_groups letters = {{0}};
    for (char c = 'a'; c <= 'z'; c++) {
        groups_add(&letters, character_group((uint8_t)c));
    }
    struct character_groups none_malformed = {{0}};
    groups_add(&none_malformed, CHARACTER_GROUP_MALFORMED);
    struct character_groups all = groups_not(none_malformed);
    for (int i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = load_tokenizer(paths[i]);
        struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            check_selection(vocabulary, k % 2 == 0, letters, counts[k]);
            check_selection(vocabulary, k % 2 != 0, groups_and(all, groups_not(letters)), counts[k]);
            check_selection(vocabulary, false, all, counts[k]);
            check_selection(vocabulary, true, all, counts[k]);
        }
        token_vocabulary_destroy(&vocabulary);
        tokenizer_destroy(&tokenizer);
    }
}

/* Readings that only differ in what is behind them double with every character, but not the work. */
static void test_readings_are_joined(void **state) {
    (void)state;
    struct grammar *grammar =
        compile_grammar(GRAMMAR_EBNF, "root ::= a\na ::= \"x\" a \"1\" | \"x\" b \"2\" | \"y\"\n"
                                      "b ::= \"x\" a \"3\" | \"x\" b \"4\" | \"y\"");
    struct grammar_automaton *automaton;
    assert_int_equal(grammar_automaton_create(grammar, NULL, SIZE_MAX, &automaton), STATUS_OK);
    uint32_t set = grammar_automaton_start(automaton);
    for (int i = 0; i < 200; i++) {
        set = grammar_automaton_step(automaton, set, 'x');
        assert_int_not_equal(set, GRAMMAR_SET_DEAD);
        assert_true(config_lists_get(&automaton->sets, set).count < 20);
    }
    set = grammar_automaton_step(automaton, set, 'y');
    for (int i = 0; i < 200; i++) {
        assert_false(grammar_automaton_may_end(automaton, set));
        uint32_t next = grammar_automaton_step(automaton, set, i % 2 == 0 ? '1' : '2');
        set =
            next != GRAMMAR_SET_DEAD ? next : grammar_automaton_step(automaton, set, i % 2 == 0 ? '4' : '3');
        assert_int_not_equal(set, GRAMMAR_SET_DEAD);
    }
    assert_true(grammar_automaton_must_end(automaton, set));
    grammar_automaton_destroy(&automaton);
    grammar_destroy(&grammar);
}

/* A list that calls itself at its end nests no deeper however long it gets. */
static void test_calls_at_the_end_stay_flat(void **state) {
    (void)state;
    struct grammar *grammar =
        compile_grammar(GRAMMAR_EBNF, "root ::= \"(\" list\nlist ::= [a-z] list | \")\"");
    struct grammar_automaton *automaton;
    assert_int_equal(grammar_automaton_create(grammar, NULL, SIZE_MAX, &automaton), STATUS_OK);
    uint32_t set = grammar_automaton_read(automaton, grammar_automaton_start(automaton), "(ab", 3);
    assert_int_equal(grammar_automaton_read(automaton, set, "cdefgh", 6), set);
    grammar_automaton_destroy(&automaton);
    grammar_destroy(&grammar);
}

/* One state behind which different things come at once, in a long rule and in a short one, behind which most
 * tokens go on: with each of them a token may. */
static void test_all_that_may_come_behind_counts(void **state) {
    (void)state;
    static const char *const sources[] = {
        "root ::= nested\nnested ::= \"(\" nested \")\" | word\nword ::= [^)] [^)]+",
        "root ::= nested\nnested ::= \"(\" nested \")\" | word\nword ::= \"(\"* [a]+ [^()a]"};
    static const char *const texts[] = {"(((some", "(((aa"};
    struct tokenizer *tokenizer = load_tokenizer(DEEPSEEK_V3_TOKENIZER);
    struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
    uint32_t *mask = malloc(vocabulary->word_count * sizeof *mask);
    for (int i = 0; i < 2; i++) {
        struct grammar *grammar = compile_grammar(GRAMMAR_EBNF, sources[i]);
        struct grammar_automaton *automaton;
        assert_int_equal(grammar_automaton_create(grammar, vocabulary, SIZE_MAX, &automaton), STATUS_OK);
        for (size_t length = 0; length <= strlen(texts[i]); length++) {
            uint32_t set =
                grammar_automaton_read(automaton, grammar_automaton_start(automaton), texts[i], length);
            expand(grammar_automaton_tokens(automaton, set), mask, vocabulary->word_count);
            check_mask(automaton, set, mask, sources[i]);
        }
        grammar_automaton_destroy(&automaton);
        grammar_destroy(&grammar);
    }
    token_vocabulary_destroy(&vocabulary);
    tokenizer_destroy(&tokenizer);
    free(mask);
}

static uint32_t count_prepared(struct shared_grammar *shared) {
    struct grammar_automaton *automaton = grammar_lock(shared);
    uint32_t count = 0;
    for (uint32_t i = 0; i < automaton->grammar->state_count; i++) {
        count += automaton->state_tokens[i] != NULL;
    }
    grammar_unlock(shared);
    return count;
}

/* After working ahead on a whole grammar no text meets a state of which something is unknown, and masks are
 * right. */
static void test_nothing_is_left_to_find_out(void **state) {
    (void)state;
    struct tokenizer *tokenizer = load_tokenizer(MINI_V4_TOKENIZER);
    struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
    struct grammar_cache *cache;
    assert_int_equal(grammar_cache_create(vocabulary, SIZE_MAX, &cache), STATUS_OK);
    for (size_t i = 0; i < grammar_example_count; i++) {
        const struct grammar_example *example = &grammar_examples[i];
        const struct grammar_source source = grammar_source_of(example->kind, example->text);
        struct shared_grammar *shared;
        assert_int_equal(grammar_cache_acquire(cache, &source, &shared), STATUS_OK);
        assert_int_equal(count_prepared(shared), 0);
        grammar_prepare(shared, 1e6);
        uint32_t count = count_prepared(shared);
        assert_true(count > 0);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            walk(grammar_lock(shared), example->text, 30, seed);
            grammar_unlock(shared);
            assert_int_equal(count_prepared(shared), count);
        }
        grammar_cache_release(cache, &shared);
    }
    grammar_cache_destroy(&cache);
    token_vocabulary_destroy(&vocabulary);
    tokenizer_destroy(&tokenizer);
}

/* Without time nothing is done, and no second time is given. */
static void test_working_ahead_has_an_end(void **state) {
    (void)state;
    struct tokenizer *tokenizer = load_tokenizer(MINI_V4_TOKENIZER);
    struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
    const struct grammar_source source = {.kind = GRAMMAR_JSON_OBJECT};
    struct grammar_cache *cache;
    struct shared_grammar *shared;
    assert_int_equal(grammar_cache_create(vocabulary, SIZE_MAX, &cache), STATUS_OK);
    assert_int_equal(grammar_cache_acquire(cache, &source, &shared), STATUS_OK);
    grammar_prepare(shared, 0.0);
    grammar_prepare(shared, 1e6);
    assert_int_equal(count_prepared(shared), 0);
    grammar_cache_release(cache, &shared);
    grammar_cache_destroy(&cache);
    token_vocabulary_destroy(&vocabulary);
    tokenizer_destroy(&tokenizer);
}

static bool is_continuation(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* The groups of the characters of a text whose end may be cut off, and their number. */
static struct character_groups groups_of(const char *text, size_t length, uint32_t *count) {
    size_t cut = length;
    struct character_groups groups = {{0}};
    *count = 0;
    while (cut > 0 && length - cut < 4 && is_continuation(text[cut - 1])) {
        cut--;
    }
    bool is_whole = utf8_valid_length(text, length) == length;
    bool is_cut = !is_whole && cut > 0 && utf8_valid_length(text, cut - 1) == cut - 1 &&
                  utf8_next(text + cut - 1, length - cut + 1).kind == UTF8_INCOMPLETE;
    for (size_t i = 0; i < length; i++) {
        if (!is_continuation(text[i])) {
            groups_add(&groups, character_group((uint8_t)text[i]));
            *count += 1;
        }
    }
    if (!is_whole && !is_cut) {
        groups_add(&groups, CHARACTER_GROUP_MALFORMED);
    }
    return groups;
}

/* What stands ahead of a node, token by token. */
static void check_ahead(const struct token_vocabulary *vocabulary, uint32_t node) {
    const struct token_trie *trie = &vocabulary->trie;
    struct character_groups groups = {{0}};
    uint32_t characters = 0;
    for (uint32_t i = trie->token_offsets[node]; i < trie->token_offsets[trie->subtree_ends[node]]; i++) {
        size_t length;
        uint32_t count;
        const char *text = token_vocabulary_text(vocabulary, trie->tokens[i], &length);
        uint32_t start = trie->depths[node] - (trie->bytes[node] >= 0xC2 ? 1 : 0);
        groups = groups_or(groups, groups_of(text + start, length - start, &count));
        characters = count > characters ? count : characters;
    }
    assert_int_equal(trie->characters_ahead[node], characters);
    if (groups_have(groups, CHARACTER_GROUP_MALFORMED)) {
        assert_true(groups_have(trie->groups_ahead[node], CHARACTER_GROUP_MALFORMED));
    } else {
        assert_memory_equal(&trie->groups_ahead[node], &groups, sizeof groups);
    }
}

static void test_what_stands_ahead_of_nodes(void **state) {
    (void)state;
    const char *const paths[] = {MINI_V4_TOKENIZER, DEEPSEEK_V3_TOKENIZER};
    for (int i = 0; i < 2; i++) {
        struct tokenizer *tokenizer = load_tokenizer(paths[i]);
        struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
        for (uint32_t node = 0; node < vocabulary->trie.node_count; node++) {
            check_ahead(vocabulary, node);
        }
        token_vocabulary_destroy(&vocabulary);
        tokenizer_destroy(&tokenizer);
    }
}

/* Groups are what whole classes of characters are made of: no two first bytes of one that must differ. */
static void test_groups_of_characters(void **state) {
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        bool begins = byte < 0x80 || (byte >= 0xC2 && byte <= 0xF4);
        uint32_t group = character_group((uint8_t)byte);
        assert_true(group < CHARACTER_GROUPS);
        assert_true(begins == (group != CHARACTER_GROUP_MALFORMED));
        for (int other = 0; other < byte; other++) {
            bool is_sign = byte >= 0x20 && byte < 0x7F;
            bool is_blank = byte >= '\t' && byte <= '\r';
            assert_false((is_sign || is_blank) && character_group((uint8_t)other) == group);
            assert_false(begins && (byte < 0x80) != (other < 0x80) &&
                         character_group((uint8_t)other) == group);
        }
    }
}

/* Lists keep their numbers and places while tables grow, and are found by both ways to them: as new and as
 * old. */
static void test_lists_are_found_again(void **state) {
    (void)state;
    enum { LISTS = 5000 };
    static const struct config *places[LISTS];
    struct config_lists lists;
    config_lists_init(&lists);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < LISTS; i++) {
            /* Of 1 to 3 items; the first one of many is the same. */
            struct config items[] = {{i % 7, i / 21}, {i % 21, 1}, {5, i}};
            uint32_t count = 1 + i / 7 % 3;
            assert_int_equal(config_lists_find(&lists, items, count), i);
            struct config_span span = config_lists_get(&lists, i);
            assert_int_equal(span.count, count);
            assert_memory_equal(span.items, items, count * sizeof *items);
            assert_true(round == 0 || span.items == places[i]);
            places[i] = span.items;
        }
    }
    assert_int_equal(lists.list_count, LISTS);
    config_lists_deinit(&lists);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_found_again),
        cmocka_unit_test(test_masks_of_mini_v4),
        cmocka_unit_test(test_masks_of_deepseek_v3),
        cmocka_unit_test(test_characters_that_do_otherwise),
        cmocka_unit_test(test_tokens_by_their_characters),
        cmocka_unit_test(test_readings_are_joined),
        cmocka_unit_test(test_calls_at_the_end_stay_flat),
        cmocka_unit_test(test_all_that_may_come_behind_counts),
        cmocka_unit_test(test_nothing_is_left_to_find_out),
        cmocka_unit_test(test_working_ahead_has_an_end),
        cmocka_unit_test(test_what_stands_ahead_of_nodes),
        cmocka_unit_test(test_groups_of_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
