/*
 * Refusals of spec parallelism 6.5, by their codes, and what is only noted: CFG-01 to CFG-07, CFG-09,
 * CFG-10, CFG-14 with S-30, CFG-15, CFG-16, CFG-17, CFG-20.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/partition.h"
#include "tools/plan_check.h"
#include "tools/plan_fixture.h"
#include "tools/plan_memory.h"

#define REFUSE(fixture, ...) plan_fixture_refuse((fixture), (const char *const[]){__VA_ARGS__, NULL})

/* Sets a mesh on a machine of as many ranks. */
static void set_mesh(struct plan_fixture *fixture, int data, int pipeline, int tensor) {
    fixture->request.mesh = (struct mesh_shape){data, pipeline, 1, tensor, data * tensor > 1};
    fixture->machine.host_count = 1;
    fixture->machine.devices_per_host = data * pipeline * tensor;
}

static void cfg_01_ranks_and_devices(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.mesh = (struct mesh_shape){2, 3, 1, 4, true};
    REFUSE(&fixture, "2 data", "3 pipeline", "1 context", "4 tensor", "are 24", "8 devices");
    /* More than fits into 32 bits. */
    fixture.request.mesh = (struct mesh_shape){4096, 4096, 1, 4096, true};
    REFUSE(&fixture, "are 68719476736", "8 devices");
    plan_fixture_close(&fixture);
}

static void cfg_02_03_tensor_sizes(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    assert_int_equal(fixture.model.head_count, 64);
    assert_int_equal(fixture.model.group_count, 8);
    set_mesh(&fixture, 1, 1, 3);
    REFUSE(&fixture, "64 attention heads", "tensor parallel size 3", "1, 2, 4, 8");
    set_mesh(&fixture, 1, 1, 16);
    REFUSE(&fixture, "8 output groups", "o_groups", "tensor parallel size 16", "1, 2, 4, 8");
    plan_fixture_close(&fixture);
    plan_fixture_open(&fixture, "pro", 0, "8xh200", NULL);
    plan_fixture_make(&fixture, 1, 1, 16);
    set_mesh(&fixture, 1, 1, 32);
    REFUSE(&fixture, "16 output groups", "tensor parallel size 32");
    plan_fixture_close(&fixture);
}

static void cfg_04_05_stages(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    set_mesh(&fixture, 1, 45, 1);
    REFUSE(&fixture, "45 pipeline stages", "43 layers", "44");
    plan_fixture_make(&fixture, 1, 44, 1);
    set_mesh(&fixture, 1, 4, 1);
    fixture.request.layer_partition = "12,12,12";
    REFUSE(&fixture, "\"12,12,12\"", "3 numbers", "4 stages");
    fixture.request.layer_partition = "12,12,12,8";
    REFUSE(&fixture, "\"12,12,12,8\"", "44 layers", "expected 43");
    plan_fixture_close(&fixture);
}

/* P-8: layers that a model declares to need each other. */
static void cfg_06_dependent_layers(void **state) {
    (void)state;
    static const struct partition_dependency pair = {.earlier_layer = 11, .later_layer = 12};
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.model.model->dependencies = &pair;
    fixture.model.model->dependency_count = 1;
    set_mesh(&fixture, 1, 4, 1);
    fixture.request.layer_partition = "12,12,12,7";
    REFUSE(&fixture, "before layer 12", "layer 11");
    fixture.request.layer_partition = NULL;
    plan_fixture_make(&fixture, 1, 4, 1);
    for (int s = 1; s < 4; s++) {
        assert_int_not_equal(fixture.plan.first_layers[s], 12);
    }
    plan_fixture_close(&fixture);
}

/* Heads of 64 are half a block: two ranks with one head each would share it. */
static void cfg_07_blocks(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    for (size_t i = 0; i < fixture.model.blocks[0].count; i++) {
        struct tensor_spec *spec = &fixture.model.specs[fixture.model.blocks[0].first + i];
        if (strstr(spec->name, "attn.wq_b.weight") != NULL) {
            spec->shape[0] = 64 * 8;
            spec->placement_unit = 64;
        }
    }
    set_mesh(&fixture, 1, 1, 4);
    plan_fixture_make(&fixture, 1, 1, 4);
    set_mesh(&fixture, 1, 1, 8);
    REFUSE(&fixture, "layers.0.attn.wq_b.weight", "4 blocks", "tensor parallel size 8");
    plan_fixture_close(&fixture);
}

