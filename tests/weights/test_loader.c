/*
 * Comparing a checkpoint with a model's list, and loading it, on the CPU device and on the guard device.
 *
 * Small checkpoints are written here; the bundled model is loaded as a list made from its own names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"
#include "weights/checkpoint_writer.h"
#include "weights/fixture.h"
#include "weights/loader.h"
#include "weights/payload_check.h"

enum { ATTENTION, ATTENTION_SCALE, EXPERT, EXPERT_SCALE, DRAFT, DRAFT_SCALE, TABLE, LARGE, SPEC_COUNT };

struct scene {
    char directory[FIXTURE_PATH_BYTES];
    struct arena arena;
    struct tensor_spec_list list;
    struct checkpoint *checkpoint;
};

static void add_spec(struct scene *scene, const char *name, enum tensor_role role, enum dtype dtype,
                     int64_t rows, int64_t columns, int partner) {
    size_t index;
    assert_int_equal(tensor_spec_list_add(&scene->list, &index), STATUS_OK);
    struct tensor_spec *spec = &scene->list.specs[index];
    spec->name = name;
    spec->role = role;
    spec->dtype = dtype;
    spec->rank = 2;
    spec->shape[0] = rows;
    spec->shape[1] = columns;
    spec->partner = partner;
    spec->is_used = true;
}

static int make_scene(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    fixture_make(scene->directory);
    arena_init(&scene->arena, 1 << 16);
    scene->list.arena = &scene->arena;
    add_spec(scene, "layers.0.attn.wq_a.weight", TENSOR_FP8_MATRIX, DTYPE_F8_E4M3, 130, 4, ATTENTION_SCALE);
    add_spec(scene, "layers.0.attn.wq_a.scale", TENSOR_BLOCK_SCALE, DTYPE_F8_E8M0, 2, 1, ATTENTION);
    add_spec(scene, "layers.2.ffn.experts.3.w1.weight", TENSOR_FP4_MATRIX, DTYPE_I8, 3, 32, EXPERT_SCALE);
    add_spec(scene, "layers.2.ffn.experts.3.w1.scale", TENSOR_BLOCK_SCALE, DTYPE_F8_E8M0, 3, 2, EXPERT);
    add_spec(scene, "mtp.0.e_proj.weight", TENSOR_FP8_MATRIX, DTYPE_F8_E4M3, 2, 2, DRAFT_SCALE);
    add_spec(scene, "mtp.0.e_proj.scale", TENSOR_BLOCK_SCALE, DTYPE_F8_E8M0, 1, 1, DRAFT);
    add_spec(scene, "layers.0.ffn.gate.tid2eid", TENSOR_EXPERT_TABLE, DTYPE_I64, 5, 2, -1);
    add_spec(scene, "embed.weight", TENSOR_PLAIN, DTYPE_BF16, 300, 200, -1);
    scene->list.specs[TABLE].value_limit = 8;
    scene->list.specs[ATTENTION_SCALE].other_dtypes = DTYPE_BIT(DTYPE_F32);
    *state = scene;
    return 0;
}

static int drop_scene(void **state) {
    struct scene *scene = *state;
    checkpoint_close(&scene->checkpoint);
    arena_deinit(&scene->arena);
    fixture_remove(scene->directory);
    free(scene);
    return 0;
}

/* Byte i of tensor t is a small number that depends on both; expert ids are all 3 with `last_id` at the end.
 */
static void write_scene(struct scene *scene, const struct safetensors_entry *entries, size_t count,
                        int64_t last_id) {
    struct checkpoint_writer *writer;
    checkpoint_close(&scene->checkpoint);
    assert_int_equal(checkpoint_writer_open(scene->directory, entries, count, 0, &writer), STATUS_OK);
    for (size_t t = 0; t < count; t++) {
        size_t bytes;
        assert_int_equal(
            safetensors_tensor_bytes(entries[t].dtype, entries[t].rank, entries[t].shape, &bytes), STATUS_OK);
        unsigned char *data = malloc(bytes + 1);
        for (size_t i = 0; i < bytes; i++) {
            data[i] = (unsigned char)((i * 7 + t) % 101);
        }
        for (size_t i = 0; entries[t].dtype == DTYPE_I64 && i < bytes; i += 8) {
            const int64_t id = i + 8 == bytes ? last_id : 3;
            memcpy(data + i, &id, sizeof id);
        }
        assert_int_equal(checkpoint_writer_append(writer, data, bytes), STATUS_OK);
        free(data);
    }
    assert_int_equal(checkpoint_writer_finish(&writer), STATUS_OK);
    assert_int_equal(checkpoint_open(scene->directory, &scene->checkpoint), STATUS_OK);
}

