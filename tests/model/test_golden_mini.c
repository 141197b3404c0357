/*
 * The trained model models/mini-v4 against recorded runs of a reference (tests/golden/mini-v4), end to end:
 * text to tokens, logits of main and MTP layer, greedy text.
 *
 * prompts.json holds six prompts with the text that greedy decoding gives; golden.safetensors what an fp32
 * implementation computed over prompt and text.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sluice/request.h"
#include "support/golden_file.h"
#include "support/layer_trace.h"
#include "support/model_fixture.h"
#include "text/tokenizer.h"
#include "tools/trace_logits.h"

enum { PROMPTS = 6, LAYERS = 8, MINI_VOCABULARY = 4096, TOKENS_MAX = 768, END_TOKEN = 1 };
static const double tolerance = 2e-4;
/* Two logits closer than this may change places. */
static const double flip_gap = 1e-3;

struct fixture {
    struct golden_file golden;
    struct json *prompts;
    struct tokenizer *tokenizer;
    struct engine_core *ideal;
    struct engine_core *native;
    struct sluice_engine *whole[NUMERICS_COUNT];
};

static struct engine_core *open_mini(enum sluice_numerics numerics) {
    struct sluice_engine_options options = model_options(SLUICE_SOURCE_DIR "/models/mini-v4");
    options.numerics = numerics;
    options.thread_count = 2;
    options.context_tokens = TOKENS_MAX;
    options.step_token_limit = 128;
    options.draft.limit = numerics == SLUICE_NUMERICS_IDEAL ? 1 : 0;
    options.sequence_limit = numerics == SLUICE_NUMERICS_IDEAL ? 16 : 1; /* rows of a draft pass */
    return model_open(&options);
}

