/* Lines may be as long as memory allows. */
#include "tools/json_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static enum status append_line(const char *path, const char *line, size_t length, size_t number,
                               struct json *array) {
    struct json *value = NULL;
    char name[64];
    snprintf(name, sizeof name, "line %zu", number);
    if (json_parse(line, length, name, &value) != STATUS_OK) {
        char message[512];
        snprintf(message, sizeof message, "%.400s", error_last()->message);
        FAIL(STATUS_BAD_FORMAT, "%s: %s", path, message);
    }
    bool is_object = json_kind(value) == JSON_KIND_OBJECT;
    bool is_appended = json_append(array, value);
    CHECK(is_appended, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK(is_object, STATUS_BAD_FORMAT, "%s: line %zu is no JSON object", path, number);
    return STATUS_OK;
}

enum status json_lines_read(const char *path, size_t limit, struct json **out) {
    enum status status = STATUS_OK;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    struct json *array = json_new_array();
    FILE *file = fopen(path, "re");
    CHECK_GOTO(file != NULL, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    CHECK_MEMORY_GOTO(array);
    for (size_t number = 1; json_length(array) < limit && (length = getline(&line, &capacity, file)) > 0;
         number++) {
        if (strspn(line, " \t\r\n") < (size_t)length) {
            TRY_GOTO(append_line(path, line, (size_t)length, number, array));
        }
    }
    CHECK_GOTO(!ferror(file), STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    CHECK_GOTO(json_length(array) > 0 || limit == 0, STATUS_BAD_FORMAT, "%s has no lines", path);
    *out = array;
    array = NULL;
fail:
    json_free(&array);
    free(line);
    if (file != NULL) {
        fclose(file);
    }
    return status;
}
