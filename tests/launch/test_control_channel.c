/* Control frames: what comes through, and what does not (spec parallelism F-7, T-23). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch/control_channel.h"

struct pair {
    struct string_buffer keys[2]; /* the supervisor's, the rank's */
    struct control_channel supervisor;
    struct control_channel rank;
    int wire[2]; /* the sockets' other ends, where bytes pass by hand */
};

static const uint8_t supervisor_nonce[CONTROL_NONCE_BYTES] = "supervisor nonce";

/* Whatever one end sends must be carried to the other: so it can be changed on the way. */
static void open_pair(struct pair *pair, const char *supervisor_key, const char *rank_key) {
    int ends[2][2];
    *pair = (struct pair){.wire = {-1, -1}};
    string_buffer_append_text(&pair->keys[0], supervisor_key);
    string_buffer_append_text(&pair->keys[1], rank_key);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
        pair->wire[i] = ends[i][1];
    }
    control_channel_init(&pair->supervisor, ends[0][0], true, &pair->keys[0], 3);
    control_channel_init(&pair->rank, ends[1][0], false, &pair->keys[1], 3);
    memcpy(pair->supervisor.nonces[0], supervisor_nonce, CONTROL_NONCE_BYTES);
}

static void close_pair(struct pair *pair) {
    control_channel_deinit(&pair->supervisor);
    control_channel_deinit(&pair->rank);
    for (int i = 0; i < 2; i++) {
        close(pair->wire[i]);
        string_buffer_deinit(&pair->keys[i]);
    }
}

/* What an end has sent; its number of bytes. */
static size_t take(struct pair *pair, int from, uint8_t *bytes, size_t limit) {
    ssize_t length = recv(pair->wire[from], bytes, limit, MSG_DONTWAIT);
    return length < 0 ? 0 : (size_t)length;
}

static void give(struct pair *pair, int to, const uint8_t *bytes, size_t length) {
    assert_int_equal(write(pair->wire[to], bytes, length), length);
}

static size_t challenge(struct pair *pair, uint8_t *bytes, size_t limit) {
    assert_int_equal(control_channel_send(&pair->supervisor, CONTROL_CHALLENGE, supervisor_nonce,
                                          CONTROL_NONCE_BYTES, NULL, 0),
                     STATUS_OK);
    return take(pair, 0, bytes, limit);
}

static size_t hello(struct pair *pair, uint8_t *bytes, size_t limit) {
    struct control_hello own = {.nonce = "rank's own nonce", .rank = 1, .rank_count = 2};
    memcpy(pair->rank.nonces[1], own.nonce, CONTROL_NONCE_BYTES);
    assert_int_equal(control_channel_send(&pair->rank, CONTROL_HELLO, &own, sizeof own, NULL, 0), STATUS_OK);
    return take(pair, 1, bytes, limit);
}

static void shake_hands(struct pair *pair) {
    uint8_t bytes[4096];
    struct control_frame frame;
    give(pair, 1, bytes, challenge(pair, bytes, sizeof bytes));
    assert_int_equal(control_channel_receive(&pair->rank, &frame), STATUS_OK);
    assert_int_equal(frame.kind, CONTROL_CHALLENGE);
    assert_memory_equal(frame.payload, supervisor_nonce, CONTROL_NONCE_BYTES);
    give(pair, 0, bytes, hello(pair, bytes, sizeof bytes));
    assert_int_equal(control_channel_receive(&pair->supervisor, &frame), STATUS_OK);
    assert_int_equal(frame.kind, CONTROL_HELLO);
    assert_int_equal(frame.length, sizeof(struct control_hello));
}

static void expect_refusal(struct control_channel *channel, const char *words) {
    struct control_frame frame;
    assert_int_equal(control_channel_receive(channel, &frame), STATUS_BAD_FORMAT);
    if (strstr(error_last()->message, words) == NULL) {
        fail_msg("\"%s\" is not in: %s", words, error_last()->message);
    }
}

static size_t report(struct pair *pair, const char *text, uint8_t *bytes, size_t limit) {
    assert_int_equal(control_channel_send(&pair->rank, CONTROL_REPORT, text, strlen(text), NULL, 0),
                     STATUS_OK);
    return take(pair, 1, bytes, limit);
}

/* A frame may come byte by byte. */
static void frames_come_through(void **state) {
    (void)state;
    struct pair pair;
    uint8_t bytes[4096];
    struct control_frame frame;
    open_pair(&pair, "the secret of the job", "the secret of the job");
    shake_hands(&pair);
    size_t length = report(&pair, "tick 7", bytes, sizeof bytes);
    for (size_t i = 0; i < length; i++) {
        assert_int_equal(control_channel_receive(&pair.supervisor, &frame), STATUS_OK);
        assert_int_equal(frame.kind, 0);
        give(&pair, 0, &bytes[i], 1);
    }
    /* Head and rest are read one after the other. */
    for (int i = 0; i < 2 && frame.kind == 0; i++) {
        assert_int_equal(control_channel_receive(&pair.supervisor, &frame), STATUS_OK);
    }
    assert_int_equal(frame.kind, CONTROL_REPORT);
    assert_string_equal((const char *)frame.payload, "tick 7");
    shutdown(pair.wire[0], SHUT_WR);
    assert_int_equal(control_channel_receive(&pair.supervisor, &frame), STATUS_IO);
    close_pair(&pair);
}

