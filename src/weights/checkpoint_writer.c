/* Shards are planned from the list alone, so that each file's name knows the number of all files. */
#include "weights/checkpoint_writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/string_buffer.h"
#include "lib/json.h"
#include "weights/safetensors_writer.h"

struct planned_shard {
    size_t first; /* tensor */
    size_t count;
    size_t bytes;
};

struct checkpoint_writer {
    char *directory;
    const struct safetensors_entry *tensors; /* borrowed */
    size_t tensor_count;
    struct planned_shard *shards;
    size_t shard_count;
    size_t current;                  /* shard being written */
    size_t current_written;          /* payload bytes it has */
    struct safetensors_writer *file; /* of the current shard, NULL before its first byte */
    size_t finished_count;           /* shards that have their final name */
};

static enum status plan_shards(struct checkpoint_writer *writer, size_t shard_bytes) {
    writer->shards = calloc(writer->tensor_count + 1, sizeof *writer->shards);
    CHECK_MEMORY(writer->shards);
    writer->shard_count = 1;
    for (size_t i = 0; i < writer->tensor_count; i++) {
        const struct safetensors_entry *tensor = &writer->tensors[i];
        size_t bytes;
        TRY(safetensors_tensor_bytes(tensor->dtype, tensor->rank, tensor->shape, &bytes));
        struct planned_shard *shard = &writer->shards[writer->shard_count - 1];
        bool exceeds = bytes > shard_bytes || shard->bytes > shard_bytes - bytes;
        /* Empty tensors never open a shard: it would have no first byte to start it. */
        if (shard_bytes > 0 && shard->count > 0 && bytes > 0 && exceeds) {
            shard = &writer->shards[writer->shard_count++];
            shard->first = i;
        }
        shard->count++;
        CHECK(!__builtin_add_overflow(shard->bytes, bytes, &shard->bytes), STATUS_OUT_OF_RANGE,
              "the tensors of one shard need more bytes than can be counted");
    }
    return STATUS_OK;
}

static void format_file_name(const struct checkpoint_writer *writer, size_t shard, char *out,
                             size_t out_bytes) {
    if (writer->shard_count == 1) {
        snprintf(out, out_bytes, "model.safetensors");
    } else {
        snprintf(out, out_bytes, "model-%05zu-of-%05zu.safetensors", shard + 1, writer->shard_count);
    }
}

enum { FILE_NAME_BYTES = 80 };

/* The path of a shard; NULL if memory is out. The caller frees it. */
static char *new_shard_path(const struct checkpoint_writer *writer, size_t shard) {
    char name[FILE_NAME_BYTES];
    format_file_name(writer, shard, name, sizeof name);
    char *path;
    return asprintf(&path, "%s/%s", writer->directory, name) < 0 ? NULL : path;
}

static enum status start_shard(struct checkpoint_writer *writer) {
    const struct planned_shard *shard = &writer->shards[writer->current];
    char *path = new_shard_path(writer, writer->current);
    CHECK_MEMORY(path);
    enum status status =
        safetensors_writer_open(path, writer->tensors + shard->first, shard->count, &writer->file);
    free(path);
    TRY(status);
    writer->current_written = 0;
    return STATUS_OK;
}

static enum status finish_shard(struct checkpoint_writer *writer) {
    TRY(safetensors_writer_finish(&writer->file));
    writer->finished_count++;
    return STATUS_OK;
}

enum status checkpoint_writer_open(const char *directory, const struct safetensors_entry *tensors,
                                   size_t count, size_t shard_bytes, struct checkpoint_writer **out) {
    *out = NULL;
    enum status status = STATUS_OK;
    struct checkpoint_writer *writer = calloc(1, sizeof *writer);
    CHECK_MEMORY(writer);
    writer->tensors = tensors;
    writer->tensor_count = count;
    writer->directory = strdup(directory);
    CHECK_MEMORY_GOTO(writer->directory);
    TRY_GOTO(plan_shards(writer, shard_bytes));
    TRY_GOTO(start_shard(writer));
    *out = writer;
    return STATUS_OK;

fail:
    checkpoint_writer_abort(&writer);
    return status;
}

enum status checkpoint_writer_append(struct checkpoint_writer *writer, const void *bytes, size_t length) {
    const unsigned char *cursor = bytes;
    while (length > 0) {
        size_t room = writer->shards[writer->current].bytes - writer->current_written;
        if (room == 0 && writer->current + 1 < writer->shard_count) {
            TRY(finish_shard(writer));
            writer->current++;
            TRY(start_shard(writer));
            continue;
        }
        /* Without a further shard the excess goes to the file writer, which refuses it. */
        size_t piece = length < room || room == 0 ? length : room;
        TRY(safetensors_writer_append(writer->file, cursor, piece));
        writer->current_written += piece;
        cursor += piece;
        length -= piece;
    }
    return STATUS_OK;
}

