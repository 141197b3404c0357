/* One table of commands, for reading and for help. */
#include "cli/chat_command.h"

#include <stdbool.h>
#include <string.h>

#include "base/options.h"

static const char BLANKS[] = " \t\r\n";

struct command_row {
    const char *name;
    const char *argument; /* as help shows it; NULL: takes none */
    const char *help;
};

/* In the order of enum chat_command_kind. */
static const struct command_row commands[] = {
    [CHAT_COMMAND_HELP] = {"/help", NULL, "this list"},
    [CHAT_COMMAND_SYSTEM] = {"/system", "[TEXT]", "set the system message, or show it; - removes it"},
    [CHAT_COMMAND_THINK] = {"/think", NULL, "let the model reason before it answers"},
    [CHAT_COMMAND_NOTHINK] = {"/nothink", NULL, "let it answer at once"},
    [CHAT_COMMAND_SAVE] = {"/save", "[FILE]", "write the conversation as JSON; without FILE to the last one"},
    [CHAT_COMMAND_LOAD] = {"/load", "FILE", "go on with a saved conversation"},
    [CHAT_COMMAND_STATS] = {"/stats", NULL, "what the engine has done, and its memory"},
    [CHAT_COMMAND_CLEAR] = {"/clear", NULL, "start anew; the system message stays"},
    [CHAT_COMMAND_QUIT] = {"/quit", NULL, "leave; Ctrl-D does too"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], FIRST_COMMAND = CHAT_COMMAND_HELP };

static enum status find_command(const char *name, size_t length, enum chat_command_kind *out) {
    const char *names[COMMAND_COUNT];
    for (int i = FIRST_COMMAND; i < COMMAND_COUNT; i++) {
        names[i - FIRST_COMMAND] = commands[i].name;
        if (strlen(commands[i].name) == length && memcmp(commands[i].name, name, length) == 0) {
            *out = (enum chat_command_kind)i;
            return STATUS_OK;
        }
    }
    struct string_buffer word = {0};
    string_buffer_append(&word, name, length);
    const char *nearest =
        options_nearest_name(string_buffer_text(&word), names, COMMAND_COUNT - FIRST_COMMAND);
    string_buffer_deinit(&word);
    int shown = length < 40 ? (int)length : 40;
    CHECK(nearest == NULL, STATUS_USAGE,
          "unknown command %.*s; did you mean %s? A message that starts with a slash needs two", shown, name,
          nearest);
    FAIL(STATUS_USAGE, "unknown command %.*s; /help lists them; a message that starts with a slash needs two",
         shown, name);
}

static void cut_blanks(struct string_buffer *line) {
    while (line->length > 0 && strchr(BLANKS, line->data[line->length - 1]) != NULL) {
        string_buffer_drop_back(line, 1);
    }
}

enum status chat_command_parse(struct string_buffer *line, struct chat_command *out) {
    const char *text = string_buffer_text(line);
    *out = (struct chat_command){CHAT_COMMAND_MESSAGE, text, line->length};
    if (text[0] != '/') {
        if (strspn(text, BLANKS) == line->length) {
            out->length = 0;
        }
        return STATUS_OK;
    }
    if (text[1] == '/') {
        out->text++;
        out->length--;
        return STATUS_OK;
    }
    cut_blanks(line);
    size_t name_length = strcspn(text, BLANKS);
    TRY(find_command(text, name_length, &out->kind));
    out->text = text + name_length + strspn(text + name_length, BLANKS);
    out->length = line->length - (size_t)(out->text - text);
    CHECK(out->length == 0 || commands[out->kind].argument != NULL, STATUS_USAGE,
          "%s takes nothing behind it", commands[out->kind].name);
    return STATUS_OK;
}

void chat_command_append_help(struct string_buffer *out) {
    for (int i = FIRST_COMMAND; i < COMMAND_COUNT; i++) {
        const struct command_row *row = &commands[i];
        int used = (int)strlen(row->name) + 1;
        string_buffer_append_format(out, "  %s %-*s %s\n", row->name, 16 - used,
                                    row->argument == NULL ? "" : row->argument, row->help);
    }
    string_buffer_append_text(out,
                              "A line that ends in \\ goes on in the next one. Ctrl-C stops an answer; "
                              "what was said is kept.\n"
                              "A message that starts with a slash is written with two: //etc is a folder.\n");
}
