/* The same work in two processes at once, for tests of what they share. */
#ifndef SLUICE_TESTS_SUPPORT_PROCESS_PAIR_H
#define SLUICE_TESTS_SUPPORT_PROCESS_PAIR_H

/*
 * Forks, and calls `work` in both processes, which it tells which one it is in: "parent" or "child". Returns
 * in the parent, when the child has ended. Asserts that the child's work came to its end too. To be called
 * while the process has no other threads.
 */
void process_pair_run(void (*work)(void *context, const char *process), void *context);

#endif