static void cfg_09_more_ranks_than_experts(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    set_mesh(&fixture, 257, 1, 1);
    REFUSE(&fixture, "257 ranks", "a layer has 256", "redundant");
    /* A copy of one of them is enough (E-1). */
    fixture.request.has_movable_experts = true;
    fixture.request.expert_copies = 1;
    plan_fixture_make(&fixture, 257, 1, 1);
    fixture.request.has_movable_experts = false;
    set_mesh(&fixture, 257, 1, 1);
    REFUSE(&fixture, "257 ranks", "a layer has 256", "redundant");
    plan_fixture_make(&fixture, 256, 1, 1);
    plan_fixture_close(&fixture);
}

/* The drafter of the later Flash is another type; it can be planned without. */
static void cfg_10_other_drafters(void **state) {
    (void)state;
    struct plan_model model;
    char path[256];
    snprintf(path, sizeof path, "%s/tests/golden/configs/flash-0731.json", SLUICE_SOURCE_DIR);
    assert_int_not_equal(plan_model_read(path, NULL, 2, &model), STATUS_OK);
    assert_non_null(strstr(error_last()->message, "DSpark"));
    assert_non_null(strstr(error_last()->message, path));
    plan_model_deinit(&model);
    assert_int_equal(plan_model_read(path, NULL, 0, &model), STATUS_OK);
    plan_model_deinit(&model);
}

static void cfg_14_context_parallelism(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.mesh = (struct mesh_shape){1, 1, 8, 1, true};
    REFUSE(&fixture, "context parallelism", "8");
    plan_fixture_close(&fixture);
}

static void cfg_15_memory(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "1x80GB", NULL);
    plan_fixture_make(&fixture, 1, 1, 1);
    assert_false(fixture.plan.fits);
    assert_int_equal(fixture.plan.token_capacity, 0);
    assert_int_equal(plan_sessions(&fixture.plan, 4096), 0);
    assert_int_equal(plan_check_memory(&fixture.plan), STATUS_OUT_OF_MEMORY);
    static const char *const words[] = {"stage 0", "weights 156.02", "72.00 of 80.00",
                                        "state of all sequences"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strstr(error_last()->message, words[i]) == NULL) {
            fail_msg("\"%s\" is not in: %s", words[i], error_last()->message);
        }
    }
    plan_fixture_make(&fixture, 1, 3, 1);
    assert_true(fixture.plan.fits);
    assert_int_equal(plan_check_memory(&fixture.plan), STATUS_OK);
    plan_fixture_close(&fixture);
}

static void cfg_16_pages(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    set_mesh(&fixture, 1, 8, 1);
    fixture.request.page_tokens = 64;
    REFUSE(&fixture, "--block-size) is 64", "128");
    plan_fixture_close(&fixture);
}

static void expect_note(const struct plan *plan, const char *text, bool is_there) {
    struct string_buffer notes = {0};
    plan_append_warnings(plan, &notes);
    if ((strstr(string_buffer_text(&notes), text) != NULL) != is_there) {
        fail_msg("\"%s\": %s", text, string_buffer_text(&notes));
    }
    string_buffer_deinit(&notes);
}

static void cfg_17_groups_and_buffers(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    set_mesh(&fixture, 1, 3, 1);
    fixture.request.groups_in_flight = 2;
    fixture.request.boundary_buffers = 2;
    REFUSE(&fixture, "2 boundary buffers", "2 groups", "3 stages");
    plan_fixture_make(&fixture, 1, 2, 1);
    fixture.request.boundary_buffers = 3;
    fixture.request.sequence_limit = 8;
    plan_fixture_make(&fixture, 1, 3, 1);
    expect_note(&fixture.plan, "2 groups in flight cannot fill 3 stages (3 boundary buffers)", true);
    fixture.request.groups_in_flight = 4;
    plan_fixture_make(&fixture, 1, 3, 1);
    expect_note(&fixture.plan, "groups in flight", false);
    plan_fixture_close(&fixture);
}

