/* Bytes on links and predicted times, against the tables and examples of spec parallelism. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/stage_point.h"
#include "parallel/sharing_choice.h"
#include "tools/plan_fixture.h"
#include "tools/plan_sharing.h"
#include "tools/plan_speed.h"
#include "tools/plan_traffic.h"

static void expect_near(double actual, double expected, double tolerance) {
    if (!(fabs(actual - expected) <= tolerance * fabs(expected))) {
        fail_msg("%g instead of %g", actual, expected);
    }
}

/* 3.4: remote ranks that a token's experts are expected on. */
static void remote_ranks_are_those_of_the_table(void **state) {
    (void)state;
    expect_near(sharing_remote_ranks(8, 6), 3.86, 0.002);
    expect_near(sharing_remote_ranks(8, 8), 4.59, 0.002);
    assert_true(sharing_remote_ranks(1, 6) == 0.0);
    /* E-9: what strict results cost over one row per rank. */
    expect_near(6.0 * 7 / 8 / sharing_remote_ranks(8, 6), 1.36, 0.005);
    expect_near(6.0 * 15 / 16 / sharing_remote_ranks(16, 6), 1.17, 0.005);
}

/*
 * 3.4: for T=8, k=6, with bf16 sums and rows in fp8 to their experts: 3.5 nB per MoE layer without and 2.47
 * nB with sequence parallelism; picks are no part of the table.
 */
static void layers_send_what_the_table_says(void **state) {
    (void)state;
    const double nb = 100.0 * 4096 * 2;
    struct plan_traffic_input input = {.mesh = {1, 1, 1, 8, true},
                                       .shares_rows = true,
                                       .exchange = EXPERT_EXCHANGE_DISPATCH,
                                       .rows = 100,
                                       .hidden_size = 4096,
                                       .attention_row_bytes = 8192,
                                       .expert_picks = 6,
                                       .activation_bytes = 2,
                                       .partial_bytes = 2,
                                       .dispatch_bytes = 1,
                                       .combine_bytes = 2};
    struct plan_traffic traffic = plan_traffic_make(&input);
    expect_near(traffic.attention_bytes, 1.75 * nb, 1e-12);
    expect_near(traffic.shared_bytes, 1.75 * nb, 1e-12);
    expect_near(traffic.attention_bytes + traffic.dispatch_bytes + traffic.combine_bytes, 2.47 * nb, 0.002);
    assert_true(traffic.boundary_bytes == 0.0);
    /* An id and a weight for each of 6 picks of the own rows, to 7 others. */
    expect_near(traffic.route_bytes, 100.0 / 8 * 7 * 6 * 8, 1e-12);
    /* 5.2: AG/RS sends rows to all others. */
    input.exchange = EXPERT_EXCHANGE_GATHER;
    expect_near(plan_traffic_make(&input).dispatch_bytes, 7 * 100.0 / 8 * 4096, 1e-12);
    /* Strict: 6 results of a row return, an eighth of them from its own rank, in fp32. */
    input.is_strict = true;
    input.combine_bytes = 4;
    traffic = plan_traffic_make(&input);
    expect_near(traffic.combine_bytes, 100.0 / 8 * 6 * 7 / 8 * 4096 * 4, 1e-12);
    /* 3.5: shared experts that are whole need nobody. */
    input.has_whole_shared_experts = true;
    assert_true(plan_traffic_make(&input).shared_bytes == 0.0);
    input.is_strict = false;
    input.combine_bytes = 2;
    /* Experts cut inside, pre-summed: gather and scatter once more, 3.5 nB. */
    input.mesh.has_expert_parallelism = false;
    input.dispatch_bytes = 2;
    traffic = plan_traffic_make(&input);
    expect_near(traffic.attention_bytes + traffic.dispatch_bytes + traffic.combine_bytes, 3.5 * nb, 1e-12);
    /* Strict: one partial sum per token and expert. */
    input.is_strict = true;
    traffic = plan_traffic_make(&input);
    expect_near(traffic.dispatch_bytes + traffic.combine_bytes, (0.875 + 6 * 0.875) * nb, 1e-12);
    input.mesh.tensor = 1;
    traffic = plan_traffic_make(&input);
    assert_true(traffic.attention_bytes + traffic.dispatch_bytes + traffic.combine_bytes == 0.0);
}

