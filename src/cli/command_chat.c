/* `sluice chat`: a conversation in the terminal, or line by line through pipes. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/answer_view.h"
#include "cli/chat_command.h"
#include "cli/chat_session.h"
#include "cli/chat_status.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/user_paths.h"
#include "lib/line_editor.h"

/* The program's side of the conversation. Answers go to stdout, everything else to stderr. */
struct chat {
    const struct cli_options *options;
    struct chat_session session;
    struct line_editor *editor;
    struct string_buffer history_file;
    struct string_buffer file; /* last saved or loaded */
    bool has_person;
    bool is_over;
};

/* Prints and empties. */
static enum status print_text(struct string_buffer *text) {
    enum status status = string_buffer_check(text);
    fputs(string_buffer_text(text), stderr);
    string_buffer_deinit(text);
    return status;
}

static enum status show_help(void) {
    struct string_buffer text = {0};
    chat_command_append_help(&text);
    return print_text(&text);
}

static enum status show_stats(struct chat *chat) {
    struct string_buffer text = {0};
    struct sluice_engine_stats stats = sluice_engine_stats(chat->session.engine);
    chat_status_append_engine(&text, &chat->session.facts, &stats);
    string_buffer_append_format(&text, "seed      %llu\n",
                                (unsigned long long)chat->session.sampling.sampling.seed);
    return print_text(&text);
}

/* It may come from a file, so that it is shown as an answer is: a terminal must not obey it. */
static void show_system(const struct chat_transcript *transcript) {
    const char *text = chat_transcript_system(transcript);
    struct answer_view view;
    answer_view_init(&view, stderr);
    fputs(transcript->has_system ? "System message: " : "There is no system message.\n", stderr);
    answer_view_show_content(&view, text, strlen(text));
    answer_view_finish(&view);
    answer_view_deinit(&view);
}

static enum status change_system(struct chat *chat, const struct chat_command *command) {
    struct chat_transcript *transcript = &chat->session.transcript;
    bool is_removal = command->length == 1 && command->text[0] == '-';
    if (command->length > 0) {
        TRY(chat_transcript_set_system(transcript, is_removal ? NULL : command->text,
                                       is_removal ? 0 : command->length));
    }
    show_system(transcript);
    return STATUS_OK;
}

static enum status change_thinking(struct chat *chat, bool is_thinking) {
    chat->session.format.is_thinking = is_thinking;
    fprintf(stderr, "Thinking is %s.\n", is_thinking ? "on" : "off");
    return STATUS_OK;
}

/* The file that a command names, or the last one. */
static enum status choose_file(const struct chat *chat, const struct chat_command *command,
                               struct string_buffer *path) {
    if (command->length > 0) {
        user_paths_append_typed(path, command->text);
    } else {
        string_buffer_append_text(path, string_buffer_text(&chat->file));
    }
    CHECK(path->length > 0, STATUS_USAGE, "name a file behind it");
    return string_buffer_check(path);
}

/* Saves or loads; the file is the last one from then on, unless that fails. */
static enum status use_file(struct chat *chat, const struct chat_command *command) {
    struct chat_transcript *transcript = &chat->session.transcript;
    bool is_save = command->kind == CHAT_COMMAND_SAVE;
    struct string_buffer path = {0};
    enum status status = STATUS_OK;
    TRY_GOTO(choose_file(chat, command, &path));
    TRY_GOTO(is_save ? chat_transcript_save(transcript, path.data)
                     : chat_transcript_load(transcript, path.data));
    fprintf(stderr,
            is_save ? "%zu messages are in %s.\n" : "The conversation is now the %zu messages of %s.\n",
            chat_transcript_view(transcript).message_count, path.data);
    string_buffer_deinit(&chat->file);
    chat->file = path;
    return STATUS_OK;
fail:
    string_buffer_deinit(&path);
    return status;
}

static enum status clear(struct chat *chat) {
    TRY(chat_transcript_clear(&chat->session.transcript));
    fputs("The conversation is empty.\n", stderr);
    return STATUS_OK;
}

static enum status send(struct chat *chat, const struct chat_command *command) {
    TRY(chat_session_send(&chat->session, command->text, command->length));
    /* Turns stand apart. */
    fputs(chat->has_person ? "\n" : "", stderr);
    return STATUS_OK;
}

