#include "comm/comm_cases.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm_oracle.h"

enum { RANKS_MAX = 16, BYTES_MAX = 5000, CANARY = 0x5A };

/* malloc that ends the test program instead of returning NULL. */
static void *get_memory(size_t bytes) {
    void *memory = malloc(bytes + 1);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static float *contribution(struct comm *comm, uint64_t seed, int64_t count) {
    float *values = get_memory((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = oracle_value(seed, comm_rank(comm), i);
    }
    return values;
}

static float *whole_sum(struct comm *comm, uint64_t seed, int64_t count) {
    float *values = get_memory((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = oracle_sum(seed, comm_size(comm), i);
    }
    return values;
}

static int check_sum(struct comm *comm, uint64_t seed, int64_t count) {
    int failure_count = 0;
    float *values = contribution(comm, seed, count);
    float *expected = whole_sum(comm, seed, count);
    EXPECT(comm_sum(comm, NULL, values, count) == STATUS_OK);
    EXPECT(memcmp(values, expected, (size_t)count * sizeof *values) == 0);
    free(values);
    free(expected);
    return failure_count;
}

int case_sums(struct comm *comm) {
    int failure_count = 0;
    static const int64_t counts[] = {255, 256, 257, 1000, 4095, 4096, 4097, 4103, 10007};
    for (int64_t count = 0; count <= 4 * comm_size(comm) + 1; count++) {
        failure_count += check_sum(comm, (uint64_t)count, count);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        failure_count += check_sum(comm, i, counts[i]);
    }
    return failure_count;
}

/* How rows are dealt out: c = ceil(n / T) each as long as they last, as evenly as it goes, or all to one. */
enum dealing { DEAL_PADDED, DEAL_EVENLY, DEAL_TO_LAST, DEALING_COUNT };

static void deal_rows(enum dealing dealing, int64_t rows, int size, int64_t *first) {
    for (int rank = 0; rank <= size; rank++) {
        int64_t padded = rank * ((rows + size - 1) / size);
        switch (dealing) {
        case DEAL_PADDED:
            first[rank] = padded < rows ? padded : rows;
            break;
        case DEAL_EVENLY:
            first[rank] = rank * rows / size;
            break;
        case DEAL_TO_LAST:
        case DEALING_COUNT:
            first[rank] = rank < size ? 0 : rows;
            break;
        }
    }
}

/* The own rows of a sum, then all of them gathered: what comm_sum gives. */
static int check_scattered_sum(struct comm *comm, const int64_t *first, int64_t width, bool in_place) {
    int failure_count = 0;
    int rank = comm_rank(comm);
    int64_t count = first[comm_size(comm)] * width;
    uint64_t seed = (uint64_t)(count * 10 + width);
    float *values = contribution(comm, seed, count);
    float *expected = whole_sum(comm, seed, count);
    float *sums = get_memory((size_t)count * sizeof *sums);
    float *apart = get_memory((size_t)count * sizeof *apart);
    int64_t own_count = (first[rank + 1] - first[rank]) * width;
    float *out = in_place ? values + first[rank] * width : apart;
    EXPECT(comm_sum_scatter(comm, NULL, values, first, width, out) == STATUS_OK);
    EXPECT(memcmp(out, expected + first[rank] * width, (size_t)own_count * sizeof *out) == 0);
    size_t offsets[RANKS_MAX + 1];
    for (int i = 0; i <= comm_size(comm); i++) {
        offsets[i] = (size_t)(first[i] * width) * sizeof *sums;
    }
    EXPECT(comm_gather(comm, NULL, out, offsets, sums) == STATUS_OK);
    EXPECT(memcmp(sums, expected, (size_t)count * sizeof *sums) == 0);
    free(values);
    free(expected);
    free(sums);
    free(apart);
    return failure_count;
}

int case_scattered_sums(struct comm *comm) {
    int failure_count = 0;
    int64_t first[RANKS_MAX + 1];
    static const int64_t widths[] = {1, 3, 17};
    for (int64_t rows = 0; rows <= 4 * comm_size(comm) + 1; rows++) {
        for (enum dealing dealing = DEAL_PADDED; dealing < DEALING_COUNT; dealing++) {
            deal_rows(dealing, rows, comm_size(comm), first);
            for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
                failure_count += check_scattered_sum(comm, first, widths[i], (rows + (int64_t)i) % 2 == 0);
            }
        }
    }
    deal_rows(DEAL_EVENLY, 33, comm_size(comm), first);
    failure_count += check_scattered_sum(comm, first, 333, true);
    return failure_count;
}

/* Sizes of a gather: every third rank or so has nothing. Returns the whole size. */
static size_t choose_offsets(uint64_t seed, int size, int bytes_max, size_t *offsets) {
    offsets[0] = 0;
    for (int rank = 0; rank < size; rank++) {
        int bytes = oracle_number(seed, rank, 3) == 0 ? 0 : oracle_number(seed, rank + 100, bytes_max);
        offsets[rank + 1] = offsets[rank] + (size_t)bytes;
    }
    return offsets[size];
}

static int check_gather(struct comm *comm, uint64_t seed, int bytes_max, bool in_place) {
    int failure_count = 0;
    int rank = comm_rank(comm);
    size_t offsets[RANKS_MAX + 1];
    size_t bytes = choose_offsets(seed, comm_size(comm), bytes_max, offsets);
    unsigned char *expected = get_memory(bytes);
    for (int i = 0; i < comm_size(comm); i++) {
        oracle_fill(expected + offsets[i], seed, i, 0, (int)(offsets[i + 1] - offsets[i]));
    }
    unsigned char *out = get_memory(bytes);
    memset(out, CANARY, bytes + 1);
    unsigned char own[BYTES_MAX];
    oracle_fill(own, seed, rank, 0, (int)(offsets[rank + 1] - offsets[rank]));
    memcpy(out + offsets[rank], own, in_place ? offsets[rank + 1] - offsets[rank] : 0);
    EXPECT(comm_gather(comm, NULL, in_place ? out + offsets[rank] : own, offsets, out) == STATUS_OK);
    EXPECT(memcmp(out, expected, bytes) == 0);
    EXPECT(out[bytes] == CANARY);
    free(out);
    free(expected);
    return failure_count;
}

int case_gather(struct comm *comm) {
    int failure_count = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        failure_count += check_gather(comm, seed, seed < 10 ? 50 : BYTES_MAX, seed % 2 == 0);
    }
    return failure_count;
}

static int pair_bytes(uint64_t seed, int from, int to, int bytes_max) {
    int place = from * RANKS_MAX + to;
    return oracle_number(seed, place, 4) == 0 ? 0 : oracle_number(seed, place + 1000, bytes_max);
}

static enum status exchange(struct comm *comm, const void *in, const size_t *send, void *out,
                            const size_t *receive) {
    struct comm_flight flight;
    TRY(comm_start_exchange(comm, NULL, in, send, out, receive, &flight));
    return comm_finish(comm, &flight);
}

static int check_exchange(struct comm *comm, uint64_t seed, int bytes_max) {
    int failure_count = 0;
    int rank = comm_rank(comm);
    size_t send[RANKS_MAX + 1] = {0};
    size_t receive[RANKS_MAX + 1] = {0};
    for (int i = 0; i < comm_size(comm); i++) {
        send[i + 1] = send[i] + (size_t)pair_bytes(seed, rank, i, bytes_max);
        receive[i + 1] = receive[i] + (size_t)pair_bytes(seed, i, rank, bytes_max);
    }
    unsigned char *in = get_memory(send[comm_size(comm)]);
    unsigned char *out = get_memory(receive[comm_size(comm)]);
    unsigned char *expected = get_memory(receive[comm_size(comm)]);
    for (int i = 0; i < comm_size(comm); i++) {
        oracle_fill(in + send[i], seed, rank, i, (int)(send[i + 1] - send[i]));
        oracle_fill(expected + receive[i], seed, i, rank, (int)(receive[i + 1] - receive[i]));
    }
    out[receive[comm_size(comm)]] = CANARY;
    EXPECT(exchange(comm, in, send, out, receive) == STATUS_OK);
    EXPECT(memcmp(out, expected, receive[comm_size(comm)]) == 0);
    EXPECT(out[receive[comm_size(comm)]] == CANARY);
    free(in);
    free(out);
    free(expected);
    return failure_count;
}

int case_exchange(struct comm *comm) {
    int failure_count = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        failure_count += check_exchange(comm, seed, seed < 10 ? 30 : BYTES_MAX);
    }
    return failure_count;
}

