/* Options to a request. */
#include "cli/generate_request.h"

#include <string.h>

#include "base/arena.h"
#include "cli/cli_input.h"
#include "lib/json.h"
#include "text/tokenizer.h"

static enum status check_options(const struct cli_options *options) {
    int sources = (options->prompt != NULL) + (options->prompt_file != NULL) + (options->token_ids != NULL) +
                  (options->token_ids_file != NULL) + (options->messages != NULL);
    bool is_chat = options->chat || options->messages != NULL;
    bool has_ids = options->token_ids != NULL || options->token_ids_file != NULL;
    CHECK(options->model != NULL, STATUS_USAGE, "give the model's folder with --model");
    CHECK(sources == 1, STATUS_USAGE,
          "give the prompt in exactly one way: --prompt, --prompt-file, --messages, --token-ids "
          "or --token-ids-file");
    CHECK(!options->chat || !has_ids, STATUS_USAGE, "--chat takes a message, not token ids");
    CHECK((options->chat && options->messages == NULL) || options->system == NULL, STATUS_USAGE,
          "--system has a meaning with --chat only");
    CHECK(is_chat || (!options->thinking_given && !options->reasoning_effort_given), STATUS_USAGE,
          "--thinking and --reasoning-effort have a meaning with --chat only");
    CHECK(!options->mtp_logits || options->prompt_logits != NULL, STATUS_USAGE,
          "--mtp-logits adds to the file of --prompt-logits, which is not given");
    CHECK(!options->logprobs_given || options->json, STATUS_USAGE, "--logprobs shows up with --json only");
    return STATUS_OK;
}

static enum status encode_conversation(struct generate_request *request,
                                       const struct chat_conversation *conversation) {
    enum status status = STATUS_OK;
    struct chat_prompt prompt = {0};
    struct chat_encode_options chat = cli_chat_options(request->options);
    enum chat_matching matching =
        request->options->match_added_tokens ? CHAT_MATCHING_OFFICIAL : CHAT_MATCHING_TEMPLATE_ONLY;
    TRY_GOTO(chat_encode_v4(conversation, &chat, &prompt));
    request->starts_in_reasoning = chat_prompt_is_reasoning_open(&prompt);
    TRY_GOTO(chat_prompt_encode(&prompt, request->tokenizer, matching, &request->prompt));
fail:
    chat_prompt_deinit(&prompt);
    return status;
}

/* The system text, if there is one, and the user's message. */
static enum status encode_message(struct generate_request *request, const struct string_buffer *text) {
    const char *system = request->options->system;
    struct chat_message messages[2];
    struct chat_conversation conversation = {.messages = messages};
    if (system != NULL) {
        messages[conversation.message_count++] =
            chat_message_of_text(CHAT_ROLE_SYSTEM, system, strlen(system));
    }
    messages[conversation.message_count++] =
        chat_message_of_text(CHAT_ROLE_USER, string_buffer_text(text), text->length);
    return encode_conversation(request, &conversation);
}

/* A whole conversation: an array of messages, or an object with "messages" and perhaps "tools". */
static enum status encode_messages(struct generate_request *request, const struct string_buffer *text) {
    enum status status = STATUS_OK;
    struct json *document = NULL;
    struct chat_conversation conversation;
    struct arena request_arena;
    arena_init(&request_arena, 1 << 16);
    TRY_GOTO(json_parse(string_buffer_text(text), text->length, "the file of --messages", &document));
    bool is_object = json_kind(document) == JSON_KIND_OBJECT;
    const struct json *messages = is_object ? json_get(document, "messages") : document;
    const struct json *tools = is_object ? json_get(document, "tools") : NULL;
    CHECK_GOTO(messages != NULL, STATUS_BAD_FORMAT, "the file of --messages has no \"messages\"");
    TRY_GOTO(chat_conversation_parse(messages, tools, &request_arena, &conversation));
    TRY_GOTO(encode_conversation(request, &conversation));
    TRY_GOTO(answer_grammar_read_tools(&request->grammar, request->options, tools));
fail:
    json_free(&document);
    arena_deinit(&request_arena);
    return status;
}

