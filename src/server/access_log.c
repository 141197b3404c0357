#include "server/access_log.h"

#include <string.h>
#include <time.h>

static void append_time(struct string_buffer *out) {
    struct timespec now;
    struct tm parts;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    string_buffer_append_format(out, "time=%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void append_value(struct string_buffer *out, const char *name, const char *value) {
    string_buffer_append_format(out, " %s=", name);
    for (const char *at = value; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte <= ' ' || byte >= 0x7f || strchr("\"%=\\", byte) != NULL) {
            string_buffer_append_format(out, "%%%02X", (unsigned)byte);
        } else {
            string_buffer_append_char(out, *at);
        }
    }
    if (*value == '\0') {
        string_buffer_append_char(out, '-');
    }
}

void access_log_format(const struct access_entry *entry, struct string_buffer *out) {
    append_time(out);
    append_value(out, "peer", entry->peer);
    append_value(out, "method", entry->method);
    append_value(out, "path", entry->path);
    string_buffer_append_format(out, " status=%d bytes=%zu seconds=%.4f", entry->status, entry->bytes,
                                entry->seconds);
    append_value(out, "id", entry->request_id);
    string_buffer_append_text(out, entry->has_left ? " left=yes\n" : "\n");
}

void access_log_write(struct line_writer *lines, const struct access_entry *entry) {
    struct string_buffer line = {0};
    access_log_format(entry, &line);
    if (string_buffer_check(&line) == STATUS_OK) {
        line_writer_put(lines, line.data, line.length);
    }
    string_buffer_deinit(&line);
}
