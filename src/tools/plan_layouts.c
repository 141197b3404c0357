/* There are few layouts, so all are tried. */
#include "tools/plan_layouts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/leaves.h"
#include "tools/plan_sharing.h"

/* Bytes that the fullest rank lacks for one full sequence. */
static uint64_t lacking_bytes(const struct plan *plan) {
    uint64_t usable = plan_usable_bytes(&plan->machine);
    uint64_t pages = (uint64_t)plan_pages_of(&plan->request, plan->request.context_tokens);
    uint64_t most = 0;
    for (int s = 0; s < plan->request.mesh.pipeline; s++) {
        uint64_t needed = plan->stages[s].fixed_bytes + pages * plan->stages[s].page_bytes;
        uint64_t lacking = needed > usable ? needed - usable : 0;
        most = lacking > most ? lacking : most;
    }
    return most;
}

/* Fewer stages and fewer parts come first where speed is the same: they are simpler. */
static bool is_better(const struct plan *a, const struct plan *b) {
    return a->speed.tokens_per_second > b->speed.tokens_per_second * (1.0 + 1e-9);
}

/* Takes the plan over. */
static void keep(struct plan_layouts *layouts, int wanted, struct plan *plan) {
    int at = layouts->count;
    while (at > 0 && is_better(plan, &layouts->plans[at - 1])) {
        at--;
    }
    if (at >= wanted) {
        plan_deinit(plan);
        return;
    }
    if (layouts->count == wanted) {
        plan_deinit(&layouts->plans[--layouts->count]);
    }
    memmove(&layouts->plans[at + 1], &layouts->plans[at],
            (size_t)(layouts->count - at) * sizeof layouts->plans[0]);
    layouts->plans[at] = *plan;
    layouts->count++;
}

/* Takes the plan over. */
static void keep_nearest(struct plan_layouts *layouts, struct plan *plan) {
    if (layouts->nearest.stages == NULL || lacking_bytes(plan) < lacking_bytes(&layouts->nearest)) {
        plan_deinit(&layouts->nearest);
        layouts->nearest = *plan;
    } else {
        plan_deinit(plan);
    }
}

static enum status try_layout(const struct plan_model *model, const struct plan_machine *machine,
                              const struct plan_request *request, const struct plan_step_bytes *step,
                              int wanted, struct plan_layouts *layouts) {
    struct plan plan;
    enum status status = plan_make(model, machine, request, step, &plan);
    if (status != STATUS_OK) {
        /* Refused layouts are no failure of the search, but lack of memory here is. */
        plan_deinit(&plan);
        return status == STATUS_OUT_OF_MEMORY ? error_forward(status, ERROR_HERE) : STATUS_OK;
    }
    layouts->tried++;
    layouts->fitting += plan.fits;
    if (plan.fits) {
        keep(layouts, wanted, &plan);
    } else {
        keep_nearest(layouts, &plan);
    }
    return STATUS_OK;
}

enum status plan_layouts_find(const struct plan_model *model, const struct plan_machine *machine,
                              const struct plan_request *request, const struct plan_step_bytes *step,
                              int wanted, struct plan_layouts *out) {
    int ranks = plan_machine_rank_count(machine);
    *out = (struct plan_layouts){0};
    for (int tensor = 1; tensor <= LEAF_COUNT_MAX && tensor <= ranks; tensor *= 2) {
        for (int pipeline = 1; pipeline <= model->model->layer_count + 1; pipeline++) {
            struct plan_request layout = *request;
            int data = ranks / (tensor * pipeline);
            if (data * tensor * pipeline != ranks) {
                continue;
            }
            layout.mesh = (struct mesh_shape){data, pipeline, 1, tensor, data * tensor > 1};
            layout.has_sequence_parallelism = tensor > 1;
            layout.rates = plan_sharing_rates(machine, &layout.mesh);
            layout.sequence_limit = (request->sequence_limit + data - 1) / data;
            TRY(try_layout(model, machine, &layout, step, wanted, out));
        }
    }
    return STATUS_OK;
}

void plan_layouts_deinit(struct plan_layouts *layouts) {
    for (int i = 0; i < layouts->count; i++) {
        plan_deinit(&layouts->plans[i]);
    }
    plan_deinit(&layouts->nearest);
    *layouts = (struct plan_layouts){0};
}

static enum status parse_rank_counts(const char *text, const struct plan_machine *machine,
                                     struct plan_scale *out) {
    long last = 0;
    for (const char *at = text; at != NULL;) {
        char *end = NULL;
        errno = 0;
        long count = strtol(at, &end, 10);
        bool is_good = end != at && errno == 0 && count > last && count <= (1 << 16) &&
                       (*end == ',' || *end == '\0') && out->count < PLAN_SCALE_MAX;
        CHECK(is_good, STATUS_USAGE,
              "--scale takes at most %d ascending numbers of ranks, such as 16,32,64, not \"%s\"",
              PLAN_SCALE_MAX, text);
        CHECK(count < machine->devices_per_host || count % machine->devices_per_host == 0, STATUS_USAGE,
              "--scale: %ld ranks do not fill hosts of %d devices", count, machine->devices_per_host);
        out->rows[out->count++].rank_count = (int)count;
        last = count;
        at = *end == ',' ? end + 1 : NULL;
    }
    return STATUS_OK;
}

static enum status fill_row(const struct plan_model *model, const struct plan_machine *machine,
                            const struct plan_request *request, const struct plan_step_bytes *step,
                            struct plan_scale_row *row) {
    struct plan_layouts layouts;
    struct plan_machine scaled = plan_machine_scale(machine, row->rank_count);
    enum status status = plan_layouts_find(model, &scaled, request, step, 1, &layouts);
    struct plan *best = layouts.count > 0 ? &layouts.plans[0] : &layouts.nearest;
    row->sequence_limit = request->sequence_limit;
    row->fits = layouts.count > 0;
    row->plan = *best;
    *best = (struct plan){0};
    plan_layouts_deinit(&layouts);
    return status;
}

enum status plan_scale_make(const struct plan_model *model, const struct plan_machine *machine,
                            const struct plan_request *request, const struct plan_step_bytes *step,
                            const char *rank_counts, struct plan_scale *out) {
    *out = (struct plan_scale){0};
    TRY(parse_rank_counts(rank_counts, machine, out));
    for (int i = 0; i < out->count; i++) {
        struct plan_request scaled = *request;
        scaled.sequence_limit =
            (int32_t)((int64_t)request->sequence_limit * out->rows[i].rank_count / out->rows[0].rank_count);
        TRY(fill_row(model, machine, &scaled, step, &out->rows[i]));
    }
    return STATUS_OK;
}

void plan_scale_deinit(struct plan_scale *scale) {
    for (int i = 0; i < scale->count; i++) {
        plan_deinit(&scale->rows[i].plan);
    }
    *scale = (struct plan_scale){0};
}
