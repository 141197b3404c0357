#include "support/random_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/model_fixture.h"

enum { PROMPTS = 5, PROMPT_MAX = 100 };

static const int prompt_lengths[PROMPTS] = {1, 6, 33, 64, PROMPT_MAX};

static int32_t prompts[PROMPTS][PROMPT_MAX];
static int32_t alone[PROMPTS][RANDOM_CONTEXT];

int random_requests_limit(int prompt) {
    return RANDOM_CONTEXT - prompt_lengths[prompt];
}

struct sluice_request *random_requests_submit(struct sluice_engine *engine, int prompt, int limit) {
    struct sluice_request_options options = sluice_request_options_default();
    struct sluice_request *request;
    options.prompt = prompts[prompt];
    options.prompt_count = (size_t)prompt_lengths[prompt];
    options.token_limit = (size_t)limit;
    options.sampling.temperature = 0.0;
    EXPECT_OK(sluice_engine_submit(engine, &options, &request));
    return request;
}

struct sluice_request_state random_requests_wait(struct sluice_request *request) {
    struct sluice_request_state end = sluice_request_wait(request, SIZE_MAX, SIZE_MAX, RANDOM_WAIT_SECONDS);
    if (end.phase != SLUICE_REQUEST_FINISHED) {
        fail_msg("nothing came for %d s", RANDOM_WAIT_SECONDS);
    }
    return end;
}

void random_requests_learn(struct sluice_engine *engine) {
    for (int i = 0; i < PROMPTS; i++) {
        model_random_tokens(7 + (uint64_t)i, TINY_VOCABULARY, prompts[i], prompt_lengths[i]);
        struct sluice_request *request = random_requests_submit(engine, i, random_requests_limit(i));
        size_t count = random_requests_wait(request).token_count;
        assert_int_equal(count, random_requests_limit(i));
        for (size_t t = 0; t < count; t++) {
            alone[i][t] = sluice_request_token(request, t);
        }
        sluice_request_release(&request);
    }
}

void random_requests_end(struct live_request *live) {
    struct sluice_request_state end = random_requests_wait(live->request);
    if (!live->is_cancelled) {
        assert_int_equal(end.token_count, live->limit);
    }
    for (size_t t = 0; t < end.token_count; t++) {
        assert_int_equal(sluice_request_token(live->request, t), alone[live->prompt][t]);
    }
    sluice_request_release(&live->request);
}

/* The number of requests that are to run now. */
static int wanted_count(uint64_t random) {
    static const int counts[] = {1, 1, 0, RANDOM_LIVE_MAX, 1, 2, RANDOM_LIVE_MAX - 1, 1};
    return counts[random / 37 % (sizeof counts / sizeof counts[0])];
}

struct live_request random_requests_start(struct sluice_engine *engine, uint64_t random) {
    struct live_request live = {.prompt = (int)(random % PROMPTS)};
    int most = random_requests_limit(live.prompt);
    live.limit = random / 8 % 4 == 0 ? most : 1 + (int)(random / 64 % 24);
    live.request = random_requests_submit(engine, live.prompt, live.limit);
    return live;
}

void random_requests_run(struct sluice_engine *engine, const atomic_int *ticks, int tick_count) {
    struct live_request live[RANDOM_LIVE_MAX];
    uint64_t random = 362436069;
    int count = 0;
    int end = *ticks + tick_count;
    while (*ticks < end || count > 0) {
        random = model_next_random(&random);
        int wanted = *ticks < end ? wanted_count(random) : 0;
        for (; count < wanted; count++) {
            random = model_next_random(&random);
            live[count] = random_requests_start(engine, random);
        }
        if (count > 0 && random % 5 == 0) {
            sluice_request_cancel(live[random / 5 % (uint64_t)count].request);
            live[random / 5 % (uint64_t)count].is_cancelled = true;
        }
        for (; count > wanted; count--) {
            random_requests_end(&live[count - 1]);
        }
        if (count > 0) {
            random_requests_end(&live[0]);
            live[0] = live[--count];
        }
    }
}
