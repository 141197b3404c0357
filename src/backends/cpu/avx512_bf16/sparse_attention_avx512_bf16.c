/*
 * Attention on bf16 dot products, for FP8 rows.
 *
 * A row's keys are decoded to a panel of bf16 (exact) that all heads share. Logits: sixteen lanes sum
 * products over the channels, two at a time, then the lanes are summed by the adjacent tree. Softmax in fp32.
 * Values: two keys at a time, with probabilities rounded to bf16 over a denominator of unrounded ones, as the
 * model's own code has it (spec deepseek-v4 4.7).
 */
#include "ops/sparse_attention.h"

#include <immintrin.h>

#include "backends/cpu/attention_keys.h"
#include "backends/cpu/avx512_bf16/avx512_bf16_entries.h"
#include "backends/cpu/avx512_bf16/bf16_decode.h"
#include "backends/cpu/lanes/softmax_lanes.h"

enum {
    STEP = 32,        /* bf16 elements of a vector */
    TILE = 4,         /* heads and keys of a tile of logits */
    VALUE_HEADS = 8,  /* heads of a tile of values */
    KEY_BLOCK = 16,   /* keys that are decoded, then meet all heads while they are in the L1 cache */
    PANEL_MARGIN = 32 /* keeps rows of 2^n channels from falling into the same cache sets */
};

struct attention {
    const struct sparse_attention_args *args;
    int64_t item_heads;
    int64_t items_per_row;
    struct fp8_table fp8;
};

/* What an item works on. Counts of keys are padded to whole vectors. */
struct item {
    int64_t width;
    int64_t stride; /* of the panel */
    int64_t row;
    int64_t first_head;
    int64_t head_count;
    int64_t key_count;
    int64_t key_stride; /* of logits */
    const unsigned char **keys;
    float *floats;
    uint16_t *panel; /* [keys][stride] */
    float *logits;   /* [heads][key_stride]; then probabilities, in the front half of each row */
    float *factors;  /* [heads]: 1 / denominator */
};

/* Lays the scratch out from `workspace`; returns its bytes. */
static size_t lay_out(const struct sparse_attention_args *args, void *workspace, struct item *item) {
    size_t limit = ((size_t)sparse_attention_key_limit(args) + KEY_BLOCK - 1) / KEY_BLOCK * KEY_BLOCK;
    size_t heads = (size_t)args->queries.shape[1];
    item->width = args->queries.shape[2];
    item->stride = item->width + PANEL_MARGIN;
    item->key_stride = (int64_t)limit;
    uintptr_t at = (uintptr_t)workspace;
    item->keys = (const unsigned char **)at;
    at += kernel_workspace_bytes(limit * sizeof *item->keys);
    item->floats = (float *)at;
    at += kernel_workspace_bytes((size_t)item->width * sizeof *item->floats);
    item->panel = (uint16_t *)at;
    at += kernel_workspace_bytes(limit * (size_t)item->stride * sizeof *item->panel);
    item->logits = (float *)at;
    at += kernel_workspace_bytes(heads * limit * sizeof *item->logits);
    item->factors = (float *)at;
    return at + kernel_workspace_bytes(heads * sizeof *item->factors) - (uintptr_t)workspace;
}

/* bf16 queries of a head of the item; a head past the item's last is its last. */
static uint16_t *head_at(const struct tensor *tensor, const struct item *item, int64_t head) {
    int64_t clamped = head < item->head_count ? head : item->head_count - 1;
    int64_t index = item->row * tensor->shape[1] + item->first_head + clamped;
    return (uint16_t *)tensor->data + index * item->width;
}

static inline __m512 dot_step(__m512 sum, __m512i a, const uint16_t *b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)_mm512_loadu_si512(b));
}

