#include "support/process_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

void process_pair_run(void (*work)(void *context, const char *process), void *context) {
    pid_t child = fork();
    assert_true(child >= 0);
    work(context, child == 0 ? "child" : "parent");
    if (child == 0) {
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
