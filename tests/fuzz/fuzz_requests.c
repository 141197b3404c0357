/*
 * Requests of the model APIs with any body: each gets one whole reply of JSON or events, and what the reply
 * refuses it refuses with a sentence and a status that puts the fault where it is.
 *
 * Input: a path, a newline, the body.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/request_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void *fixture;
    if (fixture == NULL) {
        api_fixture_open(&fixture);
    }
    const uint8_t *newline = size == 0 ? NULL : memchr(data, '\n', size);
    for (size_t i = 0; newline != NULL && i < request_check_path_count; i++) {
        size_t length = strlen(request_check_paths[i]);
        if (length == (size_t)(newline - data) && memcmp(data, request_check_paths[i], length) == 0) {
            request_check(fixture, request_check_paths[i], (const char *)newline + 1, size - length - 1);
        }
    }
    return 0;
}
