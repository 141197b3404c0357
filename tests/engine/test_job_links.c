/* Links between the hosts of a job: which are looked at, and which are called slow. Ranks are threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "comm/comm_threads.h"
#include "engine/job_links.h"

enum { RANKS_MAX = 6 };

struct rank {
    pthread_t thread;
    struct comm *comm;
    const int32_t *host_numbers;
    struct job_link links[RANKS_MAX];
    enum status status;
};

static void *run_rank(void *context) {
    struct rank *rank = context;
    comm_set_deadline(rank->comm, 30);
    rank->status = job_links_measure(rank->comm, rank->host_numbers, rank->links);
    comm_destroy(&rank->comm);
    return NULL;
}

/* peers: of each rank, -1 where none is looked at. */
static void expect_links(int count, const int32_t *host_numbers, const int32_t *peers) {
    struct comm *ends[RANKS_MAX];
    static struct rank ranks[RANKS_MAX];
    assert_int_equal(comm_threads_create(count, ends), STATUS_OK);
    for (int i = 0; i < count; i++) {
        ranks[i] = (struct rank){.comm = ends[i], .host_numbers = host_numbers};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        assert_int_equal(ranks[i].status, STATUS_OK);
        assert_memory_equal(ranks[i].links, ranks[0].links, (size_t)count * sizeof ranks[0].links[0]);
    }
    for (int i = 0; i < count; i++) {
        const struct job_link *link = &ranks[0].links[i];
        assert_int_equal(link->rank, peers[i] < 0 ? -1 : i);
        if (peers[i] >= 0) {
            assert_int_equal(link->peer, peers[i]);
            assert_true(link->latency_seconds > 0 && link->latency_seconds < 1);
            assert_true(link->bytes_per_second > 1e7 && link->bytes_per_second < 1e13);
        }
    }
}

static void hosts_are_looked_at_around(void **state) {
    (void)state;
    static const int32_t three[] = {0, 0, 2, 2, 4, 4};
    static const int32_t three_peers[] = {2, -1, 4, -1, 0, -1};
    expect_links(6, three, three_peers);
    static const int32_t mixed[] = {0, 1, 0, 1};
    static const int32_t mixed_peers[] = {1, -1, -1, -1};
    expect_links(4, mixed, mixed_peers);
    static const int32_t one[] = {0, 0};
    static const int32_t one_peers[] = {-1, -1};
    expect_links(2, one, one_peers);
}

static void expect_slow(const double *speeds, int count, const char *expected) {
    static const char *const names[] = {"a", "b", "c", "d"};
    struct job_link links[RANKS_MAX];
    struct string_buffer slow = {0};
    for (int i = 0; i < count; i++) {
        links[i] = (struct job_link){
            .rank = i, .peer = (i + 1) % count, .bytes_per_second = speeds[i], .latency_seconds = 0.002};
    }
    links[count] = (struct job_link){.rank = -1};
    job_links_describe_slow(links, count + 1, names, &slow);
    if (expected == NULL) {
        assert_string_equal(string_buffer_text(&slow), "");
    } else if (strstr(string_buffer_text(&slow), expected) == NULL) {
        fail_msg("\"%s\" is not in: %s", expected, string_buffer_text(&slow));
    }
    string_buffer_deinit(&slow);
}

/* 1 Gbit/s carries 117 MB/s at best; half of the middle one is odd, however fast. */
static void slow_ones_are_named(void **state) {
    (void)state;
    static const double fast[] = {10e9, 9e9, 11e9};
    static const double gigabit[] = {117e6};
    static const double slow[] = {11.7e6};
    static const double odd[] = {10e9, 10e9, 4.9e9};
    expect_slow(fast, 3, NULL);
    expect_slow(gigabit, 1, NULL);
    expect_slow(slow, 1, "hosts a (rank 0) and a (rank 0) is slow: 11.7 MB/s, and 2 ms");
    expect_slow(odd, 3, "the link between hosts c (rank 2) and a (rank 0) is slow: 4.9e+03 MB/s");
}

/* Hosts 0, 2 and 5 of two ranks, three ranks and one: only links that the ranks of a stage use count. */
static void the_slowest_link_of_some_ranks_is_found(void **state) {
    (void)state;
    static const int32_t hosts[] = {0, 0, 2, 2, 2, 5};
    struct job_link links[RANKS_MAX];
    for (int i = 0; i < RANKS_MAX; i++) {
        links[i] = (struct job_link){.rank = -1};
    }
    links[0] = (struct job_link){0, 2, 9e9, 1e-3};
    links[2] = (struct job_link){2, 5, 3e9, 2e-3};
    links[5] = (struct job_link){5, 0, 1e9, 3e-3};
    assert_true(job_links_slowest(links, RANKS_MAX, hosts, 1, 2).bytes_per_second == 9e9);
    assert_true(job_links_slowest(links, RANKS_MAX, hosts, 4, 2).bytes_per_second == 3e9);
    assert_true(job_links_slowest(links, RANKS_MAX, hosts, 4, 2).latency_seconds == 2e-3);
    assert_true(job_links_slowest(links, RANKS_MAX, hosts, 0, 6).bytes_per_second == 1e9);
    /* None was looked at between the hosts of these: it is not taken to be faster than any other. */
    links[0].rank = -1;
    assert_true(job_links_slowest(links, RANKS_MAX, hosts, 1, 2).bytes_per_second == 1e9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_looked_at_around),
        cmocka_unit_test(slow_ones_are_named),
        cmocka_unit_test(the_slowest_link_of_some_ranks_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
