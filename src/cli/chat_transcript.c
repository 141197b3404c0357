/* Messages point into one arena that lives as long as the conversation; what was taken back stays in it. */
#include "cli/chat_transcript.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/utf8.h"

enum { TEXTS_BLOCK_BYTES = 1 << 14, FIRST_CAPACITY = 16 };

static const size_t FILE_BYTES_MAX = (size_t)1 << 30;

enum status chat_transcript_init(struct chat_transcript *transcript) {
    *transcript = (struct chat_transcript){.messages = calloc(FIRST_CAPACITY, sizeof *transcript->messages),
                                           .count = 1,
                                           .capacity = FIRST_CAPACITY};
    arena_init(&transcript->texts, TEXTS_BLOCK_BYTES);
    CHECK_MEMORY(transcript->messages);
    transcript->messages[0] = chat_message_of_text(CHAT_ROLE_SYSTEM, "", 0);
    return STATUS_OK;
}

void chat_transcript_deinit(struct chat_transcript *transcript) {
    free(transcript->messages);
    arena_deinit(&transcript->texts);
    *transcript = (struct chat_transcript){0};
}

struct chat_conversation chat_transcript_view(const struct chat_transcript *transcript) {
    size_t start = transcript->has_system ? 0 : 1;
    return (struct chat_conversation){transcript->messages + start, transcript->count - start};
}

static enum status copy_text(struct chat_transcript *transcript, const char *text, size_t length,
                             struct chat_text *out) {
    struct string_buffer lossy = {0};
    enum status status = STATUS_OK;
    utf8_append_lossy(&lossy, text, length);
    TRY_GOTO(string_buffer_check(&lossy));
    out->length = lossy.length;
    out->bytes = arena_copy_string(&transcript->texts, string_buffer_text(&lossy), lossy.length);
    CHECK_MEMORY_GOTO(out->bytes);
fail:
    string_buffer_deinit(&lossy);
    return status;
}

enum status chat_transcript_set_system(struct chat_transcript *transcript, const char *text, size_t length) {
    struct chat_text copy = {"", 0};
    TRY(copy_text(transcript, text == NULL ? "" : text, length, &copy));
    transcript->messages[0].content = copy;
    transcript->has_system = text != NULL;
    return STATUS_OK;
}

const char *chat_transcript_system(const struct chat_transcript *transcript) {
    return transcript->messages[0].content.bytes;
}

static enum status add_message(struct chat_transcript *transcript, const struct chat_message *message) {
    if (transcript->count == transcript->capacity) {
        size_t capacity = 2 * transcript->capacity;
        struct chat_message *messages = realloc(transcript->messages, capacity * sizeof *messages);
        CHECK_MEMORY(messages);
        transcript->messages = messages;
        transcript->capacity = capacity;
    }
    struct chat_message copy = chat_message_of_text(message->role, "", 0);
    TRY(copy_text(transcript, message->content.bytes, message->content.length, &copy.content));
    TRY(copy_text(transcript, message->reasoning.bytes, message->reasoning.length, &copy.reasoning));
    transcript->messages[transcript->count++] = copy;
    return STATUS_OK;
}

enum status chat_transcript_add_user(struct chat_transcript *transcript, const char *text, size_t length) {
    struct chat_message message = chat_message_of_text(CHAT_ROLE_USER, text, length);
    return add_message(transcript, &message);
}

enum status chat_transcript_add_assistant(struct chat_transcript *transcript,
                                          const struct string_buffer *content,
                                          const struct string_buffer *reasoning) {
    struct chat_message message =
        chat_message_of_text(CHAT_ROLE_ASSISTANT, string_buffer_text(content), content->length);
    message.reasoning = (struct chat_text){string_buffer_text(reasoning), reasoning->length};
    return add_message(transcript, &message);
}

size_t chat_transcript_turn_count(const struct chat_transcript *transcript) {
    return transcript->count - 1;
}

void chat_transcript_drop_last(struct chat_transcript *transcript) {
    transcript->count -= transcript->count > 1;
}

/* Puts `next` in the place of the conversation. */
static void replace(struct chat_transcript *transcript, struct chat_transcript *next) {
    chat_transcript_deinit(transcript);
    *transcript = *next;
    *next = (struct chat_transcript){0};
}

