/* Rows of a layer read as many experts as they are expected to pick; state is not counted. */
#include "engine/stage_point.h"

/*
 * Chance that the draft at a position is accepted, if two are made: V4-Flash, one request (spec
 * parallelism 4.7). Further ones are taken to halve.
 */
static const double ACCEPTED_FIRST = 0.77;
static const double ACCEPTED_SECOND = 0.38;

double stage_point_tokens(int drafts) {
    double tokens = 1.0;
    double accepted = ACCEPTED_SECOND;
    for (int i = 0; i < drafts; i++) {
        tokens += i == 0 ? ACCEPTED_FIRST : accepted;
        accepted /= i == 0 ? 1.0 : 2.0;
    }
    return tokens;
}

struct stage_point stage_point_of_decoding(int64_t sequences, int drafts) {
    return (struct stage_point){.sequences = sequences, .rows_each = 1 + drafts, .drafts = drafts};
}

struct stage_point stage_point_of_prompt(int64_t rows) {
    return (struct stage_point){.sequences = 1, .rows_each = rows, .is_prompt = true};
}

int64_t stage_point_rows(const struct stage_point *point) {
    return point->sequences * point->rows_each;
}

static struct step_work layer_work(const struct model *model, const struct weight_work *work, int64_t rows) {
    double experts = step_work_distinct_experts(model->expert_count, model->expert_picks, rows);
    return (struct step_work){
        .bytes = work->dense_bytes + (double)rows * work->lookup_bytes + experts * work->expert_bytes,
        .operations =
            (double)rows * (work->dense_operations + (double)model->expert_picks * work->expert_operations)};
}

struct step_work stage_point_layer_work(const struct stage_point *point, const struct model *model,
                                        const struct stage_bytes *bytes, int layer) {
    return layer_work(model, &bytes->layers[layer], stage_point_rows(point));
}

struct step_work stage_point_first_work(const struct stage_point *point, const struct stage_bytes *bytes) {
    return (struct step_work){.bytes = (double)stage_point_rows(point) * bytes->first->lookup_bytes};
}

struct step_work stage_point_last_work(const struct stage_point *point, const struct model *model,
                                       const struct stage_bytes *bytes) {
    struct step_work draft = layer_work(model, bytes->draft, point->sequences);
    double sequences = (double)point->sequences;
    double logit_rows = point->is_prompt ? 1.0 : (double)stage_point_rows(point);
    return (struct step_work){
        .bytes = bytes->last->head_bytes + point->drafts * (draft.bytes + bytes->last->head_bytes),
        .operations = logit_rows * bytes->last->head_operations +
                      point->drafts * (draft.operations + sequences * bytes->last->head_operations)};
}
