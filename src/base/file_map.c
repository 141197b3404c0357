/* mmap of whole files; the descriptor is closed at once, the map keeps the file. */
#include "base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status map_descriptor(int descriptor, const char *path, struct file_map *out) {
    struct stat info;
    CHECK(fstat(descriptor, &info) == 0, STATUS_IO, "cannot read the size of %s: %s", path, strerror(errno));
    CHECK(!S_ISDIR(info.st_mode), STATUS_IO, "%s is a directory, a file is needed", path);
    CHECK(S_ISREG(info.st_mode), STATUS_IO, "%s is not a regular file and cannot be mapped", path);
    *out = (struct file_map){.modified_nanoseconds =
                                 info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec};
    if (info.st_size == 0) {
        return STATUS_OK;
    }
    CHECK((uintmax_t)info.st_size <= SIZE_MAX, STATUS_IO, "%s is larger than the address space", path);
    size_t length = (size_t)info.st_size;
    void *address = mmap(NULL, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    CHECK(address != MAP_FAILED, STATUS_IO, "cannot map %s (%zu bytes): %s", path, length, strerror(errno));
    out->bytes = address;
    out->length = length;
    return STATUS_OK;
}

enum status file_map_open(const char *path, struct file_map *out) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer before it is refused. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        bool is_missing = errno == ENOENT || errno == ENOTDIR;
        FAIL(is_missing ? STATUS_NOT_FOUND : STATUS_IO, "cannot open %s: %s", path, strerror(errno));
    }
    enum status status = map_descriptor(descriptor, path, out);
    close(descriptor);
    if (status != STATUS_OK) {
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

void file_map_close(struct file_map *map) {
    if (map->bytes != NULL) {
        /* munmap takes a non-const pointer though it changes no byte. */
        munmap((void *)(uintptr_t)map->bytes, map->length);
    }
    *map = (struct file_map){0};
}

void file_map_read_ahead(const void *bytes, size_t length) {
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)bytes / page_bytes * page_bytes;
    if (length > 0) {
        (void)madvise((void *)begin, (uintptr_t)bytes + length - begin, MADV_WILLNEED);
    }
}