/* A gather that is under way. */
struct gather_flight {
    struct comm_flight flight;
    unsigned char own[BYTES_MAX];
    unsigned char *out;
    unsigned char *expected;
    size_t bytes;
};

static int start_gather_flight(struct comm *comm, uint64_t seed, struct gather_flight *out) {
    int failure_count = 0;
    int rank = comm_rank(comm);
    size_t offsets[RANKS_MAX + 1];
    out->bytes = choose_offsets(seed, comm_size(comm), BYTES_MAX, offsets);
    out->expected = get_memory(out->bytes);
    out->out = get_memory(out->bytes);
    for (int i = 0; i < comm_size(comm); i++) {
        oracle_fill(out->expected + offsets[i], seed, i, 0, (int)(offsets[i + 1] - offsets[i]));
    }
    oracle_fill(out->own, seed, rank, 0, (int)(offsets[rank + 1] - offsets[rank]));
    EXPECT(comm_start_gather(comm, NULL, out->own, offsets, out->out, &out->flight) == STATUS_OK);
    memset(offsets, CANARY, sizeof offsets); /* they were read */
    return failure_count;
}

static int finish_gather_flight(struct comm *comm, struct gather_flight *flight) {
    int failure_count = 0;
    EXPECT(comm_finish(comm, &flight->flight) == STATUS_OK);
    EXPECT(flight->flight.state == NULL);
    EXPECT(comm_finish(comm, &flight->flight) == STATUS_OK);
    EXPECT(memcmp(flight->out, flight->expected, flight->bytes) == 0);
    free(flight->out);
    free(flight->expected);
    return failure_count;
}

