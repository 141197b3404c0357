/*
 * Bytes of the real releases on ranks: totals of spec deepseek-v4 3.1 and 5.5, of parallelism 1 and 2.8, and
 * the ledger of an engine that was opened.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/plan_fixture.h"
#include "tools/plan_memory.h"

static void expect_near(double actual, double expected, double tolerance) {
    if (fabs(actual - expected) > tolerance * fabs(expected)) {
        fail_msg("%.3f instead of %.3f", actual, expected);
    }
}

static uint64_t all_weights(const struct plan *plan) {
    uint64_t bytes = 0;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        bytes += plan_stage_weight_bytes(&plan->stages[s]);
    }
    return bytes;
}

/* Published sizes of all files and of the draft layer. */
static void one_rank_holds_the_whole_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *config;
        uint64_t all, draft;
    } releases[] = {{"flash", 159609485896, 3593787756}, {"pro", 864704792696, 13956587692}};
    for (size_t i = 0; i < 2; i++) {
        struct plan_fixture fixture;
        plan_fixture_open(&fixture, releases[i].config, 1, "8x141GB", NULL);
        plan_fixture_make(&fixture, 1, 1, 1);
        assert_int_equal(all_weights(&fixture.plan), releases[i].all);
        assert_int_equal(fixture.plan.stages[0].weight_bytes[PLAN_DRAFT_LAYER], releases[i].draft);
        assert_int_equal(fixture.plan.stages[0].weight_bytes[PLAN_DRAFT_EMBEDDING], 0);
        plan_fixture_close(&fixture);
        plan_fixture_open(&fixture, releases[i].config, 0, "8x141GB", NULL);
        plan_fixture_make(&fixture, 1, 1, 1);
        assert_int_equal(all_weights(&fixture.plan), releases[i].all - releases[i].draft);
        plan_fixture_close(&fixture);
    }
}

/* G-7: one expert is 13.4 or 35.1 MB, those of a layer 3.42 or 13.5 GB; P-7: attention 0.107 GB, head 1.06
 * GB. */
static void kinds_are_those_of_the_specification(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8x141GB", NULL);
    plan_fixture_make(&fixture, 1, 1, 1);
    const uint64_t *bytes = fixture.plan.stages[0].weight_bytes;
    assert_int_equal(bytes[PLAN_EXPERTS], (uint64_t)43 * 256 * 13369344);
    assert_int_equal(bytes[PLAN_EMBEDDING], 1059061760);
    assert_int_equal(bytes[PLAN_HEAD], 1059061760);
    expect_near((double)bytes[PLAN_ATTENTION] / 43, 0.107e9, 0.01);
    /* 3.1 MB per layer, and the head's own mix. */
    expect_near((double)bytes[PLAN_STREAM_MIXES], 43 * 3.1e6, 0.02);
    expect_near((double)bytes[PLAN_SHARED_EXPERTS], 1.08e9, 0.01);
    plan_fixture_close(&fixture);
    plan_fixture_open(&fixture, "pro", 0, "8x141GB", NULL);
    plan_fixture_make(&fixture, 1, 1, 1);
    assert_int_equal(fixture.plan.stages[0].weight_bytes[PLAN_EXPERTS], (uint64_t)61 * 384 * 35094528);
    expect_near((double)fixture.plan.stages[0].weight_bytes[PLAN_SHARED_EXPERTS], 4.03e9, 0.01);
    plan_fixture_close(&fixture);
}

/*
 * 5.5: FP8 rows and FP4 index keys grow by 3,514.25 and 5,031.44 bytes per token (parallelism P-37 counts FP8
 * index keys, 3.85 and 5.51 KB: 16 more for each indexed layer); windows and partial states per sequence.
 */
static void state_is_that_of_the_specification(void **state) {
    (void)state;
    static const struct {
        const char *config;
        double token_bytes, with_fp8_keys, slot_bytes;
        int indexed;
    } models[] = {
        {"flash", 3514.25, 3850.25, 3289088 - 128 * 584 + 12206080, 21},
        {"pro", 5031.4375, 5511.4375, 4634624 - 128 * 584 + 18710528, 30},
    };
    for (size_t i = 0; i < 2; i++) {
        struct plan_fixture fixture;
        plan_fixture_open(&fixture, models[i].config, 0, "8x141GB", NULL);
        plan_fixture_make(&fixture, 1, 1, 1);
        double token_bytes = (double)fixture.plan.stages[0].page_bytes / (double)fixture.request.page_tokens;
        expect_near(token_bytes, models[i].token_bytes, 1e-9);
        expect_near(token_bytes + 16.0 * models[i].indexed, models[i].with_fp8_keys, 1e-9);
        expect_near((double)fixture.plan.stages[0].slot_bytes, models[i].slot_bytes, 1e-9);
        plan_fixture_close(&fixture);
    }
}

