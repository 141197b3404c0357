#include "engine/trace_remains.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/rank_timeline.h"
#include "engine/tick_trace.h"

enum { REMAINS_MAX = 4096 }; /* more are left for another time */

struct remains {
    struct tick_trace *rings[REMAINS_MAX];
    int count;
};

/* "trace.json" of "folder/trace.json". */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static void append_folder(const char *path, struct string_buffer *out) {
    size_t length = (size_t)(base_name(path) - path);
    string_buffer_append_format(out, "%.*s", (int)length, path);
}

/* What names of rings begin with, without the folder. */
static void append_prefix(const char *path, struct string_buffer *out) {
    string_buffer_append_format(out, "%s.ticks-", base_name(path));
}

bool trace_remains_have_place(const char *trace_path) {
    struct stat state;
    return stat(trace_path, &state) == 0 && S_ISREG(state.st_mode);
}

void trace_remains_name(const char *trace_path, int rank, struct string_buffer *out) {
    append_folder(trace_path, out);
    append_prefix(trace_path, out);
    string_buffer_append_format(out, "%d-%d", (int)getpid(), rank);
}

static void take(struct remains *remains, const char *path) {
    struct tick_trace *ring = NULL;
    if (remains->count < REMAINS_MAX && tick_trace_take_over(path, &ring) == STATUS_OK && ring != NULL) {
        remains->rings[remains->count++] = ring;
    }
}

/* Takes over all that nobody has. */
static struct remains *find_remains(const char *trace_path) {
    struct string_buffer folder = {0};
    struct string_buffer prefix = {0};
    struct remains *remains = calloc(1, sizeof *remains);
    append_folder(trace_path, &folder);
    append_prefix(trace_path, &prefix);
    DIR *directory = opendir(folder.length == 0 ? "." : string_buffer_text(&folder));
    for (struct dirent *entry;
         directory != NULL && remains != NULL && (entry = readdir(directory)) != NULL;) {
        if (strncmp(entry->d_name, string_buffer_text(&prefix), prefix.length) == 0) {
            struct string_buffer path = {0};
            string_buffer_append_format(&path, "%s%s", string_buffer_text(&folder), entry->d_name);
            take(remains, string_buffer_text(&path));
            string_buffer_deinit(&path);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    string_buffer_deinit(&folder);
    string_buffer_deinit(&prefix);
    return remains;
}

/* Rings of one engine come together, ranks in order. */
static int compare_rings(const void *a, const void *b) {
    const struct tick_trace *const *x = a;
    const struct tick_trace *const *y = b;
    struct trace_owner first = tick_trace_owner(*x);
    struct trace_owner second = tick_trace_owner(*y);
    int first_rank = tick_trace_track(*x).place.rank;
    int second_rank = tick_trace_track(*y).place.rank;
    return first.team != second.team ? (first.team > second.team) - (first.team < second.team)
                                     : (first_rank > second_rank) - (first_rank < second_rank);
}

static void drop(struct remains *remains, bool is_written) {
    for (int i = 0; i < remains->count; i++) {
        if (is_written) {
            tick_trace_set_written(remains->rings[i]);
        }
        tick_trace_destroy(&remains->rings[i]);
    }
    free(remains);
}

void trace_remains_add(const char *trace_path) {
    struct remains *remains = find_remains(trace_path);
    if (remains == NULL) {
        return;
    }
    qsort(remains->rings, (size_t)remains->count, sizeof remains->rings[0], compare_rings);
    for (int first = 0, end = 0; first < remains->count; first = end) {
        struct trace_owner owner = tick_trace_owner(remains->rings[first]);
        while (end < remains->count && tick_trace_owner(remains->rings[end]).team == owner.team) {
            end++;
        }
        rank_timeline_write_lost(trace_path, owner.process, remains->rings + first, end - first);
    }
    drop(remains, false);
}

void trace_remains_remove(const char *trace_path) {
    struct remains *remains = find_remains(trace_path);
    if (remains != NULL) {
        drop(remains, true);
    }
}
