/*
 * The worker's side of the wire: opens a service and does what the front asks, until the front is gone.
 *
 * While the service is being opened, on a thread of its own, pings are answered already. Updates of
 * generations wait where they are while the front does not read: what is kept here has a bound.
 *
 * A service that cannot answer any more ends the worker, before the front hears of the errors that this is to
 * its generations: another worker goes on with them.
 */
#ifndef SLUICE_SERVER_WORKER_H
#define SLUICE_SERVER_WORKER_H

#include "server/service.h"

/* What a worker serves. */
struct worker_source {
    enum status (*open)(void *context, struct service **out);
    void *context;
};

/*
 * Serves on the socket, which is taken over, and returns OK when the front has closed it. What the source's
 * open says goes to the front; it is returned only if the front could not be told. PEER_LOST: the service
 * cannot answer any more.
 */
enum status worker_run(int socket, const struct worker_source *source);

#endif