/* 3.4, the first column: an all-reduce is a scattered sum and a gather of what it gave. */
static void unshared_rows_are_summed_twice_as_far(void **state) {
    (void)state;
    const double nb = 100.0 * 4096 * 2;
    struct plan_traffic_input input = {.mesh = {1, 1, 1, 8, false},
                                       .is_strict = true,
                                       .rows = 100,
                                       .hidden_size = 4096,
                                       .expert_picks = 6,
                                       .activation_bytes = 2,
                                       .partial_bytes = 2,
                                       .combine_bytes = 2};
    struct plan_traffic traffic = plan_traffic_make(&input);
    expect_near(traffic.attention_bytes, 1.75 * nb, 1e-12);
    expect_near(traffic.shared_bytes, 1.75 * nb, 1e-12);
    expect_near(traffic.combine_bytes, 6 * 1.75 * nb, 1e-12);
    assert_true(traffic.dispatch_bytes + traffic.route_bytes == 0.0);
    /* Whole experts: every result goes to all, from the one rank that has it. */
    input.mesh.has_expert_parallelism = true;
    expect_near(plan_traffic_make(&input).combine_bytes, 6 * 0.875 * nb, 1e-12);
}

/* B.3: V4-Pro, T=4, 4096 rows: 58.7 MB on each link, where ranks share rows; else each sends all. */
static void boundaries_are_those_of_the_example(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "pro", 0, "8xh200", NULL);
    for (int sp = 0; sp < 2; sp++) {
        fixture.request.has_sequence_parallelism = sp == 1;
        plan_fixture_make(&fixture, 1, 2, 4);
        struct plan_traffic_input input = plan_traffic_input_of(&fixture.plan, 4096, 1);
        struct plan_traffic traffic = plan_traffic_make(&input);
        expect_near(traffic.boundary_bytes, sp == 1 ? 58.7e6 : 4 * 58.7e6, 0.001);
        /* P-9: 57,344 bytes per token. */
        assert_true(input.boundary_row_bytes == 57344.0);
    }
    plan_fixture_close(&fixture);
}

/* S-28: a step of few rows is not shared, and 4 rows per rank are enough. */
static void few_rows_are_not_shared(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "pro", 0, "8xh200", NULL);
    fixture.request.has_sequence_parallelism = true;
    plan_fixture_make(&fixture, 1, 2, 4);
    assert_false(plan_traffic_input_of(&fixture.plan, 15, 1).shares_rows);
    assert_true(plan_traffic_input_of(&fixture.plan, 16, 1).shares_rows);
    fixture.request.has_sequence_parallelism = false;
    plan_fixture_make(&fixture, 1, 2, 4);
    assert_false(plan_traffic_input_of(&fixture.plan, 4096, 1).shares_rows);
    plan_fixture_close(&fixture);
}

/* 3.6: bytes per token of a late gather in V4-Pro and V4-Flash, layers of each ratio; 3.7: chosen entries. */
static void rows_for_attention_are_those_of_the_table(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int layer;
        size_t hidden, projected, chosen;
    } rows[] = {{"pro", 3, 14336, 8192, 0},
                {"pro", 2, 14336, 4096 + (2048 + 512) * 4, 4096},
                {"flash", 3, 8192, 7168, 0},
                {"flash", 0, 8192, 3072, 0},
                {"flash", 2, 8192, 3072 + (2048 + 512) * 4, 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct plan_fixture fixture;
        struct attention_rows actual;
        plan_fixture_open(&fixture, rows[i].config, 0, "8xh200", NULL);
        const struct model *model = fixture.model.model;
        model->family->describe_attention_rows(model, DTYPE_BF16, rows[i].layer, &actual);
        assert_int_equal(actual.hidden_bytes, rows[i].hidden);
        assert_int_equal(actual.projected_bytes, rows[i].projected);
        assert_int_equal(actual.chosen_bytes, rows[i].chosen);
        plan_fixture_close(&fixture);
    }
}

