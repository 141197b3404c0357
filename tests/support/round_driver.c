#include "support/round_driver.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/round_internal.h"
#include "support/model_fixture.h"

static void count_finished(void *context, struct sequence *sequence) {
    struct round_driver *driver = context;
    assert_int_equal(sequence->phase, SEQUENCE_FINISHED);
    driver->finished++;
}

void round_driver_start(struct round_driver *driver, struct engine_core **core) {
    *driver = (struct round_driver){.now = 1.0};
    EXPECT_OK(engine_work_init(&driver->work, core, count_finished, driver));
    driver->bounds = engine_work_bounds(&driver->work);
}

void round_driver_open(struct round_driver *driver, const struct sluice_engine_options *options) {
    struct engine_core *core;
    EXPECT_OK(engine_core_open(options, &core));
    round_driver_start(driver, &core);
}

void round_driver_close(struct round_driver *driver) {
    round_driver_expect_idle(driver);
    engine_work_deinit(&driver->work);
}

void round_driver_submit(struct round_driver *driver, const struct sluice_request_options *request,
                         struct sequence *sequence) {
    EXPECT_OK(sequence_init(sequence, request, &driver->bounds, driver->now));
    scheduler_submit(driver->work.scheduler, sequence);
}

bool round_driver_run(struct round_driver *driver) {
    driver->now += 1.0;
    if (!scheduler_plan(driver->work.scheduler, driver->now, &driver->plan)) {
        return false;
    }
    EXPECT_OK(round_start(driver->work.runner, &driver->plan));
    EXPECT_OK(round_finish(driver->work.runner, &driver->result));
    if (driver->look != NULL) {
        driver->look(driver, driver->look_context);
    }
    scheduler_complete(driver->work.scheduler, &driver->result, driver->now);
    return true;
}

void round_driver_finish(struct round_driver *driver) {
    while (round_driver_run(driver)) {
    }
    round_driver_expect_idle(driver);
}

const struct sequence *round_driver_sequence(const struct round_driver *driver, int32_t segment) {
    return driver->plan.sequences[segment];
}

const float *round_driver_logits(const struct round_driver *driver, int32_t feedback) {
    const struct round_runner *runner = driver->work.runner;
    return runner->logits + runner->first_logit_rows[feedback] * runner->options.vocabulary_size;
}

int32_t round_driver_force_drafts(const struct round_driver *driver, struct sequence *sequence,
                                  const int32_t *text, int32_t right, int32_t count) {
    if (sequence->phase != SEQUENCE_RUNNING || !sequence_is_answering(sequence)) {
        return -1;
    }
    int32_t done = sequence->token_count - sequence->prompt_count;
    int32_t room = sequence->token_limit - sequence->token_count - 1;
    count = count < room ? count : room;
    for (int32_t i = 0; i < count; i++) {
        int32_t token = text[done + i];
        sequence->drafts[i] = i < right ? token : (token + 1 + i) % (int32_t)driver->bounds.vocabulary_size;
    }
    sequence->draft_count = count;
    return right < count ? right : count;
}

void round_driver_expect_idle(const struct round_driver *driver) {
    struct sluice_engine_stats stats;
    engine_work_stats(&driver->work, &stats);
    assert_int_equal(stats.running_requests + stats.waiting_requests, 0);
    assert_int_equal(stats.free_pages + stats.cached_pages, driver->work.pages.page_count);
}
