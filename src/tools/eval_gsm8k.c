/* Examples are turns of the conversation; every question is asked in the same words. */
#include "tools/eval_gsm8k.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/progress.h"
#include "tools/eval_gsm8k_shots.h"
#include "tools/json_lines.h"

static const char INSTRUCTION[] = "\n\nReason step by step, then end with a line of the form: #### NUMBER";

struct run {
    struct eval_gsm8k_result *result;
    struct progress progress;
    int64_t ended_count;
};

static struct json *new_message(const char *role, const char *content, size_t length) {
    struct json *message = json_new_object();
    if (message == NULL || !json_set(message, "role", json_new_string(role, strlen(role))) ||
        !json_set(message, "content", json_new_string(content, length))) {
        json_free(&message);
    }
    return message;
}

static bool append_question(struct json *messages, const char *question, size_t length) {
    struct string_buffer text = {0};
    string_buffer_append(&text, question, length);
    string_buffer_append_text(&text, INSTRUCTION);
    bool is_appended =
        !text.is_failed && json_append(messages, new_message("user", string_buffer_text(&text), text.length));
    string_buffer_deinit(&text);
    return is_appended;
}

static struct json *new_conversation(int64_t shot_count, const struct json *question) {
    struct json *messages = json_new_array();
    size_t length;
    const char *text = json_text(question, &length);
    bool is_complete = messages != NULL;
    for (int64_t i = 0; i < shot_count && is_complete; i++) {
        const struct eval_gsm8k_shot *shot = &eval_gsm8k_shots[i];
        is_complete = append_question(messages, shot->question, strlen(shot->question)) &&
                      json_append(messages, new_message("assistant", shot->answer, strlen(shot->answer)));
    }
    if (!is_complete || !append_question(messages, text, length)) {
        json_free(&messages);
    }
    return messages;
}

/* Makes the conversations and notes the numbers that are wanted. */
static enum status prepare(const struct eval_gsm8k_options *options, const struct json *lines,
                           struct json *conversations, struct eval_gsm8k_result *out) {
    out->question_count = (int64_t)json_length(lines);
    out->rows = calloc(json_length(lines), sizeof *out->rows);
    CHECK_MEMORY(out->rows);
    for (size_t i = 0; i < json_length(lines); i++) {
        const struct json *line = json_at(lines, i);
        const struct json *question = json_get(line, "question");
        size_t length = 0;
        const char *answer = json_text(json_get(line, "answer"), &length);
        bool is_marked = false;
        CHECK(json_text(question, NULL) != NULL && answer != NULL, STATUS_BAD_FORMAT,
              "%s: object %zu lacks the text of \"question\" or \"answer\"", options->data, i + 1);
        eval_gsm8k_find_number(answer, length, out->rows[i].wanted, &is_marked);
        CHECK(is_marked, STATUS_BAD_FORMAT,
              "%s: the answer of object %zu does not end with #### and a number", options->data, i + 1);
        CHECK(json_append(conversations, new_conversation(options->shot_count, question)),
              STATUS_OUT_OF_MEMORY, "out of memory");
    }
    return STATUS_OK;
}

static void show_score(struct run *run) {
    struct eval_gsm8k_result *result = run->result;
    char note[PROGRESS_NOTE_BYTES];
    double low;
    double high;
    eval_wilson_interval(result->correct_count, result->answered_count, &low, &high);
    if (result->answered_count > 0) {
        snprintf(note, sizeof note, "score %.3f, 95 %% %.3f to %.3f",
                 (double)result->correct_count / (double)result->answered_count, low, high);
        progress_set_note(&run->progress, note);
    }
    progress_update(&run->progress, (uint64_t)run->ended_count);
}

static void take_answer(void *context, size_t index, const struct eval_answer *answer) {
    struct run *run = context;
    struct eval_gsm8k_result *result = run->result;
    struct eval_gsm8k_row *row = &result->rows[index];
    run->ended_count++;
    if (answer->error != NULL) {
        if (result->first_error.length == 0) {
            string_buffer_append_text(&result->first_error, answer->error);
        }
    } else {
        bool is_marked;
        eval_gsm8k_find_number(answer->text, answer->length, row->found, &is_marked);
        row->is_answered = true;
        row->is_cut = answer->is_cut;
        row->is_correct = strcmp(row->found, row->wanted) == 0;
        result->answered_count++;
        result->cut_count += answer->is_cut;
        result->correct_count += row->is_correct;
        result->strict_count += row->is_correct && is_marked;
        result->prompt_tokens += answer->prompt_tokens;
        result->output_tokens += answer->output_tokens;
    }
    show_score(run);
}

static enum status ask(const struct eval_source *source, const struct eval_gsm8k_options *options,
                       const struct json *conversations, struct eval_gsm8k_result *out) {
    struct run run = {.result = out};
    struct eval_questions questions = {
        .conversations = conversations,
        .max_tokens = options->max_tokens,
        .concurrency = options->concurrency,
        .temperature = options->temperature,
        .seed = options->seed,
        .is_thinking = options->is_thinking,
        .is_thinking_given = options->is_thinking_given,
        .on_answer = take_answer,
        .context = &run,
    };
    double start = clock_seconds();
    progress_start(&run.progress, "asking", "questions", (uint64_t)out->question_count);
    enum status status = source->answer(source->self, &questions);
    progress_finish(&run.progress);
    TRY(status);
    out->seconds = clock_seconds() - start;
    if (out->answered_count > 0) {
        out->score = (double)out->correct_count / (double)out->answered_count;
    }
    eval_wilson_interval(out->correct_count, out->answered_count, &out->score_low, &out->score_high);
    return STATUS_OK;
}

enum status eval_gsm8k_run(const struct eval_source *source, const struct eval_gsm8k_options *options,
                           struct eval_gsm8k_result *out) {
    enum status status = STATUS_OK;
    struct json *lines = NULL;
    struct json *conversations = json_new_array();
    *out = (struct eval_gsm8k_result){0};
    CHECK_MEMORY_GOTO(conversations);
    TRY_GOTO(json_lines_read(options->data, options->limit > 0 ? (size_t)options->limit : SIZE_MAX, &lines));
    TRY_GOTO(prepare(options, lines, conversations, out));
    TRY_GOTO(ask(source, options, conversations, out));
fail:
    json_free(&lines);
    json_free(&conversations);
    return status;
}

void eval_gsm8k_deinit(struct eval_gsm8k_result *result) {
    string_buffer_deinit(&result->first_error);
    free(result->rows);
    *result = (struct eval_gsm8k_result){0};
}
