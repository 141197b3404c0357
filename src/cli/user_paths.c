/* By the XDG base directory specification. */
#include "cli/user_paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Makes every folder on the way to the file. */
static enum status make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, 0700);
        int error = errno;
        CHECK(made == 0 || error == EEXIST, STATUS_IO, "the folder %s cannot be made: %s", path,
              strerror(error));
        *slash = '/';
    }
    return STATUS_OK;
}

enum status user_paths_find_history(struct string_buffer *path) {
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    /* The specification has relative paths ignored. */
    if (state != NULL && state[0] == '/') {
        string_buffer_append_text(path, state);
    } else {
        CHECK(home != NULL && home[0] == '/', STATUS_NOT_FOUND, "the environment names no home folder");
        string_buffer_append_format(path, "%s/.local/state", home);
    }
    string_buffer_append_text(path, "/sluice/chat_history");
    TRY(string_buffer_check(path));
    return make_folders(path->data);
}

void user_paths_append_typed(struct string_buffer *path, const char *text) {
    const char *home = getenv("HOME");
    if (home != NULL && text[0] == '~' && text[1] == '/') {
        string_buffer_append_text(path, home);
        text++;
    }
    string_buffer_append_text(path, text);
}
