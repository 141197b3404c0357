/* The socket that a server listens on: a TCP address, a path in the file system, or one that is open already.
 */
#ifndef SLUICE_LIB_HTTP_LISTEN_H
#define SLUICE_LIB_HTTP_LISTEN_H

#include "lib/http_server.h"

struct http_listener {
    int socket;
    int port;        /* 0 if it is no TCP socket */
    char *unix_path; /* of a socket file that was made; NULL if none was */
};

/* Opens it as the options say. Owned: http_listener_close. */
enum status http_listener_open(const struct http_server_options *options, struct http_listener *out);

/* Closes the socket unless it is -1 and removes the file that was made for it. */
void http_listener_close(struct http_listener *listener);

#endif
