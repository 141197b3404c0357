/* System calls go on after the signal: who wants to stop asks. */
#include "cli/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t has_come;

static void remember(int signal_number) {
    (void)signal_number;
    has_come = 1;
}

enum status interrupt_start_catching(void) {
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(SIGINT, &action, NULL) == 0, STATUS_INTERNAL, "SIGINT cannot be caught: %s",
          strerror(errno));
    return STATUS_OK;
}

void interrupt_forget(void) {
    has_come = 0;
}

bool interrupt_has_come(void) {
    return has_come != 0;
}