/* Flights with everything else in between, several at once, and finished in another order than started. */
int case_flights(struct comm *comm) {
    int failure_count = 0;
    for (uint64_t seed = 500; seed < 510; seed++) {
        struct gather_flight first;
        struct gather_flight second;
        failure_count += start_gather_flight(comm, seed, &first);
        failure_count += check_sum(comm, seed, 5000);
        failure_count += start_gather_flight(comm, seed + 100, &second);
        failure_count += check_gather(comm, seed + 200, BYTES_MAX, true);
        failure_count += finish_gather_flight(comm, seed % 2 == 0 ? &first : &second);
        failure_count += check_exchange(comm, seed, BYTES_MAX);
        failure_count += finish_gather_flight(comm, seed % 2 == 0 ? &second : &first);
    }
    return failure_count;
}

static int check_broadcast(struct comm *comm, uint64_t seed, int root, int bytes) {
    int failure_count = 0;
    unsigned char memory[BYTES_MAX + 1];
    unsigned char expected[BYTES_MAX];
    memset(memory, CANARY, sizeof memory);
    oracle_fill(expected, seed, root, 0, bytes);
    if (comm_rank(comm) == root) {
        memcpy(memory, expected, (size_t)bytes);
    }
    EXPECT(comm_broadcast_host(comm, root, memory, (size_t)bytes) == STATUS_OK);
    EXPECT(memcmp(memory, expected, (size_t)bytes) == 0);
    EXPECT(memory[bytes] == CANARY);
    return failure_count;
}

int case_broadcast(struct comm *comm) {
    int failure_count = 0;
    static const int sizes[] = {0, 1, 64, BYTES_MAX};
    for (int root = 0; root < comm_size(comm); root++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            failure_count += check_broadcast(comm, i, root, sizes[i]);
        }
    }
    return failure_count;
}

static enum status fail_as_rank(int rank, enum status status) {
    FAIL(status, "the cable of rank %d is loose", rank);
}

/* `rank` fails with BAD_SHAPE, the last rank with a status that counts less. */
static int check_agree(struct comm *comm, int rank) {
    int failure_count = 0;
    char sentence[40];
    snprintf(sentence, sizeof sentence, "the cable of rank %d is loose", rank);
    int last = comm_size(comm) - 1;
    enum status own = STATUS_OK;
    if (comm_rank(comm) == rank) {
        own = fail_as_rank(rank, STATUS_BAD_SHAPE);
    } else if (comm_rank(comm) == last) {
        own = fail_as_rank(last, STATUS_USAGE);
    }
    EXPECT(comm_agree(comm, own) == STATUS_BAD_SHAPE);
    EXPECT(strstr(error_last()->message, sentence) != NULL);
    EXPECT(error_last()->status == STATUS_BAD_SHAPE);
    return failure_count;
}

