/*
 * Opening checkpoints that are not as they should be: refused with the sentence that helps, or loaded where
 * the difference does not matter; and what a value that is not finite does to a session.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "tools/trace_logits.h"
#include "weights/fixture.h"

enum { TOKENS = 40 };

static enum status open_directory(const char *directory, int draft_limit, struct engine_core **out) {
    struct sluice_engine_options options = model_options(directory);
    options.draft.limit = draft_limit;
    return engine_core_open(&options, out);
}

static void expect_opens(const char *directory, int draft_limit) {
    struct engine_core *engine;
    EXPECT_OK(open_directory(directory, draft_limit, &engine));
    engine_core_close(&engine);
}

static void expect_refused(const char *directory, int draft_limit, enum status expected,
                           const char *fragment) {
    struct engine_core *engine;
    fixture_expect_error(open_directory(directory, draft_limit, &engine), expected, fragment);
    assert_null(engine);
}

/* B29: the matrix and the scale that was looked for are named. */
static void test_missing_scales(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const char *const stems[] = {"layers.1.attn.wq_a", "layers.2.ffn.experts.3.w2", "mtp.0.attn.wkv"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        char directory[FIXTURE_PATH_BYTES];
        char scale[64];
        char sentence[160];
        struct checkpoint_edit edit = {.left_out = scale};
        snprintf(scale, sizeof scale, "%s.scale", stems[i]);
        snprintf(sentence, sizeof sentence, "%s.weight has no scales: looked for %s", stems[i], scale);
        fixture_make(directory);
        checkpoint_copy_edited(fixture->directory, directory, &edit);
        expect_refused(directory, 1, STATUS_BAD_CHECKPOINT, sentence);
        expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, sentence);
        fixture_remove(directory);
    }
}

/* Without its draft layer a model generates, but cannot draft. */
static void test_missing_draft_layer(void **state) {
    const struct tiny_fixture *fixture = *state;
    char directory[FIXTURE_PATH_BYTES];
    const struct checkpoint_edit edit = {.left_out = "mtp.*"};
    fixture_make(directory);
    checkpoint_copy_edited(fixture->directory, directory, &edit);
    expect_opens(directory, 0);
    expect_refused(directory, 1, STATUS_BAD_CHECKPOINT, "mtp.0.");
    fixture_remove(directory);
}

/* Any other tensor that is missing or unknown is named. */
static void test_missing_and_unknown_tensors(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const char *const unknown[] = {"layers.6.attn_norm.weight", "mtp.0.banana", NULL};
    char directory[FIXTURE_PATH_BYTES];
    const struct checkpoint_edit edit = {.left_out = "layers.4.attn.compressor.ape", .extras = unknown};
    fixture_make(directory);
    checkpoint_copy_edited(fixture->directory, directory, &edit);
    expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "layers.4.attn.compressor.ape is missing");
    expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "layers.6.attn_norm.weight");
    expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "mtp.0.banana");
    expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "3 problems");
    fixture_remove(directory);
}

/* B33: copies of the shared embedding and head under the draft layer's name, as some exports hold (spec 3.2).
 */
static void test_tolerated_copies(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const char *const extras[] = {"mtp.0.emb.tok_emb.weight", "mtp.0.embed.weight",
                                         "mtp.0.head.weight", NULL};
    char directory[FIXTURE_PATH_BYTES];
    const struct checkpoint_edit edit = {.extras = extras};
    fixture_make(directory);
    checkpoint_copy_edited(fixture->directory, directory, &edit);
    expect_opens(directory, 0);
    expect_opens(directory, 1);
    fixture_remove(directory);
}

/* B12: expert ids are integers of 64 bits in the file; one that is no expert is named with its row. */
static void test_expert_table_out_of_range(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const int64_t ids[] = {8, -1, INT64_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        char directory[FIXTURE_PATH_BYTES];
        const struct checkpoint_patch patch = {"layers.1.ffn.gate.tid2eid", (2 * 77 + 1) * sizeof ids[i],
                                               &ids[i], sizeof ids[i]};
        const struct checkpoint_edit edit = {.patches = &patch, .patch_count = 1};
        fixture_make(directory);
        checkpoint_copy_edited(fixture->directory, directory, &edit);
        expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "layers.1.ffn.gate.tid2eid");
        expect_refused(directory, 0, STATUS_BAD_CHECKPOINT, "row 77, column 1");
        fixture_remove(directory);
    }
}

