/* The thread sleeps in poll; it and the rank's own thread share only the sending side, under a lock. */
#include "launch/control_link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/build_id.h"
#include "base/clock.h"
#include "launch/control_socket.h"

static const double HANDSHAKE_SECONDS = 20;

/* Often enough that the last report of a rank that dies says what it was at. */
enum { REPORT_MILLISECONDS = 250, REPORT_BYTES = 256, EXIT_SIGNAL_BASE = 128 };

struct control_link {
    struct control_channel channel;
    struct string_buffer key;
    int stop;   /* eventfd */
    int signal; /* signalfd of SIGTERM */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards sending, and what follows */
    void (*describe)(void *context, char *text, size_t bytes);
    void *context;
};

static enum status await_frame(struct control_link *link, enum control_kind kind,
                               struct control_frame *frame) {
    double until = clock_seconds() + HANDSHAKE_SECONDS;
    frame->kind = 0;
    while (frame->kind == 0) {
        struct pollfd file = {.fd = link->channel.socket, .events = POLLIN};
        CHECK(clock_seconds() < until, STATUS_PEER_LOST, "the job's launcher does not answer");
        poll(&file, 1, REPORT_MILLISECONDS);
        TRY(control_channel_receive(&link->channel, frame));
    }
    CHECK(frame->kind != CONTROL_FAULT, STATUS_PEER_LOST, "%s", (const char *)frame->payload);
    CHECK(frame->kind == kind, STATUS_BAD_FORMAT, "the job's launcher answers in another order");
    return STATUS_OK;
}

static enum status introduce(struct control_link *link, const struct control_link_options *options) {
    struct control_hello hello = {.rank = options->rank, .rank_count = options->rank_count};
    char build[BUILD_ID_TEXT_BYTES];
    build_id_read(build);
    snprintf(hello.build, sizeof hello.build, "%s", build);
    gethostname(hello.host, sizeof hello.host - 1);
    TRY(hash_random_bytes(hello.nonce, sizeof hello.nonce));
    memcpy(link->channel.nonces[1], hello.nonce, sizeof hello.nonce);
    return control_channel_send(&link->channel, CONTROL_HELLO, &hello, sizeof hello, NULL, 0);
}

/* All three, or the error stream alone. */
static void take_streams(struct control_channel *channel) {
    int first = channel->file_count == 3 ? STDIN_FILENO : STDERR_FILENO;
    for (int i = 0; i < channel->file_count; i++) {
        dup2(channel->files[i], first + i);
        close(channel->files[i]);
    }
    channel->file_count = 0;
}

static enum status shake_hands(struct control_link *link, const struct control_link_options *options) {
    struct control_frame frame;
    TRY(await_frame(link, CONTROL_CHALLENGE, &frame));
    TRY(introduce(link, options));
    TRY(await_frame(link, CONTROL_WELCOME, &frame));
    take_streams(&link->channel);
    return STATUS_OK;
}

static void report(struct control_link *link) {
    char text[REPORT_BYTES] = "starting";
    pthread_mutex_lock(&link->lock);
    if (link->describe != NULL) {
        link->describe(link->context, text, sizeof text);
    }
    control_channel_send(&link->channel, CONTROL_REPORT, text, strlen(text), NULL, 0);
    pthread_mutex_unlock(&link->lock);
}

/* Ends the process if the supervisor wants it or is gone. */
static void obey(struct control_link *link) {
    struct control_frame frame;
    do {
        if (control_channel_receive(&link->channel, &frame) != STATUS_OK || frame.kind == CONTROL_FAULT) {
            _exit(EXIT_FAILURE);
        }
    } while (frame.kind != 0);
}

