/*
 * Prefixes on disk under whole engines: they outlive the engine, serve others, and a file that is damaged,
 * missing or of another model changes nothing but the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <unistd.h>

#include "support/process_pair.h"
#include "support/request_fixture.h"
#include "support/round_driver.h"
#include "weights/fixture.h"

/* Of the planned requests: prompts of up to three whole pages, of one if tests are short. */
enum { FIRST_REQUEST = TESTS_ARE_SHORT ? 5 : 30, END_REQUEST = TESTS_ARE_SHORT ? 13 : 46 };

struct fixture {
    void *requests; /* struct request_fixture */
    char directory[FIXTURE_PATH_BYTES];
};

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(request_fixture_set_up(&fixture->requests), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    request_fixture_tear_down(&fixture->requests);
    free(fixture);
    return 0;
}

static struct sluice_engine *open_engine(const struct fixture *fixture, int drafts) {
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    options.draft.limit = drafts;
    options.draft.is_adaptive = false;
    options.prefix_cache_directory = fixture->directory;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

/* Runs the requests one by one; all must end as alone. Returns prompt tokens that came from the cache. */
static size_t run(struct fixture *fixture, struct sluice_engine *engine, const char *what) {
    struct request_fixture *requests = fixture->requests;
    size_t cached = 0;
    for (int i = FIRST_REQUEST; i < END_REQUEST; i++) {
        struct sluice_request *request = request_submit(engine, &requests->requests[i], 0);
        request_expect_same(requests, i, request, what);
        cached += sluice_request_state(request).cached_prompt_tokens;
        sluice_request_release(&request);
    }
    return cached;
}

/* All whole pages before the last token of each prompt. */
static size_t cacheable(const struct fixture *fixture) {
    const struct request_fixture *requests = fixture->requests;
    size_t tokens = 0;
    for (int i = FIRST_REQUEST; i < END_REQUEST; i++) {
        tokens += (requests->requests[i].prompt_count - 1) / 128 * 128;
    }
    return tokens;
}

static void test_prefixes_survive_a_restart(void **state) {
    struct fixture *fixture = *state;
    for (int drafts = 0; drafts <= 2; drafts += 2) {
        fixture_make(fixture->directory);
        struct sluice_engine *engine = open_engine(fixture, drafts);
        run(fixture, engine, "first");
        sluice_engine_close(&engine);
        engine = open_engine(fixture, drafts);
        assert_int_equal(run(fixture, engine, "after a restart"), cacheable(fixture));
        sluice_engine_close(&engine);
        fixture_remove(fixture->directory);
    }
}

/* Every prompt is looked for on disk, since memory forgets it, and all whole pages of it are there. */
static void test_counters(void **state) {
    struct fixture *fixture = *state;
    const struct request_fixture *requests = fixture->requests;
    int64_t queried = 0;
    fixture_make(fixture->directory);
    struct sluice_engine *engine = open_engine(fixture, 0);
    run(fixture, engine, "first");
    sluice_engine_close(&engine);
    engine = open_engine(fixture, 0);
    for (int i = FIRST_REQUEST; i < END_REQUEST; i++) {
        struct sluice_request *request = request_submit(engine, &requests->requests[i], 0);
        sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
        sluice_request_release(&request);
        EXPECT_OK(sluice_engine_clear_prefix_cache(engine));
        size_t limit = requests->requests[i].prompt_count - 1;
        queried += limit >= 128 ? (int64_t)limit : 0;
    }
    struct sluice_engine_stats stats = sluice_engine_stats(engine);
    assert_int_equal(stats.disk_queried_tokens, queried);
    assert_int_equal(stats.disk_found_tokens, cacheable(fixture));
    assert_int_equal(stats.cached_prompt_tokens, cacheable(fixture));
    assert_true(stats.disk_read_bytes > 0);
    assert_int_equal(stats.disk_damaged_entries + stats.disk_failed_writes + stats.disk_evicted_entries, 0);
    sluice_engine_close(&engine);
    fixture_remove(fixture->directory);
}

/* Drafts from restored rows are those of a cold run: as many are right. */
static void test_drafts_are_those_of_a_cold_run(void **state) {
    struct fixture *fixture = *state;
    struct request_fixture *requests = fixture->requests;
    size_t accepted[END_REQUEST];
    fixture_make(fixture->directory);
    for (int round = 0; round < 2; round++) {
        struct sluice_engine *engine = open_engine(fixture, 3);
        for (int i = FIRST_REQUEST; i < END_REQUEST; i++) {
            /* Cold each time in the first round: what the disk has is of this very engine's making. */
            struct sluice_request_options options = sluice_request_options_default();
            struct sluice_request *request;
            options.prompt = requests->requests[i].prompt;
            options.prompt_count = requests->requests[i].prompt_count;
            options.token_limit = 30;
            options.sampling.temperature = 0.0;
            options.skips_prefix_cache = false;
            if (round == 0) {
                options.skips_prefix_cache = true;
                EXPECT_OK(sluice_engine_submit(engine, &options, &request));
                accepted[i] = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0).accepted_drafts;
                sluice_request_release(&request);
                options.skips_prefix_cache = false;
            }
            EXPECT_OK(sluice_engine_submit(engine, &options, &request));
            struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
            assert_int_equal(end.accepted_drafts, accepted[i]);
            sluice_request_release(&request);
        }
        sluice_engine_close(&engine);
    }
    fixture_remove(fixture->directory);
}

