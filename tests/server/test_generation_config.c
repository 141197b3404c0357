/* Defaults of sampling: the model's file, another one or none, what an operator puts before them, end tokens.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/generation_config.h"
#include "weights/fixture.h"

struct folders {
    char model[FIXTURE_PATH_BYTES];
    char other[FIXTURE_PATH_BYTES];
};

static void write_text(const char *folder, const char *name, const char *text) {
    fixture_write(folder, name, text, strlen(text));
}

static int set_up(void **state) {
    static struct folders folders;
    fixture_make(folders.model);
    fixture_make(folders.other);
    write_text(folders.model, "config.json", "{\"eos_token_id\": 9}");
    write_text(folders.model, "generation_config.json",
               "{\"eos_token_id\": [3, 4], \"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": \"all\"}");
    write_text(folders.other, "generation_config.json",
               "{\"top_k\": 40, \"min_p\": 0.1, \"repetition_penalty\": 1.25, \"max_new_tokens\": 77}");
    *state = &folders;
    return 0;
}

static int tear_down(void **state) {
    const struct folders *folders = *state;
    fixture_remove(folders->model);
    fixture_remove(folders->other);
    return 0;
}

static struct generation_config load(const struct folders *folders, const char *source,
                                     const char *overrides) {
    const struct generation_choice choice = {.source = source, .overrides = overrides};
    struct generation_config config;
    if (generation_choice_check(&choice) != STATUS_OK ||
        generation_config_load(folders->model, &choice, &config) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    return config;
}

static void the_models_own(void **state) {
    struct generation_config config;
    assert_int_equal(generation_config_load(((struct folders *)*state)->model, NULL, &config), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(config.sampling.temperature == 0.6 && config.sampling.top_p == 0.95);
        assert_int_equal(config.sampling.top_k, 0);
        assert_int_equal(config.token_limit, -1);
        assert_int_equal(config.end_token_count, 2);
        assert_int_equal(config.end_tokens[1], 4);
        config = load(*state, "auto", NULL);
    }
}

static void another_file_or_none(void **state) {
    struct generation_config config = load(*state, ((struct folders *)*state)->other, NULL);
    assert_true(config.sampling.temperature == 1.0 && config.sampling.top_p == 1.0);
    assert_int_equal(config.sampling.top_k, 40);
    assert_true(config.sampling.min_p == 0.1 && config.sampling.repetition_penalty == 1.25);
    assert_int_equal(config.token_limit, 77);
    assert_int_equal(config.end_token_count, 1); /* of config.json */
    assert_int_equal(config.end_tokens[0], 9);
    config = load(*state, "vllm", NULL);
    assert_true(config.sampling.temperature == 1.0 && config.sampling.repetition_penalty == 1.0);
    assert_int_equal(config.sampling.top_k, 0);
    assert_int_equal(config.token_limit, -1);
    assert_int_equal(config.end_tokens[0], 9);
}

/* Numbers that nobody could sample by leave the defaults, however far out of range. */
static void what_cannot_be_is_passed_over(void **state) {
    const struct folders *folders = *state;
    char folder[FIXTURE_PATH_BYTES];
    fixture_make(folder);
    write_text(
        folder, "generation_config.json",
        "{\"temperature\": -1, \"top_p\": 0, \"top_k\": 1e300, \"min_p\": 7, \"repetition_penalty\": 0, "
        "\"max_new_tokens\": -1e300}");
    struct generation_config config = load(folders, folder, NULL);
    fixture_remove(folder);
    assert_true(config.sampling.temperature == 1.0 && config.sampling.top_p == 1.0);
    assert_true(config.sampling.min_p == 0.0 && config.sampling.repetition_penalty == 1.0);
    assert_int_equal(config.sampling.top_k, 0);
    assert_int_equal(config.token_limit, -1);
}

static void overrides_go_before(void **state) {
    struct generation_config config =
        load(*state, NULL, "{\"temperature\": 0, \"top_k\": -1, \"max_new_tokens\": 12}");
    assert_true(config.sampling.temperature == 0.0 && config.sampling.top_p == 0.95);
    assert_int_equal(config.sampling.top_k, -1);
    assert_int_equal(config.token_limit, 12);
    assert_int_equal(config.end_token_count, 2);
    config = load(*state, ((struct folders *)*state)->other, "{\"min_p\": 1, \"repetition_penalty\": 2}");
    assert_true(config.sampling.min_p == 1.0 && config.sampling.repetition_penalty == 2.0);
    assert_int_equal(config.sampling.top_k, 40);
}

static void mistakes_are_told(void **state) {
    (void)state;
    static const struct {
        const char *source, *overrides, *sentence;
    } cases[] = {
        {NULL, "{\"temperatur\": 1}", "the key \"temperatur\", which is none of"},
        {NULL, "{\"do_sample\": false}", "\"do_sample\""},
        {NULL, "[1]", "needs a JSON object"},
        {NULL, "{", "--override-generation-config"},
        {NULL, "{\"temperature\": -1}", "temperature is no number from 0 to"},
        {NULL, "{\"temperature\": \"0\"}", "temperature is no number from 0 to"},
        {NULL, "{\"top_p\": 0}", "top_p is no number from above 0 to 1"},
        {NULL, "{\"top_p\": 1.5}", "top_p is no number from above 0 to 1"},
        {NULL, "{\"top_k\": 2.5}", "top_k is no whole number from -1 to"},
        {NULL, "{\"min_p\": 2}", "min_p is no number from 0 to 1"},
        {NULL, "{\"repetition_penalty\": 0}", "repetition_penalty is no number from above 0"},
        {NULL, "{\"max_new_tokens\": 0}", "max_new_tokens is no whole number from 1 to"},
        {"/nonexistent", NULL, "--generation-config is auto, vllm or a folder with a generation_config.json"},
        {"Auto", NULL, "Auto/generation_config.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct generation_choice choice = {.source = cases[i].source, .overrides = cases[i].overrides};
        assert_int_equal(generation_choice_check(&choice), STATUS_USAGE);
        if (strstr(error_last()->message, cases[i].sentence) == NULL) {
            fail_msg("case %zu: %s", i, error_last()->message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_models_own),
        cmocka_unit_test(another_file_or_none),
        cmocka_unit_test(what_cannot_be_is_passed_over),
        cmocka_unit_test(overrides_go_before),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
