/*
 * Fields of a record, written and read by the same lines: a codec either appends values to a buffer, or
 * replaces them by what the bytes say. So a record is described once for both directions.
 *
 * Numbers take eight bytes, arrays their count and then their items, padded to eight. The first field that
 * does not fit fails the codec, and from then on everything reads as zero and empty. Arrays that were read
 * lie in the bytes, which must begin at a multiple of eight.
 */
#ifndef SLUICE_SERVER_WIRE_CODEC_H
#define SLUICE_SERVER_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/string_buffer.h"
#include "server/service.h"

struct wire_codec {
    struct string_buffer *out; /* written to; NULL: the codec reads */
    const unsigned char *bytes;
    size_t length;
    size_t at;
    struct arena *arena; /* room for what is read and does not lie in the bytes */
    bool is_failed;
};

/* Each returns its value after writing it, or the one that was read. */
uint64_t wire_u64(struct wire_codec *codec, uint64_t value);
int64_t wire_i64(struct wire_codec *codec, int64_t value);
size_t wire_size(struct wire_codec *codec, size_t value);
int wire_int(struct wire_codec *codec, int value); /* fails beyond 32 bits */
double wire_f64(struct wire_codec *codec, double value);
bool wire_bool(struct wire_codec *codec, bool value); /* fails but for 0 and 1 */

/* A number from 0 to `last`. */
int wire_choice(struct wire_codec *codec, int value, int last);

/* `*count` items of plain numbers. */
const void *wire_array(struct wire_codec *codec, const void *items, size_t *count, size_t item_bytes);

struct service_text wire_text(struct wire_codec *codec, struct service_text text);
const struct service_text *wire_texts(struct wire_codec *codec, const struct service_text *texts,
                                      size_t *count);

/* Whether all fields fitted and, when reading, nothing is left. */
bool wire_is_complete(const struct wire_codec *codec);

#endif
