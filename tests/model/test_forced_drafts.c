/*
 * Whole rounds with drafts put in by hand, so that every number of them is accepted, in mixed company: after
 * each round state and logits are those of a run that never speculated.
 *
 * Drafts that are always right, always wrong or half right stand for a perfect, a useless and a middling
 * draft layer, as in faults that users of other engines met; these tests name the kind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/model_fixture.h"
#include "support/round_driver.h"
#include "support/state_digest.h"
#include "weights/fixture.h"

enum {
    DRAFTS = 4,
    SEQUENCES = 4,
    ANSWER = TESTS_ARE_SHORT ? 40 : 100,
    PROMPT_MAX = 140,
    LENGTH_MAX = PROMPT_MAX + ANSWER,
    TOP = 3,
};

/* A request, and what it gave alone without drafts, by the number of tokens that have run. */
struct reference {
    int32_t prompt[PROMPT_MAX];
    struct sluice_request_options request;
    struct sequence sequence;
    struct state_digest digests[LENGTH_MAX + 1];
    float logits[LENGTH_MAX + 1][TINY_VOCABULARY];
};

struct fixture {
    char directory[FIXTURE_PATH_BYTES];
    struct reference references[SEQUENCES];
};

static const int32_t *text_of(const struct reference *reference) {
    return reference->sequence.tokens + reference->sequence.prompt_count;
}

static struct sluice_engine_options options_of(const struct fixture *fixture, int drafts,
                                               enum sluice_numerics numerics) {
    struct sluice_engine_options options = model_options(fixture->directory);
    options.numerics = numerics;
    options.context_tokens = LENGTH_MAX + 20;
    options.sequence_limit = SEQUENCES;
    options.step_token_limit = 60;
    options.draft.limit = drafts;
    options.draft.is_adaptive = false;
    return options;
}

/* Prompts that end before, at and after a window and a page; greedy, drawn, and with penalties. */
static void plan_requests(struct fixture *fixture) {
    static const size_t lengths[SEQUENCES] = {1, 15, 33, 127};
    for (int i = 0; i < SEQUENCES; i++) {
        struct reference *reference = &fixture->references[i];
        model_random_tokens((uint64_t)i, TINY_VOCABULARY, reference->prompt, PROMPT_MAX);
        reference->request = sluice_request_options_default();
        reference->request.prompt = reference->prompt;
        reference->request.prompt_count = lengths[i];
        reference->request.token_limit = ANSWER;
        reference->request.log_probability_count = TOP;
        reference->request.sampling.temperature = i % 2 == 0 ? 0.0 : 0.8;
        reference->request.sampling.frequency_penalty = i == 3 ? 0.4 : 0.0;
        reference->request.sampling.seed = (uint64_t)i;
    }
}

static void look_at_single_rows(struct round_driver *driver, void *context) {
    struct reference *reference = context;
    const struct step_segment *step = &driver->plan.step.segments[0];
    int32_t computed = step->first_position + step->row_count;
    if (driver->result.feedback_count == 1) {
        memcpy(reference->logits[computed], round_driver_logits(driver, 0), sizeof reference->logits[0]);
        state_digest_take(driver->work.core, step->slot, computed, &reference->digests[computed]);
    }
}

static void make_references(struct fixture *fixture, enum sluice_numerics numerics) {
    struct sluice_engine_options options = options_of(fixture, 0, numerics);
    struct round_driver driver;
    round_driver_open(&driver, &options);
    driver.look = look_at_single_rows;
    for (int i = 0; i < SEQUENCES; i++) {
        struct reference *reference = &fixture->references[i];
        sequence_deinit(&reference->sequence);
        driver.look_context = reference;
        round_driver_submit(&driver, &reference->request, &reference->sequence);
        round_driver_finish(&driver);
        assert_int_equal(reference->sequence.token_count - reference->sequence.prompt_count, ANSWER);
    }
    round_driver_close(&driver);
}

static int set_up(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture_make(fixture->directory);
    model_synthesise(fixture->directory, TINY_CONFIG, NULL, 0);
    plan_requests(fixture);
    make_references(fixture, SLUICE_NUMERICS_IDEAL);
    *state = fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < SEQUENCES; i++) {
        sequence_deinit(&fixture->references[i].sequence);
    }
    fixture_remove(fixture->directory);
    free(fixture);
    return 0;
}

