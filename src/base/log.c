/*
 * Each line is built in memory and leaves in one write, so that threads do not mix within a line.
 *
 * Level and prefix are the only state: a program has one stderr, so it has one of each.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_BYTES = 4096, PREFIX_BYTES = 128 };

static _Atomic int current_level = LOG_WARNING;
static char line_prefix[PREFIX_BYTES];

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static const char *const level_colours[] = {"\033[31m", "\033[33m", "\033[36m", "\033[2m"};

void log_set_prefix(const char *prefix) {
    snprintf(line_prefix, sizeof line_prefix, "%s", prefix);
}

void log_set_level(enum log_level level) {
    atomic_store(&current_level, (int)level);
}

/* Logging must not fail its caller: what stderr does not take is lost. */
static void write_whole(const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, bytes, length);
        if (written <= 0) {
            return;
        }
        bytes += written;
        length -= (size_t)written;
    }
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
    int message_length = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (message_length < 0) {
        return;
    }
    length += message_length;
    if (length > LINE_BYTES - 2) {
        length = LINE_BYTES - 2;
    }
    line[length++] = '\n';
    write_whole(line, (size_t)length);
}
