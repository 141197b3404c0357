/*
 * The tensor lists of the real releases, from their configurations alone (tests/golden/configs).
 *
 * Counts and bytes are those of the published files (spec deepseek-v4 3.1), names and shapes 3.2, placements
 * parallelism 1.3.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/deepseek_v4/deepseek_v4.h"
#include "model/model_registry.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"
#include "weights/safetensors.h"

struct listing {
    struct arena arena;
    struct model *model;
    struct tensor_spec_list list;
};

static void listing_make(const char *name, int draft_limit, struct listing *out) {
    char path[128];
    const struct model_family *family;
    const struct model_request request = {.draft_limit = draft_limit};
    snprintf(path, sizeof path, "tests/golden/configs/%s.json", name);
    struct json *config = model_config_read(path, NULL, 0);
    *out = (struct listing){0};
    arena_init(&out->arena, 1 << 20);
    out->list.arena = &out->arena;
    EXPECT_OK(model_family_find(config, &family));
    EXPECT_OK(family->create(&out->arena, config, &request, &out->model));
    EXPECT_OK(family->list_tensors(out->model, NULL, &out->list));
    json_free(&config);
}

static void listing_free(struct listing *listing) {
    arena_deinit(&listing->arena);
}

static const struct tensor_spec *find(const struct listing *listing, const char *name) {
    for (size_t i = 0; i < listing->list.count; i++) {
        if (strcmp(listing->list.specs[i].name, name) == 0) {
            return &listing->list.specs[i];
        }
    }
    fail_msg("the list has no tensor %s", name);
    return NULL;
}

struct totals {
    int64_t tensors;
    int64_t bytes;
    int64_t by_dtype[DTYPE_COUNT];
};

/* Of all tensors whose name starts so. */
static struct totals add_up(const struct listing *listing, const char *prefix) {
    struct totals totals = {0};
    for (size_t i = 0; i < listing->list.count; i++) {
        const struct tensor_spec *spec = &listing->list.specs[i];
        size_t bytes;
        if (strncmp(spec->name, prefix, strlen(prefix)) == 0) {
            EXPECT_OK(safetensors_tensor_bytes(spec->dtype, spec->rank, spec->shape, &bytes));
            totals.tensors++;
            totals.bytes += (int64_t)bytes;
            totals.by_dtype[spec->dtype]++;
        }
    }
    return totals;
}

/* A line of the table of releases. A count of -1 is not published. */
struct published {
    const char *config;
    const char *prefix;
    int64_t tensors, bytes, bf16, f32, fp8, e8m0, i64, i8;
};

static void expect_published(const struct published *line) {
    struct listing listing;
    listing_make(line->config, 0, &listing);
    struct totals totals = add_up(&listing, line->prefix);
    assert_int_equal(totals.tensors, line->tensors);
    assert_int_equal(totals.bytes, line->bytes);
    if (line->bf16 >= 0) {
        assert_int_equal(totals.by_dtype[DTYPE_BF16], line->bf16);
        assert_int_equal(totals.by_dtype[DTYPE_F32], line->f32);
        assert_int_equal(totals.by_dtype[DTYPE_F8_E4M3], line->fp8);
        assert_int_equal(totals.by_dtype[DTYPE_F8_E8M0], line->e8m0);
        assert_int_equal(totals.by_dtype[DTYPE_I64], line->i64);
        assert_int_equal(totals.by_dtype[DTYPE_I8], line->i8);
    }
    listing_free(&listing);
}

