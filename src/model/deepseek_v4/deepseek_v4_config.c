/*
 * config.json to a checked struct (spec deepseek-v4 1.1, 1.2, 1.4).
 *
 * Whatever the family's configuration can say is either taken or refused by name; nothing has a compiled-in
 * size or a silent default that changes the result.
 */
#include <math.h>
#include <string.h>

#include "model/deepseek_v4/deepseek_v4.h"

/* An integer field and its bounds. */
struct integer_field {
    const char *key;
    size_t offset;
    int64_t minimum;
    int64_t maximum;
};

#define INTEGER(key, field, minimum, maximum) \
    { key, offsetof(struct deepseek_v4_config, field), minimum, maximum }

/* Bounds keep every product of two sizes far inside 63 bits. */
static const struct integer_field integer_fields[] = {
    INTEGER("vocab_size", vocabulary_size, 1, 1 << 24),
    INTEGER("hidden_size", hidden_size, 32, 1 << 17),
    INTEGER("num_hidden_layers", layer_count, 1, 4096),
    INTEGER("num_attention_heads", head_count, 1, 4096),
    INTEGER("head_dim", head_dim, 2, 8192),
    INTEGER("qk_rope_head_dim", rotary_dim, 2, 2 * ROPE_PAIRS_MAX),
    INTEGER("q_lora_rank", q_rank, 1, 1 << 17),
    INTEGER("o_groups", output_groups, 1, 4096),
    INTEGER("o_lora_rank", output_rank, 1, 1 << 16),
    INTEGER("sliding_window", window, 1, 1 << 20),
    INTEGER("index_n_heads", index_head_count, 1, 4096),
    INTEGER("index_head_dim", index_head_dim, 32, 4096),
    INTEGER("index_topk", index_limit, 1, 1 << 20),
    INTEGER("hc_mult", stream_count, 1, 16),
    INTEGER("hc_sinkhorn_iters", sinkhorn_iterations, 1, 1000),
    INTEGER("n_routed_experts", expert_count, 1, 1 << 16),
    INTEGER("num_experts_per_tok", expert_picks, 1, 256),
    INTEGER("moe_intermediate_size", inner_size, 32, 1 << 17),
    INTEGER("num_hash_layers", hash_layer_count, 0, 4096),
    INTEGER("max_position_embeddings", position_limit, 1, 1 << 30),
};

/* A real field and its lower bound; the upper one is the same for all and only keeps nonsense out. */
static const double real_limit = 1e12;

struct real_field {
    const char *key;
    size_t offset;
    double minimum;
};

#define REAL(key, field, minimum) \
    { key, offsetof(struct deepseek_v4_config, field), minimum }

static const struct real_field real_fields[] = {
    REAL("hc_eps", hyper_epsilon, 0.0),
    REAL("rms_norm_eps", norm_epsilon, 0.0),
    REAL("routed_scaling_factor", routed_scaling, 1e-6),
    REAL("swiglu_limit", swiglu_limit, 1e-6),
    REAL("rope_theta", rope_theta, 1.0),
    REAL("compress_rope_theta", compress_rope_theta, 1.0),
};

static enum status read_integer(const struct json *config, const char *key, int64_t minimum, int64_t maximum,
                                int64_t *out) {
    const struct json *value = json_get(config, key);
    CHECK(value != NULL, STATUS_BAD_CONFIG, "config.json lacks %s", key);
    CHECK(json_kind(value) == JSON_KIND_INTEGER, STATUS_BAD_CONFIG, "config.json: %s is not an integer", key);
    *out = json_int64(value);
    CHECK(*out >= minimum && *out <= maximum, STATUS_BAD_CONFIG,
          "config.json: %s is %lld, expected %lld to %lld", key, (long long)*out, (long long)minimum,
          (long long)maximum);
    return STATUS_OK;
}

static enum status read_real(const struct json *object, const char *where, const char *key, double minimum,
                             double *out) {
    const struct json *value = json_get(object, key);
    CHECK(value != NULL, STATUS_BAD_CONFIG, "%s lacks %s", where, key);
    CHECK(json_kind(value) == JSON_KIND_INTEGER || json_kind(value) == JSON_KIND_REAL, STATUS_BAD_CONFIG,
          "%s: %s is not a number", where, key);
    *out = json_number(value);
    CHECK(isfinite(*out) && *out >= minimum && *out <= real_limit, STATUS_BAD_CONFIG,
          "%s: %s is %g, expected %g to %g", where, key, *out, minimum, real_limit);
    return STATUS_OK;
}

/* Fields that may be absent but, where present, have one value that is implemented. */
static enum status check_word(const struct json *config, const char *key, const char *wanted) {
    const struct json *value = json_get(config, key);
    if (value == NULL) {
        return STATUS_OK;
    }
    const char *word = json_text(value, NULL);
    CHECK(word != NULL, STATUS_BAD_CONFIG, "config.json: %s is not a string", key);
    CHECK(strcmp(word, wanted) == 0, STATUS_UNSUPPORTED,
          "config.json: %s \"%s\" is not implemented for deepseek_v4 (only \"%s\")", key, word, wanted);
    return STATUS_OK;
}

