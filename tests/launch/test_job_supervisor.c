/*
 * Who has come, who is lost, why a job ends: ranks are child processes that do one thing each (spec
 * parallelism 6.4, F-1, T-25).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/build_id.h"
#include "base/clock.h"
#include "launch/control_link.h"
#include "launch/control_socket.h"
#include "launch/job_supervisor.h"

static const char KEY[] = "the secret of the job";
static const double MARGIN_SECONDS = 5; /* the machine may be busy */

/* What a rank does; returns its exit code, unless the link ends it before. */
typedef int rank_main(struct control_link *link);

struct job {
    struct string_buffer key;
    char build[BUILD_ID_TEXT_BYTES];
    struct job_supervisor *supervisor;
    pid_t ranks[4];
    int rank_count;
};

static void sleep_seconds(double seconds) {
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static void open_job(struct job *job, int rank_count, double start_seconds, double silence_seconds) {
    *job = (struct job){.rank_count = 0};
    string_buffer_append_text(&job->key, KEY);
    build_id_read(job->build);
    struct job_supervisor_options options = {.rank_count = rank_count,
                                             .key = &job->key,
                                             .build = job->build,
                                             .start_seconds = start_seconds,
                                             .silence_seconds = silence_seconds};
    assert_int_equal(job_supervisor_create(&options, &job->supervisor), STATUS_OK);
}

/* Starts a process that joins as `rank`. */
static void start_rank(struct job *job, int rank, int rank_count, const char *key, rank_main *main) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct control_link_options options = {
            .address = job_supervisor_address(job->supervisor), .rank = rank, .rank_count = rank_count};
        struct control_link *link;
        string_buffer_append_text(&options.key, key);
        if (control_link_open(&options, &link) != STATUS_OK) {
            _exit(99);
        }
        _exit(main(link));
    }
    job->ranks[job->rank_count++] = child;
}

static struct job_supervisor_verdict run_job(struct job *job, double seconds) {
    struct job_supervisor_verdict verdict = {.is_over = false};
    double until = clock_seconds() + seconds;
    while (!verdict.is_over && clock_seconds() < until) {
        struct pollfd files[JOB_SUPERVISOR_CONNECTIONS_MAX + 2];
        poll(files, (nfds_t)job_supervisor_poll_files(job->supervisor, files), 50);
        job_supervisor_advance(job->supervisor, &verdict);
    }
    return verdict;
}

/* All ranks end, by themselves or because the supervisor is gone; their exit codes. */
static void close_job(struct job *job, int *codes) {
    job_supervisor_destroy(&job->supervisor);
    for (int i = 0; i < job->rank_count; i++) {
        int status = 0;
        assert_int_equal(waitpid(job->ranks[i], &status, 0), job->ranks[i]);
        if (codes != NULL) {
            codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        }
    }
    string_buffer_deinit(&job->key);
}

static void expect_sentence(const struct job_supervisor_verdict *verdict, const char *const *words) {
    assert_true(verdict->is_over);
    for (; *words != NULL; words++) {
        if (strstr(verdict->sentence, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, verdict->sentence);
        }
    }
}
#define EXPECT_SENTENCE(verdict, ...) expect_sentence(&(verdict), (const char *const[]){__VA_ARGS__, NULL})

static int leave(struct control_link *link) {
    control_link_leave(&link, 0);
    return 0;
}

static void describe(void *context, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", (const char *)context);
}

static int wait_for_ever(struct control_link *link) {
    char text[] = "stage 1 of 2, tick 57, waiting in comm_gather";
    control_link_set_describe(link, describe, text);
    sleep_seconds(60);
    return 98;
}

static int die_later(struct control_link *link) {
    char text[] = "stage 0 of 2, tick 56, computing";
    control_link_set_describe(link, describe, text);
    sleep_seconds(1.5);
    raise(SIGKILL);
    return 98;
}

static int fail_by_itself(struct control_link *link) {
    sleep_seconds(0.3);
    control_link_fail(&link, 2, STATUS_USAGE, "the prompt is missing");
    return 2;
}

/* As who waited for another rank in vain. */
static int fail_for_another(struct control_link *link) {
    control_link_fail(&link, 1, STATUS_PEER_LOST, "rank 0 waited for rank 1");
    return 1;
}

static int stop(struct control_link *link) {
    (void)link;
    raise(SIGSTOP);
    return 98;
}

static void all_leave(void **state) {
    (void)state;
    struct job job;
    int codes[4];
    open_job(&job, 3, 10, 5);
    for (int rank = 0; rank < 3; rank++) {
        start_rank(&job, rank, 3, KEY, leave);
    }
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    assert_true(verdict.is_over);
    assert_int_equal(verdict.exit_code, 0);
    assert_string_equal(verdict.sentence, "");
    close_job(&job, codes);
    assert_int_equal(codes[0] + codes[1] + codes[2], 0);
}