/* The same for each kind of V4-Flash's layers (B.2: 2 window-only, 21 indexed, 20 others), as was asked for.
 */
static void every_kind_of_layers_says_what_it_gathers(void **state) {
    (void)state;
    static const struct plan_gather kinds[] = {
        {0, 2, true, 8192, 3072, 0, 2.0 * 4096 * 1536},
        {2, 21, true, 8192, 13312, 2048, 2.0 * 4096 * (1536 + 2048 + 512)},
        {3, 20, true, 8192, 7168, 0, 2.0 * 4096 * (1536 + 1024)}};
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    const struct model *model = fixture.model.model;
    fixture.request.mesh.tensor = 4;
    fixture.request.has_sequence_parallelism = true;
    for (int late = 0; late < 2; late++) {
        struct plan_gather gather = {0};
        fixture.request.row_gather = late ? SLUICE_ROW_GATHER_LATE : SLUICE_ROW_GATHER_EARLY;
        for (int i = 0; i < 3; i++) {
            assert_true(plan_next_gather(model, &fixture.request, &gather));
            assert_int_equal(gather.first_layer, kinds[i].first_layer);
            assert_int_equal(gather.layer_count, kinds[i].layer_count);
            assert_int_equal(gather.is_late, late);
            assert_int_equal(gather.early_bytes, kinds[i].early_bytes);
            assert_int_equal(gather.late_bytes, kinds[i].late_bytes);
            assert_int_equal(gather.chosen_bytes, kinds[i].chosen_bytes);
            assert_true(gather.operations == kinds[i].operations);
        }
        assert_false(plan_next_gather(model, &fixture.request, &gather));
    }
    struct plan_gather none = {0};
    fixture.request.has_sequence_parallelism = false;
    assert_false(plan_next_gather(model, &fixture.request, &none));
    plan_fixture_close(&fixture);
}

/*
 * S-15: V4-Flash's indexed layers gather early where a million operations take longer than 152.6 bytes, all
 * others late; V4-Pro's all late. Of the machine it is the link that the tensor group uses.
 */