static enum status check_flag(const struct json *config, const char *key, bool wanted) {
    const struct json *value = json_get(config, key);
    if (value == NULL) {
        return STATUS_OK;
    }
    CHECK(json_kind(value) == JSON_KIND_BOOL, STATUS_BAD_CONFIG, "config.json: %s is not true or false", key);
    CHECK(json_bool(value) == wanted, STATUS_UNSUPPORTED,
          "config.json: %s %s is not implemented for deepseek_v4", key, wanted ? "false" : "true");
    return STATUS_OK;
}

static enum status check_count(const struct json *config, const char *key, int64_t wanted) {
    if (json_get(config, key) == NULL) {
        return STATUS_OK;
    }
    int64_t count;
    TRY(read_integer(config, key, 0, 1 << 20, &count));
    CHECK(count == wanted, STATUS_UNSUPPORTED,
          "config.json: %s %lld is not implemented for deepseek_v4 (only %lld)", key, (long long)count,
          (long long)wanted);
    return STATUS_OK;
}

static enum status check_variants(const struct json *config) {
    TRY(check_word(config, "scoring_func", "sqrtsoftplus"));
    TRY(check_word(config, "topk_method", "noaux_tc"));
    TRY(check_word(config, "hidden_act", "silu"));
    TRY(check_flag(config, "norm_topk_prob", true));
    TRY(check_flag(config, "tie_word_embeddings", false));
    TRY(check_flag(config, "attention_bias", false));
    TRY(check_count(config, "num_key_value_heads", 1));
    TRY(check_count(config, "n_shared_experts", 1));
    return STATUS_OK;
}

static enum status check_quantization(const struct json *config) {
    const struct json *quantization = json_get(config, "quantization_config");
    CHECK(
        quantization != NULL && json_kind(quantization) == JSON_KIND_OBJECT, STATUS_UNSUPPORTED,
        "config.json has no quantization_config: only the published FP8 and FP4 checkpoints are implemented");
    TRY(check_word(quantization, "quant_method", "fp8"));
    TRY(check_word(quantization, "fmt", "e4m3"));
    TRY(check_word(quantization, "activation_scheme", "dynamic"));
    const struct json *block = json_get(quantization, "weight_block_size");
    CHECK(block == NULL || (json_length(block) == 2 && json_int64(json_at(block, 0)) == WEIGHT_FP8_BLOCK &&
                            json_int64(json_at(block, 1)) == WEIGHT_FP8_BLOCK),
          STATUS_UNSUPPORTED, "config.json: weight_block_size is not [128, 128]");
    return STATUS_OK;
}

static enum status read_expert_dtype(const struct json *config, struct deepseek_v4_config *out) {
    const struct json *value = json_get(config, "expert_dtype");
    const char *word = value == NULL ? "fp4" : json_text(value, NULL);
    CHECK(word != NULL && (strcmp(word, "fp4") == 0 || strcmp(word, "fp8") == 0), STATUS_UNSUPPORTED,
          "config.json: expert_dtype is neither \"fp4\" nor \"fp8\"");
    out->has_fp8_experts = strcmp(word, "fp8") == 0;
    return STATUS_OK;
}

static enum status read_rope_scaling(const struct json *config, struct deepseek_v4_config *out) {
    const struct json *scaling = json_get(config, "rope_scaling");
    out->rope_scaling = (struct rope_scaling){.factor = 1.0};
    if (scaling == NULL || json_kind(scaling) == JSON_KIND_NULL) {
        return STATUS_OK;
    }
    const char *where = "config.json: rope_scaling";
    CHECK(json_kind(scaling) == JSON_KIND_OBJECT, STATUS_BAD_CONFIG, "%s is not an object", where);
    TRY(check_word(scaling, "type", "yarn"));
    TRY(check_word(scaling, "rope_type", "yarn"));
    TRY(read_real(scaling, where, "factor", 1.0, &out->rope_scaling.factor));
    TRY(read_real(scaling, where, "original_max_position_embeddings", 1.0,
                  &out->rope_scaling.original_positions));
    TRY(read_real(scaling, where, "beta_fast", 1e-6, &out->rope_scaling.beta_fast));
    TRY(read_real(scaling, where, "beta_slow", 1e-6, &out->rope_scaling.beta_slow));
    return STATUS_OK;
}

static enum status read_drafter(const struct json *config, struct deepseek_v4_config *out) {
    int64_t draft_layers = 0;
    if (json_get(config, "num_nextn_predict_layers") != NULL) {
        TRY(read_integer(config, "num_nextn_predict_layers", 0, 64, &draft_layers));
    }
    CHECK(draft_layers <= 1, STATUS_UNSUPPORTED,
          "config.json: num_nextn_predict_layers %lld is not implemented for deepseek_v4 (0 or 1)",
          (long long)draft_layers);
    out->drafter = draft_layers == 1 ? DRAFTER_MTP : DRAFTER_NONE;
    if (json_get(config, "dspark_block_size") != NULL) {
        out->drafter = DRAFTER_DSPARK;
        out->dspark_stage_count = DSPARK_STAGES;
        out->dspark_target_count = (int64_t)json_length(json_get(config, "dspark_target_layer_ids"));
        CHECK(out->dspark_target_count >= 1 && out->dspark_target_count <= 64, STATUS_BAD_CONFIG,
              "config.json: dspark_target_layer_ids is not a list of layers");
        TRY(read_integer(config, "dspark_markov_rank", 1, 1 << 16, &out->dspark_markov_rank));
    }
    return STATUS_OK;
}

