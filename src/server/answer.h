/*
 * A request under way: its generations, and the reply that their tokens drive.
 *
 * A handler opens an answer, reads the request into it and launches it; from then on a task of the queue
 * takes tokens, turns them into events and lets the API's format write them: as a stream, piece by piece, or
 * collected as one body. Both go the same way, so they say the same. Only the task touches a launched
 * answer; others leave word with the functions that say "any thread".
 */
#ifndef SLUICE_SERVER_ANSWER_H
#define SLUICE_SERVER_ANSWER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/string_buffer.h"
#include "server/answer_choice.h"
#include "server/answer_message.h"
#include "server/answer_settings.h"
#include "server/api.h"
#include "server/request_reader.h"
#include "server/task_queue.h"
#include "text/token_list.h"

struct answer;
struct answer_item;

/* How an API writes answers. What is written goes to the answer's `out`. */
struct answer_format {
    /* The generations run; of a stream the head was sent. NULL: no interest. */
    enum status (*submitted)(struct answer *answer);
    /* Part of a choice: in a stream to be written, else to be collected in the item's message. */
    enum status (*event)(struct answer_item *item, const struct output_event *event);
    /* A batch of tokens has been turned into events; its records may still wait. NULL: no interest. */
    enum status (*batch)(struct answer_item *item);
    /* The choice is finished. NULL: no interest. */
    enum status (*finish_choice)(struct answer_item *item);
    /* All choices are finished: the end of the stream, or the whole body. */
    enum status (*finish)(struct answer *answer);
    /* Stream: something that clients pass over. */
    void (*keep_alive)(struct answer *answer);
    /* Stream: an error ends it. */
    void (*fail)(struct answer *answer, int http_status, const char *message);
    /* The answer is over, however it ended; frees the format's own state. NULL: there is none. */
    void (*over)(struct answer *answer);
};

struct answer_prompt {
    struct token_list ids;
    struct string_buffer text; /* for echo */
};

/* A choice, its generation, and what the format keeps of it. */
struct answer_item {
    struct answer *answer;
    struct generation *generation; /* NULL once it is finished */
    struct sluice_request_state state;
    struct answer_choice choice;
    struct answer_message message; /* filled in by the format */
    double moment_taken;           /* when tokens last came; 0: none yet */
    bool has_begun;                /* the format has written something of it */
    size_t text_offset;            /* characters so far, for completions */
};

struct answer {
    struct task task; /* first: the task's pointer is the answer's */
    struct api *api;
    struct reply *reply; /* NULL once it is ended, or for an answer that only is stored */
    const struct answer_format *format;
    void *format_state;
    const char *path;               /* a route's, static: decides the shape of errors */
    struct answer *next, *previous; /* in the api's list */

    struct arena arena;
    struct json *document; /* the request; NULL once the generations were submitted */
    struct request_reader reader;
    struct answer_settings settings;
    struct answer_prompt *prompts;
    size_t prompt_count;
    struct answer_item *items; /* [prompt_count * choice_count], prompt by prompt */
    size_t item_count;
    size_t unfinished_count;

    const char *id; /* of the reply's object */
    int64_t created;
    double moment_opened;
    struct string_buffer out; /* written to the reply at the end of each run */
    struct string_buffer scratch;
    double moment_written;
    bool is_launched, is_listening, is_submitted, is_failed;
    atomic_bool has_left;      /* the client */
    atomic_bool may_have_left; /* the stream is to write something, which tells */
    atomic_bool is_cancelled;  /* by another request */
    atomic_bool is_closing;    /* the api */
};

/*
 * Parses the body. If that fails, or the answer cannot be made, replies with the error and returns NULL.
 * `id_prefix` and the request's id make the object's id.
 */
struct answer *answer_open(struct api *api, const struct api_request *request, struct reply *reply,
                           const struct answer_format *format, const char *path, const char *id_prefix);

/* Room for prompts, zeroed. */
enum status answer_add_prompts(struct answer *answer, size_t count);

/*
 * Starts the generations, if `status` is OK; else replies with this thread's error. The answer is the task's
 * from now on, or gone.
 */
void answer_launch(struct answer *answer, enum status status);

/* Leaves word; any thread that holds the api's lock. */
void answer_cancel(struct answer *answer);

/* Numbers of tokens, summed over the choices. */
struct answer_usage {
    size_t prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens;
    size_t accepted_drafts, rejected_drafts;
};

struct answer_usage answer_usage(const struct answer *answer);

#endif
