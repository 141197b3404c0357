/* Parsing of one header, in the order in which a wrong file shows itself: length, text, entries, layout. */
#include "weights/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"

enum { LENGTH_BYTES = 8, ARENA_BLOCK_BYTES = 1 << 16 };

enum status safetensors_tensor_bytes(enum dtype dtype, int rank, const int64_t *shape, size_t *out) {
    int64_t bytes = (int64_t)dtype_bytes(dtype);
    bool is_empty = false;
    bool is_overflow = false;
    for (int axis = 0; axis < rank; axis++) {
        CHECK(shape[axis] >= 0, STATUS_OUT_OF_RANGE, "axis %d has the negative extent %lld", axis,
              (long long)shape[axis]);
        is_empty = is_empty || shape[axis] == 0;
        is_overflow = __builtin_mul_overflow(bytes, shape[axis], &bytes) || is_overflow;
    }
    CHECK(is_empty || !is_overflow, STATUS_OUT_OF_RANGE, "the shape needs more than 2^63 bytes");
    *out = is_empty ? 0 : (size_t)bytes;
    return STATUS_OK;
}

const char *safetensors_shape_text(int rank, const int64_t *shape, char text[SAFETENSORS_SHAPE_TEXT_BYTES]) {
    size_t length = 0;
    text[length++] = '[';
    for (int axis = 0; axis < rank; axis++) {
        length += (size_t)snprintf(text + length, SAFETENSORS_SHAPE_TEXT_BYTES - length, "%s%lld",
                                   axis > 0 ? ", " : "", (long long)shape[axis]);
    }
    snprintf(text + length, SAFETENSORS_SHAPE_TEXT_BYTES - length, "]");
    return text;
}

/* Finds the header text; says what the file seems to be where it is no safetensors file. */
static enum status find_header(const unsigned char *bytes, size_t length, const char *what,
                               size_t *header_bytes) {
    static const char pointer_start[] = "version https://git-lfs";
    CHECK(length > 0, STATUS_BAD_FORMAT, "%s is empty: fetch the file again", what);
    CHECK(length < sizeof pointer_start - 1 || memcmp(bytes, pointer_start, sizeof pointer_start - 1) != 0,
          STATUS_BAD_FORMAT,
          "%s is no safetensors file, it looks like a Git LFS pointer: fetch the real file (git lfs pull)",
          what);
    CHECK(length > LENGTH_BYTES, STATUS_BAD_FORMAT, "%s is no safetensors file: %zu bytes are too few", what,
          length);
    uint64_t announced = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        announced |= (uint64_t)bytes[i] << (8 * i);
    }
    CHECK(announced > 0, STATUS_BAD_FORMAT, "%s is no safetensors file: its header length is 0", what);
    CHECK(announced <= SAFETENSORS_HEADER_BYTES_MAX, STATUS_BAD_FORMAT,
          "%s is no safetensors file: its header length is %llu, at most %d are allowed", what,
          (unsigned long long)announced, SAFETENSORS_HEADER_BYTES_MAX);
    CHECK(announced <= length - LENGTH_BYTES, STATUS_BAD_FORMAT,
          "%s is cut off or no safetensors file: its header length is %llu, the file has %zu bytes", what,
          (unsigned long long)announced, length);
    CHECK(bytes[LENGTH_BYTES] == '{', STATUS_BAD_FORMAT,
          "%s is no safetensors file: its header does not begin with '{'", what);
    *header_bytes = (size_t)announced;
    return STATUS_OK;
}

static enum status check_metadata(const struct json *metadata, const char *what) {
    CHECK(json_kind(metadata) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT, "%s: __metadata__ is no JSON object",
          what);
    for (const struct json_member *member = json_first(metadata); member != NULL;
         member = json_next(metadata, member)) {
        CHECK(json_kind(json_member_value(member)) == JSON_KIND_STRING, STATUS_BAD_FORMAT,
              "%s: __metadata__ holds a value that is no string", what);
    }
    return STATUS_OK;
}