static void test_published_totals(void **state) {
    (void)state;
    static const struct published lines[] = {
        {"flash", "", 69187, 159609485896, 433, 417, 375, 34167, 3, 33792},
        {"flash", "mtp.", 1575, 3593787756, 8, 11, 10, 778, 0, 768},
        {"flash", "layers.0.", 1565, 3566148952, -1, 0, 0, 0, 0, 0},
        {"flash", "layers.2.", 1576, 3596055640, -1, 0, 0, 0, 0, 0},
        {"flash", "layers.3.", 1569, 3568596312, -1, 0, 0, 0, 0, 0},
        {"flash", "layers.0.ffn.experts.0.", 6, 13369344, 0, 0, 0, 3, 0, 3},
        {"flash", "embed.", 1, 1059061760, 1, 0, 0, 0, 0, 0},
        {"flash", "head.", 1, 1059061760, 1, 0, 0, 0, 0, 0},
        {"pro", "", 145116, 864704792696, 619, 590, 528, 71952, 3, 71424},
        {"pro", "mtp.", 2343, 13956587692, 8, 11, 10, 1162, 0, 1152},
        {"pro", "layers.60.ffn.experts.383.", 6, 35094528, 0, 0, 0, 3, 0, 3},
        {"flash-0731", "", 72317, 166878536440, -1, 0, 0, 0, 0, 0},
        {"flash-0731", "mtp.", 4705, 10862838300, 20, 27, 25, 2329, 0, 2304},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect_published(&lines[i]);
    }
}

/* Everything but the routed experts of the main layers and the MTP layer (spec 3.1). */
static void test_bytes_outside_experts(void **state) {
    (void)state;
    struct listing listing;
    int64_t outside = 0;
    listing_make("flash", 1, &listing);
    for (size_t i = 0; i < listing.list.count; i++) {
        const struct tensor_spec *spec = &listing.list.specs[i];
        size_t bytes;
        EXPECT_OK(safetensors_tensor_bytes(spec->dtype, spec->rank, spec->shape, &bytes));
        outside += strstr(spec->name, ".experts.") == NULL ? (int64_t)bytes : 0;
    }
    assert_int_equal(outside, 9017195080);
    listing_free(&listing);
}

/* Names are distinct, matrices and scales point at each other, cuts have a unit, layers a number. */
static void test_records_are_sound(void **state) {
    (void)state;
    struct listing listing;
    listing_make("flash", 1, &listing);
    for (size_t i = 0; i < listing.list.count; i++) {
        const struct tensor_spec *spec = &listing.list.specs[i];
        bool is_matrix = spec->role == TENSOR_FP8_MATRIX || spec->role == TENSOR_FP4_MATRIX;
        int layer = -1;
        assert_true(spec->placement_unit >= 1);
        assert_true(spec->is_used);
        if (is_matrix || spec->role == TENSOR_BLOCK_SCALE) {
            assert_in_range(spec->partner, 0, listing.list.count - 1);
            const struct tensor_spec *partner = &listing.list.specs[spec->partner];
            assert_ptr_equal(&listing.list.specs[partner->partner], spec);
            assert_true(is_matrix == (partner->role == TENSOR_BLOCK_SCALE));
            assert_int_equal(partner->placement, spec->placement);
            assert_int_equal(partner->stage, spec->stage);
        } else {
            assert_int_equal(spec->partner, -1);
        }
        if (sscanf(spec->name, "layers.%d.", &layer) != 1 && strncmp(spec->name, "mtp.0.", 6) == 0) {
            layer = 43;
        }
        assert_int_equal(spec->layer, layer);
    }
    listing_free(&listing);
}

