/* A working directory of a test's own. */
#ifndef SLUICE_TESTS_SUPPORT_TEMPORARY_DIRECTORY_H
#define SLUICE_TESTS_SUPPORT_TEMPORARY_DIRECTORY_H

/*
 * Setup and teardown of cmocka: makes a directory below the working directory and enters it; leaves it and
 * removes all that is in it. They take over *state. Return 0, or nonzero on failure.
 */
int enter_temporary_directory(void **state);
int leave_temporary_directory(void **state);

/* Writes a text file and the folders above it. Asserts. */
void temporary_file_write(const char *path, const char *text);

#endif
