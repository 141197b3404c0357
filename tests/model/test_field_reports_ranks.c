/*
 * Faults that users of other engines met with ranks: layers that no stage had, draft layers that got lost, a
 * first request too short for the stages, groups that wait for who has no rows. On layout-v4, of 8 layers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/partition.h"
#include "support/request_fixture.h"
#include "weights/fixture.h"

enum { LAYERS = 8, PROMPT = 300, LAYERS_TRIED = 80, RANKS_TRIED = 16 };

struct scene {
    char directory[FIXTURE_PATH_BYTES];
    int32_t prompt[PROMPT];
};

static int set_up(void **state) {
    struct scene *scene = calloc(1, sizeof *scene);
    assert_non_null(scene);
    fixture_make(scene->directory);
    model_synthesise(scene->directory, LAYOUT_CONFIG, NULL, 0);
    model_random_tokens(3, TINY_VOCABULARY, scene->prompt, PROMPT);
    *state = scene;
    return 0;
}

static int tear_down(void **state) {
    struct scene *scene = *state;
    fixture_remove(scene->directory);
    free(scene);
    return 0;
}

static enum sluice_status open_engine(const struct scene *scene, int pipeline, int tensor, int drafts,
                                      struct sluice_engine **out) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = scene->directory;
    options.thread_count = 2;
    options.context_tokens = 512;
    options.sequence_limit = 4;
    options.step_token_limit = 64;
    options.draft.limit = drafts;
    options.draft.is_adaptive = false;
    options.parallel.pipeline = pipeline;
    options.parallel.tensor = tensor;
    return sluice_engine_open(&options, out);
}

/* Runs a beginning of the prompt; nothing may take long, whatever the ranks wait for. */
static size_t run(struct sluice_engine *engine, struct scene *scene, size_t prompt_tokens, int answer_tokens,
                  struct answer *out) {
    const struct planned_request planned = {
        .prompt = scene->prompt, .prompt_count = prompt_tokens, .answer_limit = answer_tokens};
    struct sluice_request *request = request_submit(engine, &planned, 0);
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, 30.0);
    assert_int_equal(end.finish_reason, SLUICE_FINISH_LENGTH);
    request_collect(request, out);
    assert_int_equal(out->count, answer_tokens);
    sluice_request_release(&request);
    return end.cached_prompt_tokens;
}

/* B44 (mlx-lm 1688, torchtitan 963): ten layers on three ranks lost two. */
static void every_layer_is_on_one_stage(void **state) {
    (void)state;
    double costs[LAYERS_TRIED];
    for (int i = 0; i < LAYERS_TRIED; i++) {
        costs[i] = 1.0 + i % 3;
    }
    for (int layers = 1; layers <= LAYERS_TRIED; layers++) {
        const struct partition_input input = {.layer_count = layers, .layer_costs = costs, .last_cost = 2.5};
        for (int ranks = 1; ranks <= RANKS_TRIED; ranks++) {
            int first_layers[RANKS_TRIED + 1];
            enum status status = partition_choose(&input, ranks, first_layers);
            if (ranks > layers + (ranks > 1)) {
                assert_int_equal(status, STATUS_BAD_CONFIG);
                continue;
            }
            assert_int_equal(status, STATUS_OK);
            assert_int_equal(first_layers[0], 0);
            assert_int_equal(first_layers[ranks], layers);
            for (int s = 0; s < ranks; s++) {
                assert_true(first_layers[s] < first_layers[s + 1] || s == ranks - 1);
                assert_true(first_layers[s] <= first_layers[s + 1]);
            }
        }
    }
}

/* B44: numbers of stages that divide the layers or do not give the same numbers; too many are refused. */
static void odd_numbers_of_stages_give_the_same(void **state) {
    static const int stages[] = {2, 3, 5, 8};
    static struct answer alone;
    static struct answer answer;
    struct sluice_engine *engine;
    EXPECT_OK(open_engine(*state, 1, 1, 0, &engine));
    run(engine, *state, 100, 12, &alone);
    sluice_engine_close(&engine);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        EXPECT_OK(open_engine(*state, stages[i], 1, 0, &engine));
        run(engine, *state, 100, 12, &answer);
        assert_memory_equal(&answer, &alone, sizeof answer);
        sluice_engine_close(&engine);
    }
    assert_int_equal(open_engine(*state, LAYERS + 2, 1, 0, &engine), SLUICE_BAD_CONFIG);
    assert_non_null(strstr(sluice_last_error(), "10 pipeline stages"));
    assert_non_null(strstr(sluice_last_error(), "8 layers"));
}

/* B45 (TensorRT-LLM 12555), M-44: the draft layer was on no stage, and the last one waited for its weights.
 */
static void drafts_survive_stages(void **state) {
    static const int stages[] = {2, 4};
    static const int drafts[] = {1, 3};
    static struct answer alone;
    static struct answer answer;
    struct sluice_engine *engine;
    EXPECT_OK(open_engine(*state, 1, 1, 0, &engine));
    run(engine, *state, 10, 20, &alone);
    sluice_engine_close(&engine);
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(open_engine(*state, stages[i / 2], 1, drafts[i % 2], &engine));
        run(engine, *state, 10, 20, &answer);
        assert_memory_equal(&answer, &alone, sizeof answer);
        sluice_engine_close(&engine);
    }
}

/* B47 (sglang 17941): three stages hung on a first request of 6 tokens; then one token, then all but cached.
 */
static void short_first_requests_pass_all_stages(void **state) {
    static struct answer answer;
    static struct answer again;
    struct sluice_engine *engine;
    EXPECT_OK(open_engine(*state, 3, 1, 0, &engine));
    run(engine, *state, 6, 4, &answer);
    run(engine, *state, 1, 4, &answer);
    assert_int_equal(run(engine, *state, 257, 4, &answer), 0);
    assert_int_equal(run(engine, *state, 257, 4, &again), 256);
    assert_memory_equal(&again, &answer, sizeof again);
    sluice_engine_close(&engine);
}

/* As B50 and B52 (E-19), of the ranks of one stage: most have no row of a step of one, and must take part. */
static void ranks_without_rows_take_part(void **state) {
    static struct answer alone;
    static struct answer answer;
    struct sluice_engine *engine;
    EXPECT_OK(open_engine(*state, 1, 1, 0, &engine));
    run(engine, *state, 7, 8, &alone);
    sluice_engine_close(&engine);
    EXPECT_OK(open_engine(*state, 1, 4, 0, &engine));
    run(engine, *state, 7, 8, &answer);
    assert_memory_equal(&answer, &alone, sizeof answer);
    sluice_engine_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_on_one_stage),
        cmocka_unit_test(odd_numbers_of_stages_give_the_same),
        cmocka_unit_test(drafts_survive_stages),
        cmocka_unit_test(short_first_requests_pass_all_stages),
        cmocka_unit_test(ranks_without_rows_take_part),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
