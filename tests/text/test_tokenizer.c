/* Behaviour that users of other engines missed (field reports), limits, threads and damaged text. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/tokenizer_fixture.h"

static struct tokenizer *mini_v4;
static struct tokenizer *deepseek_v3;

static int set_up(void **state) {
    (void)state;
    mini_v4 = load_tokenizer(MINI_V4_TOKENIZER);
    deepseek_v3 = load_tokenizer(DEEPSEEK_V3_TOKENIZER);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tokenizer_destroy(&mini_v4);
    tokenizer_destroy(&deepseek_v3);
    return 0;
}

/* models/mini-v4/tokenizer.json, added_tokens. */
static void test_added_tokens_of_mini_v4(void **state) {
    (void)state;
    assert_int_equal(tokenizer_vocabulary_size(mini_v4), 4096);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<｜begin▁of▁sentence｜>"), 0);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<｜end▁of▁sentence｜>"), 1);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<think>"), 4081);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "</think>"), 4082);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "｜DSML｜"), 4083);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<｜User｜>"), 4084);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<｜fim▁end｜>"), 4095);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "<|User|>"), -1);
    assert_int_equal(tokenizer_added_token_id(mini_v4, "the"), -1);
    assert_int_equal(tokenizer_added_token_id(mini_v4, ""), -1);
    int added_count = 0;
    for (int32_t id = -1; id <= 4096; id++) {
        added_count += tokenizer_is_added(mini_v4, id);
        assert_int_equal(tokenizer_is_special(mini_v4, id), id >= 0 && id <= 2);
    }
    assert_int_equal(added_count, 18);
    size_t length = 0;
    assert_memory_equal(tokenizer_token_bytes(mini_v4, 4084, &length), "<｜User｜>", length);
    assert_int_equal(length, 12);
    assert_null(tokenizer_token_bytes(mini_v4, 4096, &length));
    assert_null(tokenizer_token_bytes(mini_v4, -1, &length));
}

static void test_added_tokens_of_deepseek_v3(void **state) {
    (void)state;
    assert_int_equal(tokenizer_vocabulary_size(deepseek_v3), 128815);
    assert_int_equal(tokenizer_added_token_id(deepseek_v3, "<｜User｜>"), 128803);
    assert_int_equal(tokenizer_added_token_id(deepseek_v3, "<｜Assistant｜>"), 128804);
    assert_true(tokenizer_is_special(deepseek_v3, 0));
    assert_false(tokenizer_is_special(deepseek_v3, 128803));
}

/* Counts how often an id occurs in the encoding of a text. */
static size_t count_id(const struct tokenizer *tokenizer, const char *text, bool match_added_tokens,
                       int32_t id) {
    struct token_list ids = {0};
    size_t count = 0;
    encode_into(tokenizer, text, strlen(text), match_added_tokens, &ids);
    for (size_t i = 0; i < ids.count; i++) {
        count += ids.ids[i] == id;
    }
    token_list_deinit(&ids);
    return count;
}

/* B103: with matching off, no text becomes a control token. */
static void test_control_text_stays_text(void **state) {
    (void)state;
    const char *text = "x<｜end▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>";
    struct token_list ids = {0};
    for (int i = 0; i < 2; i++) {
        const struct tokenizer *tokenizer = i == 0 ? mini_v4 : deepseek_v3;
        encode_into(tokenizer, text, strlen(text), false, &ids);
        for (size_t k = 0; k < ids.count; k++) {
            assert_false(tokenizer_is_added(tokenizer, ids.ids[k]));
        }
        assert_round_trip(tokenizer, text, strlen(text), false);
        assert_int_equal(count_id(tokenizer, text, true, 1), 1);
    }
    token_list_deinit(&ids);
}

/* B112: nothing is put before or after the text, and a mark that is there is not doubled. */
static void test_no_marks_are_added(void **state) {
    (void)state;
    assert_int_equal(count_id(mini_v4, "Hello", true, 0), 0);
    assert_int_equal(count_id(mini_v4, "Hello", true, 1), 0);
    assert_int_equal(count_id(mini_v4, "<｜begin▁of▁sentence｜>Hello", true, 0), 1);
    assert_int_equal(count_id(deepseek_v3, "<｜begin▁of▁sentence｜>Hello", true, 0), 1);
    struct token_list ids = {0};
    encode_into(mini_v4, "", 0, true, &ids);
    assert_int_equal(ids.count, 0);
    token_list_deinit(&ids);
}

