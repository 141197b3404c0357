/* Options in a file: what they fill, what goes before them, and the sentence for every mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/config_file.h"
#include "cli/option_table.h"
#include "support/temporary_directory.h"

#define PATH "options.yaml"

static struct arena arena;
static struct cli_options options;

/* `serve --config FILE` and then these words, a NULL behind the last. */
static enum status serve(const char *text, const char *const *words) {
    static const struct option_command command = {.bit = CLI_SERVE, .name = "serve"};
    char *argv[16] = {(char *)(uintptr_t) "--config", (char *)(uintptr_t)PATH};
    struct option_settings settings;
    int argc = 2;
    int word_count;
    int wants_help;
    for (; words != NULL && *words != NULL; words++) {
        argv[argc++] = (char *)(uintptr_t)*words;
    }
    temporary_file_write(PATH, text);
    enum status status = config_file_read(argc, argv, true, &arena, &settings);
    return status != STATUS_OK ? status
                               : options_parse(cli_option_table(), &command, &settings, argc, argv, &options,
                                               &word_count, &wants_help);
}

static void test_every_type(void **state) {
    (void)state;
    assert_int_equal(serve("# as vLLM's documents have it\n"
                           "model: \"/models/a b\"\n"
                           "host: 0.0.0.0\n"
                           "port: 8123\n"
                           "max_model_len: 4096\n"
                           "tensor-parallel-size: 2\n"
                           "drain-seconds: 1.5\n"
                           "enable-prefix-caching: False\n"
                           "no-mtp-adaptive: true\n"
                           "enable-expert-parallel: yes\n"
                           "sp: on\n"
                           "trust_remote_code: true\n"
                           "nnodes: 1\n"
                           "headless: false\n"
                           "api-key: [one, 'two']\n"
                           "allowed-origins:\n"
                           "  - https://a\n"
                           "  - 7\n"
                           "served-model-name: tiny\n"
                           "speculative-config: {method: mtp, num_speculative_tokens: 2}\n"
                           "eplb-config:\n"
                           "  a: [1, -2.5e3, 07, x\"y, null, true]\n"
                           "  'no': {}\n"
                           "  b: ''\n",
                           NULL),
                     STATUS_OK);
    assert_string_equal(options.model, "/models/a b");
    assert_string_equal(options.host, "0.0.0.0");
    assert_int_equal(options.port, 8123);
    assert_int_equal(options.max_model_len, 4096);
    assert_true(options.tensor_parallel_size == 2 && options.tensor_parallel_size_given);
    assert_true(options.drain_seconds == 1.5);
    assert_false(options.enable_prefix_caching);
    assert_false(options.mtp_adaptive);
    assert_true(options.enable_expert_parallel && options.enable_expert_parallel_given);
    assert_true(options.sp_given);
    assert_int_equal(options.api_key.count, 2);
    assert_string_equal(options.api_key.items[1], "two");
    assert_int_equal(options.allowed_origins.count, 2);
    assert_string_equal(options.allowed_origins.items[1], "7");
    assert_int_equal(options.served_model_name.count, 1);
    /* Nested values are JSON: numbers as JSON has them, everything else as text. */
    assert_string_equal(options.speculative_config, "{\"method\":\"mtp\",\"num_speculative_tokens\":2}");
    assert_string_equal(options.eplb_config,
                        "{\"a\":[1,-2.5e3,\"07\",\"x\\u0022y\",null,true],\"no\":{},\"b\":\"\"}");
    /* What the file leaves out is as without it. */
    assert_int_equal(options.chunk_tokens, 512);
}

static void test_the_command_line_goes_before(void **state) {
    (void)state;
    static const char *const words[] = {"--port",      "9", "--enable-prefix-caching", "--api-key", "three",
                                        "--api-key=4", NULL};
    assert_int_equal(serve("port: 8\nenable-prefix-caching: false\napi-key: [one, two]\nhost: h\n", words),
                     STATUS_OK);
    assert_int_equal(options.port, 9);
    assert_true(options.enable_prefix_caching);
    assert_int_equal(options.api_key.count, 2);
    assert_string_equal(options.api_key.items[0], "three");
    assert_string_equal(options.api_key.items[1], "4");
    assert_string_equal(options.host, "h");
}

