/* What serve was told reaches its workers: their command line gives the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/worker_arguments.h"

static void parse(unsigned command, int argc, const char *const *argv, struct cli_options *out) {
    const struct option_command description = {command, "x", "", "", NULL};
    char *words[WORKER_ARGUMENTS_MAX];
    int word_count = 0;
    int wants_help = 0;
    for (int i = 0; i < argc; i++) {
        words[i] = (char *)(uintptr_t)argv[i];
    }
    memset(out, 0, sizeof *out);
    enum status status =
        options_parse(cli_option_table(), &description, NULL, argc, words, out, &word_count, &wants_help);
    if (status != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    assert_int_equal(word_count, 0);
}

/* There and back; returns how many words it took besides the first two. */
static int pass_on(int argc, const char *const *argv, struct arena *arena, struct cli_options *front,
                   struct cli_options *worker) {
    const char *words[WORKER_ARGUMENTS_MAX];
    int count = 0;
    parse(CLI_SERVE, argc, argv, front);
    assert_int_equal(worker_arguments_write(front, arena, words), STATUS_OK);
    assert_string_equal(words[0], "sluice");
    assert_string_equal(words[1], "worker");
    while (words[2 + count] != NULL) {
        count++;
    }
    parse(CLI_WORKER, count, words + 2, worker);
    return count;
}

static void test_all_kinds_of_values(void **state) {
    static const char *const argv[] = {
        "--model=a b",
        "--max-num-seqs=3",
        "--max-model-len=auto",
        "--block-size=256",
        "--no-enable-prefix-caching",
        "--numerics=ideal",
        "--threads=2",
        "-tp",
        "1",
        "--no-enable-expert-parallel",
        "--no-mtp-adaptive",
        "--mtp-sampling=rejection",
        "--mtp-schedule=8=2,64=1",
        "--speculative-config={\"method\":\"mtp\",\"num_speculative_tokens\":2}",
        "--log-level=debug"};
    struct cli_options front;
    struct cli_options worker;
    struct arena arena;
    (void)state;
    arena_init(&arena, 1024);
    pass_on(sizeof argv / sizeof argv[0], argv, &arena, &front, &worker);
    assert_string_equal(worker.model, "a b");
    assert_int_equal(worker.max_num_seqs, 3);
    assert_int_equal(worker.block_size, 256);
    assert_int_equal(worker.max_model_len, OPTION_INT_WORD);
    assert_false(worker.enable_prefix_caching);
    assert_int_equal(worker.numerics, CLI_NUMERICS_IDEAL);
    assert_int_equal(worker.threads, 2);
    assert_true(worker.enable_expert_parallel_given && !worker.enable_expert_parallel);
    assert_true(worker.tensor_parallel_size_given);
    assert_false(worker.mtp_adaptive);
    assert_int_equal(worker.mtp_sampling, CLI_MTP_REJECTION);
    assert_string_equal(worker.mtp_schedule, "8=2,64=1");
    assert_string_equal(worker.speculative_config, front.speculative_config);
    assert_int_equal(worker.log_level, 3);
    arena_deinit(&arena);
}

static void test_defaults_need_no_words(void **state) {
    static const char *const argv[] = {"-m", "model", "-dp", "1"};
    struct cli_options front;
    struct cli_options worker;
    struct arena arena;
    (void)state;
    arena_init(&arena, 1024);
    assert_int_equal(pass_on(sizeof argv / sizeof argv[0], argv, &arena, &front, &worker), 1);
    assert_int_equal(front.data_parallel_size, 1);
    assert_string_equal(worker.model, "model");
    assert_true(worker.enable_prefix_caching && worker.mtp_adaptive);
    arena_deinit(&arena);
}

static void test_replicas_share_the_cores(void **state) {
    static const char *const argv[] = {"-m", "model", "-dp", "4096"};
    struct cli_options front;
    struct cli_options worker;
    struct arena arena;
    (void)state;
    arena_init(&arena, 1024);
    pass_on(sizeof argv / sizeof argv[0], argv, &arena, &front, &worker);
    assert_int_equal(worker.threads, 1);
    front.data_parallel_size = 1;
    const char *words[WORKER_ARGUMENTS_MAX];
    assert_int_equal(worker_arguments_write(&front, &arena, words), STATUS_OK);
    assert_string_equal(words[2], "--model=model");
    assert_null(words[3]);
    arena_deinit(&arena);
}

/* One worker has all replicas and all cores; replicas without common experts are workers of their own. */
static void test_replicas_that_share_experts(void **state) {
    static const char *const argv[] = {"-m", "model", "-dp", "2", "--enable-expert-parallel"};
    struct cli_options front;
    struct cli_options worker;
    struct arena arena;
    (void)state;
    arena_init(&arena, 1024);
    pass_on(sizeof argv / sizeof argv[0], argv, &arena, &front, &worker);
    assert_true(cli_replicas_share_experts(&front));
    assert_int_equal(worker.data_parallel_size, 2);
    assert_int_equal(worker.threads, 0);
    pass_on(4, argv, &arena, &front, &worker);
    assert_false(cli_replicas_share_experts(&front));
    assert_int_equal(worker.data_parallel_size, 1);
    arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds_of_values),
        cmocka_unit_test(test_defaults_need_no_words),
        cmocka_unit_test(test_replicas_share_the_cores),
        cmocka_unit_test(test_replicas_that_share_experts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
