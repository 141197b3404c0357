/*
 * A transport between stages that loses, doubles, swaps or changes messages (spec parallelism T-23, P-17,
 * F-5): requests end at once with a sentence that says what came instead, and never with other tokens.
 *
 * Steps have as many rows each, so that only their headers tell messages apart. The linker puts this file's
 * function in front of the communicator (CMakeLists.txt).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "engine/boundary_header.h"
#include "sluice/request.h"
#include "support/model_fixture.h"

enum { PROMPT = 120, STEP_ROWS = 8, FAULTY = 3, HELD_MAX = 1 << 16 };

enum fault { FAULT_NONE, FAULT_LOSE, FAULT_DOUBLE, FAULT_SWAP, FAULT_CHANGE };

static struct {
    pthread_mutex_t lock;
    enum fault fault;
    size_t offset; /* of the byte that is changed */
    int sent;      /* boundaries */
    unsigned char held[HELD_MAX];
    size_t held_bytes;
    struct comm_request extra; /* of a message that nobody waits for: taken back with its group */
} transport = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum status __real_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);
enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);

static void hold(const void *memory, size_t bytes) {
    assert_true(bytes <= HELD_MAX);
    memcpy(transport.held, memory, bytes);
    transport.held_bytes = bytes;
}

/* Message number FAULTY, or what was held of it; only boundaries go through a stream here. */
static enum status send_faulty(struct comm *comm, struct stream *stream, int to, const void *memory,
                               size_t bytes, struct comm_request *out) {
    switch (transport.fault) {
    case FAULT_NONE:
        break;
    case FAULT_LOSE:
        out->state = NULL;
        return STATUS_OK;
    case FAULT_DOUBLE:
        hold(memory, bytes);
        TRY(__real_comm_start_send(comm, NULL, to, transport.held, bytes, &transport.extra));
        break;
    case FAULT_SWAP:
        hold(memory, bytes);
        out->state = NULL;
        return STATUS_OK;
    case FAULT_CHANGE:
        hold(memory, bytes);
        transport.held[transport.offset] ^= 1;
        return __real_comm_start_send(comm, NULL, to, transport.held, bytes, out);
    }
    return __real_comm_start_send(comm, stream, to, memory, bytes, out);
}

enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out) {
    enum status status;
    if (stream == NULL) {
        return __real_comm_start_send(comm, stream, to, memory, bytes, out);
    }
    pthread_mutex_lock(&transport.lock);
    int number = transport.sent++;
    if (number == FAULTY) {
        status = send_faulty(comm, stream, to, memory, bytes, out);
    } else {
        status = __real_comm_start_send(comm, stream, to, memory, bytes, out);
        if (status == STATUS_OK && number == FAULTY + 1 && transport.fault == FAULT_SWAP) {
            status = __real_comm_start_send(comm, NULL, to, transport.held, transport.held_bytes,
                                            &transport.extra);
        }
    }
    pthread_mutex_unlock(&transport.lock);
    return status;
}

/* One request over two stages, its prompt in steps of STEP_ROWS rows that follow each other. */
static struct sluice_request_state run(enum fault fault, size_t offset, char *message, size_t message_bytes) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    struct sluice_request *request;
    int32_t prompt[PROMPT];
    options.model_directory = layout_fixture_directory();
    options.thread_count = 1;
    options.context_tokens = 256;
    options.sequence_limit = 2;
    options.step_token_limit = STEP_ROWS;
    options.parallel.pipeline = 2;
    EXPECT_OK(sluice_engine_open(&options, &engine));
    pthread_mutex_lock(&transport.lock);
    transport.fault = fault;
    transport.offset = offset;
    transport.sent = 0;
    transport.extra.state = NULL;
    pthread_mutex_unlock(&transport.lock);
    model_random_tokens(1, TINY_VOCABULARY, prompt, PROMPT);
    struct sluice_request_options asked = sluice_request_options_default();
    asked.prompt = prompt;
    asked.prompt_count = PROMPT;
    asked.token_limit = 4;
    EXPECT_OK(sluice_engine_submit(engine, &asked, &request));
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    strncpy(message, end.message == NULL ? "" : end.message, message_bytes - 1);
    sluice_request_release(&request);
    sluice_engine_close(&engine);
    return end;
}

static void expect_fault(enum fault fault, size_t offset, const char *word) {
    char message[1024] = "";
    double began = clock_seconds();
    struct sluice_request_state end = run(fault, offset, message, sizeof message);
    assert_int_equal(end.finish_reason, SLUICE_FINISH_ERROR);
    assert_int_equal(end.token_count, 0);
    assert_true(clock_seconds() - began < 20.0);
    if (strstr(message, word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, message);
    }
}

static void messages_in_order_change_nothing(void **state) {
    (void)state;
    char message[1024] = "";
    assert_int_equal(run(FAULT_NONE, 0, message, sizeof message).finish_reason, SLUICE_FINISH_LENGTH);
    assert_true(transport.sent > FAULTY + 1);
}

/* The message that is the FAULTY + 1st belongs to step FAULTY + 1. */
static void a_lost_message_is_noticed_by_the_next(void **state) {
    (void)state;
    expect_fault(FAULT_LOSE, 0,
                 "rows for step 4 came from stage 0, and their step's number is 5, expected 4");
}

static void a_doubled_message_is_noticed(void **state) {
    (void)state;
    expect_fault(FAULT_DOUBLE, 0, "step's number is 4, expected 5");
}

static void swapped_messages_are_noticed(void **state) {
    (void)state;
    expect_fault(FAULT_SWAP, 0, "step's number is 5, expected 4");
}

static void a_changed_header_is_noticed(void **state) {
    (void)state;
    expect_fault(FAULT_CHANGE, offsetof(struct boundary_header, epoch), "group's epoch is 1, expected 0");
    expect_fault(FAULT_CHANGE, offsetof(struct boundary_header, first_row), "first row is 1, expected 0");
}

/* In builds that check assertions; others leave that to the transport. */
static void a_changed_row_is_noticed(void **state) {
    (void)state;
    if (BOUNDARY_FLAGS == 0) {
        skip();
    }
    expect_fault(FAULT_CHANGE, BOUNDARY_HEADER_BYTES + 100, "their checksum is");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_in_order_change_nothing),
        cmocka_unit_test(a_lost_message_is_noticed_by_the_next),
        cmocka_unit_test(a_doubled_message_is_noticed),
        cmocka_unit_test(swapped_messages_are_noticed),
        cmocka_unit_test(a_changed_header_is_noticed),
        cmocka_unit_test(a_changed_row_is_noticed),
    };
    return cmocka_run_group_tests(tests, layout_fixture_set_up, layout_fixture_tear_down);
}
