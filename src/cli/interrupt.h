/*
 * Ctrl-C as something to ask for, instead of the end of the process.
 *
 * The flag is the process's: a signal handler has nothing else to write to. One user at a time.
 */
#ifndef SLUICE_CLI_INTERRUPT_H
#define SLUICE_CLI_INTERRUPT_H

#include <stdbool.h>

#include "base/status.h"

/* From now on SIGINT is remembered. */
enum status interrupt_start_catching(void);

/* Forgets what came so far. */
void interrupt_forget(void);

/* Whether SIGINT came since it was last forgotten. */
bool interrupt_has_come(void);

#endif
