#include "tools/plan_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tools/plan_sharing.h"

static void expect_ok(enum status status) {
    if (status != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
}

void plan_fixture_open(struct plan_fixture *fixture, const char *config, int draft_limit, const char *gpus,
                       const char *hosts) {
    char path[256];
    const struct plan_machine_request machine = {.gpus = gpus, .hosts = hosts, .memory_share = 0.9};
    snprintf(path, sizeof path, "%s/tests/golden/configs/%s.json", SLUICE_SOURCE_DIR, config);
    *fixture = (struct plan_fixture){.request = plan_request_default()};
    fixture->request.draft_limit = draft_limit;
    expect_ok(plan_model_read(path, NULL, draft_limit, &fixture->model));
    expect_ok(plan_machine_read(&machine, &fixture->machine));
    fixture->devices_per_host = fixture->machine.devices_per_host;
}

static void set_mesh(struct plan_fixture *fixture, int data, int pipeline, int tensor) {
    fixture->request.mesh = (struct mesh_shape){data, pipeline, 1, tensor, data * tensor > 1};
    int ranks = data * pipeline * tensor;
    bool fills_hosts = ranks % fixture->devices_per_host == 0;
    fixture->machine.devices_per_host = fills_hosts ? fixture->devices_per_host : ranks;
    fixture->machine = plan_machine_scale(&fixture->machine, ranks);
    fixture->request.rates = plan_sharing_rates(&fixture->machine, &fixture->request.mesh);
}

void plan_fixture_make(struct plan_fixture *fixture, int data, int pipeline, int tensor) {
    plan_deinit(&fixture->plan);
    set_mesh(fixture, data, pipeline, tensor);
    expect_ok(
        plan_make(&fixture->model, &fixture->machine, &fixture->request, &fixture->step, &fixture->plan));
}

void plan_fixture_refuse(struct plan_fixture *fixture, const char *const *words) {
    plan_deinit(&fixture->plan);
    assert_int_not_equal(
        plan_make(&fixture->model, &fixture->machine, &fixture->request, &fixture->step, &fixture->plan),
        STATUS_OK);
    for (; *words != NULL; words++) {
        if (strstr(error_last()->message, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, error_last()->message);
        }
    }
}

void plan_fixture_close(struct plan_fixture *fixture) {
    plan_deinit(&fixture->plan);
    plan_model_deinit(&fixture->model);
}
