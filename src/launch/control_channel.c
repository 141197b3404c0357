/* Frames are small and rare: each is sent by one call, and received bytes wait in a buffer of one frame. */
#include "launch/control_channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CONTROL_MAGIC = 0x4b4c4353 };

/* Bytes of the head: magic 0, version 4, kind 6, number 8, epoch 16, length 20, zero 24. */
static void put(uint8_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

void control_channel_init(struct control_channel *channel, int socket, bool is_supervisor,
                          const struct string_buffer *key, uint32_t epoch) {
    *channel = (struct control_channel){
        .socket = socket, .is_supervisor = is_supervisor, .epoch = epoch, .key = key};
}

void control_channel_deinit(struct control_channel *channel) {
    for (int i = 0; i < channel->file_count; i++) {
        close(channel->files[i]);
    }
    if (channel->socket >= 0) {
        close(channel->socket);
    }
    *channel = (struct control_channel){.socket = -1};
}

static enum status make_digest(const struct control_channel *channel, bool is_from_supervisor,
                               const uint8_t *frame, size_t length, uint8_t digest[HASH_SHA256_BYTES]) {
    struct string_buffer bytes = {0};
    string_buffer_append(&bytes, (const char *)channel->nonces, sizeof channel->nonces);
    string_buffer_append_char(&bytes, is_from_supervisor ? 'S' : 'R');
    string_buffer_append(&bytes, (const char *)frame, length);
    enum status status = string_buffer_check(&bytes);
    if (status == STATUS_OK) {
        status = hash_hmac_sha256(string_buffer_text(channel->key), channel->key->length, bytes.data,
                                  bytes.length, digest);
    }
    string_buffer_deinit(&bytes);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status send_whole(struct control_channel *channel, uint8_t *bytes, size_t length,
                              const int *files, int file_count) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FILES_MAX)];
        struct cmsghdr aligned;
    } extra = {.bytes = {0}};
    for (size_t done = 0; done < length;) {
        struct iovec part = {.iov_base = bytes + done, .iov_len = length - done};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (done == 0 && file_count > 0) {
            message.msg_control = extra.bytes;
            message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)file_count);
            struct cmsghdr *head = CMSG_FIRSTHDR(&message);
            *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)file_count),
                                     .cmsg_level = SOL_SOCKET,
                                     .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(head), files, sizeof(int) * (size_t)file_count);
        }
        ssize_t sent = sendmsg(channel->socket, &message, MSG_NOSIGNAL);
        CHECK(sent > 0 || errno == EINTR, STATUS_IO, "a control message cannot be sent: %s", strerror(errno));
        done += sent > 0 ? (size_t)sent : 0;
    }
    return STATUS_OK;
}

enum status control_channel_send(struct control_channel *channel, enum control_kind kind, const void *payload,
                                 size_t length, const int *files, int file_count) {
    uint8_t frame[sizeof channel->in] = {0};
    length = length < CONTROL_PAYLOAD_MAX ? length : CONTROL_PAYLOAD_MAX;
    size_t covered = CONTROL_HEAD_BYTES + length;
    put(frame, CONTROL_MAGIC, 4);
    put(frame + 4, CONTROL_VERSION, 2);
    put(frame + 6, kind, 2);
    put(frame + 8, channel->sent++, 8);
    put(frame + 16, channel->epoch, 4);
    put(frame + 20, length, 4);
    if (length > 0) {
        memcpy(frame + CONTROL_HEAD_BYTES, payload, length);
    }
    TRY(make_digest(channel, channel->is_supervisor, frame, covered, frame + covered));
    return send_whole(channel, frame, covered + HASH_SHA256_BYTES, files, file_count);
}

static void take_files(struct control_channel *channel, struct msghdr *message) {
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(head) + i * sizeof file, sizeof file);
            if (channel->file_count < CONTROL_FILES_MAX) {
                channel->files[channel->file_count++] = file;
            } else {
                close(file);
            }
        }
    }
}