/* A run of all requests with drafts put in, in comparison with the references. */
struct forced_run {
    const struct fixture *fixture;
    struct round_driver driver;
    struct sequence sequences[SEQUENCES];
    int32_t submitted;
    int32_t planned[SEQUENCES];   /* drafts that the coming round must accept; -1: not known */
    int32_t by_count[DRAFTS + 1]; /* rounds by the number of accepted drafts */
    bool is_damaged;              /* on purpose: differences are counted only */
    int32_t logit_differences;
    int32_t state_differences;
};

static int32_t index_of(const struct forced_run *run, const struct sequence *sequence) {
    return (int32_t)(sequence - run->sequences);
}

/* Every row whose token is kept has the reference's logits. */
static void look_at_forced(struct round_driver *driver, void *context) {
    struct forced_run *run = context;
    for (int32_t i = 0; i < driver->result.feedback_count; i++) {
        const struct round_feedback *feedback = &driver->result.feedback[i];
        const struct sequence *sequence = round_driver_sequence(driver, feedback->segment);
        const struct reference *reference = &run->fixture->references[index_of(run, sequence)];
        const float *logits = round_driver_logits(driver, i);
        for (int32_t j = 0; j <= feedback->accepted_drafts; j++) {
            run->logit_differences +=
                memcmp(logits + j * TINY_VOCABULARY, reference->logits[sequence->token_count + j],
                       sizeof reference->logits[0]) != 0;
        }
        if (!run->is_damaged && run->planned[index_of(run, sequence)] >= 0) {
            assert_int_equal(feedback->accepted_drafts, run->planned[index_of(run, sequence)]);
            run->by_count[feedback->accepted_drafts]++;
        }
    }
}

/* The state of everyone who answers. */
static void compare_states(struct forced_run *run) {
    for (int32_t i = 0; i < run->submitted; i++) {
        const struct sequence *sequence = &run->sequences[i];
        struct state_digest digest;
        if (sequence->phase == SEQUENCE_RUNNING && sequence_is_answering(sequence)) {
            const struct state_digest *expected = &run->fixture->references[i].digests[sequence->computed];
            state_digest_take(run->driver.work.core, sequence->slot, sequence->computed, &digest);
            run->state_differences +=
                memcmp(digest.kinds, expected->kinds, (size_t)digest.count * sizeof digest.kinds[0]) != 0;
        }
    }
}

/*
 * All requests, one joining every third round, with drafts of which a changing number is right; the last
 * round of an answer has no room for as many. The draft layer goes on making its own, which are replaced.
 */
static void run_forced(struct forced_run *run, struct engine_core **core) {
    round_driver_start(&run->driver, core);
    run->driver.look = look_at_forced;
    run->driver.look_context = run;
    for (int32_t round = 0; run->driver.finished < SEQUENCES; round++) {
        if (round % 3 == 0 && run->submitted < SEQUENCES) {
            int32_t i = run->submitted++;
            round_driver_submit(&run->driver, &run->fixture->references[i].request, &run->sequences[i]);
        }
        for (int32_t i = 0; i < run->submitted; i++) {
            int32_t count = 1 + (round + i) % DRAFTS;
            int32_t right = (round * 3 + round / 5 + i) % (DRAFTS + 1);
            run->planned[i] = round_driver_force_drafts(&run->driver, &run->sequences[i],
                                                        text_of(&run->fixture->references[i]), right,
                                                        round % 2 == 0 ? DRAFTS : count);
        }
        round_driver_run(&run->driver);
        compare_states(run);
    }
}

static void end_forced(struct forced_run *run) {
    for (int32_t i = 0; i < SEQUENCES; i++) {
        sequence_deinit(&run->sequences[i]);
    }
    round_driver_close(&run->driver);
    free(run);
}

static struct forced_run *make_forced(const struct fixture *fixture) {
    struct forced_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    run->fixture = fixture;
    return run;
}

