/*
 * One thread polls the socket and an event that engine threads set; it alone calls the service. Generations
 * with news are in a list until there is room to tell of them.
 */
#include "server/worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/id_table.h"
#include "server/wire_connection.h"

enum {
    BACKLOG_BYTES = 256 << 10, /* above it updates wait */
    ARENA_BYTES = 16 << 10,
};

static const double STATS_SECONDS = 0.1; /* between two that nobody asked for */

struct worker_generation {
    struct id_node node;
    struct worker *worker;
    struct generation *generation;
    struct worker_generation *next_news;
    bool has_news; /* is in the list */
};

struct worker {
    struct wire_connection connection;
    struct service *service; /* NULL until it is open */
    struct id_table generations;
    int event; /* written to when there is something besides the socket to look at */
    bool is_fatal;
    bool is_lost;     /* the service cannot answer any more */
    bool has_changed; /* since stats were sent */
    double stats_sent_at;

    pthread_mutex_t mutex; /* guards the list of news, and what the opening thread leaves */
    struct worker_generation *first_news;
    struct worker_generation *last_news;
    const struct worker_source *source;
    struct service *opened;
    enum status open_status;
    char open_message[512];
    bool is_open_done;
};

static void wake(struct worker *worker) {
    uint64_t one = 1;
    while (write(worker->event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* On the engine's thread. */
static void notify(void *context) {
    struct worker_generation *generation = context;
    struct worker *worker = generation->worker;
    pthread_mutex_lock(&worker->mutex);
    bool is_new = !generation->has_news;
    bool was_empty = worker->first_news == NULL;
    if (is_new) {
        generation->has_news = true;
        generation->next_news = NULL;
        if (was_empty) {
            worker->first_news = generation;
        } else {
            worker->last_news->next_news = generation;
        }
        worker->last_news = generation;
    }
    pthread_mutex_unlock(&worker->mutex);
    if (is_new && was_empty) {
        wake(worker);
    }
}

static struct worker_generation *next_with_news(struct worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    struct worker_generation *generation = worker->first_news;
    if (generation != NULL) {
        worker->first_news = generation->next_news;
        generation->has_news = false;
    }
    pthread_mutex_unlock(&worker->mutex);
    return generation;
}

static void drop_news(struct worker *worker, struct worker_generation *generation) {
    pthread_mutex_lock(&worker->mutex);
    struct worker_generation *before = NULL;
    struct worker_generation *at = worker->first_news;
    while (at != NULL && at != generation) {
        before = at;
        at = at->next_news;
    }
    if (at != NULL && before == NULL) {
        worker->first_news = at->next_news;
    } else if (at != NULL) {
        before->next_news = at->next_news;
        worker->last_news = worker->last_news == at ? before : worker->last_news;
    }
    pthread_mutex_unlock(&worker->mutex);
}

static void forget(struct worker *worker, struct worker_generation *generation) {
    worker->service->kind->release(&generation->generation);
    drop_news(worker, generation);
    id_table_remove(&worker->generations, &generation->node);
    free(generation);
}

static void put_end(struct worker *worker, uint64_t id, enum status status, const char *message) {
    struct wire_record record = {.kind = WIRE_UPDATE, .id = id};
    record.update.state = (struct sluice_request_state){.phase = SLUICE_REQUEST_FINISHED,
                                                        .finish_reason = SLUICE_FINISH_ERROR,
                                                        .status = (enum sluice_status)status};
    record.update.message = (struct service_text){message, strlen(message)};
    wire_connection_put(&worker->connection, &record);
}

/* An update may be an error that all generations get: so one looks after it was taken, not before. */
static enum status check_service(struct worker *worker) {
    const char *why = "";
    worker->is_lost = !worker->service->kind->is_ready(worker->service, &why);
    CHECK(!worker->is_lost, STATUS_PEER_LOST, "%s", why);
    return STATUS_OK;
}

/* Tells what has come; a generation that is over is forgotten. */
static enum status put_update(struct worker *worker, struct worker_generation *generation) {
    struct service_update update;
    struct arena arena;
    struct wire_record record = {.kind = WIRE_UPDATE, .id = generation->node.id};
    worker->service->kind->take(generation->generation, &update);
    TRY(check_service(worker));
    arena_init(&arena, ARENA_BYTES);
    record.update.state = update.state;
    record.update.message = (struct service_text){update.state.message, strlen(update.state.message)};
    if (wire_tokens_pack(update.tokens, update.token_count, &arena, &record.update.tokens) &&
        wire_tokens_pack(update.prompt_tokens, update.prompt_token_count, &arena,
                         &record.update.prompt_tokens)) {
        wire_connection_put(&worker->connection, &record);
        worker->has_changed = true;
    } else {
        update.state.phase = SLUICE_REQUEST_FINISHED;
        put_end(worker, generation->node.id, STATUS_OUT_OF_MEMORY, "out of memory for the answer's tokens");
    }
    arena_deinit(&arena);
    if (update.state.phase == SLUICE_REQUEST_FINISHED) {
        forget(worker, generation);
    }
    return STATUS_OK;
}

/* Tells all news as long as the front reads them. */
static enum status send_updates(struct worker *worker) {
    while (wire_connection_backlog(&worker->connection) < BACKLOG_BYTES) {
        struct worker_generation *generation = next_with_news(worker);
        if (generation == NULL) {
            break;
        }
        TRY(put_update(worker, generation));
        if (wire_connection_backlog(&worker->connection) >= BACKLOG_BYTES) {
            TRY(wire_connection_flush(&worker->connection));
        }
    }
    return STATUS_OK;
}

static void put_stats(struct worker *worker, uint64_t ping) {
    struct wire_record record = {.kind = WIRE_STATS, .id = ping};
    struct service_stats stats = {0};
    if (worker->service != NULL) {
        worker->service->kind->stats(worker->service, &stats);
    }
    record.stats = stats.engine;
    wire_connection_put(&worker->connection, &record);
    worker->has_changed = false;
    worker->stats_sent_at = clock_seconds();
}

static void submit(struct worker *worker, const struct wire_record *record) {
    struct service_request request = record->request;
    struct worker_generation *generation = calloc(1, sizeof *generation);
    if (generation == NULL) {
        put_end(worker, record->id, STATUS_OUT_OF_MEMORY, "out of memory for a request");
        return;
    }
    generation->node.id = record->id;
    generation->worker = worker;
    request.notify = notify;
    request.notify_context = generation;
    enum status status = worker->service->kind->submit(worker->service, &request, &generation->generation);
    if (status != STATUS_OK) {
        put_end(worker, record->id, status, error_last()->message);
        free(generation);
        return;
    }
    id_table_put(&worker->generations, &generation->node);
}

/* What the front says of generations that are over has crossed their end on the wire. */
static void carry_out(struct worker *worker, const struct wire_record *record) {
    struct id_node *node = id_table_find(&worker->generations, record->id);
    struct worker_generation *generation = (struct worker_generation *)(void *)node;
    worker->has_changed = true;
    if (record->kind == WIRE_PING) {
        put_stats(worker, record->id);
    } else if (worker->service != NULL && record->kind == WIRE_SUBMIT) {
        submit(worker, record);
    } else if (worker->service != NULL && record->kind == WIRE_CLEAR) {
        worker->service->kind->clear_prefix_cache(worker->service);
    } else if (generation != NULL && record->kind == WIRE_CANCEL) {
        worker->service->kind->cancel(generation->generation);
    } else if (generation != NULL && record->kind == WIRE_RELEASE) {
        forget(worker, generation);
    }
}

static enum status take_records(struct worker *worker) {
    struct wire_frame frame;
    bool has_frame = false;
    TRY(wire_connection_read(&worker->connection));
    TRY(wire_connection_next(&worker->connection, &frame, &has_frame));
    while (has_frame) {
        struct wire_record record;
        struct arena arena;
        arena_init(&arena, ARENA_BYTES);
        enum status status = wire_read(&frame, &arena, &record);
        if (status == STATUS_OK) {
            carry_out(worker, &record);
        }
        arena_deinit(&arena);
        if (status != STATUS_OK) {
            return error_forward(status, ERROR_HERE);
        }
        TRY(wire_connection_next(&worker->connection, &frame, &has_frame));
    }
    return STATUS_OK;
}

/* On a thread of its own. */
static void *open_service(void *context) {
    struct worker *worker = context;
    struct service *service = NULL;
    enum status status = worker->source->open(worker->source->context, &service);
    pthread_mutex_lock(&worker->mutex);
    worker->opened = service;
    worker->open_status = status;
    if (status != STATUS_OK) {
        snprintf(worker->open_message, sizeof worker->open_message, "%.511s", error_last()->message);
    }
    worker->is_open_done = true;
    pthread_mutex_unlock(&worker->mutex);
    wake(worker);
    return NULL;
}

/* Tells the front how opening went, once. */
static void look_at_opening(struct worker *worker) {
    pthread_mutex_lock(&worker->mutex);
    bool is_done = worker->is_open_done;
    pthread_mutex_unlock(&worker->mutex);
    if (!is_done || worker->service != NULL || worker->is_fatal) {
        return;
    }
    struct wire_record record = {.kind = WIRE_READY};
    if (worker->open_status == STATUS_OK) {
        worker->service = worker->opened;
        record.facts = worker->service->kind->facts(worker->service);
    } else {
        worker->is_fatal = true;
        record.kind = WIRE_FATAL;
        record.status = worker->open_status;
        record.message = (struct service_text){worker->open_message, strlen(worker->open_message)};
    }
    wire_connection_put(&worker->connection, &record);
}

/* Waits for something to do; with unsent stats only as long as they may wait. */
static enum status wait_for_news(struct worker *worker) {
    short wanted = wire_connection_backlog(&worker->connection) > 0 ? POLLIN | POLLOUT : POLLIN;
    struct pollfd polled[] = {{worker->connection.socket, wanted, 0}, {worker->event, POLLIN, 0}};
    double left = worker->stats_sent_at + STATS_SECONDS - clock_seconds();
    int timeout_ms = !worker->has_changed ? -1 : left <= 0.0 ? 0 : 1 + (int)(left * 1000.0);
    int count = poll(polled, 2, timeout_ms);
    CHECK(count >= 0 || errno == EINTR, STATUS_IO, "waiting for the front failed: %s", strerror(errno));
    if (polled[1].revents != 0) {
        uint64_t events;
        ssize_t bytes = read(worker->event, &events, sizeof events);
        (void)bytes;
    }
    return (polled[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 ? take_records(worker) : STATUS_OK;
}

static enum status serve(struct worker *worker) {
    for (;;) {
        TRY(wait_for_news(worker));
        look_at_opening(worker);
        TRY(send_updates(worker));
        /* Who hangs gives no updates; the front's questions wake this thread. */
        if (worker->service != NULL) {
            TRY(check_service(worker));
        }
        if (worker->has_changed && clock_seconds() - worker->stats_sent_at >= STATS_SECONDS) {
            put_stats(worker, 0);
        }
        TRY(wire_connection_flush(&worker->connection));
    }
}

static enum status run(struct worker *worker) {
    pthread_t opening;
    int error = pthread_create(&opening, NULL, open_service, worker);
    CHECK(error == 0, STATUS_OUT_OF_MEMORY, "the thread that opens the model cannot be started: %s",
          strerror(error));
    enum status status = serve(worker);
    char message[ERROR_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", error_last()->message);
    pthread_join(opening, NULL);
    struct id_node *node = NULL;
    worker->service = worker->opened;
    while ((node = id_table_any(&worker->generations)) != NULL) {
        forget(worker, (struct worker_generation *)(void *)node);
    }
    if (worker->service != NULL) {
        worker->service->kind->close(&worker->service);
    }
    CHECK(!worker->is_lost, status, "%s", message);
    return status == STATUS_PEER_LOST ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status worker_run(int socket, const struct worker_source *source) {
    struct worker *worker = calloc(1, sizeof *worker);
    CHECK_MEMORY(worker);
    worker->source = source;
    worker->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&worker->mutex, NULL);
    enum status status = wire_connection_init(&worker->connection, socket);
    if (status == STATUS_OK && worker->event < 0) {
        status = error_raise(STATUS_IO, ERROR_HERE, "no event can be made: %s", strerror(errno));
    }
    if (status == STATUS_OK) {
        status = run(worker);
    }
    wire_connection_deinit(&worker->connection);
    if (worker->event >= 0) {
        close(worker->event);
    }
    pthread_mutex_destroy(&worker->mutex);
    free(worker);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
