#include "support/model_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/synth.h"
#include "weights/fixture.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

void model_expect_ok(int status, const char *call) {
    if (status != STATUS_OK) {
        fail_msg("%s: %s: %s", call, status_name((enum status)status), sluice_last_error());
    }
}

static const struct config_change *find_change(const struct config_change *changes, size_t count,
                                               const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(changes[i].key, key) == 0) {
            return &changes[i];
        }
    }
    return NULL;
}

static void append_member(struct string_buffer *out, const char *key) {
    string_buffer_append_format(out, "%s\"%s\": ", out->length > 1 ? ", " : "", key);
}

void model_config_text(const char *path, const struct config_change *changes, size_t count,
                       struct string_buffer *out) {
    char full[FIXTURE_PATH_BYTES];
    struct json *config;
    snprintf(full, sizeof full, "%s/%s", SLUICE_SOURCE_DIR, path);
    EXPECT_OK(json_parse_file(full, CONFIG_BYTES_MAX, &config));
    *out = (struct string_buffer){0};
    string_buffer_append_char(out, '{');
    for (const struct json_member *member = json_first(config); member != NULL;
         member = json_next(config, member)) {
        const char *key = json_member_key(member, NULL);
        if (find_change(changes, count, key) == NULL) {
            append_member(out, key);
            EXPECT_OK(json_write(json_member_value(member), out));
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (changes[i].value != NULL) {
            append_member(out, changes[i].key);
            string_buffer_append_text(out, changes[i].value);
        }
    }
    string_buffer_append_char(out, '}');
    EXPECT_OK(string_buffer_check(out));
    json_free(&config);
}

struct json *model_config_read(const char *path, const struct config_change *changes, size_t count) {
    struct string_buffer text;
    struct json *config;
    model_config_text(path, changes, count, &text);
    EXPECT_OK(json_parse(text.data, text.length, "config.json", &config));
    string_buffer_deinit(&text);
    return config;
}

void model_synthesise(const char *directory, const char *config_path, const struct config_change *changes,
                      size_t count) {
    char path[2 * FIXTURE_PATH_BYTES];
    model_replace_config(directory, config_path, changes, count);
    snprintf(path, sizeof path, "%s/config.json", directory);
    struct synth_request request = {.config_path = path, .directory = directory, .thread_count = 2};
    EXPECT_OK(synth_write_model(&request));
}

void model_replace_config(const char *directory, const char *config_path, const struct config_change *changes,
                          size_t count) {
    struct string_buffer text;
    model_config_text(config_path, changes, count, &text);
    fixture_write(directory, "config.json", text.data, text.length);
    string_buffer_deinit(&text);
}

struct sluice_engine_options model_options(const char *directory) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = directory;
    options.numerics = SLUICE_NUMERICS_IDEAL;
    options.thread_count = 1;
    options.context_tokens = 512;
    options.has_prefix_cache = false;
    return options;
}

int tiny_fixture_set_up(void **state) {
    struct tiny_fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    *state = fixture;
    return 0;
}

int tiny_fixture_tear_down(void **state) {
    struct tiny_fixture *fixture = *state;
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

static char layout_directory[FIXTURE_PATH_BYTES];

int layout_fixture_set_up(void **state) {
    fixture_make(layout_directory);
    model_synthesise(layout_directory, LAYOUT_CONFIG, NULL, 0);
    *state = layout_directory;
    return 0;
}

int layout_fixture_tear_down(void **state) {
    fixture_remove(*state);
    return 0;
}

const char *layout_fixture_directory(void) {
    return layout_directory;
}

struct engine_core *model_open(const struct sluice_engine_options *options) {
    struct engine_core *engine = NULL;
    EXPECT_OK(engine_core_open(options, &engine));
    EXPECT_OK(state_pool_map_own_pages(&engine->states, engine->stream));
    return engine;
}

struct executor_options model_executor_options(struct engine_core *engine, int32_t row_limit,
                                               int32_t segment_limit) {
    return (struct executor_options){
        .model = engine->model,
        .backend = engine->backend,
        .device = engine->device,
        .stream = engine->stream,
        .pool = engine->pool,
        .states = &engine->states,
        .numerics = (enum numerics)engine->options.numerics,
        .cpu_features = engine->options.cpu_features,
        .row_limit = row_limit,
        .segment_limit = segment_limit,
        .logit_row_limit = row_limit,
    };
}

void model_spec_tokens(int32_t *tokens, int count) {
    for (int i = 0; i < count; i++) {
        tokens[i] = (31 * i * i + 17 * i + 5) % TINY_VOCABULARY;
    }
}

uint64_t model_next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

void model_random_tokens(uint64_t seed, int32_t limit, int32_t *tokens, int count) {
    uint64_t state = 0x9E3779B97F4A7C15u * (seed + 1);
    for (int i = 0; i < count; i++) {
        tokens[i] = (int32_t)((model_next_random(&state) >> 33) % (uint64_t)limit);
    }
}

void model_run(struct engine_core *engine, int32_t slot, int32_t first_position, const int32_t *tokens,
               int32_t count, float *logits) {
    struct step_segment segment = {slot, first_position, count, tokens};
    int32_t *rows = calloc((size_t)count, sizeof *rows);
    assert_non_null(rows);
    for (int32_t i = 0; i < count; i++) {
        rows[i] = i;
    }
    struct step_plan plan = {.segments = &segment,
                             .segment_count = 1,
                             .logit_rows = rows,
                             .logit_row_count = logits == NULL ? 0 : count};
    EXPECT_OK(executor_run(engine->executor, &plan, logits));
    free(rows);
}

void model_expect_same_logits(const float *actual, const float *expected, int64_t rows, int64_t vocabulary,
                              const char *what) {
    for (int64_t row = 0; row < rows; row++) {
        const float *a = actual + row * vocabulary;
        const float *b = expected + row * vocabulary;
        if (memcmp(a, b, (size_t)vocabulary * sizeof *a) != 0) {
            int64_t i = 0;
            while (memcmp(&a[i], &b[i], sizeof *a) == 0) {
                i++;
            }
            fail_msg("%s: row %lld, logit %lld is %.9g, expected the bits of %.9g", what, (long long)row,
                     (long long)i, (double)a[i], (double)b[i]);
        }
    }
}
