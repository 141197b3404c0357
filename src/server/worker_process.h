/*
 * A worker as a process of its own: started with one end of a socket pair, watched, killed.
 *
 * It is its own process group, so that a signal for it reaches whatever it starts, and one from the terminal
 * does not reach it. A process is started by exec only; whoever starts it must be a thread that stays: the
 * worker asks to die with it.
 */
#ifndef SLUICE_SERVER_WORKER_PROCESS_H
#define SLUICE_SERVER_WORKER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/status.h"

/*
 * The descriptor that a worker finds its end of the wire at, in place of the standard input: a worker of
 * several processes passes that on to the one that speaks for them. It inherits the standard ones only.
 */
enum { WORKER_PROCESS_SOCKET = STDIN_FILENO };

/*
 * Starts `program` with `arguments` (the first one is its name, the last one NULL). The front's end of the
 * wire goes to *socket, owned by the caller.
 */
enum status worker_process_start(const char *program, const char *const *arguments, pid_t *pid, int *socket);

/* Makes this process one that ends with the thread that started it, and not by a terminal's signals. */
void worker_process_settle(void);

/*
 * Whether the process is over, waiting for its end up to `timeout_seconds`; `how` then says how it ended
 * ("was killed by signal 9"), and the process is gone for good.
 */
bool worker_process_reap(pid_t pid, double timeout_seconds, char *how, size_t how_bytes);

/* Kills the process and its group. It must be reaped. */
void worker_process_kill(pid_t pid);

#endif