/* One entry per layer, then one per draft layer, which is always 0 (spec 1.2). */
static enum status read_ratios(struct arena *arena, const struct json *config,
                               struct deepseek_v4_config *out) {
    const struct json *ratios = json_get(config, "compress_ratios");
    CHECK(ratios != NULL && json_kind(ratios) == JSON_KIND_ARRAY, STATUS_BAD_CONFIG,
          "config.json lacks the list compress_ratios");
    int64_t length = (int64_t)json_length(ratios);
    CHECK(length >= out->layer_count && length <= out->layer_count + 64, STATUS_BAD_CONFIG,
          "config.json: compress_ratios has %lld entries for %lld layers", (long long)length,
          (long long)out->layer_count);
    out->ratios = ARENA_NEW(arena, int64_t, (size_t)out->layer_count);
    CHECK_MEMORY(out->ratios);
    for (int64_t i = 0; i < length; i++) {
        const struct json *entry = json_at(ratios, (size_t)i);
        int64_t ratio = json_int64(entry);
        CHECK(json_kind(entry) == JSON_KIND_INTEGER && ratio >= 0 && ratio <= (1 << 20) && ratio != 1,
              STATUS_BAD_CONFIG, "config.json: compress_ratios[%lld] is no compression ratio", (long long)i);
        if (i < out->layer_count) {
            out->ratios[i] = ratio;
        } else {
            CHECK(ratio == 0, STATUS_UNSUPPORTED,
                  "config.json: compress_ratios[%lld] is %lld, but draft layers are window-only",
                  (long long)i, (long long)ratio);
        }
    }
    return STATUS_OK;
}

static bool is_power_of_two(int64_t value) {
    return (value & (value - 1)) == 0;
}

static enum status check_relations(const struct deepseek_v4_config *config) {
    CHECK(config->rotary_dim % 2 == 0 && config->rotary_dim < config->head_dim, STATUS_BAD_CONFIG,
          "config.json: qk_rope_head_dim %lld must be even and below head_dim %lld",
          (long long)config->rotary_dim, (long long)config->head_dim);
    CHECK(config->head_count % config->output_groups == 0, STATUS_BAD_CONFIG,
          "config.json: num_attention_heads %lld is no multiple of o_groups %lld",
          (long long)config->head_count, (long long)config->output_groups);
    CHECK(is_power_of_two(config->index_head_dim) && config->index_head_dim >= config->rotary_dim,
          STATUS_BAD_CONFIG,
          "config.json: index_head_dim %lld must be a power of two and at least qk_rope_head_dim",
          (long long)config->index_head_dim);
    CHECK(config->expert_picks <= config->expert_count, STATUS_BAD_CONFIG,
          "config.json: num_experts_per_tok %lld exceeds n_routed_experts %lld",
          (long long)config->expert_picks, (long long)config->expert_count);
    CHECK(config->hidden_size % WEIGHT_FP4_GROUP == 0 && config->inner_size % WEIGHT_FP4_GROUP == 0,
          STATUS_BAD_CONFIG, "config.json: hidden_size and moe_intermediate_size must be multiples of %d",
          WEIGHT_FP4_GROUP);
    CHECK(config->hash_layer_count <= config->layer_count, STATUS_BAD_CONFIG,
          "config.json: num_hash_layers %lld exceeds num_hidden_layers %lld",
          (long long)config->hash_layer_count, (long long)config->layer_count);
    return STATUS_OK;
}

enum status deepseek_v4_config_parse(struct arena *arena, const struct json *config,
                                     struct deepseek_v4_config *out) {
    *out = (struct deepseek_v4_config){0};
    CHECK(json_kind(config) == JSON_KIND_OBJECT, STATUS_BAD_CONFIG, "config.json is not an object");
    for (size_t i = 0; i < sizeof integer_fields / sizeof integer_fields[0]; i++) {
        const struct integer_field *field = &integer_fields[i];
        int64_t *target = (int64_t *)(void *)((char *)out + field->offset);
        TRY(read_integer(config, field->key, field->minimum, field->maximum, target));
    }
    for (size_t i = 0; i < sizeof real_fields / sizeof real_fields[0]; i++) {
        const struct real_field *field = &real_fields[i];
        double *target = (double *)(void *)((char *)out + field->offset);
        TRY(read_real(config, "config.json", field->key, field->minimum, target));
    }
    TRY(check_variants(config));
    TRY(check_quantization(config));
    TRY(read_expert_dtype(config, out));
    TRY(read_rope_scaling(config, out));
    TRY(read_drafter(config, out));
    TRY(read_ratios(arena, config, out));
    return check_relations(out);
}
