/*
 * What a process had recorded that was killed: its ring is taken over by who comes after, and one that lives
 * keeps its own.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/rank_timeline.h"
#include "engine/tick_trace.h"
#include "engine/trace_file.h"
#include "engine/trace_remains.h"
#include "lib/json.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { RING = 8, FILE_BYTES_MAX = 1 << 20, PROCESSES = 8 };

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    char path[2 * FIXTURE_PATH_BYTES];
};

static int set_up(void **state) {
    static struct fixture fixture;
    fixture_make(fixture.directory);
    snprintf(fixture.path, sizeof fixture.path, "%s/trace.json", fixture.directory);
    EXPECT_OK(trace_file_prepare(fixture.path, false));
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    fixture_remove(fixture->directory);
    return 0;
}

/* A recorder of this process for a rank, in its file, with so many ticks. */
static struct tick_trace *record(const char *path, uint64_t team, int rank, int ticks) {
    struct trace_place place = {.rank = rank, .stage = rank};
    struct trace_owner owner = {.process = (int32_t)getpid(), .team = team};
    struct string_buffer name = {0};
    struct tick_trace *trace;
    trace_remains_name(path, rank, &name);
    EXPECT_OK(tick_trace_create_in_file(&place, &owner, RING, string_buffer_text(&name), &trace));
    string_buffer_deinit(&name);
    for (int i = 0; i < ticks; i++) {
        tick_trace_set_tick(trace, (struct trace_tick){.number = (uint64_t)i, .rows = 100 * rank + i});
        tick_trace_add(trace, TRACE_STEP, tick_trace_now(trace));
    }
    return trace;
}

