#include "cli/config_file.h"

#include <string.h>

#include "base/log.h"
#include "cli/foreign_options.h"
#include "lib/yaml.h"

/* The last file that the arguments name; NULL: none. No option's value starts with two dashes. */
static const char *find_path(int argc, char **argv) {
    static const char word[] = "--config";
    size_t length = sizeof word - 1;
    const char *path = NULL;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], word, length) != 0) {
            continue;
        }
        if (argv[i][length] == '=') {
            path = argv[i] + length + 1;
        } else if (argv[i][length] == '\0' && i + 1 < argc) {
            path = argv[i + 1];
        }
    }
    return path;
}

enum status config_file_read(int argc, char **argv, bool takes_foreign, struct arena *arena,
                             struct option_settings *out) {
    const char *path = find_path(argc, argv);
    *out = (struct option_settings){0};
    if (path == NULL) {
        return STATUS_OK;
    }
    TRY(yaml_read_settings(path, arena, out));
    struct option_setting *kept = ARENA_NEW(arena, struct option_setting, out->count + 1);
    CHECK_MEMORY(kept);
    size_t count = 0;
    for (size_t i = 0; i < out->count; i++) {
        const struct option_setting *setting = &out->items[i];
        CHECK(strcmp(setting->name, "config") != 0, STATUS_USAGE,
              "%s, line %d: a file of options names no other", path, setting->line);
        const struct foreign_option *foreign = takes_foreign ? foreign_options_find(setting->name) : NULL;
        if (foreign == NULL) {
            kept[count++] = *setting;
            continue;
        }
        const char *refusal = foreign_option_refusal(foreign, setting->value);
        CHECK(refusal == NULL, STATUS_USAGE, "%s, line %d: %s has no meaning here: %s; leave it out", path,
              setting->line, setting->name, refusal);
        log_write(LOG_WARNING, "cli", "%s, line %d: %s changes nothing here%s%s", path, setting->line,
                  setting->name, foreign->hint == NULL ? "" : ": ",
                  foreign->hint == NULL ? "" : foreign->hint);
    }
    out->items = kept;
    out->count = count;
    return STATUS_OK;
}