static void another_secret_is_refused(void **state) {
    (void)state;
    struct pair pair;
    uint8_t bytes[4096];
    open_pair(&pair, "the secret of the job", "the secret of a job");
    give(&pair, 1, bytes, challenge(&pair, bytes, sizeof bytes));
    expect_refusal(&pair.rank, "secret");
    give(&pair, 0, bytes, hello(&pair, bytes, sizeof bytes));
    expect_refusal(&pair.supervisor, "secret");
    close_pair(&pair);
}

/* Each bit counts: those of the head are refused by name or by the digest, all others by the digest. */
static void changed_bits_are_refused(void **state) {
    (void)state;
    for (size_t byte = 0; byte < CONTROL_HEAD_BYTES + 6 + HASH_SHA256_BYTES; byte++) {
        struct pair pair;
        uint8_t bytes[4096];
        struct control_frame frame;
        open_pair(&pair, "the secret of the job", "the secret of the job");
        shake_hands(&pair);
        size_t length = report(&pair, "tick 7", bytes, sizeof bytes);
        assert_int_equal(length, CONTROL_HEAD_BYTES + 6 + HASH_SHA256_BYTES);
        bytes[byte] ^= 0x10;
        give(&pair, 0, bytes, length);
        enum status status = control_channel_receive(&pair.supervisor, &frame);
        /* A longer length waits for bytes that never come. */
        bool is_waiting = byte >= 20 && byte < 24 && status == STATUS_OK && frame.kind == 0;
        assert_true(status == STATUS_BAD_FORMAT || is_waiting);
        close_pair(&pair);
    }
}

static void repeated_and_lost_frames_are_refused(void **state) {
    (void)state;
    struct pair pair;
    uint8_t bytes[4096];
    struct control_frame frame;
    open_pair(&pair, "the secret of the job", "the secret of the job");
    shake_hands(&pair);
    size_t length = report(&pair, "tick 7", bytes, sizeof bytes);
    give(&pair, 0, bytes, length);
    assert_int_equal(control_channel_receive(&pair.supervisor, &frame), STATUS_OK);
    give(&pair, 0, bytes, length);
    expect_refusal(&pair.supervisor, "1 came where 2 was due");
    close_pair(&pair);
    open_pair(&pair, "the secret of the job", "the secret of the job");
    shake_hands(&pair);
    report(&pair, "tick 7", bytes, sizeof bytes);
    give(&pair, 0, bytes, report(&pair, "tick 8", bytes, sizeof bytes));
    expect_refusal(&pair.supervisor, "2 came where 1 was due");
    close_pair(&pair);
}

static void strangers_and_other_versions_are_named(void **state) {
    (void)state;
    struct pair pair;
    uint8_t bytes[4096];
    open_pair(&pair, "the secret of the job", "the secret of the job");
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, "GET / HTTP/1.1", 14);
    give(&pair, 0, bytes, CONTROL_HEAD_BYTES);
    expect_refusal(&pair.supervisor, "no control message");
    close_pair(&pair);
    open_pair(&pair, "the secret of the job", "the secret of the job");
    size_t length = challenge(&pair, bytes, sizeof bytes);
    bytes[4]++;
    give(&pair, 1, bytes, length);
    expect_refusal(&pair.rank, "version 2, this program speaks 1");
    close_pair(&pair);
    open_pair(&pair, "the secret of the job", "the secret of the job");
    pair.rank.epoch = 4;
    give(&pair, 1, bytes, challenge(&pair, bytes, sizeof bytes));
    expect_refusal(&pair.rank, "epoch 3, this job is in 4");
    close_pair(&pair);
}

/* The standard streams of another process: what is written there arrives here. */
static void open_files_come_through(void **state) {
    (void)state;
    struct string_buffer key = {0};
    struct control_channel ends[2];
    struct control_frame frame;
    int sockets[2];
    int pipes[2];
    char text[5] = "";
    string_buffer_append_text(&key, "the secret of the job");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(pipes), 0);
    control_channel_init(&ends[0], sockets[0], true, &key, 0);
    control_channel_init(&ends[1], sockets[1], false, &key, 0);
    assert_int_equal(control_channel_send(&ends[0], CONTROL_WELCOME, NULL, 0, &pipes[1], 1), STATUS_OK);
    close(pipes[1]);
    for (frame.kind = 0; frame.kind == 0;) {
        assert_int_equal(control_channel_receive(&ends[1], &frame), STATUS_OK);
    }
    assert_int_equal(frame.kind, CONTROL_WELCOME);
    assert_int_equal(ends[1].file_count, 1);
    assert_int_equal(write(ends[1].files[0], "here", 4), 4);
    assert_int_equal(read(pipes[0], text, 4), 4);
    assert_string_equal(text, "here");
    close(pipes[0]);
    control_channel_deinit(&ends[0]);
    control_channel_deinit(&ends[1]);
    string_buffer_deinit(&key);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_through),
        cmocka_unit_test(another_secret_is_refused),
        cmocka_unit_test(changed_bits_are_refused),
        cmocka_unit_test(repeated_and_lost_frames_are_refused),
        cmocka_unit_test(strangers_and_other_versions_are_named),
        cmocka_unit_test(open_files_come_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
