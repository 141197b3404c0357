/* Reads go to the end of one buffer; taken frames leave it before the next read, so frames stay aligned. */
#include "server/wire_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    READS_AT_ONCE = 16, /* then others have their turn */
    SENT_BYTES_KEPT = 256 << 10,
};

enum status wire_connection_init(struct wire_connection *connection, int socket) {
    *connection = (struct wire_connection){.socket = socket};
    int flags = fcntl(socket, F_GETFL);
    CHECK(flags >= 0 && fcntl(socket, F_SETFL, flags | O_NONBLOCK) == 0, STATUS_IO,
          "descriptor %d is no socket between front and worker: %s", socket, strerror(errno));
    return STATUS_OK;
}

void wire_connection_deinit(struct wire_connection *connection) {
    if (connection->socket >= 0) {
        close(connection->socket);
    }
    string_buffer_deinit(&connection->in);
    string_buffer_deinit(&connection->out);
    *connection = (struct wire_connection){.socket = -1};
}

static bool is_only_busy(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

enum status wire_connection_read(struct wire_connection *connection) {
    char bytes[READ_BYTES];
    string_buffer_drop_front(&connection->in, connection->in_taken);
    connection->in_taken = 0;
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t count = recv(connection->socket, bytes, sizeof bytes, 0);
        if (count < 0 && is_only_busy(errno)) {
            break;
        }
        CHECK(count > 0, STATUS_PEER_LOST, "the other side of the wire is gone (%s)",
              count == 0 ? "closed" : strerror(errno));
        string_buffer_append(&connection->in, bytes, (size_t)count);
        if ((size_t)count < sizeof bytes) {
            break;
        }
    }
    return string_buffer_check(&connection->in);
}

enum status wire_connection_next(struct wire_connection *connection, struct wire_frame *out,
                                 bool *has_frame) {
    size_t frame_bytes = 0;
    *has_frame = false;
    const unsigned char *bytes =
        (const unsigned char *)string_buffer_text(&connection->in) + connection->in_taken;
    TRY(wire_frame_find(bytes, connection->in.length - connection->in_taken, out, &frame_bytes));
    connection->in_taken += frame_bytes;
    *has_frame = frame_bytes > 0;
    return STATUS_OK;
}

void wire_connection_put(struct wire_connection *connection, const struct wire_record *record) {
    wire_write(&connection->out, record);
}

size_t wire_connection_backlog(const struct wire_connection *connection) {
    return connection->out.length - connection->out_sent;
}

enum status wire_connection_flush(struct wire_connection *connection) {
    TRY(string_buffer_check(&connection->out));
    while (wire_connection_backlog(connection) > 0) {
        ssize_t count = send(connection->socket, connection->out.data + connection->out_sent,
                             wire_connection_backlog(connection), MSG_NOSIGNAL);
        if (count < 0 && is_only_busy(errno)) {
            break;
        }
        CHECK(count > 0, STATUS_PEER_LOST, "the other side of the wire is gone (%s)", strerror(errno));
        connection->out_sent += (size_t)count;
    }
    if (wire_connection_backlog(connection) == 0 || connection->out_sent > SENT_BYTES_KEPT) {
        string_buffer_drop_front(&connection->out, connection->out_sent);
        connection->out_sent = 0;
    }
    return STATUS_OK;
}