static struct sluice_engine *open_whole(enum sluice_numerics numerics) {
    struct sluice_engine_options options = model_options(SLUICE_SOURCE_DIR "/models/mini-v4");
    struct sluice_engine *engine;
    options.numerics = numerics;
    options.thread_count = 2;
    options.context_tokens = TOKENS_MAX;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    golden_file_open("mini-v4", &fixture->golden);
    EXPECT_OK(
        json_parse_file(SLUICE_SOURCE_DIR "/tests/golden/mini-v4/prompts.json", 1 << 20, &fixture->prompts));
    EXPECT_OK(tokenizer_load(SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", &fixture->tokenizer));
    fixture->ideal = open_mini(SLUICE_NUMERICS_IDEAL);
    fixture->native = open_mini(SLUICE_NUMERICS_NATIVE);
    fixture->whole[NUMERICS_IDEAL] = open_whole(SLUICE_NUMERICS_IDEAL);
    fixture->whole[NUMERICS_NATIVE] = open_whole(SLUICE_NUMERICS_NATIVE);
    assert_int_equal(json_length(fixture->prompts), PROMPTS);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    engine_core_close(&fixture->ideal);
    engine_core_close(&fixture->native);
    sluice_engine_close(&fixture->whole[NUMERICS_IDEAL]);
    sluice_engine_close(&fixture->whole[NUMERICS_NATIVE]);
    tokenizer_destroy(&fixture->tokenizer);
    json_free(&fixture->prompts);
    golden_file_close(&fixture->golden);
    free(fixture);
    return 0;
}

static const char *field_name(char name[64], int prompt, const char *field) {
    snprintf(name, 64, "%d.%s", prompt, field);
    return name;
}

static const float *floats(struct fixture *fixture, int prompt, const char *field, int64_t *count) {
    char name[64];
    return golden_file_floats(&fixture->golden, field_name(name, prompt, field), count);
}

static const int32_t *integers(struct fixture *fixture, int prompt, const char *field, int64_t *count) {
    char name[64];
    return golden_file_integers(&fixture->golden, field_name(name, prompt, field), count);
}

static int largest(const float *logits) {
    int best = 0;
    for (int i = 1; i < MINI_VOCABULARY; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static double log_probability(const float *logits, int32_t token) {
    double top = logits[largest(logits)];
    double sum = 0.0;
    for (int i = 0; i < MINI_VOCABULARY; i++) {
        sum += exp(logits[i] - top);
    }
    return logits[token] - top - log(sum);
}

/* Compares each row with the recorded run as it arrives. */
struct comparison {
    int prompt;
    int64_t length;
    const int32_t *ids;
    const int32_t *positions;
    int64_t position_count;
    const float *logits;
    const int32_t *argmax;
    const float *top2_gap;
    const float *next_logprob;
    const int32_t *mtp_argmax;
    int64_t compared_count;
    int64_t draft_count;
    double worst_logit;
    double worst_logprob;
};

static void compare_main_row(struct comparison *comparison, int64_t position, const float *logits) {
    for (int64_t i = 0; i < comparison->position_count; i++) {
        const float *expected = comparison->logits + i * MINI_VOCABULARY;
        for (int v = 0; comparison->positions[i] == position && v < MINI_VOCABULARY; v++) {
            double error = fabs((double)logits[v] - (double)expected[v]);
            comparison->worst_logit = error <= comparison->worst_logit ? comparison->worst_logit : error;
        }
        comparison->compared_count += comparison->positions[i] == position;
    }
    if (largest(logits) != comparison->argmax[position]) {
        assert_true(comparison->top2_gap[position] < flip_gap);
    }
    if (position + 1 < comparison->length) {
        double error = fabs(log_probability(logits, comparison->ids[position + 1]) -
                            (double)comparison->next_logprob[position]);
        comparison->worst_logprob = error <= comparison->worst_logprob ? comparison->worst_logprob : error;
    }
}

static enum status compare_row(void *context, int64_t position, bool is_draft, const float *logits) {
    struct comparison *comparison = context;
    if (position >= comparison->length) {
        return STATUS_OK;
    }
    if (!is_draft) {
        compare_main_row(comparison, position, logits);
        return STATUS_OK;
    }
    comparison->draft_count++;
    double top = logits[largest(logits)];
    assert_true(top - (double)logits[comparison->mtp_argmax[position]] < flip_gap);
    return STATUS_OK;
}

static void compare_prompt(struct fixture *fixture, int prompt) {
    struct comparison comparison = {.prompt = prompt};
    int32_t tokens[TOKENS_MAX];
    int64_t count;
    comparison.ids = integers(fixture, prompt, "ids", &comparison.length);
    comparison.positions = integers(fixture, prompt, "positions", &comparison.position_count);
    comparison.logits = floats(fixture, prompt, "logits", &count);
    assert_int_equal(count, comparison.position_count * MINI_VOCABULARY);
    comparison.argmax = integers(fixture, prompt, "argmax", NULL);
    comparison.top2_gap = floats(fixture, prompt, "top2_gap", NULL);
    comparison.next_logprob = floats(fixture, prompt, "next_logprob", NULL);
    comparison.mtp_argmax = integers(fixture, prompt, "mtp_argmax", NULL);
    /* The recorded MTP rows pair the last position with the end token. */
    memcpy(tokens, comparison.ids, (size_t)comparison.length * sizeof *tokens);
    tokens[comparison.length] = END_TOKEN;
    struct logits_sink sink = {compare_row, &comparison, true};
    EXPECT_OK(trace_logits(fixture->ideal, tokens, (size_t)comparison.length + 1, &sink, NULL));
    assert_int_equal(comparison.compared_count, comparison.position_count);
    assert_int_equal(comparison.draft_count, comparison.length);
    if (!(comparison.worst_logit <= tolerance && comparison.worst_logprob <= tolerance)) {
        fail_msg("prompt %d: a logit is off by %g, a log-probability by %g", prompt, comparison.worst_logit,
                 comparison.worst_logprob);
    }
}

static void test_logits(void **state) {
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        compare_prompt(*state, prompt);
    }
}

struct stream_sums {
    const float *expected; /* (LAYERS, tokens) */
    int64_t length;
    int layer_count;
    double worst; /* relative */
};

static void compare_streams(void *context, int layer, const float *streams, int64_t rows, int64_t width) {
    struct stream_sums *sums = context;
    sums->layer_count++;
    for (int64_t row = 0; row < rows; row++) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; i++) {
            sum += fabs((double)streams[row * width + i]);
        }
        double expected = sums->expected[layer * sums->length + row];
        double error = fabs(sum - expected) / expected;
        sums->worst = error <= sums->worst ? sums->worst : error;
    }
}

/* The longest prompt with a whole number of everything: past three windows and five blocks of 128. */
static void test_stream_sums(void **state) {
    struct fixture *fixture = *state;
    struct stream_sums sums = {0};
    struct layer_trace trace = {compare_streams, &sums};
    int prompt = 5;
    int64_t count;
    const int32_t *ids = integers(fixture, prompt, "ids", &sums.length);
    sums.expected = floats(fixture, prompt, "stream_abs_sum", &count);
    assert_int_equal(count, LAYERS * sums.length);
    layer_trace_run(fixture->ideal, ids, (int32_t)sums.length, &trace);
    assert_int_equal(sums.layer_count, LAYERS);
    if (!(sums.worst <= 2e-5)) {
        fail_msg("a sum over streams is off by a factor of %g", sums.worst);
    }
}

static const char *prompt_text(const struct fixture *fixture, int prompt, const char *field, size_t *length) {
    const char *text = json_text(json_get(json_at(fixture->prompts, (size_t)prompt), field), length);
    assert_non_null(text);
    return text;
}

/* Greedy text of a prompt through the public interface; `generated` gets the tokens too. */
static void generate(const struct fixture *fixture, enum numerics numerics, int prompt,
                     struct token_list *generated, struct string_buffer *text) {
    struct token_list tokens = {0};
    struct tokenizer_encode_options encode = {.match_added_tokens = true};
    static const int32_t end_token = END_TOKEN;
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request;
    size_t length;
    const char *bytes = prompt_text(fixture, prompt, "prompt", &length);
    EXPECT_OK(tokenizer_encode(fixture->tokenizer, bytes, length, &encode, &tokens));
    options.prompt = tokens.ids;
    options.prompt_count = tokens.count;
    options.sampling.temperature = 0.0;
    options.token_limit = 150;
    options.stop_tokens = &end_token;
    options.stop_token_count = 1;
    EXPECT_OK(sluice_engine_submit(fixture->whole[numerics], &options, &request));
    size_t count = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0).token_count;
    for (size_t i = 0; i < count; i++) {
        EXPECT_OK(token_list_append(generated, sluice_request_token(request, i)));
    }
    sluice_request_release(&request);
    EXPECT_OK(tokenizer_decode(fixture->tokenizer, generated->ids, generated->count, false, text));
    token_list_deinit(&tokens);
}

