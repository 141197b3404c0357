/* The engine is opened for the longest of what is asked first; longer ones later open it anew. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "sluice/request.h"
#include "text/output_parser.h"
#include "tools/eval_source.h"

static const double WAIT_SECONDS = 0.05;

struct model {
    struct eval_engine_options options;
    struct sluice_engine *engine;
    int64_t context_tokens; /* of the open engine */
    int sequence_limit;
};

/* A question that the engine works on or will. */
struct asked {
    struct token_list prompt;
    bool starts_in_reasoning;
    struct sluice_request *request; /* NULL: not yet, or done */
    struct output_parser parser;
    bool has_parser;
    size_t read_count; /* tokens that the parser has */
    struct string_buffer content;
    bool is_done;
};

struct round {
    struct model *model;
    const struct eval_questions *questions;
    struct asked *all;
    size_t count, started_count, first_open;
    size_t active_count;
};

/* Opens the engine unless the open one has room. */
static enum status need_engine(struct model *model, int64_t context_tokens, int64_t concurrency) {
    if (model->engine != NULL && model->context_tokens >= context_tokens &&
        model->sequence_limit >= concurrency) {
        return STATUS_OK;
    }
    struct sluice_engine_options engine = model->options.engine;
    sluice_engine_close(&model->engine);
    engine.context_tokens = engine.context_tokens != 0 ? engine.context_tokens : context_tokens;
    engine.sequence_limit = (int)concurrency;
    TRY((enum status)sluice_engine_open(&engine, &model->engine));
    model->context_tokens = context_tokens;
    model->sequence_limit = (int)concurrency;
    return STATUS_OK;
}

static enum status encode(const struct model *model, const struct eval_questions *questions,
                          const struct json *messages, struct asked *asked) {
    enum status status = STATUS_OK;
    struct chat_encode_options chat = model->options.chat;
    struct chat_conversation conversation;
    struct chat_prompt prompt = {0};
    struct arena arena;
    chat.is_thinking = questions->is_thinking_given ? questions->is_thinking : chat.is_thinking;
    arena_init(&arena, 1 << 14);
    TRY_GOTO(chat_conversation_parse(messages, NULL, &arena, &conversation));
    TRY_GOTO(chat_encode_v4(&conversation, &chat, &prompt));
    asked->starts_in_reasoning = chat_prompt_is_reasoning_open(&prompt);
    TRY_GOTO(
        chat_prompt_encode(&prompt, model->options.tokenizer, CHAT_MATCHING_TEMPLATE_ONLY, &asked->prompt));
fail:
    chat_prompt_deinit(&prompt);
    arena_deinit(&arena);
    return status;
}

static enum status take_event(void *context, const struct output_event *event) {
    struct string_buffer *content = context;
    if (event->kind == OUTPUT_EVENT_CONTENT) {
        string_buffer_append(content, event->text, event->length);
    }
    return string_buffer_check(content);
}

static void start_parser(const struct model *model, struct asked *asked) {
    struct output_parser_options options = output_parser_options_default();
    options.starts_in_reasoning = asked->starts_in_reasoning;
    options.are_tools_enabled = false;
    output_parser_options_set_ids(&options, model->options.tokenizer);
    output_parser_init(&asked->parser, &options);
    asked->has_parser = true;
}

/* Reads the tokens that are new; stops where the text says that the answer is over. */
static enum status read_tokens(const struct model *model, struct asked *asked, size_t token_count) {
    struct output_sink sink = {.emit = take_event, .context = &asked->content};
    while (asked->read_count < token_count && !output_parser_is_stopped(&asked->parser)) {
        int32_t token = sluice_request_token(asked->request, asked->read_count++);
        size_t length;
        const char *bytes = tokenizer_token_bytes(model->options.tokenizer, token, &length);
        CHECK(bytes != NULL, STATUS_BAD_CHECKPOINT,
              "the model gave token %d, which its tokenizer does not know", token);
        TRY(output_parser_push_token(&asked->parser, token, bytes, length, &sink));
    }
    return STATUS_OK;
}

static void free_asked(struct asked *asked) {
    if (asked->has_parser) {
        output_parser_deinit(&asked->parser);
        asked->has_parser = false;
    }
    string_buffer_deinit(&asked->content);
    token_list_deinit(&asked->prompt);
    sluice_request_release(&asked->request);
}

static enum status finish(struct round *round, size_t index, const struct sluice_request_state *state) {
    struct asked *asked = &round->all[index];
    struct output_sink sink = {.emit = take_event, .context = &asked->content};
    struct output_result result;
    bool is_stopped = output_parser_is_stopped(&asked->parser);
    TRY(output_parser_finish(&asked->parser, &sink, &result));
    struct eval_answer answer = {
        .error = state->finish_reason == SLUICE_FINISH_ERROR ? state->message : NULL,
        .text = string_buffer_text(&asked->content),
        .length = asked->content.length,
        .is_cut = state->finish_reason == SLUICE_FINISH_LENGTH && !is_stopped,
        .prompt_tokens = (int64_t)asked->prompt.count,
        .output_tokens = (int64_t)asked->read_count,
    };
    round->questions->on_answer(round->questions->context, index, &answer);
    free_asked(asked);
    asked->is_done = true;
    round->active_count--;
    return STATUS_OK;
}

