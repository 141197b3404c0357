#include "engine/rank_timeline.h"

#include "base/log.h"
#include "engine/executor_internal.h"
#include "engine/trace_file.h"

static void add_own(struct trace_file *file, const struct tick_trace *trace) {
    if (trace == NULL) {
        return;
    }
    struct trace_track track = tick_trace_track(trace);
    trace_file_add_track(file, &track);
    for (int64_t i = 0; i < track.count; i += trace_track_piece(&track, i)) {
        trace_file_add_events(file, &track, tick_trace_piece(trace, i), trace_track_piece(&track, i));
    }
}

static void warn_unless_ok(enum status status) {
    if (status != STATUS_OK) {
        log_write(LOG_WARNING, "engine", "%s", error_last()->message);
    }
}

void rank_timeline_write_lost(const char *path, int process, struct tick_trace *const *traces, int count) {
    struct trace_file *file;
    enum status status = trace_file_open(path, process, &file);
    if (status == STATUS_OK) {
        for (int i = 0; i < count; i++) {
            add_own(file, traces[i]);
        }
        status = trace_file_close(&file);
    }
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        tick_trace_set_written(traces[i]);
    }
    warn_unless_ok(status);
}

void rank_timeline_write(const char *path, struct tick_trace *const *traces, int count) {
    rank_timeline_write_lost(path, TRACE_FILE_OWN, traces, count);
}

static enum status take(struct executor *executor, int rank, void *memory, size_t bytes) {
    struct comm *control = executor->options.ranks->control;
    struct comm_request request;
    TRY(comm_start_receive(control, NULL, rank, memory, bytes, &request));
    return comm_wait(control, &request);
}

/* `piece`: room for events. */
static enum status add_other(struct executor *executor, int rank, struct trace_event *piece,
                             struct trace_file *file) {
    struct trace_track track;
    TRY(take(executor, rank, &track, sizeof track));
    CHECK(track.count >= 0 && track.first >= 0 && track.capacity >= track.count, STATUS_INTERNAL,
          "rank %d says that its trace has %lld events in room for %lld", rank, (long long)track.count,
          (long long)track.capacity);
    trace_file_add_track(file, &track);
    for (int64_t i = 0; i < track.count;) {
        int64_t count = trace_track_piece(&track, i);
        TRY(take(executor, rank, piece, (size_t)count * sizeof *piece));
        trace_file_add_events(file, &track, piece, count);
        i += count;
    }
    return STATUS_OK;
}

static enum status add_others(struct executor *executor, struct trace_event *piece, struct trace_file *file) {
    TRY(executor_lead(executor, &(struct plan_record){.kind = PLAN_KIND_TRACE}));
    for (int i = 1; i < comm_size(executor->options.ranks->control); i++) {
        TRY(add_other(executor, i, piece, file));
    }
    return STATUS_OK;
}

void rank_timeline_gather(const char *path, struct executor *const *leaders, int count) {
    struct trace_file *file;
    enum status status = trace_file_open(path, TRACE_FILE_OWN, &file);
    if (status == STATUS_OK) {
        for (int i = 0; i < count; i++) {
            add_own(file, leaders[i]->options.trace);
            /* Where a rank was lost, what the others say is still worth having. */
            warn_unless_ok(add_others(leaders[i], leaders[0]->trace_piece, file));
        }
        status = trace_file_close(&file);
    }
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        tick_trace_set_written(leaders[i]->options.trace);
    }
    warn_unless_ok(status);
}

static enum status send(struct executor *executor, const void *memory, size_t bytes) {
    struct comm *control = executor->options.ranks->control;
    struct comm_request request;
    TRY(comm_start_send(control, NULL, 0, memory, bytes, &request));
    return comm_wait(control, &request);
}

enum status executor_send_trace(struct executor *executor) {
    struct tick_trace *trace = executor->options.trace;
    const struct executor_ranks *ranks = executor->options.ranks;
    struct trace_track none = {
        .place = {.replica = ranks->replica, .rank = ranks->number, .stage = ranks->stage}};
    struct trace_track track = trace == NULL ? none : tick_trace_track(trace);
    TRY(send(executor, &track, sizeof track));
    for (int64_t i = 0; i < track.count; i += trace_track_piece(&track, i)) {
        TRY(send(executor, tick_trace_piece(trace, i),
                 (size_t)trace_track_piece(&track, i) * sizeof(struct trace_event)));
    }
    tick_trace_set_written(trace);
    return STATUS_OK;
}
