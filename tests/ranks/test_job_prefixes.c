/*
 * Prefixes on disk under ranks that are processes, each with a folder of its own, as on several hosts: run by
 * mpirun. test_job_prefixes MODEL_DIR FOLDER; FOLDER is made anew by each rank for itself.
 *
 * Rank 0 computes alone first, then leads, and loses files in the folder of one rank or another. The disks of
 * the others are slow: what an engine has left is to be there when it is closed.
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

#include "engine/prefix_disk_files.h"
#include "support/job_fixture.h"
#include "support/request_fixture.h"

enum {
    PATH_BYTES = 512,
    REQUEST_COUNT = 3,
    PROMPT_MAX = 400,
    ANSWER = 8,
    CACHEABLE = 128 + 256 + 384,
    SLOW_WRITE_MICROSECONDS = 50000,
};

static const size_t prompt_lengths[REQUEST_COUNT] = {140, 300, PROMPT_MAX};

struct layout {
    int replicas;
    int pipeline;
    int tensor;
};

struct scene {
    const char *model;
    const char *folder;
    struct sluice_job *job;
    struct answer alone[REQUEST_COUNT];
};

/* The linker puts this one in front of the cache's (CMakeLists.txt). */
int __real_prefix_files_write(int directory, const char *name, const void *bytes, size_t length);
int __wrap_prefix_files_write(int directory, const char *name, const void *bytes, size_t length);

int __wrap_prefix_files_write(int directory, const char *name, const void *bytes, size_t length) {
    if (job_fixture_rank() > 0) {
        usleep(SLOW_WRITE_MICROSECONDS);
    }
    return __real_prefix_files_write(directory, name, bytes, length);
}

/* Runs the requests one by one; returns prompt tokens that came from the cache. */
static size_t run(struct scene *scene, const struct layout *layout, struct answer *answers) {
    static int32_t prompts[REQUEST_COUNT][PROMPT_MAX];
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    size_t cached = 0;
    options.model_directory = scene->model;
    options.thread_count = 1;
    options.context_tokens = 512;
    options.sequence_limit = 2;
    options.step_token_limit = 64;
    options.draft.limit = 1;
    options.draft.is_adaptive = false;
    if (layout != NULL) {
        options.prefix_cache_directory = "kept"; /* of each process, where it is */
        options.parallel.job = scene->job;
        options.parallel.data = layout->replicas;
        options.parallel.pipeline = layout->pipeline;
        options.parallel.tensor = layout->tensor;
    }
    EXPECT_OK(sluice_engine_open(&options, &engine));
    for (int i = 0; i < REQUEST_COUNT; i++) {
        model_random_tokens((uint64_t)i + 1, TINY_VOCABULARY, prompts[i], PROMPT_MAX);
        const struct planned_request planned = {
            .prompt = prompts[i], .prompt_count = prompt_lengths[i], .answer_limit = ANSWER};
        struct sluice_request *request = request_submit(engine, &planned, 0);
        request_collect(request, &answers[i]);
        cached += sluice_request_state(request).cached_prompt_tokens;
        sluice_request_release(&request);
    }
    sluice_engine_close(&engine);
    return cached;
}

static void expect(struct scene *scene, const struct layout *layout, size_t cached, const char *what) {
    struct answer answers[REQUEST_COUNT] = {{0}};
    size_t got = run(scene, layout, answers);
    if (got != cached) {
        fail_msg("-dp %d -pp %d -tp %d, %s: %zu tokens from the cache, not %zu", layout->replicas,
                 layout->pipeline, layout->tensor, what, got, cached);
    }
    for (int i = 0; i < REQUEST_COUNT; i++) {
        assert_int_equal(answers[i].count, ANSWER);
        assert_memory_equal(&answers[i], &scene->alone[i], sizeof answers[i]);
    }
}

/* Removes all entries of a rank, or cuts them short; returns how many there were. */
static int damage(const struct scene *scene, int rank, bool cuts) {
    char path[2 * PATH_BYTES];
    int count = 0;
    snprintf(path, sizeof path, "%s/%d/kept", scene->folder, rank);
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        snprintf(path, sizeof path, "%s/%d/kept/%s", scene->folder, rank, entry->d_name);
        if (entry->d_name[0] != '.') {
            assert_int_equal(cuts ? truncate(path, 100) : unlink(path), 0);
            count++;
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    return count;
}

/* Files are those of the first rank of each stage. */
static void check_layout(struct scene *scene, const struct layout *layout) {
    expect(scene, layout, 0, "first");
    expect(scene, layout, CACHEABLE, "after a restart");
    for (int rank = 0; layout->replicas == 1 && rank < sluice_job_size(scene->job); rank++) {
        int count = damage(scene, rank, rank % 2 == 0);
        assert_int_equal(count > 0, rank % layout->tensor == 0);
        expect(scene, layout, count > 0 ? 0 : CACHEABLE, "without the files of a rank");
        expect(scene, layout, CACHEABLE, "with them again");
    }
    for (int rank = 0; rank < sluice_job_size(scene->job); rank++) {
        damage(scene, rank, false);
    }
}

static int lead(void *context, struct sluice_job *job) {
    static const struct layout pairs[] = {{1, 2, 1}, {1, 1, 2}};
    static const struct layout fours[] = {{1, 2, 2}, {2, 2, 1}};
    struct scene *scene = context;
    assert_non_null(job);
    scene->job = job;
    for (int i = 0; i < 2; i++) {
        check_layout(scene, sluice_job_size(job) == 2 ? &pairs[i] : &fours[i]);
    }
    return 0;
}

/* Where this rank's folder is. */
static void enter_folder(const char *folder, int rank) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "rm -rf %s/%d && mkdir -p %s/%d", folder, rank, folder, rank);
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s/%d", folder, rank);
    assert_int_equal(chdir(path), 0);
}

int main(int argument_count, char **arguments) {
    static struct scene scene;
    assert_true(argument_count == 3 && job_fixture_rank() >= 0);
    scene.model = arguments[1];
    scene.folder = arguments[2];
    enter_folder(scene.folder, job_fixture_rank());
    if (job_fixture_rank() == 0) {
        assert_int_equal(run(&scene, NULL, scene.alone), 0);
    }
    return job_fixture_main(scene.model, 10, lead, &scene);
}
