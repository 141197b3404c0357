/* Reading and parsing; nothing is kept. */
#include "cli/cli_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"

static const size_t INPUT_BYTES_MAX = (size_t)1 << 30;
static const char BLANKS[] = " \t\r\n,";

static enum status read_stream(FILE *file, const char *name, struct string_buffer *out) {
    while (!feof(file) && !out->is_failed) {
        char bytes[1 << 16];
        size_t length = fread(bytes, 1, sizeof bytes, file);
        CHECK(!ferror(file), STATUS_IO, "%s cannot be read: %s", name, strerror(errno));
        CHECK(length <= INPUT_BYTES_MAX - out->length, STATUS_OUT_OF_RANGE,
              "%s has more than 1 GiB; split it into smaller parts", name);
        string_buffer_append(out, bytes, length);
    }
    return string_buffer_check(out);
}

enum status cli_read_all(const char *path, struct string_buffer *out) {
    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, "standard input", out);
    }
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s cannot be opened: %s", path,
          strerror(errno));
    enum status status = read_stream(file, path, out);
    fclose(file);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status read_json_ids(const struct json *document, struct token_list *ids) {
    const struct json *list =
        json_kind(document) == JSON_KIND_OBJECT ? json_get(document, "token_ids") : document;
    CHECK(list != NULL && json_kind(list) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "the JSON with token ids has no array \"token_ids\"");
    for (size_t i = 0; i < json_length(list); i++) {
        const struct json *item = json_at(list, i);
        int64_t id = json_int64(item);
        CHECK(json_kind(item) == JSON_KIND_INTEGER && id >= 0 && id <= INT32_MAX, STATUS_BAD_FORMAT,
              "entry %zu of \"token_ids\" is not a token id", i);
        TRY(token_list_append(ids, (int32_t)id));
    }
    return STATUS_OK;
}

static enum status parse_json_ids(const char *text, size_t length, struct token_list *out) {
    struct json *document = NULL;
    TRY(json_parse(text, length, "the JSON with token ids", &document));
    enum status status = read_json_ids(document, out);
    json_free(&document);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status cli_parse_token_ids(const char *text, size_t length, struct token_list *out) {
    CHECK(strlen(text) == length, STATUS_BAD_FORMAT, "the token ids contain a zero byte");
    text += strspn(text, BLANKS);
    if (*text == '{' || *text == '[') {
        return parse_json_ids(text, strlen(text), out);
    }
    while (*text != '\0') {
        char *end = NULL;
        errno = 0;
        long long id = strtoll(text, &end, 10);
        size_t word = strcspn(text, BLANKS);
        CHECK(end == text + word && errno == 0 && id >= 0 && id <= INT32_MAX, STATUS_BAD_FORMAT,
              "\"%.*s\" is not a token id; give numbers with blanks or commas between them",
              word < 64 ? (int)word : 64, text);
        TRY(token_list_append(out, (int32_t)id));
        text += word;
        text += strspn(text, BLANKS);
    }
    return STATUS_OK;
}