/* Shapes as stored, for the names that a converter or another engine gets wrong (spec 3.2). */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *config;
        const char *name;
        enum dtype dtype;
        int64_t shape[2]; /* 0: a vector */
    } lines[] = {
        {"flash", "hc_head_fn", DTYPE_F32, {4, 16384}},
        {"flash", "layers.0.hc_attn_fn", DTYPE_F32, {24, 16384}},
        {"flash", "layers.0.hc_ffn_scale", DTYPE_F32, {3, 0}},
        {"flash", "layers.0.attn.wo_a.weight", DTYPE_F8_E4M3, {8192, 4096}},
        {"flash", "layers.0.attn.wo_a.scale", DTYPE_F8_E8M0, {64, 32}},
        {"flash", "layers.2.ffn.gate.tid2eid", DTYPE_I64, {129280, 6}},
        {"flash", "layers.3.ffn.gate.bias", DTYPE_F32, {256, 0}},
        {"flash", "layers.2.attn.compressor.ape", DTYPE_F32, {4, 1024}},
        {"flash", "layers.3.attn.compressor.ape", DTYPE_F32, {128, 512}},
        {"flash", "layers.2.attn.compressor.wkv.weight", DTYPE_BF16, {1024, 4096}},
        {"flash", "layers.3.attn.compressor.wgate.weight", DTYPE_BF16, {512, 4096}},
        {"flash", "layers.42.attn.indexer.wq_b.weight", DTYPE_F8_E4M3, {8192, 1024}},
        {"flash", "layers.42.attn.indexer.weights_proj.weight", DTYPE_BF16, {64, 4096}},
        {"flash", "layers.42.attn.indexer.compressor.ape", DTYPE_F32, {4, 256}},
        {"flash", "layers.42.attn.indexer.compressor.wkv.weight", DTYPE_BF16, {256, 4096}},
        {"flash", "layers.42.attn.indexer.compressor.norm.weight", DTYPE_BF16, {128, 0}},
        {"flash", "layers.7.ffn.experts.255.w1.weight", DTYPE_I8, {2048, 2048}},
        {"flash", "layers.7.ffn.experts.255.w1.scale", DTYPE_F8_E8M0, {2048, 128}},
        {"flash", "layers.7.ffn.experts.255.w2.weight", DTYPE_I8, {4096, 1024}},
        {"flash", "layers.7.ffn.experts.255.w2.scale", DTYPE_F8_E8M0, {4096, 64}},
        {"flash", "mtp.0.e_proj.weight", DTYPE_F8_E4M3, {4096, 4096}},
        {"flash", "mtp.0.ffn.gate.bias", DTYPE_F32, {256, 0}},
        {"flash", "mtp.0.hc_head_base", DTYPE_F32, {4, 0}},
        {"pro", "layers.0.attn.wq_b.weight", DTYPE_F8_E4M3, {65536, 1536}},
        {"pro", "layers.0.attn.compressor.ape", DTYPE_F32, {128, 512}},
        {"pro", "layers.60.attn.wo_b.weight", DTYPE_F8_E4M3, {7168, 16384}},
        {"flash-0731", "mtp.0.main_proj.weight", DTYPE_F8_E4M3, {4096, 12288}},
        {"flash-0731", "mtp.1.attn.wkv.weight", DTYPE_F8_E4M3, {512, 4096}},
        {"flash-0731", "mtp.2.markov_head.markov_w1.weight", DTYPE_BF16, {129280, 256}},
        {"flash-0731", "mtp.2.confidence_head.proj.weight", DTYPE_BF16, {1, 4352}},
        {"flash-0731", "mtp.2.hc_head_scale", DTYPE_F32, {1, 0}},
    };
    const char *config = "";
    struct listing listing = {0};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strcmp(config, lines[i].config) != 0) {
            listing_free(&listing);
            config = lines[i].config;
            listing_make(config, 0, &listing);
        }
        const struct tensor_spec *spec = find(&listing, lines[i].name);
        assert_int_equal(spec->dtype, lines[i].dtype);
        assert_int_equal(spec->rank, lines[i].shape[1] == 0 ? 1 : 2);
        assert_int_equal(spec->shape[0], lines[i].shape[0]);
        assert_int_equal(spec->shape[1], lines[i].shape[1]);
    }
    listing_free(&listing);
}

