#include "support/state_digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t hash_bytes(uint64_t hash, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

static void copy_rows(const struct engine_core *engine, const void *from, void *to, size_t bytes) {
    assert_int_equal(stream_copy_to_host(engine->stream, to, from, bytes), STATUS_OK);
    assert_int_equal(stream_synchronize(engine->stream), STATUS_OK);
}

/* All rows of a ring. */
static unsigned char *copy_ring(const struct engine_core *engine, const struct state_rows *rows,
                                int32_t slot) {
    size_t bytes = (size_t)rows->rows_per_slot * rows->row_bytes;
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    copy_rows(engine, state_rows_at_position(rows, slot, 0), copy, bytes);
    return copy;
}

/* Entries 0..count-1 of a slot, in the pages where its table says. */
static unsigned char *copy_entries(const struct engine_core *engine, const struct state_rows *rows,
                                   int32_t slot, int64_t count) {
    const int32_t *pages = engine->states.page_table + slot * rows->pages_per_slot;
    unsigned char *copy = malloc((size_t)count * rows->row_bytes + 1);
    assert_non_null(copy);
    for (int64_t i = 0; i < count; i += rows->rows_per_page) {
        int64_t page = pages[i / rows->rows_per_page];
        int64_t length = rows->rows_per_page < count - i ? rows->rows_per_page : count - i;
        const unsigned char *from =
            (const unsigned char *)rows->memory + (size_t)(page * rows->rows_per_page) * rows->row_bytes;
        assert_true(page >= 0);
        copy_rows(engine, from, copy + (size_t)i * rows->row_bytes, (size_t)length * rows->row_bytes);
    }
    return copy;
}

static uint64_t hash_ring(const struct state_rows *rows, const unsigned char *copy, int64_t length,
                          int64_t readable) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (int64_t p = length < readable ? 0 : length - readable; p < length; p++) {
        hash = hash_bytes(hash, copy + (size_t)(p % rows->rows_per_slot) * rows->row_bytes, rows->row_bytes);
    }
    return hash;
}

void state_digest_take(const struct engine_core *engine, int32_t slot, int64_t length,
                       struct state_digest *out) {
    out->count = 0;
    for (int i = 0; i < engine->state_table.count; i++) {
        const struct state_kind *kind = &engine->state_table.kinds[i];
        const struct state_rows *rows = &engine->states.rows[i];
        unsigned char *copy;
        if (kind->is_draft) {
            continue;
        }
        assert_true(out->count < STATE_DIGEST_KINDS_MAX);
        if (kind->shape == STATE_RING) {
            copy = copy_ring(engine, rows, slot);
            int64_t readable = kind->snapshot_period > 0 ? length % kind->snapshot_period
                                                         : kind->rows - engine->model->draft_limit;
            out->kinds[out->count++] = hash_ring(rows, copy, length, readable);
        } else {
            copy = copy_entries(engine, rows, slot, length / kind->ratio);
            size_t bytes = (size_t)(length / kind->ratio) * rows->row_bytes;
            out->kinds[out->count++] = hash_bytes(0xCBF29CE484222325u, copy, bytes);
        }
        free(copy);
    }
}

void state_digest_expect_equal(const struct engine_core *engine, const struct state_digest *actual,
                               const struct state_digest *expected, const char *what) {
    assert_int_equal(actual->count, expected->count);
    for (int i = 0; i < actual->count; i++) {
        if (actual->kinds[i] != expected->kinds[i]) {
            fail_msg("%s: state \"%s\" of layer %d differs", what, engine->state_table.kinds[i].name,
                     engine->state_table.kinds[i].layer);
        }
    }
}