static enum status obey(struct chat *chat, const struct chat_command *command) {
    switch (command->kind) {
    case CHAT_COMMAND_MESSAGE:
        return command->length == 0 ? STATUS_OK : send(chat, command);
    case CHAT_COMMAND_HELP:
        return show_help();
    case CHAT_COMMAND_SYSTEM:
        return change_system(chat, command);
    case CHAT_COMMAND_THINK:
        return change_thinking(chat, true);
    case CHAT_COMMAND_NOTHINK:
        return change_thinking(chat, false);
    case CHAT_COMMAND_SAVE:
    case CHAT_COMMAND_LOAD:
        return use_file(chat, command);
    case CHAT_COMMAND_STATS:
        return show_stats(chat);
    case CHAT_COMMAND_CLEAR:
        return clear(chat);
    case CHAT_COMMAND_QUIT:
        chat->is_over = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

/* A person sees what went wrong and goes on; a script must not go on as if nothing had happened. */
static enum status settle(const struct chat *chat, enum status status) {
    if (status == STATUS_OK || !chat->has_person) {
        return status;
    }
    fprintf(stderr, "%s\n", error_last()->message);
    return STATUS_OK;
}

static enum status take_line(struct chat *chat, struct string_buffer *line) {
    struct chat_command command;
    if (line_editor_remember(chat->editor, string_buffer_text(line)) != STATUS_OK) {
        log_write(LOG_WARNING, "chat", "%s", error_last()->message);
    }
    TRY(chat_command_parse(line, &command));
    return obey(chat, &command);
}

static enum status converse(struct chat *chat) {
    struct string_buffer line = {0};
    enum line_kind kind = LINE_TEXT;
    enum status status = STATUS_OK;
    while (!chat->is_over) {
        TRY_GOTO(line_editor_read(chat->editor, &line, &kind));
        if (kind == LINE_TEXT) {
            TRY_GOTO(settle(chat, take_line(chat, &line)));
        }
        chat->is_over = chat->is_over || kind == LINE_END;
    }
fail:
    string_buffer_deinit(&line);
    return status;
}

/* The file that --history names, "" for none. */
static enum status find_history(struct chat *chat) {
    const char *given = chat->options->history;
    if (given != NULL) {
        string_buffer_append_text(&chat->history_file, strcmp(given, "none") == 0 ? "" : given);
        return string_buffer_check(&chat->history_file);
    }
    if (user_paths_find_history(&chat->history_file) != STATUS_OK) {
        log_write(LOG_WARNING, "chat", "lines are not remembered: %s", error_last()->message);
        string_buffer_clear(&chat->history_file);
    }
    return STATUS_OK;
}

static enum status start_editor(struct chat *chat) {
    struct line_editor_options options = {.prompt = "> ", .continuation_prompt = "... "};
    if (chat->has_person) {
        TRY(find_history(chat));
    }
    options.history_file = chat->history_file.length > 0 ? string_buffer_text(&chat->history_file) : NULL;
    return line_editor_create(&options, &chat->editor);
}

static void greet(const struct chat *chat) {
    const struct sluice_engine_facts *facts = &chat->session.facts;
    bool is_styled = answer_view_has_style(stderr);
    fprintf(stderr, "%s%s: ready after %.2f s, context of %lld tokens", is_styled ? ANSWER_VIEW_DIM : "",
            chat->options->model, facts->load_seconds, (long long)facts->context_tokens);
    if (facts->draft_limit > 0) {
        fprintf(stderr, ", up to %d drafts", facts->draft_limit);
    }
    fprintf(stderr, ". /help lists the commands.%s\n", is_styled ? ANSWER_VIEW_PLAIN : "");
}

static enum status run(struct chat *chat) {
    TRY(start_editor(chat));
    TRY(chat_session_open(&chat->session, chat->options));
    if (chat->has_person) {
        TRY(interrupt_start_catching());
        greet(chat);
    }
    return converse(chat);
}

enum status command_chat(const struct cli_options *options, int word_count, char **words) {
    (void)word_count;
    (void)words;
    struct chat chat = {.options = options, .has_person = line_editor_has_person()};
    enum status status = run(&chat);
    chat_session_close(&chat.session);
    line_editor_destroy(&chat.editor);
    string_buffer_deinit(&chat.history_file);
    string_buffer_deinit(&chat.file);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
