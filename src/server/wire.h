/*
 * What the front and a worker say to each other: records on a stream socket, of one version, with a length
 * that is checked before anything else is.
 *
 * The front submits, cancels, releases, clears and pings; a worker is ready once, then sends updates of
 * generations and stats, also as the answer to a ping; or it says why it cannot go on. Both ends are the same
 * program on the same machine, so numbers have the machine's own form.
 */
#ifndef SLUICE_SERVER_WIRE_H
#define SLUICE_SERVER_WIRE_H

#include "base/arena.h"
#include "base/string_buffer.h"
#include "server/service.h"

enum {
    WIRE_VERSION = 3,
    WIRE_HEADER_BYTES = 16,
    WIRE_BODY_LIMIT = 256 << 20, /* bytes; a prompt of a million tokens takes 4 MB */
};

enum wire_kind {
    WIRE_SUBMIT,  /* id, request */
    WIRE_CANCEL,  /* id */
    WIRE_RELEASE, /* id: no updates are wanted any more */
    WIRE_CLEAR,   /* the prefix cache */
    WIRE_PING,    /* id: of the ping */
    WIRE_READY,   /* facts */
    WIRE_UPDATE,  /* id, update */
    WIRE_STATS,   /* id: of the ping that asked, or 0; stats */
    WIRE_FATAL,   /* status, message */
    WIRE_KIND_COUNT,
};

/* Tokens with what was recorded about them, in arrays: chosen and top_counts have `count` items or none. */
struct wire_tokens {
    const int32_t *ids;
    size_t count;
    const struct sluice_log_probability *chosen;
    const uint32_t *top_counts;
    size_t record_count;                      /* items of the two: count, or 0 if nothing is recorded */
    const struct sluice_log_probability *top; /* [top_total] of all tokens one after the other */
    size_t top_total;
};

struct wire_update {
    struct wire_tokens tokens; /* that are new */
    struct wire_tokens prompt_tokens;
    struct sluice_request_state state; /* its message is in `message` */
    struct service_text message;
};

struct wire_record {
    enum wire_kind kind;
    uint64_t id;
    struct service_request request; /* notify is empty */
    struct sluice_engine_facts facts;
    struct wire_update update;
    struct sluice_engine_stats stats;
    enum status status;
    struct service_text message; /* as update.message valid as long as the frame */
};

/* Appends a record of its kind; only the kind's fields are looked at. A body over the limit is not written.
 */
void wire_write(struct string_buffer *out, const struct wire_record *record);

/* A record's kind and body, still closed. */
struct wire_frame {
    enum wire_kind kind;
    const unsigned char *body; /* at a multiple of eight */
    size_t body_bytes;
};

/*
 * Looks whether `length` bytes, at a multiple of eight, begin with a whole record: *frame_bytes is its size,
 * 0 if more bytes must come first. BAD_FORMAT names what is no record of this version.
 */
enum status wire_frame_find(const unsigned char *bytes, size_t length, struct wire_frame *out,
                            size_t *frame_bytes);

/* Reads a frame; arrays and texts lie in its body or in the arena. BAD_FORMAT names the kind. */
enum status wire_read(const struct wire_frame *frame, struct arena *arena, struct wire_record *out);

/* Tokens of an update as the arrays of a record, in the arena; false if memory is out. */
bool wire_tokens_pack(const struct service_token *tokens, size_t count, struct arena *arena,
                      struct wire_tokens *out);

#endif