static void test_files_without_options(void **state) {
    (void)state;
    static const char *const texts[] = {"", "# nothing\n", "{}\n", "---\n{}\n...\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(serve(texts[i], NULL), STATUS_OK);
        assert_int_equal(options.port, 8000);
    }
}

struct mistake {
    const char *text;
    const char *sentence; /* behind the file's name */
};

/* One sentence with file and line for each. */
static void test_mistakes(void **state) {
    (void)state;
    static const struct mistake mistakes[] = {
        {"host: h\nport: abc\n", "2: --port needs a whole number between 0 and 65535, not \"abc\""},
        {"port: 99999\n", "1: --port needs a whole number between 0 and 65535, not \"99999\""},
        {"# c\n\nprot: 3\n", "3: unknown option prot; did you mean port?"},
        {"qqqqqqqqqqqq: 3\n", "1: unknown option qqqqqqqqqqqq; --help lists the options"},
        {"gen-tokens: 3\n", "1: gen-tokens is not an option of serve; see serve --help"},
        {"port: [1, 2]\n", "1: port takes one value, not a list"},
        {"port:\n", "1: port has no value"},
        {"host: ~\n", "1: host has no value"},
        {"enable-prefix-caching: maybe\n", "1: enable-prefix-caching needs true or false, not \"maybe\""},
        {"enable-prefix-caching: [true]\n", "1: enable-prefix-caching needs true or false, not \"true\""},
        {"sp: sometimes\n", "1: --sp must be one of auto|on|off, not \"sometimes\""},
        {"port: 1\nhost: h\nport: 2\n", "3: port stands in line 1 already"},
        {"host: h\nnnodes: 2\n",
         "2: nnodes has no meaning here: ranks on several hosts are started by --hosts, from one of them; "
         "leave it out"},
        {"config: other.yaml\n", "1: a file of options names no other"},
        {"- port\n", "1: a file of options is one list of \"name: value\""},
        {"port\n", "1: a file of options is one list of \"name: value\""},
        {"port: 1\n---\nport: 2\n", "2: a file of options is one list of \"name: value\""},
        {"? [a]\n: 1\n", "1: the name of an option is a word"},
        {"host: &a h\n", "1: anchors and tags have no meaning among options"},
        {"host: !!str h\n", "1: anchors and tags have no meaning among options"},
        {"host: *a\n", "1: references have no meaning among options"},
        {"api-key: [[a]]\n", "1: a list of options holds words and numbers only"},
        {"eplb-config: {a: *b}\n", "1: names are plain words, and references have no meaning among options"},
        {"eplb-config: {a: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}\n", "1: values are nested deeper than 16"},
        {"host: \"a\\0b\"\n", "1: the value holds a NUL"},
        {"port: 1\n\thost: h\n", "2: this is no YAML: found a tab character that violates indentation"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        char expected[1024];
        snprintf(expected, sizeof expected, PATH ", line %s", mistakes[i].sentence);
        assert_int_equal(serve(mistakes[i].text, NULL), STATUS_USAGE);
        assert_string_equal(error_last()->message, expected);
    }
}

static void test_no_file(void **state) {
    (void)state;
    struct option_settings settings;
    char *argv[] = {(char *)(uintptr_t) "--config=/nowhere/options.yaml"};
    assert_int_equal(config_file_read(1, argv, true, &arena, &settings), STATUS_NOT_FOUND);
    assert_non_null(strstr(error_last()->message, "/nowhere/options.yaml"));
    assert_int_equal(config_file_read(0, argv, true, &arena, &settings), STATUS_OK);
    assert_int_equal(settings.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_the_command_line_goes_before),
        cmocka_unit_test(test_files_without_options),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_no_file),
    };
    arena_init(&arena, 4096);
    log_set_level(LOG_ERROR);
    int failed = cmocka_run_group_tests(tests, enter_temporary_directory, leave_temporary_directory);
    arena_deinit(&arena);
    return failed;
}
