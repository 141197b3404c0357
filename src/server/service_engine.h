/*
 * A service over an engine in this process: for a server without worker, and inside a worker.
 */
#ifndef SLUICE_SERVER_SERVICE_ENGINE_H
#define SLUICE_SERVER_SERVICE_ENGINE_H

#include "server/service.h"

/*
 * Opens the engine. Errors as sluice_engine_open. Submitting gives UNSUPPORTED for rules that cannot be kept
 * here. Owned: close, once all generations have been released.
 */
enum status service_engine_open(const struct sluice_engine_options *options, struct service **out);

#endif