/* T-25: in bounded time, with its number. */
static void a_missing_rank_is_named(void **state) {
    (void)state;
    struct job job;
    int codes[4];
    double started = clock_seconds();
    open_job(&job, 3, 1, 5);
    start_rank(&job, 0, 3, KEY, wait_for_ever);
    start_rank(&job, 2, 3, KEY, wait_for_ever);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    EXPECT_SENTENCE(verdict, "rank 1 of 3", "has not come within 1.0 s");
    assert_int_equal(verdict.exit_code, 1);
    close_job(&job, codes);
    assert_true(codes[0] == 1 && codes[1] == 1); /* by the supervisor's word, not by themselves */
    assert_true(clock_seconds() - started < 1 + MARGIN_SECONDS);
}

static void a_dead_rank_is_named_with_what_it_was_at(void **state) {
    (void)state;
    struct job job;
    int codes[4];
    open_job(&job, 2, 10, 5);
    start_rank(&job, 0, 2, KEY, wait_for_ever);
    start_rank(&job, 1, 2, KEY, die_later);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    EXPECT_SENTENCE(verdict, "rank 1 of 2 on host", host, "stage 0 of 2, tick 56, computing", "has died");
    close_job(&job, codes);
    assert_int_equal(codes[0], 1);
    assert_int_equal(codes[1], -SIGKILL);
}

static void a_silent_rank_is_named(void **state) {
    (void)state;
    struct job job;
    open_job(&job, 2, 10, 2);
    start_rank(&job, 0, 2, KEY, wait_for_ever);
    start_rank(&job, 1, 2, KEY, stop);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    EXPECT_SENTENCE(verdict, "rank 1 of 2", "has not been heard of for 2.");
    job_supervisor_kill_rest(job.supervisor);
    close_job(&job, NULL);
}

static void a_failed_rank_says_why(void **state) {
    (void)state;
    struct job job;
    open_job(&job, 2, 10, 5);
    start_rank(&job, 0, 2, KEY, fail_by_itself);
    start_rank(&job, 1, 2, KEY, wait_for_ever);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    assert_int_equal(verdict.exit_code, 2);
    assert_string_equal(verdict.sentence, "the prompt is missing");
    close_job(&job, NULL);
}

/* Rank 0 gives up first, but rank 1 is the reason. */
static void the_reason_goes_before_its_consequence(void **state) {
    (void)state;
    struct job job;
    open_job(&job, 2, 10, 5);
    start_rank(&job, 0, 2, KEY, fail_for_another);
    start_rank(&job, 1, 2, KEY, fail_by_itself);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    assert_string_equal(verdict.sentence, "the prompt is missing");
    close_job(&job, NULL);
    open_job(&job, 2, 10, 5);
    start_rank(&job, 0, 2, KEY, fail_for_another);
    start_rank(&job, 1, 2, KEY, wait_for_ever);
    verdict = run_job(&job, 10);
    assert_string_equal(verdict.sentence, "rank 0 waited for rank 1");
    close_job(&job, NULL);
}

static void other_builds_and_sizes_are_refused(void **state) {
    (void)state;
    struct job job;
    open_job(&job, 2, 10, 5);
    job.build[0] = '\0';
    start_rank(&job, 1, 2, KEY, wait_for_ever);
    struct job_supervisor_verdict verdict = run_job(&job, 10);
    EXPECT_SENTENCE(verdict, "rank 1 of 2", "another build");
    close_job(&job, NULL);
    open_job(&job, 2, 10, 5);
    start_rank(&job, 1, 4, KEY, wait_for_ever);
    verdict = run_job(&job, 10);
    EXPECT_SENTENCE(verdict, "rank 1 of 2", "one of 4 ranks", "the job has 2");
    close_job(&job, NULL);
}

/* A stranger, a wrong key and a second rank 0 are sent away; the job goes on. */
static void strangers_do_no_harm(void **state) {
    (void)state;
    struct job job;
    int codes[4];
    int stranger;
    open_job(&job, 2, 10, 5);
    assert_int_equal(control_socket_connect(job_supervisor_address(job.supervisor), &stranger), STATUS_OK);
    assert_int_equal(write(stranger, "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", 35), 35);
    start_rank(&job, 1, 2, "another secret of a job", wait_for_ever);
    struct job_supervisor_verdict verdict = run_job(&job, 0.5);
    assert_false(verdict.is_over);
    start_rank(&job, 0, 2, KEY, leave);
    verdict = run_job(&job, 0.5);
    start_rank(&job, 0, 2, KEY, wait_for_ever);
    verdict = run_job(&job, 0.5);
    assert_false(verdict.is_over);
    start_rank(&job, 1, 2, KEY, leave);
    verdict = run_job(&job, 10);
    assert_true(verdict.is_over);
    assert_int_equal(verdict.exit_code, 0);
    close(stranger);
    close_job(&job, codes);
    assert_int_equal(codes[0], 99);
    assert_int_equal(codes[2], 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_leave),
        cmocka_unit_test(a_missing_rank_is_named),
        cmocka_unit_test(a_dead_rank_is_named_with_what_it_was_at),
        cmocka_unit_test(a_silent_rank_is_named),
        cmocka_unit_test(a_failed_rank_says_why),
        cmocka_unit_test(the_reason_goes_before_its_consequence),
        cmocka_unit_test(other_builds_and_sizes_are_refused),
        cmocka_unit_test(strangers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