static void run_tokens(const char *directory, enum sluice_numerics numerics, float *logits) {
    struct sluice_engine_options options = model_options(directory);
    int32_t tokens[TOKENS];
    options.numerics = numerics;
    struct engine_core *engine = model_open(&options);
    model_spec_tokens(tokens, TOKENS);
    model_run(engine, 0, 0, tokens, TOKENS, logits);
    engine_core_close(&engine);
}

/*
 * B27: the same scales as exponent bytes and as floats: the same bits. Among them the smallest two exponents,
 * 1, and the largest one over codes that are all zero.
 */
static void test_scale_types(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const unsigned char extremes[] = {0, 1, 127};
    static const unsigned char largest = 254;
    static const unsigned char zeros[16] = {0};
    const struct checkpoint_patch patches[] = {
        {"layers.0.attn.wq_b.scale", 0, extremes, sizeof extremes},
        {"layers.1.ffn.experts.0.w1.scale", 0, extremes, sizeof extremes},
        {"layers.1.ffn.experts.5.w2.scale", 0, &largest, 1},
        {"layers.1.ffn.experts.5.w2.weight", 0, zeros, sizeof zeros},
    };
    struct checkpoint_edit edit = {.patches = patches, .patch_count = sizeof patches / sizeof patches[0]};
    char bytes[FIXTURE_PATH_BYTES];
    char floats[FIXTURE_PATH_BYTES];
    static float expected[TOKENS][TINY_VOCABULARY];
    static float actual[TOKENS][TINY_VOCABULARY];
    fixture_make(bytes);
    fixture_make(floats);
    checkpoint_copy_edited(fixture->directory, bytes, &edit);
    edit.widens_scales = true;
    checkpoint_copy_edited(fixture->directory, floats, &edit);
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        run_tokens(bytes, (enum sluice_numerics)numerics, expected[0]);
        run_tokens(floats, (enum sluice_numerics)numerics, actual[0]);
        model_expect_same_logits(actual[0], expected[0], TOKENS, TINY_VOCABULARY, "float scales");
        run_tokens(fixture->directory, (enum sluice_numerics)numerics, actual[0]);
        assert_memory_not_equal(actual, expected, sizeof actual);
    }
    fixture_remove(bytes);
    fixture_remove(floats);
}

/* B35: a shard that is gone, empty, or no file: named, never zeros in its place. */
static void test_damaged_shards(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const char second[] = "model-00002-of-00003.safetensors";
    char directory[FIXTURE_PATH_BYTES];
    char path[2 * FIXTURE_PATH_BYTES];
    const struct checkpoint_edit edit = {.shard_bytes = 4 << 20};
    fixture_make(directory);
    checkpoint_copy_edited(fixture->directory, directory, &edit);
    snprintf(path, sizeof path, "%s/%s", directory, second);
    expect_opens(directory, 1);
    assert_int_equal(unlink(path), 0);
    expect_refused(directory, 0, STATUS_NOT_FOUND, second);
    fixture_write(directory, second, NULL, 0);
    expect_refused(directory, 0, STATUS_BAD_FORMAT, second);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_refused(directory, 0, STATUS_IO, second);
    fixture_remove(directory);
}

static void test_missing_files(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    fixture_make(directory);
    expect_refused("/nowhere/at/all", 0, STATUS_NOT_FOUND, "/nowhere/at/all");
    expect_refused(directory, 0, STATUS_NOT_FOUND, "config.json");
    model_replace_config(directory, TINY_CONFIG, NULL, 0);
    expect_refused(directory, 0, STATUS_NOT_FOUND, directory);
    fixture_write(directory, "config.json", "{", 1);
    expect_refused(directory, 0, STATUS_BAD_FORMAT, "config.json");
    fixture_remove(directory);
}

