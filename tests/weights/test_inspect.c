/* What `inspect` finds in the bundled model and in damaged copies of a synthesised one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/json.h"
#include "tools/inspect.h"
#include "tools/inspect_report.h"
#include "tools/synth.h"
#include "weights/fixture.h"
#include "weights/loader.h"

static const char tiny_config[] = SLUICE_SOURCE_DIR "/tests/golden/tiny-v4/config.json";

static int make_model(void **state) {
    char *directory = malloc(FIXTURE_PATH_BYTES);
    assert_non_null(directory);
    fixture_make(directory);
    const struct synth_request request = {
        .config_path = tiny_config, .directory = directory, .thread_count = 2};
    if (synth_write_model(&request) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    *state = directory;
    return 0;
}

static int remove_model(void **state) {
    fixture_remove(*state);
    free(*state);
    return 0;
}

/* The family's own list must give the golden file too: names, types, roles and partners are all in it. */
static void family_list_gives_the_golden_file(void **state) {
    char path[FIXTURE_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/model.safetensors", (const char *)*state);
    struct file_map map;
    assert_int_equal(file_map_open(path, &map), STATUS_OK);
    assert_int_equal(map.length, 10377418);
    assert_true(fixture_fnv1a(map.bytes, map.length) == 0xD7915D76D95853C9u);
    file_map_close(&map);
}

static void inspect(const char *directory, bool verifies, struct inspection *out) {
    const struct inspect_request request = {.directory = directory, .verifies = verifies, .thread_count = 2};
    if (inspection_read(&request, out) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
}

static struct json *report_json(const struct inspection *inspection, bool lists_tensors) {
    struct string_buffer text = {0};
    struct json *report;
    assert_int_equal(inspect_report_json(inspection, lists_tensors, &text), STATUS_OK);
    assert_int_equal(text.data[text.length - 1], '\n');
    assert_int_equal(json_parse(text.data, text.length, "report", &report), STATUS_OK);
    string_buffer_deinit(&text);
    return report;
}

/* Without instruction sets every operation falls to its reference, and the report says so. */
static void kernels_are_listed(void **state) {
    struct inspection inspection;
    const struct inspect_request request = {
        .directory = *state, .thread_count = 1, .cpu_features = "reference", .numerics = NUMERICS_IDEAL};
    assert_int_equal(inspection_read(&request, &inspection), STATUS_OK);
    struct json *report = report_json(&inspection, false);
    assert_string_equal(json_text(json_get(report, "numerics"), NULL), "ideal");
    assert_string_equal(json_text(json_get(report, "cpu_features"), NULL), "reference");
    const struct json *kernels = json_get(report, "kernels");
    assert_true(json_length(kernels) >= OP_COUNT);
    for (size_t i = 0; i < json_length(kernels); i++) {
        const struct json *kernel = json_at(kernels, i);
        assert_string_equal(json_text(json_get(kernel, "arithmetic"), NULL), "reference");
        assert_non_null(strstr(json_text(json_get(kernel, "name"), NULL),
                               json_text(json_get(kernel, "operation"), NULL)));
    }
    json_free(&report);
    struct string_buffer text = {0};
    assert_int_equal(inspect_report_text(&inspection, false, &text), STATUS_OK);
    assert_non_null(strstr(text.data, "kernels for ideal numerics with reference"));
    assert_non_null(strstr(text.data, "moe_experts_ideal_reference"));
    string_buffer_deinit(&text);
    inspection_deinit(&inspection);
}

static int64_t integer_at(const struct json *object, const char *key) {
    const struct json *value = json_get(object, key);
    assert_non_null(value);
    return json_int64(value);
}

/* Tensor counts and bytes are those of the files' headers, the parameters those of the model's README. */
static void bundled_model_is_described(void **state) {
    (void)state;
    struct inspection inspection;
    inspect(SLUICE_SOURCE_DIR "/models/mini-v4", true, &inspection);
    assert_string_equal(string_buffer_text(&inspection.problems), "");
    assert_int_equal(inspection.problem_count, 0);
    struct json *report = report_json(&inspection, true);
    assert_int_equal(integer_at(report, "tensor_bytes"), 18002274);
    assert_int_equal(integer_at(report, "parameters") / 100000, 203);
    assert_int_equal(json_length(json_get(report, "tensors")), integer_at(report, "tensor_count"));
    const struct json *files = json_get(report, "files");
    assert_int_equal(json_length(files), 2);
    int64_t tensors = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < json_length(json_get(report, "types")); i++) {
        tensors += integer_at(json_at(json_get(report, "types"), i), "tensors");
        bytes += integer_at(json_at(json_get(report, "types"), i), "bytes");
    }
    assert_int_equal(tensors, integer_at(report, "tensor_count"));
    assert_int_equal(bytes, 18002274);
    const struct json *model = json_get(report, "model");
    assert_string_equal(json_text(json_get(model, "family"), NULL), "deepseek_v4");
    assert_int_equal(integer_at(model, "layers"), 8);
    assert_int_equal(integer_at(model, "vocabulary_size"), 4096);
    assert_int_equal(integer_at(json_get(report, "tokenizer"), "vocabulary_size"), 4096);
    assert_int_equal(json_length(json_get(report, "problems")), 0);
    assert_int_equal(json_length(json_get(json_get(report, "payload"), "problems")), 0);
    json_free(&report);
    struct string_buffer text = {0};
    assert_int_equal(inspect_report_text(&inspection, true, &text), STATUS_OK);
    assert_non_null(strstr(text.data, "parameters  20.3 M"));
    assert_non_null(strstr(text.data, "MTP"));
    assert_non_null(strstr(text.data, "\n  layers.7.ffn.experts.15.w3.weight "));
    string_buffer_deinit(&text);
    inspection_deinit(&inspection);
}

/* Overwrites bytes of one tensor in the model's only file. */
static void damage(const char *directory, const char *name, size_t at, const void *bytes, size_t count) {
    struct checkpoint *checkpoint;
    char path[FIXTURE_PATH_BYTES + 32];
    assert_int_equal(checkpoint_open(directory, &checkpoint), STATUS_OK);
    const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, name);
    assert_non_null(tensor);
    assert_true(at + count <= tensor->bytes);
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)(tensor->offset + at), SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    checkpoint_close(&checkpoint);
}

