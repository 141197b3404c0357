/*
 * Prefixes on disk under several ranks: each stage has files of its own layers, a prefix is there if all of
 * them have it, and whatever happens to the files of one changes nothing but the time. Answers are those of
 * one rank without a cache, bit for bit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/process_pair.h"
#include "support/request_fixture.h"
#include "weights/fixture.h"

enum { REQUESTS_RUN = 4, SIZES_MAX = 8, PROMPT_MAX = 4300 };

struct layout {
    int pipeline;
    int tensor;
    int data;
    int drafts;
};

struct fixture {
    void *requests; /* struct request_fixture */
    int chosen[REQUESTS_RUN];
    int count; /* of them: all, unless tests are short */
    char directory[FIXTURE_PATH_BYTES];
    char small_model[FIXTURE_PATH_BYTES];
};

/* One of each kind, and the draft layer: a long prompt takes its time in layers. */
static const struct config_change few_layers[] = {
    {"num_hidden_layers", "3"}, {"compress_ratios", "[0, 4, 128, 0]"}, {"num_hash_layers", "1"}};

/* Those that have whole pages. */
static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_int_equal(request_fixture_set_up(&fixture->requests), 0);
    const struct request_fixture *requests = fixture->requests;
    for (int i = 0; i < REQUESTS && fixture->count < REQUESTS_RUN; i++) {
        if (requests->requests[i].prompt_count > 128) {
            fixture->chosen[fixture->count++] = i;
        }
    }
    assert_in_range(fixture->count, TESTS_ARE_SHORT ? 1 : REQUESTS_RUN, REQUESTS_RUN);
    fixture_make(fixture->small_model);
    model_synthesise(fixture->small_model, TINY_CONFIG, few_layers, sizeof few_layers / sizeof few_layers[0]);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    request_fixture_tear_down(&fixture->requests);
    fixture_remove(fixture->small_model);
    free(fixture);
    return 0;
}

static struct sluice_engine *open_engine(const struct fixture *fixture, struct layout layout) {
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    options.draft.limit = layout.drafts;
    options.draft.is_adaptive = false;
    options.parallel.pipeline = layout.pipeline;
    options.parallel.tensor = layout.tensor;
    options.parallel.data = layout.data;
    options.prefix_cache_directory = fixture->directory;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    return engine;
}

/* Submits the requests, `at_once` of them at a time. Returns prompt tokens that came from the cache. */
static size_t run_in(struct fixture *fixture, struct sluice_engine *engine, int at_once, const char *what) {
    struct request_fixture *requests = fixture->requests;
    struct sluice_request *open[REQUESTS_RUN];
    size_t cached = 0;
    for (int first = 0, end; first < fixture->count; first = end) {
        end = first + at_once < fixture->count ? first + at_once : fixture->count;
        for (int i = first; i < end; i++) {
            open[i] = request_submit(engine, &requests->requests[fixture->chosen[i]], 0);
        }
        for (int i = first; i < end; i++) {
            request_expect_same(requests, fixture->chosen[i], open[i], what);
            cached += sluice_request_state(open[i]).cached_prompt_tokens;
            sluice_request_release(&open[i]);
        }
    }
    return cached;
}

/* A whole engine's life. */
static size_t run(struct fixture *fixture, struct layout layout, const char *what) {
    struct sluice_engine *engine = open_engine(fixture, layout);
    size_t cached = run_in(fixture, engine, 1, what);
    sluice_engine_close(&engine);
    return cached;
}

/* All whole pages before the last token of each prompt. */
static size_t cacheable(const struct fixture *fixture) {
    const struct request_fixture *requests = fixture->requests;
    size_t tokens = 0;
    for (int i = 0; i < fixture->count; i++) {
        tokens += (requests->requests[fixture->chosen[i]].prompt_count - 1) / 128 * 128;
    }
    return tokens;
}

static const struct layout layouts[] = {{2, 1, 0, 0}, {2, 1, 0, 2}, {1, 2, 0, 2}, {2, 2, 0, 1},
                                        {4, 1, 0, 0}, {9, 1, 0, 0}, {1, 1, 2, 1}, {2, 1, 2, 1}};

static void prefixes_survive_a_restart(void **state) {
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        fixture_make(fixture->directory);
        run(fixture, layouts[i], "first");
        size_t cached = run(fixture, layouts[i], "after a restart");
        if (cached != cacheable(fixture)) {
            fail_msg("-pp %d -tp %d -dp %d with %d drafts: %zu tokens came back, not %zu",
                     layouts[i].pipeline, layouts[i].tensor, layouts[i].data, layouts[i].drafts, cached,
                     cacheable(fixture));
        }
        fixture_remove(fixture->directory);
    }
}