/* Logits of four heads and four keys, before the scale: lane 4 h + k. */
static inline f32x16 logit_tile(const uint16_t *const *queries, const uint16_t *keys, int64_t stride,
                                int64_t width) {
    __m512 sums[TILE * TILE];
#pragma GCC unroll 16
    for (int i = 0; i < TILE * TILE; i++) {
        sums[i] = _mm512_setzero_ps();
    }
    for (int64_t c = 0; c < width; c += STEP) {
#pragma GCC unroll 4
        for (int k = 0; k < TILE; k++) {
            __m512i key = _mm512_loadu_si512(keys + k * stride + c);
#pragma GCC unroll 4
            for (int h = 0; h < TILE; h++) {
                sums[h * TILE + k] = dot_step(sums[h * TILE + k], key, queries[h] + c);
            }
        }
    }
    f32x16 lanes[TILE * TILE];
#pragma GCC unroll 16
    for (int i = 0; i < TILE * TILE; i++) {
        lanes[i] = (f32x16)sums[i];
    }
    return lanes_sum_each(lanes);
}

/* Logits of all the item's heads for the block of keys at `first`. */
static void make_logits(const struct attention *attention, const struct item *item, int64_t first) {
    const struct sparse_attention_args *args = attention->args;
    for (int64_t h = 0; h < item->head_count; h += TILE) {
        const uint16_t *queries[TILE];
        for (int i = 0; i < TILE; i++) {
            queries[i] = head_at(&args->queries, item, h + i);
        }
        for (int64_t n = first; n < first + KEY_BLOCK; n += TILE) {
            f32x16 tile = logit_tile(queries, item->panel + n * item->stride, item->stride, item->width);
            float values[LANES];
            lanes_store(values, tile * args->scale);
            for (int64_t i = 0; i < TILE && h + i < item->head_count; i++) {
                memcpy(item->logits + (h + i) * item->key_stride + n, values + i * TILE,
                       TILE * sizeof *values);
            }
        }
    }
}

/* Decodes the block of keys at `first`; keys past the last one are zeros. */
static void decode_block(const struct attention *attention, const struct item *item, int64_t first) {
    const struct row_layout *layout = &attention->args->window_rows.ring.layout;
    for (int64_t n = first; n < first + KEY_BLOCK; n++) {
        uint16_t *key = item->panel + n * item->stride;
        if (n < item->key_count) {
            bf16_decode_kv_row(&attention->fp8, layout, item->keys[n], item->floats, key);
        } else {
            memset(key, 0, (size_t)item->width * sizeof *key);
        }
    }
}

/* The probabilities of a head of the item. */
static uint16_t *probabilities_at(const struct item *item, int64_t head) {
    return (uint16_t *)(void *)(item->logits + head * item->key_stride);
}

/*
 * Logits of one head to bf16 probabilities, in place and not yet divided by the denominator, whose inverse is
 * returned.
 */
static float make_probabilities(const struct item *item, float sink, int64_t head) {
    float *logits = item->logits + head * item->key_stride;
    uint16_t *probabilities = probabilities_at(item, head);
    float denominator = lanes_softmax_numerators(logits, item->key_count, sink);
    /* In order of n: a register of bf16 ends before the next floats to be read. */
    for (int64_t n = 0; n < item->key_count; n += LANES) {
        _mm256_storeu_si256((__m256i *)(void *)(probabilities + n),
                            (__m256i)_mm512_cvtneps_pbh((__m512)lanes_load(logits + n)));
    }
    return 1.0f / denominator;
}