/* T-10, M-9: every count in every round, up to the end of the context. */
static void test_every_accepted_count(void **state) {
    struct fixture *fixture = *state;
    for (int numerics = NUMERICS_COUNT - 1; numerics >= 0; numerics--) {
        struct sluice_engine_options options = options_of(fixture, DRAFTS, (enum sluice_numerics)numerics);
        struct forced_run *run = make_forced(fixture);
        struct engine_core *core;
        make_references(fixture, (enum sluice_numerics)numerics);
        EXPECT_OK(engine_core_open(&options, &core));
        run_forced(run, &core);
        assert_int_equal(run->logit_differences, 0);
        assert_int_equal(run->state_differences, 0);
        for (int32_t count = 0; count <= DRAFTS; count++) {
            assert_true(run->by_count[count] > SEQUENCES);
        }
        for (int i = 0; i < SEQUENCES; i++) {
            const struct sequence *expected = &fixture->references[i].sequence;
            assert_memory_equal(run->sequences[i].tokens, expected->tokens,
                                (size_t)expected->token_count * sizeof *expected->tokens);
            assert_memory_equal(run->sequences[i].rules.log_probabilities, expected->rules.log_probabilities,
                                ANSWER * (1 + TOP) * sizeof *expected->rules.log_probabilities);
        }
        end_forced(run);
    }
}

/* Takes `rows` rows away from the rings of the given name. */
static void shorten_rings(struct engine_core *core, const char *name, int rows) {
    struct executor_options options =
        model_executor_options(core, core->options.step_token_limit, core->options.sequence_limit);
    struct state_pool_options pool = core->states.options;
    int32_t page_count = core->states.page_count;
    int changed = 0;
    for (int i = 0; i < core->state_table.count; i++) {
        if (strcmp(core->state_table.kinds[i].name, name) == 0) {
            core->state_table.kinds[i].rows -= rows;
            changed++;
        }
    }
    assert_true(changed > 0);
    executor_destroy(&core->executor);
    state_pool_deinit(&core->states);
    EXPECT_OK(state_pool_init(&core->states, core->device, &core->state_table,
                              (enum numerics)core->options.numerics, &pool));
    EXPECT_OK(state_pool_alloc(&core->states, page_count));
    EXPECT_OK(executor_create(&options, &core->executor));
}

/*
 * T-11, M-22, M-23: rings without the rows that drafts need give other logits: the test above looks where it
 * hurts. Two rows, for one is there so that a step can be run again from its first row (test_rollback);
 * rounds keep that row.
 */
static void test_shorter_rings_fail(void **state) {
    const struct fixture *fixture = *state;
    static const char *const names[] = {"window", "raw", "index raw"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sluice_engine_options options = options_of(fixture, DRAFTS, SLUICE_NUMERICS_IDEAL);
        struct forced_run *run = make_forced(fixture);
        struct engine_core *core;
        EXPECT_OK(engine_core_open(&options, &core));
        shorten_rings(core, names[i], 2);
        run->is_damaged = true;
        run_forced(run, &core);
        if (run->logit_differences == 0) {
            fail_msg("rings \"%s\" with two rows less gave the same logits", names[i]);
        }
        end_forced(run);
    }
}

/* One request alone, with drafts put in by hand in every round; a field report's draft layer. */
static void run_alone(const struct fixture *fixture, const struct sluice_request_options *request,
                      const struct reference *reference, int drafts, int (*right)(int round),
                      struct sequence *out) {
    struct sluice_engine_options options = options_of(fixture, drafts, SLUICE_NUMERICS_IDEAL);
    struct round_driver driver;
    round_driver_open(&driver, &options);
    round_driver_submit(&driver, request, out);
    for (int round = 0; driver.finished == 0; round++) {
        if (drafts > 0) {
            round_driver_force_drafts(&driver, out, text_of(reference), right(round), drafts);
        }
        round_driver_run(&driver);
    }
    round_driver_close(&driver);
}

static int always_right(int round) {
    (void)round;
    return DRAFT_LIMIT_MAX;
}

static int half_right(int round) {
    return round % 2 == 0 ? DRAFT_LIMIT_MAX : round % 3;
}

static size_t first_place(const int32_t *text, int32_t token) {
    size_t place = 0;
    while (text[place] != token) {
        place++;
    }
    return place;
}

/*
 * B65: one accepted run held a stop and crossed the limit: the earlier one counts, and nothing comes after
 * it. Stop at the 3rd token with a limit of 5, and at the 6th.
 */