/* Rounds of some requests are under way while the beginnings of others are brought in. */
static void prefixes_come_in_among_rounds(void **state) {
    struct fixture *fixture = *state;
    for (size_t i = 1; i < sizeof layouts / sizeof layouts[0]; i += 2) {
        fixture_make(fixture->directory);
        run(fixture, layouts[i], "first");
        struct sluice_engine *engine = open_engine(fixture, layouts[i]);
        assert_true(run_in(fixture, engine, REQUESTS_RUN, "at once") > 0);
        assert_true(sluice_engine_stats(engine).disk_found_tokens > 0);
        EXPECT_OK(sluice_engine_clear_prefix_cache(engine));
        assert_true(run_in(fixture, engine, REQUESTS_RUN / 2, "after a clearing") > 0);
        sluice_engine_close(&engine);
        fixture_remove(fixture->directory);
    }
}

struct sizes {
    off_t of[SIZES_MAX];
    int count;
};

/* Sizes of the entries of a kind: stages' layers differ, and so do theirs. In ascending order. */
static struct sizes list_sizes(const char *directory, const char *suffix) {
    struct sizes sizes = {.count = 0};
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[2 * FIXTURE_PATH_BYTES];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strstr(entry->d_name, suffix) == NULL || stat(path, &info) != 0) {
            continue;
        }
        int at = 0;
        while (at < sizes.count && sizes.of[at] < info.st_size) {
            at++;
        }
        if (at == sizes.count || sizes.of[at] != info.st_size) {
            assert_true(sizes.count < SIZES_MAX);
            memmove(sizes.of + at + 1, sizes.of + at, (size_t)(sizes.count++ - at) * sizeof sizes.of[0]);
            sizes.of[at] = info.st_size;
        }
    }
    closedir(entries);
    return sizes;
}

enum damage { REMOVED, CHANGED, CUT };

static void damage_file(const char *path, off_t size, enum damage damage) {
    if (damage == REMOVED) {
        assert_int_equal(unlink(path), 0);
    } else if (damage == CUT) {
        assert_int_equal(truncate(path, size / 2), 0);
    } else {
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        assert_int_equal(fseek(file, size - 1, SEEK_SET), 0);
        int byte = fgetc(file);
        assert_int_equal(fseek(file, size - 1, SEEK_SET), 0);
        fputc(byte ^ 1, file);
        fclose(file);
    }
}

/* Does it to the entries of this kind and size; of pages only to those of some number, unless that is -1. */
static int damage_entries(const char *directory, const char *suffix, off_t size, int page,
                          enum damage damage) {
    char number[16];
    int count = 0;
    DIR *entries = opendir(directory);
    assert_non_null(entries);
    snprintf(number, sizeof number, ".%08x.", page);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        char path[2 * FIXTURE_PATH_BYTES];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strstr(entry->d_name, suffix) != NULL && (page < 0 || strstr(entry->d_name, number) != NULL) &&
            stat(path, &info) == 0 && info.st_size == size) {
            damage_file(path, size, damage);
            count++;
        }
    }
    closedir(entries);
    return count;
}

/* What one stage lacks is a miss on all of them, and is there again once it was computed. */
static void damage_of_one_stage_is_a_miss(void **state) {
    static const struct layout pipeline = {2, 1, 0, 1};
    struct fixture *fixture = *state;
    for (int damage = REMOVED; damage <= CUT; damage += TESTS_ARE_SHORT ? 2 : 1) {
        for (int kind = 0; kind < 2; kind++) {
            const char *suffix = kind == 0 ? ".page" : ".snapshot";
            for (int stage = 0; stage < 2; stage++) {
                fixture_make(fixture->directory);
                size_t cold = run(fixture, pipeline, "first");
                struct sizes sizes = list_sizes(fixture->directory, suffix);
                assert_int_equal(sizes.count, 2);
                int count =
                    damage_entries(fixture->directory, suffix, sizes.of[stage], -1, (enum damage)damage);
                assert_true(count > 0);
                /* Nothing comes from the disk but what this run has put there itself. */
                assert_int_equal(run(fixture, pipeline, "damaged"), cold);
                assert_int_equal(run(fixture, pipeline, "mended"), cacheable(fixture));
                fixture_remove(fixture->directory);
            }
        }
    }
}

