/*
 * One end of the wire: a stream socket with what has come in and what is to go out. One thread at a time.
 */
#ifndef SLUICE_SERVER_WIRE_CONNECTION_H
#define SLUICE_SERVER_WIRE_CONNECTION_H

#include <stdbool.h>

#include "server/wire.h"

struct wire_connection {
    int socket; /* owned; -1: none */
    struct string_buffer in;
    size_t in_taken; /* bytes of `in` that have been taken as frames */
    struct string_buffer out;
    size_t out_sent; /* bytes of `out` that are gone */
};

/* Takes the socket over and makes it non-blocking. */
enum status wire_connection_init(struct wire_connection *connection, int socket);

/* Closes and frees; fine for a zeroed struct with socket -1, and twice. */
void wire_connection_deinit(struct wire_connection *connection);

/* Reads what has come, up to a bounded amount. PEER_LOST: the other side has closed or is gone. */
enum status wire_connection_read(struct wire_connection *connection);

/*
 * The next whole frame, valid until the next read; *has_frame says whether there is one. BAD_FORMAT as
 * wire_frame_find.
 */
enum status wire_connection_next(struct wire_connection *connection, struct wire_frame *out, bool *has_frame);

/* Appends a record to what is to go out. */
void wire_connection_put(struct wire_connection *connection, const struct wire_record *record);

/* Bytes that are still to go out. */
size_t wire_connection_backlog(const struct wire_connection *connection);

/* Sends as much as the socket takes. PEER_LOST as for reading; OUT_OF_MEMORY if a put found no memory. */
enum status wire_connection_flush(struct wire_connection *connection);

#endif
