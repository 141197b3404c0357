#include "support/golden_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void golden_file_open(const char *model, struct golden_file *out) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s/golden.safetensors", SLUICE_SOURCE_DIR, model);
    *out = (struct golden_file){0};
    assert_int_equal(file_map_open(path, &out->map), STATUS_OK);
    assert_int_equal(safetensors_parse(out->map.bytes, out->map.length, path, &out->header), STATUS_OK);
}

void golden_file_close(struct golden_file *golden) {
    safetensors_header_deinit(&golden->header);
    file_map_close(&golden->map);
}

/* The bytes of a tensor, at whatever alignment the file has. */
static const unsigned char *find(const struct golden_file *golden, const char *name, enum dtype dtype,
                                 int64_t *count) {
    for (size_t i = 0; i < golden->header.count; i++) {
        const struct safetensors_entry *entry = &golden->header.entries[i];
        if (strcmp(entry->name, name) == 0) {
            assert_int_equal(entry->dtype, dtype);
            *count = (int64_t)(entry->bytes / dtype_bytes(dtype));
            return golden->map.bytes + entry->offset;
        }
    }
    fail_msg("the golden file has no tensor %s", name);
    return NULL;
}

const float *golden_file_floats(struct golden_file *golden, const char *name, int64_t *count) {
    int64_t elements = 0;
    const unsigned char *bytes = find(golden, name, DTYPE_F32, &elements);
    float *values = ARENA_NEW(&golden->header.arena, float, (size_t)elements);
    assert_non_null(values);
    memcpy(values, bytes, (size_t)elements * sizeof *values);
    if (count != NULL) {
        *count = elements;
    }
    return values;
}

const int32_t *golden_file_integers(struct golden_file *golden, const char *name, int64_t *count) {
    int64_t elements = 0;
    const unsigned char *bytes = find(golden, name, DTYPE_I64, &elements);
    int32_t *values = ARENA_NEW(&golden->header.arena, int32_t, (size_t)elements);
    assert_non_null(values);
    for (int64_t i = 0; i < elements; i++) {
        int64_t value;
        memcpy(&value, bytes + (size_t)i * sizeof value, sizeof value);
        assert_in_range(value, 0, INT32_MAX);
        values[i] = (int32_t)value;
    }
    if (count != NULL) {
        *count = elements;
    }
    return values;
}
