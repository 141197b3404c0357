/*
 * config.json of the family: every field that decides something is taken or refused by name, none is guessed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/deepseek_v4/deepseek_v4.h"
#include "model/model_registry.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

/* Finds the family of a configuration and creates the model, as the engine does. */
static enum status create(const struct json *config, int draft_limit, struct arena *arena,
                          struct model **out) {
    const struct model_family *family;
    const struct model_request request = {.draft_limit = draft_limit};
    TRY(model_family_find(config, &family));
    return family->create(arena, config, &request, out);
}

/* Creates the tiny model with changes; the status says whether it was accepted. */
static enum status create_changed(const struct config_change *changes, size_t count, int draft_limit) {
    struct model *model;
    struct arena arena;
    struct json *config = model_config_read(TINY_CONFIG, changes, count);
    arena_init(&arena, 1 << 16);
    enum status status = create(config, draft_limit, &arena, &model);
    arena_deinit(&arena);
    json_free(&config);
    return status;
}

static void expect_refused(const char *key, const char *value, enum status expected, const char *fragment) {
    const struct config_change change = {key, value};
    fixture_expect_error(create_changed(&change, 1, 0), expected, fragment);
    if (strstr(error_last()->message, "config.json") == NULL) {
        fail_msg("'%s' does not say which file", error_last()->message);
    }
}

static void expect_accepted(const char *key, const char *value) {
    const struct config_change change = {key, value};
    EXPECT_OK(create_changed(&change, 1, 0));
}

/* A number that must be there, with values just outside its range. */
static const struct {
    const char *key;
    const char *below;
    const char *above;
} numbers[] = {
    {"vocab_size", "0", "16777217"},
    {"hidden_size", "0", "9223372036854775807"},
    {"num_hidden_layers", "0", "4097"},
    {"num_attention_heads", "0", "4097"},
    {"head_dim", "0", "8193"},
    {"qk_rope_head_dim", "0", "100000"},
    {"q_lora_rank", "0", "1000000"},
    {"o_groups", "0", "4097"},
    {"o_lora_rank", "-128", "1000000"},
    {"sliding_window", "0", "1048577"},
    {"index_n_heads", "0", "4097"},
    {"index_head_dim", "0", "8192"},
    {"index_topk", "0", "1048577"},
    {"hc_mult", "0", "17"},
    {"hc_sinkhorn_iters", "0", "1001"},
    {"n_routed_experts", "0", "65537"},
    {"num_experts_per_tok", "0", "257"},
    {"moe_intermediate_size", "0", "131073"},
    {"num_hash_layers", "-1", "4097"},
    {"max_position_embeddings", "0", "1073741825"},
    {"hc_eps", "-1e-6", "1e13"},
    {"rms_norm_eps", "-1e-6", "1e13"},
    {"routed_scaling_factor", "0", "1e13"},
    {"swiglu_limit", "0.0", "1e13"},
    {"rope_theta", "0.5", "1e13"},
    {"compress_rope_theta", "-10000", "1e13"},
};

static void test_required_numbers(void **state) {
    (void)state;
    static const char *const wrong_types[] = {"\"256\"", "null", "true", "[256]", "{}"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *key = numbers[i].key;
        expect_refused(key, NULL, STATUS_BAD_CONFIG, key);
        assert_non_null(strstr(error_last()->message, "lacks"));
        for (size_t k = 0; k < sizeof wrong_types / sizeof wrong_types[0]; k++) {
            expect_refused(key, wrong_types[k], STATUS_BAD_CONFIG, key);
            assert_non_null(strstr(error_last()->message, " is not a"));
        }
        expect_refused(key, numbers[i].below, STATUS_BAD_CONFIG, key);
        assert_non_null(strstr(error_last()->message, "expected"));
        expect_refused(key, numbers[i].above, STATUS_BAD_CONFIG, key);
        assert_non_null(strstr(error_last()->message, "expected"));
    }
}

/* A count is an integer, also where a real number would round to one. */
static void test_counts_are_integers(void **state) {
    (void)state;
    expect_refused("hidden_size", "256.0", STATUS_BAD_CONFIG, "hidden_size is not an integer");
    expect_refused("num_hidden_layers", "6.5", STATUS_BAD_CONFIG, "num_hidden_layers is not an integer");
    expect_accepted("rope_theta", "10000.0");
    expect_accepted("swiglu_limit", "10");
}

