/* Opening maps every shard, parses its header and merges all names into one sorted array. */
#include "weights/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/string_buffer.h"
#include "weights/checkpoint_index.h"
#include "weights/safetensors.h"

enum { ARENA_BLOCK_BYTES = 1 << 18, NAMED_PROBLEMS_MAX = 20 };

static const char single_file_name[] = "model.safetensors";
static const char index_file_name[] = "model.safetensors.index.json";

static bool path_exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* The index if there is one, else a made-up one of a single file without entries. */
static enum status find_files(struct checkpoint *checkpoint, struct checkpoint_index *index) {
    struct stat info;
    CHECK(stat(checkpoint->directory, &info) == 0, STATUS_NOT_FOUND, "there is no model directory %s",
          checkpoint->directory);
    CHECK(S_ISDIR(info.st_mode), STATUS_NOT_FOUND, "%s is a file: give the directory that holds the model",
          checkpoint->directory);
    const char *index_path =
        arena_format(&checkpoint->arena, "%s/%s", checkpoint->directory, index_file_name);
    const char *file_path =
        arena_format(&checkpoint->arena, "%s/%s", checkpoint->directory, single_file_name);
    CHECK_MEMORY(index_path);
    CHECK_MEMORY(file_path);
    checkpoint->has_index = path_exists(index_path);
    if (checkpoint->has_index) {
        TRY(checkpoint_index_read(index_path, &checkpoint->arena, index));
        return STATUS_OK;
    }
    CHECK(path_exists(file_path), STATUS_NOT_FOUND, "%s holds no weights: neither %s nor %s is there",
          checkpoint->directory, single_file_name, index_file_name);
    index->shard_names = ARENA_NEW(&checkpoint->arena, const char *, 1);
    CHECK_MEMORY(index->shard_names);
    index->shard_names[0] = single_file_name;
    index->shard_count = 1;
    return STATUS_OK;
}

static const char *shard_path(struct checkpoint *checkpoint, const char *file_name) {
    return arena_format(&checkpoint->arena, "%s/%s", checkpoint->directory, file_name);
}

/* Adds one missing shard to the message: its name, what it should hold and an example. */
static void describe_missing_shard(const struct checkpoint_index *index, size_t shard,
                                   struct string_buffer *text) {
    const char *first = "";
    size_t count = 0;
    for (size_t i = 0; i < index->count; i++) {
        if (index->entries[i].shard == shard) {
            first = count == 0 ? index->entries[i].name : first;
            count++;
        }
    }
    string_buffer_append_format(text, "\n  %s (%zu tensors, such as %s)", index->shard_names[shard], count,
                                first);
}

/* All shards that are not on disk go into one error, so that they can be fetched in one go. */
static enum status check_shards_exist(struct checkpoint *checkpoint, const struct checkpoint_index *index) {
    size_t missing_count = 0;
    struct string_buffer text = {0};
    for (size_t i = 0; i < index->shard_count; i++) {
        const char *path = shard_path(checkpoint, index->shard_names[i]);
        if (path != NULL && path_exists(path)) {
            continue;
        }
        if (++missing_count <= NAMED_PROBLEMS_MAX) {
            describe_missing_shard(index, i, &text);
        }
    }
    if (missing_count == 0) {
        return STATUS_OK;
    }
    if (missing_count > NAMED_PROBLEMS_MAX) {
        string_buffer_append_format(&text, "\n  and %zu more", missing_count - NAMED_PROBLEMS_MAX);
    }
    enum status status = error_raise(
        STATUS_NOT_FOUND, ERROR_HERE, "%s lacks %zu of the %zu shards that %s names; fetch:%s",
        checkpoint->directory, missing_count, index->shard_count, index_file_name, string_buffer_text(&text));
    string_buffer_deinit(&text);
    return status;
}

static int compare_tensors(const void *left, const void *right) {
    return strcmp(((const struct checkpoint_tensor *)left)->name,
                  ((const struct checkpoint_tensor *)right)->name);
}

/* Maps and parses all shards; headers[i] belongs to shard i. */
static enum status read_shards(struct checkpoint *checkpoint, const struct checkpoint_index *index,
                               struct safetensors_header *headers) {
    for (size_t i = 0; i < index->shard_count; i++) {
        struct checkpoint_shard *shard = &checkpoint->shards[i];
        shard->file_name = index->shard_names[i];
        const char *path = shard_path(checkpoint, shard->file_name);
        CHECK_MEMORY(path);
        TRY(file_map_open(path, &shard->map));
        TRY(safetensors_parse(shard->map.bytes, shard->map.length, path, &headers[i]));
        shard->tensor_count = headers[i].count;
        checkpoint->tensor_count += headers[i].count;
    }
    return STATUS_OK;
}

static enum status merge_tensors(struct checkpoint *checkpoint, const struct safetensors_header *headers) {
    checkpoint->tensors = ARENA_NEW(&checkpoint->arena, struct checkpoint_tensor, checkpoint->tensor_count);
    CHECK_MEMORY(checkpoint->tensors);
    struct checkpoint_tensor *tensor = checkpoint->tensors;
    for (size_t shard = 0; shard < checkpoint->shard_count; shard++) {
        for (size_t i = 0; i < headers[shard].count; i++) {
            const struct safetensors_entry *entry = &headers[shard].entries[i];
            *tensor = (struct checkpoint_tensor){.dtype = entry->dtype,
                                                 .rank = entry->rank,
                                                 .offset = entry->offset,
                                                 .bytes = entry->bytes,
                                                 .shard = shard};
            memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
            tensor->name = arena_copy_string(&checkpoint->arena, entry->name, strlen(entry->name));
            CHECK_MEMORY(tensor->name);
            checkpoint->tensor_bytes += entry->bytes;
            tensor++;
        }
    }
    qsort(checkpoint->tensors, checkpoint->tensor_count, sizeof *checkpoint->tensors, compare_tensors);
    return STATUS_OK;
}