static void each_kind_of_layers_gathers_as_is_faster(void **state) {
    (void)state;
    static const struct {
        const char *config;
        double link, network;
        int tensor;
        int early_layers;
    } cases[] = {{"flash", 153e6, 1e6, 4, 0},
                 {"flash", 152e6, 1e12, 4, 21},
                 {"flash", 1e12, 152e6, 8, 21}, /* on two hosts */
                 {"flash", 1e6, 153e6, 8, 0},
                 {"pro", 1e3, 1e3, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct plan_fixture fixture;
        struct plan_gather gather = {0};
        int early = 0;
        plan_fixture_open(&fixture, cases[i].config, 0, "4xh200", "2");
        struct device_profile *device = &fixture.machine.device;
        device->operations_per_second = 1e12;
        device->compute_share = 1.0;
        device->link_bytes_per_second = cases[i].link;
        device->network_bytes_per_second = cases[i].network;
        fixture.request.mesh = (struct mesh_shape){8 / cases[i].tensor, 1, 1, cases[i].tensor, true};
        fixture.request.has_sequence_parallelism = true;
        fixture.request.rates = plan_sharing_rates(&fixture.machine, &fixture.request.mesh);
        while (plan_next_gather(fixture.model.model, &fixture.request, &gather)) {
            early += gather.is_late ? 0 : gather.layer_count;
            assert_true(gather.is_late || gather.first_layer == 2);
        }
        assert_int_equal(early, cases[i].early_layers);
        plan_fixture_close(&fixture);
    }
}

/*
 * S-15: a prompt's step is never predicted to take longer with what is chosen than with either way in all
 * layers. Late, a rank of T projects what it has of the rows.
 */
static void what_is_chosen_is_predicted_to_be_fastest(void **state) {
    (void)state;
    static const double links[] = {1e9, 50e9, 450e9};
    double seconds[3][3];
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.has_sequence_parallelism = true;
    fixture.request.step_tokens = 8192;
    for (int i = 0; i < 3; i++) {
        fixture.machine.device.link_bytes_per_second = links[i];
        for (int gather = SLUICE_ROW_GATHER_AUTO; gather <= SLUICE_ROW_GATHER_LATE; gather++) {
            fixture.request.row_gather = (enum sluice_row_gather)gather;
            plan_fixture_make(&fixture, 1, 1, 8);
            seconds[i][gather] = fixture.plan.stages[0].prefill.total;
        }
        double early = seconds[i][SLUICE_ROW_GATHER_EARLY];
        double late = seconds[i][SLUICE_ROW_GATHER_LATE];
        assert_true(seconds[i][SLUICE_ROW_GATHER_AUTO] <= (early < late ? early : late));
    }
    /* 2 window-only layers, 21 indexed and 20 others: bytes of a row more, and operations that are spared. */
    const struct device_profile *device = &fixture.machine.device;
    double share = 8192 * 7.0 / 8;
    double sent = 2 * (8192.0 - 3072) + 21 * (8192.0 - 13312) + 20 * (8192.0 - 7168);
    double spared = 2 * 4096.0 * (2 * 1536 + 21 * 4096.0 + 20 * 2560);
    double gain = seconds[2][SLUICE_ROW_GATHER_EARLY] - seconds[2][SLUICE_ROW_GATHER_LATE];
    expect_near(gain,
                share * (sent / links[2] + spared / (device->operations_per_second * device->compute_share)),
                1e-6);
    plan_fixture_close(&fixture);
}

/*
 * S-15's variant: rows gathered once in fp8 with their scales, 1.03 bytes of an element. Where all that takes
 * them is fp8, in window-only layers, which the draft layer is too, late sends fewer bytes even so.
 */
static void rows_in_fp8_are_more_than_window_only_layers_send(void **state) {
    (void)state;
    static const struct {
        const char *config;
        int layer;
        size_t late;
    } layers[] = {{"flash", 0, 3072}, {"flash", 43, 3072}, {"pro", 61, 4096}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        struct plan_fixture fixture;
        struct attention_rows rows;
        plan_fixture_open(&fixture, layers[i].config, 0, "8xh200", NULL);
        const struct model *model = fixture.model.model;
        model->family->describe_attention_rows(model, DTYPE_BF16, layers[i].layer, &rows);
        assert_int_equal(rows.projected_bytes, layers[i].late);
        assert_true((double)rows.projected_bytes < 1.03 * (double)model->hidden_size);
        plan_fixture_close(&fixture);
    }
}

/* A machine whose only limit is reading, one byte per second. */
static void read_only(struct plan_machine *machine) {
    machine->device.read_bytes_per_second = 1.0;
    machine->device.read_share = 1.0;
    machine->device.operations_per_second = 1e30;
    machine->device.link_bytes_per_second = 1e30;
    machine->device.network_bytes_per_second = 1e30;
    machine->device.link_latency_seconds = 0.0;
    machine->device.network_latency_seconds = 0.0;
}

/*
 * P-7: V4-Flash at batch 1 reads 0.23 GB a layer and 1.06 for the head; over 4 stages 12,12,12,7, with one
 * draft 13,13,14,3, at batch 256 11,11,11,10.
 */
static void stages_balance_as_in_the_example(void **state) {
    (void)state;
    static const struct {
        int drafts, sequences;
        int layers[4];
    } points[] = {{0, 1, {12, 12, 12, 7}}, {0, 1024, {11, 11, 11, 10}}};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        struct plan_fixture fixture;
        plan_fixture_open(&fixture, "flash", points[i].drafts, "8xh200", NULL);
        read_only(&fixture.machine);
        fixture.request.sequence_limit = points[i].sequences;
        fixture.request.step_tokens = 1024;
        fixture.request.context_tokens = 256;
        plan_fixture_make(&fixture, 1, 4, 1);
        for (int s = 0; s < 4; s++) {
            const struct plan_stage *stage = &fixture.plan.stages[s];
            assert_int_equal(stage->end_layer - stage->first_layer, points[i].layers[s]);
        }
        plan_fixture_close(&fixture);
    }
}

