/*
 * Log lines on stderr: "level module: message", or with a terminal's colours where stderr is one.
 *
 * Any thread; one line is written whole.
 */
#ifndef SLUICE_BASE_LOG_H
#define SLUICE_BASE_LOG_H

#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* Lines above this level are dropped. Starts at LOG_WARNING. Call before other threads log. */
void log_set_level(enum log_level level);

/* What lines begin with from now on; cut at 127 bytes; "" at first. Call before other threads log. */
void log_set_prefix(const char *prefix);

/*
 * From now on no line waits for who reads stderr: one that a full pipe, socket or terminal does not take is
 * lost and counted, which the next line that gets through is preceded by. For programs that must go on. Call
 * before other threads log.
 */
void log_never_wait(void);

/* Lines lost so far. */
uint64_t log_lost_line_count(void);

/* Writes one line; `module` is the folder's name ("weights"). */
void log_write(enum log_level level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes one line as it is, whatever the level: what a program tells its user. */
void log_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
