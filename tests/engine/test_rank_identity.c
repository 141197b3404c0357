/*
 * Ranks that do not belong together are refused with what differs (spec parallelism F-7, CFG-18, CFG-21).
 * Each rank is a thread with lines of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "comm/comm_threads.h"
#include "engine/rank_identity.h"

enum { RANKS = 3 };

static const char common[] = "protocol=1\nbuild=0.1 abc\nnum_speculative_tokens=1\nconfig.json "
                             "hidden_size=4096\ncheckpoint=00ff\narithmetic=avx512\n";

struct rank {
    pthread_t thread;
    struct comm *comm;
    const char *lines;
    const char *secret;
    uint8_t first_nonce_byte;
    enum status status;
    char message[ERROR_MESSAGE_BYTES];
};

static void *run_rank(void *context) {
    struct rank *rank = context;
    struct string_buffer own = {0};
    struct rank_identity_key key = {.secret = rank->secret, .secret_bytes = strlen(rank->secret)};
    key.nonce[0] = rank->first_nonce_byte;
    string_buffer_append_text(&own, rank->lines);
    comm_set_deadline(rank->comm, 30);
    rank->status = rank_identity_agree(rank->comm, &key, &own);
    snprintf(rank->message, sizeof rank->message, "%s",
             rank->status == STATUS_OK ? "" : error_last()->message);
    string_buffer_deinit(&own);
    comm_destroy(&rank->comm);
    return NULL;
}

/* The last rank has other lines, another secret or another nonce; none goes on, and all others say why. */
static void agree(const char *lines, const char *secret, uint8_t nonce, enum status expected,
                  const char *const *words) {
    struct comm *ends[RANKS];
    struct rank ranks[RANKS];
    assert_int_equal(comm_threads_create(RANKS, ends), STATUS_OK);
    for (int i = 0; i < RANKS; i++) {
        bool is_last = i == RANKS - 1;
        ranks[i] = (struct rank){.comm = ends[i],
                                 .lines = is_last ? lines : common,
                                 .secret = is_last ? secret : "0123456789abcdef",
                                 .first_nonce_byte = is_last ? nonce : 7};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, expected);
        for (const char *const *word = words; *word != NULL && i < RANKS - 1; word++) {
            if (strstr(ranks[i].message, *word) == NULL) {
                fail_msg("rank %d: \"%s\" is not in: %s", i, *word, ranks[i].message);
            }
        }
    }
}
#define AGREE(lines, secret, nonce, status, ...) \
    agree((lines), (secret), (nonce), (status), (const char *const[]){__VA_ARGS__, NULL})

static void equal_ranks_agree(void **state) {
    (void)state;
    AGREE(common, "0123456789abcdef", 7, STATUS_OK, "");
}

static void cfg_18_21_differing_keys_are_named_with_both_values(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *sentence;
    } changes[] = {
        {"protocol=1", "protocol=2", "protocol is 2 there and 1 here"},
        {"build=0.1 abc", "build=0.1 abd", "build is 0.1 abd there and 0.1 abc here"},
        {"tokens=1", "tokens=3", "num_speculative_tokens is 3 there and 1 here"},
        {"size=4096", "size=7168", "config.json hidden_size is 7168 there and 4096 here"},
        {"checkpoint=00ff", "checkpoint=00fe", "checkpoint is 00fe there and 00ff here"},
        {"arithmetic=avx512", "arithmetic=amx", "arithmetic is amx there and avx512 here"},
        {"checkpoint=00ff\n", "", "checkpoint is nothing there and 00ff here"},
        {"build=0.1 abc\n", "build=0.1 abc\nextra=5\n", "extra is 5 there and nothing here"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char lines[512];
        const char *at = strstr(common, changes[i].from);
        assert_non_null(at);
        snprintf(lines, sizeof lines, "%.*s%s%s", (int)(at - common), common, changes[i].to,
                 at + strlen(changes[i].from));
        AGREE(lines, "0123456789abcdef", 7, STATUS_BAD_CONFIG, "rank 2 does not fit rank 0",
              changes[i].sentence);
    }
}

/* Digests made for another start of the job are worth nothing (a repeated message). */
static void who_lacks_the_secret_or_repeats_an_old_digest_is_named(void **state) {
    (void)state;
    AGREE(common, "0123456789abcdeg", 7, STATUS_PEER_LOST, "rank 2 does not know the secret",
          "--peer-secret-file");
    AGREE(common, "", 7, STATUS_PEER_LOST, "rank 2 does not know the secret");
    AGREE(common, "0123456789abcdef", 8, STATUS_PEER_LOST, "rank 2 does not know the secret");
}

/* Many long differences are cut, and the sentence stays one. */
static void long_differences_are_cut(void **state) {
    (void)state;
    char leader[4096] = "";
    char other[4096] = "";
    for (int i = 0; i < 9; i++) {
        char line[256];
        snprintf(line, sizeof line, "key%d=%0200d\n", i, 1);
        strcat(leader, line);
        snprintf(line, sizeof line, "key%d=%0200d\n", i, 2);
        strcat(other, line);
    }
    assert_int_equal(rank_identity_compare(leader, leader, 1), STATUS_OK);
    assert_int_equal(rank_identity_compare(leader, other, 1), STATUS_BAD_CONFIG);
    assert_non_null(strstr(error_last()->message, "key0 is "));
    assert_non_null(strstr(error_last()->message, "2 there and "));
    assert_non_null(strstr(error_last()->message, "1 here"));
    assert_null(strchr(error_last()->message, '\n'));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ranks_agree),
        cmocka_unit_test(cfg_18_21_differing_keys_are_named_with_both_values),
        cmocka_unit_test(who_lacks_the_secret_or_repeats_an_old_digest_is_named),
        cmocka_unit_test(long_differences_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
