/*
 * Options of vLLM that recipes carry and that change nothing here: the model has one format, one parser, one
 * way to run. They are passed over with one warning that names them; unknown ones stay, and are errors.
 */
#ifndef SLUICE_CLI_FOREIGN_OPTIONS_H
#define SLUICE_CLI_FOREIGN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct foreign_option {
    const char *name;
    const char *alias; /* behind one dash; NULL: none */
    bool has_value;
};

const struct foreign_option *foreign_options(size_t *count);

/* The one that a file's key names, '_' or '-' between words; NULL if none does. */
const struct foreign_option *foreign_options_find(const char *key);

/* Takes them out of the arguments, up to "--", and warns. */
void foreign_options_drop(int *argc, char **argv);

#endif
