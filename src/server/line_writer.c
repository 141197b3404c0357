/* A full pipe cannot be told from one that will be full by writing to it, only by asking (poll). */
#include "server/line_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

/* A pipe that poll calls writable takes as much at once (PIPE_BUF of Linux). */
enum { PIECE_BYTES = 4096, LOOK_MS = 50 };

static const double LEAVE_SECONDS = 1.0;

struct line_writer {
    struct line_writer_options options;
    pthread_t thread;
    bool has_said; /* the thread's */

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    char *room; /* a ring */
    size_t first;
    size_t length;
    uint64_t dropped_count;
    bool is_broken; /* nothing can be written any more */
    bool is_closing;
    double leave_at; /* on the clock, when it is closing */
};

static bool can_take(int descriptor, int timeout_ms) {
    struct pollfd question = {.fd = descriptor, .events = POLLOUT};
    return poll(&question, 1, timeout_ms) == 1;
}

/* Once, and only if that waits for nobody either. */
static void say_dropped(struct line_writer *writer) {
    uint64_t count = line_writer_dropped_count(writer);
    if (count > 0 && !writer->has_said && can_take(STDERR_FILENO, 0)) {
        writer->has_said = true;
        log_write(LOG_WARNING, "server", "%" PRIu64 " %s", count, writer->options.advice);
    }
}

/* Up to the last line end in a piece, so that lines of several writers do not mix; a longer line is cut. */
static size_t copy_piece(const struct line_writer *writer, char *piece) {
    size_t count = writer->length < PIECE_BYTES ? writer->length : PIECE_BYTES;
    size_t whole = 0;
    for (size_t i = 0; i < count; i++) {
        piece[i] = writer->room[(writer->first + i) % writer->options.room_bytes];
        whole = piece[i] == '\n' ? i + 1 : whole;
    }
    return whole > 0 ? whole : count;
}

/* The mutex is held. */
static void drop_all(struct line_writer *writer) {
    for (size_t i = 0; i < writer->length; i++) {
        writer->dropped_count += writer->room[(writer->first + i) % writer->options.room_bytes] == '\n';
    }
    writer->length = 0;
}

/* Whether the time to leave has come: reads what another thread sets. */
static bool must_leave(struct line_writer *writer) {
    pthread_mutex_lock(&writer->mutex);
    bool must = writer->is_closing && clock_seconds() > writer->leave_at;
    pthread_mutex_unlock(&writer->mutex);
    return must;
}

/* Bytes that were written; 0: none ever will be. */
static size_t write_piece(struct line_writer *writer, const char *piece, size_t length) {
    while (!must_leave(writer)) {
        if (can_take(writer->options.descriptor, LOOK_MS)) {
            ssize_t written = write(writer->options.descriptor, piece, length);
            if (written >= 0 || errno != EAGAIN) {
                return written > 0 ? (size_t)written : 0;
            }
        }
        say_dropped(writer);
    }
    return 0;
}

/* Waits for lines and writes some of them; false when there is nothing more to do. */
static bool write_some(struct line_writer *writer) {
    char piece[PIECE_BYTES];
    pthread_mutex_lock(&writer->mutex);
    while (writer->length == 0 && !writer->is_closing) {
        pthread_cond_wait(&writer->changed, &writer->mutex);
    }
    size_t length = copy_piece(writer, piece);
    pthread_mutex_unlock(&writer->mutex);
    if (length == 0) {
        return false;
    }
    size_t written = write_piece(writer, piece, length);
    pthread_mutex_lock(&writer->mutex);
    writer->first = (writer->first + written) % writer->options.room_bytes;
    writer->length -= written;
    if (written == 0) {
        writer->is_broken = true;
        drop_all(writer);
    }
    pthread_mutex_unlock(&writer->mutex);
    say_dropped(writer);
    return true;
}

static void *run(void *context) {
    while (write_some(context)) {
    }
    say_dropped(context);
    return NULL;
}

static enum status start_thread(struct line_writer *writer) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&writer->thread, NULL, run, writer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY,
          "the thread that writes the access log cannot be started (error %d)", error);
    return STATUS_OK;
}

static void free_writer(struct line_writer *writer) {
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    free(writer->room);
    free(writer);
}

enum status line_writer_create(const struct line_writer_options *options, struct line_writer **out) {
    enum status status = STATUS_OK;
    struct line_writer *writer = calloc(1, sizeof *writer);
    CHECK_MEMORY(writer);
    writer->options = *options;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_cond_init(&writer->changed, NULL);
    writer->room = malloc(options->room_bytes);
    CHECK_MEMORY_GOTO(writer->room);
    TRY_GOTO(start_thread(writer));
    *out = writer;
    return STATUS_OK;
fail:
    free_writer(writer);
    return status;
}

void line_writer_destroy(struct line_writer **writer_pointer) {
    struct line_writer *writer = *writer_pointer;
    *writer_pointer = NULL;
    if (writer == NULL) {
        return;
    }
    pthread_mutex_lock(&writer->mutex);
    writer->is_closing = true;
    writer->leave_at = clock_seconds() + LEAVE_SECONDS;
    pthread_cond_signal(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
    pthread_join(writer->thread, NULL);
    free_writer(writer);
}

void line_writer_put(struct line_writer *writer, const char *line, size_t length) {
    pthread_mutex_lock(&writer->mutex);
    size_t room = writer->options.room_bytes;
    if (writer->is_broken || length > room - writer->length) {
        writer->dropped_count++;
    } else {
        size_t at = (writer->first + writer->length) % room;
        size_t before_end = length < room - at ? length : room - at;
        memcpy(writer->room + at, line, before_end);
        memcpy(writer->room, line + before_end, length - before_end);
        writer->length += length;
        pthread_cond_signal(&writer->changed);
    }
    pthread_mutex_unlock(&writer->mutex);
}

uint64_t line_writer_dropped_count(struct line_writer *writer) {
    pthread_mutex_lock(&writer->mutex);
    uint64_t count = writer->dropped_count;
    pthread_mutex_unlock(&writer->mutex);
    return count;
}
