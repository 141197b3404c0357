/*
 * Where an API writes its answer: an HTTP exchange, or memory in a test.
 *
 * Either one whole answer, or start, writes, end. Any thread, one at a time; nothing here waits.
 */
#ifndef SLUICE_SERVER_REPLY_H
#define SLUICE_SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>

struct reply;

struct reply_header {
    const char *name;
    const char *value;
};

struct reply_kind {
    /* Sends everything and ends the reply, which must not be used any more. Copies. */
    void (*whole)(struct reply *reply, int status, const char *content_type, const char *body, size_t length);
    /* Sends the head of a reply whose length is not known. */
    void (*start)(struct reply *reply, int status, const char *content_type);
    /* Sends a piece, copied. False: the client has left, or reads too slowly to be waited for. */
    bool (*write)(struct reply *reply, const char *bytes, size_t length);
    /* Ends a reply that was started; it must not be used any more. */
    void (*end)(struct reply *reply);
    /* Adds a header to the head that is still to be sent. Copies. */
    void (*header)(struct reply *reply, struct reply_header header);
    /*
     * Says whom to tell when the client leaves before the end: on any thread, also at once, and not after
     * whole or end were called. The function must only pass the word on. Unless it `is_certain`, a client
     * that gets a stream has closed its half of the connection or left altogether: what is written next
     * tells, and if it has left the function is called again.
     */
    void (*on_leave)(struct reply *reply, void (*left)(void *context, bool is_certain), void *context);
};

struct reply {
    const struct reply_kind *kind;
};

#endif
