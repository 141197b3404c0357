/* Both files are lines of "key<blanks>:<blanks>value". */
#include "tools/bench_machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t";

/* The value of the first line with that key, without its line end. */
static bool read_value(const char *path, const char *key, char *out, size_t out_bytes) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    char line[512];
    bool is_found = false;
    size_t key_length = strlen(key);
    while (!is_found && fgets(line, sizeof line, file) != NULL) {
        const char *at = line + key_length;
        if (strncmp(line, key, key_length) != 0) {
            continue;
        }
        at += strspn(at, blanks);
        if (*at == ':') {
            at += 1;
            at += strspn(at, blanks);
            snprintf(out, out_bytes, "%.*s", (int)strcspn(at, "\n"), at);
            is_found = true;
        }
    }
    fclose(file);
    return is_found;
}

size_t bench_peak_resident_bytes(void) {
    char value[64];
    if (!read_value("/proc/self/status", "VmHWM", value, sizeof value)) {
        return 0;
    }
    return (size_t)strtoull(value, NULL, 10) * 1024;
}

void bench_cpu_name(char *out, size_t out_bytes) {
    if (!read_value("/proc/cpuinfo", "model name", out, out_bytes)) {
        snprintf(out, out_bytes, "unknown processor");
    }
}
