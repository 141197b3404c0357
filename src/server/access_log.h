/* One line for each request, name=value. Any thread. */
#ifndef SLUICE_SERVER_ACCESS_LOG_H
#define SLUICE_SERVER_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"
#include "server/line_writer.h"

struct access_entry {
    const char *peer;
    const char *method;
    const char *path;
    const char *request_id; /* "": none */
    int status;
    size_t bytes; /* of the reply's body */
    double seconds;
    bool has_left; /* the client, before the end */
};

/* Appends the line. Bytes that could end a value or hide what follows are percent-encoded. */
void access_log_format(const struct access_entry *entry, struct string_buffer *out);

/* Formats it and hands it on; does not wait until it is written. */
void access_log_write(struct line_writer *lines, const struct access_entry *entry);

#endif
