#include "engine/disk_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct prefix_disk *disk_open(const char *directory, uint8_t model, uint64_t limit_bytes) {
    struct prefix_disk_options options = {.directory = directory,
                                          .page_tokens = DISK_PAGE_TOKENS,
                                          .page_bytes = DISK_PAGE_BYTES,
                                          .snapshot_bytes = DISK_SNAPSHOT_BYTES,
                                          .limit_bytes = limit_bytes,
                                          .buffer_count = DISK_BUFFERS};
    memset(options.model_key, model, sizeof options.model_key);
    struct prefix_disk *disk = NULL;
    assert_int_equal(prefix_disk_open(&options, &disk), STATUS_OK);
    return disk;
}

struct disk_page disk_page_after(struct prefix_disk *disk, const struct disk_page *parent, int32_t first) {
    struct disk_page page;
    for (int i = 0; i < DISK_PAGE_TOKENS; i++) {
        page.tokens[i] = first + i;
    }
    assert_int_equal(prefix_disk_key(disk, parent == NULL ? NULL : &parent->key, page.tokens, &page.key),
                     STATUS_OK);
    return page;
}

static size_t make_payload(const struct disk_page *page, enum prefix_entry_kind kind,
                           unsigned char *payload) {
    size_t length = kind == PREFIX_ENTRY_PAGE ? DISK_PAGE_BYTES : DISK_SNAPSHOT_BYTES;
    for (size_t i = 0; i < length; i++) {
        payload[i] = (unsigned char)(page->tokens[0] * 7 + page->key.digest[i % PREFIX_KEY_BYTES] + kind);
    }
    return length;
}

bool disk_write(struct prefix_disk *disk, const struct disk_page *page, enum prefix_entry_kind kind,
                bool has_draft_rows) {
    struct prefix_disk_buffer *buffer = prefix_disk_reserve(disk, kind);
    if (buffer == NULL) {
        return false;
    }
    assert_int_equal((uintptr_t)buffer->payload % 64, 0);
    assert_int_equal(make_payload(page, kind, buffer->payload), buffer->payload_bytes);
    prefix_disk_submit(disk, buffer, &page->key, page->tokens, has_draft_rows);
    return true;
}

bool disk_read(struct prefix_disk *disk, const struct disk_page *page, enum prefix_entry_kind kind,
               bool *has_draft_rows) {
    unsigned char payload[DISK_SNAPSHOT_BYTES];
    unsigned char expected[DISK_SNAPSHOT_BYTES];
    if (!prefix_disk_read(disk, &page->key, kind, page->tokens, payload, has_draft_rows)) {
        return false;
    }
    size_t length = make_payload(page, kind, expected);
    assert_memory_equal(payload, expected, length);
    return true;
}

const char *disk_path(const char *directory, const struct disk_page *page, enum prefix_entry_kind kind) {
    static char path[256];
    struct prefix_file_name name = prefix_file_name_make(&page->key, kind);
    snprintf(path, sizeof path, "%s/%s", directory, name.text);
    return path;
}

size_t disk_file_read(const char *path, unsigned char *bytes, size_t limit) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t length = fread(bytes, 1, limit, file);
    fclose(file);
    return length;
}

void disk_file_write(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}
