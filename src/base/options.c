/*
 * One pass over the arguments; each option's text becomes a value through store_value, which also reads the
 * table's defaults, so that a default is held to the same bounds as what a user types.
 */
#include "base/options.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMNS = 100, HELP_INDENT = 34, NAME_BYTES_MAX = 64, SHORT_ALIAS_BYTES_MAX = 3 };

/* Beyond these a bound is there for the type's sake and would only clutter an error or the help. */
static const double ERROR_BOUND_MAX = 1e15;
static const double HELP_BOUND_MAX = 1e9;

/* Where the parser stands. */
struct parser {
    const struct option_table *table;
    const struct option_command *command;
    int argc;
    char **argv;
    int next; /* index of the next argument */
    void *values;
};

static void *field_of(void *values, size_t offset) {
    return (char *)values + offset;
}

/* Fills `text` with " between 0 and 1", " of at least 0" or nothing. */
static void describe_bounds(const struct option_row *row, char *text, size_t text_bytes) {
    text[0] = '\0';
    if (row->minimum == 0 && row->maximum == 0) {
        return;
    }
    if (row->maximum >= ERROR_BOUND_MAX) {
        snprintf(text, text_bytes, " of at least %.10g", row->minimum);
    } else {
        snprintf(text, text_bytes, " between %.10g and %.10g", row->minimum, row->maximum);
    }
}

static bool is_within_bounds(const struct option_row *row, double value) {
    return (row->minimum == 0 && row->maximum == 0) || (value >= row->minimum && value <= row->maximum);
}

static enum status store_integer(const struct option_row *row, const char *text, int64_t *out) {
    char bounds[96];
    describe_bounds(row, bounds, sizeof bounds);
    if (row->choices != NULL && strcmp(text, row->choices) == 0) {
        *out = OPTION_INT_WORD;
        return STATUS_OK;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    /* strtoll skips leading blanks, a strict number has none. */
    bool is_number = text[strspn(text, "+-0123456789")] == '\0' && end != text && *end == '\0';
    CHECK(is_number && errno == 0 && is_within_bounds(row, (double)value), STATUS_USAGE,
          "--%s needs a whole number%s%s%s, not \"%s\"", row->name, bounds,
          row->choices == NULL ? "" : ", or ", row->choices == NULL ? "" : row->choices, text);
    *out = value;
    return STATUS_OK;
}

static enum status store_real(const struct option_row *row, const char *text, double *out) {
    char bounds[96];
    describe_bounds(row, bounds, sizeof bounds);
    char *end = NULL;
    double value = strtod(text, &end);
    /* strtod also takes blanks, hexadecimal, "nan" and "inf". */
    bool is_number = text[strspn(text, "+-.0123456789eE")] == '\0' && end != text && *end == '\0';
    CHECK(is_number && isfinite(value) && is_within_bounds(row, value), STATUS_USAGE,
          "--%s needs a number%s, not \"%s\"", row->name, bounds, text);
    *out = value;
    return STATUS_OK;
}

static enum status store_choice(const struct option_row *row, const char *text, int *out) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *choice = row->choices; choice != NULL; index++) {
        const char *bar = strchr(choice, '|');
        size_t choice_length = bar == NULL ? strlen(choice) : (size_t)(bar - choice);
        if (choice_length == length && memcmp(choice, text, length) == 0) {
            *out = index;
            return STATUS_OK;
        }
        choice = bar == NULL ? NULL : bar + 1;
    }
    FAIL(STATUS_USAGE, "--%s must be one of %s, not \"%s\"", row->name, row->choices, text);
}