static void *watch(void *context) {
    struct control_link *link = context;
    double reported = 0;
    struct pollfd files[] = {{.fd = link->channel.socket, .events = POLLIN},
                             {.fd = link->stop, .events = POLLIN},
                             {.fd = link->signal, .events = POLLIN}};
    while ((files[1].revents & POLLIN) == 0) {
        if ((files[2].revents & POLLIN) != 0) {
            struct control_end end = {.exit_code = EXIT_SIGNAL_BASE + SIGTERM};
            pthread_mutex_lock(&link->lock);
            control_channel_send(&link->channel, CONTROL_LEAVING, &end, sizeof end, NULL, 0);
            _exit(EXIT_SIGNAL_BASE + SIGTERM);
        }
        obey(link);
        if (clock_seconds() - reported >= 0.9e-3 * REPORT_MILLISECONDS) {
            report(link);
            reported = clock_seconds();
        }
        poll(files, sizeof files / sizeof files[0], REPORT_MILLISECONDS);
    }
    return NULL;
}

static enum status start(struct control_link *link) {
    sigset_t terminate;
    sigset_t all;
    sigset_t before;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &terminate, NULL);
    link->stop = eventfd(0, EFD_CLOEXEC);
    link->signal = signalfd(-1, &terminate, SFD_CLOEXEC);
    CHECK(link->stop >= 0 && link->signal >= 0, STATUS_IO, "a rank's events cannot be made: %s",
          strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int error = pthread_create(&link->thread, NULL, watch, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "a rank's control thread cannot be started (error %d)", error);
    link->has_thread = true;
    return STATUS_OK;
}

static void stop_thread(struct control_link *link) {
    const uint64_t one = 1;
    if (link->has_thread && write(link->stop, &one, sizeof one) == (ssize_t)sizeof one) {
        pthread_join(link->thread, NULL);
        link->has_thread = false;
    }
}

static void free_link(struct control_link *link) {
    stop_thread(link);
    if (link->stop >= 0) {
        close(link->stop);
    }
    if (link->signal >= 0) {
        close(link->signal);
    }
    control_channel_deinit(&link->channel);
    string_buffer_deinit(&link->key);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

enum status control_link_open(struct control_link_options *options, struct control_link **out) {
    enum status status = STATUS_OK;
    int file = -1;
    *out = NULL;
    struct control_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        string_buffer_deinit(&options->key);
    }
    CHECK_MEMORY(link);
    link->key = options->key;
    options->key = (struct string_buffer){0};
    link->stop = -1;
    link->signal = -1;
    pthread_mutex_init(&link->lock, NULL);
    control_channel_init(&link->channel, -1, false, &link->key, 0);
    /* Whoever started this process ends, and it with them. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    TRY_GOTO(control_socket_connect(options->address, &file));
    link->channel.socket = file;
    TRY_GOTO(shake_hands(link, options));
    TRY_GOTO(start(link));
    *out = link;
    return STATUS_OK;
fail:
    free_link(link);
    return status;
}

void control_link_set_describe(struct control_link *link,
                               void (*describe)(void *context, char *text, size_t bytes), void *context) {
    pthread_mutex_lock(&link->lock);
    link->describe = describe;
    link->context = context;
    pthread_mutex_unlock(&link->lock);
}

static void end(struct control_link **link_pointer, enum control_kind kind, const struct control_end *end) {
    struct control_link *link = *link_pointer;
    *link_pointer = NULL;
    if (link != NULL) {
        stop_thread(link); /* nobody obeys any more: the end is decided here */
        control_channel_send(&link->channel, kind, end, sizeof *end, NULL, 0);
        free_link(link);
    }
}

void control_link_leave(struct control_link **link, int exit_code) {
    const struct control_end leaving = {.exit_code = exit_code};
    end(link, CONTROL_LEAVING, &leaving);
}

void control_link_fail(struct control_link **link, int exit_code, enum status status, const char *message) {
    struct control_end failed = {.exit_code = exit_code, .status = (int32_t)status};
    snprintf(failed.message, sizeof failed.message, "%s", message);
    end(link, CONTROL_FAILED, &failed);
}
