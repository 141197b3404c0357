/*
 * An engine's work driven by hand: rounds run on the test's thread, and what each did can be looked at.
 *
 * Tests submit sequences whose memory is theirs, change drafts between rounds, and take sequences off as a
 * lack of pages would. Every function asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_ROUND_DRIVER_H
#define SLUICE_TESTS_SUPPORT_ROUND_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine_internal.h"

struct round_driver {
    struct engine_work work;
    struct sequence_bounds bounds;
    double now; /* the clock: one second a round */
    int finished;
    struct round_plan plan; /* of the last round */
    struct round_result result;
    /* Called after a round has run, before the scheduler takes its results. NULL: nothing. */
    void (*look)(struct round_driver *driver, void *context);
    void *look_context;
};

void round_driver_open(struct round_driver *driver, const struct sluice_engine_options *options);

/* The same around an open core, which is taken over. */
void round_driver_start(struct round_driver *driver, struct engine_core **core);

/* All sequences must have ended; their pages are free or the cache's. */
void round_driver_close(struct round_driver *driver);

/* Makes the sequence of the request and submits it; the caller deinits it when it has ended. */
void round_driver_submit(struct round_driver *driver, const struct sluice_request_options *request,
                         struct sequence *sequence);

/* Runs one round; false if there was nothing to run. */
bool round_driver_run(struct round_driver *driver);

/* Runs rounds until all sequences have ended. */
void round_driver_finish(struct round_driver *driver);

/* The sequence that a segment of the last plan belongs to. */
const struct sequence *round_driver_sequence(const struct round_driver *driver, int32_t segment);

/* The rows of logits that a record of the last round's feedback was chosen from. */
const float *round_driver_logits(const struct round_driver *driver, int32_t feedback);

/*
 * Replaces the drafts of a sequence that answers: `count` of them, as far as its length allows, of which the
 * first `right` continue `text`, its answer from the first token on, and the others do not. Returns how many
 * will be accepted; -1 if the sequence does not answer yet or any more.
 */
int32_t round_driver_force_drafts(const struct round_driver *driver, struct sequence *sequence,
                                  const int32_t *text, int32_t right, int32_t count);

/* Checks that nothing runs or waits, and that every page is free or the cache's. */
void round_driver_expect_idle(const struct round_driver *driver);

#endif
