/*
 * Frames between a rank and whoever supervises the job, over a stream socket (docs/parallel.md).
 *
 * A frame is a head of 32 bytes (magic, version, kind, running number, epoch, length; little-endian), its
 * payload, and a digest that only who knows the job's key can make, over both sides' random numbers, the
 * direction, the head and the payload: so a stray or an older program is told apart, and nothing can be put
 * in, left out or repeated. Payloads are not encrypted. One thread at a time for each direction.
 */
#ifndef SLUICE_LAUNCH_CONTROL_CHANNEL_H
#define SLUICE_LAUNCH_CONTROL_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "lib/hash.h"

enum {
    CONTROL_VERSION = 1,
    CONTROL_HEAD_BYTES = 32,
    CONTROL_PAYLOAD_MAX = 8192,
    CONTROL_NONCE_BYTES = 16,
    CONTROL_FILES_MAX = 3,
};

enum control_kind {
    CONTROL_CHALLENGE = 1, /* supervisor: its random number */
    CONTROL_HELLO,         /* rank: struct control_hello */
    CONTROL_WELCOME,       /* supervisor: nothing, and on one host its own standard streams */
    CONTROL_REPORT,        /* rank, several times a second: what it is at, as text */
    CONTROL_FAILED,        /* rank: struct control_end; it is about to end */
    CONTROL_LEAVING,       /* rank: struct control_end; it ends as it should */
    CONTROL_FAULT,         /* supervisor: why the job ends, as text */
};

enum { CONTROL_HOST_BYTES = 64, CONTROL_BUILD_BYTES = 72 };

/* Numbers are in the host's order: a HELLO of another build is refused by its build first. */
struct control_hello {
    uint8_t nonce[CONTROL_NONCE_BYTES];
    int32_t rank;
    int32_t rank_count;
    char build[CONTROL_BUILD_BYTES];
    char host[CONTROL_HOST_BYTES];
};

struct control_end {
    int32_t exit_code;
    int32_t status;                    /* enum status; PEER_LOST: another rank is the reason */
    char message[ERROR_MESSAGE_BYTES]; /* "" for LEAVING */
};

struct control_frame {
    enum control_kind kind;
    size_t length;
    uint8_t payload[CONTROL_PAYLOAD_MAX + 1]; /* a zero byte follows */
};

struct control_channel {
    int socket; /* owned; -1: none */
    bool is_supervisor;
    uint32_t epoch;
    const struct string_buffer *key;        /* borrowed */
    uint8_t nonces[2][CONTROL_NONCE_BYTES]; /* the supervisor's, the rank's */
    uint64_t sent;
    uint64_t received;
    int files[CONTROL_FILES_MAX]; /* that came with a frame; owned until taken */
    int file_count;
    size_t in_length;
    uint8_t in[CONTROL_HEAD_BYTES + CONTROL_PAYLOAD_MAX + HASH_SHA256_BYTES];
};

/* Takes over a connected socket. Owned: control_channel_deinit. */
void control_channel_init(struct control_channel *channel, int socket, bool is_supervisor,
                          const struct string_buffer *key, uint32_t epoch);
void control_channel_deinit(struct control_channel *channel);

/* Sends a frame, with open files where both ends are on one host. IO if the other end is gone. */
enum status control_channel_send(struct control_channel *channel, enum control_kind kind, const void *payload,
                                 size_t length, const int *files, int file_count);

/*
 * Takes what has come. out->kind 0: no whole frame yet. IO: the other end is gone; BAD_FORMAT says what is
 * wrong with a frame. A HELLO's own random number counts for its digest.
 */
enum status control_channel_receive(struct control_channel *channel, struct control_frame *out);

#endif
