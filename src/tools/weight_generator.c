/* Values are computed in double and rounded once to fp32, as in the program that made the golden files. */
#include "tools/weight_generator.h"

#include <math.h>
#include <string.h>

#include "tensor/number_format.h"

enum { FP8_BLOCK = 128, FP4_GROUP = 32, FP4_CODES_PER_BYTE = 2 };

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    }
    return hash;
}

/* z(name, index) of A.1: the splitmix64 finaliser. */
static uint64_t mix(uint64_t name_hash, uint64_t index) {
    uint64_t z = name_hash + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* v(name, index) of A.1, in [-1, 1). */
static double symmetric_value(uint64_t name_hash, uint64_t index) {
    return 2.0 * (double)(mix(name_hash, index) >> 40) / 0x1p24 - 1.0;
}

static bool ends_with(const char *text, const char *suffix) {
    size_t length = strlen(text);
    size_t suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

/* Whether the name's own part, ".weight" aside, says that it is a norm. */
static bool is_norm(const char *name) {
    const char *end = name + strlen(name) - (ends_with(name, ".weight") ? strlen(".weight") : 0);
    const char *start = end;
    while (start > name && start[-1] != '.') {
        start--;
    }
    return memmem(start, (size_t)(end - start), "norm", strlen("norm")) != NULL;
}

/* Offset and gain by name; the order of the questions is that of the golden program. */
static enum status choose_formula(struct weight_generator *generator) {
    const struct tensor_spec *spec = generator->spec;
    const char *dot = strrchr(spec->name, '.');
    const char *last = dot == NULL ? spec->name : dot + 1;
    bool is_hyper_connection = strncmp(last, "hc_", strlen("hc_")) == 0;
    CHECK(spec->dtype == DTYPE_F32 || spec->dtype == DTYPE_BF16, STATUS_UNSUPPORTED,
          "synth has no formula for tensor %s of type %s", spec->name, dtype_name(spec->dtype));
    if (strcmp(spec->name, "embed.weight") == 0) {
        generator->gain = 1.0;
        generator->rounds_to_bf16 = true;
    } else if (is_norm(spec->name)) {
        generator->offset = 1.0;
        generator->gain = 0.1;
        generator->rounds_to_bf16 = true;
    } else if ((is_hyper_connection && ends_with(last, "_base")) || strcmp(last, "ape") == 0) {
        generator->gain = 0.5;
    } else if (is_hyper_connection && ends_with(last, "_scale")) {
        generator->offset = 1.0;
        generator->gain = 0.1;
    } else if (strcmp(last, "attn_sink") == 0) {
        generator->gain = 1.0;
    } else if (strcmp(last, "bias") == 0) {
        generator->gain = 0.1;
    } else {
        CHECK(spec->rank == 2, STATUS_UNSUPPORTED, "synth has no formula for tensor %s with %d axes",
              spec->name, spec->rank);
        generator->gain = sqrt(3.0 / (double)spec->shape[1]);
        generator->rounds_to_bf16 = !ends_with(last, "_fn");
    }
    return STATUS_OK;
}

static void choose_scales(struct weight_generator *generator, enum tensor_role matrix_role) {
    bool is_fp8 = matrix_role == TENSOR_FP8_MATRIX;
    generator->scale_top = is_fp8 ? 120 : 122;
    generator->scale_span = is_fp8 ? 3 : 2;
}

/* Gain of a matrix whose rows have `columns` logical inputs; its scales must be bytes. */
static enum status prepare_matrix(struct weight_generator *generator, const struct tensor_spec_list *list) {
    const struct tensor_spec *spec = generator->spec;
    bool is_fp8 = spec->role == TENSOR_FP8_MATRIX;
    CHECK(spec->rank == 2 && spec->partner >= 0 && spec->dtype == (is_fp8 ? DTYPE_F8_E4M3 : DTYPE_I8),
          STATUS_UNSUPPORTED, "synth has no formula for the quantised matrix %s of type %s", spec->name,
          dtype_name(spec->dtype));
    int64_t columns = is_fp8 ? spec->shape[1] : spec->shape[1] * FP4_CODES_PER_BYTE;
    generator->scale_hash = hash_name(list->specs[spec->partner].name);
    generator->gain = sqrt(3.0 / (double)columns);
    choose_scales(generator, spec->role);
    return STATUS_OK;
}

enum status weight_generator_init(struct weight_generator *generator, const struct tensor_spec_list *list,
                                  size_t index) {
    const struct tensor_spec *spec = &list->specs[index];
    *generator = (struct weight_generator){.spec = spec, .name_hash = hash_name(spec->name)};
    switch (spec->role) {
    case TENSOR_FP8_MATRIX:
    case TENSOR_FP4_MATRIX:
        TRY(prepare_matrix(generator, list));
        break;
    case TENSOR_BLOCK_SCALE:
        CHECK(spec->partner >= 0 && spec->dtype == DTYPE_F8_E8M0, STATUS_UNSUPPORTED,
              "synth has no formula for the scales %s of type %s", spec->name, dtype_name(spec->dtype));
        choose_scales(generator, list->specs[spec->partner].role);
        break;
    case TENSOR_EXPERT_TABLE:
        CHECK(spec->rank == 2 && spec->dtype == DTYPE_I64 && spec->value_limit > 0, STATUS_UNSUPPORTED,
              "synth has no formula for the expert table %s of type %s", spec->name, dtype_name(spec->dtype));
        break;
    case TENSOR_PLAIN:
        TRY(choose_formula(generator));
        break;
    }
    return STATUS_OK;
}

static float matrix_value(const struct weight_generator *generator, size_t index) {
    return (float)(generator->offset + generator->gain * symmetric_value(generator->name_hash, index));
}

static uint8_t scale_byte(const struct weight_generator *generator, uint64_t hash, size_t index) {
    return (uint8_t)(generator->scale_top - (int)(mix(hash, index) % generator->scale_span));
}

static void fill_plain(const struct weight_generator *generator, size_t first, size_t count,
                       unsigned char *out) {
    bool is_bf16 = generator->spec->dtype == DTYPE_BF16;
    for (size_t i = 0; i < count; i++) {
        float value = matrix_value(generator, first + i);
        if (is_bf16) {
            uint16_t bits = bf16_encode(value);
            memcpy(out + i * sizeof bits, &bits, sizeof bits);
        } else {
            value = generator->rounds_to_bf16 ? bf16_round(value) : value;
            memcpy(out + i * sizeof value, &value, sizeof value);
        }
    }
}

/* Codes in runs that share a scale: a part of one row within one block of columns. */
static void fill_fp8(const struct weight_generator *generator, size_t first, size_t count,
                     unsigned char *out) {
    size_t columns = (size_t)generator->spec->shape[1];
    size_t grid_columns = (columns + FP8_BLOCK - 1) / FP8_BLOCK;
    for (size_t i = 0; i < count;) {
        size_t row = (first + i) / columns;
        size_t column = (first + i) % columns;
        size_t run_end = (column / FP8_BLOCK + 1) * FP8_BLOCK;
        run_end = run_end < columns ? run_end : columns;
        size_t block = row / FP8_BLOCK * grid_columns + column / FP8_BLOCK;
        float scale = e8m0_decode(scale_byte(generator, generator->scale_hash, block));
        for (; column < run_end && i < count; column++, i++) {
            out[i] = e4m3_encode(matrix_value(generator, first + i) / scale);
        }
    }
}

/* As fill_fp8, two codes a byte; a group of 32 inputs is 16 bytes and rows hold whole groups. */
static void fill_fp4(const struct weight_generator *generator, size_t first, size_t count,
                     unsigned char *out) {
    const size_t group_bytes = FP4_GROUP / FP4_CODES_PER_BYTE;
    size_t row_bytes = (size_t)generator->spec->shape[1];
    size_t row_groups = (row_bytes + group_bytes - 1) / group_bytes;
    for (size_t i = 0; i < count;) {
        size_t row = (first + i) / row_bytes;
        size_t column = (first + i) % row_bytes;
        size_t run_end = (column / group_bytes + 1) * group_bytes;
        run_end = run_end < row_bytes ? run_end : row_bytes;
        size_t group = row * row_groups + column / group_bytes;
        float scale = e8m0_decode(scale_byte(generator, generator->scale_hash, group));
        for (; column < run_end && i < count; column++, i++) {
            size_t element = (first + i) * FP4_CODES_PER_BYTE;
            uint8_t low = e2m1_encode(matrix_value(generator, element) / scale);
            uint8_t high = e2m1_encode(matrix_value(generator, element + 1) / scale);
            out[i] = (unsigned char)(low | (high << 4));
        }
    }
}

static void fill_scales(const struct weight_generator *generator, size_t first, size_t count,
                        unsigned char *out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = scale_byte(generator, generator->name_hash, first + i);
    }
}

static void fill_expert_table(const struct weight_generator *generator, size_t first, size_t count,
                              unsigned char *out) {
    const struct tensor_spec *spec = generator->spec;
    for (size_t i = 0; i < count; i++) {
        int64_t token = (int64_t)(first + i) / spec->shape[1];
        int64_t slot = (int64_t)(first + i) % spec->shape[1];
        int64_t expert = (7 * token + 3 * slot + spec->layer) % spec->value_limit;
        memcpy(out + i * sizeof expert, &expert, sizeof expert);
    }
}

void weight_generator_fill(const struct weight_generator *generator, size_t first_byte, size_t byte_count,
                           unsigned char *out) {
    size_t element_bytes = dtype_bytes(generator->spec->dtype);
    size_t first = first_byte / element_bytes;
    size_t count = byte_count / element_bytes;
    switch (generator->spec->role) {
    case TENSOR_PLAIN:
        fill_plain(generator, first, count, out);
        break;
    case TENSOR_FP8_MATRIX:
        fill_fp8(generator, first, count, out);
        break;
    case TENSOR_FP4_MATRIX:
        fill_fp4(generator, first, count, out);
        break;
    case TENSOR_BLOCK_SCALE:
        fill_scales(generator, first, count, out);
        break;
    case TENSOR_EXPERT_TABLE:
        fill_expert_table(generator, first, count, out);
        break;
    }
}