/* B114: look-alikes with ASCII bars or lines are text. */
static void test_look_alikes_are_text(void **state) {
    (void)state;
    static const char *const texts[] = {"<|User|>", "<｜User|>", "<｜begin_of_sentence｜>", "<｜User｜"};
    struct token_list ids = {0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        encode_into(mini_v4, texts[i], strlen(texts[i]), true, &ids);
        for (size_t k = 0; k < ids.count; k++) {
            assert_false(tokenizer_is_added(mini_v4, ids.ids[k]));
        }
    }
    token_list_deinit(&ids);
    assert_ids(mini_v4, "<｜User｜>", (const int32_t[]){4084}, 1);
}

/* B107: ids recorded with the reference implementation. */
static void test_digits_go_in_threes(void **state) {
    (void)state;
    assert_ids(deepseek_v3, "unit407b.c", (const int32_t[]){15165, 21189, 68, 4001}, 4);
    assert_ids(deepseek_v3, "1", (const int32_t[]){19}, 1);
    assert_ids(deepseek_v3, "12", (const int32_t[]){736}, 1);
    assert_ids(deepseek_v3, "123", (const int32_t[]){6895}, 1);
    assert_ids(deepseek_v3, "1234", (const int32_t[]){6895, 22}, 2);
    assert_ids(deepseek_v3, "12345678901", (const int32_t[]){6895, 18009, 25744, 2616}, 4);
    assert_ids(deepseek_v3, "3.14159", (const int32_t[]){21, 16, 9926, 3318}, 4);
    assert_ids(deepseek_v3, "２０２６", (const int32_t[]){86093, 18237, 41428}, 3);
    assert_ids(deepseek_v3, "١٢٣٤", (const int32_t[]){63468, 76647, 127056, 152, 100}, 5);
    assert_ids(deepseek_v3, "x1234y", (const int32_t[]){90, 6895, 22, 91}, 4);
}

/* B105: characters whose bytes come in tokens of their own are whole when decoded together. */
static void test_byte_tokens_join(void **state) {
    (void)state;
    const char *text = "😀é你👩‍👩‍👧";
    struct token_list ids = {0};
    struct token_list one = {0};
    for (const char *p = text; *p != '\0'; p++) {
        encode_into(mini_v4, p, 1, true, &one);
        assert_int_equal(one.count, 1);
        assert_int_equal(token_list_append(&ids, one.ids[0]), STATUS_OK);
    }
    struct string_buffer decoded = {0};
    assert_int_equal(tokenizer_decode(mini_v4, ids.ids, ids.count, false, &decoded), STATUS_OK);
    assert_string_equal(decoded.data, text);
    string_buffer_deinit(&decoded);
    token_list_deinit(&one);
    token_list_deinit(&ids);
}

static void test_skip_special(void **state) {
    (void)state;
    struct string_buffer decoded = {0};
    const int32_t ids[] = {0, 4084, 1, 2, 4082};
    assert_int_equal(tokenizer_decode(mini_v4, ids, 5, true, &decoded), STATUS_OK);
    assert_string_equal(decoded.data, "<｜User｜></think>");
    string_buffer_deinit(&decoded);
}

static void test_unknown_id(void **state) {
    (void)state;
    struct string_buffer decoded = {0};
    const int32_t ids[] = {0, 4096};
    assert_int_equal(tokenizer_decode(mini_v4, ids, 2, false, &decoded), STATUS_OUT_OF_RANGE);
    assert_string_equal(error_last()->message,
                        "the token id 4096 at index 1 is not in the tokenizer's vocabulary of 4096");
    assert_int_equal(decoded.length, 0);
}

/* Every byte sequence survives; what is well-formed around a fault keeps its ids. */
static void test_ill_formed_bytes(void **state) {
    (void)state;
    static const char *const texts[] = {"\xFF",         "\xC3",
                                        "a\x80z",       "\xE4\xBD",
                                        "\xED\xA0\x80", "\xF5\x80\x80\x80",
                                        "\xC0\xAF",     "\xE4\xBD<think>\xF0\x9F\x98",
                                        "\xC3\xA9\xC3"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_round_trip(mini_v4, texts[i], strlen(texts[i]), true);
        assert_round_trip(deepseek_v3, texts[i], strlen(texts[i]), false);
    }
    uint32_t noise = 1;
    char text[64];
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof text; i++) {
            noise = noise * 1664525u + 1013904223u;
            text[i] = (char)(noise >> 24);
        }
        assert_round_trip(mini_v4, text, (size_t)round % sizeof text, round % 2 == 0);
    }
    struct token_list whole = {0};
    struct token_list part = {0};
    encode_into(deepseek_v3, "Hello\xFF world", 12, true, &whole);
    encode_into(deepseek_v3, "Hello", 5, true, &part);
    assert_memory_equal(whole.ids, part.ids, part.count * sizeof *part.ids);
    size_t rest = part.count + 1;
    encode_into(deepseek_v3, " world", 6, true, &part);
    assert_int_equal(whole.count, rest + part.count);
    assert_memory_equal(whole.ids + rest, part.ids, part.count * sizeof *part.ids);
    token_list_deinit(&part);
    token_list_deinit(&whole);
}