static enum status parse_name(const struct json_member *member, const char *what, struct arena *arena,
                              const char **out) {
    size_t length;
    const char *name = json_member_key(member, &length);
    CHECK(length > 0 && length <= SAFETENSORS_NAME_BYTES_MAX, STATUS_BAD_FORMAT,
          "%s: a tensor name has %zu bytes, 1 to %d are allowed", what, length, SAFETENSORS_NAME_BYTES_MAX);
    for (size_t i = 0; i < length; i++) {
        /* Names appear in messages; a terminal must not obey them. */
        unsigned char byte = (unsigned char)name[i];
        CHECK(byte >= 0x20 && byte != 0x7F, STATUS_BAD_FORMAT,
              "%s: a tensor name holds the control character 0x%02x", what, byte);
    }
    *out = arena_copy_string(arena, name, length);
    CHECK_MEMORY(*out);
    return STATUS_OK;
}

static enum status parse_dtype(const struct json *value, const char *what, const char *name,
                               enum dtype *out) {
    size_t length = 0;
    const char *text = value == NULL ? NULL : json_text(value, &length);
    CHECK(text != NULL, STATUS_BAD_FORMAT, "%s: tensor %s has no dtype", what, name);
    *out = dtype_from_name(text, length);
    bool is_printable = true;
    for (size_t i = 0; i < length; i++) {
        is_printable = is_printable && text[i] >= 0x20 && text[i] < 0x7F;
    }
    CHECK(*out != DTYPE_COUNT, STATUS_BAD_FORMAT, "%s: tensor %s has the unknown dtype \"%.32s\"", what, name,
          is_printable ? text : "?");
    return STATUS_OK;
}

static enum status parse_shape(const struct json *value, const char *what, struct safetensors_entry *entry) {
    CHECK(value != NULL && json_kind(value) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "%s: tensor %s has no shape", what, entry->name);
    CHECK(json_length(value) <= TENSOR_RANK_MAX, STATUS_BAD_FORMAT,
          "%s: tensor %s has %zu axes, at most %d are read", what, entry->name, json_length(value),
          TENSOR_RANK_MAX);
    entry->rank = (int)json_length(value);
    for (int axis = 0; axis < entry->rank; axis++) {
        const struct json *extent = json_at(value, (size_t)axis);
        CHECK(json_kind(extent) == JSON_KIND_INTEGER && json_int64(extent) >= 0, STATUS_BAD_FORMAT,
              "%s: tensor %s: axis %d of its shape is no whole number from 0 on", what, entry->name, axis);
        entry->shape[axis] = json_int64(extent);
    }
    return STATUS_OK;
}

/* Reads data_offsets and checks them against the shape; `data_bytes` follow the header. */
static enum status parse_offsets(const struct json *value, size_t data_bytes, const char *what,
                                 struct safetensors_entry *entry) {
    CHECK(value != NULL && json_kind(value) == JSON_KIND_ARRAY && json_length(value) == 2 &&
              json_kind(json_at(value, 0)) == JSON_KIND_INTEGER &&
              json_kind(json_at(value, 1)) == JSON_KIND_INTEGER,
          STATUS_BAD_FORMAT, "%s: tensor %s has no data_offsets of two whole numbers", what, entry->name);
    int64_t begin = json_int64(json_at(value, 0));
    int64_t end = json_int64(json_at(value, 1));
    CHECK(begin >= 0 && end >= begin, STATUS_BAD_FORMAT,
          "%s: tensor %s: data_offsets [%lld, %lld] are not in order", what, entry->name, (long long)begin,
          (long long)end);
    CHECK((uint64_t)end <= data_bytes, STATUS_BAD_FORMAT,
          "%s: tensor %s ends at byte %lld of the data, the file holds %zu: it was cut off, fetch it again",
          what, entry->name, (long long)end, data_bytes);
    char text[SAFETENSORS_SHAPE_TEXT_BYTES];
    size_t needed = 0;
    bool is_sized = safetensors_tensor_bytes(entry->dtype, entry->rank, entry->shape, &needed) == STATUS_OK;
    CHECK(is_sized, STATUS_BAD_FORMAT, "%s: tensor %s: its shape %s overflows", what, entry->name,
          safetensors_shape_text(entry->rank, entry->shape, text));
    CHECK(needed == (size_t)(end - begin), STATUS_BAD_FORMAT,
          "%s: tensor %s: %s %s needs %zu bytes, its data_offsets give %lld", what, entry->name,
          dtype_name(entry->dtype), safetensors_shape_text(entry->rank, entry->shape, text), needed,
          (long long)(end - begin));
    entry->offset = (size_t)begin;
    entry->bytes = needed;
    return STATUS_OK;
}