/* The recorded tokens are the prompt's and the generated ones, with or without the end token. */
static void expect_recorded_tokens(struct fixture *fixture, int prompt, const struct token_list *generated) {
    int64_t length;
    const int32_t *ids = integers(fixture, prompt, "ids", &length);
    int64_t prompt_length = integers(fixture, prompt, "prompt_len", NULL)[0];
    assert_in_range(length - prompt_length, 1, generated->count);
    assert_memory_equal(ids + prompt_length, generated->ids, (size_t)(length - prompt_length) * sizeof *ids);
}

static void test_greedy_text(void **state) {
    struct fixture *fixture = *state;
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        struct token_list generated = {0};
        struct string_buffer text = {0};
        generate(fixture, NUMERICS_IDEAL, prompt, &generated, &text);
        assert_string_equal(string_buffer_text(&text), prompt_text(fixture, prompt, "greedy_text", NULL));
        expect_recorded_tokens(fixture, prompt, &generated);
        token_list_deinit(&generated);
        string_buffer_deinit(&text);
    }
}

/* A sum and a capital: rounding must not cost the answers that the model knows. */
static void test_native_answers(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        int prompt;
        const char *answer;
    } lines[] = {{2, "\n#### 58<"}, {5, "The capital of Peru is Lima."}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct token_list generated = {0};
        struct string_buffer text = {0};
        generate(fixture, NUMERICS_NATIVE, lines[i].prompt, &generated, &text);
        if (strstr(string_buffer_text(&text), lines[i].answer) == NULL) {
            fail_msg("prompt %d was answered \"%s\"", lines[i].prompt, string_buffer_text(&text));
        }
        token_list_deinit(&generated);
        string_buffer_deinit(&text);
    }
}

struct perplexity {
    const int32_t *ids;
    int64_t length;
    double log_sum;
};

static enum status add_row(void *context, int64_t position, bool is_draft, const float *logits) {
    struct perplexity *perplexity = context;
    assert_false(is_draft);
    if (position + 1 < perplexity->length) {
        perplexity->log_sum += log_probability(logits, perplexity->ids[position + 1]);
    }
    return STATUS_OK;
}

/* Native perplexity over all recorded sequences is within 2% of the recorded one. */
static void test_native_perplexity(void **state) {
    struct fixture *fixture = *state;
    struct perplexity native = {0};
    struct logits_sink sink = {add_row, &native, false};
    double ideal_sum = 0.0;
    int64_t total = 0;
    for (int prompt = 0; prompt < PROMPTS; prompt++) {
        const float *recorded = floats(fixture, prompt, "next_logprob", NULL);
        native.ids = integers(fixture, prompt, "ids", &native.length);
        EXPECT_OK(trace_logits(fixture->native, native.ids, (size_t)native.length, &sink, NULL));
        for (int64_t i = 0; i + 1 < native.length; i++) {
            ideal_sum += recorded[i];
        }
        total += native.length - 1;
    }
    double ratio = exp((ideal_sum - native.log_sum) / (double)total);
    if (!(fabs(ratio - 1.0) <= 0.02)) {
        fail_msg("native perplexity is %.4f times the ideal one", ratio);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_stream_sums),
        cmocka_unit_test(test_greedy_text),
        cmocka_unit_test(test_native_answers),
        cmocka_unit_test(test_native_perplexity),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
