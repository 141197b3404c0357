/*
 * Ranks as processes: run by mpirun, each process is one rank. test_job MODEL_DIR [all]: for layouts of as
 * many ranks as there are processes, requests and whole steps give the bits that one rank gives (T-8, L0 and
 * L1); requests also where they are dealt out over replicas that share experts (5.6). With `all`, every one
 * of them: replicas, experts, shared rows and the ways to experts, 0 to 3 drafts, both numerics.
 *
 * Rank 0 computes alone first, then leads; the others follow. A failed assertion ends the process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/job_fixture.h"
#include "support/request_fixture.h"

enum { REQUEST_COUNT = 6, PROMPT_MAX = 140, ANSWER = 10, STEP_ROWS = 37, CASES_MAX = 512 };

/* Ends of blocks of 4 and of 128, one token, and lengths between. */
static const size_t prompt_lengths[REQUEST_COUNT] = {1, 4, 33, 127, 128, PROMPT_MAX};

struct layout {
    int replicas;
    int pipeline;
    int tensor;
    bool has_expert_parallelism;
    int drafts;
    int numerics;
    int row_sharing; /* enum sluice_row_sharing */
    int exchange;    /* enum sluice_expert_exchange */
};

struct result {
    struct answer answers[REQUEST_COUNT];
    float logits[STEP_ROWS * TINY_VOCABULARY];
};

static struct sluice_engine_options options_of(const char *directory, struct sluice_job *job,
                                               const struct layout *layout) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = directory;
    options.numerics = (enum sluice_numerics)layout->numerics;
    options.thread_count = 2;
    options.context_tokens = 256;
    options.sequence_limit = STEP_ROWS; /* so many rows of logits may be asked for */
    options.step_token_limit = 64;
    options.draft.limit = layout->drafts;
    options.draft.is_adaptive = false;
    options.parallel.job = job;
    options.parallel.data = layout->replicas;
    options.parallel.pipeline = layout->pipeline;
    options.parallel.tensor = layout->tensor;
    options.parallel.has_expert_parallelism = layout->has_expert_parallelism;
    options.parallel.row_sharing = (enum sluice_row_sharing)layout->row_sharing;
    options.parallel.expert_exchange = (enum sluice_expert_exchange)layout->exchange;
    return options;
}

static void run_requests(const struct sluice_engine_options *options, struct result *out) {
    static int32_t prompts[REQUEST_COUNT][PROMPT_MAX];
    struct sluice_request *requests[REQUEST_COUNT];
    struct sluice_engine *engine;
    EXPECT_OK(sluice_engine_open(options, &engine));
    for (int i = 0; i < REQUEST_COUNT; i++) {
        model_random_tokens((uint64_t)i + 1, TINY_VOCABULARY, prompts[i], PROMPT_MAX);
        const struct planned_request planned = {.prompt = prompts[i],
                                                .prompt_count = prompt_lengths[i],
                                                .answer_limit = ANSWER,
                                                .temperature = i % 2 == 0 ? 0.0 : 0.8,
                                                .has_penalties = i % 3 == 1,
                                                .seed = (uint64_t)i};
        requests[i] = request_submit(engine, &planned, 0);
    }
    for (int i = 0; i < REQUEST_COUNT; i++) {
        request_collect(requests[i], &out->answers[i]);
        assert_true(out->answers[i].count > 0);
        sluice_request_release(&requests[i]);
    }
    sluice_engine_close(&engine);
}

static void run_step(const struct sluice_engine_options *options, struct result *out) {
    int32_t tokens[STEP_ROWS];
    struct engine_core *core = model_open(options);
    model_spec_tokens(tokens, STEP_ROWS);
    model_run(core, 0, 0, tokens, STEP_ROWS, out->logits);
    engine_core_close(&core);
}

static void run(const char *directory, struct sluice_job *job, const struct layout *layout,
                struct result *out) {
    struct sluice_engine_options options = options_of(directory, job, layout);
    memset(out, 0, sizeof *out);
    run_requests(&options, out);
    if (layout->replicas == 1) { /* no replica of several has a step of its own */
        run_step(&options, out);
    }
}

