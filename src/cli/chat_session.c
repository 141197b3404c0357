/* The engine works on a thread of its own; this one shows what came and looks for interrupts in between. */
#include "cli/chat_session.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/progress.h"
#include "cli/chat_answer.h"
#include "cli/chat_status.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "sluice/request.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

/* How long an interrupt may go unseen. */
static const double POLL_SECONDS = 0.05;

/* One turn under way. */
struct turn {
    struct chat_session *session;
    struct token_list prompt;
    struct chat_answer answer;
    struct sluice_request *request;
    struct sluice_request_state state;
    size_t shown;          /* tokens of the answer that were looked at */
    bool is_ended_by_text; /* the model ended its turn by a mark that is no end token */
};

static enum status open_engine(struct chat_session *session) {
    const struct cli_options *options = session->options;
    struct cli_engine_options engine;
    TRY(cli_engine_options_read(options, options->speculative ? SLUICE_DRAFTS_IF_POSSIBLE : 0, &engine));
    engine.engine.sequence_limit = 1;
    engine.engine.has_prefix_cache = true;
    TRY((enum status)sluice_engine_open(&engine.engine, &session->engine));
    session->facts = sluice_engine_facts(session->engine);
    return STATUS_OK;
}

enum status chat_session_open(struct chat_session *session, const struct cli_options *options) {
    *session = (struct chat_session){.options = options, .format = cli_chat_options(options)};
    CHECK(options->model != NULL, STATUS_USAGE, "give the model's folder with --model");
    CHECK(!options->max_tokens_given || options->max_tokens > 0, STATUS_USAGE,
          "--max-tokens 0 leaves nothing to answer with");
    TRY(chat_transcript_init(&session->transcript));
    TRY(generation_config_load(options->model, NULL, &session->recommended));
    TRY(cli_sampling_init(&session->sampling, options, &session->recommended));
    if (!options->seed_given) {
        session->sampling.sampling.seed = (uint64_t)time(NULL);
    }
    if (options->system != NULL) {
        TRY(chat_transcript_set_system(&session->transcript, options->system, strlen(options->system)));
    }
    TRY(tokenizer_load_of_model(options->model, NULL, &session->tokenizer));
    return open_engine(session);
}

void chat_session_close(struct chat_session *session) {
    sluice_engine_close(&session->engine);
    tokenizer_destroy(&session->tokenizer);
    cli_sampling_deinit(&session->sampling);
    chat_transcript_deinit(&session->transcript);
}

static enum status encode(struct turn *turn) {
    const struct chat_session *session = turn->session;
    struct chat_conversation conversation = chat_transcript_view(&session->transcript);
    struct chat_prompt prompt = {0};
    enum status status = STATUS_OK;
    enum chat_matching matching =
        session->options->match_added_tokens ? CHAT_MATCHING_OFFICIAL : CHAT_MATCHING_TEMPLATE_ONLY;
    TRY_GOTO(chat_encode_v4(&conversation, &session->format, &prompt));
    chat_answer_init(&turn->answer, session->tokenizer, chat_prompt_is_reasoning_open(&prompt), stdout);
    TRY_GOTO(chat_prompt_encode(&prompt, session->tokenizer, matching, &turn->prompt));
fail:
    chat_prompt_deinit(&prompt);
    return status;
}

static enum status submit(struct turn *turn) {
    struct chat_session *session = turn->session;
    struct sluice_request_options request = sluice_request_options_default();
    int64_t context = session->facts.context_tokens;
    CHECK((int64_t)turn->prompt.count < context, STATUS_CONTEXT_FULL,
          "with this message the conversation has %zu tokens, and the context only %lld: /clear starts anew, "
          "--max-model-len makes room for more",
          turn->prompt.count, (long long)context);
    request.prompt = turn->prompt.ids;
    request.prompt_count = turn->prompt.count;
    request.sampling = session->sampling.sampling;
    request.choice_index = session->answer_count;
    request.token_limit = session->options->max_tokens_given ? session->options->max_tokens : -1;
    request.stop_tokens = session->recommended.end_tokens;
    request.stop_token_count = (size_t)session->recommended.end_token_count;
    TRY((enum status)sluice_engine_submit(session->engine, &request, &turn->request));
    session->answer_count++;
    return STATUS_OK;
}