static enum status submit(struct round *round, size_t index) {
    const struct eval_engine_options *engine = &round->model->options;
    struct asked *asked = &round->all[index];
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = asked->prompt.ids;
    options.prompt_count = asked->prompt.count;
    options.sampling.temperature = round->questions->temperature;
    options.sampling.seed = round->questions->seed;
    options.token_limit = round->questions->max_tokens;
    options.stop_tokens = engine->end_tokens;
    options.stop_token_count = engine->end_token_count;
    start_parser(round->model, asked);
    TRY((enum status)sluice_engine_submit(round->model->engine, &options, &asked->request));
    round->started_count++;
    round->active_count++;
    return STATUS_OK;
}

/* Waits a moment for the oldest and takes all that are finished. */
static enum status collect(struct round *round) {
    while (round->all[round->first_open].is_done) {
        round->first_open++;
    }
    sluice_request_wait(round->all[round->first_open].request, SIZE_MAX, SIZE_MAX, WAIT_SECONDS);
    for (size_t i = round->first_open; i < round->started_count; i++) {
        if (round->all[i].request == NULL) {
            continue;
        }
        struct sluice_request_state state = sluice_request_state(round->all[i].request);
        TRY(read_tokens(round->model, &round->all[i], state.token_count));
        if (state.phase == SLUICE_REQUEST_FINISHED || output_parser_is_stopped(&round->all[i].parser)) {
            TRY(finish(round, i, &state));
        }
    }
    return STATUS_OK;
}

static enum status run_round(struct round *round) {
    const struct eval_questions *questions = round->questions;
    size_t longest = 0;
    for (size_t i = 0; i < round->count; i++) {
        struct asked *asked = &round->all[i];
        TRY(encode(round->model, questions, json_at(questions->conversations, i), asked));
        longest = asked->prompt.count > longest ? asked->prompt.count : longest;
    }
    TRY(need_engine(round->model, (int64_t)longest + questions->max_tokens, questions->concurrency));
    while (round->started_count < round->count || round->active_count > 0) {
        while (round->started_count < round->count && round->active_count < (size_t)questions->concurrency) {
            TRY(submit(round, round->started_count));
        }
        TRY(collect(round));
    }
    return STATUS_OK;
}

static enum status answer_questions(void *self, const struct eval_questions *questions) {
    struct round round = {
        .model = self, .questions = questions, .count = json_length(questions->conversations)};
    round.all = calloc(round.count, sizeof *round.all);
    CHECK_MEMORY(round.all);
    enum status status = run_round(&round);
    for (size_t i = 0; i < round.count; i++) {
        free_asked(&round.all[i]);
    }
    free(round.all);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status tokenize(void *self, const char *text, size_t length, struct token_list *out) {
    struct model *model = self;
    struct tokenizer_encode_options options = {.match_added_tokens = true};
    return tokenizer_encode(model->options.tokenizer, text, length, &options, out);
}

static enum status score(void *self, const int32_t *tokens, size_t count, double *out) {
    struct model *model = self;
    struct sluice_request *request = NULL;
    struct sluice_request_options options = sluice_request_options_default();
    enum status status = STATUS_OK;
    options.prompt = tokens;
    options.prompt_count = count;
    options.token_limit = 1;
    options.sampling.temperature = 0.0;
    options.prompt_log_probability_count = 0;
    TRY(need_engine(model, (int64_t)count + 1, 1));
    TRY((enum status)sluice_engine_submit(model->engine, &options, &request));
    struct sluice_request_state state = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, -1.0);
    CHECK_GOTO(state.finish_reason != SLUICE_FINISH_ERROR, (enum status)state.status, "%s", state.message);
    out[0] = 0.0;
    for (size_t i = 1; i < count; i++) {
        struct sluice_log_probability chosen;
        TRY_GOTO((enum status)sluice_request_prompt_log_probabilities(request, i, &chosen, NULL));
        out[i] = chosen.log_probability;
    }
fail:
    sluice_request_release(&request);
    return status;
}

static void close_model(void *self) {
    struct model *model = self;
    sluice_engine_close(&model->engine);
    free(model);
}

enum status eval_source_open_engine(const struct eval_engine_options *options, struct eval_source *out) {
    struct model *model = calloc(1, sizeof *model);
    CHECK_MEMORY(model);
    model->options = *options;
    *out = (struct eval_source){.self = model,
                                .name = options->engine.model_directory,
                                .model = "",
                                .answer = answer_questions,
                                .tokenize = tokenize,
                                .score = score,
                                .close = close_model};
    return STATUS_OK;
}
