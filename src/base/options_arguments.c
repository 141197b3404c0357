/* Each row's value as a word; options_parse reads it back to the same bits. */
#include "base/options_arguments.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct writer {
    struct arena *arena;
    const char **words;
    size_t capacity;
    size_t *count;
};

static enum status put(struct writer *writer, const char *word) {
    CHECK_MEMORY(word);
    CHECK(*writer->count < writer->capacity, STATUS_OUT_OF_RANGE,
          "there are more than %zu options to pass on", writer->capacity);
    writer->words[(*writer->count)++] = word;
    return STATUS_OK;
}

/* The text of choice `index` of "a|b|c". */
static const char *choice_text(struct arena *arena, const char *choices, int index) {
    for (int i = 0; i < index; i++) {
        choices = strchr(choices, '|') + 1;
    }
    return arena_copy_string(arena, choices, strcspn(choices, "|"));
}

/* The value as it is typed; NULL: nothing is to be typed, or memory is out, which *is_failed then says. */
static const char *value_text(struct arena *arena, const struct option_row *row, const void *field,
                              bool *is_failed) {
    const char *text = NULL;
    switch (row->type) {
    case OPTION_FLAG:
        return *(const bool *)field ? "true" : "false";
    case OPTION_INT:
        if (row->choices != NULL && *(const int64_t *)field == OPTION_INT_WORD) {
            return row->choices;
        }
        text = arena_format(arena, "%" PRId64, *(const int64_t *)field);
        break;
    case OPTION_REAL:
        text = arena_format(arena, "%.17g", *(const double *)field);
        break;
    case OPTION_TEXT:
        return *(const char *const *)field;
    case OPTION_CHOICE:
        text = choice_text(arena, row->choices, *(const int *)field);
        break;
    case OPTION_LIST:
        return NULL;
    }
    *is_failed = text == NULL;
    return text;
}

static bool is_default(const struct option_row *row, const char *text) {
    const char *usual = row->default_value;
    if (usual == NULL && row->type != OPTION_TEXT) {
        usual = row->type == OPTION_FLAG ? "false" : "0";
    }
    return usual != NULL && strcmp(usual, text) == 0;
}

static enum status write_list(struct writer *writer, const struct option_row *row,
                              const struct option_list *list) {
    for (int i = 0; i < list->count; i++) {
        TRY(put(writer, arena_format(writer->arena, "--%s=%s", row->name, list->items[i])));
    }
    return STATUS_OK;
}

static enum status write_row(struct writer *writer, const struct option_row *row, const void *values) {
    const void *field = (const char *)values + row->offset;
    bool is_given =
        row->given_offset != SIZE_MAX && *(const bool *)((const char *)values + row->given_offset);
    bool is_failed = false;
    if (row->type == OPTION_LIST) {
        return write_list(writer, row, field);
    }
    const char *text = value_text(writer->arena, row, field, &is_failed);
    CHECK(!is_failed, STATUS_OUT_OF_MEMORY, "out of memory");
    if (text == NULL || (is_default(row, text) && !is_given)) {
        return STATUS_OK;
    }
    if (row->type == OPTION_FLAG) {
        const char *no = *(const bool *)field ? "" : "no-";
        return put(writer, arena_format(writer->arena, "--%s%s", no, row->name));
    }
    return put(writer, arena_format(writer->arena, "--%s=%s", row->name, text));
}

enum status options_write_arguments(const struct option_table *table, unsigned command, const void *values,
                                    struct arena *arena, const char **words, size_t capacity, size_t *count) {
    struct writer writer = {arena, words, capacity, count};
    const struct option_row *row;
    for (size_t i = 0; (row = option_table_row(table, i)) != NULL; i++) {
        if ((row->commands & command) != 0) {
            TRY(write_row(&writer, row, values));
        }
    }
    return STATUS_OK;
}
