/*
 * Chrome's trace event format: {"traceEvents": [{"ph": "X", "ts", "dur", ...}]}, names of processes and
 * tracks as "M", each on a line of its own. The end says how many processes there are: who adds one writes
 * over it.
 */
#include "engine/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TAIL_BYTES = 64, PROCESSES_MAX = 100000 };

static const char HEAD[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";

struct trace_file {
    FILE *file;
    const char *path;
    int process;       /* of this engine in the picture, and of its first replica */
    int process_count; /* of this engine */
    char owner[64];    /* its process, in words */
};

static int open_descriptor(const char *path, int flags) {
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0666);
}

enum status trace_file_prepare(const char *path, bool keeps_others) {
    int descriptor = open_descriptor(path, keeps_others ? 0 : O_TRUNC);
    CHECK(descriptor >= 0, STATUS_IO, "the trace cannot be written to %s: %s", path, strerror(errno));
    close(descriptor);
    return STATUS_OK;
}

/* How many processes a complete file says it has, and where its end begins; 0: it is none. */
static int find_end(int descriptor, off_t *end) {
    char tail[TAIL_BYTES + 1] = "";
    struct stat state;
    int count = 0;
    if (fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode)) {
        return 0;
    }
    off_t first = state.st_size > TAIL_BYTES ? state.st_size - TAIL_BYTES : 0;
    ssize_t length = pread(descriptor, tail, TAIL_BYTES, first);
    const char *at = length > 0 ? strstr(tail, "\n], \"processCount\": ") : NULL;
    if (at == NULL || sscanf(at, "\n], \"processCount\": %6d}", &count) != 1 || count < 1 ||
        count > PROCESSES_MAX) {
        return 0;
    }
    *end = first + (at - tail);
    return count;
}

/*
 * The same of a file whose last writer was killed while it wrote: lines that have another one behind them are
 * whole. 0: there is none, or the file is something else.
 */
static int find_cut(FILE *file, off_t *end) {
    struct stat state;
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    off_t at = 0;
    if (fstat(fileno(file), &state) != 0 || !S_ISREG(state.st_mode)) {
        return 0;
    }
    rewind(file);
    for (ssize_t length; (length = getline(&line, &room, file)) > 0; at += length) {
        if (at == 0 && (length != sizeof HEAD || strncmp(line, HEAD, sizeof HEAD - 1) != 0)) {
            break;
        }
        if (length >= 2 && strcmp(line + length - 2, ",\n") == 0) {
            count += strstr(line, "\"process_name\"") != NULL;
            *end = at + length - 2;
        }
    }
    free(line);
    return count;
}

/* At the place where this process's events go. */
static bool begin_process(struct trace_file *trace) {
    off_t end = 0;
    int descriptor = fileno(trace->file);
    trace->process = find_end(descriptor, &end);
    if (trace->process == 0) {
        trace->process = find_cut(trace->file, &end);
        /* What is no regular file has no length to set, and no place to go to. */
        int ignored = ftruncate(descriptor, end);
        (void)ignored;
    }
    bool is_placed = fseeko(trace->file, end, SEEK_SET) == 0;
    if (trace->process == 0) {
        fputs(HEAD, trace->file);
    } else if (!is_placed) {
        return false;
    }
    fprintf(trace->file,
            "%s\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"engine %d "
            "of %s\"}}",
            trace->process == 0 ? "" : ",", trace->process, trace->process, trace->owner);
    trace->process_count = 1;
    return true;
}

enum status trace_file_open(const char *path, int process, struct trace_file **out) {
    enum status status = STATUS_OK;
    struct trace_file *trace = calloc(1, sizeof *trace);
    CHECK_MEMORY(trace);
    trace->path = path;
    snprintf(trace->owner, sizeof trace->owner, "process %d%s",
             process == TRACE_FILE_OWN ? (int)getpid() : process,
             process == TRACE_FILE_OWN ? "" : ", which was lost");
    int descriptor = open_descriptor(path, 0);
    CHECK_GOTO(descriptor >= 0, STATUS_IO, "the trace cannot be written to %s: %s", path, strerror(errno));
    /* What cannot be locked, such as a terminal, has one writer. */
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    (void)fcntl(descriptor, F_OFD_SETLKW, &whole);
    trace->file = fdopen(descriptor, "r+");
    if (trace->file == NULL) {
        close(descriptor);
    }
    CHECK_MEMORY_GOTO(trace->file);
    CHECK_GOTO(begin_process(trace), STATUS_IO, "the trace cannot be added to %s: %s", path, strerror(errno));
    *out = trace;
    return STATUS_OK;
fail:
    if (trace->file != NULL) {
        fclose(trace->file);
    }
    free(trace);
    return status;
}

static int process_of(const struct trace_file *trace, const struct trace_track *track) {
    return trace->process + track->place.replica;
}

void trace_file_add_track(struct trace_file *trace, const struct trace_track *track) {
    const struct trace_place *place = &track->place;
    for (; trace->process_count <= place->replica; trace->process_count++) {
        fprintf(trace->file,
                ",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, "
                "\"args\": {\"name\": \"replica %d of engine %d of %s\"}}",
                trace->process + trace->process_count, trace->process_count, trace->process, trace->owner);
    }
    fprintf(trace->file,
            ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ",
            process_of(trace, track), place->rank);
    if (place->stage < 0) {
        fprintf(trace->file, "\"leader\"}}");
    } else {
        fprintf(trace->file, "\"rank %d, stage %d\"}}", place->rank, place->stage);
    }
}

void trace_file_add_events(struct trace_file *trace, const struct trace_track *track,
                           const struct trace_event *events, int64_t count) {
    static const char *const names[] = {
        [TRACE_PLAN] = "plan",     [TRACE_AWAIT] = "await",         [TRACE_RECEIVE] = "receive-wait",
        [TRACE_STEP] = "step",     [TRACE_SEND_WAIT] = "send-wait", [TRACE_SEND] = "send",
        [TRACE_CHOOSE] = "choose", [TRACE_DRAFT] = "draft",         [TRACE_FEEDBACK_WAIT] = "feedback-wait",
    };
    for (int64_t i = 0; i < count; i++) {
        const struct trace_event *event = &events[i];
        fprintf(trace->file,
                ",\n{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
                "\"args\": {\"tick\": %" PRIu64 ", \"group\": %d, \"rows\": %" PRId64 "}}",
                names[event->kind], process_of(trace, track), track->place.rank, event->began * 1e6,
                (event->ended - event->began) * 1e6, event->tick.number, event->tick.group, event->tick.rows);
    }
}

enum status trace_file_close(struct trace_file **trace_pointer) {
    struct trace_file *trace = *trace_pointer;
    const char *path = trace->path;
    *trace_pointer = NULL;
    fprintf(trace->file, "\n], \"processCount\": %d}\n", trace->process + trace->process_count);
    bool is_written = ferror(trace->file) == 0;
    is_written &= fclose(trace->file) == 0;
    free(trace);
    CHECK(is_written, STATUS_IO, "the trace in %s is not complete: is the disk full?", path);
    return STATUS_OK;
}