/* One field at a time is changed to something that no part of the engine could honour. */
static void test_refused_variants(void **state) {
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        enum status status;
        const char *fragment;
    } lines[] = {
        {"scoring_func", "\"other\"", STATUS_UNSUPPORTED, "scoring_func \"other\""},
        {"scoring_func", "\"sigmoid\"", STATUS_UNSUPPORTED, "scoring_func \"sigmoid\""},
        {"scoring_func", "1", STATUS_BAD_CONFIG, "scoring_func is not a string"},
        {"topk_method", "\"greedy\"", STATUS_UNSUPPORTED, "topk_method \"greedy\""},
        {"hidden_act", "\"gelu\"", STATUS_UNSUPPORTED, "hidden_act \"gelu\""},
        {"norm_topk_prob", "false", STATUS_UNSUPPORTED, "norm_topk_prob false"},
        {"norm_topk_prob", "1", STATUS_BAD_CONFIG, "norm_topk_prob is not true or false"},
        {"tie_word_embeddings", "true", STATUS_UNSUPPORTED, "tie_word_embeddings true"},
        {"attention_bias", "true", STATUS_UNSUPPORTED, "attention_bias true"},
        {"num_key_value_heads", "4", STATUS_UNSUPPORTED, "num_key_value_heads 4"},
        {"n_shared_experts", "2", STATUS_UNSUPPORTED, "n_shared_experts 2"},
        {"quantization_config", NULL, STATUS_UNSUPPORTED, "no quantization_config"},
        {"quantization_config", "{\"quant_method\": \"awq\"}", STATUS_UNSUPPORTED, "quant_method \"awq\""},
        {"quantization_config", "{\"fmt\": \"e5m2\"}", STATUS_UNSUPPORTED, "fmt \"e5m2\""},
        {"quantization_config", "{\"activation_scheme\": \"static\"}", STATUS_UNSUPPORTED,
         "activation_scheme \"static\""},
        {"quantization_config", "{\"weight_block_size\": [32, 32]}", STATUS_UNSUPPORTED, "weight_block_size"},
        {"expert_dtype", "\"int4\"", STATUS_UNSUPPORTED, "expert_dtype"},
        {"expert_dtype", "4", STATUS_UNSUPPORTED, "expert_dtype"},
        {"num_nextn_predict_layers", "2", STATUS_UNSUPPORTED, "num_nextn_predict_layers 2"},
        {"num_nextn_predict_layers", "-1", STATUS_BAD_CONFIG, "num_nextn_predict_layers is -1"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect_refused(lines[i].key, lines[i].value, lines[i].status, lines[i].fragment);
    }
}

/* What a published configuration may leave out, and what is taken then. */
static void test_optional_fields(void **state) {
    (void)state;
    static const char *const keys[] = {"scoring_func",        "topk_method",
                                       "hidden_act",          "norm_topk_prob",
                                       "attention_bias",      "tie_word_embeddings",
                                       "num_key_value_heads", "n_shared_experts",
                                       "expert_dtype",        "num_nextn_predict_layers"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        expect_accepted(keys[i], NULL);
    }
    expect_accepted("expert_dtype", "\"fp8\"");
    expect_accepted("some_new_field", "{\"a\": 1}");
}

