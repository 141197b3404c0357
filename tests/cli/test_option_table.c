/* The table of all commands' options: the defaults that users are told, and that its rows are sound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "cli/option_table.h"

static const unsigned command_bits[] = {CLI_GENERATE, CLI_TOKENIZE,    CLI_INSPECT,     CLI_SYNTH,
                                        CLI_BENCH,    CLI_KERNELCHECK, CLI_CHAT,        CLI_PLAN,
                                        CLI_SERVE,    CLI_WORKER,      CLI_BENCH_SERVE, CLI_EVAL};
enum { COMMAND_COUNT = sizeof command_bits / sizeof command_bits[0] };

static enum status parse(unsigned bit, int argc, char **argv, struct cli_options *options) {
    struct option_command command = {.bit = bit, .name = "test", .arguments = "", .summary = ""};
    int word_count = 0;
    int wants_help = 0;
    *options = (struct cli_options){0};
    return options_parse(cli_option_table(), &command, NULL, argc, argv, options, &word_count, &wants_help);
}

static void test_defaults_of_generate(void **state) {
    (void)state;
    struct cli_options options;
    assert_int_equal(parse(CLI_GENERATE, 0, NULL, &options), STATUS_OK);
    assert_int_equal(options.max_tokens, 256);
    assert_true(options.temperature == 1.0 && !options.temperature_given);
    assert_true(options.top_p == 1.0 && options.min_p == 0.0 && options.top_k == 0);
    assert_true(options.repetition_penalty == 1.0);
    assert_int_equal(options.chunk_tokens, 512);
    assert_int_equal(options.max_model_len, 0);
    assert_int_equal(options.threads, 0);
    assert_int_equal(options.numerics, CLI_NUMERICS_NATIVE);
    assert_int_equal(options.device, CLI_DEVICE_CPU);
    assert_false(options.thinking_given || options.reasoning_effort_given || options.logprobs_given);
    assert_null(options.model);
    assert_null(options.speculative_config);
}

static void test_defaults_of_chat(void **state) {
    (void)state;
    struct cli_options options;
    assert_int_equal(parse(CLI_CHAT, 0, NULL, &options), STATUS_OK);
    assert_false(options.max_tokens_given || options.seed_given || options.thinking_given);
    assert_true(options.speculative && options.mtp_adaptive);
    assert_int_equal(options.max_model_len, 0);
    assert_null(options.history);
    char *argv[] = {"--no-speculative", "--history", "none", "-n", "5"};
    assert_int_equal(parse(CLI_CHAT, 5, argv, &options), STATUS_OK);
    assert_true(!options.speculative && options.max_tokens_given && options.max_tokens == 5);
    assert_string_equal(options.history, "none");
}

/* As in vLLM; both dashes are what other programs take. */
static void test_spellings_of_layouts(void **state) {
    (void)state;
    struct cli_options options;
    char *argv[] = {"-tp", "4", "--pp", "2", "-dp=3", "-ep", "--sp", "off"};
    assert_int_equal(parse(CLI_PLAN, 0, NULL, &options), STATUS_OK);
    assert_int_equal(options.tensor_parallel_size, 1);
    assert_false(options.tensor_parallel_size_given || options.enable_expert_parallel_given ||
                 options.sp_given);
    assert_int_equal(options.max_num_seqs, 16);
    assert_int_equal(options.chunk_tokens, 512);
    assert_true(options.enable_prefix_caching && options.gpu_memory_utilization == 0.9);
    assert_int_equal(parse(CLI_PLAN, 8, argv, &options), STATUS_OK);
    assert_int_equal(options.tensor_parallel_size, 4);
    assert_int_equal(options.pipeline_parallel_size, 2);
    assert_int_equal(options.data_parallel_size, 3);
    assert_true(options.enable_expert_parallel && options.enable_expert_parallel_given);
    assert_true(options.sp_given && options.sp == 2);
    /* One letter has one dash. */
    char *wrong[] = {"--n", "4"};
    assert_int_equal(parse(CLI_GENERATE, 2, wrong, &options), STATUS_USAGE);
}

static void test_choices_match_their_enums(void **state) {
    (void)state;
    struct cli_options options;
    char *argv[] = {"--reasoning-effort=max", "--numerics=ideal", "--device=guard", "--log-level=debug"};
    assert_int_equal(parse(CLI_GENERATE, 4, argv, &options), STATUS_OK);
    assert_int_equal(options.reasoning_effort, CLI_EFFORT_MAX);
    assert_int_equal(options.numerics, CLI_NUMERICS_IDEAL);
    assert_int_equal(options.device, CLI_DEVICE_GUARD);
    assert_int_equal(options.log_level, LOG_DEBUG);
    char *others[] = {"--reasoning-effort=low", "--log-level=info"};
    assert_int_equal(parse(CLI_GENERATE, 2, others, &options), STATUS_OK);
    assert_int_equal(options.reasoning_effort, CLI_EFFORT_LOW);
    assert_int_equal(options.log_level, LOG_INFO);
}

static void test_spellings_of_vllm(void **state) {
    (void)state;
    struct cli_options options;
    char *argv[] = {"--max-num-batched-tokens", "64",        "--max-model-len", "4096",
                    "--speculative-config",     "{\"a\":1}", "--no-thinking"};
    assert_int_equal(parse(CLI_GENERATE, 7, argv, &options), STATUS_OK);
    assert_int_equal(options.chunk_tokens, 64);
    assert_int_equal(options.max_model_len, 4096);
    assert_string_equal(options.speculative_config, "{\"a\":1}");
    assert_true(options.thinking_given && !options.thinking);
}

static void test_rows_are_sound(void **state) {
    (void)state;
    const struct option_table *table = cli_option_table();
    const struct option_row *row;
    for (size_t i = 0; (row = option_table_row(table, i)) != NULL; i++) {
        assert_true(row->commands != 0);
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_true(row->offset < sizeof(struct cli_options));
        assert_true(row->type == OPTION_CHOICE ? row->choices != NULL
                                               : row->choices == NULL || row->type == OPTION_INT);
        assert_true(row->type == OPTION_FLAG || row->type == OPTION_CHOICE || row->value_name != NULL);
        for (size_t j = 0; j < i; j++) {
            const struct option_row *other = option_table_row(table, j);
            assert_string_not_equal(row->name, other->name);
            assert_true(row->alias == NULL || other->alias == NULL || strcmp(row->alias, other->alias) != 0);
            assert_true(row->offset != other->offset);
        }
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        struct cli_options options;
        assert_int_equal(parse(command_bits[i], 0, NULL, &options), STATUS_OK);
        assert_int_equal(options.log_level, LOG_WARNING);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_of_generate), cmocka_unit_test(test_defaults_of_chat),
        cmocka_unit_test(test_spellings_of_layouts), cmocka_unit_test(test_choices_match_their_enums),
        cmocka_unit_test(test_spellings_of_vllm),    cmocka_unit_test(test_rows_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
