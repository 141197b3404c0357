/* All files are lines of "key<blanks>:<blanks>value". */
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

/* A value in kB; 0 if there is none. */
static size_t read_bytes(const char *path, const char *key) {
    char value[64];
    return read_value(path, key, value, sizeof value) ? (size_t)strtoull(value, NULL, 10) * 1024 : 0;
}

size_t bench_peak_resident_bytes(void) {
    return read_bytes("/proc/self/status", "VmHWM");
}

double bench_large_page_fraction(void) {
    size_t all = read_bytes("/proc/self/status", "RssFile");
    size_t large = read_bytes("/proc/self/smaps_rollup", "FilePmdMapped");
    return all > 0 ? (double)large / (double)all : 0.0;
}

void bench_cpu_name(char *out, size_t out_bytes) {
    if (!read_value("/proc/cpuinfo", "model name", out, out_bytes)) {
        snprintf(out, out_bytes, "unknown processor");
    }
}