static void expect_problem(const struct inspection *inspection, size_t index, const char *tensor, int64_t row,
                           int64_t column, int64_t count) {
    struct json *report = report_json(inspection, false);
    const struct json *problem = json_at(json_get(json_get(report, "payload"), "problems"), index);
    assert_non_null(problem);
    assert_string_equal(json_text(json_get(problem, "tensor"), NULL), tensor);
    assert_int_equal(integer_at(problem, "row"), row);
    assert_int_equal(integer_at(problem, "column"), column);
    assert_int_equal(integer_at(problem, "count"), count);
    json_free(&report);
}

static void bad_values_are_located(void **state) {
    const char *directory = *state;
    const int64_t expert = 8;
    const float infinite = 1.0f / 0.0f;
    damage(directory, "layers.0.ffn.gate.tid2eid", (5 * 2 + 1) * sizeof expert, &expert, sizeof expert);
    damage(directory, "layers.1.attn.wq_a.scale", 1, "\xff", 1);
    damage(directory, "layers.2.attn.wq_a.weight", 3 * 256 + 7, "\x7f\xff", 2);
    damage(directory, "layers.3.attn.attn_sink", 2 * sizeof infinite, &infinite, sizeof infinite);
    damage(directory, "norm.weight", 10, "\x80\x7f", 2);
    struct inspection inspection;
    inspect(directory, false, &inspection);
    assert_int_equal(inspection.problem_count, 0);
    inspection_deinit(&inspection);
    inspect(directory, true, &inspection);
    assert_int_equal(inspection.problem_count, 5);
    expect_problem(&inspection, 0, "layers.0.ffn.gate.tid2eid", 5, 1, 1);
    expect_problem(&inspection, 1, "layers.1.attn.wq_a.scale", 0, 1, 1);
    expect_problem(&inspection, 2, "layers.2.attn.wq_a.weight", 3, 7, 2);
    expect_problem(&inspection, 3, "layers.3.attn.attn_sink", 0, 2, 1);
    expect_problem(&inspection, 4, "norm.weight", 0, 5, 1);
    struct string_buffer text = {0};
    assert_int_equal(inspect_report_text(&inspection, false, &text), STATUS_OK);
    assert_non_null(strstr(text.data, "layers.1.attn.wq_a.scale: row 0, column 1 is the scale byte 255"));
    string_buffer_deinit(&text);
    inspection_deinit(&inspection);
}