/* B.6: per token 0.92, 0.92, 1.10 and 0.91 KB over stages of 11, 11, 11 and 10 layers, with FP8 index keys.
 */
static void stages_grow_by_what_their_layers_keep(void **state) {
    (void)state;
    static const double expected[] = {0.92e3, 0.92e3, 1.10e3, 0.91e3};
    static const int indexed[] = {5, 5, 6, 5};
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8x141GB", NULL);
    fixture.request.layer_partition = "11,11,11,10";
    plan_fixture_make(&fixture, 1, 4, 1);
    for (int s = 0; s < 4; s++) {
        double bytes = (double)fixture.plan.stages[s].page_bytes / (double)fixture.request.page_tokens;
        expect_near(bytes + 16.0 * indexed[s], expected[s], 0.01);
    }
    assert_int_equal(fixture.plan.fullest_stage, 2);
    plan_fixture_close(&fixture);
}

/* Every rank's parts together are the checkpoint: replicated tensors once per rank, cut ones once in all
 * (T-5). */
static void parts_of_all_ranks_make_the_whole(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "pro", 0, "8x141GB", NULL);
    for (int tensor = 1; tensor <= 16; tensor *= 2) {
        for (int has_experts = 0; has_experts < 2; has_experts++) {
            const struct mesh_shape mesh = {1, 1, 1, tensor, has_experts == 1};
            uint64_t cut[PLAN_WEIGHTS_COUNT] = {0};
            struct plan_block whole;
            struct plan_block part;
            const struct shard_layout single = {.mesh = mesh_shape_single()};
            assert_int_equal(plan_block_make(&fixture.model, 4, &single, &whole), STATUS_OK);
            for (int rank = 0; rank < tensor; rank++) {
                const struct shard_layout layout = {.mesh = mesh, .place = mesh_place_of(&mesh, rank)};
                assert_int_equal(plan_block_make(&fixture.model, 4, &layout, &part), STATUS_OK);
                for (int kind = 0; kind < PLAN_WEIGHTS_COUNT; kind++) {
                    cut[kind] += part.weight_bytes[kind];
                }
            }
            assert_int_equal(cut[PLAN_EXPERTS], whole.weight_bytes[PLAN_EXPERTS]);
            assert_int_equal(cut[PLAN_SHARED_EXPERTS], whole.weight_bytes[PLAN_SHARED_EXPERTS]);
            assert_int_equal(cut[PLAN_ROUTERS], tensor * whole.weight_bytes[PLAN_ROUTERS]);
            assert_int_equal(cut[PLAN_COMPRESSORS], tensor * whole.weight_bytes[PLAN_COMPRESSORS]);
            /* wq_a, wkv and their norms on every rank. */
            uint64_t replicated = (1536 + 512) * 7168 + (12 + 4) * 56;
            assert_int_equal(cut[PLAN_ATTENTION],
                             whole.weight_bytes[PLAN_ATTENTION] + (uint64_t)(tensor - 1) * replicated);
        }
    }
    plan_fixture_close(&fixture);
}

/* The head over 8 ranks: 16192 rows each but the last; the embedding is whole on the first stage only. */
static void ends_hold_embedding_and_head(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "64xh200", NULL);
    plan_fixture_make(&fixture, 1, 3, 8);
    const struct plan_stage *stages = fixture.plan.stages;
    assert_int_equal(stages[0].weight_bytes[PLAN_EMBEDDING], 1059061760);
    assert_int_equal(stages[2].weight_bytes[PLAN_EMBEDDING], 0);
    assert_int_equal(stages[0].weight_bytes[PLAN_HEAD], 0);
    assert_int_equal(stages[1].weight_bytes[PLAN_HEAD], 0);
    assert_int_equal(stages[2].weight_bytes[PLAN_HEAD], (uint64_t)16192 * 4096 * 2);
    plan_fixture_close(&fixture);
}

/*
 * M-1, M-2, M-3, P-39, for Pro at 8192 tokens per step: others keep a copy of the streams, 448 MiB. Here
 * drafting off is nothing at all, and on it is weights, state, and two buffers of one row per sequence.
 */
