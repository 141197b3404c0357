/*
 * Read-only memory maps of whole regular files.
 *
 * The bytes stay valid until file_map_close. Any thread may read them.
 */
#ifndef SLUICE_BASE_FILE_MAP_H
#define SLUICE_BASE_FILE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct file_map {
    const unsigned char *bytes; /* NULL if the file is empty */
    size_t length;
    int64_t modified_nanoseconds; /* when the file was last written, since 1970 */
};

/* Maps `path`. NOT_FOUND if it is missing, IO if it is no regular file or cannot be read. */
enum status file_map_open(const char *path, struct file_map *out);

/* Asks the kernel to read mapped bytes in the background. Only a hint: failure is no error. */
void file_map_read_ahead(const void *bytes, size_t length);

/* Unmaps and empties. Nothing to do for an empty map. */
void file_map_close(struct file_map *map);

#endif