/* Changes a byte in the middle of every entry, or cuts it short. */
static void damage_entries(const char *directory, bool cuts) {
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        char path[2 * FIXTURE_PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r+");
        if (file != NULL) {
            assert_int_equal(fseek(file, 0, SEEK_END), 0);
            long bytes = ftell(file);
            if (cuts) {
                assert_int_equal(truncate(path, bytes / 2), 0);
            } else {
                assert_int_equal(fseek(file, bytes / 2, SEEK_SET), 0);
                int byte = fgetc(file);
                assert_int_equal(fseek(file, bytes / 2, SEEK_SET), 0);
                fputc(byte ^ 0x40, file);
            }
            fclose(file);
        }
    }
    closedir(entries);
}

static void test_damaged_entries_are_none(void **state) {
    struct fixture *fixture = *state;
    for (int cuts = 0; cuts < 2; cuts++) {
        fixture_make(fixture->directory);
        struct sluice_engine *engine = open_engine(fixture, 0);
        run(fixture, engine, "first");
        sluice_engine_close(&engine);
        damage_entries(fixture->directory, cuts != 0);
        engine = open_engine(fixture, 0);
        /* They are gone, and what this run computes takes their place. */
        assert_true(run(fixture, engine, "damaged") < cacheable(fixture));
        sluice_engine_close(&engine);
        engine = open_engine(fixture, 0);
        assert_int_equal(run(fixture, engine, "mended"), cacheable(fixture));
        sluice_engine_close(&engine);
        fixture_remove(fixture->directory);
    }
}

/* State of another model or of other numerics is never taken. */
static void test_other_numerics_share_nothing(void **state) {
    struct fixture *fixture = *state;
    fixture_make(fixture->directory);
    struct sluice_engine *engine = open_engine(fixture, 0);
    run(fixture, engine, "native");
    sluice_engine_close(&engine);
    struct sluice_engine_options options = request_engine_options();
    options.numerics = SLUICE_NUMERICS_IDEAL;
    options.prefix_cache_directory = fixture->directory;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    struct request_fixture *requests = fixture->requests;
    int longest = FIRST_REQUEST;
    for (int i = FIRST_REQUEST; i < END_REQUEST; i++) {
        longest = requests->requests[i].prompt_count > requests->requests[longest].prompt_count ? i : longest;
    }
    struct sluice_request *request = request_submit(engine, &requests->requests[longest], 0);
    assert_int_equal(sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0).cached_prompt_tokens, 0);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
    fixture_remove(fixture->directory);
}

/* One of each kind: a long prompt takes its time in layers. */
static const struct config_change few_layers[] = {
    {"num_hidden_layers", "3"}, {"compress_ratios", "[0, 4, 128, 0]"}, {"num_hash_layers", "1"}};

/* A long prefix is read in pieces, one in each round of who answers meanwhile. */
static void test_answers_go_on_while_a_prefix_is_read(void **state) {
    enum { TOKENS = 4300, PAGES_AT_ONCE = 32 };
    static int32_t prompt[TOKENS];
    struct fixture *fixture = *state;
    struct sluice_engine_options options = request_engine_options();
    struct sluice_request_options request = sluice_request_options_default();
    struct sequence sequences[2];
    struct round_driver driver;
    char model[FIXTURE_PATH_BYTES];
    fixture_make(fixture->directory);
    fixture_make(model);
    model_synthesise(model, TINY_CONFIG, few_layers, sizeof few_layers / sizeof few_layers[0]);
    model_random_tokens(11, TINY_VOCABULARY, prompt, TOKENS);
    options.model_directory = model;
    options.context_tokens = TOKENS + 100;
    options.step_token_limit = 1024;
    options.sequence_limit = 2;
    options.prefix_cache_directory = fixture->directory;
    request.prompt = prompt;
    for (int i = 0; i < 2; i++) {
        round_driver_open(&driver, &options);
        request.prompt_count = 3; /* nothing of it is on disk */
        request.token_limit = 10;
        round_driver_submit(&driver, &request, &sequences[0]);
        assert_true(round_driver_run(&driver));
        request.prompt_count = TOKENS;
        request.token_limit = 1;
        round_driver_submit(&driver, &request, &sequences[1]);
        for (int piece = 0; i > 0 && piece < TOKENS / 128 / PAGES_AT_ONCE; piece++) {
            assert_true(round_driver_run(&driver));
            assert_int_equal(sequences[0].token_count, 3 + 2 + piece);
            assert_int_equal(sequences[1].phase, SEQUENCE_WAITING);
        }
        round_driver_finish(&driver);
        assert_int_equal(sequences[1].cached_prompt_tokens, i == 0 ? 0 : TOKENS / 128 * 128);
        round_driver_close(&driver);
        sequence_deinit(&sequences[0]);
        sequence_deinit(&sequences[1]);
    }
    fixture_remove(model);
    fixture_remove(fixture->directory);
}

/* Part of test_two_processes_share_a_directory. */
static void run_thrice(void *context, const char *process) {
    struct fixture *fixture = context;
    struct sluice_engine *engine = open_engine(fixture, 1);
    for (int round = 0; round < 3; round++) {
        run(fixture, engine, process);
        EXPECT_OK(sluice_engine_clear_prefix_cache(engine));
    }
    sluice_engine_close(&engine);
}

/* Two processes work on one directory at once, and both give what each request gives alone. */
static void test_two_processes_share_a_directory(void **state) {
    struct fixture *fixture = *state;
    fixture_make(fixture->directory);
    process_pair_run(run_thrice, fixture);
    fixture_remove(fixture->directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes_survive_a_restart),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_drafts_are_those_of_a_cold_run),
        cmocka_unit_test(test_damaged_entries_are_none),
        cmocka_unit_test(test_other_numerics_share_nothing),
        cmocka_unit_test(test_answers_go_on_while_a_prefix_is_read),
        cmocka_unit_test(test_two_processes_share_a_directory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