/* Another cut into stages has other files; another number of ranks per stage has the same. */
static void layouts_find_what_is_theirs(void **state) {
    static const struct layout first = {2, 1, 0, 1};
    static const struct layout others[] = {{1, 1, 0, 1}, {4, 1, 0, 1}, {2, 1, 0, 0}};
    static const struct layout wider = {2, 2, 0, 1};
    struct fixture *fixture = *state;
    fixture_make(fixture->directory);
    size_t cold = run(fixture, first, "first");
    assert_int_equal(run(fixture, wider, "two ranks a stage"), cacheable(fixture));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(run(fixture, others[i], "another layout"), cold);
        assert_int_equal(run(fixture, others[i], "the same again"), cacheable(fixture));
    }
    assert_int_equal(run(fixture, first, "and the first"), cacheable(fixture));
    fixture_remove(fixture->directory);
}

/* A prompt of so many tokens to a small model, in an engine's life of its own; returns those from the cache.
 */
static size_t run_prompt(const struct fixture *fixture, struct layout layout, int count, struct answer *out) {
    static int32_t prompt[PROMPT_MAX];
    struct sluice_engine_options options = request_engine_options();
    struct sluice_engine *engine;
    const struct planned_request planned = {
        .prompt = prompt, .prompt_count = (size_t)count, .answer_limit = 8};
    model_random_tokens(11, TINY_VOCABULARY, prompt, (size_t)count);
    options.model_directory = fixture->small_model;
    options.draft.limit = layout.drafts;
    options.context_tokens = PROMPT_MAX + 100;
    options.step_token_limit = 1024;
    options.sequence_limit = 2;
    options.parallel.pipeline = layout.pipeline;
    options.parallel.tensor = layout.tensor;
    options.prefix_cache_directory = fixture->directory;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    struct sluice_request *request = request_submit(engine, &planned, 0);
    request_collect(request, out);
    size_t cached = sluice_request_state(request).cached_prompt_tokens;
    assert_int_equal(out->count, 8);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
    return cached;
}

/* Longer than what is read at once: it comes in piece by piece. */
static void long_prefixes_come_in_pieces(void **state) {
    static const struct layout tried[] = {{1, 1, 0, 0}, {2, 1, 0, 1}, {1, 2, 0, 1}};
    static struct answer cold;
    static struct answer warm;
    struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i += TESTS_ARE_SHORT ? 2 : 1) {
        fixture_make(fixture->directory);
        assert_int_equal(run_prompt(fixture, tried[i], PROMPT_MAX, i == 0 ? &cold : &warm), 0);
        assert_int_equal(run_prompt(fixture, tried[i], PROMPT_MAX, &warm), PROMPT_MAX / 128 * 128);
        assert_memory_equal(&warm, &cold, sizeof cold);
        fixture_remove(fixture->directory);
    }
}

/* A page in the middle of a prefix: all behind it is written anew, and found again. */
static void gaps_close(void **state) {
    enum { TOKENS = 600, CACHED = 512 };
    static const struct layout tried[] = {{1, 1, 0, 0}, {2, 1, 0, 1}};
    static struct answer cold;
    static struct answer warm;
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++) {
        fixture_make(fixture->directory);
        assert_int_equal(run_prompt(fixture, tried[i / 2], TOKENS, &cold), 0);
        struct sizes sizes = list_sizes(fixture->directory, ".page");
        enum damage damage = i % 2 == 0 ? REMOVED : CHANGED;
        assert_int_equal(damage_entries(fixture->directory, ".page", sizes.of[0], 1, damage), 1);
        assert_int_equal(run_prompt(fixture, tried[i / 2], TOKENS, &warm), 0);
        assert_memory_equal(&warm, &cold, sizeof cold);
        assert_int_equal(run_prompt(fixture, tried[i / 2], TOKENS, &warm), CACHED);
        assert_memory_equal(&warm, &cold, sizeof cold);
        fixture_remove(fixture->directory);
    }
}

/* Part of two_jobs_share_a_directory. */
static void run_thrice(void *context, const char *process) {
    static const struct layout pipeline = {2, 1, 0, 1};
    struct fixture *fixture = context;
    struct sluice_engine *engine = open_engine(fixture, pipeline);
    for (int round = 0; round < 3; round++) {
        run_in(fixture, engine, 2, process);
        EXPECT_OK(sluice_engine_clear_prefix_cache(engine));
    }
    sluice_engine_close(&engine);
}

/* Two processes of several ranks each work on one directory at once. */
static void two_jobs_share_a_directory(void **state) {
    struct fixture *fixture = *state;
    fixture_make(fixture->directory);
    process_pair_run(run_thrice, fixture);
    fixture_remove(fixture->directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_survive_a_restart),    cmocka_unit_test(prefixes_come_in_among_rounds),
        cmocka_unit_test(damage_of_one_stage_is_a_miss), cmocka_unit_test(gaps_close),
        cmocka_unit_test(layouts_find_what_is_theirs),   cmocka_unit_test(long_prefixes_come_in_pieces),
        cmocka_unit_test(two_jobs_share_a_directory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