/* {"metadata": {"total_size": N}, "weight_map": {...}} */
static struct json *new_index(const struct checkpoint_writer *writer) {
    struct json *index = json_new_object();
    struct json *metadata = json_new_object();
    struct json *map = json_new_object();
    size_t total_bytes = 0;
    bool is_complete = index != NULL && metadata != NULL && map != NULL;
    for (size_t shard = 0; shard < writer->shard_count && is_complete; shard++) {
        char name[FILE_NAME_BYTES];
        format_file_name(writer, shard, name, sizeof name);
        total_bytes += writer->shards[shard].bytes;
        for (size_t i = 0; i < writer->shards[shard].count && is_complete; i++) {
            is_complete = json_set(map, writer->tensors[writer->shards[shard].first + i].name,
                                   json_new_string(name, strlen(name)));
        }
    }
    is_complete = is_complete && json_set(metadata, "total_size", json_new_integer((int64_t)total_bytes));
    if (!is_complete) {
        json_free(&index);
        json_free(&metadata);
        json_free(&map);
        return NULL;
    }
    bool is_stored = json_set(index, "metadata", metadata);
    is_stored = json_set(index, "weight_map", map) && is_stored;
    if (!is_stored) {
        json_free(&index);
    }
    return index;
}

enum status checkpoint_writer_add_file(const struct checkpoint_writer *writer, const char *name,
                                       const void *bytes, size_t length) {
    enum status status = STATUS_OK;
    char *path = NULL;
    char *partial_path = NULL;
    CHECK_GOTO(asprintf(&path, "%s/%s", writer->directory, name) >= 0, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK_GOTO(asprintf(&partial_path, "%s.partial", path) >= 0, STATUS_OUT_OF_MEMORY, "out of memory");
    FILE *file = fopen(partial_path, "wbe");
    CHECK_GOTO(file != NULL, STATUS_IO, "cannot create %s: %s", partial_path, strerror(errno));
    bool is_written = length == 0 || fwrite(bytes, 1, length, file) == length;
    is_written = fclose(file) == 0 && is_written;
    if (!is_written || rename(partial_path, path) != 0) {
        status = error_raise(STATUS_IO, ERROR_HERE, "cannot write %s: %s", path, strerror(errno));
        unlink(partial_path);
    }
fail:
    free(path);
    free(partial_path);
    return status;
}

static enum status write_index(const struct checkpoint_writer *writer) {
    enum status status = STATUS_OK;
    struct string_buffer text = {0};
    struct json *index = new_index(writer);
    CHECK_MEMORY_GOTO(index);
    TRY_GOTO(json_write(index, &text));
    TRY_GOTO(checkpoint_writer_add_file(writer, "model.safetensors.index.json", text.data, text.length));
fail:
    json_free(&index);
    string_buffer_deinit(&text);
    return status;
}

static void free_writer(struct checkpoint_writer **writer_pointer) {
    struct checkpoint_writer *writer = *writer_pointer;
    safetensors_writer_abort(&writer->file);
    free(writer->directory);
    free(writer->shards);
    free(writer);
    *writer_pointer = NULL;
}

enum status checkpoint_writer_finish(struct checkpoint_writer **writer_pointer) {
    enum status status = STATUS_OK;
    struct checkpoint_writer *writer = *writer_pointer;
    CHECK_GOTO(writer->current + 1 == writer->shard_count, STATUS_BAD_ARGUMENT,
               "%s: only %zu of %zu shards were given their data", writer->directory, writer->current,
               writer->shard_count);
    TRY_GOTO(finish_shard(writer));
    if (writer->shard_count > 1) {
        TRY_GOTO(write_index(writer));
    }
    free_writer(writer_pointer);
    return STATUS_OK;

fail:
    checkpoint_writer_abort(writer_pointer);
    return status;
}

void checkpoint_writer_abort(struct checkpoint_writer **writer_pointer) {
    struct checkpoint_writer *writer = *writer_pointer;
    if (writer == NULL) {
        return;
    }
    for (size_t i = 0; i < writer->finished_count; i++) {
        char *path = new_shard_path(writer, i);
        if (path != NULL) {
            unlink(path);
        }
        free(path);
    }
    free_writer(writer_pointer);
}