/* Sums of eight heads over all keys, for 32 channels from `channel`. */
static void make_values(const struct attention *attention, const struct item *item, int64_t head,
                        int64_t channel) {
    __m512 sums[VALUE_HEADS][2];
    const uint16_t *probabilities[VALUE_HEADS];
#pragma GCC unroll 8
    for (int h = 0; h < VALUE_HEADS; h++) {
        int64_t clamped = head + h < item->head_count ? head + h : item->head_count - 1;
        probabilities[h] = probabilities_at(item, clamped);
        sums[h][0] = _mm512_setzero_ps();
        sums[h][1] = _mm512_setzero_ps();
    }
    const uint16_t *key = item->panel + channel;
    for (int64_t n = 0; n < item->key_count; n += 2) {
        __m512i even = _mm512_loadu_si512(key);
        __m512i odd = _mm512_loadu_si512(key + item->stride);
        __m512i low = _mm512_unpacklo_epi16(even, odd);
        __m512i high = _mm512_unpackhi_epi16(even, odd);
        key += 2 * item->stride;
#pragma GCC unroll 8
        for (int h = 0; h < VALUE_HEADS; h++) {
            int32_t pair;
            memcpy(&pair, probabilities[h] + n, sizeof pair);
            __m512bh both = (__m512bh)_mm512_set1_epi32(pair);
            sums[h][0] = _mm512_dpbf16_ps(sums[h][0], (__m512bh)low, both);
            sums[h][1] = _mm512_dpbf16_ps(sums[h][1], (__m512bh)high, both);
        }
    }
    /* The unpacked halves hold channels 0-3 8-11 16-19 24-27 and 4-7 12-15 20-23 28-31. */
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
#pragma GCC unroll 8
    for (int h = 0; h < VALUE_HEADS; h++) {
        if (head + h < item->head_count) {
            __m512 factor = _mm512_set1_ps(item->factors[head + h]);
            __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(sums[h][1], factor),
                                                          _mm512_mul_ps(sums[h][0], factor));
            uint16_t *out = head_at(&attention->args->out, item, head + h) + channel;
            _mm512_storeu_si512(out, _mm512_permutexvar_epi64(order, halves));
        }
    }
}

static void attend(const void *context, int64_t index, void *workspace) {
    const struct attention *attention = context;
    const struct sparse_attention_args *args = attention->args;
    int64_t heads = args->queries.shape[1];
    struct item item;
    lay_out(args, workspace, &item);
    item.row = index / attention->items_per_row;
    item.first_head = index % attention->items_per_row * attention->item_heads;
    int64_t left = heads - item.first_head;
    item.head_count = left < attention->item_heads ? left : attention->item_heads;
    item.key_count = attention_list_keys(args, item.row, item.keys);
    for (int64_t n = 0; n < item.key_count; n += KEY_BLOCK) {
        decode_block(attention, &item, n);
        make_logits(attention, &item, n);
    }
    for (int64_t h = 0; h < item.head_count; h++) {
        item.factors[h] = make_probabilities(&item, attention_sink(args, item.first_head + h), h);
    }
    for (int64_t h = 0; h < item.head_count; h += VALUE_HEADS) {
        for (int64_t c = 0; c < item.width; c += STEP) {
            make_values(attention, &item, h, c);
        }
    }
}

static size_t workspace_bytes(const void *arguments, unsigned thread_count) {
    struct item item;
    return thread_count * lay_out(arguments, NULL, &item);
}

static bool can_run(const void *arguments) {
    const struct sparse_attention_args *args = arguments;
    return args->queries.dtype == DTYPE_BF16 && bf16_takes_kv_row(&args->window_rows.ring.layout);
}

static enum status run(const struct kernel_env *env, const void *arguments) {
    const struct sparse_attention_args *args = arguments;
    struct attention attention = {.args = args, .fp8 = fp8_table_load()};
    int64_t heads = args->queries.shape[1];
    struct item item;
    attention.item_heads = attention_item_heads(env, args, VALUE_HEADS);
    attention.items_per_row = (heads + attention.item_heads - 1) / attention.item_heads;
    kernel_for_each_item(env, args->batch->row_count * attention.items_per_row, attend, &attention,
                         env->workspace, lay_out(args, NULL, &item));
    return STATUS_OK;
}

const struct op_entry sparse_attention_avx512_bf16 = {
    .op = OP_SPARSE_ATTENTION,
    .name = "sparse_attention_avx512_bf16",
    .arithmetic = "bf16_dot_keys_bf16_probabilities",
    .modes = OP_MODE_NATIVE,
    .features = CPU_FEATURE_AVX512_BF16,
    .run = run,
    .workspace_bytes = workspace_bytes,
    .can_run = can_run,
};