/* Sums of the cpu backend are the same on 2, 4, 8 and 16 ranks, not on 3. */
static void cfg_20_sums_on_other_numbers_of_ranks(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.model.head_count = 6;
    fixture.model.group_count = 6;
    set_mesh(&fixture, 1, 1, 3);
    REFUSE(&fixture, "cpu backend", "tensor parallelism of 3", "-tp 2");
    plan_fixture_close(&fixture);
}

/* P-28, G-20. */
static void notes_say_what_is_odd(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.layer_partition = "2,41";
    plan_fixture_make(&fixture, 1, 2, 8);
    expect_note(&fixture.plan, "stage 1 begins inside the 3 layers", true);
    expect_note(&fixture.plan, "1 sequences cannot fill 2 stages", true);
    fixture.request.layer_partition = "20,23";
    fixture.request.sequence_limit = 2;
    plan_fixture_make(&fixture, 1, 2, 1);
    expect_note(&fixture.plan, "begins inside", false);
    expect_note(&fixture.plan, "cannot fill", false);
    expect_note(&fixture.plan, "shared expert", false);
    plan_fixture_close(&fixture);
}

/*
 * G-5: with one key-value head the ranks of a tensor group all hold the whole state. On 8 devices of 180 GB
 * V4-Flash as 8 replicas that share experts was found to hold 7.7 times the tokens. The advice promises what
 * the plan of that layout has, and is not given where tensor parallelism saves more weights than it repeats
 * state.
 */
static void replicas_are_advised_where_they_hold_more(void **state) {
    (void)state;
    struct plan_fixture fixture;
    char promise[128];
    plan_fixture_open(&fixture, "flash", 0, "8x180GB", NULL);
    fixture.request.sequence_limit = 1;
    plan_fixture_make(&fixture, 8, 1, 1);
    int64_t as_replicas = 8 * fixture.plan.token_capacity;
    expect_note(&fixture.plan, "key-value", false);
    fixture.request.sequence_limit = 8;
    plan_fixture_make(&fixture, 1, 1, 8);
    int64_t tokens = fixture.plan.token_capacity;
    assert_true(as_replicas * 100 >= tokens * 765 && as_replicas * 100 <= tokens * 775);
    snprintf(promise, sizeof promise, "-dp 8 -tp 1 --ep would hold %lld tokens in all instead of %lld",
             (long long)as_replicas, (long long)tokens);
    expect_note(&fixture.plan, "all 8 tensor parallel ranks hold the same key-value state", true);
    expect_note(&fixture.plan, promise, true);
    /* Not every one of 512 replicas would have an expert. */
    fixture.plan.request.mesh.data = 64;
    expect_note(&fixture.plan, "key-value", false);
    plan_fixture_close(&fixture);
    /* What one device has left besides all of attention and the shared experts is less than an 8th of what it
       has left besides an 8th of them. */
    plan_fixture_open(&fixture, "pro", 0, "8x148GB", NULL);
    plan_fixture_make(&fixture, 8, 1, 1);
    as_replicas = 8 * fixture.plan.token_capacity;
    plan_fixture_make(&fixture, 1, 1, 8);
    assert_true(as_replicas > 0 && as_replicas < fixture.plan.token_capacity);
    expect_note(&fixture.plan, "key-value", false);
    plan_fixture_close(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cfg_01_ranks_and_devices),
        cmocka_unit_test(cfg_02_03_tensor_sizes),
        cmocka_unit_test(cfg_04_05_stages),
        cmocka_unit_test(cfg_06_dependent_layers),
        cmocka_unit_test(cfg_07_blocks),
        cmocka_unit_test(cfg_09_more_ranks_than_experts),
        cmocka_unit_test(cfg_10_other_drafters),
        cmocka_unit_test(cfg_14_context_parallelism),
        cmocka_unit_test(cfg_15_memory),
        cmocka_unit_test(cfg_16_pages),
        cmocka_unit_test(cfg_17_groups_and_buffers),
        cmocka_unit_test(cfg_20_sums_on_other_numbers_of_ranks),
        cmocka_unit_test(notes_say_what_is_odd),
        cmocka_unit_test(replicas_are_advised_where_they_hold_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