/* What is there follows from ratio, routing and drafter, nothing else. */
static void test_absent_names(void **state) {
    (void)state;
    static const char *const flash_names[] = {
        "layers.0.attn.compressor.ape", "layers.3.attn.indexer.wq_b.weight",
        "layers.2.ffn.gate.bias",       "layers.3.ffn.gate.tid2eid",
        "mtp.0.ffn.gate.tid2eid",       "mtp.0.embed.weight",
        "mtp.0.attn.compressor.ape",    "mtp.1.attn_norm.weight",
        "layers.43.attn_norm.weight",   "layers.0.ffn.experts.256.w1.weight",
    };
    static const char *const dspark_names[] = {"mtp.0.e_proj.weight", "mtp.0.enorm.weight",
                                               "mtp.1.norm.weight", "mtp.3.attn_norm.weight"};
    struct listing flash;
    struct listing dspark;
    listing_make("flash", 0, &flash);
    listing_make("flash-0731", 0, &dspark);
    for (size_t i = 0; i < sizeof flash_names / sizeof flash_names[0]; i++) {
        assert_int_equal(add_up(&flash, flash_names[i]).tensors, 0);
    }
    for (size_t i = 0; i < sizeof dspark_names / sizeof dspark_names[0]; i++) {
        assert_int_equal(add_up(&dspark, dspark_names[i]).tensors, 0);
    }
    listing_free(&flash);
    listing_free(&dspark);
}

/* Parallelism 1.3, row by row; the unit is what a cut may not tear apart. */
static const struct {
    const char *name;
    enum placement placement;
    int unit;
    enum placement_stage stage;
} placements[] = {
    {"embed.weight", PLACEMENT_SPLIT_VOCABULARY, 1, STAGE_FIRST_AND_DRAFT},
    {"head.weight", PLACEMENT_SPLIT_VOCABULARY, 1, STAGE_LAST},
    {"norm.weight", PLACEMENT_REPLICATED, 1, STAGE_LAST},
    {"hc_head_fn", PLACEMENT_REPLICATED, 1, STAGE_LAST},
    {"hc_head_base", PLACEMENT_REPLICATED, 1, STAGE_LAST},
    {"hc_head_scale", PLACEMENT_REPLICATED, 1, STAGE_LAST},
    {"layers.2.attn.wq_a.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.wq_a.scale", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.wkv.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.q_norm.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.kv_norm.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.wq_b.weight", PLACEMENT_SPLIT_ROWS, 512, STAGE_OF_LAYER},
    {"layers.2.attn.attn_sink", PLACEMENT_SPLIT_ROWS, 1, STAGE_OF_LAYER},
    {"layers.2.attn.wo_a.weight", PLACEMENT_SPLIT_ROWS, 1024, STAGE_OF_LAYER},
    {"layers.2.attn.wo_b.weight", PLACEMENT_SPLIT_COLUMNS, 1024, STAGE_OF_LAYER},
    {"layers.2.attn.compressor.wkv.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.compressor.wgate.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.compressor.ape", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.compressor.norm.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.indexer.wq_b.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.indexer.weights_proj.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.indexer.compressor.wkv.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.attn.indexer.compressor.wgate.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.ffn.gate.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.3.ffn.gate.bias", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.ffn.gate.tid2eid", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.ffn.experts.9.w1.weight", PLACEMENT_SPLIT_EXPERTS, 128, STAGE_OF_LAYER},
    {"layers.2.ffn.experts.9.w3.weight", PLACEMENT_SPLIT_EXPERTS, 128, STAGE_OF_LAYER},
    {"layers.2.ffn.experts.9.w2.weight", PLACEMENT_SPLIT_EXPERTS, 128, STAGE_OF_LAYER},
    {"layers.2.ffn.experts.9.w2.scale", PLACEMENT_SPLIT_EXPERTS, 1, STAGE_OF_LAYER},
    {"layers.2.ffn.shared_experts.w1.weight", PLACEMENT_SPLIT_ROWS, 128, STAGE_OF_LAYER},
    {"layers.2.ffn.shared_experts.w3.weight", PLACEMENT_SPLIT_ROWS, 128, STAGE_OF_LAYER},
    {"layers.2.ffn.shared_experts.w2.weight", PLACEMENT_SPLIT_COLUMNS, 128, STAGE_OF_LAYER},
    {"layers.2.attn_norm.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.ffn_norm.weight", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.hc_attn_fn", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.hc_ffn_base", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"layers.2.hc_ffn_scale", PLACEMENT_REPLICATED, 1, STAGE_OF_LAYER},
    {"mtp.0.attn.wq_b.weight", PLACEMENT_SPLIT_ROWS, 512, STAGE_DRAFT},
    {"mtp.0.ffn.experts.0.w1.weight", PLACEMENT_SPLIT_EXPERTS, 128, STAGE_DRAFT},
    {"mtp.0.e_proj.weight", PLACEMENT_REPLICATED, 1, STAGE_DRAFT},
    {"mtp.0.h_proj.weight", PLACEMENT_REPLICATED, 1, STAGE_DRAFT},
    {"mtp.0.enorm.weight", PLACEMENT_REPLICATED, 1, STAGE_DRAFT},
    {"mtp.0.norm.weight", PLACEMENT_REPLICATED, 1, STAGE_DRAFT},
    {"mtp.0.hc_head_fn", PLACEMENT_REPLICATED, 1, STAGE_DRAFT},
};

static void test_placements(void **state) {
    (void)state;
    struct listing listing;
    listing_make("flash", 1, &listing);
    for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
        const struct tensor_spec *spec = find(&listing, placements[i].name);
        if (spec->placement != placements[i].placement || spec->stage != placements[i].stage ||
            spec->placement_unit != placements[i].unit) {
            fail_msg("%s: placement %d, unit %d, stage %d", spec->name, (int)spec->placement,
                     spec->placement_unit, (int)spec->stage);
        }
    }
    listing_free(&listing);
}

/* Weights whose columns can be cut sum in leaves: one per output group, else sixteen. No others do. */
static void test_leaves(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int groups;
    } lines[] = {{"flash", 8}, {"pro", 16}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct listing listing;
        listing_make(lines[i].config, 1, &listing);
        const struct deepseek_v4 *model = (const struct deepseek_v4 *)(const void *)listing.model;
        for (size_t t = 0; t < listing.list.count; t++) {
            const struct tensor_spec *spec = &listing.list.specs[t];
            const struct leaves *leaves = &model->bindings[t]->leaves;
            int expected = 1;
            if (strstr(spec->name, ".wo_b.") != NULL) {
                expected = lines[i].groups;
            } else if (strstr(spec->name, ".w2.") != NULL) {
                expected = 16;
            }
            if (leaves->count != expected || leaves->whole_count != expected ||
                leaves_columns(leaves) != model->bindings[t]->columns) {
                fail_msg("%s: %d of %d leaves", spec->name, leaves->count, leaves->whole_count);
            }
        }
        listing_free(&listing);
    }
}

