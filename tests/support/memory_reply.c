#include "support/memory_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/condition.h"

static const double patience_seconds = 20.0;

static struct memory_reply *begin(struct reply *reply) {
    struct memory_reply *memory = (struct memory_reply *)reply;
    pthread_mutex_lock(&memory->mutex);
    assert_false(memory->is_ended);
    return memory;
}

static void finish(struct memory_reply *memory) {
    pthread_cond_broadcast(&memory->changed);
    pthread_mutex_unlock(&memory->mutex);
}

static void set_head(struct memory_reply *memory, int status, const char *content_type) {
    assert_int_equal(memory->status, 0);
    memory->status = status;
    strncpy(memory->content_type, content_type, sizeof memory->content_type - 1);
}

static void whole(struct reply *reply, int status, const char *content_type, const char *body,
                  size_t length) {
    struct memory_reply *memory = begin(reply);
    set_head(memory, status, content_type);
    string_buffer_append(&memory->body, body, length);
    memory->is_ended = true;
    memory->left = NULL;
    finish(memory);
}

static void start(struct reply *reply, int status, const char *content_type) {
    struct memory_reply *memory = begin(reply);
    set_head(memory, status, content_type);
    memory->is_started = true;
    finish(memory);
}

static bool write_bytes(struct reply *reply, const char *bytes, size_t length) {
    struct memory_reply *memory = begin(reply);
    assert_true(memory->is_started);
    bool is_there = !memory->is_gone;
    if (is_there) {
        string_buffer_append(&memory->body, bytes, length);
        memory->write_count++;
    }
    finish(memory);
    return is_there;
}

static void end(struct reply *reply) {
    struct memory_reply *memory = begin(reply);
    assert_true(memory->is_started);
    memory->is_ended = true;
    memory->left = NULL;
    finish(memory);
}

static void header(struct reply *reply, struct reply_header header) {
    struct memory_reply *memory = begin(reply);
    assert_int_equal(memory->status, 0);
    string_buffer_append_format(&memory->headers, "%s: %s\n", header.name, header.value);
    finish(memory);
}

static void on_leave(struct reply *reply, void (*left)(void *context, bool is_certain), void *context) {
    struct memory_reply *memory = begin(reply);
    memory->left = memory->is_gone ? NULL : left;
    memory->left_context = context;
    if (memory->is_gone) {
        left(context, true);
    }
    finish(memory);
}

void memory_reply_init(struct memory_reply *reply) {
    static const struct reply_kind kind = {.whole = whole,
                                           .start = start,
                                           .write = write_bytes,
                                           .end = end,
                                           .header = header,
                                           .on_leave = on_leave};
    *reply = (struct memory_reply){.reply = {&kind}};
    pthread_mutex_init(&reply->mutex, NULL);
    assert_int_equal(condition_init(&reply->changed), STATUS_OK);
}

void memory_reply_deinit(struct memory_reply *reply) {
    string_buffer_deinit(&reply->headers);
    string_buffer_deinit(&reply->body);
    pthread_mutex_destroy(&reply->mutex);
    pthread_cond_destroy(&reply->changed);
}

void memory_reply_wait_for_end(struct memory_reply *reply) {
    double moment = clock_seconds() + patience_seconds;
    pthread_mutex_lock(&reply->mutex);
    while (!reply->is_ended) {
        assert_true(condition_wait_until(&reply->changed, &reply->mutex, moment));
    }
    pthread_mutex_unlock(&reply->mutex);
}

void memory_reply_wait_for_text(struct memory_reply *reply, const char *text) {
    double moment = clock_seconds() + patience_seconds;
    pthread_mutex_lock(&reply->mutex);
    while (strstr(string_buffer_text(&reply->body), text) == NULL) {
        assert_true(condition_wait_until(&reply->changed, &reply->mutex, moment));
    }
    pthread_mutex_unlock(&reply->mutex);
}

bool memory_reply_is_ended(struct memory_reply *reply) {
    pthread_mutex_lock(&reply->mutex);
    bool is_ended = reply->is_ended;
    pthread_mutex_unlock(&reply->mutex);
    return is_ended;
}

struct string_buffer memory_reply_body(struct memory_reply *reply) {
    struct string_buffer copy = {0};
    pthread_mutex_lock(&reply->mutex);
    string_buffer_append(&copy, string_buffer_text(&reply->body), reply->body.length);
    pthread_mutex_unlock(&reply->mutex);
    return copy;
}

/* The lock is held while the word is passed on, so that none comes after the reply's end. */
void memory_reply_leave(struct memory_reply *reply) {
    pthread_mutex_lock(&reply->mutex);
    reply->is_gone = true;
    if (reply->left != NULL) {
        reply->left(reply->left_context, true);
        reply->left = NULL;
    }
    pthread_mutex_unlock(&reply->mutex);
}
