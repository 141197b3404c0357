/*
 * Sockets of the control connections: one name on this host, which leaves no file behind, and if there are
 * other hosts one port at one address.
 */
#ifndef SLUICE_LAUNCH_CONTROL_SOCKET_H
#define SLUICE_LAUNCH_CONTROL_SOCKET_H

#include "base/status.h"

enum { CONTROL_ADDRESS_BYTES = 160 };

/*
 * Listens on this host, and with `network_address` (numeric) there too, without blocking. `address` is what
 * control_socket_connect takes. listeners: this host's and the network's or -1; owned by the caller.
 */
enum status control_socket_listen(const char *network_address, int listeners[2],
                                  char address[CONTROL_ADDRESS_BYTES]);

/* Connects, on this host if the listener is here. PEER_LOST if nobody listens. The socket is the caller's. */
enum status control_socket_connect(const char *address, int *socket_out);

/* A message that is not taken is given up after some seconds, and a connection to a host that is silent. */
void control_socket_prepare(int file);

/* Process at the other end if it is on this host, else 0. */
int control_socket_peer_process(int file);

/* The numeric address that this host has in a network such as "10.0.0.0/24". USAGE if it has none. */
enum status control_socket_own_address(const char *network, char address[64]);

#endif
