#include "support/checkpoint_edit.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/elements.h"
#include "weights/checkpoint.h"
#include "weights/checkpoint_writer.h"
#include "weights/fixture.h"

enum { EXTRA_BYTES = 4 };

/* One copy on its way: the entries to write and where their bytes come from. */
struct copy {
    const struct checkpoint_edit *edit;
    const struct checkpoint *source;
    struct safetensors_entry *entries;
    const struct checkpoint_tensor **tensors; /* NULL: an extra */
    size_t count;
};

static bool is_widened(const struct copy *copy, const struct checkpoint_tensor *tensor) {
    return copy->edit->widens_scales && tensor->dtype == DTYPE_F8_E8M0;
}

static void plan_entries(struct copy *copy) {
    const struct checkpoint *source = copy->source;
    size_t extra_count = 0;
    while (copy->edit->extras != NULL && copy->edit->extras[extra_count] != NULL) {
        extra_count++;
    }
    copy->entries = calloc(source->tensor_count + extra_count, sizeof *copy->entries);
    copy->tensors = calloc(source->tensor_count + extra_count, sizeof *copy->tensors);
    assert_non_null(copy->entries);
    assert_non_null(copy->tensors);
    for (size_t i = 0; i < source->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &source->tensors[i];
        if (copy->edit->left_out != NULL && fnmatch(copy->edit->left_out, tensor->name, 0) == 0) {
            continue;
        }
        struct safetensors_entry *entry = &copy->entries[copy->count];
        entry->name = tensor->name;
        entry->dtype = is_widened(copy, tensor) ? DTYPE_F32 : tensor->dtype;
        entry->rank = tensor->rank;
        memcpy(entry->shape, tensor->shape, sizeof entry->shape);
        copy->tensors[copy->count++] = tensor;
    }
    for (size_t i = 0; i < extra_count; i++) {
        copy->entries[copy->count++] = (struct safetensors_entry){
            .name = copy->edit->extras[i], .dtype = DTYPE_BF16, .rank = 1, .shape = {EXTRA_BYTES / 2}};
    }
}

static void apply_patches(const struct copy *copy, const struct checkpoint_tensor *tensor,
                          unsigned char *bytes) {
    for (size_t i = 0; i < copy->edit->patch_count; i++) {
        const struct checkpoint_patch *patch = &copy->edit->patches[i];
        if (strcmp(patch->name, tensor->name) == 0) {
            assert_true(patch->offset + patch->count <= tensor->bytes);
            memcpy(bytes + patch->offset, patch->bytes, patch->count);
        }
    }
}

static void append_tensor(const struct copy *copy, const struct checkpoint_tensor *tensor,
                          struct checkpoint_writer *writer) {
    unsigned char *bytes = malloc(tensor->bytes);
    assert_non_null(bytes);
    memcpy(bytes, checkpoint_tensor_data(copy->source, tensor), tensor->bytes);
    apply_patches(copy, tensor, bytes);
    if (is_widened(copy, tensor)) {
        float *values = calloc(tensor->bytes, sizeof *values);
        assert_non_null(values);
        elements_decode(DTYPE_F8_E8M0, bytes, (int64_t)tensor->bytes, values);
        assert_int_equal(checkpoint_writer_append(writer, values, tensor->bytes * sizeof *values), STATUS_OK);
        free(values);
    } else {
        assert_int_equal(checkpoint_writer_append(writer, bytes, tensor->bytes), STATUS_OK);
    }
    free(bytes);
}

static void expect_patches_used(const struct copy *copy) {
    for (size_t i = 0; i < copy->edit->patch_count; i++) {
        assert_non_null(checkpoint_find(copy->source, copy->edit->patches[i].name));
    }
}

void checkpoint_copy_edited(const char *from, const char *to, const struct checkpoint_edit *edit) {
    static const unsigned char zeros[EXTRA_BYTES] = {0};
    char path[2 * FIXTURE_PATH_BYTES];
    struct checkpoint *source;
    struct checkpoint_writer *writer;
    assert_int_equal(checkpoint_open(from, &source), STATUS_OK);
    struct copy copy = {.edit = edit, .source = source};
    expect_patches_used(&copy);
    plan_entries(&copy);
    assert_int_equal(checkpoint_writer_open(to, copy.entries, copy.count, edit->shard_bytes, &writer),
                     STATUS_OK);
    for (size_t i = 0; i < copy.count; i++) {
        if (copy.tensors[i] == NULL) {
            assert_int_equal(checkpoint_writer_append(writer, zeros, EXTRA_BYTES), STATUS_OK);
        } else {
            append_tensor(&copy, copy.tensors[i], writer);
        }
    }
    assert_int_equal(checkpoint_writer_finish(&writer), STATUS_OK);
    snprintf(path, sizeof path, "%s/config.json", from);
    fixture_copy(to, path, "config.json");
    free(copy.entries);
    free(copy.tensors);
    checkpoint_close(&source);
}