/* Replicas that share experts, with one number of drafts after the other. */
static int list_replicas(int size, struct layout *layouts) {
    int count = 0;
    for (int replicas = 2; replicas <= 4; replicas *= 2) {
        for (int tensor = 1; tensor <= 2; tensor *= 2) {
            if (size % (replicas * tensor) == 0) {
                layouts[count] =
                    (struct layout){.replicas = replicas,
                                    .pipeline = size / replicas / tensor,
                                    .tensor = tensor,
                                    .has_expert_parallelism = true,
                                    .drafts = 3 - count,
                                    .numerics = count % 2,
                                    .row_sharing = tensor > 1 && replicas == 2 ? SLUICE_ROW_SHARING_ON
                                                                               : SLUICE_ROW_SHARING_OFF,
                                    .exchange = count / 2 % 2 == 0 ? SLUICE_EXPERT_EXCHANGE_DISPATCH
                                                                   : SLUICE_EXPERT_EXCHANGE_GATHER};
                count++;
            }
        }
    }
    return count;
}

static int list_layouts(int size, struct layout *layouts) {
    int count = list_replicas(size, layouts);
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        for (int i = 0; i < 4 && size % tensor == 0; i++) {
            layouts[count++] = (struct layout){.replicas = 1,
                                               .pipeline = size / tensor,
                                               .tensor = tensor,
                                               .has_expert_parallelism = i / 2 == 0,
                                               .drafts = i == 1 || i == 3 ? 2 : 0,
                                               .numerics = i % 2};
        }
    }
    return count;
}

/*
 * The product of all choices of so many replicas and tensor ranks: rows are shared by tensor ranks only, and
 * replicas share whole experts.
 */
static int list_all_of(int size, int replicas, int tensor, struct layout *layouts) {
    int count = 0;
    for (int i = 0; i < 64 && size % (replicas * tensor) == 0; i++) {
        bool shares = i / 16 % 2 != 0;
        bool dispatches = i / 32 != 0;
        bool has_whole_experts = i / 2 % 2 == 0;
        if ((tensor > 1 || !shares) && (tensor * replicas > 1 || !dispatches) &&
            (replicas == 1 || has_whole_experts)) {
            layouts[count++] = (struct layout){
                .replicas = replicas,
                .pipeline = size / replicas / tensor,
                .tensor = tensor,
                .numerics = i % 2,
                .has_expert_parallelism = has_whole_experts,
                .drafts = i / 4 % 4,
                .row_sharing = shares ? SLUICE_ROW_SHARING_ON : SLUICE_ROW_SHARING_OFF,
                .exchange = dispatches ? SLUICE_EXPERT_EXCHANGE_DISPATCH : SLUICE_EXPERT_EXCHANGE_GATHER};
        }
    }
    return count;
}

static int list_all_layouts(int size, struct layout *layouts) {
    int count = 0;
    for (int replicas = 1; replicas <= 4; replicas *= 2) {
        for (int tensor = 1; tensor <= 4; tensor *= 2) {
            count += list_all_of(size, replicas, tensor, layouts + count);
        }
    }
    return count;
}

/* Of several replicas what requests gave. */
static bool is_same(const struct layout *layout, const struct result *result, const struct result *alone) {
    return memcmp(result, alone, layout->replicas == 1 ? sizeof *result : offsetof(struct result, logits)) ==
           0;
}

/* What a process is asked for, and what rank 0 computed alone. */
struct task {
    const char *directory;
    bool wants_all;
    struct result alone[NUMERICS_COUNT];
};

static int lead(void *context, struct sluice_job *job) {
    static struct result result;
    static struct layout layouts[CASES_MAX];
    const struct task *task = context;
    assert_non_null(job);
    int count = (task->wants_all ? list_all_layouts : list_layouts)(sluice_job_size(job), layouts);
    for (int i = 0; i < count; i++) {
        const struct layout *layout = &layouts[i];
        run(task->directory, job, layout, &result);
        if (!is_same(layout, &result, &task->alone[layout->numerics])) {
            fail_msg(
                "dp %d, pp %d, tp %d, ep %d, %d drafts, numerics %d, sp %d, exchange %d differ from one rank",
                layout->replicas, layout->pipeline, layout->tensor, layout->has_expert_parallelism,
                layout->drafts, layout->numerics, layout->row_sharing, layout->exchange);
        }
    }
    printf("%d layouts of %d ranks give the bits of one rank\n", count, sluice_job_size(job));
    return 0;
}

int main(int argument_count, char **arguments) {
    static struct task task;
    task.directory = argument_count > 1 ? arguments[1] : "";
    task.wants_all = argument_count > 2 && strcmp(arguments[2], "all") == 0;
    for (int numerics = 0; job_fixture_rank() == 0 && numerics < NUMERICS_COUNT; numerics++) {
        const struct layout one_rank = {.replicas = 1, .pipeline = 1, .tensor = 1, .numerics = numerics};
        run(task.directory, NULL, &one_rank, &task.alone[numerics]);
    }
    return job_fixture_main(task.directory, 10, lead, &task);
}