int case_agree(struct comm *comm) {
    int failure_count = 0;
    EXPECT(comm_agree(comm, STATUS_OK) == STATUS_OK);
    for (int rank = 0; rank < comm_size(comm); rank++) {
        failure_count += check_agree(comm, rank);
        EXPECT(comm_agree(comm, STATUS_OK) == STATUS_OK);
    }
    EXPECT(comm_agree(comm, fail_as_rank(comm_rank(comm), STATUS_IO)) == STATUS_IO);
    return failure_count;
}

enum { MESSAGE_COUNT = 5, MESSAGE_BYTES = 20000 };

/* Sizes of the messages between neighbours; one has nothing in it. */
static int message_bytes(int index) {
    return index == 2 ? 0 : 1 + index * (MESSAGE_BYTES - 1) / MESSAGE_COUNT;
}

/* Messages to the next rank, from the one before, a collective among them, and waits in two orders. */
static int check_messages(struct comm *comm, bool sends_first) {
    int failure_count = 0;
    int size = comm_size(comm);
    int next = (comm_rank(comm) + 1) % size;
    int before = (comm_rank(comm) + size - 1) % size;
    struct comm_request sends[MESSAGE_COUNT];
    struct comm_request receives[MESSAGE_COUNT];
    unsigned char *in = get_memory((size_t)MESSAGE_COUNT * MESSAGE_BYTES);
    unsigned char *out = get_memory((size_t)MESSAGE_COUNT * MESSAGE_BYTES);
    unsigned char expected[MESSAGE_BYTES];
    for (int i = 0; i < MESSAGE_COUNT; i++) {
        size_t at = (size_t)i * MESSAGE_BYTES;
        size_t bytes = (size_t)message_bytes(i);
        oracle_fill(in + at, (uint64_t)i, comm_rank(comm), next, (int)bytes);
        EXPECT(comm_start_send(comm, NULL, next, in + at, bytes, &sends[i]) == STATUS_OK);
        if (i == 1) {
            failure_count += check_sum(comm, 77, 11);
        }
        EXPECT(comm_start_receive(comm, NULL, before, out + at, bytes, &receives[i]) == STATUS_OK);
    }
    for (int i = 0; i < MESSAGE_COUNT; i++) {
        EXPECT(comm_wait(comm, sends_first ? &sends[MESSAGE_COUNT - 1 - i] : &receives[i]) == STATUS_OK);
    }
    for (int i = 0; i < MESSAGE_COUNT; i++) {
        EXPECT(comm_wait(comm, &sends[i]) == STATUS_OK);
        EXPECT(comm_wait(comm, &receives[i]) == STATUS_OK);
        oracle_fill(expected, (uint64_t)i, before, comm_rank(comm), message_bytes(i));
        EXPECT(memcmp(out + (size_t)i * MESSAGE_BYTES, expected, (size_t)message_bytes(i)) == 0);
    }
    free(in);
    free(out);
    return failure_count;
}

int case_messages(struct comm *comm) {
    if (comm_size(comm) == 1) {
        return 0;
    }
    return check_messages(comm, true) + check_messages(comm, false);
}

enum { MEGABYTE = 1 << 20, LONG_ROOM = 66 * MEGABYTE };

static unsigned char long_byte(size_t place) {
    return (unsigned char)(place * 7 + place / 4099);
}

