/* Plans of the real configurations, for tests. */
#ifndef SLUICE_TESTS_TOOLS_PLAN_FIXTURE_H
#define SLUICE_TESTS_TOOLS_PLAN_FIXTURE_H

#include "tools/plan.h"

struct plan_fixture {
    struct plan_model model;
    struct plan_machine machine;
    struct plan_request request;
    int devices_per_host; /* where the ranks of a mesh fill hosts */
    struct plan_step_bytes step;
    struct plan plan;
};

/* Reads tests/golden/configs/<config>.json; `gpus` and `hosts` as --gpus and --hosts. No plan yet. */
void plan_fixture_open(struct plan_fixture *fixture, const char *config, int draft_limit, const char *gpus,
                       const char *hosts);

/* Makes the plan of a mesh on as many devices; fails the test if it cannot be made. */
void plan_fixture_make(struct plan_fixture *fixture, int data, int pipeline, int tensor);

/* Expects plan_make to refuse the request with a message that has all the words, up to a NULL. */
void plan_fixture_refuse(struct plan_fixture *fixture, const char *const *words);

void plan_fixture_close(struct plan_fixture *fixture);

#endif
