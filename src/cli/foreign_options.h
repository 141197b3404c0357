/*
 * Options of vLLM that recipes carry and that change nothing here: the model has one format, one parser, one
 * way to run. They are passed over with one warning that names them, and one each for those whose users want
 * to know what to say instead. Those without which the recipe would mean something else are refused with the
 * reason; unknown ones stay, and are errors.
 */
#ifndef SLUICE_CLI_FOREIGN_OPTIONS_H
#define SLUICE_CLI_FOREIGN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct foreign_option {
    const char *name;
    const char *alias; /* behind one dash; NULL: none */
    bool has_value;
    const char *hint;     /* what is said instead, or holds anyway; NULL: nothing worth a line */
    const char *refusal;  /* why it is refused; NULL: it is passed over */
    const char *harmless; /* the value with which it is passed over all the same; NULL: none */
};

const struct foreign_option *foreign_options(size_t *count);

/* The one that a file's key names, '_' or '-' between words; NULL if none does. */
const struct foreign_option *foreign_options_find(const char *key);

/* Why the option is refused with this value; NULL: it is passed over. */
const char *foreign_option_refusal(const struct foreign_option *option, const char *value);

/* Takes them out of the arguments, up to "--", and warns. USAGE for one that is refused. */
enum status foreign_options_drop(int *argc, char **argv);

#endif