/* A raw prompt carries its own control tokens, so their spellings are matched (design: raw prompts). */
static enum status encode_text(struct generate_request *request, const struct string_buffer *text) {
    if (request->options->messages != NULL) {
        return encode_messages(request, text);
    }
    if (request->is_chat) {
        return encode_message(request, text);
    }
    struct tokenizer_encode_options options = {.match_added_tokens = true};
    return tokenizer_encode(request->tokenizer, string_buffer_text(text), text->length, &options,
                            &request->prompt);
}

static enum status read_prompt(struct generate_request *request) {
    enum status status = STATUS_OK;
    const struct cli_options *options = request->options;
    const char *inline_text = options->prompt != NULL ? options->prompt : options->token_ids;
    const char *file = options->prompt_file != NULL ? options->prompt_file : options->token_ids_file;
    file = options->messages != NULL ? options->messages : file;
    struct string_buffer text = {0};
    if (inline_text != NULL) {
        string_buffer_append_text(&text, inline_text);
        TRY_GOTO(string_buffer_check(&text));
    } else {
        TRY_GOTO(cli_read_all(file, &text));
    }
    if (options->token_ids != NULL || options->token_ids_file != NULL) {
        TRY_GOTO(cli_parse_token_ids(string_buffer_text(&text), text.length, &request->prompt));
    } else {
        TRY_GOTO(encode_text(request, &text));
    }
    CHECK_GOTO(request->prompt.count > 0, STATUS_USAGE, "the prompt is empty");
fail:
    string_buffer_deinit(&text);
    return status;
}

/* A model without tokenizer.json can run on token ids. */
static enum status load_tokenizer(struct generate_request *request) {
    const struct cli_options *options = request->options;
    enum status status = tokenizer_load_of_model(options->model, NULL, &request->tokenizer);
    bool has_ids = options->token_ids != NULL || options->token_ids_file != NULL;
    if (status == STATUS_NOT_FOUND && has_ids) {
        return STATUS_OK;
    }
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status generate_request_init(struct generate_request *request, const struct cli_options *options) {
    *request = (struct generate_request){.options = options};
    request->is_chat = options->chat || options->messages != NULL;
    TRY(check_options(options));
    TRY(generation_config_load(options->model, NULL, &request->recommended));
    TRY(cli_sampling_init(&request->sampling, options, &request->recommended));
    TRY(answer_grammar_read(&request->grammar, options));
    TRY(load_tokenizer(request));
    return read_prompt(request);
}

void generate_request_deinit(struct generate_request *request) {
    answer_grammar_deinit(&request->grammar);
    tokenizer_destroy(&request->tokenizer);
    token_list_deinit(&request->prompt);
    cli_sampling_deinit(&request->sampling);
    *request = (struct generate_request){0};
}

void generate_request_settle_engine(const struct generate_request *request,
                                    struct sluice_engine_options *engine) {
    engine->has_prefix_cache = engine->prefix_cache_directory != NULL;
    if (engine->context_tokens == 0) {
        engine->context_tokens = (int64_t)request->prompt.count + request->options->max_tokens;
    }
}

struct sluice_request_options generate_request_options(const struct generate_request *request) {
    const struct cli_options *options = request->options;
    struct sluice_request_options out = sluice_request_options_default();
    out.prompt = request->prompt.ids;
    out.prompt_count = request->prompt.count;
    out.sampling = request->sampling.sampling;
    out.token_limit = options->max_tokens;
    out.log_probability_count = options->logprobs_given ? (int)options->logprobs : -1;
    if (!options->ignore_eos) {
        out.stop_tokens = request->recommended.end_tokens;
        out.stop_token_count = (size_t)request->recommended.end_token_count;
    }
    return out;
}
