/* Machines from text, the search for layouts and tables of machine sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/temporary_directory.h"
#include "tools/plan_fixture.h"
#include "tools/plan_layouts.h"

static void sizes_and_rates_have_units(void **state) {
    (void)state;
    assert_true(plan_size_parse("141GB") == 141e9);
    assert_true(plan_size_parse("64GiB") == 64.0 * 1073741824.0);
    assert_true(plan_size_parse("1.5TB") == 1.5e12);
    assert_true(plan_rate_parse("25Gbit") == 3.125e9);
    assert_true(plan_rate_parse("12.5GB/s") == 12.5e9);
    static const char *const wrong[] = {"", "GB", "-3GB", "0GB", "12", "12XB", "12GB ", "nanGB", "1e999GB"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_true(plan_size_parse(wrong[i]) == 0.0);
        assert_true(plan_rate_parse(wrong[i]) == 0.0);
    }
}

static struct plan_machine read_machine(const char *gpus, const char *hosts, const char *link,
                                        const char *profile) {
    struct plan_machine machine;
    const struct plan_machine_request request = {gpus, hosts, link, profile, 0.9};
    if (plan_machine_read(&request, &machine) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    return machine;
}

static void machines_are_read_from_text(void **state) {
    (void)state;
    struct plan_machine machine = read_machine("8x141GB", NULL, NULL, NULL);
    assert_string_equal(machine.device.name, "h200");
    assert_int_equal(plan_machine_rank_count(&machine), 8);
    assert_true(machine.device.memory_bytes == 141e9 && machine.device.read_bytes_per_second == 4.8e12);
    machine = read_machine("8xh100", "4", "400Gbit", NULL);
    assert_string_equal(machine.device.name, "h100");
    assert_int_equal(plan_machine_rank_count(&machine), 32);
    assert_int_equal(plan_machine_host(&machine, 7), 0);
    assert_int_equal(plan_machine_host(&machine, 8), 1);
    assert_true(machine.device.network_bytes_per_second == 50e9);
    machine = read_machine(NULL, "2x128GB", "25Gbit", NULL);
    assert_string_equal(machine.device.name, "cpu");
    assert_int_equal(machine.host_count, 2);
    assert_int_equal(machine.devices_per_host, 1);
    assert_true(machine.device.network_bytes_per_second == 3.125e9);
    machine = read_machine(NULL, "2xspark", NULL, NULL);
    assert_true(machine.device.memory_bytes == 128e9 && machine.device.read_bytes_per_second == 273e9);
    machine = plan_machine_scale(&machine, 6);
    assert_int_equal(plan_machine_rank_count(&machine), 6);
    assert_int_equal(machine.host_count, 6);
}

static void profiles_go_before_data_sheets(void **state) {
    (void)state;
    temporary_file_write("profile.json", "{\"device\": \"mine\", \"read_bytes_per_second\": 1e12, "
                                         "\"memory_bytes\": 50e9, \"network_latency_seconds\": 1e-3}");
    struct plan_machine machine = read_machine("8x141GB", NULL, NULL, "profile.json");
    assert_string_equal(machine.device.name, "mine");
    assert_true(machine.device.read_bytes_per_second == 1e12 && machine.device.memory_bytes == 50e9);
    assert_true(machine.device.network_latency_seconds == 1e-3 &&
                machine.device.operations_per_second == 1979e12);
    temporary_file_write("wrong.json", "{\"read_bytes_per_second\": -1}");
    temporary_file_write("unknown.json", "{\"reads\": 1}");
    static const struct {
        struct plan_machine_request request;
        const char *message;
    } refused[] = {
        {{"8x141GB", NULL, NULL, "wrong.json", 0.9},
         "wrong.json: \"read_bytes_per_second\" is not a number above 0"},
        {{"8x141GB", NULL, NULL, "unknown.json", 0.9}, "unknown.json: \"reads\" is no number"},
        {{NULL, NULL, NULL, NULL, 0.9}, "--gpus, such as 8x141GB"},
        {{"8xfast", NULL, NULL, NULL, 0.9},
         "\"fast\" is neither a size such as 141GB nor a known device (h100"},
        {{"0x141GB", NULL, NULL, NULL, 0.9}, "a count of 0"},
        {{"8x141GB", "2x128GB", NULL, NULL, 0.9}, "with --gpus it is the number of hosts"},
        {{NULL, "2", NULL, NULL, 0.9}, "such as 2x128GB"},
        {{NULL, "2xcpu", NULL, NULL, 0.9}, "name its size"},
        {{"8x141GB", NULL, "fast", NULL, 0.9}, "--link takes a rate such as 25Gbit"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_not_equal(plan_machine_read(&refused[i].request, &machine), STATUS_OK);
        if (strstr(error_last()->message, refused[i].message) == NULL) {
            fail_msg("\"%s\" is not in: %s", refused[i].message, error_last()->message);
        }
    }
}

/* The search finds what trying all layouts by hand finds. */
static void the_best_layouts_are_found(void **state) {
    (void)state;
    struct plan_fixture fixture;
    struct plan_layouts found;
    double best = 0.0;
    int fitting = 0;
    plan_fixture_open(&fixture, "flash", 0, "8xh200", NULL);
    fixture.request.sequence_limit = 16;
    assert_int_equal(
        plan_layouts_find(&fixture.model, &fixture.machine, &fixture.request, &fixture.step, 3, &found),
        STATUS_OK);
    for (int tensor = 1; tensor <= 8; tensor *= 2) {
        for (int pipeline = 1; pipeline <= 8 / tensor; pipeline *= 2) {
            int data = 8 / tensor / pipeline;
            fixture.request.sequence_limit = 16 / data;
            fixture.request.has_sequence_parallelism = tensor > 1;
            plan_fixture_make(&fixture, data, pipeline, tensor);
            fitting += fixture.plan.fits;
            bool is_better = fixture.plan.fits && fixture.plan.speed.tokens_per_second > best;
            best = is_better ? fixture.plan.speed.tokens_per_second : best;
        }
    }
    assert_int_equal(found.tried, 10);
    assert_int_equal(found.fitting, fitting);
    assert_int_equal(found.count, 3);
    assert_true(fabs(found.plans[0].speed.tokens_per_second - best) < 1e-6 * best);
    for (int i = 1; i < 3; i++) {
        assert_true(found.plans[i].speed.tokens_per_second <= found.plans[i - 1].speed.tokens_per_second);
    }
    plan_layouts_deinit(&found);
    plan_fixture_close(&fixture);
}

