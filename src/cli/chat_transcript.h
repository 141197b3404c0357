/*
 * The conversation of `sluice chat`: a system message, then turns of user and assistant.
 *
 * Texts are copied, with ill-formed UTF-8 replaced, so that every conversation can be saved. Files are what
 * OpenAI's clients send, {"messages": [...]}, and what `generate --messages` reads. One thread.
 */
#ifndef SLUICE_CLI_CHAT_TRANSCRIPT_H
#define SLUICE_CLI_CHAT_TRANSCRIPT_H

#include "base/arena.h"
#include "base/status.h"
#include "text/chat_message.h"

struct chat_transcript {
    struct arena texts;
    struct chat_message *messages; /* the first place is the system message's, used or not */
    size_t count;                  /* the first place included */
    size_t capacity;
    bool has_system;
};

enum status chat_transcript_init(struct chat_transcript *transcript);
void chat_transcript_deinit(struct chat_transcript *transcript);

/* The conversation as the encoder takes it; valid until the next change. */
struct chat_conversation chat_transcript_view(const struct chat_transcript *transcript);

/* Sets the system message; NULL removes it. */
enum status chat_transcript_set_system(struct chat_transcript *transcript, const char *text, size_t length);

/* The system message, "" without one. */
const char *chat_transcript_system(const struct chat_transcript *transcript);

enum status chat_transcript_add_user(struct chat_transcript *transcript, const char *text, size_t length);

enum status chat_transcript_add_assistant(struct chat_transcript *transcript,
                                          const struct string_buffer *content,
                                          const struct string_buffer *reasoning);

/* Takes the last user or assistant message back. */
void chat_transcript_drop_last(struct chat_transcript *transcript);

/* Messages but for the system's. */
size_t chat_transcript_turn_count(const struct chat_transcript *transcript);

/* Drops all messages but the system's. */
enum status chat_transcript_clear(struct chat_transcript *transcript);

/* Writes the conversation; the file appears whole or not at all. BAD_ARGUMENT without a message. */
enum status chat_transcript_save(const struct chat_transcript *transcript, const char *path);

/*
 * Reads a conversation in place of this one, which stays if that fails. UNSUPPORTED for conversations with
 * tools, which nobody could run here.
 */
enum status chat_transcript_load(struct chat_transcript *transcript, const char *path);

#endif
