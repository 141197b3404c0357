/* Names, reads and writes. A file is written under a name of its own and then renamed. */
#include "engine/prefix_disk_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static const char *const suffixes[] = {".page", ".snapshot"};

static char *put_hex(char *text, const uint8_t *bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        *text++ = digits[bytes[i] >> 4];
        *text++ = digits[bytes[i] & 15];
    }
    return text;
}

struct prefix_file_name prefix_file_name_make(const struct prefix_key *key, enum prefix_entry_kind kind) {
    struct prefix_file_name name;
    char *end = name.text + sizeof name.text;
    char *text = put_hex(name.text, key->digest, PREFIX_KEY_BYTES);
    *text++ = '.';
    text = put_hex(text, key->parent, PREFIX_PARENT_BYTES);
    snprintf(text, (size_t)(end - text), ".%08" PRIx32 "%s", (uint32_t)key->page_index, suffixes[kind]);
    return name;
}

/* The value of `digits` hexadecimal digits in lower case; false for anything else. */
static bool take_hex(const char **text, int digits, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < digits; i++, (*text)++) {
        char c = **text;
        if (c >= '0' && c <= '9') {
            *value = *value << 4 | (uint32_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *value = *value << 4 | (uint32_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    return true;
}

static bool take_bytes(const char **text, uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        if (!take_hex(text, 2, &value)) {
            return false;
        }
        bytes[i] = (uint8_t)value;
    }
    return true;
}

static bool take_point(const char **text) {
    return *(*text)++ == '.';
}

bool prefix_file_name_parse(const char *name, struct prefix_key *key, enum prefix_entry_kind *kind) {
    uint32_t page_index;
    if (!take_bytes(&name, key->digest, PREFIX_KEY_BYTES) || !take_point(&name) ||
        !take_bytes(&name, key->parent, PREFIX_PARENT_BYTES) || !take_point(&name) ||
        !take_hex(&name, 8, &page_index) || page_index > INT32_MAX) {
        return false;
    }
    key->page_index = (int32_t)page_index;
    *kind = strcmp(name, suffixes[PREFIX_ENTRY_PAGE]) == 0 ? PREFIX_ENTRY_PAGE : PREFIX_ENTRY_SNAPSHOT;
    return strcmp(name, suffixes[*kind]) == 0;
}

/* Creates a file that nobody else has, and says under which name. Returns its descriptor, or -1 (errno). */
static int create_aside(int directory, char *name, size_t name_bytes) {
    static _Atomic unsigned counter; /* so that two threads do not even try the same name */
    int file = -1;
    for (int tries = 0; tries < 1000 && file < 0; tries++) {
        snprintf(name, name_bytes, "%ld.%u.tmp", (long)getpid(), atomic_fetch_add(&counter, 1));
        file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST) {
            break;
        }
    }
    return file;
}

enum status prefix_files_open(const char *path, int *out) {
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
          "the prefix cache's directory %s cannot be made: %s; make the folder around it, or choose another",
          path, strerror(errno));
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(directory >= 0, STATUS_IO, "the prefix cache's directory %s cannot be opened: %s", path,
          strerror(errno));
    char name[64];
    int file = create_aside(directory, name, sizeof name);
    if (file < 0) {
        int error = errno;
        close(directory);
        FAIL(STATUS_IO,
             "no file can be made in the prefix cache's directory %s: %s; allow this user to write there, or "
             "choose another",
             path, strerror(error));
    }
    close(file);
    unlinkat(directory, name, 0);
    struct stat info;
    if (fstat(directory, &info) == 0 && (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        log_write(LOG_WARNING, "engine",
                  "other users may write to the prefix cache's directory %s and so forge what the model "
                  "remembers; chmod 700 it",
                  path);
    }
    *out = directory;
    return STATUS_OK;
}

static bool read_whole(int file, void *bytes, size_t length) {
    unsigned char *next = bytes;
    while (length > 0) {
        ssize_t count = read(file, next, length);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return false;
        }
        next += count;
        length -= (size_t)count;
    }
    return true;
}

enum prefix_file_result prefix_files_read(int directory, const char *name, void *head, size_t head_bytes,
                                          void *payload, size_t payload_bytes) {
    /* O_NONBLOCK: a pipe under this name must not stop us. */
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) {
        /* A link is not ours. Too many open files, say, are no fault of the entry. */
        return errno == ELOOP ? PREFIX_FILE_DAMAGED : PREFIX_FILE_ABSENT;
    }
    struct stat info;
    bool is_read = fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                   (uint64_t)info.st_size == (uint64_t)head_bytes + payload_bytes &&
                   read_whole(file, head, head_bytes) && read_whole(file, payload, payload_bytes);
    close(file);
    return is_read ? PREFIX_FILE_READ : PREFIX_FILE_DAMAGED;
}

bool prefix_files_has(int directory, const char *name, size_t length) {
    struct stat info;
    return fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size == length;
}

void prefix_files_touch(int directory, const char *name) {
    /* Access times are often off; the time of change is ours to use, since contents never change. */
    (void)utimensat(directory, name, NULL, AT_SYMLINK_NOFOLLOW);
}

static int write_whole(int file, const void *bytes, size_t length) {
    const unsigned char *next = bytes;
    while (length > 0) {
        ssize_t count = write(file, next, length);
        if (count < 0 && errno != EINTR) {
            return errno;
        }
        if (count > 0) {
            next += count;
            length -= (size_t)count;
        }
    }
    return 0;
}

int prefix_files_write(int directory, const char *name, const void *bytes, size_t length) {
    char aside[64];
    int file = create_aside(directory, aside, sizeof aside);
    if (file < 0) {
        return errno;
    }
    /* Not synchronised: after a power cut the checksum tells. */
    int error = write_whole(file, bytes, length);
    if (close(file) != 0 && error == 0) {
        error = errno;
    }
    if (error == 0 && renameat(directory, aside, directory, name) != 0) {
        error = errno;
    }
    if (error != 0) {
        unlinkat(directory, aside, 0);
    }
    return error;
}
