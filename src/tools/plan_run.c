/* A search and an asked layout end in the same report. */
#include "tools/plan_run.h"

#include "parallel/layout_check.h"
#include "tools/plan_check.h"
#include "tools/plan_json.h"
#include "tools/plan_layouts.h"
#include "tools/plan_memory.h"
#include "tools/plan_report.h"
#include "tools/plan_sharing.h"
#include "weights/checkpoint.h"

enum { CONTEXT_TOKENS_DEFAULT = 4096, LAYOUTS_SHOWN = 3 };

/* What the parts of a job share. */
struct running {
    const struct plan_job *job;
    struct plan_request request;
    struct plan_machine machine;
    struct plan_model model;
    struct plan_step_bytes step;
    struct plan_layouts layouts; /* of a search; or only the asked one */
    struct plan_scale scale;
};

static enum status read_checkpoint(struct running *running) {
    struct string_buffer path = {0};
    struct checkpoint *checkpoint = NULL;
    string_buffer_append_format(&path, "%s/config.json", running->job->model_directory);
    enum status status = string_buffer_check(&path);
    if (status == STATUS_OK) {
        status = checkpoint_open(running->job->model_directory, &checkpoint);
    }
    if (status == STATUS_OK) {
        struct tensor_probe probe = checkpoint_probe(checkpoint);
        status =
            plan_model_read(string_buffer_text(&path), &probe, running->request.draft_limit, &running->model);
    }
    if (status == STATUS_OK) {
        status = plan_check_files(&running->model, checkpoint);
    }
    checkpoint_close(&checkpoint);
    string_buffer_deinit(&path);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status read_model(struct running *running) {
    const struct plan_job *job = running->job;
    CHECK((job->config_path == NULL) != (job->model_directory == NULL), STATUS_USAGE,
          "name either a config.json by --config or a checkpoint by --model");
    if (job->model_directory != NULL) {
        return read_checkpoint(running);
    }
    return plan_model_read(job->config_path, NULL, running->request.draft_limit, &running->model);
}

/* The engine's rules: short models have short contexts, and no step is longer than all sequences. */
static void settle_sizes(struct plan_request *request, int64_t position_limit) {
    if (request->context_tokens == 0) {
        request->context_tokens =
            position_limit < CONTEXT_TOKENS_DEFAULT ? position_limit : CONTEXT_TOKENS_DEFAULT;
    }
    int64_t most = request->context_tokens * request->sequence_limit;
    request->step_tokens = request->step_tokens > most ? (int32_t)most : request->step_tokens;
}

/* The asked layout as the only one found. */
static enum status make_layout(struct running *running) {
    struct plan_layouts *layouts = &running->layouts;
    struct plan plan;
    enum status status =
        plan_make(&running->model, &running->machine, &running->request, &running->step, &plan);
    if (status == STATUS_OK) {
        status = plan_check_memory(&plan);
    }
    if (status != STATUS_OK) {
        plan_deinit(&plan);
        return error_forward(status, ERROR_HERE);
    }
    layouts->plans[0] = plan;
    layouts->count = 1;
    return STATUS_OK;
}

static enum status find_layouts(struct running *running) {
    struct plan_layouts *layouts = &running->layouts;
    TRY(plan_layouts_find(&running->model, &running->machine, &running->request, &running->step,
                          LAYOUTS_SHOWN, layouts));
    CHECK(layouts->tried > 0, STATUS_UNSUPPORTED,
          "no layout of %d ranks can run this model: it needs -tp that divides its heads and output groups, "
          "and at "
          "most a stage per layer",
          plan_machine_rank_count(&running->machine));
    return layouts->count > 0 ? STATUS_OK : plan_check_memory(&layouts->nearest);
}

static enum status work_out(struct running *running) {
    const struct plan_job *job = running->job;
    TRY(plan_machine_read(&job->machine, &running->machine));
    TRY(read_model(running));
    settle_sizes(&running->request, running->model.model->position_limit);
    if (job->has_layout) {
        TRY(plan_check_request(&running->model, &running->machine, &running->request));
        running->request.rates = plan_sharing_rates(&running->machine, &running->request.mesh);
    }
    TRY(layout_check_page_tokens(running->request.page_tokens));
    TRY(plan_step_measure(&running->model, &running->request, &running->step));
    if (job->scale != NULL) {
        return plan_scale_make(&running->model, &running->machine, &running->request, &running->step,
                               job->scale, &running->scale);
    }
    return job->has_layout ? make_layout(running) : find_layouts(running);
}

static enum status write_report(const struct running *running, struct string_buffer *out) {
    const struct plan_layouts *layouts = &running->layouts;
    if (running->job->is_json) {
        const struct plan_outcome outcome = {.machine = &running->machine,
                                             .request = &running->request,
                                             .plans = layouts->plans,
                                             .plan_count = layouts->count,
                                             .scale = running->job->scale == NULL ? NULL : &running->scale};
        return plan_json_write(&outcome, out);
    }
    plan_report_setting(&running->model, &running->machine, &running->request, out);
    if (running->job->scale != NULL) {
        plan_report_scale(&running->scale, out);
        return string_buffer_check(out);
    }
    if (!running->job->has_layout) {
        plan_report_layouts(layouts, out);
    }
    plan_report_layout(&layouts->plans[0], out);
    return string_buffer_check(out);
}

enum status plan_run(const struct plan_job *job, struct string_buffer *out) {
    struct running running = {.job = job, .request = job->request};
    enum status status = work_out(&running);
    if (status == STATUS_OK) {
        status = write_report(&running, out);
    }
    plan_layouts_deinit(&running.layouts);
    plan_scale_deinit(&running.scale);
    plan_model_deinit(&running.model);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
