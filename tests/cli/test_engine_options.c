/* What a command line says reaches the engine's and the front's options, word by word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/engine_options.h"
#include "cli/serve_options.h"

enum { WORDS_MAX = 8 };

static enum status read_words(const char *const *argv, struct cli_options *out) {
    const struct option_command description = {CLI_SERVE, "serve", "", "", NULL};
    char *words[WORDS_MAX];
    int argc = 0;
    int word_count = 0;
    int wants_help = 0;
    for (; argv[argc] != NULL; argc++) {
        words[argc] = (char *)(uintptr_t)argv[argc];
    }
    *out = (struct cli_options){0};
    TRY(options_parse(cli_option_table(), &description, NULL, argc, words, out, &word_count, &wants_help));
    out->model = "model";
    return STATUS_OK;
}

static void parse(const char *const *argv, struct cli_options *out) {
    assert_int_equal(read_words(argv, out), STATUS_OK);
}

static enum status read_engine(const char *const *argv, struct cli_engine_options *out) {
    struct cli_options options;
    TRY(read_words(argv, &options));
    return cli_engine_options_read(&options, 0, out);
}

static struct sluice_engine_options engine_of(const char *word, const char *value) {
    static struct cli_engine_options out;
    const char *const argv[] = {word, value, NULL};
    assert_int_equal(read_engine(argv, &out), STATUS_OK);
    return out.engine;
}

static struct front_options front_of(const char *word, const char *value) {
    static struct serve_options out;
    const char *const argv[] = {word, value, NULL};
    struct cli_options options;
    parse(argv, &options);
    assert_int_equal(serve_options_read(&options, "1", &out), STATUS_OK);
    serve_options_deinit(&out);
    return out.front;
}

static void test_engine_words(void **state) {
    (void)state;
    const struct sluice_engine_options defaults = engine_of(NULL, NULL);
    assert_int_equal(defaults.parallel.expert_exchange, SLUICE_EXPERT_EXCHANGE_AUTO);
    assert_int_equal(engine_of("--moe-comm", "agrs").parallel.expert_exchange, SLUICE_EXPERT_EXCHANGE_GATHER);
    assert_int_equal(engine_of("--moe-comm", "a2a").parallel.expert_exchange,
                     SLUICE_EXPERT_EXCHANGE_DISPATCH);
    assert_int_equal(defaults.parallel.row_gather, SLUICE_ROW_GATHER_AUTO);
    assert_int_equal(engine_of("--sp-gather", "early").parallel.row_gather, SLUICE_ROW_GATHER_EARLY);
    assert_int_equal(engine_of("--sp-gather", "late").parallel.row_gather, SLUICE_ROW_GATHER_LATE);
    assert_int_equal(engine_of("--sp-min-rows", "24").parallel.shared_rows_min, 24);
    assert_int_equal(engine_of("--sp-replicate", "none").parallel.shared_experts, SLUICE_SHARED_EXPERTS_CUT);
    assert_int_equal(engine_of("--sp-replicate", "shared").parallel.shared_experts,
                     SLUICE_SHARED_EXPERTS_WHOLE);
    assert_int_equal(defaults.parallel.objective, SLUICE_STAGES_FOR_DECODE);
    assert_int_equal(engine_of("--pp-objective", "prefill").parallel.objective, SLUICE_STAGES_FOR_PREFILL);
    assert_int_equal(defaults.parallel.in_flight, 0);
    assert_int_equal(engine_of("--pp-inflight", "3").parallel.in_flight, 3);
    assert_int_equal(defaults.context_tokens, 0);
    assert_int_equal(engine_of("--max-model-len", "300").context_tokens, 300);
    assert_int_equal(engine_of("--max-model-len", "auto").context_tokens, SLUICE_CONTEXT_THAT_FITS);
}

static void test_front_words(void **state) {
    (void)state;
    const struct front_options defaults = front_of(NULL, NULL);
    assert_int_equal(defaults.api.log_probability_limit, 20);
    assert_int_equal(front_of("--max-logprobs", "7").api.log_probability_limit, 7);
    assert_int_equal(defaults.http.connection_limit, 4096);
    assert_int_equal(front_of("--max-connections", "9").http.connection_limit, 9);
    assert_int_equal(defaults.http.connections_per_address, 0);
    assert_int_equal(front_of("--max-connections-per-address", "3").http.connections_per_address, 3);
    assert_false(defaults.api.forces_usage);
    assert_true(front_of("--enable-force-include-usage", NULL).api.forces_usage);
    assert_false(defaults.api.prints_tokens_details);
    assert_true(front_of("--enable-prompt-tokens-details", NULL).api.prints_tokens_details);
    assert_string_equal(defaults.api.generation.source, "auto");
    assert_null(defaults.api.generation.overrides);
    assert_string_equal(front_of("--generation-config", "vllm").api.generation.source, "vllm");
    assert_string_equal(front_of("--override-generation-config", "{}").api.generation.overrides, "{}");
}

/* vLLM's configuration of drafts: what it says here, what it does not, and what nobody knows. */
static void test_speculation(void **state) {
    (void)state;
    struct cli_engine_options out;
    const char *const limited[] = {"--speculative-config",
                                   "{\"method\":\"mtp\",\"num_speculative_tokens\":2,"
                                   "\"disable_by_batch_size\":8,\"draft_tensor_parallel_size\":1}",
                                   NULL};
    assert_int_equal(read_engine(limited, &out), STATUS_OK);
    assert_int_equal(out.engine.draft.limit, 2);
    assert_int_equal(out.engine.draft.schedule_row_count, 2);
    assert_int_equal(out.engine.draft.schedule[0].sequence_count, 8);
    assert_true(out.engine.draft.schedule[0].draft_limit >= 2);
    assert_int_equal(out.engine.draft.schedule[1].sequence_count, 9);
    assert_int_equal(out.engine.draft.schedule[1].draft_limit, 0);
    const char *const twice[] = {limited[0], limited[1], "--mtp-schedule", "4=1", NULL};
    assert_int_equal(read_engine(twice, &out), STATUS_USAGE);
    assert_non_null(strstr(error_last()->message, "leave one of them out"));
    static const char *const wrong[][2] = {
        {"{\"method\":\"mtp\",\"num_speculative_tokens\":2,\"num_draft_tokens\":3}",
         "the key \"num_draft_tokens\" is unknown"},
        {"{\"method\":\"mtp\",\"num_speculative_tokens\":2,\"disable_by_batch_size\":0}",
         "disable_by_batch_size is not a number from 1 on"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const argv[] = {"--speculative-config", wrong[i][0], NULL};
        assert_int_equal(read_engine(argv, &out), STATUS_USAGE);
        assert_non_null(strstr(error_last()->message, wrong[i][1]));
    }
}

/* G-4, CFG-14: what is reserved can be said, and is refused where it is not what there is. */
static void test_reserved_layouts(void **state) {
    (void)state;
    struct cli_engine_options out;
    const char *const same[] = {"-pp", "2", "-tp", "4", "--pp-tensor-parallel-sizes", "4,4", NULL};
    const char *const other[] = {"-pp", "2", "-tp", "4", "--pp-tensor-parallel-sizes", "4,2", NULL};
    static const char *const wrong[] = {"",     "4,4,", "4,,4", "4,x", "4,0",
                                        "4,-4", " 4,4", "4;4",  "4",   "4,4,4"};
    assert_int_equal(read_engine(same, &out), STATUS_OK);
    assert_int_equal(read_engine(other, &out), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error_last()->message, "stages of different tensor parallelism (4,2)"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const argv[] = {"-pp", "2", "-tp", "4", "--pp-tensor-parallel-sizes", wrong[i], NULL};
        assert_int_equal(read_engine(argv, &out), STATUS_USAGE);
        assert_non_null(strstr(error_last()->message, wrong[i]));
    }
}

/* M-17: drafts are accepted in ways that lose nothing, or not at all: what else there is elsewhere is
 * refused. */
static void test_other_acceptance_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][3] = {
        {"--mtp-sampling", "typical", "coupled"},
        {"--mtp-sampling", "typical", "rejection"},
        {"--speculative-config",
         "{\"method\":\"mtp\",\"num_speculative_tokens\":2,\"acceptance_method\":\"typical_acceptance_"
         "sampler\"}",
         "the key \"acceptance_method\" is unknown"},
        {"--speculative-config",
         "{\"method\":\"mtp\",\"num_speculative_tokens\":2,\"posterior_threshold\":0.09}",
         "the key \"posterior_threshold\" is unknown"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cli_engine_options out;
        const char *const argv[] = {wrong[i][0], wrong[i][1], NULL};
        assert_int_equal(read_engine(argv, &out), STATUS_USAGE);
        if (strstr(error_last()->message, wrong[i][2]) == NULL) {
            fail_msg("\"%s\" is not in: %s", wrong[i][2], error_last()->message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_words),
        cmocka_unit_test(test_front_words),
        cmocka_unit_test(test_speculation),
        cmocka_unit_test(test_reserved_layouts),
        cmocka_unit_test(test_other_acceptance_is_refused),
    };
    log_set_level(LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