static void layers_and_head_take_what_they_read(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    read_only(&fixture.machine);
    fixture.machine.device.memory_bytes = 1e12;
    fixture.request.context_tokens = 256;
    fixture.request.layer_partition = "42,1";
    plan_fixture_make(&fixture, 1, 2, 1);
    expect_near(fixture.plan.stages[0].decode.total / 42, 0.23e9, 0.05);
    expect_near(fixture.plan.stages[1].decode.total, 0.23e9 + 1.06e9, 0.02);
    fixture.request.sequence_limit = 512;
    fixture.request.step_tokens = 512;
    plan_fixture_make(&fixture, 1, 2, 1);
    /* At batch 256 a layer reads all of its experts. */
    expect_near(fixture.plan.stages[0].decode.total / 42, 3.6e9, 0.02);
    plan_fixture_close(&fixture);
    /* One draft: a layer of the draft layer's, its projections, and the head again (M-31): 1.3 GB. */
    plan_fixture_open(&fixture, "flash", 1, "8xh200", NULL);
    read_only(&fixture.machine);
    fixture.machine.device.memory_bytes = 1e12;
    fixture.request.context_tokens = 256;
    fixture.request.layer_partition = "43,0";
    plan_fixture_make(&fixture, 1, 2, 1);
    expect_near(fixture.plan.stages[1].decode.total, 1.06e9 + 1.3e9, 0.03);
    plan_fixture_close(&fixture);
}

/* Cycles: the slowest stage as often as there are groups, or all stages one after the other. */
static void cycles_follow_the_slowest_stage(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.sequence_limit = 8;
    plan_fixture_make(&fixture, 1, 4, 1);
    double slowest = 0.0;
    double sum = 0.0;
    for (int s = 0; s < 4; s++) {
        double seconds = fixture.plan.stages[s].decode.total;
        slowest = seconds > slowest ? seconds : slowest;
        sum += seconds + fixture.plan.decode_hop_seconds;
    }
    double cycle = 4 * slowest > sum ? 4 * slowest : sum;
    expect_near(fixture.plan.speed.cycle_seconds, cycle, 1e-12);
    expect_near(fixture.plan.speed.tokens_per_second, 8 / cycle, 1e-12);
    assert_true(fixture.plan.imbalance >= 1.0);
    expect_near(fixture.plan.imbalance, slowest * 4 / (sum - 4 * fixture.plan.decode_hop_seconds), 1e-9);
    fixture.request.sequence_limit = 1;
    plan_fixture_make(&fixture, 1, 4, 1);
    assert_int_equal(plan_groups_in_flight(&fixture.plan, 1), 1);
    /* Two replicas of the same work give twice the tokens, if they share no experts. */
    double alone = fixture.plan.speed.tokens_per_second;
    plan_fixture_make(&fixture, 2, 4, 1);
    assert_true(fixture.plan.speed.tokens_per_second < 2 * alone * 1.2);
    plan_fixture_close(&fixture);
}

