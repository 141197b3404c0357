/* A prefix cache on disk of small entries, in a directory below the test's own. */
#ifndef SLUICE_TESTS_ENGINE_DISK_FIXTURE_H
#define SLUICE_TESTS_ENGINE_DISK_FIXTURE_H

#include "engine/prefix_disk.h"
#include "engine/prefix_disk_files.h"

enum {
    DISK_PAGE_TOKENS = 4,
    DISK_PAGE_BYTES = 24,
    DISK_SNAPSHOT_BYTES = 40,
    DISK_BUFFERS = 4,
    /* The format: 80 bytes, the tokens, a checksum of 16 bytes. */
    DISK_HEAD_BYTES = 80 + 4 * DISK_PAGE_TOKENS + 16,
    DISK_PAGE_FILE_BYTES = DISK_HEAD_BYTES + DISK_PAGE_BYTES,
    DISK_SNAPSHOT_FILE_BYTES = DISK_HEAD_BYTES + DISK_SNAPSHOT_BYTES,
};

/* A page of some prefix: where it is, and what is in it. */
struct disk_page {
    struct prefix_key key;
    int32_t tokens[DISK_PAGE_TOKENS];
};

struct prefix_disk *disk_open(const char *directory, uint8_t model, uint64_t limit_bytes);

/* The page of four tokens first, first + 1, ... after `parent`, or the first of a prefix (NULL). */
struct disk_page disk_page_after(struct prefix_disk *disk, const struct disk_page *parent, int32_t first);

/* Submits an entry whose payload follows from its tokens and kind. False if no buffer was free. */
bool disk_write(struct prefix_disk *disk, const struct disk_page *page, enum prefix_entry_kind kind,
                bool has_draft_rows);

/* Reads an entry; if there is one its payload must be the one that disk_write writes. */
bool disk_read(struct prefix_disk *disk, const struct disk_page *page, enum prefix_entry_kind kind,
               bool *has_draft_rows);

/* "<directory>/<name of the entry>" in static memory. */
const char *disk_path(const char *directory, const struct disk_page *page, enum prefix_entry_kind kind);

/* Whole small files; the length is returned. */
size_t disk_file_read(const char *path, unsigned char *bytes, size_t limit);
void disk_file_write(const char *path, const void *bytes, size_t length);

#endif