/* A process with two ranks records, and is killed. */
static pid_t record_and_die(const char *path, int ticks) {
    int done[2];
    char byte;
    assert_int_equal(pipe(done), 0);
    pid_t process = fork();
    if (process == 0) {
        record(path, (uint64_t)getpid(), 0, ticks);
        record(path, (uint64_t)getpid(), 1, ticks + 1);
        _exit(write(done[1], "x", 1) == 1 ? pause() : 1);
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
    close(done[0]);
    close(done[1]);
    return process;
}

struct picture {
    int processes;
    char names[PROCESSES][96];
    int events[PROCESSES][2]; /* by process and rank */
    int64_t least_rows[PROCESSES][2];
};

static void look(const char *path, struct picture *out) {
    struct json *file;
    memset(out, 0, sizeof *out);
    EXPECT_OK(json_parse_file(path, FILE_BYTES_MAX, &file));
    const struct json *events = json_get(file, "traceEvents");
    for (size_t i = 0; i < json_length(events); i++) {
        const struct json *event = json_at(events, i);
        int64_t process = json_int64(json_get(event, "pid"));
        assert_in_range(process, 0, PROCESSES - 1);
        if (strcmp(json_text(json_get(event, "name"), NULL), "process_name") == 0) {
            out->processes++;
            snprintf(out->names[process], sizeof out->names[0], "%s",
                     json_text(json_get(json_get(event, "args"), "name"), NULL));
        } else if (strcmp(json_text(json_get(event, "ph"), NULL), "X") == 0) {
            int64_t rank = json_int64(json_get(event, "tid"));
            int64_t rows = json_int64(json_get(json_get(event, "args"), "rows"));
            assert_in_range(rank, 0, 1);
            if (out->events[process][rank]++ == 0) {
                out->least_rows[process][rank] = rows;
            }
        }
    }
    json_free(&file);
}

static int count_files(const char *directory) {
    int count = 0;
    DIR *opened = opendir(directory);
    while (readdir(opened) != NULL) {
        count++;
    }
    closedir(opened);
    return count - 2;
}

/* The last events of each rank, under the name of the process that was lost; the second time others come. */
static void rings_of_the_dead_are_added(void **state) {
    const struct fixture *fixture = *state;
    static struct picture picture;
    char name[96];
    for (int i = 0; i < 2; i++) {
        pid_t process = record_and_die(fixture->path, 5 + 10 * i);
        assert_int_equal(count_files(fixture->directory), 3);
        trace_remains_add(fixture->path);
        assert_int_equal(count_files(fixture->directory), 1);
        look(fixture->path, &picture);
        assert_int_equal(picture.processes, i + 1);
        snprintf(name, sizeof name, "engine %d of process %d, which was lost", i, (int)process);
        assert_string_equal(picture.names[i], name);
        assert_int_equal(picture.events[i][0], i == 0 ? 5 : RING);
        assert_int_equal(picture.events[i][1], i == 0 ? 6 : RING);
        assert_int_equal(picture.least_rows[i][0], i == 0 ? 0 : 15 - RING);
        assert_int_equal(picture.least_rows[i][1], i == 0 ? 100 : 100 + 16 - RING);
    }
    trace_remains_add(fixture->path);
    look(fixture->path, &picture);
    assert_int_equal(picture.processes, 2);
}

/* Nobody takes what a living process has; it goes when that has written it, and stays if it did not. */
static void the_living_keep_theirs(void **state) {
    const struct fixture *fixture = *state;
    static struct picture picture;
    EXPECT_OK(trace_file_prepare(fixture->path, false));
    struct tick_trace *first = record(fixture->path, 1, 0, 3);
    struct tick_trace *second = record(fixture->path, 2, 1, 4);
    struct tick_trace *none = record(fixture->path, 2, 2, 0);
    trace_remains_add(fixture->path);
    trace_remains_remove(fixture->path);
    assert_int_equal(count_files(fixture->directory), 4);
    tick_trace_destroy(&none);
    rank_timeline_write(fixture->path, &first, 1);
    tick_trace_destroy(&first);
    assert_int_equal(count_files(fixture->directory), 2);
    tick_trace_destroy(&second);
    assert_int_equal(count_files(fixture->directory), 2);
    trace_remains_add(fixture->path);
    assert_int_equal(count_files(fixture->directory), 1);
    look(fixture->path, &picture);
    assert_int_equal(picture.processes, 2);
    assert_int_equal(picture.events[0][0], 3);
    assert_int_equal(picture.events[1][1], 4);
}

/* Files that are no rings, or were cut off, give nothing and go; so does all that an earlier timeline left.
 */
static void what_is_no_ring_goes(void **state) {
    const struct fixture *fixture = *state;
    static struct picture picture;
    static const char text[] = "sluice ticks 1\0 but nothing more of use, however long the text may be";
    EXPECT_OK(trace_file_prepare(fixture->path, false));
    fixture_write(fixture->directory, "trace.json.ticks-1-0", text, sizeof text);
    fixture_write(fixture->directory, "trace.json.ticks-1-1", text, 0);
    record_and_die(fixture->path, 2);
    char name[3 * FIXTURE_PATH_BYTES];
    snprintf(name, sizeof name, "%s/trace.json.ticks-2-0", fixture->directory);
    struct tick_trace *trace;
    EXPECT_OK(
        tick_trace_create_in_file(&(struct trace_place){0}, &(struct trace_owner){0}, RING, name, &trace));
    tick_trace_add(trace, TRACE_STEP, 0.0);
    tick_trace_destroy(&trace);
    assert_int_equal(truncate(name, 300), 0);
    assert_int_equal(count_files(fixture->directory), 6);
    trace_remains_add(fixture->path);
    assert_int_equal(count_files(fixture->directory), 1);
    look(fixture->path, &picture);
    assert_int_equal(picture.processes, 1);
    record_and_die(fixture->path, 2);
    trace_remains_remove(fixture->path);
    assert_int_equal(count_files(fixture->directory), 1);
    look(fixture->path, &picture);
    assert_int_equal(picture.processes, 1);
}

/* A ring with any byte of it damaged: what comes of it is JSON, of that ring or of none. */
static void damage_is_not_read_beyond(void **state) {
    const struct fixture *fixture = *state;
    static struct picture picture;
    static char bytes[FILE_BYTES_MAX];
    char name[3 * FIXTURE_PATH_BYTES];
    struct tick_trace *trace;
    snprintf(name, sizeof name, "%s/trace.json.ticks-3-1", fixture->directory);
    EXPECT_OK(tick_trace_create_in_file(&(struct trace_place){.rank = 1}, &(struct trace_owner){0}, RING,
                                        name, &trace));
    for (int i = 0; i < RING / 2; i++) {
        tick_trace_add(trace, TRACE_FEEDBACK_WAIT, 0.0);
    }
    tick_trace_destroy(&trace);
    FILE *ring = fopen(name, "rb");
    assert_non_null(ring);
    size_t length = fread(bytes, 1, sizeof bytes, ring);
    fclose(ring);
    assert_true(length > RING * sizeof(struct trace_event));
    for (size_t i = 0; i < length; i++) {
        bytes[i] ^= (char)0x70;
        fixture_write(fixture->directory, "trace.json.ticks-3-1", bytes, length);
        bytes[i] ^= (char)0x70;
        EXPECT_OK(trace_file_prepare(fixture->path, false));
        trace_remains_add(fixture->path);
        assert_int_equal(count_files(fixture->directory), 1);
        struct stat state_of_file;
        assert_int_equal(stat(fixture->path, &state_of_file), 0);
        if (state_of_file.st_size > 0) {
            struct json *file;
            EXPECT_OK(json_parse_file(fixture->path, FILE_BYTES_MAX, &file));
            json_free(&file);
        }
    }
    fixture_write(fixture->directory, "trace.json.ticks-3-1", bytes, length);
    EXPECT_OK(trace_file_prepare(fixture->path, false));
    trace_remains_add(fixture->path);
    look(fixture->path, &picture);
    assert_int_equal(picture.events[0][1], RING / 2);
}

/* Where there is no place for a file, recording goes on in memory. */
static void memory_does_as_well(void **state) {
    const struct fixture *fixture = *state;
    struct tick_trace *trace;
    EXPECT_OK(tick_trace_create_in_file(&(struct trace_place){0}, &(struct trace_owner){0}, RING,
                                        "/nonexistent/trace.json.ticks-1-0", &trace));
    tick_trace_add(trace, TRACE_STEP, 0.0);
    assert_int_equal(tick_trace_track(trace).count, 1);
    tick_trace_destroy(&trace);
    assert_true(trace_remains_have_place(fixture->path));
    assert_false(trace_remains_have_place("/dev/null"));
    assert_false(trace_remains_have_place("/nonexistent/trace.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_of_the_dead_are_added), cmocka_unit_test(the_living_keep_theirs),
        cmocka_unit_test(what_is_no_ring_goes),        cmocka_unit_test(damage_is_not_read_beyond),
        cmocka_unit_test(memory_does_as_well),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