/* Rank 0 to rank 1, who knows the size, or has room for more. */
static int check_long_message(struct comm *comm, size_t bytes, bool is_early) {
    int failure_count = 0;
    unsigned char *memory = get_memory(LONG_ROOM);
    struct comm_request request;
    if (comm_rank(comm) == 0) {
        for (size_t i = 0; i < bytes; i++) {
            memory[i] = long_byte(i);
        }
        EXPECT(comm_start_send(comm, NULL, 1, memory, bytes, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
    } else if (is_early) {
        EXPECT(comm_start_receive_early(comm, NULL, 0, memory, LONG_ROOM, &request) == STATUS_OK);
        EXPECT(comm_wait_sized(comm, &request, bytes) == STATUS_OK);
    } else {
        EXPECT(comm_start_receive(comm, NULL, 0, memory, bytes, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
    }
    size_t wrong_count = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong_count += memory[i] != long_byte(i);
    }
    EXPECT(wrong_count == 0);
    free(memory);
    return failure_count;
}

/* Longer than what MPI takes in one piece here, of odd sizes and of just so many megabytes. */
int case_long_message(struct comm *comm) {
    static const size_t sizes[] = {65 * MEGABYTE + 12345, 64 * MEGABYTE, 64 * MEGABYTE - 1, LONG_ROOM, 1000};
    int failure_count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && comm_size(comm) > 1 && comm_rank(comm) < 2;
         i++) {
        failure_count += check_long_message(comm, sizes[i], true);
        failure_count += i < 2 ? check_long_message(comm, sizes[i], false) : 0;
    }
    return failure_count;
}

/* `sent` bytes for who has room for 64 and should have got `expected`; who comes first is asked for. */
static int check_early_receive(struct comm *comm, size_t sent, size_t expected, bool is_sender_first) {
    int failure_count = 0;
    unsigned char memory[80] = {0};
    struct comm_request request = {NULL};
    if (comm_rank(comm) == 0) {
        EXPECT(is_sender_first || comm_barrier(comm) == STATUS_OK);
        memset(memory, 5, sent);
        EXPECT(comm_start_send(comm, NULL, 1, memory, sent, &request) == STATUS_OK);
        EXPECT(!is_sender_first || comm_barrier(comm) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
        return failure_count;
    }
    EXPECT(!is_sender_first || comm_barrier(comm) == STATUS_OK);
    if (comm_rank(comm) == 1) {
        EXPECT(comm_start_receive_early(comm, NULL, 0, memory, 64, &request) == STATUS_OK);
    }
    EXPECT(is_sender_first || comm_barrier(comm) == STATUS_OK);
    if (comm_rank(comm) == 1 && sent == expected) {
        EXPECT(comm_wait_sized(comm, &request, expected) == STATUS_OK);
        EXPECT(memory[0] == (sent > 0 ? 5 : 0) && memory[63] == (sent == 64 ? 5 : 0) && memory[64] == 0);
    } else if (comm_rank(comm) == 1) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "expected %zu bytes of rank 0", expected);
        EXPECT(comm_wait_sized(comm, &request, expected) == STATUS_INTERNAL);
        EXPECT(strstr(error_last()->message, sentence) != NULL);
    }
    return failure_count;
}

/* A receive that is taken back takes no message. */
static int check_cancelled_receive(struct comm *comm) {
    int failure_count = 0;
    unsigned char memory[2] = {1, 2};
    struct comm_request request = {NULL};
    if (comm_rank(comm) == 1) {
        EXPECT(comm_start_receive_early(comm, NULL, 0, &memory[0], 1, &request) == STATUS_OK);
        comm_cancel(comm, &request);
        EXPECT(request.state == NULL);
        comm_cancel(comm, &request);
    }
    EXPECT(comm_barrier(comm) == STATUS_OK);
    if (comm_rank(comm) == 0) {
        EXPECT(comm_start_send(comm, NULL, 1, &memory[1], 1, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
    } else if (comm_rank(comm) == 1) {
        memory[1] = 0;
        EXPECT(comm_start_receive(comm, NULL, 0, &memory[1], 1, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
        EXPECT(memory[0] == 1 && memory[1] == 2);
    }
    return failure_count;
}

int case_early_receives(struct comm *comm) {
    static const size_t sizes[][2] = {{64, 64}, {1, 1}, {0, 0}, {40, 41}, {41, 40}, {80, 64}, {0, 3}, {9, 9}};
    int failure_count = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && comm_size(comm) > 1; i++) {
        failure_count += check_early_receive(comm, sizes[i][0], sizes[i][1], true);
        failure_count += check_early_receive(comm, sizes[i][0], sizes[i][1], false);
    }
    return failure_count + (comm_size(comm) > 1 ? check_cancelled_receive(comm) : 0);
}

/* One wrong size, then a message that fits: the fault does not spoil what follows. */
static int check_wrong_size(struct comm *comm, size_t sent, size_t expected) {
    int failure_count = 0;
    unsigned char memory[64] = {0};
    struct comm_request request = {NULL};
    struct comm_request next = {NULL};
    if (comm_rank(comm) == 0) {
        EXPECT(comm_start_send(comm, NULL, 1, memory, sent, &request) == STATUS_OK);
        EXPECT(comm_start_send(comm, NULL, 1, memory, 7, &next) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_OK);
        EXPECT(comm_wait(comm, &next) == STATUS_OK);
    } else if (comm_rank(comm) == 1) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "expected %zu bytes of rank 0", expected);
        EXPECT(comm_start_receive(comm, NULL, 0, memory, expected, &request) == STATUS_OK);
        EXPECT(comm_start_receive(comm, NULL, 0, memory + 50, 7, &next) == STATUS_OK);
        EXPECT(comm_wait(comm, &request) == STATUS_INTERNAL);
        EXPECT(strstr(error_last()->message, sentence) != NULL);
        snprintf(sentence, sizeof sentence, "but %zu came", sent);
        EXPECT(strstr(error_last()->message, sentence) != NULL);
        EXPECT(comm_wait(comm, &next) == STATUS_OK);
    }
    return failure_count;
}

int case_wrong_size(struct comm *comm) {
    if (comm_size(comm) == 1) {
        return 0;
    }
    return check_wrong_size(comm, 8, 12) + check_wrong_size(comm, 40, 12) + check_wrong_size(comm, 0, 1) +
           check_wrong_size(comm, 1, 0);
}

static bool is_power_of_two(int size) {
    return (size & (size - 1)) == 0;
}

/* Bytes that a rank sends in a sum of few values: its values in each exchange. */
static uint64_t direct_sum_bytes(int size, uint64_t value_bytes) {
    if (!is_power_of_two(size)) {
        return (uint64_t)(size - 1) * value_bytes;
    }
    uint64_t rounds = 0;
    for (int reach = 1; reach < size; reach *= 2) {
        rounds++;
    }
    return rounds * value_bytes;
}

/* Spec parallelism 3.4: a gather and a scattered sum (T - 1) / T of the whole, a large sum twice that. */
int case_sent_bytes(struct comm *comm) {
    int failure_count = 0;
    enum { ROWS = 3, WIDTH = 1001, FEW = 1001 };
    uint64_t size = (uint64_t)comm_size(comm);
    int64_t count = (int64_t)size * ROWS * WIDTH * 2;
    uint64_t whole_bytes = (uint64_t)count * sizeof(float);
    float *values = contribution(comm, 1, count);
    int64_t first[RANKS_MAX + 1];
    size_t offsets[RANKS_MAX + 1];
    for (int rank = 0; rank <= comm_size(comm); rank++) {
        first[rank] = (int64_t)rank * ROWS * 2;
        offsets[rank] = (size_t)(first[rank] * WIDTH) * sizeof(float);
    }
    float *own = values + first[comm_rank(comm)] * WIDTH;
    uint64_t before = comm_sent_bytes(comm);
    uint64_t kinds[COMM_TRAFFIC_COUNT];
    for (int kind = 0; kind < COMM_TRAFFIC_COUNT; kind++) {
        kinds[kind] = comm_sent_bytes_in(comm, (enum comm_traffic)kind);
    }
    EXPECT(comm_sum_scatter(comm, NULL, values, first, WIDTH, own) == STATUS_OK);
    EXPECT((comm_sent_bytes(comm) - before) * size == (size - 1) * whole_bytes);
    before = comm_sent_bytes(comm);
    EXPECT(comm_gather(comm, NULL, own, offsets, values) == STATUS_OK);
    EXPECT((comm_sent_bytes(comm) - before) * size == (size - 1) * whole_bytes);
    before = comm_sent_bytes(comm);
    EXPECT(comm_sum(comm, NULL, values, count) == STATUS_OK);
    EXPECT((comm_sent_bytes(comm) - before) * size == 2 * (size - 1) * whole_bytes);
    before = comm_sent_bytes(comm);
    EXPECT(comm_sum(comm, NULL, values, FEW) == STATUS_OK);
    EXPECT(comm_sent_bytes(comm) - before == direct_sum_bytes(comm_size(comm), FEW * sizeof(float)));
    float *out = get_memory(whole_bytes);
    before = comm_sent_bytes(comm);
    EXPECT(exchange(comm, values, offsets, out, offsets) == STATUS_OK);
    EXPECT((comm_sent_bytes(comm) - before) * size == (size - 1) * whole_bytes);
    /* Of each kind by itself: nothing else was sent by this end. */
    EXPECT(comm_sent_bytes_in(comm, COMM_TRAFFIC_GATHER) - kinds[COMM_TRAFFIC_GATHER] ==
           (size - 1) * whole_bytes / size);
    EXPECT(comm_sent_bytes_in(comm, COMM_TRAFFIC_EXCHANGE) - kinds[COMM_TRAFFIC_EXCHANGE] ==
           (size - 1) * whole_bytes / size);
    EXPECT(comm_sent_bytes_in(comm, COMM_TRAFFIC_SUM) - kinds[COMM_TRAFFIC_SUM] ==
           3 * (size - 1) * whole_bytes / size + direct_sum_bytes(comm_size(comm), FEW * sizeof(float)));
    free(values);
    free(out);
    return failure_count;
}

/* Some ranks come late, by nothing, by giving the core away, or by a sleep. */
static void pause_rank(struct comm *comm, uint64_t seed) {
    int choice = oracle_number(seed, comm_rank(comm), 64);
    struct timespec time = {.tv_nsec = choice == 0 ? 200000 : choice * 1000};
    if (choice < 4) {
        nanosleep(&time, NULL);
    }
}

static int check_random(struct comm *comm, uint64_t seed) {
    int64_t first[RANKS_MAX + 1];
    pause_rank(comm, seed);
    switch (oracle_number(seed, 0, 6)) {
    case 0:
        return check_sum(comm, seed, oracle_number(seed, 1, 60));
    case 1:
        deal_rows((enum dealing)oracle_number(seed, 1, DEALING_COUNT), oracle_number(seed, 2, 20),
                  comm_size(comm), first);
        return check_scattered_sum(comm, first, 1 + oracle_number(seed, 3, 5), seed % 2 == 0);
    case 2:
        return check_gather(comm, seed, 100, seed % 2 == 0);
    case 3:
        return check_exchange(comm, seed, 60);
    case 4:
        return check_broadcast(comm, seed, oracle_number(seed, 1, comm_size(comm)), 50);
    default:
        return comm_size(comm) == 1 || seed % 8 != 0 ? 0 : check_messages(comm, seed % 16 == 0);
    }
}

int case_random(struct comm *comm, uint64_t seed, int count) {
    int failure_count = 0;
    for (int i = 0; i < count && failure_count == 0; i++) {
        failure_count += check_random(comm, seed + (uint64_t)i);
    }
    return failure_count;
}

/* Who waits for the root waits as long as it takes, and can be seen; what comes then has its deadline again.
 */
int case_idle_root(struct comm *comm) {
    int failure_count = 0;
    int value = comm_rank(comm);
    struct comm_watch watch = {.operation = NULL};
    struct timespec idle = {.tv_nsec = 700000000};
    EXPECT(comm_barrier(comm) == STATUS_OK);
    comm_set_watch(comm, &watch);
    comm_set_deadline(comm, 0.5);
    comm_set_idle_deadline(comm, COMM_NO_DEADLINE_SECONDS);
    if (comm_rank(comm) == 0) {
        nanosleep(&idle, NULL);
    }
    EXPECT(comm_broadcast_host(comm, 0, &value, sizeof value) == STATUS_OK);
    EXPECT(value == 0);
    EXPECT(watch.operation == NULL);
    EXPECT(comm_rank(comm) != 1 || watch.peer == 0);
    comm_set_deadline(comm, 30);
    comm_set_watch(comm, NULL);
    EXPECT(comm_barrier(comm) == STATUS_OK);
    return failure_count;
}

int all_cases(struct comm *comm, int random_count) {
    return case_sums(comm) + case_scattered_sums(comm) + case_gather(comm) + case_exchange(comm) +
           case_flights(comm) + case_broadcast(comm) + case_agree(comm) + case_messages(comm) +
           case_wrong_size(comm) + case_early_receives(comm) + case_sent_bytes(comm) +
           case_random(comm, 1000, random_count);
}