/* A configuration that the weights do not fit is refused by shape, whatever else would have happened. */
static void test_foreign_config(void **state) {
    const struct tiny_fixture *fixture = *state;
    const struct config_change change = {"q_lora_rank", "256"};
    model_replace_config(fixture->directory, TINY_CONFIG, &change, 1);
    expect_refused(fixture->directory, 0, STATUS_BAD_CHECKPOINT, "layers.0.attn.wq_a.weight has the shape");
    model_replace_config(fixture->directory, TINY_CONFIG, NULL, 0);
}

static void test_options_refused(void **state) {
    const struct tiny_fixture *fixture = *state;
    struct engine_core *engine;
    struct sluice_engine_options options = model_options(fixture->directory);
    options.context_tokens = (1 << 20) + 1;
    fixture_expect_error(engine_core_open(&options, &engine), STATUS_OUT_OF_RANGE, "max_position_embeddings");
    options = model_options(fixture->directory);
    options.device = "abacus";
    fixture_expect_error(engine_core_open(&options, &engine), STATUS_NOT_FOUND, "abacus");
    options = model_options(fixture->directory);
    options.step_token_limit = 0;
    fixture_expect_error(engine_core_open(&options, &engine), STATUS_OUT_OF_RANGE, "step_token_limit is 0");
    options = model_options(NULL);
    fixture_expect_error(engine_core_open(&options, &engine), STATUS_BAD_ARGUMENT, "model directory");
}

static enum status ignore_row(void *context, int64_t position, bool is_draft, const float *logits) {
    (void)context;
    (void)position;
    (void)is_draft;
    (void)logits;
    return STATUS_OK;
}

static enum status append_tokens(struct engine_core *engine, const int32_t *tokens, size_t count) {
    return trace_logits(engine, tokens, count, &(struct logits_sink){.take = ignore_row}, NULL);
}

/* The place where a value first went wrong is named, in either mode. */
static void test_values_not_finite(void **state) {
    const struct tiny_fixture *fixture = *state;
    static const unsigned char nan_bf16[2] = {0xC0, 0x7F};
    static const unsigned char nan_scale = 0xFF;
    static const unsigned char nan_code = 0x7F;
    static const struct {
        struct checkpoint_patch patch;
        const char *fragment;
    } lines[] = {
        {{"embed.weight", 2 * (3 * 256 + 200), nan_bf16, 2}, "the embedding of the token at position 4"},
        {{"layers.3.attn_norm.weight", 2 * 17, nan_bf16, 2}, "layer 3 gave a value that is not finite"},
        {{"layers.5.attn.wkv.scale", 0, &nan_scale, 1}, "layer 5 gave a value that is not finite"},
        {{"layers.0.ffn.shared_experts.w2.weight", 1000, &nan_code, 1}, "layer 0 gave"},
        {{"norm.weight", 0, nan_bf16, 2}, "the output head"},
    };
    static const int32_t tokens[] = {10, 11, 12, 13, 3, 14, 15};
    static const int32_t other_tokens[] = {20, 21, 22};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char directory[FIXTURE_PATH_BYTES];
        const struct checkpoint_edit edit = {.patches = &lines[i].patch, .patch_count = 1};
        fixture_make(directory);
        checkpoint_copy_edited(fixture->directory, directory, &edit);
        for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
            struct sluice_engine_options options = model_options(directory);
            options.numerics = (enum sluice_numerics)numerics;
            struct engine_core *engine = model_open(&options);
            fixture_expect_error(append_tokens(engine, tokens, 7), STATUS_NOT_FINITE, lines[i].fragment);
            /* Only what the bad value touches is lost: token 3 is in the first sequence alone. */
            if (i == 0) {
                EXPECT_OK(append_tokens(engine, other_tokens, 3));
            }
            engine_core_close(&engine);
        }
        fixture_remove(directory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_scales),
        cmocka_unit_test(test_missing_draft_layer),
        cmocka_unit_test(test_missing_and_unknown_tensors),
        cmocka_unit_test(test_tolerated_copies),
        cmocka_unit_test(test_expert_table_out_of_range),
        cmocka_unit_test(test_scale_types),
        cmocka_unit_test(test_damaged_shards),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_foreign_config),
        cmocka_unit_test(test_options_refused),
        cmocka_unit_test(test_values_not_finite),
    };
    return cmocka_run_group_tests(tests, tiny_fixture_set_up, tiny_fixture_tear_down);
}
