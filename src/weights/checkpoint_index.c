/* Sorted arrays throughout: an index of 150,000 names opens without a hash table. */
#include "weights/checkpoint_index.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"
#include "weights/safetensors.h"

/* The index of the largest official release has 14 MB. */
enum { INDEX_BYTES_MAX = 256 << 20 };

static bool is_printable(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7F) {
            return false;
        }
    }
    return true;
}

/* A name that could reach outside the model directory is refused, whatever it points to. */
static enum status check_shard_name(const struct json *value, const char *path, const char *tensor) {
    static const char suffix[] = ".safetensors";
    const size_t suffix_length = sizeof suffix - 1;
    size_t length = 0;
    const char *name = json_text(value, &length);
    CHECK(name != NULL && strlen(name) == length && is_printable(name, length), STATUS_BAD_FORMAT,
          "%s: the shard of tensor %s is no printable file name", path, tensor);
    CHECK(memchr(name, '/', length) == NULL && name[0] != '.', STATUS_BAD_FORMAT,
          "%s: the shard \"%.200s\" of tensor %s is no plain file name; shards lie beside the index", path,
          name, tensor);
    CHECK(length > suffix_length && length <= 255 && strcmp(name + length - suffix_length, suffix) == 0,
          STATUS_BAD_FORMAT, "%s: the shard \"%.200s\" of tensor %s is no .safetensors file", path, name,
          tensor);
    return STATUS_OK;
}

static int compare_texts(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int compare_entries(const void *left, const void *right) {
    return strcmp(((const struct index_entry *)left)->name, ((const struct index_entry *)right)->name);
}

/* Sorts `names` and keeps one of each. */
static size_t keep_distinct(const char **names, size_t count) {
    qsort(names, count, sizeof *names, compare_texts);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0) {
            names[kept++] = names[i];
        }
    }
    return kept;
}

static enum status check_weight_map(const struct json *map, const char *path) {
    CHECK(map != NULL && json_kind(map) == JSON_KIND_OBJECT && json_length(map) > 0, STATUS_BAD_FORMAT,
          "%s holds no weight_map of tensor names to shards", path);
    for (const struct json_member *member = json_first(map); member != NULL;
         member = json_next(map, member)) {
        size_t length;
        const char *tensor = json_member_key(member, &length);
        CHECK(length > 0 && length <= SAFETENSORS_NAME_BYTES_MAX && is_printable(tensor, length),
              STATUS_BAD_FORMAT,
              "%s: weight_map holds a tensor name that is empty, too long or not printable", path);
        TRY(check_shard_name(json_member_value(member), path, tensor));
    }
    return STATUS_OK;
}

/* `json` is a checked weight_map; shard names are copied once each. */
static enum status collect(const struct json *map, struct arena *arena, struct checkpoint_index *out) {
    size_t count = json_length(map);
    out->entries = ARENA_NEW(arena, struct index_entry, count);
    out->shard_names = ARENA_NEW(arena, const char *, count);
    CHECK_MEMORY(out->entries);
    CHECK_MEMORY(out->shard_names);
    for (const struct json_member *member = json_first(map); member != NULL;
         member = json_next(map, member)) {
        out->shard_names[out->count++] = json_text(json_member_value(member), NULL);
    }
    out->shard_count = keep_distinct(out->shard_names, count);
    for (size_t i = 0; i < out->shard_count; i++) {
        out->shard_names[i] = arena_copy_string(arena, out->shard_names[i], strlen(out->shard_names[i]));
        CHECK_MEMORY(out->shard_names[i]);
    }
    struct index_entry *entry = out->entries;
    for (const struct json_member *member = json_first(map); member != NULL;
         member = json_next(map, member)) {
        size_t length;
        const char *name = json_member_key(member, &length);
        const char *shard_name = json_text(json_member_value(member), NULL);
        const char **shard =
            bsearch(&shard_name, out->shard_names, out->shard_count, sizeof *out->shard_names, compare_texts);
        *entry = (struct index_entry){.name = arena_copy_string(arena, name, length),
                                      .shard = (size_t)(shard - out->shard_names)};
        CHECK_MEMORY(entry->name);
        entry++;
    }
    qsort(out->entries, out->count, sizeof *out->entries, compare_entries);
    return STATUS_OK;
}

enum status checkpoint_index_read(const char *path, struct arena *arena, struct checkpoint_index *out) {
    *out = (struct checkpoint_index){0};
    struct json *document;
    TRY(json_parse_file(path, INDEX_BYTES_MAX, &document));
    const struct json *map = json_get(document, "weight_map");
    enum status status = check_weight_map(map, path);
    if (status == STATUS_OK) {
        status = collect(map, arena, out);
    }
    json_free(&document);
    TRY(status);
    return STATUS_OK;
}
