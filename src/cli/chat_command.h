/*
 * What a line of `sluice chat` means: a message, or one of the commands that start with a slash.
 *
 * "//text" is the message "/text". Pure functions.
 */
#ifndef SLUICE_CLI_CHAT_COMMAND_H
#define SLUICE_CLI_CHAT_COMMAND_H

#include "base/status.h"
#include "base/string_buffer.h"

enum chat_command_kind {
    CHAT_COMMAND_MESSAGE, /* no command: to be sent */
    CHAT_COMMAND_HELP,
    CHAT_COMMAND_SYSTEM,
    CHAT_COMMAND_THINK,
    CHAT_COMMAND_NOTHINK,
    CHAT_COMMAND_SAVE,
    CHAT_COMMAND_LOAD,
    CHAT_COMMAND_STATS,
    CHAT_COMMAND_CLEAR,
    CHAT_COMMAND_QUIT,
};

struct chat_command {
    enum chat_command_kind kind;
    const char
        *text; /* into the line: the message, or what stands behind the command without blanks around it */
    size_t length;
};

/*
 * Reads a line; blanks at its end are cut off in place if it is a command. An empty message has length 0.
 * USAGE, with the nearest name, for an unknown command, and for text behind one that takes none.
 */
enum status chat_command_parse(struct string_buffer *line, struct chat_command *out);

/* Appends one line per command for the user. */
void chat_command_append_help(struct string_buffer *out);

#endif
