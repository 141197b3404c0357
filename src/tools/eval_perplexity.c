/* The text's own tokens are [1, count) of the list, the begin mark is the first. */
#include "tools/eval_perplexity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "text/control_token.h"
#include "tools/bench_report_parts.h"

static int64_t stride_of(const struct eval_perplexity_options *options) {
    int64_t half = options->window / 2;
    return options->stride > 0 ? options->stride : half > 0 ? half : 1;
}

static enum status read_tokens(const struct eval_source *source,
                               const struct eval_perplexity_options *options, struct token_list *tokens,
                               struct eval_perplexity_result *out) {
    struct string_buffer text = {0};
    string_buffer_append_text(&text, control_token_text(CONTROL_TOKEN_BOS));
    string_buffer_append(&text, options->text, options->length);
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        status = source->tokenize(source->self, string_buffer_text(&text), text.length, tokens);
    }
    string_buffer_deinit(&text);
    TRY(status);
    CHECK(tokens->count >= 2, STATUS_BAD_FORMAT, "the text has no tokens");
    out->byte_count = options->length;
    if (options->token_limit > 0 && (size_t)options->token_limit < tokens->count - 1) {
        tokens->count = (size_t)options->token_limit + 1;
        out->byte_count = 0;
    }
    return STATUS_OK;
}

/* Adds the tokens [counted, end) of a window that begins at token `begin`; scratch has room for a window. */
static enum status add_window(const struct eval_source *source, const struct token_list *tokens, size_t begin,
                              size_t counted, size_t end, int32_t *window, double *scores, double *sum) {
    size_t count = 1 + end - begin;
    window[0] = tokens->ids[0];
    memcpy(window + 1, tokens->ids + begin, (end - begin) * sizeof *window);
    TRY(source->score(source->self, window, count, scores));
    for (size_t i = counted; i < end; i++) {
        *sum += scores[1 + i - begin];
    }
    return STATUS_OK;
}

static enum status add_windows(const struct eval_source *source,
                               const struct eval_perplexity_options *options, const struct token_list *tokens,
                               struct eval_perplexity_result *out) {
    enum status status = STATUS_OK;
    size_t room = (size_t)options->window - 1;
    size_t stride = (size_t)stride_of(options);
    struct progress progress;
    int32_t *window = malloc((size_t)options->window * sizeof *window);
    double *scores = malloc((size_t)options->window * sizeof *scores);
    progress_start(&progress, "reading", "tokens", tokens->count - 1);
    CHECK_GOTO(window != NULL && scores != NULL, STATUS_OUT_OF_MEMORY, "out of memory");
    size_t counted = 1;
    for (size_t begin = 1; counted < tokens->count; begin += stride) {
        size_t end = tokens->count - begin < room ? tokens->count : begin + room;
        TRY_GOTO(add_window(source, tokens, begin, counted, end, window, scores, &out->log_probability_sum));
        counted = end;
        out->window_count++;
        progress_update(&progress, counted - 1);
    }
fail:
    progress_finish(&progress);
    free(window);
    free(scores);
    return status;
}

enum status eval_perplexity(const struct eval_source *source, const struct eval_perplexity_options *options,
                            struct eval_perplexity_result *out) {
    struct token_list tokens = {0};
    *out = (struct eval_perplexity_result){0};
    CHECK(options->window >= 2 && stride_of(options) < options->window, STATUS_USAGE,
          "--stride %lld must be below --window %lld, for a window begins with a mark",
          (long long)options->stride, (long long)options->window);
    enum status status = read_tokens(source, options, &tokens, out);
    if (status == STATUS_OK) {
        status = add_windows(source, options, &tokens, out);
    }
    out->token_count = (int64_t)tokens.count - 1;
    token_list_deinit(&tokens);
    TRY(status);
    out->perplexity = exp(-out->log_probability_sum / (double)out->token_count);
    out->bits_per_byte =
        out->byte_count == 0 ? 0.0 : -out->log_probability_sum / log(2.0) / (double)out->byte_count;
    return STATUS_OK;
}

enum status eval_perplexity_text(const struct eval_source *source, const char *data,
                                 const struct eval_perplexity_options *options,
                                 const struct eval_perplexity_result *result, struct string_buffer *out) {
    string_buffer_append_format(
        out, "model       %s%s%s\ntext        %s, %lld tokens in %lld windows of %lld, stride %lld\n",
        source->name, source->model[0] == '\0' ? "" : ", ", source->model, data,
        (long long)result->token_count, (long long)result->window_count, (long long)options->window,
        (long long)stride_of(options));
    string_buffer_append_format(out, "perplexity  %.4f (%.5f nats per token", result->perplexity,
                                -result->log_probability_sum / (double)result->token_count);
    if (result->byte_count > 0) {
        string_buffer_append_format(out, ", %.5f bits per byte", result->bits_per_byte);
    }
    string_buffer_append_text(out, ")\n");
    return string_buffer_check(out);
}

enum status eval_perplexity_json(const struct eval_source *source, const char *data,
                                 const struct eval_perplexity_options *options,
                                 const struct eval_perplexity_result *result, struct string_buffer *out) {
    struct json *object = json_new_object();
    bool is_complete =
        object != NULL && bench_set_text(object, "task", "perplexity") &&
        bench_set_text(object, "source", source->name) && bench_set_text(object, "model", source->model) &&
        bench_set_text(object, "data", data) && bench_set_integer(object, "window", options->window) &&
        bench_set_integer(object, "stride", stride_of(options)) &&
        bench_set_integer(object, "windows", result->window_count) &&
        bench_set_integer(object, "tokens", result->token_count) &&
        bench_set_real(object, "log_probability_sum", result->log_probability_sum) &&
        bench_set_real(object, "perplexity", result->perplexity) &&
        json_set(object, "bits_per_byte",
                 result->byte_count == 0 ? json_new_null() : json_new_real(result->bits_per_byte));
    if (!is_complete) {
        json_free(&object);
    }
    return bench_write_line(object, out);
}
