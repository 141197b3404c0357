/*
 * Encoding an assistant's turn and parsing it gives the turn back: as text with the strict and the robust
 * parser, and as tokens even if the turn spells control tokens. The turns are random but the same in every
 * run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/chat_fixture.h"
#include "support/output_recorder.h"
#include "text/tokenizer.h"

enum { TURN_COUNT = 1500, CALLS_MAX = 3, PARAMETERS_MAX = 4 };

/* Pieces that try a parser's patience; the last ones are control tokens. */
static const char *const pieces[] = {"a",
                                     "word ",
                                     "\n",
                                     "\n\n",
                                     "<",
                                     "</",
                                     ">",
                                     "\"",
                                     "\\",
                                     "/",
                                     "invoke name=\"",
                                     "2>&1",
                                     "0",
                                     "1234",
                                     "世界",
                                     "😀",
                                     "é",
                                     "｜",
                                     "DSML",
                                     "｜D",
                                     " ",
                                     "\t",
                                     "tool_calls>",
                                     "</div>",
                                     "{}",
                                     "[1, 2",
                                     ": ",
                                     "'",
                                     "\x01",
                                     "<think ",
                                     "｜>",
                                     "&lt;",
                                     "\r",
                                     "string=\"true\">"};
static const char *const control_pieces[] = {
    "</think>", "<think>", DSML, EOS, "<" DSML "tool_calls>", "</" DSML "parameter>", USER, BOS};

enum { PIECE_COUNT = sizeof pieces / sizeof *pieces };
enum { CONTROL_PIECE_COUNT = sizeof control_pieces / sizeof *control_pieces };

struct generator {
    uint64_t state;
    bool has_controls; /* texts may spell control tokens */
};

/* xorshift64* */
static size_t pick(struct generator *generator, size_t limit) {
    generator->state ^= generator->state >> 12;
    generator->state ^= generator->state << 25;
    generator->state ^= generator->state >> 27;
    return (size_t)((generator->state * 0x2545F4914F6CDD1Du >> 33) % limit);
}

/* Whether the text spells a control token, perhaps where two pieces meet. */
static bool spells_control(const struct string_buffer *text) {
    for (size_t i = 0; i < text->length; i++) {
        if (control_token_at(text->data + i, text->length - i) != CONTROL_TOKEN_NONE) {
            return true;
        }
    }
    return false;
}

static struct json *random_text(struct generator *generator, size_t piece_limit) {
    struct string_buffer text = {0};
    do {
        string_buffer_clear(&text);
        size_t count = pick(generator, piece_limit + 1);
        for (size_t i = 0; i < count; i++) {
            bool is_control = generator->has_controls && pick(generator, 4) == 0;
            string_buffer_append_text(&text, is_control ? control_pieces[pick(generator, CONTROL_PIECE_COUNT)]
                                                        : pieces[pick(generator, PIECE_COUNT)]);
        }
    } while (!generator->has_controls && spells_control(&text));
    struct json *value = json_new_string(string_buffer_text(&text), text.length);
    string_buffer_deinit(&text);
    return value;
}

static struct json *random_value(struct generator *generator, int depth) {
    switch (pick(generator, depth > 2 ? 6 : 8)) {
    case 0:
        return json_new_integer((int64_t)pick(generator, 100000) - 50000);
    case 1:
        return json_new_real((double)pick(generator, 1000) / 8 - 30);
    case 2:
        return json_new_bool(pick(generator, 2) == 1);
    case 3:
        return json_new_null();
    case 4:
    case 5:
        return random_text(generator, 12);
    default:
        break;
    }
    bool is_array = pick(generator, 2) == 1;
    struct json *value = is_array ? json_new_array() : json_new_object();
    size_t count = pick(generator, 3);
    for (size_t i = 0; i < count; i++) {
        struct json *item = random_value(generator, depth + 1);
        if (is_array) {
            assert_true(json_append(value, item));
        } else {
            assert_true(json_set(value, i == 0 ? "k<\"" : "\n世", item));
        }
    }
    return value;
}