static void parts_that_do_not_fit_are_problems(void **state) {
    const char *directory = *state;
    char path[FIXTURE_PATH_BYTES + 32];
    struct inspection inspection;
    /* Another model's configuration. */
    fixture_copy(directory, SLUICE_SOURCE_DIR "/models/mini-v4/config.json", "config.json");
    inspect(directory, false, &inspection);
    assert_int_equal(inspection.problem_count, 1);
    assert_non_null(strstr(inspection.problems.data, "does not fit its config.json"));
    inspection_deinit(&inspection);
    /* A tokenizer with more ids than the model has. */
    fixture_copy(directory, tiny_config, "config.json");
    fixture_copy(directory, SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json", "tokenizer.json");
    inspect(directory, false, &inspection);
    assert_int_equal(inspection.problem_count, 1);
    assert_non_null(strstr(inspection.problems.data, "ids up to 4095, but the model's vocabulary has 512"));
    inspection_deinit(&inspection);
    fixture_write(directory, "tokenizer.json", "{", 1);
    inspect(directory, false, &inspection);
    assert_int_equal(inspection.problem_count, 1);
    inspection_deinit(&inspection);
    snprintf(path, sizeof path, "%s/tokenizer.json", directory);
    assert_int_equal(unlink(path), 0);
    fixture_write(directory, "config.json", "{\"model_type\":\"other\"}", 22);
    inspect(directory, false, &inspection);
    assert_int_equal(inspection.problem_count, 1);
    assert_non_null(
        strstr(inspection.problems.data, "/config.json: model_type \"other\" is not implemented"));
    inspection_deinit(&inspection);
    /* No configuration: tensors are listed all the same. */
    snprintf(path, sizeof path, "%s/config.json", directory);
    assert_int_equal(unlink(path), 0);
    inspect(directory, true, &inspection);
    assert_int_equal(inspection.problem_count, 1);
    struct json *report = report_json(&inspection, false);
    assert_int_equal(json_kind(json_get(report, "model")), JSON_KIND_NULL);
    assert_int_equal(json_length(json_get(report, "problems")), 1);
    assert_int_equal(integer_at(report, "tensor_count"), 596);
    json_free(&report);
    inspection_deinit(&inspection);
    /* No weights: that is a failure. */
    snprintf(path, sizeof path, "%s/model.safetensors", directory);
    assert_int_equal(unlink(path), 0);
    const struct inspect_request request = {.directory = directory, .thread_count = 1};
    fixture_expect_error(inspection_read(&request, &inspection), STATUS_NOT_FOUND, "holds no weights");
    inspection_deinit(&inspection);
}

/* The model's list against the bundled files and against every file the list itself can give. */
static void family_lists_fit_their_files(void **state) {
    (void)state;
    static const char *const configs[] = {tiny_config,
                                          SLUICE_SOURCE_DIR "/tests/golden/layout-v4/config.json"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char directory[FIXTURE_PATH_BYTES];
        fixture_make(directory);
        const struct synth_request request = {
            .config_path = configs[i], .directory = directory, .shard_bytes = 8000000, .thread_count = 2};
        assert_int_equal(synth_write_model(&request), STATUS_OK);
        struct inspection inspection;
        inspect(directory, true, &inspection);
        assert_string_equal(string_buffer_text(&inspection.problems), "");
        assert_int_equal(inspection.problem_count, 0);
        inspection_deinit(&inspection);
        fixture_remove(directory);
    }
}

int main(void) {
#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, make_model, remove_model)
    const struct CMUnitTest tests[] = {
        WITH_MODEL(family_list_gives_the_golden_file),
        cmocka_unit_test(bundled_model_is_described),
        WITH_MODEL(bad_values_are_located),
        WITH_MODEL(parts_that_do_not_fit_are_problems),
        cmocka_unit_test(family_lists_fit_their_files),
        WITH_MODEL(kernels_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
