/*
 * Command-line options from one table, and the same options from a file.
 *
 * A row gives an option's name, type, default, bounds and help, the commands that take it, and where its
 * value goes; the table yields parsing, checks, `--help` and the suggestion for a misspelt name.
 * Spellings: `--name value`, `--name=value`, `-s value`, and `--no-name` for a flag.
 */
#ifndef SLUICE_BASE_OPTIONS_H
#define SLUICE_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

enum option_type {
    OPTION_FLAG,   /* bool */
    OPTION_INT,    /* int64_t, within minimum..maximum, or OPTION_INT_WORD */
    OPTION_REAL,   /* double, within minimum..maximum */
    OPTION_TEXT,   /* const char *, borrowed from argv or the default */
    OPTION_CHOICE, /* int: index into `choices` */
    OPTION_LIST,   /* struct option_list: may be given several times */
};

enum { OPTION_LIST_MAX = 64 };

/* An integer's value where the row's `choices` is given instead of a number. */
enum { OPTION_INT_WORD = -1 };

struct option_list {
    const char *items[OPTION_LIST_MAX]; /* borrowed from argv */
    int count;
    bool is_of_file; /* the items come from settings: the first one of the command line replaces them */
};

/* An option as it stands in a file. */
struct option_setting {
    const char *name;  /* without dashes; '_' stands for '-' */
    const char *value; /* of a flag "true" or "false" */
    int line;
    bool is_item; /* of a list, which only a list takes */
};

/* Texts are borrowed by what they fill. */
struct option_settings {
    const char *file;
    const struct option_setting *items;
    size_t count;
};

struct option_row {
    const char *name;  /* without dashes: "max-tokens" */
    const char *alias; /* another long spelling, or up to three letters behind one dash; NULL if none */
    enum option_type type;
    unsigned commands; /* bit mask of the commands that take it */
    const char
        *default_value;      /* as typed on a command line; NULL: zero, false, NULL or empty; not for lists */
    double minimum, maximum; /* for numbers; both 0: no bounds */
    const char *choices;     /* OPTION_CHOICE: "ideal|native"; OPTION_INT: a word such as "auto", or NULL */
    const char *value_name;  /* for help: "N", "FILE" */
    const char *help;        /* one sentence */
    size_t offset;           /* of the field in the values struct */
    size_t given_offset;     /* of a bool that says whether it was given; SIZE_MAX if not wanted */
};

/* Rows about one thing, under a heading in `--help`. */
struct option_group {
    const char *title;
    const struct option_row *rows;
    size_t row_count;
};

struct option_table {
    const struct option_group *const *groups; /* in the order of `--help` */
    size_t group_count;
};

/* The row at `index`, counted through all groups; NULL behind the last one. */
const struct option_row *option_table_row(const struct option_table *table, size_t index);

/* One command as `--help` shows it. */
struct option_command {
    unsigned bit;
    const char *name;
    const char *arguments; /* "PROMPT...", "" if the command takes none */
    const char *summary;   /* one sentence */
    const char *notes;     /* examples and exit codes, printed after the options; NULL if none */
};

/*
 * Fills `values` with the defaults of `command`, then with the settings (NULL: none), then with what `argv`
 * says. Words that are no options are left in argv[0..*word_count). "--" ends the options. USAGE with one
 * sentence, and the nearest option's name, on any mistake; file and line too if it is a setting's. `--help`
 * sets *wants_help and stops.
 */
enum status options_parse(const struct option_table *table, const struct option_command *command,
                          const struct option_settings *settings, int argc, char **argv, void *values,
                          int *word_count, int *wants_help);

/* Writes the command's help, 100 columns wide. */
void options_print_help(const struct option_table *table, const struct option_command *command,
                        const char *program, FILE *out);

/* The candidate nearest to `word` by edit distance, NULL if none is close. */
const char *options_nearest_name(const char *word, const char *const *candidates, size_t count);

#endif
