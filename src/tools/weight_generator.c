/* Values are computed in double and rounded once to fp32, as in the program that made the golden files. */
#include "tools/weight_generator.h"

#include <math.h>
#include <string.h>

#include "tensor/number_format.h"

enum {
    FP8_BLOCK = 128,
    FP4_GROUP = WEIGHT_LOOPS_GROUP,
    FP4_CODES_PER_BYTE = 2,
    FP4_GROUP_BYTES = FP4_GROUP / FP4_CODES_PER_BYTE,
    VALUES_AT_ONCE = 512, /* stay in the first cache between the loops */
    GROUPS_AT_ONCE = VALUES_AT_ONCE / FP4_GROUP,
};

/* FNV-1a, 64 bits. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001B3u;
    }
    return hash;
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
    CHECK(is_fp8 || columns % FP4_GROUP == 0, STATUS_UNSUPPORTED,
          "the rows of %s have %lld inputs, which is no multiple of %d", spec->name, (long long)columns,
          FP4_GROUP);
    generator->scale_hash = hash_name(list->specs[spec->partner].name);
    generator->gain = sqrt(3.0 / (double)columns);
    choose_scales(generator, spec->role);
    return STATUS_OK;
}

enum status weight_generator_init(struct weight_generator *generator, const struct tensor_spec_list *list,
                                  size_t index) {
    const struct tensor_spec *spec = &list->specs[index];
    *generator = (struct weight_generator){
        .spec = spec, .loops = weight_loops_choose(), .name_hash = hash_name(spec->name)};
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

static void make_values(const struct weight_generator *generator, size_t first, size_t count, float *out) {
    generator->loops->values(generator->name_hash, first, count, generator->offset, generator->gain, out);
}

/* One over the scale at an index of the scales' tensor; scales are powers of two, so that both are exact. */
static float inverse_scale(const struct weight_generator *generator, size_t index) {
    unsigned char byte;
    generator->loops->scales(generator->scale_hash, index, 1, generator->scale_top, generator->scale_span,
                             &byte);
    return 1.0F / e8m0_decode(byte);
}

static void fill_plain(const struct weight_generator *generator, size_t first, size_t count,
                       unsigned char *out) {
    const struct weight_loops *loops = generator->loops;
    size_t element_bytes = dtype_bytes(generator->spec->dtype);
    float values[VALUES_AT_ONCE];
    for (size_t i = 0; i < count; i += VALUES_AT_ONCE) {
        size_t part = count - i < VALUES_AT_ONCE ? count - i : VALUES_AT_ONCE;
        make_values(generator, first + i, part, values);
        if (generator->spec->dtype == DTYPE_BF16) {
            loops->encode_bf16(values, part, out + i * element_bytes);
            continue;
        }
        if (generator->rounds_to_bf16) {
            loops->round_bf16(values, part);
        }
        memcpy(out + i * element_bytes, values, part * element_bytes);
    }
}

/* Codes in runs that share a scale: a part of one row within one block of columns. */
static void fill_fp8(const struct weight_generator *generator, size_t first, size_t count,
                     unsigned char *out) {
    size_t columns = (size_t)generator->spec->shape[1];
    size_t grid_columns = (columns + FP8_BLOCK - 1) / FP8_BLOCK;
    float values[FP8_BLOCK];
    for (size_t i = 0; i < count;) {
        size_t row = (first + i) / columns;
        size_t column = (first + i) % columns;
        size_t run_end = (column / FP8_BLOCK + 1) * FP8_BLOCK;
        size_t run = (run_end < columns ? run_end : columns) - column;
        run = run < count - i ? run : count - i;
        size_t block = row / FP8_BLOCK * grid_columns + column / FP8_BLOCK;
        make_values(generator, first + i, run, values);
        generator->loops->encode_e4m3(values, run, inverse_scale(generator, block), out + i);
        i += run;
    }
}

/* Whole groups from `first_group` on, as bytes. Rows hold whole groups, so groups count on from row to row.
 */
static void make_fp4_groups(const struct weight_generator *generator, size_t first_group, size_t count,
                            unsigned char *out) {
    float values[VALUES_AT_ONCE];
    unsigned char scales[GROUPS_AT_ONCE];
    float factors[GROUPS_AT_ONCE];
    generator->loops->scales(generator->scale_hash, first_group, count, generator->scale_top,
                             generator->scale_span, scales);
    for (size_t i = 0; i < count; i++) {
        factors[i] = 1.0F / e8m0_decode(scales[i]);
    }
    make_values(generator, first_group * FP4_GROUP, count * FP4_GROUP, values);
    generator->loops->encode_e2m1(values, count, factors, out);
}

/* As fill_fp8, two codes a byte. The range may begin and end within a group. */
static void fill_fp4(const struct weight_generator *generator, size_t first, size_t count,
                     unsigned char *out) {
    unsigned char bytes[GROUPS_AT_ONCE * FP4_GROUP_BYTES];
    size_t skipped = first % FP4_GROUP_BYTES;
    size_t group = first / FP4_GROUP_BYTES;
    for (size_t i = 0; i < count;) {
        size_t part = sizeof bytes - skipped < count - i ? sizeof bytes - skipped : count - i;
        size_t groups = (skipped + part + FP4_GROUP_BYTES - 1) / FP4_GROUP_BYTES;
        make_fp4_groups(generator, group, groups, bytes);
        memcpy(out + i, bytes + skipped, part);
        i += part;
        group += groups;
        skipped = 0;
    }
}

static void fill_scales(const struct weight_generator *generator, size_t first, size_t count,
                        unsigned char *out) {
    generator->loops->scales(generator->name_hash, first, count, generator->scale_top, generator->scale_span,
                             out);
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
