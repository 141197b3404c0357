/*
 * Each line is built in memory and leaves in one write, so that threads do not mix within a line.
 *
 * Level, prefix and how to write are the only state: a program has one stderr, so it has one of each.
 *
 * Not to wait must be a property of one write: O_NONBLOCK on stderr itself would change it for all processes
 * that have it, and to ask before (poll) helps only where nobody else writes in between. So a pipe or
 * terminal is opened once more, with a mode of its own. Files are not: they never wait, and another opening
 * would write at another place.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe takes so much as a whole or not at all (PIPE_BUF of Linux). */
enum { LINE_BYTES = 4096, PREFIX_BYTES = 128 };

enum door {
    DOOR_WAITING, /* write waits, or is to a file */
    DOOR_OWN,     /* own_descriptor does not wait */
    DOOR_SOCKET,  /* send does not wait */
    DOOR_ASKED,   /* stderr could not be opened again: poll first */
};

static _Atomic int current_level = LOG_WARNING;
static char line_prefix[PREFIX_BYTES];
static enum door door = DOOR_WAITING;
static int own_descriptor = -1;
static _Atomic uint64_t lost_lines;
static _Atomic uint64_t untold_lines; /* of them, not yet spoken of */

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const level_colours[] = {"\033[31m", "\033[33m", "\033[36m", "\033[2m"};

void log_set_prefix(const char *prefix) {
    snprintf(line_prefix, sizeof line_prefix, "%s", prefix);
}

void log_set_level(enum log_level level) {
    atomic_store(&current_level, (int)level);
}

void log_never_wait(void) {
    struct stat what;
    if (own_descriptor >= 0) {
        close(own_descriptor);
        own_descriptor = -1;
    }
    door = DOOR_WAITING;
    if (fstat(STDERR_FILENO, &what) != 0 || S_ISREG(what.st_mode)) {
        return;
    }
    if (S_ISSOCK(what.st_mode)) {
        door = DOOR_SOCKET;
        return;
    }
    own_descriptor = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    door = own_descriptor >= 0 ? DOOR_OWN : DOOR_ASKED;
}

uint64_t log_lost_line_count(void) {
    return atomic_load(&lost_lines);
}

static ssize_t write_some(const char *bytes, size_t length) {
    struct pollfd question = {.fd = STDERR_FILENO, .events = POLLOUT};
    switch (door) {
    case DOOR_OWN:
        return write(own_descriptor, bytes, length);
    case DOOR_SOCKET:
        return send(STDERR_FILENO, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    case DOOR_ASKED:
        if (poll(&question, 1, 0) != 1) {
            errno = EAGAIN;
            return -1;
        }
        break;
    case DOOR_WAITING:
        break;
    }
    return write(STDERR_FILENO, bytes, length);
}

/* False if stderr did not take it all. */
static bool write_whole(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write_some(bytes, length);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* What has been lost is said where it is missing. True if there is nothing left to say. */
static bool tell_lost_lines(void) {
    uint64_t count = atomic_exchange(&untold_lines, 0);
    char line[LINE_BYTES];
    if (count == 0) {
        return true;
    }
    int length = snprintf(line, sizeof line,
                          "%s%s log: %" PRIu64 " lines were lost, because nobody read stderr in time\n",
                          line_prefix, level_names[LOG_WARNING], count);
    if (!write_whole(line, (size_t)length)) {
        atomic_fetch_add(&untold_lines, count);
        return false;
    }
    return true;
}

/* Logging must not fail its caller: what stderr does not take is lost. */
static void write_line(const char *line, size_t length) {
    if (!tell_lost_lines() || !write_whole(line, length)) {
        atomic_fetch_add(&lost_lines, 1);
        atomic_fetch_add(&untold_lines, 1);
    }
}

/* `line` has LINE_BYTES, of which the first `length` are there already. What does not fit is cut. */
static void finish_line(char *line, int length, const char *format, va_list arguments) {
    int message_length = vsnprintf(line + length, LINE_BYTES - (size_t)length - 1, format, arguments);
    if (message_length < 0) {
        return;
    }
    length += message_length;
    if (length > LINE_BYTES - 2) {
        length = LINE_BYTES - 2;
    }
    line[length++] = '\n';
    write_line(line, (size_t)length);
}

void log_write(enum log_level level, const char *module, const char *format, ...) {
    if ((int)level > atomic_load(&current_level)) {
        return;
    }
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    const char *colour = is_terminal ? level_colours[level] : "";
    const char *plain = is_terminal ? "\033[0m" : "";
    char line[LINE_BYTES];
    int length =
        snprintf(line, sizeof line, "%s%s%s%s %s: ", line_prefix, colour, level_names[level], plain, module);
    if (length < 0 || length >= LINE_BYTES - 1) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    finish_line(line, length, format, arguments);
    va_end(arguments);
}

void log_say(const char *format, ...) {
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    finish_line(line, 0, format, arguments);
    va_end(arguments);
}