static enum status check_distinct(const struct checkpoint *checkpoint) {
    for (size_t i = 1; i < checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *a = &checkpoint->tensors[i - 1];
        const struct checkpoint_tensor *b = &checkpoint->tensors[i];
        CHECK(strcmp(a->name, b->name) != 0, STATUS_BAD_CHECKPOINT,
              "%s: tensor %s is in two shards: %s and %s", checkpoint->directory, a->name,
              checkpoint->shards[a->shard].file_name, checkpoint->shards[b->shard].file_name);
    }
    return STATUS_OK;
}

/* Index and shards must name the same tensors in the same places. */
static enum status check_against_index(const struct checkpoint *checkpoint,
                                       const struct checkpoint_index *index) {
    for (size_t i = 0; i < index->count; i++) {
        const struct index_entry *entry = &index->entries[i];
        const char *expected = checkpoint->shards[entry->shard].file_name;
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, entry->name);
        CHECK(tensor != NULL, STATUS_BAD_CHECKPOINT,
              "%s: tensor %s should be in shard %s by the index, but is in no shard: fetch that shard again",
              checkpoint->directory, entry->name, expected);
        CHECK(tensor->shard == entry->shard, STATUS_BAD_CHECKPOINT,
              "%s: tensor %s should be in shard %s by the index, but is in %s", checkpoint->directory,
              entry->name, expected, checkpoint->shards[tensor->shard].file_name);
    }
    /* Every entry has its tensor and all are distinct, so a difference is an excess of tensors. */
    for (size_t i = 0; i < checkpoint->tensor_count && index->count != checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &checkpoint->tensors[i];
        CHECK(i < index->count && strcmp(index->entries[i].name, tensor->name) == 0, STATUS_BAD_CHECKPOINT,
              "%s: tensor %s is in shard %s, but the index does not know it: index and shards are of "
              "different copies",
              checkpoint->directory, tensor->name, checkpoint->shards[tensor->shard].file_name);
    }
    return STATUS_OK;
}

static enum status read_all(struct checkpoint *checkpoint) {
    struct checkpoint_index index = {0};
    TRY(find_files(checkpoint, &index));
    TRY(check_shards_exist(checkpoint, &index));
    checkpoint->shards = ARENA_NEW(&checkpoint->arena, struct checkpoint_shard, index.shard_count);
    CHECK_MEMORY(checkpoint->shards);
    struct safetensors_header *headers =
        ARENA_NEW(&checkpoint->arena, struct safetensors_header, index.shard_count);
    CHECK_MEMORY(headers);
    checkpoint->shard_count = index.shard_count;
    enum status status = read_shards(checkpoint, &index, headers);
    if (status == STATUS_OK) {
        status = merge_tensors(checkpoint, headers);
    }
    for (size_t i = 0; i < index.shard_count; i++) {
        safetensors_header_deinit(&headers[i]);
    }
    TRY(status);
    TRY(check_distinct(checkpoint));
    if (checkpoint->has_index) {
        TRY(check_against_index(checkpoint, &index));
    }
    return STATUS_OK;
}

enum status checkpoint_open(const char *directory, struct checkpoint **out) {
    *out = NULL;
    struct checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    CHECK_MEMORY(checkpoint);
    enum status status = STATUS_OK;
    arena_init(&checkpoint->arena, ARENA_BLOCK_BYTES);
    checkpoint->directory = arena_copy_string(&checkpoint->arena, directory, strlen(directory));
    CHECK_MEMORY_GOTO(checkpoint->directory);
    TRY_GOTO(read_all(checkpoint));
    *out = checkpoint;
    return STATUS_OK;

fail:
    checkpoint_close(&checkpoint);
    return status;
}

void checkpoint_close(struct checkpoint **checkpoint_pointer) {
    struct checkpoint *checkpoint = *checkpoint_pointer;
    if (checkpoint == NULL) {
        return;
    }
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        file_map_close(&checkpoint->shards[i].map);
    }
    arena_deinit(&checkpoint->arena);
    free(checkpoint);
    *checkpoint_pointer = NULL;
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint, const char *name) {
    const struct checkpoint_tensor key = {.name = name};
    if (checkpoint->tensor_count == 0) {
        return NULL;
    }
    return bsearch(&key, checkpoint->tensors, checkpoint->tensor_count, sizeof *checkpoint->tensors,
                   compare_tensors);
}

const unsigned char *checkpoint_tensor_data(const struct checkpoint *checkpoint,
                                            const struct checkpoint_tensor *tensor) {
    return checkpoint->shards[tensor->shard].map.bytes + tensor->offset;
}

static enum dtype probe_dtype(const void *context, const char *name) {
    const struct checkpoint_tensor *tensor = checkpoint_find(context, name);
    return tensor == NULL ? DTYPE_COUNT : tensor->dtype;
}

struct tensor_probe checkpoint_probe(const struct checkpoint *checkpoint) {
    return (struct tensor_probe){.dtype_of = probe_dtype, .context = checkpoint};
}