/* The files that fit the list; `extra` entries are for additions. */
static size_t fitting_entries(const struct scene *scene, struct safetensors_entry entries[SPEC_COUNT + 4]) {
    for (size_t i = 0; i < SPEC_COUNT; i++) {
        const struct tensor_spec *spec = &scene->list.specs[i];
        entries[i] = (struct safetensors_entry){.name = spec->name, .dtype = spec->dtype, .rank = spec->rank};
        memcpy(entries[i].shape, spec->shape, sizeof entries[i].shape);
    }
    return SPEC_COUNT;
}

static void expect_misfit(struct scene *scene, const struct safetensors_entry *entries, size_t count,
                          const char *fragment) {
    write_scene(scene, entries, count, 3);
    fixture_expect_error(checkpoint_check(scene->checkpoint, &scene->list), STATUS_BAD_CHECKPOINT, fragment);
}

static void fitting_checkpoints_pass(void **state) {
    struct scene *scene = *state;
    struct safetensors_entry entries[SPEC_COUNT + 4];
    write_scene(scene, entries, fitting_entries(scene, entries), 3);
    assert_int_equal(checkpoint_check(scene->checkpoint, &scene->list), STATUS_OK);
    entries[ATTENTION_SCALE].dtype = DTYPE_F32;
    write_scene(scene, entries, SPEC_COUNT, 3);
    assert_int_equal(checkpoint_check(scene->checkpoint, &scene->list), STATUS_OK);
}

/* B29: one scale gone: of an attention matrix, of a routed expert, of the draft layer. */
static void missing_scales_name_their_matrix(void **state) {
    struct scene *scene = *state;
    static const int matrices[] = {ATTENTION, EXPERT, DRAFT};
    for (size_t i = 0; i < 3; i++) {
        struct safetensors_entry entries[SPEC_COUNT + 4];
        size_t count = fitting_entries(scene, entries);
        entries[matrices[i] + 1] = entries[--count];
        char fragment[200];
        snprintf(fragment, sizeof fragment, "1 problem:\n  %s has no scales: looked for %s",
                 scene->list.specs[matrices[i]].name, scene->list.specs[matrices[i] + 1].name);
        expect_misfit(scene, entries, count, fragment);
    }
}

static void misfits_are_described(void **state) {
    struct scene *scene = *state;
    struct safetensors_entry entries[SPEC_COUNT + 4];
    size_t count = fitting_entries(scene, entries);
    expect_misfit(scene, entries, count - 1, "embed.weight is missing (BF16 [300, 200])");
    entries[LARGE].dtype = DTYPE_F32;
    expect_misfit(scene, entries, count, "embed.weight is F32, needed is BF16");
    entries[LARGE].dtype = DTYPE_BF16;
    entries[ATTENTION_SCALE].dtype = DTYPE_BF16;
    expect_misfit(scene, entries, count, "layers.0.attn.wq_a.scale is BF16, needed is F8_E8M0 or F32");
    entries[ATTENTION_SCALE].dtype = DTYPE_F8_E8M0;
    entries[LARGE].shape[0] = 301;
    expect_misfit(scene, entries, count,
                  "embed.weight has the shape [301, 200], config.json needs [300, 200]");
    entries[LARGE].shape[0] = 300;
    entries[LARGE].rank = 1;
    expect_misfit(scene, entries, count, "embed.weight has the shape [300], config.json needs [300, 200]");
    entries[LARGE].rank = 3;
    entries[LARGE].shape[2] = 1;
    expect_misfit(scene, entries, count,
                  "embed.weight has the shape [300, 200, 1], config.json needs [300, 200]");
    entries[LARGE].rank = 2;
    entries[EXPERT_SCALE].shape[1] = 1;
    expect_misfit(scene, entries, count,
                  "layers.2.ffn.experts.3.w1.scale has the shape [3, 1], "
                  "its matrix layers.2.ffn.experts.3.w1.weight needs [3, 2]");
}

