/* `sluice eval TASK`: how well a model answers, on a server or in this process. */
#include <stdio.h>
#include <string.h>

#include "cli/bench_command.h"
#include "cli/cli_input.h"
#include "cli/cli_server.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/request_options.h"
#include "text/tokenizer.h"
#include "tools/eval_gsm8k.h"
#include "tools/eval_perplexity.h"

enum { CONCURRENCY_DEFAULT = 8, CONCURRENCY_MAX = 4096, ANSWER_TOKENS_DEFAULT = 512 };

/* The source and what it borrows. */
struct evaluation {
    const struct cli_options *options;
    struct eval_source source;
    struct string_buffer key;
    struct tokenizer *tokenizer;
    struct generation_config recommended;
    struct cli_engine_options engine;
};

static enum status open_server(struct evaluation *evaluation) {
    struct api_client_options server;
    TRY(cli_server_read(evaluation->options, &evaluation->key, &server));
    return eval_source_open_server(&server, &evaluation->source);
}

static enum status open_engine(struct evaluation *evaluation) {
    const struct cli_options *options = evaluation->options;
    TRY(generation_config_load(options->model, NULL, &evaluation->recommended));
    TRY(tokenizer_load_of_model(options->model, NULL, &evaluation->tokenizer));
    TRY(cli_engine_options_read(options, 0, &evaluation->engine));
    struct eval_engine_options engine = {
        .engine = evaluation->engine.engine,
        .tokenizer = evaluation->tokenizer,
        .chat = cli_chat_options(options),
        .end_tokens = evaluation->recommended.end_tokens,
        .end_token_count = (size_t)evaluation->recommended.end_token_count,
    };
    return eval_source_open_engine(&engine, &evaluation->source);
}

static enum status read_concurrency(const struct cli_options *options, int64_t *out) {
    struct bench_numbers numbers = {0};
    TRY(bench_command_parse_numbers(options->concurrency, "--concurrency", &numbers));
    *out = numbers.count == 0 ? CONCURRENCY_DEFAULT : numbers.values[0];
    CHECK(numbers.count <= 1 && *out <= CONCURRENCY_MAX, STATUS_USAGE,
          "--concurrency of eval takes one number up to %d, not \"%s\"", CONCURRENCY_MAX,
          options->concurrency);
    return STATUS_OK;
}

static enum status run_gsm8k(const struct evaluation *evaluation) {
    const struct cli_options *options = evaluation->options;
    enum status status = STATUS_OK;
    struct eval_gsm8k_result result = {0};
    struct string_buffer text = {0};
    struct eval_gsm8k_options what = {
        .data = options->data,
        .limit = options->limit,
        .shot_count = options->num_fewshot,
        .max_tokens = options->max_tokens_given ? options->max_tokens : ANSWER_TOKENS_DEFAULT,
        .temperature = options->temperature_given ? options->temperature : 0.0,
        .seed = (uint64_t)options->seed,
        .is_thinking = options->thinking,
        .is_thinking_given = options->thinking_given,
    };
    TRY(read_concurrency(options, &what.concurrency));
    TRY_GOTO(eval_gsm8k_run(&evaluation->source, &what, &result));
    TRY_GOTO(options->json ? eval_gsm8k_json(&evaluation->source, &what, &result, &text)
                           : eval_gsm8k_text(&evaluation->source, &what, &result, &text));
    TRY_GOTO(bench_command_print(&text));
    CHECK_GOTO(result.answered_count == result.question_count, STATUS_IO,
               "%lld of %lld questions got no answer, the first because of: %s",
               (long long)(result.question_count - result.answered_count), (long long)result.question_count,
               string_buffer_text(&result.first_error));
fail:
    eval_gsm8k_deinit(&result);
    string_buffer_deinit(&text);
    return status;
}

static enum status run_perplexity(const struct evaluation *evaluation) {
    const struct cli_options *options = evaluation->options;
    enum status status = STATUS_OK;
    struct string_buffer data = {0};
    struct string_buffer text = {0};
    struct eval_perplexity_result result;
    TRY_GOTO(cli_read_all(options->data, &data));
    struct eval_perplexity_options what = {
        .text = string_buffer_text(&data),
        .length = data.length,
        .token_limit = options->limit,
        .window = options->window,
        .stride = options->stride,
    };
    TRY_GOTO(eval_perplexity(&evaluation->source, &what, &result));
    TRY_GOTO(options->json ? eval_perplexity_json(&evaluation->source, options->data, &what, &result, &text)
                           : eval_perplexity_text(&evaluation->source, options->data, &what, &result, &text));
    TRY_GOTO(bench_command_print(&text));
fail:
    string_buffer_deinit(&data);
    string_buffer_deinit(&text);
    return status;
}

static enum status check_options(const struct cli_options *options, int word_count, char **words,
                                 bool *is_gsm8k) {
    CHECK(word_count == 1, STATUS_USAGE, "name one task: gsm8k or perplexity");
    *is_gsm8k = strcmp(words[0], "gsm8k") == 0;
    CHECK(*is_gsm8k || strcmp(words[0], "perplexity") == 0, STATUS_USAGE,
          "\"%s\" is no task; there are gsm8k and perplexity", words[0]);
    CHECK(options->data != NULL, STATUS_USAGE, "--data is missing: the file to evaluate on");
    CHECK(options->base_url != NULL || options->model != NULL, STATUS_USAGE,
          "give the model's folder with --model, or a server with --base-url");
    CHECK(options->max_tokens > 0, STATUS_USAGE, "--max-tokens must be above 0, for answers have some");
    return STATUS_OK;
}

enum status command_eval(const struct cli_options *options, int word_count, char **words) {
    enum status status = STATUS_OK;
    bool is_gsm8k;
    struct evaluation evaluation = {.options = options};
    TRY(check_options(options, word_count, words, &is_gsm8k));
    TRY_GOTO(options->base_url != NULL ? open_server(&evaluation) : open_engine(&evaluation));
    TRY_GOTO(is_gsm8k ? run_gsm8k(&evaluation) : run_perplexity(&evaluation));
fail:
    eval_source_close(&evaluation.source);
    tokenizer_destroy(&evaluation.tokenizer);
    string_buffer_deinit(&evaluation.key);
    return status;
}
