/*
 * A service over an engine in this process: for a server without worker, and inside a worker.
 */
#ifndef SLUICE_SERVER_SERVICE_ENGINE_H
#define SLUICE_SERVER_SERVICE_ENGINE_H

#include "server/service.h"

/*
 * Opens the engine. Errors as sluice_engine_open. What is wrong with a grammar comes as the end of its
 * generation, with the status that submit would have had: a thread compiles it, and nobody waits. The
 * tokenizer is that file, or with NULL the tokenizer.json in the model's folder; where there is none, rules
 * are UNSUPPORTED. Owned: close, once all generations have been released.
 */
enum status service_engine_open(const struct sluice_engine_options *options, const char *tokenizer_file,
                                struct service **out);

#endif