/* Writes the value of `text` into the row's field; a flag's text is "true" or "false". */
static enum status store_value(const struct option_row *row, const char *text, void *values) {
    void *field = field_of(values, row->offset);
    switch (row->type) {
    case OPTION_FLAG:
        *(bool *)field = strcmp(text, "true") == 0;
        return STATUS_OK;
    case OPTION_INT:
        TRY(store_integer(row, text, field));
        return STATUS_OK;
    case OPTION_REAL:
        TRY(store_real(row, text, field));
        return STATUS_OK;
    case OPTION_TEXT:
        *(const char **)field = text;
        return STATUS_OK;
    case OPTION_CHOICE:
        TRY(store_choice(row, text, field));
        return STATUS_OK;
    case OPTION_LIST: {
        struct option_list *list = field;
        CHECK(list->count < OPTION_LIST_MAX, STATUS_USAGE, "--%s may be given at most %d times", row->name,
              OPTION_LIST_MAX);
        list->items[list->count++] = text;
        return STATUS_OK;
    }
    }
    FAIL(STATUS_INTERNAL, "the option table gives --%s an unknown type", row->name);
}

static void clear_value(const struct option_row *row, void *values) {
    static const size_t field_bytes[] = {
        [OPTION_FLAG] = sizeof(bool),   [OPTION_INT] = sizeof(int64_t),
        [OPTION_REAL] = sizeof(double), [OPTION_TEXT] = sizeof(const char *),
        [OPTION_CHOICE] = sizeof(int),  [OPTION_LIST] = sizeof(struct option_list),
    };
    memset(field_of(values, row->offset), 0, field_bytes[row->type]);
    if (row->given_offset != SIZE_MAX) {
        *(bool *)field_of(values, row->given_offset) = false;
    }
}

const struct option_row *option_table_row(const struct option_table *table, size_t index) {
    for (size_t g = 0; g < table->group_count; g++) {
        if (index < table->groups[g]->row_count) {
            return &table->groups[g]->rows[index];
        }
        index -= table->groups[g]->row_count;
    }
    return NULL;
}

static size_t count_rows(const struct option_table *table) {
    size_t count = 0;
    for (size_t g = 0; g < table->group_count; g++) {
        count += table->groups[g]->row_count;
    }
    return count;
}

static enum status store_defaults(const struct parser *parser) {
    const struct option_row *row;
    for (size_t i = 0; (row = option_table_row(parser->table, i)) != NULL; i++) {
        if ((row->commands & parser->command->bit) == 0) {
            continue;
        }
        clear_value(row, parser->values);
        if (row->default_value != NULL) {
            TRY(store_value(row, row->default_value, parser->values));
        }
    }
    return STATUS_OK;
}

static bool is_name(const char *candidate, const char *name, size_t length) {
    return candidate != NULL && strlen(candidate) == length && memcmp(candidate, name, length) == 0;
}

/* A few letters are spelt with one dash: -n, and as in vLLM -tp. */
static bool is_short_alias(const char *alias) {
    return alias != NULL && strlen(alias) <= SHORT_ALIAS_BYTES_MAX;
}

/*
 * The row of that name, of any command; NULL if there is none. Single letters are for one dash only, two or
 * three for one or two.
 */
static const struct option_row *find_row(const struct option_table *table, const char *name, size_t length,
                                         bool is_short) {
    const struct option_row *row;
    for (size_t i = 0; (row = option_table_row(table, i)) != NULL; i++) {
        bool alias_is_short = is_short_alias(row->alias);
        if (!is_short && is_name(row->name, name, length)) {
            return row;
        }
        bool is_spelling = is_short ? alias_is_short : length > 1;
        if (is_spelling && is_name(row->alias, name, length)) {
            return row;
        }
    }
    return NULL;
}

/* The name of the command's options nearest to `word`; of its flags only, if asked so. NULL if none is close.
 */
static enum status find_nearest(const struct parser *parser, const char *word, bool flags_only,
                                const char **out) {
    const struct option_table *table = parser->table;
    const char **names = malloc((2 * count_rows(table) + 1) * sizeof *names);
    CHECK_MEMORY(names);
    size_t count = 0;
    const struct option_row *row;
    for (size_t i = 0; (row = option_table_row(table, i)) != NULL; i++) {
        if ((row->commands & parser->command->bit) == 0 || (flags_only && row->type != OPTION_FLAG)) {
            continue;
        }
        names[count++] = row->name;
        if (row->alias != NULL && !is_short_alias(row->alias)) {
            names[count++] = row->alias;
        }
    }
    if (!flags_only) {
        names[count++] = "help";
    }
    *out = options_nearest_name(word, names, count);
    free(names);
    return STATUS_OK;
}