/* Draft tensors are known without drafting, but not used; all others are. */
static void test_draft_tensors_unused(void **state) {
    (void)state;
    static const char *const configs[] = {"flash", "flash-0731"};
    for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
        struct listing listing;
        listing_make(configs[c], 0, &listing);
        for (size_t i = 0; i < listing.list.count; i++) {
            const struct tensor_spec *spec = &listing.list.specs[i];
            assert_int_equal(spec->is_used, strncmp(spec->name, "mtp.", 4) != 0);
        }
        listing_free(&listing);
    }
}

static void test_dspark_drafting_refused(void **state) {
    (void)state;
    const struct model_family *family;
    const struct model_request request = {.draft_limit = 2};
    struct model *model;
    struct arena arena;
    struct json *config = model_config_read("tests/golden/configs/flash-0731.json", NULL, 0);
    arena_init(&arena, 1 << 16);
    EXPECT_OK(model_family_find(config, &family));
    fixture_expect_error(family->create(&arena, config, &request, &model), STATUS_UNSUPPORTED, "DSpark");
    arena_deinit(&arena);
    json_free(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_totals),
        cmocka_unit_test(test_bytes_outside_experts),
        cmocka_unit_test(test_records_are_sound),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_absent_names),
        cmocka_unit_test(test_placements),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_draft_tensors_unused),
        cmocka_unit_test(test_dspark_drafting_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
