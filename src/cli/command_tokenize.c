/* `sluice tokenize`: text to token ids, and with --decode token ids to the exact bytes. */
#include <stdio.h>

#include "base/string_buffer.h"
#include "cli/cli_input.h"
#include "cli/commands.h"
#include "lib/json.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

/* The words of the command line with one blank between them, or all of standard input. */
static enum status read_input(int word_count, char **words, struct string_buffer *out) {
    if (word_count == 0) {
        TRY(cli_read_all("-", out));
        return STATUS_OK;
    }
    for (int i = 0; i < word_count; i++) {
        string_buffer_append_text(out, i == 0 ? "" : " ");
        string_buffer_append_text(out, words[i]);
    }
    TRY(string_buffer_check(out));
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
    CHECK(options->model != NULL || options->tokenizer != NULL, STATUS_USAGE,
          "give the model's folder with --model or a tokenizer.json with --tokenizer");
    struct tokenizer *tokenizer = NULL;
    struct string_buffer input = {0};
    struct string_buffer text = {0};
    struct token_list ids = {0};
    struct tokenizer_encode_options encode_options = {.match_added_tokens = options->match_added_tokens};
    enum status status;
    TRY_GOTO(tokenizer_load_of_model(options->model, options->tokenizer, &tokenizer));
    TRY_GOTO(read_input(word_count, words, &input));
    if (options->decode) {
        TRY_GOTO(cli_parse_token_ids(string_buffer_text(&input), input.length, &ids));
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