static void drafting_costs_no_copy_of_the_streams(void **state) {
    (void)state;
    struct plan_fixture off;
    struct plan_fixture on;
    const uint64_t streams = 4 * 7168 * 2;
    plan_fixture_open(&off, "pro", 0, "64xh200", NULL);
    plan_fixture_open(&on, "pro", 3, "64xh200", NULL);
    for (int i = 0; i < 2; i++) {
        struct plan_fixture *fixture = i == 0 ? &off : &on;
        fixture->request.step_tokens = 8192;
        fixture->request.sequence_limit = 256;
        fixture->request.has_prefix_cache = false;
        fixture->request.layer_partition = "15,15,16,15";
        plan_fixture_make(fixture, 1, 4, 8);
    }
    for (int s = 0; s < 4; s++) {
        const struct plan_stage *without = &off.plan.stages[s];
        const struct plan_stage *with = &on.plan.stages[s];
        bool is_last = s == 3;
        assert_int_equal(without->draft_bytes, 0);
        assert_int_equal(without->weight_bytes[PLAN_DRAFT_LAYER], 0);
        assert_int_equal(without->weight_bytes[PLAN_DRAFT_EMBEDDING], 0);
        assert_int_equal(with->draft_bytes, is_last ? 2 * 256 * streams : 0);
        assert_int_equal(with->weight_bytes[PLAN_DRAFT_EMBEDDING], is_last ? (uint64_t)129280 * 7168 * 2 : 0);
        assert_true((with->weight_bytes[PLAN_DRAFT_LAYER] > 0) == is_last);
        assert_int_equal(with->boundary_bytes, without->boundary_bytes);
        /* The rotation: three buffers in the middle, two at the ends, of 448 MiB each and a header (A.1). */
        uint64_t buffers = s == 0 || is_last ? 2 : 3;
        assert_int_equal(without->boundary_bytes, buffers * (448 * 1048576 + 64));
    }
    /* 14.7 MB each. */
    expect_near((double)on.plan.stages[3].draft_bytes / 2, 14.7e6, 0.01);
    /* S-11: where ranks share rows, the streams are divided by T. */
    off.request.has_sequence_parallelism = true;
    plan_fixture_make(&off, 1, 4, 8);
    assert_int_equal(off.plan.stages[1].boundary_bytes, 3 * (448 * 1048576 / 8 + 64));
    plan_fixture_close(&off);
    plan_fixture_close(&on);
}

/* Passes of the draft layer use the step's memory and need more only where they are larger. */
static void draft_passes_share_the_step(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 1, "8xh200", NULL);
    fixture.step = (struct plan_step_bytes){.embedding = 64, .layers = 1024, .head = 512, .draft = 640};
    plan_fixture_make(&fixture, 1, 2, 1);
    assert_int_equal(fixture.plan.stages[0].step_bytes, 1024);
    assert_int_equal(fixture.plan.stages[1].step_bytes, 1024);
    fixture.step.draft = 1536;
    fixture.step.embedding = 1280;
    plan_fixture_make(&fixture, 1, 2, 1);
    assert_int_equal(fixture.plan.stages[0].step_bytes, 1280);
    assert_int_equal(fixture.plan.stages[1].step_bytes, 1536);
    plan_fixture_close(&fixture);
}

/* More room means more pages, and sessions take their pages and their slot. */
static void capacity_is_what_is_left(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8x141GB", NULL);
    fixture.request.sequence_limit = 16;
    plan_fixture_make(&fixture, 1, 2, 1);
    const struct plan_stage *stage = &fixture.plan.stages[fixture.plan.fullest_stage];
    uint64_t usable = plan_usable_bytes(&fixture.machine);
    assert_int_equal(usable, (uint64_t)(141e9 * 0.9));
    assert_true(fixture.plan.fits);
    assert_int_equal(fixture.plan.token_capacity, (usable - stage->fixed_bytes) / stage->page_bytes * 128);
    int64_t short_sessions = plan_sessions(&fixture.plan, 4096);
    int64_t long_sessions = plan_sessions(&fixture.plan, 131072);
    assert_true(short_sessions > long_sessions && long_sessions > 0);
    for (int s = 0; s < 2; s++) {
        stage = &fixture.plan.stages[s];
        uint64_t fixed = stage->fixed_bytes - 16 * stage->slot_bytes;
        uint64_t each = stage->slot_bytes + 1024 * stage->page_bytes;
        assert_true(fixed + (uint64_t)long_sessions * each <= usable);
    }
    plan_fixture_close(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_holds_the_whole_checkpoint),
        cmocka_unit_test(kinds_are_those_of_the_specification),
        cmocka_unit_test(state_is_that_of_the_specification),
        cmocka_unit_test(stages_grow_by_what_their_layers_keep),
        cmocka_unit_test(parts_of_all_ranks_make_the_whole),
        cmocka_unit_test(ends_hold_embedding_and_head),
        cmocka_unit_test(drafting_costs_no_copy_of_the_streams),
        cmocka_unit_test(draft_passes_share_the_step),
        cmocka_unit_test(capacity_is_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