/* P-38, and its counterpart for prompts: each objective is served best by its own partition. */
static void partitions_serve_their_objective(void **state) {
    (void)state;
    struct plan_fixture fixture;
    double decode[3];
    double prefill[3];
    int64_t tokens[3];
    plan_fixture_open(&fixture, "flash", 1, "8xh200", NULL);
    fixture.request.chooses_drafts = true;
    for (int i = 0; i < 3; i++) {
        fixture.request.objective = (enum sluice_stage_objective)i;
        plan_fixture_make(&fixture, 1, 4, 1);
        decode[i] = fixture.plan.speed.tokens_per_second;
        prefill[i] = fixture.plan.speed.prefill_tokens_per_second;
        tokens[i] = fixture.plan.token_capacity;
        assert_true(fixture.plan.fits);
    }
    assert_true(prefill[SLUICE_STAGES_FOR_PREFILL] > 1.05 * prefill[SLUICE_STAGES_FOR_DECODE]);
    assert_true(prefill[SLUICE_STAGES_FOR_PREFILL] >= prefill[SLUICE_STAGES_FOR_STATE]);
    assert_true(decode[SLUICE_STAGES_FOR_DECODE] >= decode[SLUICE_STAGES_FOR_PREFILL]);
    assert_true(tokens[SLUICE_STAGES_FOR_STATE] >= tokens[SLUICE_STAGES_FOR_DECODE]);
    assert_true(tokens[SLUICE_STAGES_FOR_STATE] >= tokens[SLUICE_STAGES_FOR_PREFILL]);
    plan_fixture_close(&fixture);
}

/* Slow links make a layout slower, and by what they carry. */
static void links_take_their_time(void **state) {
    (void)state;
    struct plan_fixture fixture;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    plan_fixture_make(&fixture, 1, 1, 8);
    assert_true(fixture.plan.is_group_local[MESH_GROUP_TENSOR]);
    double fast = fixture.plan.stages[0].decode.link;
    fixture.machine.device.link_bytes_per_second /= 1000.0;
    plan_fixture_make(&fixture, 1, 1, 8);
    const struct plan_traffic *traffic = &fixture.plan.decode_traffic;
    double bytes = 43 * (traffic->attention_bytes + traffic->shared_bytes + traffic->route_bytes +
                         traffic->dispatch_bytes + traffic->combine_bytes) +
                   traffic->logit_bytes;
    expect_near(fixture.plan.stages[0].decode.link - fast, 0.999 * bytes / 450e6, 1e-6);
    /* 16 ranks of a tensor group in hosts of 8 need the network. */
    fixture.machine = plan_machine_scale(&fixture.machine, 8);
    plan_fixture_make(&fixture, 4, 1, 4);
    assert_true(fixture.plan.is_group_local[MESH_GROUP_TENSOR]);
    assert_false(fixture.plan.is_group_local[MESH_GROUP_EXPERT]);
    assert_true(fixture.plan.is_group_local[MESH_GROUP_PIPELINE]);
    plan_fixture_close(&fixture);
}

/* 4.7: 0.77 and 0.38 of the first and second draft. */
static void drafts_bring_what_was_reported(void **state) {
    (void)state;
    expect_near(stage_point_tokens(0), 1.0, 1e-12);
    expect_near(stage_point_tokens(1), 1.77, 1e-12);
    expect_near(stage_point_tokens(2), 2.15, 1e-12);
    assert_true(stage_point_tokens(16) < 2.6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote_ranks_are_those_of_the_table),
        cmocka_unit_test(layers_send_what_the_table_says),
        cmocka_unit_test(unshared_rows_are_summed_twice_as_far),
        cmocka_unit_test(boundaries_are_those_of_the_example),
        cmocka_unit_test(few_rows_are_not_shared),
        cmocka_unit_test(rows_for_attention_are_those_of_the_table),
        cmocka_unit_test(every_kind_of_layers_says_what_it_gathers),
        cmocka_unit_test(each_kind_of_layers_gathers_as_is_faster),
        cmocka_unit_test(what_is_chosen_is_predicted_to_be_fastest),
        cmocka_unit_test(rows_in_fp8_are_more_than_window_only_layers_send),
        cmocka_unit_test(stages_balance_as_in_the_example),
        cmocka_unit_test(partitions_serve_their_objective),
        cmocka_unit_test(layers_and_head_take_what_they_read),
        cmocka_unit_test(cycles_follow_the_slowest_stage),
        cmocka_unit_test(links_take_their_time),
        cmocka_unit_test(drafts_bring_what_was_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