static enum status show_tokens(struct turn *turn) {
    const struct sluice_request_state *state = &turn->state;
    /* The last token is a mark for the end, not text. */
    size_t count = state->token_count - (state->finish_reason == SLUICE_FINISH_STOP);
    while (turn->shown < count && !chat_answer_is_stopped(&turn->answer)) {
        TRY(chat_answer_push(&turn->answer, sluice_request_token(turn->request, turn->shown)));
        turn->shown++;
    }
    return STATUS_OK;
}

static enum status follow(struct turn *turn, struct progress *line) {
    struct sluice_request_state *state = &turn->state;
    while (state->phase != SLUICE_REQUEST_FINISHED) {
        bool is_reading = state->token_count == 0;
        *state = sluice_request_wait(turn->request, state->token_count,
                                     is_reading ? state->prompt_tokens_done : SIZE_MAX, POLL_SECONDS);
        if (is_reading && state->token_count > 0) {
            progress_finish(line);
        } else if (is_reading) {
            progress_update(line, state->prompt_tokens_done);
        }
        TRY(show_tokens(turn));
        turn->is_ended_by_text = chat_answer_is_stopped(&turn->answer);
        if (interrupt_has_come() || turn->is_ended_by_text) {
            sluice_request_cancel(turn->request);
        }
    }
    CHECK(state->finish_reason != SLUICE_FINISH_ERROR, (enum status)state->status, "%s", state->message);
    return STATUS_OK;
}

/* Shows the answer while it is made. */
static enum status listen(struct turn *turn) {
    struct progress line;
    progress_start(&line, "reading the conversation", "tokens", turn->prompt.count);
    enum status status = follow(turn, &line);
    if (turn->state.token_count == 0) {
        progress_finish(&line);
    }
    if (status != STATUS_OK) {
        answer_view_finish(&turn->answer.view);
        return error_forward(status, ERROR_HERE);
    }
    return chat_answer_finish(&turn->answer);
}

/* The line about the answer, and a warning where one is due. */
static enum status report(struct turn *turn) {
    struct string_buffer text = {0};
    if (turn->is_ended_by_text) {
        turn->state.finish_reason = SLUICE_FINISH_STOP; /* we cancelled it ourselves */
    }
    bool is_styled = answer_view_has_style(stderr);
    string_buffer_append_text(&text, is_styled ? ANSWER_VIEW_DIM : "");
    chat_status_append_answer(&text, &turn->state, turn->prompt.count);
    string_buffer_append_text(&text, is_styled ? ANSWER_VIEW_PLAIN : "");
    string_buffer_append_char(&text, '\n');
    size_t before = text.length;
    chat_status_append_warning(&text, (int64_t)(turn->prompt.count + turn->state.token_count),
                               turn->session->facts.context_tokens);
    string_buffer_append_text(&text, text.length > before ? "\n" : "");
    enum status status = string_buffer_check(&text);
    fputs(string_buffer_text(&text), stderr);
    string_buffer_deinit(&text);
    return status;
}

static enum status run_turn(struct turn *turn) {
    TRY(encode(turn));
    TRY(submit(turn));
    TRY(listen(turn));
    TRY(report(turn));
    if (chat_answer_is_empty(&turn->answer)) {
        fputs("Nothing was said; your message is taken back.\n", stderr);
        chat_transcript_drop_last(&turn->session->transcript);
        return STATUS_OK;
    }
    return chat_transcript_add_assistant(&turn->session->transcript, &turn->answer.content,
                                         &turn->answer.reasoning);
}

enum status chat_session_send(struct chat_session *session, const char *text, size_t length) {
    struct turn turn = {.session = session};
    interrupt_forget();
    TRY(chat_transcript_add_user(&session->transcript, text, length));
    enum status status = run_turn(&turn);
    if (status != STATUS_OK) {
        chat_transcript_drop_last(&session->transcript);
    }
    sluice_request_release(&turn.request);
    chat_answer_deinit(&turn.answer);
    token_list_deinit(&turn.prompt);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