/* Reads what is there, up to `wanted` bytes in the buffer. */
static enum status read_some(struct control_channel *channel, size_t wanted) {
    union {
        char bytes[CMSG_SPACE(sizeof(int) * CONTROL_FILES_MAX)];
        struct cmsghdr aligned;
    } extra;
    struct iovec part = {.iov_base = channel->in + channel->in_length,
                         .iov_len = wanted - channel->in_length};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = extra.bytes, .msg_controllen = sizeof extra.bytes};
    ssize_t got = recvmsg(channel->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return STATUS_OK;
    }
    CHECK(got > 0, STATUS_IO, "the other end of a control connection is gone%s%s", got < 0 ? ": " : "",
          got < 0 ? strerror(errno) : "");
    channel->in_length += (size_t)got;
    take_files(channel, &message);
    return STATUS_OK;
}

static enum status check_head(const struct control_channel *channel, size_t *length) {
    const uint8_t *head = channel->in;
    CHECK(get(head, 4) == CONTROL_MAGIC, STATUS_BAD_FORMAT, "this is no control message of a job");
    CHECK(get(head + 4, 2) == CONTROL_VERSION, STATUS_BAD_FORMAT,
          "a control message has version %d, this program speaks %d", (int)get(head + 4, 2), CONTROL_VERSION);
    CHECK(get(head + 8, 8) == channel->received, STATUS_BAD_FORMAT,
          "control message %llu came where %llu was due", (unsigned long long)get(head + 8, 8),
          (unsigned long long)channel->received);
    CHECK(get(head + 16, 4) == channel->epoch, STATUS_BAD_FORMAT,
          "a control message is of epoch %u, this job is in %u", (unsigned)get(head + 16, 4),
          (unsigned)channel->epoch);
    CHECK(get(head + 20, 4) <= CONTROL_PAYLOAD_MAX, STATUS_BAD_FORMAT,
          "a control message has %u bytes, at most %d are possible", (unsigned)get(head + 20, 4),
          CONTROL_PAYLOAD_MAX);
    *length = (size_t)get(head + 20, 4);
    return STATUS_OK;
}

static enum status take_frame(struct control_channel *channel, size_t length, struct control_frame *out) {
    uint8_t digest[HASH_SHA256_BYTES];
    size_t covered = CONTROL_HEAD_BYTES + length;
    enum control_kind kind = (enum control_kind)get(channel->in + 6, 2);
    uint8_t *from_rank = channel->nonces[1];
    if (kind == CONTROL_CHALLENGE && !channel->is_supervisor && length == CONTROL_NONCE_BYTES) {
        memcpy(channel->nonces[0], channel->in + CONTROL_HEAD_BYTES, CONTROL_NONCE_BYTES);
    } else if (kind == CONTROL_HELLO && channel->is_supervisor && length == sizeof(struct control_hello)) {
        memcpy(from_rank, channel->in + CONTROL_HEAD_BYTES, CONTROL_NONCE_BYTES);
    }
    TRY(make_digest(channel, !channel->is_supervisor, channel->in, covered, digest));
    CHECK(hash_digest_is_equal(digest, channel->in + covered), STATUS_BAD_FORMAT,
          "a control message was not made with this job's secret");
    out->kind = kind;
    out->length = length;
    memcpy(out->payload, channel->in + CONTROL_HEAD_BYTES, length);
    out->payload[length] = 0;
    channel->in_length = 0;
    channel->received++;
    return STATUS_OK;
}

enum status control_channel_receive(struct control_channel *channel, struct control_frame *out) {
    size_t length = 0;
    out->kind = 0;
    if (channel->in_length < CONTROL_HEAD_BYTES) {
        TRY(read_some(channel, CONTROL_HEAD_BYTES));
    }
    if (channel->in_length < CONTROL_HEAD_BYTES) {
        return STATUS_OK;
    }
    TRY(check_head(channel, &length));
    size_t whole = CONTROL_HEAD_BYTES + length + HASH_SHA256_BYTES;
    if (channel->in_length < whole) {
        TRY(read_some(channel, whole));
    }
    return channel->in_length == whole ? take_frame(channel, length, out) : STATUS_OK;
}
