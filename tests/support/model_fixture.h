/*
 * Models for tests: configurations with changed keys, checkpoints synthesised from them, engines on these.
 *
 * Every function asserts: what cannot be made fails the test that asked for it.
 */
#ifndef SLUICE_TESTS_SUPPORT_MODEL_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_MODEL_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/string_buffer.h"
#include "engine/engine_core.h"
#include "lib/json.h"
#include "weights/fixture.h"

/* Configurations in the source tree. */
#define TINY_CONFIG "tests/golden/tiny-v4/config.json"
#define LAYOUT_CONFIG "tests/golden/layout-v4/config.json"
#define MINI_CONFIG "models/mini-v4/config.json"

/* The tiny models' vocabulary. */
enum { TINY_VOCABULARY = 512 };

/* Builds with a sanitizer are slow: there the long tests run fewer cases of each kind. */
#ifdef SLUICE_TESTS_ARE_SHORT
enum { TESTS_ARE_SHORT = 1 };
#else
enum { TESTS_ARE_SHORT = 0 };
#endif

/* A key of a configuration and the JSON text of its new value; NULL: without the key. */
struct config_change {
    const char *key;
    const char *value;
};

/* Fails the test with the last error's sentence unless the call succeeded. */
#define EXPECT_OK(call) model_expect_ok((int)(call), #call)
void model_expect_ok(int status, const char *call);

/* The configuration at `path`, with changes, as text; the caller deinits it. A new key is appended. */
void model_config_text(const char *path, const struct config_change *changes, size_t count,
                       struct string_buffer *out);

/* The same, parsed. Owned: json_free. */
struct json *model_config_read(const char *path, const struct config_change *changes, size_t count);

/* Writes a synthesised checkpoint of the configuration into the existing, empty directory. */
void model_synthesise(const char *directory, const char *config_path, const struct config_change *changes,
                      size_t count);

/* Writes the configuration as the directory's config.json, whatever its weights are. */
void model_replace_config(const char *directory, const char *config_path, const struct config_change *changes,
                          size_t count);

/* A directory with a synthesised tiny-v4. */
struct tiny_fixture {
    char directory[FIXTURE_PATH_BYTES];
};

/* Setup and teardown of cmocka: *state is a struct tiny_fixture. */
int tiny_fixture_set_up(void **state);
int tiny_fixture_tear_down(void **state);

/*
 * A synthesised layout-v4, one for the whole test program: setup and teardown of cmocka, where *state is its
 * directory, and the directory for those who have no state.
 */
int layout_fixture_set_up(void **state);
int layout_fixture_tear_down(void **state);
const char *layout_fixture_directory(void);

/* Options for small tests: the directory, ideal numerics on "cpu", one thread, 512 positions and rows. */
struct sluice_engine_options model_options(const char *directory);

struct engine_core *model_open(const struct sluice_engine_options *options);

/* Options of one more executor over the engine's parts, with its numerics and kernels. */
struct executor_options model_executor_options(struct engine_core *engine, int32_t row_limit,
                                               int32_t segment_limit);

/* The inputs of spec deepseek-v4 A.1: token i is (31 i^2 + 17 i + 5) mod 512. */
void model_spec_tokens(int32_t *tokens, int count);

/* Pseudo-random ids below `limit`, a function of seed and index. */
void model_random_tokens(uint64_t seed, int32_t limit, int32_t *tokens, int count);

/* The next number of a pseudo-random sequence; `state` starts as any number but 0. */
uint64_t model_next_random(uint64_t *state);

/*
 * Runs `count` consecutive tokens of the sequence in `slot` as one step. logits: (count, vocabulary), NULL if
 * they are not wanted.
 */
void model_run(struct engine_core *engine, int32_t slot, int32_t first_position, const int32_t *tokens,
               int32_t count, float *logits);

/* Fails, naming the first differing row, unless two (rows, vocabulary) tables have the same bits. */
void model_expect_same_logits(const float *actual, const float *expected, int64_t rows, int64_t vocabulary,
                              const char *what);

#endif
