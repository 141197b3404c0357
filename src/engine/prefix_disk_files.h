/*
 * The directory of the prefix cache on disk: names, whole-file reads and writes, and the limit.
 *
 * Every function tolerates other processes that write, replace and delete the same files. Any thread.
 */
#ifndef SLUICE_ENGINE_PREFIX_DISK_FILES_H
#define SLUICE_ENGINE_PREFIX_DISK_FILES_H

#include <stdint.h>

#include "base/status.h"
#include "engine/prefix_disk_entry.h"

/* "<digest>.<parent>.<page index>.page" or ".snapshot", in hexadecimal digits. */
enum { PREFIX_NAME_BYTES = 2 * PREFIX_KEY_BYTES + 2 * PREFIX_PARENT_BYTES + 8 + 12 };

struct prefix_file_name {
    char text[PREFIX_NAME_BYTES + 1];
};

enum prefix_file_result { PREFIX_FILE_READ, PREFIX_FILE_ABSENT, PREFIX_FILE_DAMAGED };

/* Makes the directory if need be and checks that files can be made in it. The caller closes the descriptor.
 */
enum status prefix_files_open(const char *path, int *directory);

struct prefix_file_name prefix_file_name_make(const struct prefix_key *key, enum prefix_entry_kind kind);

/* The inverse. False for any other name. */
bool prefix_file_name_parse(const char *name, struct prefix_key *key, enum prefix_entry_kind *kind);

/* Reads a file of exactly these two parts. DAMAGED: there is something else, or something of another size. */
enum prefix_file_result prefix_files_read(int directory, const char *name, void *head, size_t head_bytes,
                                          void *payload, size_t payload_bytes);

/* Whether there is a regular file of this size. */
bool prefix_files_has(int directory, const char *name, size_t length);

/* Marks the file as used now. */
void prefix_files_touch(int directory, const char *name);

/* Puts a file in place at once, whole. Returns 0 or an errno. */
int prefix_files_write(int directory, const char *name, const void *bytes, size_t length);

struct prefix_files_usage {
    uint64_t bytes; /* of all entries that are left */
    int64_t deleted;
};

/*
 * Counts the directory's entries and, if they are more than limit_bytes, deletes some until they are at most
 * target_bytes. An entry counts as used when one that builds on it was: a page before its snapshot and the
 * pages after it would make those useless. Also deletes what writers that died have left. Returns 0 or an
 * errno.
 */
int prefix_files_trim(int directory, uint64_t limit_bytes, uint64_t target_bytes,
                      struct prefix_files_usage *usage);

#endif