enum status chat_transcript_clear(struct chat_transcript *transcript) {
    struct chat_transcript next;
    enum status status = chat_transcript_init(&next);
    const struct chat_text *system = &transcript->messages[0].content;
    if (status == STATUS_OK && transcript->has_system) {
        status = chat_transcript_set_system(&next, system->bytes, system->length);
    }
    if (status == STATUS_OK) {
        replace(transcript, &next);
    }
    chat_transcript_deinit(&next);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static struct json *text_json(const struct chat_text *text) {
    return json_new_string(text->bytes, text->length);
}

/* One message to a line, so that people and line-based tools can read the file too. */
static enum status append_message(struct string_buffer *out, const struct chat_message *message) {
    const char *role = message->role == CHAT_ROLE_SYSTEM ? "system"
                       : message->role == CHAT_ROLE_USER ? "user"
                                                         : "assistant";
    enum status status = STATUS_OK;
    struct json *object = json_new_object();
    CHECK_GOTO(object != NULL && json_set(object, "role", json_new_string(role, strlen(role))) &&
                   json_set(object, "content", text_json(&message->content)) &&
                   (message->reasoning.length == 0 ||
                    json_set(object, "reasoning_content", text_json(&message->reasoning))),
               STATUS_OUT_OF_MEMORY, "out of memory while the conversation was put together");
    TRY_GOTO(json_write_spaced(object, out));
fail:
    json_free(&object);
    return status;
}

static enum status append_conversation(struct string_buffer *out,
                                       const struct chat_conversation *conversation) {
    string_buffer_append_text(out, "{\"messages\": [\n");
    for (size_t i = 0; i < conversation->message_count; i++) {
        TRY(append_message(out, &conversation->messages[i]));
        string_buffer_append_text(out, i + 1 < conversation->message_count ? ",\n" : "\n");
    }
    string_buffer_append_text(out, "]}\n");
    return string_buffer_check(out);
}

/* Writes beside the file and renames. */
static enum status write_whole(const char *path, const struct string_buffer *bytes) {
    struct string_buffer partial = {0};
    FILE *file = NULL;
    enum status status = STATUS_OK;
    string_buffer_append_format(&partial, "%s.XXXXXX", path);
    TRY_GOTO(string_buffer_check(&partial));
    int descriptor = mkstemp(partial.data);
    file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    CHECK_GOTO(file != NULL, STATUS_IO, "%s cannot be written: %s", path, strerror(errno));
    bool is_written = fwrite(bytes->data, 1, bytes->length, file) == bytes->length && fflush(file) == 0 &&
                      fsync(descriptor) == 0 && rename(partial.data, path) == 0;
    int error = errno;
    if (!is_written) {
        remove(partial.data);
    }
    CHECK_GOTO(is_written, STATUS_IO, "%s cannot be written: %s", path, strerror(error));
fail:
    if (file != NULL) {
        fclose(file);
    }
    string_buffer_deinit(&partial);
    return status;
}

enum status chat_transcript_save(const struct chat_transcript *transcript, const char *path) {
    struct chat_conversation conversation = chat_transcript_view(transcript);
    CHECK(conversation.message_count > 0, STATUS_BAD_ARGUMENT, "there is nothing to save yet");
    struct string_buffer bytes = {0};
    enum status status = append_conversation(&bytes, &conversation);
    if (status == STATUS_OK) {
        status = write_whole(path, &bytes);
    }
    string_buffer_deinit(&bytes);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Takes what this conversation can hold: one system message in front, users and assistants. */
static enum status take_message(struct chat_transcript *transcript, const struct chat_message *message,
                                size_t index, const char *path) {
    bool is_system = message->role == CHAT_ROLE_SYSTEM && index == 0;
    bool is_turn = message->role == CHAT_ROLE_USER || message->role == CHAT_ROLE_ASSISTANT;
    CHECK(message->tool_count == 0 && message->tool_call_count == 0 && message->role != CHAT_ROLE_TOOL,
          STATUS_UNSUPPORTED, "%s: messages[%zu] uses tools, which chat cannot run; see generate --messages",
          path, index);
    CHECK(is_system || is_turn, STATUS_UNSUPPORTED,
          "%s: messages[%zu] is neither the user's nor the assistant's, nor a system message in front", path,
          index);
    CHECK(!message->has_response_format && message->task == CONTROL_TOKEN_NONE && !message->is_without_eos,
          STATUS_UNSUPPORTED,
          "%s: messages[%zu] has a task, response_format or wo_eos, which chat cannot keep", path, index);
    return is_system ? chat_transcript_set_system(transcript, message->content.bytes, message->content.length)
                     : add_message(transcript, message);
}

static enum status read_messages(struct chat_transcript *transcript, const char *path, struct arena *arena) {
    struct json *document = NULL;
    struct chat_conversation conversation;
    enum status status = STATUS_OK;
    TRY(json_parse_file(path, FILE_BYTES_MAX, &document));
    bool is_object = json_kind(document) == JSON_KIND_OBJECT;
    const struct json *messages = is_object ? json_get(document, "messages") : document;
    const struct json *tools = is_object ? json_get(document, "tools") : NULL;
    CHECK_GOTO(messages != NULL, STATUS_BAD_FORMAT, "%s has no \"messages\"", path);
    TRY_GOTO(chat_conversation_parse(messages, tools, arena, &conversation));
    for (size_t i = 0; i < conversation.message_count; i++) {
        TRY_GOTO(take_message(transcript, &conversation.messages[i], i, path));
    }
fail:
    json_free(&document);
    return status;
}

enum status chat_transcript_load(struct chat_transcript *transcript, const char *path) {
    struct chat_transcript next;
    struct arena request_arena;
    arena_init(&request_arena, TEXTS_BLOCK_BYTES);
    enum status status = chat_transcript_init(&next);
    if (status == STATUS_OK) {
        status = read_messages(&next, path, &request_arena);
    }
    if (status == STATUS_OK) {
        replace(transcript, &next);
    }
    chat_transcript_deinit(&next);
    arena_deinit(&request_arena);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