static struct json *random_arguments(struct generator *generator) {
    static const char *const keys[PARAMETERS_MAX] = {"cmd", "k\"=>q", "ключ a", ""};
    struct json *arguments = json_new_object();
    size_t count = pick(generator, PARAMETERS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        assert_true(json_set(arguments, keys[i], random_value(generator, 0)));
    }
    return arguments;
}

/* A turn with the expected result beside it. */
struct turn {
    struct json *message;
    struct string_buffer reasoning, content;
    struct string_buffer arguments[CALLS_MAX];
    size_t call_count;
};

static void copy_string(const struct json *value, struct string_buffer *out) {
    size_t length;
    const char *bytes = json_text(value, &length);
    string_buffer_append(out, bytes, length);
}

static struct turn random_turn(struct generator *generator) {
    static const char *const names[CALLS_MAX] = {"run", "get_weather", "a-b.c"};
    struct turn turn = {.message = json_new_object(), .call_count = pick(generator, CALLS_MAX + 1)};
    struct json *reasoning = random_text(generator, 20);
    struct json *content = random_text(generator, 20);
    copy_string(reasoning, &turn.reasoning);
    copy_string(content, &turn.content);
    assert_true(json_set(turn.message, "role", json_new_string("assistant", 9)));
    assert_true(json_set(turn.message, "reasoning_content", reasoning));
    assert_true(json_set(turn.message, "content", content));
    struct json *calls = json_new_array();
    for (size_t i = 0; i < turn.call_count; i++) {
        struct json *arguments = random_arguments(generator);
        assert_int_equal(json_write_spaced(arguments, &turn.arguments[i]), STATUS_OK);
        json_free(&arguments);
        struct json *function = json_new_object();
        assert_true(json_set(function, "name", json_new_string(names[i], strlen(names[i]))));
        assert_true(json_set(function, "arguments",
                             json_new_string(turn.arguments[i].data, turn.arguments[i].length)));
        struct json *call = json_new_object();
        assert_true(json_set(call, "function", function));
        assert_true(json_append(calls, call));
    }
    assert_true(json_set(turn.message, "tool_calls", calls));
    return turn;
}

static void turn_deinit(struct turn *turn) {
    json_free(&turn->message);
    string_buffer_deinit(&turn->reasoning);
    string_buffer_deinit(&turn->content);
    for (size_t i = 0; i < turn->call_count; i++) {
        string_buffer_deinit(&turn->arguments[i]);
    }
}

static void assert_turn(const struct output_recorder *recorder, const struct turn *turn) {
    assert_string_equal(string_buffer_text(&recorder->reasoning), string_buffer_text(&turn->reasoning));
    assert_string_equal(string_buffer_text(&recorder->content), string_buffer_text(&turn->content));
    assert_int_equal(recorder->call_count, turn->call_count);
    for (size_t i = 0; i < turn->call_count; i++) {
        assert_true(recorder->calls[i].is_ended);
        assert_string_equal(string_buffer_text(&recorder->calls[i].arguments),
                            string_buffer_text(&turn->arguments[i]));
    }
    assert_false(recorder->is_order_broken);
    assert_false(recorder->is_character_split);
}

/* The prompt of a conversation that ends with the turn; *start is where the turn's own text begins. */
static struct chat_prompt render_turn(const struct turn *turn, size_t *start) {
    static const char opening[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}";
    struct string_buffer request = {0};
    string_buffer_append_text(&request, opening);
    string_buffer_append_text(&request, "]}");
    struct chat_encode_options options = chat_encode_options_default();
    struct chat_prompt before = render_request(request.data, &options);
    *start = before.text.length;
    chat_prompt_deinit(&before);
    string_buffer_clear(&request);
    string_buffer_append_text(&request, opening);
    string_buffer_append_text(&request, ",");
    assert_int_equal(json_write(turn->message, &request), STATUS_OK);
    string_buffer_append_text(&request, "]}");
    struct chat_prompt prompt = render_request(request.data, &options);
    string_buffer_deinit(&request);
    return prompt;
}

