/* A header from jansson's writer, payload through stdio, a rename at the end. */
#include "weights/safetensors_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/string_buffer.h"
#include "lib/json.h"

enum { LENGTH_BYTES = 8, STREAM_BYTES = 1 << 20 };

struct safetensors_writer {
    char *path;
    char *partial_path;
    FILE *file;
    bool has_partial_file;
    size_t announced_bytes;
    size_t written_bytes;
};

static struct json *new_integer_pair(size_t first, size_t second) {
    struct json *pair = json_new_array();
    if (pair == NULL || !json_append(pair, json_new_integer((int64_t)first)) ||
        !json_append(pair, json_new_integer((int64_t)second))) {
        json_free(&pair);
    }
    return pair;
}

static struct json *new_shape(const struct safetensors_entry *tensor) {
    struct json *shape = json_new_array();
    for (int axis = 0; axis < tensor->rank && shape != NULL; axis++) {
        if (!json_append(shape, json_new_integer(tensor->shape[axis]))) {
            json_free(&shape);
        }
    }
    return shape;
}

static enum status add_entry(struct json *header, const struct safetensors_entry *tensor,
                             size_t *data_bytes) {
    CHECK(json_get(header, tensor->name) == NULL, STATUS_BAD_ARGUMENT, "tensor %s is to be written twice",
          tensor->name);
    CHECK(tensor->rank >= 0 && tensor->rank <= TENSOR_RANK_MAX, STATUS_BAD_ARGUMENT, "tensor %s has %d axes",
          tensor->name, tensor->rank);
    size_t bytes;
    TRY(safetensors_tensor_bytes(tensor->dtype, tensor->rank, tensor->shape, &bytes));
    const char *dtype = dtype_name(tensor->dtype);
    struct json *entry = json_new_object();
    CHECK_MEMORY(entry);
    bool is_complete = json_set(entry, "dtype", json_new_string(dtype, strlen(dtype))) &&
                       json_set(entry, "shape", new_shape(tensor)) &&
                       json_set(entry, "data_offsets", new_integer_pair(*data_bytes, *data_bytes + bytes));
    if (!is_complete) {
        json_free(&entry);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    CHECK(json_set(header, tensor->name, entry), STATUS_BAD_ARGUMENT, "a tensor's name is not valid UTF-8");
    CHECK(!__builtin_add_overflow(*data_bytes, bytes, data_bytes) && *data_bytes <= INT64_MAX,
          STATUS_OUT_OF_RANGE, "the tensors of one file need more than 2^63 bytes");
    return STATUS_OK;
}

/* The header's text, padded so that the data starts at a multiple of eight. */
static enum status build_header(const struct safetensors_entry *tensors, size_t count,
                                struct string_buffer *text, size_t *data_bytes) {
    enum status status = STATUS_OK;
    struct json *metadata = json_new_object();
    struct json *header = json_new_object();
    bool is_complete =
        metadata != NULL && json_set(metadata, "format", json_new_string("pt", 2)) && header != NULL;
    if (!is_complete) {
        json_free(&metadata);
        FAIL_GOTO(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    CHECK_MEMORY_GOTO(json_set(header, "__metadata__", metadata) ? header : NULL);
    *data_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        TRY_GOTO(add_entry(header, &tensors[i], data_bytes));
    }
    TRY_GOTO(json_write(header, text));
    while (text->length % LENGTH_BYTES != 0) {
        string_buffer_append_char(text, ' ');
        TRY_GOTO(string_buffer_check(text));
    }
    CHECK_GOTO(text->length <= SAFETENSORS_HEADER_BYTES_MAX, STATUS_OUT_OF_RANGE,
               "%zu tensors are too many for one safetensors file: ask for smaller shards", count);
fail:
    json_free(&header);
    return status;
}

static enum status write_bytes(struct safetensors_writer *writer, const void *bytes, size_t length) {
    CHECK(length == 0 || fwrite(bytes, 1, length, writer->file) == length, STATUS_IO, "cannot write %s: %s",
          writer->partial_path, strerror(errno));
    return STATUS_OK;
}

static enum status write_header(struct safetensors_writer *writer, const struct safetensors_entry *tensors,
                                size_t count) {
    enum status status = STATUS_OK;
    struct string_buffer text = {0};
    TRY_GOTO(build_header(tensors, count, &text, &writer->announced_bytes));
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length[i] = (unsigned char)((uint64_t)text.length >> (8 * i));
    }
    TRY_GOTO(write_bytes(writer, length, sizeof length));
    TRY_GOTO(write_bytes(writer, text.data, text.length));
fail:
    string_buffer_deinit(&text);
    return status;
}

enum status safetensors_writer_open(const char *path, const struct safetensors_entry *tensors, size_t count,
                                    struct safetensors_writer **out) {
    enum status status = STATUS_OK;
    *out = NULL;
    struct safetensors_writer *writer = calloc(1, sizeof *writer);
    CHECK_MEMORY(writer);
    CHECK_GOTO(asprintf(&writer->partial_path, "%s.partial", path) >= 0, STATUS_OUT_OF_MEMORY,
               "out of memory");
    writer->path = strdup(path);
    CHECK_MEMORY_GOTO(writer->path);
    writer->file = fopen(writer->partial_path, "wbe");
    CHECK_GOTO(writer->file != NULL, STATUS_IO, "cannot create %s: %s", writer->partial_path,
               strerror(errno));
    writer->has_partial_file = true;
    setvbuf(writer->file, NULL, _IOFBF, STREAM_BYTES);
    TRY_GOTO(write_header(writer, tensors, count));
    *out = writer;
    return STATUS_OK;

fail:
    safetensors_writer_abort(&writer);
    return status;
}

enum status safetensors_writer_append(struct safetensors_writer *writer, const void *bytes, size_t length) {
    CHECK(length <= writer->announced_bytes - writer->written_bytes, STATUS_BAD_ARGUMENT,
          "%s is given %zu bytes more than its tensors have", writer->path,
          length - (writer->announced_bytes - writer->written_bytes));
    TRY(write_bytes(writer, bytes, length));
    writer->written_bytes += length;
    return STATUS_OK;
}

enum status safetensors_writer_finish(struct safetensors_writer **writer_pointer) {
    enum status status = STATUS_OK;
    struct safetensors_writer *writer = *writer_pointer;
    CHECK_GOTO(writer->written_bytes == writer->announced_bytes, STATUS_BAD_ARGUMENT,
               "%s lacks %zu of its %zu bytes of data", writer->path,
               writer->announced_bytes - writer->written_bytes, writer->announced_bytes);
    int closed = fclose(writer->file);
    writer->file = NULL;
    CHECK_GOTO(closed == 0, STATUS_IO, "cannot write %s: %s", writer->partial_path, strerror(errno));
    CHECK_GOTO(rename(writer->partial_path, writer->path) == 0, STATUS_IO, "cannot rename %s to %s: %s",
               writer->partial_path, writer->path, strerror(errno));
    writer->has_partial_file = false;
fail:
    safetensors_writer_abort(writer_pointer);
    return status;
}

void safetensors_writer_abort(struct safetensors_writer **writer_pointer) {
    struct safetensors_writer *writer = *writer_pointer;
    if (writer == NULL) {
        return;
    }
    if (writer->file != NULL) {
        fclose(writer->file);
    }
    if (writer->has_partial_file) {
        unlink(writer->partial_path);
    }
    free(writer->path);
    free(writer->partial_path);
    free(writer);
    *writer_pointer = NULL;
}
