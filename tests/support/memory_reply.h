/* A reply that is kept, for tests to look at. Any thread; functions that wait fail the test in time. */
#ifndef SLUICE_TESTS_SUPPORT_MEMORY_REPLY_H
#define SLUICE_TESTS_SUPPORT_MEMORY_REPLY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"
#include "server/reply.h"

struct memory_reply {
    struct reply reply; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int status; /* 0 before the head was sent */
    char content_type[64];
    struct string_buffer headers; /* "Name: value\n" */
    struct string_buffer body;
    size_t write_count;
    bool is_started, is_ended;
    bool is_gone; /* the client has left: writes fail */
    void (*left)(void *context, bool is_certain);
    void *left_context;
};

void memory_reply_init(struct memory_reply *reply);
void memory_reply_deinit(struct memory_reply *reply);

void memory_reply_wait_for_end(struct memory_reply *reply);

/* Waits until the body holds the text. */
void memory_reply_wait_for_text(struct memory_reply *reply, const char *text);

/* Whether the reply has ended, and what the body has so far as a copy. Owned: string_buffer_deinit. */
bool memory_reply_is_ended(struct memory_reply *reply);
struct string_buffer memory_reply_body(struct memory_reply *reply);

/* The client goes away. */
void memory_reply_leave(struct memory_reply *reply);

#endif