struct long_text {
    const char *unit;
    size_t count;
};

/* B110, B116: texts of one class of characters. */
static const struct long_text long_texts[] = {
    {"a", 1000000},  {"世", 300000}, {" ", 500000},  {"\n", 500000},   {".", 500000},  {"^", 1000000},
    {" \n", 500000}, {"<", 1000000}, {"0", 1000000}, {"\xFF", 500000}, {"a1", 300000}, {"<｜", 200000}};

static uint64_t steps_of(const struct tokenizer *tokenizer, const char *text, size_t length) {
    struct tokenizer_work work = {0};
    struct tokenizer_encode_options options = {.match_added_tokens = true, .work = &work};
    struct token_list ids = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, length, &options, &ids), STATUS_OK);
    token_list_deinit(&ids);
    return work.heap_step_count;
}

/* n log n: a text four times as long takes less than five times the steps of the heap. */
static void test_work_grows_with_length(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof long_texts / sizeof long_texts[0]; i++) {
        size_t length = 0;
        char *text = repeat_text(long_texts[i].unit, long_texts[i].count, &length);
        size_t quarter = long_texts[i].count / 4 * strlen(long_texts[i].unit);
        uint64_t quarter_steps = steps_of(deepseek_v3, text, quarter);
        uint64_t steps = steps_of(deepseek_v3, text, length);
        assert_true(steps <= 5 * quarter_steps);
        assert_true(steps <= 80 * length);
        free(text);
    }
}

static void *encode_long_texts(void *context) {
    size_t *good_count = context;
    for (size_t i = 0; i < sizeof long_texts / sizeof long_texts[0]; i++) {
        size_t unit_length = strlen(long_texts[i].unit);
        size_t length = unit_length * long_texts[i].count;
        char *text = malloc(length);
        struct token_list ids = {0};
        struct string_buffer decoded = {0};
        struct tokenizer_encode_options options = {.match_added_tokens = true};
        for (size_t k = 0; text != NULL && k < length; k++) {
            text[k] = long_texts[i].unit[k % unit_length];
        }
        if (text != NULL && tokenizer_encode(deepseek_v3, text, length, &options, &ids) == STATUS_OK &&
            tokenizer_decode(deepseek_v3, ids.ids, ids.count, false, &decoded) == STATUS_OK &&
            decoded.length == length && memcmp(decoded.data, text, length) == 0) {
            (*good_count)++;
        }
        string_buffer_deinit(&decoded);
        token_list_deinit(&ids);
        free(text);
    }
    return NULL;
}

/* B110: on a thread with a stack of 512 KiB; two threads share the tokenizer. */
static void test_small_stacks(void **state) {
    (void)state;
    enum { THREAD_COUNT = 2 };
    pthread_attr_t attributes;
    pthread_t threads[THREAD_COUNT];
    size_t good_counts[THREAD_COUNT] = {0};
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, 512 << 10), 0);
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_create(&threads[i], &attributes, encode_long_texts, &good_counts[i]), 0);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(good_counts[i], sizeof long_texts / sizeof long_texts[0]);
    }
    pthread_attr_destroy(&attributes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_tokens_of_mini_v4),
        cmocka_unit_test(test_added_tokens_of_deepseek_v3),
        cmocka_unit_test(test_control_text_stays_text),
        cmocka_unit_test(test_no_marks_are_added),
        cmocka_unit_test(test_look_alikes_are_text),
        cmocka_unit_test(test_digits_go_in_threes),
        cmocka_unit_test(test_byte_tokens_join),
        cmocka_unit_test(test_skip_special),
        cmocka_unit_test(test_unknown_id),
        cmocka_unit_test(test_ill_formed_bytes),
        cmocka_unit_test(test_work_grows_with_length),
        cmocka_unit_test(test_small_stacks),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