static void extras_must_be_tolerated(void **state) {
    struct scene *scene = *state;
    static const char *const patterns[] = {"mtp.*.emb*", "mtp.*.head.weight", NULL};
    struct safetensors_entry entries[SPEC_COUNT + 4];
    size_t count = fitting_entries(scene, entries);
    entries[count++] = (struct safetensors_entry){
        .name = "mtp.0.emb.tok_emb.weight", .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
    expect_misfit(scene, entries, count,
                  "mtp.0.emb.tok_emb.weight is in model.safetensors, but the model has no such tensor");
    scene->list.tolerated_patterns = patterns;
    assert_int_equal(checkpoint_check(scene->checkpoint, &scene->list), STATUS_OK);
    entries[count++] =
        (struct safetensors_entry){.name = "layers.9.x", .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
    expect_misfit(scene, entries, count, "1 problem:\n  layers.9.x is in");
    assert_null(strstr(error_last()->message, "transformers"));
}

static void converted_copies_are_recognised(void **state) {
    struct scene *scene = *state;
    static const char *const names[] = {"model.embed_tokens.weight", "layers.0.self_attn.q_a_proj.weight"};
    for (size_t i = 0; i < 2; i++) {
        const struct safetensors_entry entry = {.name = names[i], .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
        expect_misfit(scene, &entry, 1, "converted for transformers");
    }
}

/* Ten are named, in the list's order, and the rest is counted: 8 missing and 5 unexpected. */
static void many_problems_are_counted(void **state) {
    struct scene *scene = *state;
    static const char *const names[] = {"x0", "x1", "x2", "x3", "x4"};
    struct safetensors_entry entries[5];
    for (size_t i = 0; i < 5; i++) {
        entries[i] = (struct safetensors_entry){.name = names[i], .dtype = DTYPE_I8, .rank = 1, .shape = {1}};
    }
    expect_misfit(scene, entries, 5, "13 problems:\n  layers.0.attn.wq_a.weight is missing");
    assert_non_null(strstr(error_last()->message, "\n  x1 is in"));
    assert_null(strstr(error_last()->message, "\n  x2 is in"));
    assert_non_null(strstr(error_last()->message, "\n  and 3 more"));
}

/* Loads, reads every used tensor back through the stream and compares it with the file. */
static void check_loading(const char *directory, const struct tensor_spec_list *list, struct device *device,
                          const struct load_options *options, bool expects_maps) {
    struct checkpoint *checkpoint;
    struct checkpoint *reference;
    struct stream *stream;
    struct loaded_weights weights;
    struct loaded_tensor *tensors = calloc(list->count, sizeof *tensors);
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    assert_int_equal(checkpoint_open(directory, &reference), STATUS_OK);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    if (checkpoint_load(&checkpoint, list, options, device, stream, tensors, &weights) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    assert_null(checkpoint);
    assert_int_equal(expects_maps, weights.checkpoint != NULL);
    for (size_t i = 0; i < list->count; i++) {
        const struct checkpoint_tensor *file = checkpoint_find(reference, list->specs[i].name);
        assert_int_equal(tensors[i].dtype, file->dtype);
        assert_int_equal(tensors[i].bytes, file->bytes);
        if (!list->specs[i].is_used) {
            assert_null(tensors[i].data);
            continue;
        }
        bool is_mapped = expects_maps && file->bytes >= LOADER_MAPPED_BYTES_MIN;
        if (is_mapped) {
            assert_ptr_equal(tensors[i].data,
                             weights.checkpoint->shards[file->shard].map.bytes + file->offset);
        } else {
            assert_int_equal((uintptr_t)tensors[i].data % LOADER_ALIGNMENT, 0);
            unsigned char *copy = malloc(file->bytes);
            assert_int_equal(stream_copy_to_host(stream, copy, tensors[i].data, file->bytes), STATUS_OK);
            assert_int_equal(stream_synchronize(stream), STATUS_OK);
            assert_memory_equal(copy, checkpoint_tensor_data(reference, file), file->bytes);
            free(copy);
        }
    }
    assert_true(device_memory_bytes(device) >= weights.copied_bytes);
    weights_release(&weights, device);
    assert_int_equal(device_memory_bytes(device), 0);
    device_stream_destroy(&stream);
    checkpoint_close(&reference);
    free(tensors);
}

static void small_tensors_are_copied_large_ones_mapped(void **state) {
    struct scene *scene = *state;
    struct safetensors_entry entries[SPEC_COUNT + 4];
    write_scene(scene, entries, fitting_entries(scene, entries), 3);
    scene->list.specs[DRAFT].is_used = false;
    scene->list.specs[DRAFT_SCALE].is_used = false;
    struct device *device;
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    check_loading(scene->directory, &scene->list, device, NULL, true);
    scene->list.specs[LARGE].is_used = false;
    check_loading(scene->directory, &scene->list, device, NULL, false);
    scene->list.specs[LARGE].is_used = true;
    device_destroy(&device);
    assert_int_equal(device_guard_create(&device), STATUS_OK);
    check_loading(scene->directory, &scene->list, device, NULL, false);
    device_destroy(&device);
}

/* Makes the scene's list that of a model as it is. */
static void list_model(struct scene *scene, const char *directory) {
    assert_int_equal(checkpoint_open(directory, &scene->checkpoint), STATUS_OK);
    scene->list.count = 0;
    for (size_t i = 0; i < scene->checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &scene->checkpoint->tensors[i];
        bool is_table = tensor->dtype == DTYPE_I64;
        add_spec(scene, tensor->name, is_table ? TENSOR_EXPERT_TABLE : TENSOR_PLAIN, tensor->dtype, 0, 0, -1);
        struct tensor_spec *spec = &scene->list.specs[scene->list.count - 1];
        spec->rank = tensor->rank;
        memcpy(spec->shape, tensor->shape, sizeof spec->shape);
        spec->value_limit = 16;
    }
}

/* Bytes of this process's memory that the system was asked to keep in huge pages. */
static size_t huge_page_bytes_asked(void) {
    char line[256];
    size_t bytes = 0;
    size_t kilobytes = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL) {
        (void)sscanf(line, "Size: %zu kB", &kilobytes);
        bytes += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL ? kilobytes * 1024 : 0;
    }
    fclose(maps);
    return bytes;
}

static void all_are_copied_where_it_is_asked_for(void **state) {
    struct scene *scene = *state;
    static const char directory[] = SLUICE_SOURCE_DIR "/models/mini-v4";
    const struct load_options options = {.copies_all = true};
    struct device *device;
    struct stream *stream;
    struct loaded_weights weights;
    list_model(scene, directory);
    struct loaded_tensor *tensors = calloc(scene->list.count, sizeof *tensors);
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    check_loading(directory, &scene->list, device, &options, false);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    size_t before = huge_page_bytes_asked();
    assert_int_equal(
        checkpoint_load(&scene->checkpoint, &scene->list, &options, device, stream, tensors, &weights),
        STATUS_OK);
    assert_int_equal(weights.mapped_bytes, 0);
    /* All but what does not fill a huge page at either end. */
    size_t asked = huge_page_bytes_asked() - before;
    assert_true(asked <= weights.copied_bytes);
    assert_true(asked > weights.copied_bytes - ((size_t)4 << 20));
    weights_release(&weights, device);
    device_stream_destroy(&stream);
    device_destroy(&device);
    free(tensors);
}

static void copies_respect_their_limit(void **state) {
    struct scene *scene = *state;
    struct safetensors_entry entries[SPEC_COUNT + 4];
    struct loaded_tensor tensors[SPEC_COUNT];
    struct loaded_weights weights = {0};
    struct load_options options = {.copies_all = true, .copy_limit_bytes = 4096};
    struct device *device;
    struct stream *stream;
    write_scene(scene, entries, fitting_entries(scene, entries), 3);
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    fixture_expect_error(
        checkpoint_load(&scene->checkpoint, &scene->list, &options, device, stream, tensors, &weights),
        STATUS_OUT_OF_MEMORY, "no more than 0.0 MB may be taken: leave the weights mapped");
    assert_non_null(scene->checkpoint);
    assert_int_equal(device_memory_bytes(device), 0);
    device_stream_destroy(&stream);
    device_destroy(&device);
}

static void bundled_model_loads(void **state) {
    struct scene *scene = *state;
    static const char directory[] = SLUICE_SOURCE_DIR "/models/mini-v4";
    struct device *device;
    list_model(scene, directory);
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    check_loading(directory, &scene->list, device, NULL, true);
    device_destroy(&device);
    assert_int_equal(device_guard_create(&device), STATUS_OK);
    check_loading(directory, &scene->list, device, NULL, false);
    device_destroy(&device);
}

static void expert_ids_are_checked(void **state) {
    struct scene *scene = *state;
    struct safetensors_entry entries[SPEC_COUNT + 4];
    struct device *device;
    struct stream *stream;
    assert_int_equal(device_cpu_create(&device), STATUS_OK);
    assert_int_equal(device_stream_create(device, &stream), STATUS_OK);
    static const int64_t bad_ids[] = {8, -1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        struct loaded_tensor tensors[SPEC_COUNT];
        struct loaded_weights weights = {0};
        write_scene(scene, entries, fitting_entries(scene, entries), bad_ids[i]);
        fixture_expect_error(
            checkpoint_load(&scene->checkpoint, &scene->list, NULL, device, stream, tensors, &weights),
            STATUS_BAD_CHECKPOINT, "layers.0.ffn.gate.tid2eid: row 4, column 1 is no expert id");
        assert_non_null(scene->checkpoint);
        assert_int_equal(device_memory_bytes(device), 0);
    }
    device_stream_destroy(&stream);
    device_destroy(&device);
}

static void expect_payload(enum tensor_role role, enum dtype dtype, const void *bytes, size_t length,
                           size_t index, size_t count) {
    const struct tensor_spec spec = {.role = role, .value_limit = 8};
    struct payload_problem problem = {0};
    bool is_bad = payload_find_problem(&spec, dtype, bytes, length, &problem);
    assert_int_equal(is_bad, count > 0);
    assert_int_equal(problem.count, count);
    assert_int_equal(problem.first_index, index);
}

static void payload_problems_are_found(void **state) {
    (void)state;
    expect_payload(TENSOR_BLOCK_SCALE, DTYPE_F8_E8M0, "\x00\x01\x7f\xfe", 4, 0, 0);
    expect_payload(TENSOR_BLOCK_SCALE, DTYPE_F8_E8M0, "\x00\xff\x7f\xff", 4, 1, 2);
    expect_payload(TENSOR_FP8_MATRIX, DTYPE_F8_E4M3, "\x00\x7e\xfe\x80", 4, 0, 0);
    expect_payload(TENSOR_FP8_MATRIX, DTYPE_F8_E4M3, "\x00\x7e\xff\x7f", 4, 2, 2);
    expect_payload(TENSOR_FP4_MATRIX, DTYPE_I8, "\xff\x7f\x80\x00", 4, 0, 0);
    const uint16_t halves[] = {0x7F7F, 0x8000, 0xFF80, 0x7FC0};
    expect_payload(TENSOR_PLAIN, DTYPE_BF16, halves, 4, 0, 0);
    expect_payload(TENSOR_PLAIN, DTYPE_BF16, halves, 8, 2, 2);
    const float floats[] = {3.4e38f, -0.0f, 1.0f / 0.0f, 0.0f / 0.0f};
    expect_payload(TENSOR_PLAIN, DTYPE_F32, floats, 8, 0, 0);
    expect_payload(TENSOR_PLAIN, DTYPE_F32, floats, 16, 2, 2);
    expect_payload(TENSOR_BLOCK_SCALE, DTYPE_F32, floats, 16, 1, 3);
    const int32_t ids[] = {0, 7, 8, -1};
    expect_payload(TENSOR_EXPERT_TABLE, DTYPE_I32, ids, 8, 0, 0);
    expect_payload(TENSOR_EXPERT_TABLE, DTYPE_I32, ids, 16, 2, 2);
}

int main(void) {
#define IN_SCENE(test) cmocka_unit_test_setup_teardown(test, make_scene, drop_scene)
    const struct CMUnitTest tests[] = {
        IN_SCENE(fitting_checkpoints_pass),
        IN_SCENE(missing_scales_name_their_matrix),
        IN_SCENE(misfits_are_described),
        IN_SCENE(extras_must_be_tolerated),
        IN_SCENE(converted_copies_are_recognised),
        IN_SCENE(many_problems_are_counted),
        IN_SCENE(small_tensors_are_copied_large_ones_mapped),
        IN_SCENE(bundled_model_loads),
        IN_SCENE(all_are_copied_where_it_is_asked_for),
        IN_SCENE(copies_respect_their_limit),
        IN_SCENE(expert_ids_are_checked),
        cmocka_unit_test(payload_problems_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