static void test_earliest_end_in_a_run(void **state) {
    struct fixture *fixture = *state;
    static const int stops[] = {3, 6};
    make_references(fixture, SLUICE_NUMERICS_IDEAL);
    const struct reference *reference = &fixture->references[1];
    for (int i = 0; i < 2; i++) {
        struct sluice_request_options request = reference->request;
        struct sequence sequence;
        size_t place = first_place(text_of(reference), text_of(reference)[stops[i] - 1]);
        request.token_limit = 5;
        request.stop_tokens = &text_of(reference)[stops[i] - 1];
        request.stop_token_count = 1;
        run_alone(fixture, &request, reference, 5, always_right, &sequence);
        assert_int_equal(place + 1, stops[i]);
        assert_int_equal(sequence.finish_reason, i == 0 ? SLUICE_FINISH_STOP : SLUICE_FINISH_LENGTH);
        assert_int_equal(sequence.token_count - sequence.prompt_count, i == 0 ? 3 : 5);
        assert_memory_equal(text_of(reference), sequence.tokens + sequence.prompt_count,
                            (i == 0 ? 3 : 5) * 4);
        sequence_deinit(&sequence);
    }
}

/* A grammar with one sentence. It must not be asked again once it has ended. */
struct grammar {
    const int32_t *sentence;
    size_t length;
    size_t done;
    int calls_after_end;
};

static size_t count_allowed(void *context, const int32_t *drafts, size_t draft_count) {
    struct grammar *grammar = context;
    size_t count = 0;
    grammar->calls_after_end += grammar->done == grammar->length;
    while (count < draft_count && grammar->done + count < grammar->length &&
           drafts[count] == grammar->sentence[grammar->done + count]) {
        count++;
    }
    return count;
}

static bool allow(void *context, const int32_t *drafts, size_t draft_count, uint32_t *mask) {
    struct grammar *grammar = context;
    size_t next = grammar->done + draft_count;
    grammar->calls_after_end += grammar->done == grammar->length;
    (void)drafts;
    /* After its end only the end token may follow, whatever is asked ahead of time. */
    int32_t token = next < grammar->length ? grammar->sentence[next] : 1;
    mask[token / 32] |= 1u << (token % 32);
    return true;
}

static bool accept(void *context, int32_t token) {
    struct grammar *grammar = context;
    grammar->calls_after_end += grammar->done == grammar->length;
    assert_int_equal(token, grammar->sentence[grammar->done]);
    return ++grammar->done == grammar->length;
}

/*
 * B68, M-10: a grammar that ended inside an accepted run was asked for one more mask, and the answer was
 * lost. Sentences of all lengths up to twice a run, so the end lies at every place of one.
 */
static void test_grammar_ends_in_a_run(void **state) {
    const struct fixture *fixture = *state;
    const struct reference *reference = &fixture->references[1];
    for (size_t length = 1; length <= 12; length++) {
        struct grammar grammar = {text_of(reference), length, 0, 0};
        struct sluice_request_options request = reference->request;
        struct sequence sequence;
        request.constraint = (struct sluice_constraint){
            .count_allowed = count_allowed, .allow = allow, .accept = accept, .context = &grammar};
        run_alone(fixture, &request, reference, 5, always_right, &sequence);
        assert_int_equal(sequence.finish_reason, SLUICE_FINISH_STOP);
        assert_int_equal(sequence.token_count - sequence.prompt_count, length);
        assert_int_equal(grammar.calls_after_end, 0);
        sequence_deinit(&sequence);
    }
}

/*
 * B77: two and more drafts put begin-of-text tokens after partly accepted runs: greedy text and its
 * log-probabilities (which drafting once turned to 0) are the same for every number of drafts.
 */
static void test_every_draft_count(void **state) {
    const struct fixture *fixture = *state;
    for (int i = 0; i < SEQUENCES; i++) {
        const struct reference *reference = &fixture->references[i];
        const struct sequence *expected = &reference->sequence;
        for (int drafts = 1; drafts <= DRAFTS; drafts++) {
            struct sequence sequence;
            run_alone(fixture, &reference->request, reference, drafts, half_right, &sequence);
            assert_true(sequence.accepted_drafts > ANSWER / 4 && sequence.accepted_drafts < ANSWER);
            assert_int_equal(sequence.token_count, expected->token_count);
            assert_memory_equal(sequence.tokens, expected->tokens,
                                (size_t)expected->token_count * sizeof *expected->tokens);
            assert_memory_equal(sequence.rules.log_probabilities, expected->rules.log_probabilities,
                                ANSWER * (1 + TOP) * sizeof *expected->rules.log_probabilities);
            sequence_deinit(&sequence);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_accepted_count),  cmocka_unit_test(test_shorter_rings_fail),
        cmocka_unit_test(test_earliest_end_in_a_run), cmocka_unit_test(test_grammar_ends_in_a_run),
        cmocka_unit_test(test_every_draft_count),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