/* `argument` up to any '=' is an unknown option. */
static enum status fail_unknown(const struct parser *parser, const char *argument) {
    char word[NAME_BYTES_MAX];
    size_t shown = strcspn(argument, "=");
    size_t dashes = strspn(argument, "-");
    size_t length = shown > dashes ? shown - dashes : 0;
    snprintf(word, sizeof word, "%.*s", (int)length, argument + dashes);
    bool is_negated = strncmp(word, "no-", 3) == 0;
    const char *nearest = NULL;
    TRY(find_nearest(parser, is_negated ? word + 3 : word, is_negated, &nearest));
    if (nearest == NULL) {
        FAIL(STATUS_USAGE, "unknown option %.*s; --help lists the options", (int)shown, argument);
    }
    FAIL(STATUS_USAGE, "unknown option %.*s; did you mean %s%s%s?", (int)shown, argument,
         dashes == 0 ? "" : "--", is_negated ? "no-" : "", nearest);
}

/* The option's value: after '=' or the next argument. */
static enum status take_value(struct parser *parser, const struct option_row *row, const char *after_equals,
                              const char **out) {
    if (after_equals != NULL) {
        *out = after_equals;
        return STATUS_OK;
    }
    const char *name = row->value_name == NULL ? "a value" : row->value_name;
    CHECK(parser->next < parser->argc, STATUS_USAGE, "--%s needs %s after it", row->name, name);
    const char *value = parser->argv[parser->next];
    CHECK(strncmp(value, "--", 2) != 0 || value[2] == '\0', STATUS_USAGE,
          "--%s needs %s, but the option %s follows; if that is the value, write --%s=%s", row->name, name,
          value, row->name, value);
    parser->next++;
    *out = value;
    return STATUS_OK;
}

/* The row of `name`, with the meaning of a leading "no-" for flags; NULL if there is none. */
static const struct option_row *resolve_name(const struct parser *parser, const char *name, size_t length,
                                             bool is_short, bool *is_negated) {
    const struct option_row *row = find_row(parser->table, name, length, is_short);
    *is_negated = false;
    if (row == NULL && !is_short && length > 3 && strncmp(name, "no-", 3) == 0) {
        row = find_row(parser->table, name + 3, length - 3, false);
        *is_negated = true;
    }
    return row;
}

static void clear_list_of_file(const struct option_row *row, void *values) {
    struct option_list *list = field_of(values, row->offset);
    if (row->type == OPTION_LIST && list->is_of_file) {
        *list = (struct option_list){0};
    }
}

static enum status store_given(const struct option_row *row, const char *text, void *values) {
    TRY(store_value(row, text, values));
    if (row->given_offset != SIZE_MAX) {
        *(bool *)field_of(values, row->given_offset) = true;
    }
    return STATUS_OK;
}

/* One argument that starts with a dash. */
static enum status parse_option(struct parser *parser, const char *argument) {
    bool is_short = argument[1] != '-';
    const char *name = argument + (is_short ? 1 : 2);
    size_t length = strcspn(name, "=");
    const char *after_equals = name[length] == '=' ? name + length + 1 : NULL;
    bool is_negated = false;
    const struct option_row *row = resolve_name(parser, name, length, is_short, &is_negated);
    if (row == NULL) {
        return fail_unknown(parser, argument);
    }
    CHECK((row->commands & parser->command->bit) != 0, STATUS_USAGE,
          "--%s is not an option of %s; see %s --help", row->name, parser->command->name,
          parser->command->name);
    CHECK(!is_negated || row->type == OPTION_FLAG, STATUS_USAGE, "--%s takes a value, so there is no --no-%s",
          row->name, row->name);
    const char *value = is_negated ? "false" : "true";
    if (row->type == OPTION_FLAG) {
        CHECK(after_equals == NULL, STATUS_USAGE, "--%s takes no value; write --%s or --no-%s", row->name,
              row->name, row->name);
    } else {
        TRY(take_value(parser, row, after_equals, &value));
    }
    clear_list_of_file(row, parser->values);
    return store_given(row, value, parser->values);
}

