/* Records as frames. What a kind consists of is in wire_records.c. */
#include "server/wire.h"

#include <assert.h>
#include <string.h>

#include "server/wire_records.h"

static const uint32_t MAGIC = 0x57554c53; /* "SLUW" */

struct header {
    uint32_t magic;
    uint32_t version;
    uint32_t kind;
    uint32_t body_bytes;
};

static_assert(sizeof(struct header) == WIRE_HEADER_BYTES, "bodies begin at a multiple of eight");

void wire_write(struct string_buffer *out, const struct wire_record *record) {
    struct header header = {.magic = MAGIC, .version = WIRE_VERSION, .kind = (uint32_t)record->kind};
    struct wire_record fields = *record;
    size_t start = out->length;
    string_buffer_append(out, (const char *)&header, sizeof header);
    struct wire_codec codec = {.out = out};
    wire_record_visit(&codec, &fields);
    if (out->length - start > WIRE_BODY_LIMIT) {
        out->is_failed = true;
    }
    if (!out->is_failed) {
        header.body_bytes = (uint32_t)(out->length - start - sizeof header);
        memcpy(out->data + start, &header, sizeof header);
    }
}

enum status wire_frame_find(const unsigned char *bytes, size_t length, struct wire_frame *out,
                            size_t *frame_bytes) {
    struct header header;
    *frame_bytes = 0;
    if (length < sizeof header) {
        return STATUS_OK;
    }
    memcpy(&header, bytes, sizeof header);
    CHECK(header.magic == MAGIC, STATUS_BAD_FORMAT,
          "what came over the wire between front and worker is no record: it begins with %08x",
          (unsigned)header.magic);
    CHECK(header.version == WIRE_VERSION, STATUS_BAD_FORMAT,
          "the other side of the wire speaks version %u, this program version %d: front and worker must be "
          "of one build",
          (unsigned)header.version, WIRE_VERSION);
    CHECK(header.kind < WIRE_KIND_COUNT, STATUS_BAD_FORMAT, "a record on the wire has the unknown kind %u",
          (unsigned)header.kind);
    CHECK(header.body_bytes <= WIRE_BODY_LIMIT && header.body_bytes % 8 == 0, STATUS_BAD_FORMAT,
          "a record on the wire has a body of %u bytes; at most %d and a multiple of eight are allowed",
          (unsigned)header.body_bytes, WIRE_BODY_LIMIT);
    if (length - sizeof header >= header.body_bytes) {
        *frame_bytes = sizeof header + header.body_bytes;
        *out = (struct wire_frame){.kind = (enum wire_kind)header.kind,
                                   .body = bytes + sizeof header,
                                   .body_bytes = header.body_bytes};
    }
    return STATUS_OK;
}

enum status wire_read(const struct wire_frame *frame, struct arena *arena, struct wire_record *out) {
    *out = (struct wire_record){.kind = frame->kind};
    struct wire_codec codec = {.bytes = frame->body, .length = frame->body_bytes, .arena = arena};
    wire_record_visit(&codec, out);
    CHECK(wire_is_complete(&codec), STATUS_BAD_FORMAT,
          "a record of kind %d and %zu bytes on the wire does not hold what its kind says", (int)frame->kind,
          frame->body_bytes);
    return STATUS_OK;
}

bool wire_tokens_pack(const struct service_token *tokens, size_t count, struct arena *arena,
                      struct wire_tokens *out) {
    size_t top_total = 0;
    bool is_recorded = false;
    for (size_t i = 0; i < count; i++) {
        top_total += tokens[i].top_count;
        is_recorded = is_recorded || tokens[i].top != NULL;
    }
    size_t record_count = is_recorded ? count : 0;
    int32_t *ids = ARENA_NEW(arena, int32_t, count);
    struct sluice_log_probability *chosen = ARENA_NEW(arena, struct sluice_log_probability, record_count);
    uint32_t *top_counts = ARENA_NEW(arena, uint32_t, record_count);
    struct sluice_log_probability *top = ARENA_NEW(arena, struct sluice_log_probability, top_total);
    if (ids == NULL || chosen == NULL || top_counts == NULL || top == NULL) {
        return false;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        ids[i] = tokens[i].id;
        if (is_recorded) {
            chosen[i] = tokens[i].chosen;
            top_counts[i] = (uint32_t)tokens[i].top_count;
        }
        for (size_t j = 0; j < tokens[i].top_count; j++) {
            top[at++] = tokens[i].top[j];
        }
    }
    *out = (struct wire_tokens){ids, count, chosen, top_counts, record_count, top, top_total};
    return true;
}