static void test_text_round_trip(void **state) {
    (void)state;
    struct generator generator = {.state = 2026};
    for (int i = 0; i < TURN_COUNT; i++) {
        struct turn turn = random_turn(&generator);
        size_t start;
        struct chat_prompt prompt = render_turn(&turn, &start);
        for (int mode = 0; mode < 2; mode++) {
            struct output_parser_options options = output_parser_options_default();
            options.starts_in_reasoning = true;
            options.is_strict = mode == 1;
            struct output_recorder recorder = {0};
            struct output_result result;
            enum split split = (enum split)pick(&generator, SPLIT_COUNT);
            assert_int_equal(parse_text(&options, prompt.text.data + start, prompt.text.length - start, split,
                                        &recorder, &result),
                             STATUS_OK);
            assert_turn(&recorder, &turn);
            output_recorder_deinit(&recorder);
        }
        chat_prompt_deinit(&prompt);
        turn_deinit(&turn);
    }
}

static void test_token_round_trip(void **state) {
    (void)state;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &tokenizer),
                     STATUS_OK);
    int32_t think_start = tokenizer_added_token_id(tokenizer, "<think>");
    struct generator generator = {.state = 731, .has_controls = true};
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = true;
    output_parser_options_set_ids(&options, tokenizer);
    for (int i = 0; i < TURN_COUNT; i++) {
        struct turn turn = random_turn(&generator);
        size_t start;
        struct chat_prompt prompt = render_turn(&turn, &start);
        struct token_list ids = {0};
        assert_int_equal(chat_prompt_encode(&prompt, tokenizer, CHAT_MATCHING_TEMPLATE_ONLY, &ids),
                         STATUS_OK);
        size_t first = 0;
        while (ids.ids[first++] != think_start) {
        }
        struct output_recorder recorder = {0};
        struct output_result result;
        assert_int_equal(
            parse_tokens(&options, tokenizer, ids.ids + first, ids.count - first, &recorder, &result),
            STATUS_OK);
        assert_turn(&recorder, &turn);
        output_recorder_deinit(&recorder);
        token_list_deinit(&ids);
        chat_prompt_deinit(&prompt);
        turn_deinit(&turn);
    }
    tokenizer_destroy(&tokenizer);
}

/* For turns that spell no control token, matching none in them gives the ids of the official encoder. */
static void test_ordinary_prompts_have_official_ids(void **state) {
    (void)state;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &tokenizer),
                     STATUS_OK);
    struct generator generator = {.state = 813};
    for (int i = 0; i < TURN_COUNT; i++) {
        struct turn turn = random_turn(&generator);
        size_t start;
        struct chat_prompt prompt = render_turn(&turn, &start);
        struct token_list ids = {0};
        struct token_list official_ids = {0};
        assert_int_equal(chat_prompt_encode(&prompt, tokenizer, CHAT_MATCHING_TEMPLATE_ONLY, &ids),
                         STATUS_OK);
        assert_int_equal(chat_prompt_encode(&prompt, tokenizer, CHAT_MATCHING_OFFICIAL, &official_ids),
                         STATUS_OK);
        assert_int_equal(ids.count, official_ids.count);
        assert_memory_equal(ids.ids, official_ids.ids, ids.count * sizeof *ids.ids);
        token_list_deinit(&ids);
        token_list_deinit(&official_ids);
        chat_prompt_deinit(&prompt);
        turn_deinit(&turn);
    }
    tokenizer_destroy(&tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_round_trip),
        cmocka_unit_test(test_token_round_trip),
        cmocka_unit_test(test_ordinary_prompts_have_official_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
