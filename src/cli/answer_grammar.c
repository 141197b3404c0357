/* One request, one grammar: the cache has a single entry. */
#include "cli/answer_grammar.h"

#include <string.h>

#include "cli/cli_input.h"

static enum status check_options(const struct cli_options *options) {
    int count = (options->json_schema != NULL) + (options->regex != NULL) + (options->grammar != NULL) +
                (options->choice.count > 0) + (options->tool_choice != NULL);
    CHECK(count <= 1, STATUS_USAGE,
          "say in one way at most what the answer must be: --json-schema, --regex, --grammar, --choice or "
          "--tool-choice");
    CHECK(options->tool_choice == NULL || options->messages != NULL, STATUS_USAGE,
          "--tool-choice has a meaning with the tools of --messages only");
    return STATUS_OK;
}

/* The choices as a JSON array. */
static enum status write_choices(const struct option_list *choices, struct string_buffer *out) {
    struct json *array = json_new_array();
    CHECK_MEMORY(array);
    enum status status = STATUS_OK;
    for (int i = 0; i < choices->count; i++) {
        struct json *text = json_new_string(choices->items[i], strlen(choices->items[i]));
        CHECK_GOTO(text != NULL, STATUS_USAGE, "choice %d of --choice is not valid UTF-8", i + 1);
        CHECK_GOTO(json_append(array, text), STATUS_OUT_OF_MEMORY, "out of memory");
    }
    TRY_GOTO(json_write(array, out));
fail:
    json_free(&array);
    return status;
}

enum status answer_grammar_read(struct answer_grammar *grammar, const struct cli_options *options) {
    TRY(check_options(options));
    if (options->json_schema != NULL) {
        grammar->kind = GRAMMAR_JSON_SCHEMA;
        return cli_read_all(options->json_schema, &grammar->text);
    }
    if (options->grammar != NULL) {
        grammar->kind = GRAMMAR_EBNF;
        return cli_read_all(options->grammar, &grammar->text);
    }
    if (options->choice.count > 0) {
        grammar->kind = GRAMMAR_CHOICE;
        return write_choices(&options->choice, &grammar->text);
    }
    if (options->regex != NULL) {
        grammar->kind = GRAMMAR_REGEX;
        string_buffer_append_text(&grammar->text, options->regex);
    }
    return string_buffer_check(&grammar->text);
}

/* auto, required, none, or a function's name. */
static struct json *new_tool_choice(const char *choice) {
    bool is_word =
        strcmp(choice, "auto") == 0 || strcmp(choice, "required") == 0 || strcmp(choice, "none") == 0;
    struct json *name = json_new_string(choice, strlen(choice));
    if (is_word) {
        return name;
    }
    struct json *function = json_new_object();
    struct json *out = json_new_object();
    bool is_complete = json_set(function, "name", name);
    is_complete = json_set(out, "function", function) && is_complete;
    if (!is_complete) {
        json_free(&out);
    }
    return out;
}

enum status answer_grammar_read_tools(struct answer_grammar *grammar, const struct cli_options *options,
                                      const struct json *tools) {
    if (options->tool_choice == NULL) {
        return STATUS_OK;
    }
    CHECK(tools != NULL, STATUS_USAGE, "--tool-choice is given, but the file of --messages has no \"tools\"");
    struct json *choice = new_tool_choice(options->tool_choice);
    CHECK(choice != NULL, STATUS_USAGE, "--tool-choice is not valid UTF-8");
    enum status status = STATUS_OK;
    grammar->kind = GRAMMAR_TOOLS;
    string_buffer_append_text(&grammar->text, "{\"tools\": ");
    TRY_GOTO(json_write(tools, &grammar->text));
    string_buffer_append_text(&grammar->text, ", \"tool_choice\": ");
    TRY_GOTO(json_write(choice, &grammar->text));
    string_buffer_append_text(&grammar->text, "}");
    TRY_GOTO(string_buffer_check(&grammar->text));
fail:
    json_free(&choice);
    return status;
}

void answer_grammar_deinit(struct answer_grammar *grammar) {
    request_constraint_destroy(&grammar->constraint);
    grammar_cache_destroy(&grammar->cache);
    token_vocabulary_destroy(&grammar->vocabulary);
    string_buffer_deinit(&grammar->text);
}

enum status answer_grammar_apply(struct answer_grammar *grammar, const struct tokenizer *tokenizer,
                                 int64_t vocabulary_size, bool starts_in_reasoning,
                                 struct sluice_request_options *request) {
    if (grammar->kind == GRAMMAR_NONE) {
        return STATUS_OK;
    }
    CHECK(tokenizer != NULL, STATUS_USAGE, "a grammar needs the model's tokenizer.json, which is not there");
    TRY(token_vocabulary_create(tokenizer, (int32_t)vocabulary_size, &grammar->vocabulary));
    TRY(grammar_cache_create(grammar->vocabulary, SIZE_MAX, &grammar->cache));
    struct request_constraint_options options = {
        .grammar = {.kind = grammar->kind,
                    .text = string_buffer_text(&grammar->text),
                    .length = grammar->text.length},
        .starts_in_reasoning = starts_in_reasoning,
        .end_tokens = request->stop_tokens,
        .end_token_count = request->stop_token_count,
    };
    TRY(request_constraint_create(grammar->cache, &options, &grammar->constraint));
    request->constraint = request_constraint_interface(grammar->constraint);
    return STATUS_OK;
}
