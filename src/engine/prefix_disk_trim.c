/*
 * The limit of the prefix cache on disk.
 *
 * Names tell which entry builds on which, so no file is opened. Times of use are carried from the ends of
 * prefixes to their beginnings; then the oldest go, of equally old ones the last of a prefix first.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/prefix_disk_files.h"

enum { ABANDONED_SECONDS = 3600 };

struct listed {
    struct prefix_key key;
    enum prefix_entry_kind kind;
    uint64_t bytes;
    int64_t used_ns; /* since the epoch */
};

struct listing {
    struct listed *entries;
    size_t count;
    size_t capacity;
    uint64_t bytes;
};

static int add_entry(struct listing *listing, const struct listed *entry) {
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 256 : 2 * listing->capacity;
        struct listed *entries = realloc(listing->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            return ENOMEM;
        }
        listing->entries = entries;
        listing->capacity = capacity;
    }
    listing->entries[listing->count++] = *entry;
    listing->bytes += entry->bytes;
    return 0;
}

/* Deletes a file that a writer began long ago and never put in place. */
static void clear_abandoned(int directory, const char *name) {
    size_t length = strlen(name);
    struct stat info;
    if (length > 4 && strcmp(name + length - 4, ".tmp") == 0 &&
        fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        time(NULL) - info.st_mtim.tv_sec > ABANDONED_SECONDS) {
        unlinkat(directory, name, 0);
    }
}

static int list_one(int directory, const char *name, struct listing *listing) {
    struct listed entry;
    struct stat info;
    if (!prefix_file_name_parse(name, &entry.key, &entry.kind)) {
        clear_abandoned(directory, name);
        return 0;
    }
    if (fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) {
        return 0; /* gone since, or not ours */
    }
    entry.bytes = (uint64_t)info.st_size;
    entry.used_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    return add_entry(listing, &entry);
}

static int list_directory(int directory, struct listing *listing) {
    /* A descriptor of its own: reading moves its position. */
    int descriptor = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (stream == NULL) {
        int error = errno;
        if (descriptor >= 0) {
            close(descriptor);
        }
        return error;
    }
    int error = 0;
    const struct dirent *entry;
    while (error == 0 && (entry = readdir(stream)) != NULL) {
        error = list_one(directory, entry->d_name, listing);
    }
    closedir(stream);
    return error;
}

/* By the beginning of the digest, which is what names have of parents; a page before its snapshot. */
static int compare_digests(const void *a, const void *b) {
    const struct listed *left = a;
    const struct listed *right = b;
    int order = memcmp(left->key.digest, right->key.digest, PREFIX_PARENT_BYTES);
    return order != 0 ? order : (int)left->kind - (int)right->kind;
}

/* From the ends of prefixes to their beginnings; a snapshot before its page. */
static int compare_depths(const void *a, const void *b) {
    const struct listed *left = *(struct listed *const *)a;
    const struct listed *right = *(struct listed *const *)b;
    if (left->key.page_index != right->key.page_index) {
        return left->key.page_index > right->key.page_index ? -1 : 1;
    }
    return (int)right->kind - (int)left->kind;
}

static int compare_uses(const void *a, const void *b) {
    const struct listed *left = *(struct listed *const *)a;
    const struct listed *right = *(struct listed *const *)b;
    if (left->used_ns != right->used_ns) {
        return left->used_ns < right->used_ns ? -1 : 1;
    }
    return compare_depths(a, b);
}

/* The entry that `entry` builds on: a snapshot's page, a page's parent. NULL if it is not there. */
static struct listed *find_base(const struct listing *listing, const struct listed *entry) {
    struct listed wanted = {.kind = PREFIX_ENTRY_PAGE};
    const uint8_t *digest = entry->kind == PREFIX_ENTRY_SNAPSHOT ? entry->key.digest : entry->key.parent;
    memcpy(wanted.key.digest, digest, PREFIX_PARENT_BYTES);
    return bsearch(&wanted, listing->entries, listing->count, sizeof wanted, compare_digests);
}

static void carry_uses(const struct listing *listing, struct listed **order) {
    qsort(order, listing->count, sizeof *order, compare_depths);
    for (size_t i = 0; i < listing->count; i++) {
        struct listed *base = find_base(listing, order[i]);
        if (base != NULL && base->used_ns < order[i]->used_ns) {
            base->used_ns = order[i]->used_ns;
        }
    }
}

static int delete_oldest(int directory, struct listing *listing, uint64_t target_bytes,
                         struct prefix_files_usage *usage) {
    qsort(listing->entries, listing->count, sizeof *listing->entries, compare_digests);
    struct listed **order = malloc(listing->count * sizeof *order);
    if (order == NULL) {
        return ENOMEM;
    }
    for (size_t i = 0; i < listing->count; i++) {
        order[i] = &listing->entries[i];
    }
    carry_uses(listing, order);
    qsort(order, listing->count, sizeof *order, compare_uses);
    for (size_t i = 0; i < listing->count && listing->bytes > target_bytes; i++) {
        struct prefix_file_name name = prefix_file_name_make(&order[i]->key, order[i]->kind);
        if (unlinkat(directory, name.text, 0) == 0) {
            usage->deleted++;
        } else if (errno != ENOENT) {
            continue;
        }
        listing->bytes -= order[i]->bytes;
    }
    free(order);
    return 0;
}

int prefix_files_trim(int directory, uint64_t limit_bytes, uint64_t target_bytes,
                      struct prefix_files_usage *usage) {
    struct listing listing = {0};
    *usage = (struct prefix_files_usage){0};
    int error = list_directory(directory, &listing);
    if (error == 0 && listing.bytes > limit_bytes) {
        error = delete_oldest(directory, &listing, target_bytes, usage);
    }
    usage->bytes = listing.bytes;
    free(listing.entries);
    return error;
}
