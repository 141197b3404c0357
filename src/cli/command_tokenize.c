/* `sluice tokenize`: text to token ids, and with --decode token ids to the exact bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "cli/commands.h"
#include "lib/json.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

static const size_t INPUT_BYTES_MAX = (size_t)1 << 30;
static const char BLANKS[] = " \t\r\n,";

static enum status load_tokenizer(const struct cli_options *options, struct tokenizer **out) {
    CHECK(options->model != NULL || options->tokenizer != NULL, STATUS_USAGE,
          "give the model's folder with --model or a tokenizer.json with --tokenizer");
    struct string_buffer path = {0};
    enum status status;
    if (options->tokenizer != NULL) {
        string_buffer_append_text(&path, options->tokenizer);
    } else {
        string_buffer_append_format(&path, "%s/tokenizer.json", options->model);
    }
    TRY_GOTO(string_buffer_check(&path));
    TRY_GOTO(tokenizer_load(path.data, out));
fail:
    string_buffer_deinit(&path);
    return status;
}

/* The words of the command line with one blank between them, or all of standard input. */
static enum status read_input(int word_count, char **words, struct string_buffer *out) {
    for (int i = 0; i < word_count; i++) {
        string_buffer_append_text(out, i == 0 ? "" : " ");
        string_buffer_append_text(out, words[i]);
    }
    while (word_count == 0 && !feof(stdin) && !out->is_failed) {
        char bytes[1 << 16];
        size_t length = fread(bytes, 1, sizeof bytes, stdin);
        CHECK(!ferror(stdin), STATUS_IO, "standard input cannot be read: %s", strerror(errno));
        CHECK(length <= INPUT_BYTES_MAX - out->length, STATUS_OUT_OF_RANGE,
              "standard input has more than 1 GiB; split it into smaller parts");
        string_buffer_append(out, bytes, length);
    }
    TRY(string_buffer_check(out));
    return STATUS_OK;
}

static enum status read_json_ids(const struct json *document, struct token_list *ids) {
    const struct json *list =
        json_kind(document) == JSON_KIND_OBJECT ? json_get(document, "token_ids") : document;
    CHECK(list != NULL && json_kind(list) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "the JSON to decode has no array \"token_ids\"");
    for (size_t i = 0; i < json_length(list); i++) {
        const struct json *item = json_at(list, i);
        int64_t id = json_integer(item);
        CHECK(json_kind(item) == JSON_KIND_INTEGER && id >= 0 && id <= INT32_MAX, STATUS_BAD_FORMAT,
              "entry %zu of \"token_ids\" is not a token id", i);
        TRY(token_list_append(ids, (int32_t)id));
    }
    return STATUS_OK;
}

/* Numbers with blanks or commas between them, an array, or what --json prints. */
static enum status parse_ids(const struct string_buffer *input, struct token_list *ids) {
    const char *text = string_buffer_text(input);
    CHECK(strlen(text) == input->length, STATUS_BAD_FORMAT, "the ids to decode contain a zero byte");
    text += strspn(text, BLANKS);
    if (*text == '{' || *text == '[') {
        struct json *document = NULL;
        TRY(json_parse(text, strlen(text), "the JSON to decode", &document));
        enum status status = read_json_ids(document, ids);
        json_free(&document);
        return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
    }
    while (*text != '\0') {
        char *end = NULL;
        errno = 0;
        long long id = strtoll(text, &end, 10);
        size_t length = strcspn(text, BLANKS);
        CHECK(end == text + length && errno == 0 && id >= 0 && id <= INT32_MAX, STATUS_BAD_FORMAT,
              "\"%.*s\" is not a token id; give numbers with blanks or commas between them",
              length < 64 ? (int)length : 64, text);
        TRY(token_list_append(ids, (int32_t)id));
        text += length;
        text += strspn(text, BLANKS);
    }
    return STATUS_OK;
}

static enum status print_json(const char *key, struct json *value) {
    struct json *object = json_new_object();
    struct string_buffer line = {0};
    enum status status;
    if (object == NULL) {
        json_free(&value);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    CHECK_GOTO(json_set(object, key, value), STATUS_OUT_OF_MEMORY, "out of memory");
    TRY_GOTO(json_write_spaced(object, &line));
    puts(line.data);
fail:
    string_buffer_deinit(&line);
    json_free(&object);
    return status;
}

static enum status print_ids(const struct token_list *ids, bool is_json) {
    if (!is_json) {
        for (size_t i = 0; i < ids->count; i++) {
            printf("%s%d", i == 0 ? "" : " ", ids->ids[i]);
        }
        putchar('\n');
        return STATUS_OK;
    }
    struct json *list = json_new_array();
    for (size_t i = 0; i < ids->count && list != NULL; i++) {
        if (!json_append(list, json_new_integer(ids->ids[i]))) {
            json_free(&list);
        }
    }
    TRY(print_json("token_ids", list));
    return STATUS_OK;
}

static enum status print_text(const struct string_buffer *text, bool is_json) {
    if (!is_json) {
        fwrite(string_buffer_text(text), 1, text->length, stdout);
        return STATUS_OK;
    }
    /* JSON holds characters only: bytes that are none become U+FFFD. */
    struct string_buffer lossy = {0};
    utf8_append_lossy(&lossy, string_buffer_text(text), text->length);
    enum status status = string_buffer_check(&lossy);
    if (status == STATUS_OK) {
        status = print_json("text", json_new_string(string_buffer_text(&lossy), lossy.length));
    }
    string_buffer_deinit(&lossy);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status command_tokenize(const struct cli_options *options, int word_count, char **words) {
    struct tokenizer *tokenizer = NULL;
    struct string_buffer input = {0};
    struct string_buffer text = {0};
    struct token_list ids = {0};
    struct tokenizer_encode_options encode_options = {.match_added_tokens = options->match_added_tokens};
    enum status status;
    TRY_GOTO(load_tokenizer(options, &tokenizer));
    TRY_GOTO(read_input(word_count, words, &input));
    if (options->decode) {
        TRY_GOTO(parse_ids(&input, &ids));
        TRY_GOTO(tokenizer_decode(tokenizer, ids.ids, ids.count, false, &text));
        TRY_GOTO(print_text(&text, options->json));
    } else {
        TRY_GOTO(
            tokenizer_encode(tokenizer, string_buffer_text(&input), input.length, &encode_options, &ids));
        TRY_GOTO(print_ids(&ids, options->json));
    }
fail:
    token_list_deinit(&ids);
    string_buffer_deinit(&text);
    string_buffer_deinit(&input);
    tokenizer_destroy(&tokenizer);
    return status;
}
