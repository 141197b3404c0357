#include "support/temporary_directory.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

int enter_temporary_directory(void **state) {
    char *path = strdup("test.XXXXXX");
    *state = path;
    return path == NULL || mkdtemp(path) == NULL || chdir(path) != 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

int leave_temporary_directory(void **state) {
    int result = chdir("..") != 0 || nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS) != 0;
    free(*state);
    return result;
}

void temporary_file_write(const char *path, const char *text) {
    char folder[256];
    strcpy(folder, path);
    for (char *slash = strchr(folder, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}