static void test_relations(void **state) {
    (void)state;
    static const struct {
        const char *key;
        const char *value;
        const char *fragment;
    } lines[] = {
        {"qk_rope_head_dim", "63", "qk_rope_head_dim 63 must be even"},
        {"head_dim", "64", "below head_dim 64"},
        {"o_groups", "3", "num_attention_heads 4 is no multiple of o_groups 3"},
        {"index_head_dim", "96", "index_head_dim 96"},
        {"index_head_dim", "32", "index_head_dim 32"},
        {"num_experts_per_tok", "9", "num_experts_per_tok 9 exceeds n_routed_experts 8"},
        {"hidden_size", "272", "hidden_size"},
        {"moe_intermediate_size", "136", "moe_intermediate_size"},
        {"num_hash_layers", "7", "num_hash_layers 7 exceeds num_hidden_layers 6"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect_refused(lines[i].key, lines[i].value, STATUS_BAD_CONFIG, lines[i].fragment);
    }
}

static void test_compress_ratios(void **state) {
    (void)state;
    const char *key = "compress_ratios";
    expect_refused(key, NULL, STATUS_BAD_CONFIG, key);
    expect_refused(key, "4", STATUS_BAD_CONFIG, key);
    expect_refused(key, "[0, 4, 128, 4, 16]", STATUS_BAD_CONFIG,
                   "compress_ratios has 5 entries for 6 layers");
    expect_refused(key, "[0, 4, 128, 4, 16, 1, 0]", STATUS_BAD_CONFIG, "compress_ratios[5]");
    expect_refused(key, "[0, -4, 128, 4, 16, 4, 0]", STATUS_BAD_CONFIG, "compress_ratios[1]");
    expect_refused(key, "[0, 4, \"128\", 4, 16, 4, 0]", STATUS_BAD_CONFIG, "compress_ratios[2]");
    expect_refused(key, "[0, 4, 128, 4.5, 16, 4, 0]", STATUS_BAD_CONFIG, "compress_ratios[3]");
    expect_refused(key, "[0, 4, 128, 4, 16, 4, 4]", STATUS_UNSUPPORTED, "compress_ratios[6] is 4");
    expect_refused(key, "[0, 4, 128, 4, 16, 4, 0, 128]", STATUS_UNSUPPORTED, "compress_ratios[7] is 128");
    expect_accepted(key, "[0, 4, 128, 4, 16, 4, 0, 0, 0]");
    expect_accepted(key, "[0, 0, 0, 0, 0, 0, 0]");
}

/* The scaling that a rope_scaling value leads to. */
static struct rope_scaling scaling_of(const char *value) {
    const struct config_change change = {"rope_scaling", value};
    struct deepseek_v4_config parsed;
    struct arena arena;
    struct json *config = model_config_read(TINY_CONFIG, &change, 1);
    arena_init(&arena, 1 << 12);
    EXPECT_OK(deepseek_v4_config_parse(&arena, config, &parsed));
    arena_deinit(&arena);
    json_free(&config);
    return parsed.rope_scaling;
}

static void test_rope_scaling(void **state) {
    (void)state;
    const char *key = "rope_scaling";
    const char *other_name = "{\"rope_type\": \"yarn\", \"factor\": 4, \"original_max_position_embeddings\": "
                             "2048, \"beta_fast\": 16, \"beta_slow\": 2.5}";
    assert_true(scaling_of(NULL).factor == 1.0);
    assert_true(scaling_of("null").factor == 1.0);
    struct rope_scaling scaling = scaling_of(other_name);
    assert_true(scaling.factor == 4.0 && scaling.original_positions == 2048.0);
    assert_true(scaling.beta_fast == 16.0 && scaling.beta_slow == 2.5);
    expect_refused(key, "\"yarn\"", STATUS_BAD_CONFIG, "rope_scaling is not an object");
    expect_refused(key, "{\"type\": \"linear\", \"factor\": 2}", STATUS_UNSUPPORTED, "\"linear\"");
    expect_refused(key, "{\"rope_type\": \"llama3\"}", STATUS_UNSUPPORTED, "\"llama3\"");
    expect_refused(key, "{\"type\": \"yarn\"}", STATUS_BAD_CONFIG, "rope_scaling lacks factor");
    expect_refused(key, "{\"type\": \"yarn\", \"factor\": 0.5}", STATUS_BAD_CONFIG, "factor is 0.5");
    expect_refused(key, "{\"type\": \"yarn\", \"factor\": \"16\"}", STATUS_BAD_CONFIG,
                   "factor is not a number");
    expect_refused(key, "{\"type\": \"yarn\", \"factor\": 16}", STATUS_BAD_CONFIG,
                   "rope_scaling lacks original_max_position_embeddings");
    expect_refused(key, "{\"factor\": 16, \"original_max_position_embeddings\": 4096, \"beta_fast\": 32}",
                   STATUS_BAD_CONFIG, "rope_scaling lacks beta_slow");
}

static void test_drafting(void **state) {
    (void)state;
    const struct config_change no_layer = {"num_nextn_predict_layers", "0"};
    const struct config_change not_said = {"num_nextn_predict_layers", NULL};
    const struct config_change dspark[] = {
        {"dspark_block_size", "5"}, {"dspark_target_layer_ids", "[3, 4, 5]"}, {"dspark_markov_rank", "32"}};
    EXPECT_OK(create_changed(NULL, 0, 3));
    EXPECT_OK(create_changed(&no_layer, 1, 0));
    fixture_expect_error(create_changed(&no_layer, 1, 3), STATUS_UNSUPPORTED,
                         "num_nextn_predict_layers is 0");
    fixture_expect_error(create_changed(&not_said, 1, 1), STATUS_UNSUPPORTED, "no MTP layer");
    EXPECT_OK(create_changed(dspark, 3, 0));
    fixture_expect_error(create_changed(dspark, 3, 1), STATUS_UNSUPPORTED, "DSpark");
    fixture_expect_error(create_changed(dspark, 1, 0), STATUS_BAD_CONFIG, "dspark_target_layer_ids");
    fixture_expect_error(create_changed(dspark, 2, 0), STATUS_BAD_CONFIG, "dspark_markov_rank");
}

static void expect_text_refused(const char *text, enum status expected, const char *fragment) {
    struct json *config;
    struct model *model;
    struct arena arena;
    EXPECT_OK(json_parse(text, strlen(text), "config.json", &config));
    arena_init(&arena, 1 << 12);
    fixture_expect_error(create(config, 0, &arena, &model), expected, fragment);
    arena_deinit(&arena);
    json_free(&config);
}

/* Other models, and files that only look like the right one. */
static void test_other_files(void **state) {
    (void)state;
    expect_text_refused("{\"model_type\": \"deepseek_v41\", \"text_config\": {}}", STATUS_UNSUPPORTED,
                        "\"deepseek_v41\"");
    expect_text_refused("{\"model_type\": \"llama\"}", STATUS_UNSUPPORTED, "\"llama\"");
    expect_text_refused("{\"model_type\": \"llama\"}", STATUS_UNSUPPORTED, "deepseek_v4");
    expect_text_refused("{\"dim\": 4096, \"n_layers\": 43}", STATUS_BAD_CONFIG, "inference/config.json");
    expect_text_refused("{}", STATUS_BAD_CONFIG, "model_type");
    expect_text_refused("[]", STATUS_BAD_CONFIG, "model_type");
    expect_text_refused("{\"model_type\": 4}", STATUS_BAD_CONFIG, "model_type");
    expect_text_refused("{\"model_type\": \"deepseek_v4\"}", STATUS_BAD_CONFIG, "vocab_size");
}

/* The values of the small and the real configurations arrive where they belong. */
static void test_values(void **state) {
    (void)state;
    struct deepseek_v4_config flash;
    struct deepseek_v4_config dspark;
    struct arena arena;
    struct json *flash_json = model_config_read("tests/golden/configs/flash.json", NULL, 0);
    struct json *dspark_json = model_config_read("tests/golden/configs/flash-0731.json", NULL, 0);
    arena_init(&arena, 1 << 12);
    EXPECT_OK(deepseek_v4_config_parse(&arena, flash_json, &flash));
    EXPECT_OK(deepseek_v4_config_parse(&arena, dspark_json, &dspark));
    assert_int_equal(flash.layer_count, 43);
    assert_int_equal(flash.index_limit, 512);
    assert_int_equal(flash.expert_picks, 6);
    assert_int_equal(flash.ratios[1], 0);
    assert_int_equal(flash.ratios[2], 4);
    assert_int_equal(flash.ratios[41], 128);
    assert_int_equal(flash.ratios[42], 4);
    assert_true(flash.compress_rope_theta == 160000.0 && flash.rope_theta == 10000.0);
    assert_true(flash.rope_scaling.factor == 16.0);
    assert_false(flash.has_fp8_experts);
    assert_int_equal(flash.drafter, DRAFTER_MTP);
    assert_int_equal(dspark.drafter, DRAFTER_DSPARK);
    assert_int_equal(dspark.dspark_target_count, 3);
    assert_int_equal(dspark.dspark_markov_rank, 256);
    arena_deinit(&arena);
    json_free(&flash_json);
    json_free(&dspark_json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_required_numbers), cmocka_unit_test(test_counts_are_integers),
        cmocka_unit_test(test_refused_variants), cmocka_unit_test(test_optional_fields),
        cmocka_unit_test(test_relations),        cmocka_unit_test(test_compress_ratios),
        cmocka_unit_test(test_rope_scaling),     cmocka_unit_test(test_drafting),
        cmocka_unit_test(test_other_files),      cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
