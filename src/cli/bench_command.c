/* Lists of numbers are sorted, so that reports are. */
#include "cli/bench_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 1 << 24 };

/* Inserts a number in ascending order, once. */
static enum status insert_number(struct bench_numbers *numbers, int64_t value, const char *option) {
    int at = numbers->count;
    while (at > 0 && numbers->values[at - 1] >= value) {
        at--;
    }
    if (at < numbers->count && numbers->values[at] == value) {
        return STATUS_OK;
    }
    CHECK(numbers->count < BENCH_NUMBERS_MAX, STATUS_USAGE, "%s has more than %d numbers", option,
          BENCH_NUMBERS_MAX);
    memmove(&numbers->values[at + 1], &numbers->values[at],
            (size_t)(numbers->count - at) * sizeof numbers->values[0]);
    numbers->values[at] = value;
    numbers->count++;
    return STATUS_OK;
}

/* Adds numbers from text like "128,512"; NULL adds none. */
enum status bench_command_parse_numbers(const char *text, const char *option, struct bench_numbers *out) {
    for (const char *at = text; at != NULL;) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        CHECK(end != at && errno == 0 && (*end == ',' || *end == '\0') && value >= 1 && value <= NUMBER_MAX,
              STATUS_USAGE, "%s takes numbers from 1 to %d, separated by commas, not \"%s\"", option,
              NUMBER_MAX, text);
        TRY(insert_number(out, value, option));
        at = *end == ',' ? end + 1 : NULL;
    }
    return STATUS_OK;
}

enum status bench_command_write_file(const char *path, const struct string_buffer *text) {
    FILE *file = fopen(path, "we");
    CHECK(file != NULL, STATUS_IO, "cannot create %s: %s", path, strerror(errno));
    bool is_written = fwrite(text->data, 1, text->length, file) == text->length;
    is_written = fclose(file) == 0 && is_written;
    CHECK(is_written, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    return STATUS_OK;
}

enum status bench_command_print(const struct string_buffer *text) {
    CHECK(fwrite(text->data, 1, text->length, stdout) == text->length, STATUS_IO,
          "the report could not be written");
    return STATUS_OK;
}