static enum status parse_entries(const struct json *header, size_t data_bytes, const char *what,
                                 struct safetensors_header *out) {
    out->entries = ARENA_NEW(&out->arena, struct safetensors_entry, json_length(header));
    CHECK_MEMORY(out->entries);
    for (const struct json_member *member = json_first(header); member != NULL;
         member = json_next(header, member)) {
        const struct json *value = json_member_value(member);
        if (strcmp(json_member_key(member, NULL), "__metadata__") == 0) {
            TRY(check_metadata(value, what));
            continue;
        }
        struct safetensors_entry *entry = &out->entries[out->count];
        TRY(parse_name(member, what, &out->arena, &entry->name));
        CHECK(json_kind(value) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT,
              "%s: the entry of tensor %s is no JSON object", what, entry->name);
        TRY(parse_dtype(json_get(value, "dtype"), what, entry->name, &entry->dtype));
        TRY(parse_shape(json_get(value, "shape"), what, entry));
        TRY(parse_offsets(json_get(value, "data_offsets"), data_bytes, what, entry));
        out->count++;
    }
    return STATUS_OK;
}

static int compare_offsets(const void *left, const void *right) {
    const struct safetensors_entry *a = left;
    const struct safetensors_entry *b = right;
    if (a->offset != b->offset) {
        return a->offset < b->offset ? -1 : 1;
    }
    /* An empty tensor comes before the one that starts at the same byte. */
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Tensors must follow each other without hole or overlap and end with the file. */
static enum status check_layout(struct safetensors_header *header, size_t data_bytes, const char *what) {
    if (header->count > 0) {
        qsort(header->entries, header->count, sizeof *header->entries, compare_offsets);
    }
    size_t end = 0;
    for (size_t i = 0; i < header->count; i++) {
        const struct safetensors_entry *entry = &header->entries[i];
        CHECK(entry->offset >= end, STATUS_BAD_FORMAT, "%s: the data of tensors %s and %s overlap", what,
              header->entries[i - 1].name, entry->name);
        CHECK(entry->offset == end, STATUS_BAD_FORMAT,
              "%s: %zu bytes before tensor %s belong to no tensor; the format allows no holes", what,
              entry->offset - end, entry->name);
        end = entry->offset + entry->bytes;
    }
    CHECK(end == data_bytes, STATUS_BAD_FORMAT, "%s: %zu bytes after the last tensor belong to no tensor",
          what, data_bytes - end);
    return STATUS_OK;
}

enum status safetensors_parse(const unsigned char *bytes, size_t length, const char *what,
                              struct safetensors_header *out) {
    enum status status = STATUS_OK;
    struct json *header = NULL;
    *out = (struct safetensors_header){0};
    arena_init(&out->arena, ARENA_BLOCK_BYTES);
    char header_name[ERROR_MESSAGE_BYTES / 4];
    snprintf(header_name, sizeof header_name, "the header of %s", what);
    size_t header_bytes;
    TRY_GOTO(find_header(bytes, length, what, &header_bytes));
    TRY_GOTO(json_parse((const char *)bytes + LENGTH_BYTES, header_bytes, header_name, &header));
    size_t data_offset = LENGTH_BYTES + header_bytes;
    size_t data_bytes = length - data_offset;
    TRY_GOTO(parse_entries(header, data_bytes, what, out));
    TRY_GOTO(check_layout(out, data_bytes, what));
    for (size_t i = 0; i < out->count; i++) {
        out->entries[i].offset += data_offset;
    }
    json_free(&header);
    return STATUS_OK;

fail:
    json_free(&header);
    safetensors_header_deinit(out);
    return status;
}

void safetensors_header_deinit(struct safetensors_header *header) {
    arena_deinit(&header->arena);
    *header = (struct safetensors_header){0};
}