static enum status store_setting(struct parser *parser, const struct option_setting *setting) {
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%s", setting->name);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    bool is_negated = false;
    const struct option_row *row = resolve_name(parser, name, strlen(name), false, &is_negated);
    if (row == NULL) {
        return fail_unknown(parser, name);
    }
    CHECK((row->commands & parser->command->bit) != 0, STATUS_USAGE,
          "%s is not an option of %s; see %s --help", name, parser->command->name, parser->command->name);
    bool is_on = strcmp(setting->value, "true") == 0;
    bool is_truth = is_on || strcmp(setting->value, "false") == 0;
    CHECK((row->type != OPTION_FLAG && !is_negated) || (is_truth && !setting->is_item), STATUS_USAGE,
          "%s needs true or false, not \"%s\"", name, setting->value);
    CHECK(row->type == OPTION_LIST || !setting->is_item, STATUS_USAGE, "%s takes one value, not a list",
          name);
    const char *opposite = is_on ? "false" : "true";
    TRY(store_given(row, is_negated ? opposite : setting->value, parser->values));
    if (row->type == OPTION_LIST) {
        ((struct option_list *)field_of(parser->values, row->offset))->is_of_file = true;
    }
    return STATUS_OK;
}

static enum status store_settings(struct parser *parser, const struct option_settings *settings) {
    for (size_t i = 0; settings != NULL && i < settings->count; i++) {
        const struct option_setting *setting = &settings->items[i];
        enum status status = store_setting(parser, setting);
        if (status != STATUS_OK) {
            char message[ERROR_MESSAGE_BYTES];
            snprintf(message, sizeof message, "%s", error_last()->message);
            FAIL(status, "%s, line %d: %.3000s", settings->file, setting->line, message);
        }
    }
    return STATUS_OK;
}

enum status options_parse(const struct option_table *table, const struct option_command *command,
                          const struct option_settings *settings, int argc, char **argv, void *values,
                          int *word_count, int *wants_help) {
    struct parser parser = {.table = table, .command = command, .argc = argc, .argv = argv, .values = values};
    *word_count = 0;
    *wants_help = 0;
    TRY(store_defaults(&parser));
    TRY(store_settings(&parser, settings));
    bool options_ended = false;
    while (parser.next < argc) {
        char *argument = argv[parser.next++];
        if (options_ended || argument[0] != '-' || argument[1] == '\0') {
            argv[(*word_count)++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            options_ended = true;
        } else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *wants_help = 1;
            return STATUS_OK;
        } else {
            TRY(parse_option(&parser, argument));
        }
    }
    return STATUS_OK;
}

