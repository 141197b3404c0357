/*
 * The way back from values to a command line: for a program that starts itself again with what it was told.
 */
#ifndef SLUICE_BASE_OPTIONS_ARGUMENTS_H
#define SLUICE_BASE_OPTIONS_ARGUMENTS_H

#include "base/arena.h"
#include "base/options.h"

/*
 * Words that give the command of bit `command` the values that another one was given, for each option that
 * both take: those that were given, or differ from their defaults, as "--name=value". `words` has room for
 * `capacity`; the new ones start at *count, which grows. Texts lie in the arena. OUT_OF_RANGE if there are
 * too many.
 */
enum status options_write_arguments(const struct option_table *table, unsigned command, const void *values,
                                    struct arena *arena, const char **words, size_t capacity, size_t *count);

#endif