static uint64_t fullest_bytes(const struct plan *plan) {
    uint64_t most = 0;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        uint64_t bytes = plan->stages[s].fixed_bytes + 32 * plan->stages[s].page_bytes;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Of layouts of 4 devices, none of which has room for Pro. */
static uint64_t least_by_trying(struct plan_fixture *fixture) {
    uint64_t least = UINT64_MAX;
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        for (int pipeline = 1; pipeline <= 4 / tensor; pipeline *= 2) {
            fixture->request.has_sequence_parallelism = tensor > 1;
            plan_fixture_make(fixture, 4 / tensor / pipeline, pipeline, tensor);
            uint64_t bytes = fullest_bytes(&fixture->plan);
            least = bytes < least ? bytes : least;
        }
    }
    return least;
}

/* 865 GB of Pro do not fit into 4 devices, the nearest layout says so; 16 have room. */
static void what_fits_is_told_from_what_does_not(void **state) {
    (void)state;
    struct plan_fixture fixture;
    struct plan_layouts found;
    struct plan_scale scale;
    plan_fixture_open(&fixture, "pro", 0, "8xh200", NULL);
    fixture.machine = plan_machine_scale(&fixture.machine, 4);
    assert_int_equal(
        plan_layouts_find(&fixture.model, &fixture.machine, &fixture.request, &fixture.step, 3, &found),
        STATUS_OK);
    assert_int_equal(found.count, 0);
    assert_int_equal(found.fitting, 0);
    assert_true(found.tried > 0 && found.nearest.stages != NULL && !found.nearest.fits);
    assert_int_equal(fullest_bytes(&found.nearest), least_by_trying(&fixture));
    plan_layouts_deinit(&found);
    fixture.machine = plan_machine_scale(&fixture.machine, 8);
    fixture.machine.devices_per_host = 8;
    fixture.machine.host_count = 1;
    fixture.request.sequence_limit = 32;
    assert_int_equal(plan_scale_make(&fixture.model, &fixture.machine, &fixture.request, &fixture.step,
                                     "4,16,32,64,128,256,512", &scale),
                     STATUS_OK);
    assert_int_equal(scale.count, 7);
    assert_false(scale.rows[0].fits);
    for (int i = 1; i < scale.count; i++) {
        const struct plan_scale_row *row = &scale.rows[i];
        assert_true(row->fits);
        assert_int_equal(mesh_rank_count(&row->plan.request.mesh), row->rank_count);
        assert_int_equal(row->sequence_limit, 8 * row->rank_count);
        assert_true(i == 1 ||
                    row->plan.speed.tokens_per_second > scale.rows[i - 1].plan.speed.tokens_per_second);
        assert_true(plan_sessions(&row->plan, 4096) * row->plan.request.mesh.data > row->sequence_limit);
    }
    plan_scale_deinit(&scale);
    static const char *const wrong[] = {"", "16,8", "16,x", "12", "0", "16,"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(plan_scale_make(&fixture.model, &fixture.machine, &fixture.request, &fixture.step,
                                         wrong[i], &scale),
                         STATUS_USAGE);
        plan_scale_deinit(&scale);
    }
    plan_fixture_close(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_rates_have_units),
        cmocka_unit_test(machines_are_read_from_text),
        cmocka_unit_test_setup_teardown(profiles_go_before_data_sheets, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test(the_best_layouts_are_found),
        cmocka_unit_test(what_fits_is_told_from_what_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
