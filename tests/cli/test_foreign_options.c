/* Options of vLLM that serve passes over: which words go, and that none of them is an option of serve's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/foreign_options.h"
#include "cli/option_table.h"

static void assert_kept(const char *const *words, int count, const char *const *kept, int kept_count) {
    const char *argv[16];
    memcpy(argv, words, (size_t)count * sizeof *argv);
    int argc = count;
    assert_int_equal(foreign_options_drop(&argc, (char **)(uintptr_t)argv), STATUS_OK);
    assert_int_equal(argc, kept_count);
    for (int i = 0; i < argc; i++) {
        assert_string_equal(argv[i], kept[i]);
    }
}

#define ASSERT_KEPT(words, kept) \
    assert_kept(words, (int)(sizeof words / sizeof *words), kept, (int)(sizeof kept / sizeof *kept))

static void test_words(void **state) {
    (void)state;
    static const char *const words[] = {"model", "--trust-remote-code", "--port", "1",      "--seed",
                                        "7",     "--kv_cache_dtype",    "fp8",    "-q=fp8", "-tp",
                                        "2"};
    static const char *const kept[] = {"model", "--port", "1", "-tp", "2"};
    ASSERT_KEPT(words, kept);
    static const char *const more[] = {"--no-enable-chunked-prefill",
                                       "--attention-config.x=1",
                                       "-cc",
                                       "{}",
                                       "--no-seed",
                                       "--seeds",
                                       "--",
                                       "--seed"};
    static const char *const kept_more[] = {"--no-seed", "--seeds", "--", "--seed"};
    ASSERT_KEPT(more, kept_more);
    static const char *const last[] = {"--dtype"};
    assert_kept(last, 1, NULL, 0);
}

static void assert_refused(const char *word, const char *value, const char *sentence) {
    const char *argv[] = {word, value};
    int argc = 2;
    assert_int_equal(foreign_options_drop(&argc, (char **)(uintptr_t)argv), STATUS_USAGE);
    if (strstr(error_last()->message, sentence) == NULL) {
        fail_msg("%s: %s", word, error_last()->message);
    }
}

/* What would change what a recipe means says what to do instead; its harmless value passes. */
static void test_refused(void **state) {
    (void)state;
    assert_refused("--chat-template", "x.jinja",
                   "--chat-template has no meaning here: prompts have the model's");
    assert_refused("--nnodes", "2", "--hosts");
    assert_refused("--headless", "model", "--hosts");
    assert_refused("-dpr", "1", "--data-parallel-size");
    assert_refused("-dcp=2", "model", "CFG-14");
    static const char *const harmless[] = {"--nnodes",        "1", "--node-rank=0",   "-dcp",      "1",
                                           "--response-role", "x", "--response-role", "assistant", "model"};
    static const char *const kept[] = {"model"};
    ASSERT_KEPT(harmless, kept);
}

/* An option that has a meaning must not be passed over. */
static void test_none_has_a_meaning(void **state) {
    (void)state;
    size_t count;
    const struct foreign_option *options = foreign_options(&count);
    const struct option_table *table = cli_option_table();
    for (size_t i = 0; i < count; i++) {
        const struct option_row *row;
        for (size_t j = 0; (row = option_table_row(table, j)) != NULL; j++) {
            if ((row->commands & CLI_SERVE) == 0) {
                continue;
            }
            assert_string_not_equal(row->name, options[i].name);
            if (row->alias != NULL) {
                assert_string_not_equal(row->alias, options[i].name);
                assert_true(options[i].alias == NULL || strcmp(row->alias, options[i].alias) != 0);
            }
        }
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(options[i].name, options[j].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_none_has_a_meaning),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
