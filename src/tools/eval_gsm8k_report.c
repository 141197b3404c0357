#include <string.h>

#include "tools/bench_report_parts.h"
#include "tools/eval_gsm8k.h"

enum status eval_gsm8k_text(const struct eval_source *source, const struct eval_gsm8k_options *options,
                            const struct eval_gsm8k_result *result, struct string_buffer *out) {
    int64_t failed = result->question_count - result->answered_count;
    string_buffer_append_format(out, "model    %s%s%s\n", source->name, source->model[0] == '\0' ? "" : ", ",
                                source->model);
    string_buffer_append_format(
        out,
        "gsm8k    %s, %lld questions, %lld examples before each, answers of %lld tokens at "
        "temperature %g\n",
        options->data, (long long)result->question_count, (long long)options->shot_count,
        (long long)options->max_tokens, options->temperature);
    string_buffer_append_format(
        out, "score    %.4f (95 %%: %.4f to %.4f), %lld of %lld right, %lld of them behind ####\n",
        result->score, result->score_low, result->score_high, (long long)result->correct_count,
        (long long)result->answered_count, (long long)result->strict_count);
    string_buffer_append_format(
        out, "answers  %lld cut off by their length, %lld failed; %lld tokens in %.1f s\n",
        (long long)result->cut_count, (long long)failed, (long long)result->output_tokens, result->seconds);
    return string_buffer_check(out);
}

static struct json *new_row(const struct eval_gsm8k_row *row) {
    struct json *object = json_new_object();
    struct json *found =
        row->found[0] == '\0' ? json_new_null() : json_new_string(row->found, strlen(row->found));
    bool is_complete = object != NULL && json_set(object, "found", found) &&
                       bench_set_text(object, "wanted", row->wanted) &&
                       json_set(object, "correct", json_new_bool(row->is_correct)) &&
                       json_set(object, "answered", json_new_bool(row->is_answered)) &&
                       json_set(object, "cut", json_new_bool(row->is_cut));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}

static struct json *new_rows(const struct eval_gsm8k_result *result) {
    struct json *array = json_new_array();
    for (int64_t i = 0; i < result->question_count && array != NULL; i++) {
        if (!json_append(array, new_row(&result->rows[i]))) {
            json_free(&array);
        }
    }
    return array;
}

static bool set_result(struct json *object, const struct eval_gsm8k_result *result) {
    const char *error = string_buffer_text(&result->first_error);
    return bench_set_integer(object, "questions", result->question_count) &&
           bench_set_integer(object, "answered", result->answered_count) &&
           bench_set_integer(object, "failed", result->question_count - result->answered_count) &&
           json_set(object, "first_error",
                    error[0] == '\0' ? json_new_null() : json_new_string(error, strlen(error))) &&
           bench_set_integer(object, "correct", result->correct_count) &&
           bench_set_integer(object, "strict_correct", result->strict_count) &&
           bench_set_integer(object, "cut", result->cut_count) &&
           bench_set_real(object, "score", result->score) &&
           bench_set_real(object, "score_low", result->score_low) &&
           bench_set_real(object, "score_high", result->score_high) &&
           bench_set_integer(object, "prompt_tokens", result->prompt_tokens) &&
           bench_set_integer(object, "output_tokens", result->output_tokens) &&
           bench_set_real(object, "seconds", result->seconds) && json_set(object, "rows", new_rows(result));
}

enum status eval_gsm8k_json(const struct eval_source *source, const struct eval_gsm8k_options *options,
                            const struct eval_gsm8k_result *result, struct string_buffer *out) {
    struct json *object = json_new_object();
    bool is_complete =
        object != NULL && bench_set_text(object, "task", "gsm8k") &&
        bench_set_text(object, "source", source->name) && bench_set_text(object, "model", source->model) &&
        bench_set_text(object, "data", options->data) &&
        bench_set_integer(object, "num_fewshot", options->shot_count) &&
        bench_set_integer(object, "max_tokens", options->max_tokens) &&
        bench_set_real(object, "temperature", options->temperature) &&
        bench_set_integer(object, "seed", (int64_t)options->seed) && set_result(object, result);
    if (!is_complete) {
        json_free(&object);
    }
    return bench_write_line(object, out);
}
