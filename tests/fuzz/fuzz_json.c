/* JSON text: no crash, and what was accepted is written as text that reads and writes the same again. */
#include <stdint.h>
#include <string.h>

#include "lib/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes a value in either style; the buffer must be freed. */
static struct string_buffer write_text(const struct json *value, int is_spaced) {
    struct string_buffer text = {0};
    enum status status = is_spaced ? json_write_spaced(value, &text) : json_write(value, &text);
    if (status != STATUS_OK) {
        __builtin_trap();
    }
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json *value;
    if (json_parse((const char *)data, size, "input", &value) != STATUS_OK) {
        return 0;
    }
    for (int is_spaced = 0; is_spaced < 2; is_spaced++) {
        struct string_buffer first = write_text(value, is_spaced);
        struct json *again;
        if (json_parse(first.data, first.length, "output", &again) != STATUS_OK) {
            __builtin_trap();
        }
        struct string_buffer second = write_text(again, is_spaced);
        if (first.length != second.length || memcmp(first.data, second.data, first.length) != 0) {
            __builtin_trap();
        }
        string_buffer_deinit(&first);
        string_buffer_deinit(&second);
        json_free(&again);
    }
    json_free(&value);
    return 0;
}
