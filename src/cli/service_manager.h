/*
 * The service manager that started this process (systemd), if one did: sockets that it hands over, and words
 * to it. Without one, nothing happens. The main thread, before others start.
 */
#ifndef SLUICE_CLI_SERVICE_MANAGER_H
#define SLUICE_CLI_SERVICE_MANAGER_H

#include "base/status.h"

/*
 * The socket that it opened for this process (LISTEN_FDS), which then is this process's alone; -1 if there is
 * none. USAGE if there are several.
 */
enum status service_manager_take_socket(int *out);

/* Tells it something, such as "READY=1" (NOTIFY_SOCKET). Losing a word harms nobody here. */
void service_manager_tell(const char *words);

/* Seconds after which it wants to have heard "WATCHDOG=1" (WATCHDOG_USEC); 0: it does not. */
double service_manager_watchdog_seconds(void);

#endif
