/* Checked as ssh checks its keys: a secret that everybody can read is none. */
#include "lib/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_BYTES_LEAST = 16, SECRET_BYTES_MOST = 4096 };

static enum status read_open_file(int file, const char *path, struct string_buffer *out) {
    struct stat facts;
    char bytes[SECRET_BYTES_MOST + 1];
    CHECK(fstat(file, &facts) == 0, STATUS_IO, "%s cannot be looked at: %s", path, strerror(errno));
    CHECK((facts.st_mode & (S_IRWXG | S_IRWXO)) == 0, STATUS_USAGE,
          "the secret in %s can be read by others than its owner: chmod 600 it", path);
    ssize_t length = read(file, bytes, sizeof bytes);
    CHECK(length >= 0, STATUS_IO, "%s cannot be read: %s", path, strerror(errno));
    CHECK(length <= SECRET_BYTES_MOST, STATUS_USAGE, "the secret in %s is longer than %d bytes", path,
          SECRET_BYTES_MOST);
    while (length > 0 && strchr(" \t\r\n", bytes[length - 1]) != NULL) {
        length--;
    }
    CHECK(length >= SECRET_BYTES_LEAST, STATUS_USAGE,
          "the secret in %s is shorter than %d bytes: make one with `openssl rand -hex 32`", path,
          SECRET_BYTES_LEAST);
    string_buffer_append(out, bytes, (size_t)length);
    return string_buffer_check(out);
}

enum status secret_file_read(const char *path, struct string_buffer *out) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, STATUS_NOT_FOUND, "the secret %s cannot be opened: %s", path, strerror(errno));
    enum status status = read_open_file(file, path, out);
    close(file);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
