/*
 * What the stages of a job choose by their own links (spec parallelism S-13, S-15): ranks of one host send by
 * copying, others over the links that were looked at. The job is made up: two replicas of two stages of two
 * ranks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/rank_team_sharing.h"
#include "support/model_fixture.h"

enum { RANKS = 8, LAYERS = 8, FIRST_OF_LAST_STAGE = 3, STEP_ROWS = 200 };

static const struct mesh_shape mesh = {
    .data = 2, .pipeline = 2, .context = 1, .tensor = 2, .has_expert_parallelism = true};
static const int first_layers[] = {0, FIRST_OF_LAST_STAGE, LAYERS};

/* Ratios of the model's layers: 128, 4, 0, 4, 128, 4, 16, 0. */
static const bool is_indexed[LAYERS] = {false, true, false, true, false, true, false, false};

struct fixture {
    struct sluice_job job;
    int32_t hosts[RANKS];
    struct engine_core *sizes;
    struct rank_team_sharing sharing;
};

/*
 * The first stages are on a host each, the last ones on two. 2 GB/s are 2000 bytes per million operations of
 * 1e12 a second, where only window-only layers gather late, and 5 GB/s 5000, where the indexed ones alone do
 * not (test_row_sharing.c). Shared experts of 393216 bytes are whole in a step of 200 rows of 1536 where
 * sending takes at least 1.28 times what reading takes, so at 5 GB/s if 6.4 GB/s are read.
 */
static void open_fixture(struct fixture *fixture, int rank, const char *profile) {
    static const int32_t hosts[RANKS] = {0, 0, 2, 3, 4, 4, 6, 7};
    struct sluice_engine_options options = model_options(layout_fixture_directory());
    options.step_token_limit = STEP_ROWS;
    options.numerics = SLUICE_NUMERICS_NATIVE;
    options.device_profile = profile;
    options.parallel = (struct sluice_parallel_options){
        .data = 2, .pipeline = 2, .tensor = 2, .has_expert_parallelism = true};
    memset(fixture, 0, sizeof *fixture);
    memcpy(fixture->hosts, hosts, sizeof hosts);
    fixture->job.rank = rank;
    fixture->job.size = RANKS;
    fixture->job.host_numbers = fixture->hosts;
    for (int i = 0; i < RANKS; i++) {
        fixture->job.links[i] = (struct job_link){.rank = -1};
    }
    fixture->job.links[2] = (struct job_link){2, 3, 2e9, 1e-9};
    fixture->job.links[6] = (struct job_link){6, 7, 5e9, 1e-9};
    fixture->sharing =
        (struct rank_team_sharing){.team = {.mesh = &mesh, .job = &fixture->job, .threads_per_rank = 1}};
    EXPECT_OK(engine_core_measure(&options, &fixture->sizes));
    EXPECT_OK(rank_team_sharing_find(&fixture->sharing, fixture->sizes));
}

static void close_fixture(struct fixture *fixture) {
    rank_team_sharing_deinit(&fixture->sharing);
    engine_core_close(&fixture->sizes);
}

static void set_device(struct fixture *fixture, double read) {
    fixture->sharing.device = (struct device_profile){.read_bytes_per_second = read,
                                                      .operations_per_second = 1e12,
                                                      .read_share = 1.0,
                                                      .compute_share = 1.0};
}

/* Of the last stage; layers of the first one and the draft layer, which has a window only, gather late. */
static void expect_gathers(const struct fixture *fixture, bool indexed_late, bool compressed_late) {
    for (int layer = 0; layer <= LAYERS; layer++) {
        bool is_window = layer == 2 || layer >= LAYERS - 1;
        bool is_late =
            layer < FIRST_OF_LAST_STAGE || is_window || (is_indexed[layer] ? indexed_late : compressed_late);
        assert_int_equal(fixture->sharing.gathers_late[layer], is_late);
    }
}

static void every_stage_has_its_own_link(void **state) {
    (void)state;
    for (int replica = 0; replica < 2; replica++) {
        struct fixture fixture;
        open_fixture(&fixture, 3 + replica * 4, NULL);
        assert_true(fixture.sharing.device.operations_per_second == 0.0); /* the first rank's to find */
        set_device(&fixture, 7e9);
        rank_team_sharing_choose(&fixture.sharing, fixture.sizes, first_layers);
        expect_gathers(&fixture, false, replica == 1);
        for (int of = 0; of < 2; of++) {
            assert_false(rank_team_sharing_has_whole_experts(&fixture.sharing, fixture.sizes, of, 0));
            assert_true(rank_team_sharing_has_whole_experts(&fixture.sharing, fixture.sizes, of, 1));
        }
        set_device(&fixture, 6e9);
        assert_true(rank_team_sharing_has_whole_experts(&fixture.sharing, fixture.sizes, 0, 1));
        assert_false(rank_team_sharing_has_whole_experts(&fixture.sharing, fixture.sizes, 1, 1));
        close_fixture(&fixture);
    }
}

/* The first rank measures, and finds something. */
static void the_first_rank_measures_for_all(void **state) {
    (void)state;
    struct fixture fixture;
    open_fixture(&fixture, 0, NULL);
    const struct device_profile *device = &fixture.sharing.device;
    assert_true(device->read_bytes_per_second > 1e6 && device->read_bytes_per_second < 1e14);
    assert_true(device->operations_per_second > 1e6 && device->operations_per_second < 1e16);
    assert_true(device->read_share == 1.0 && device->compute_share == 1.0);
    close_fixture(&fixture);
}

/* A profile goes before, links of its own included. */
static void a_profile_goes_before_measurements(void **state) {
    (void)state;
    static const char numbers[] = "{\"operations_per_second\": 1e12, \"compute_share\": 1,"
                                  " \"network_bytes_per_second\": 9e9, \"link_bytes_per_second\": 9e9}";
    char path[FIXTURE_PATH_BYTES + 16];
    struct fixture fixture;
    fixture_write(layout_fixture_directory(), "profile.json", numbers, strlen(numbers));
    snprintf(path, sizeof path, "%s/profile.json", layout_fixture_directory());
    open_fixture(&fixture, 0, path);
    assert_true(fixture.sharing.device.read_bytes_per_second == 0.0);
    rank_team_sharing_choose(&fixture.sharing, fixture.sizes, first_layers);
    expect_gathers(&fixture, true, true);
    close_fixture(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_has_its_own_link),
        cmocka_unit_test(the_first_rank_measures_for_all),
        cmocka_unit_test(a_profile_goes_before_measurements),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