/* Writes words from column `column` on, broken before HELP_COLUMNS and indented by `indent`. */
static void print_wrapped(const char *text, int column, int indent, FILE *out) {
    int at = column;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (at > indent && at + 1 + length > HELP_COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", length, text);
        at += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static bool is_negation_shown(const struct option_row *row) {
    return row->type == OPTION_FLAG &&
           (row->given_offset != SIZE_MAX ||
            (row->default_value != NULL && strcmp(row->default_value, "true") == 0));
}

/* Fills `text` with "  -m, --model DIR" and returns its length. */
static int format_spelling(const struct option_row *row, char *text, size_t text_bytes) {
    bool alias_is_short = is_short_alias(row->alias);
    bool alias_is_long = row->alias != NULL && !alias_is_short;
    const char *value_name = row->type == OPTION_CHOICE ? row->choices : row->value_name;
    return snprintf(text, text_bytes, "  %s%s%s--%s%s%s%s%s%s", alias_is_short ? "-" : "",
                    alias_is_short ? row->alias : "", alias_is_short ? ", " : "",
                    is_negation_shown(row) ? "[no-]" : "", row->name, alias_is_long ? ", --" : "",
                    alias_is_long ? row->alias : "", value_name == NULL ? "" : " ",
                    value_name == NULL ? "" : value_name);
}

static void print_row(const struct option_row *row, FILE *out) {
    char spelling[256];
    int length = format_spelling(row, spelling, sizeof spelling);
    fputs(spelling, out);
    if (length + 2 > HELP_INDENT) {
        fprintf(out, "\n%*s", HELP_INDENT, "");
    } else {
        fprintf(out, "%*s", HELP_INDENT - length, "");
    }
    char bounds[96] = "";
    bool is_number = row->type == OPTION_INT || row->type == OPTION_REAL;
    if (is_number && row->maximum < HELP_BOUND_MAX) {
        describe_bounds(row, bounds, sizeof bounds);
    }
    char help[1024];
    bool has_default = row->type != OPTION_FLAG && row->default_value != NULL;
    snprintf(help, sizeof help, "%s%s%s%s%s%s%s", row->help, bounds[0] == '\0' ? "" : " A number", bounds,
             bounds[0] == '\0' ? "" : ".", has_default ? " Default: " : "",
             has_default ? row->default_value : "", has_default ? "." : "");
    print_wrapped(help, HELP_INDENT, HELP_INDENT, out);
}

static void print_group(const struct option_group *group, unsigned command, FILE *out) {
    bool has_title = false;
    for (size_t i = 0; i < group->row_count; i++) {
        if ((group->rows[i].commands & command) == 0) {
            continue;
        }
        if (!has_title) {
            fprintf(out, "\n%s:\n", group->title);
            has_title = true;
        }
        print_row(&group->rows[i], out);
    }
}

void options_print_help(const struct option_table *table, const struct option_command *command,
                        const char *program, FILE *out) {
    bool has_arguments = command->arguments[0] != '\0';
    fprintf(out, "Usage: %s %s [OPTIONS]%s%s\n\n", program, command->name, has_arguments ? " " : "",
            command->arguments);
    print_wrapped(command->summary, 0, 0, out);
    for (size_t g = 0; g < table->group_count; g++) {
        print_group(table->groups[g], command->bit, out);
    }
    fprintf(out, "  -h, --help%*sShow this help.\n", HELP_INDENT - 12, "");
    if (command->notes != NULL) {
        fprintf(out, "\n%s\n", command->notes);
    }
}

/* Edits (insert, drop, change, swap neighbours) from `a` to `b`; both shorter than NAME_BYTES_MAX. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    size_t rows[3][NAME_BYTES_MAX + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *row = rows[2];
    for (size_t j = 0; j <= b_length; j++) {
        before[j] = last[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (is_swap && before[j - 2] + 1 < best) {
                best = before[j - 2] + 1;
            }
            row[j] = best;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_length];
}

const char *options_nearest_name(const char *word, const char *const *candidates, size_t count) {
    size_t length = strlen(word);
    if (length == 0 || length >= NAME_BYTES_MAX) {
        return NULL;
    }
    const char *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t candidate_length = strlen(candidates[i]);
        if (candidate_length >= NAME_BYTES_MAX) {
            continue;
        }
        size_t distance = edit_distance(word, length, candidates[i], candidate_length);
        /* A beginning of a name is as good as one typing mistake. */
        if (length >= 3 && strncmp(candidates[i], word, length) == 0 && distance > 1) {
            distance = 1;
        }
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = candidates[i];
        }
    }
    size_t limit = length < 3 ? 1 : (length + 2) / 3;
    return nearest_distance <= limit ? nearest : NULL;
}
