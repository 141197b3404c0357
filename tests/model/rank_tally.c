#include "model/rank_tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"

/* Tensors that the ranks of a stage share, by name (table 1.3). */
static bool is_shared(const char *name, bool has_experts_shared) {
    static const char *const parts[] = {"attn.attn_sink", "attn.wq_b.", "attn.wo_a.", "attn.wo_b.",
                                        "shared_experts."};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(name, parts[i]) != NULL) {
            return true;
        }
    }
    return strcmp(name, "head.weight") == 0 || (has_experts_shared && strstr(name, ".experts.") != NULL);
}

/* How often all ranks together hold each byte of a tensor. */
static int expected_copies(const struct rank_setting *setting, const char *name) {
    const struct mesh_shape *mesh = &setting->mesh;
    bool has_draft = setting->draft_limit > 0;
    if (strncmp(name, "mtp.", 4) == 0 && !has_draft) {
        return 0;
    }
    if (strstr(name, ".experts.") != NULL && mesh->has_expert_parallelism) {
        return 1;
    }
    if (is_shared(name, true)) {
        return mesh->data;
    }
    int stages = strcmp(name, "embed.weight") == 0 && has_draft && mesh->pipeline > 1 ? 2 : 1;
    return mesh->data * mesh->tensor * stages;
}

/* How often each byte of each tensor was loaded. */
struct tally {
    struct checkpoint *files;
    unsigned char **counts; /* per tensor of the files */
    size_t loaded_bytes;
    size_t occupied_bytes; /* mapped and copied */
    size_t used_count;
};

static void tally_init(struct tally *tally, const char *directory) {
    *tally = (struct tally){0};
    EXPECT_OK(checkpoint_open(directory, &tally->files));
    tally->counts = calloc(tally->files->tensor_count, sizeof *tally->counts);
    for (size_t i = 0; i < tally->files->tensor_count; i++) {
        tally->counts[i] = calloc(1, tally->files->tensors[i].bytes + 1);
        assert_non_null(tally->counts[i]);
    }
}

static void tally_deinit(struct tally *tally) {
    for (size_t i = 0; i < tally->files->tensor_count; i++) {
        free(tally->counts[i]);
    }
    free(tally->counts);
    checkpoint_close(&tally->files);
}

/* Compares a loaded part with the place of the file that it says it is. */
static void tally_part(struct tally *tally, const struct loaded_tensor *loaded, const char *name,
                       struct stream *stream) {
    const struct checkpoint_tensor *file = checkpoint_find(tally->files, name);
    unsigned char *counts = tally->counts[file - tally->files->tensors];
    const unsigned char *whole = checkpoint_tensor_data(tally->files, file);
    size_t element = dtype_bytes(file->dtype);
    size_t stride = element * (file->rank == 1 ? 1 : (size_t)file->shape[1]);
    size_t row_bytes = element * (file->rank == 1 ? 1 : (size_t)loaded->part.shape[1]);
    size_t first = (size_t)loaded->part.first_row * stride + (size_t)loaded->part.first_column * element;
    unsigned char *copy = malloc(loaded->bytes + 1);
    assert_int_equal(loaded->bytes, row_bytes * (size_t)loaded->part.shape[0]);
    if (loaded->bytes > 0) {
        EXPECT_OK(stream_copy_to_host(stream, copy, loaded->data, loaded->bytes));
        EXPECT_OK(stream_synchronize(stream));
    }
    for (size_t at = 0; at < loaded->bytes; at += row_bytes) {
        size_t place = first + at / row_bytes * stride;
        if (place + row_bytes > file->bytes || memcmp(copy + at, whole + place, row_bytes) != 0) {
            fail_msg("%s: row %zu of a part is not what the file has at byte %zu", name, at / row_bytes,
                     place);
        }
        for (size_t i = 0; i < row_bytes; i++) {
            counts[place + i]++;
        }
    }
    free(copy);
    tally->loaded_bytes += loaded->bytes;
    tally->used_count++;
}

static void tally_rank(struct tally *tally, const struct loaded_rank *rank, struct stream *stream) {
    for (size_t i = 0; i < rank->list.count; i++) {
        if (rank->tensors[i].data != NULL) {
            tally_part(tally, &rank->tensors[i], rank->list.specs[i].name, stream);
        }
    }
    tally->occupied_bytes += rank->weights.mapped_bytes + rank->weights.copied_bytes;
}

static void expect_tally(const struct tally *tally, const struct rank_setting *setting) {
    size_t expected_bytes = 0;
    for (size_t t = 0; t < tally->files->tensor_count; t++) {
        const struct checkpoint_tensor *file = &tally->files->tensors[t];
        int copies = expected_copies(setting, file->name);
        expected_bytes += (size_t)copies * file->bytes;
        for (size_t i = 0; i < file->bytes; i++) {
            if (tally->counts[t][i] != copies) {
                fail_msg("%s, P %d T %d EP %d: byte %zu is loaded %d times, expected %d", file->name,
                         setting->mesh.pipeline, setting->mesh.tensor, setting->mesh.has_expert_parallelism,
                         i, tally->counts[t][i], copies);
            }
        }
    }
    assert_int_equal(tally->loaded_bytes, expected_bytes);
    assert_in_range(tally->occupied_bytes, expected_bytes,
                    expected_bytes + tally->used_count * (LOADER_ALIGNMENT - 1));
}

void rank_tally_expect_whole(const struct rank_setting *setting, struct device *device,
                             struct stream *stream) {
    struct tally tally;
    tally_init(&tally, setting->directory);
    for (int r = 0; r < mesh_rank_count(&setting->mesh); r++) {
        struct loaded_rank rank;
        rank_load(setting, r, device, stream, &rank);
        tally_rank(&tally, &rank, stream);
        rank_free(&rank, device);
    }
    expect_tally(&tally, setting);
    tally_deinit(&tally);
}
