/* The slowest stage sets the pace, so its parts stand for all. */
#include "tools/plan_reasons.h"

#include "tools/plan_speed.h"

static const double WORTH_SAYING = 1.05; /* times as much */

static const char *cause_name(enum plan_cause cause) {
    static const char *const names[] = {"reading weights and state", "computing", "links", "uneven stages",
                                        "too few sequences for the stages"};
    return names[cause];
}

void plan_reasons_split(const struct plan *plan, double seconds[PLAN_CAUSE_COUNT]) {
    const struct plan_speed *speed = &plan->speed;
    double token = 1.0 / speed->tokens_per_second;
    bool is_by_stage = speed->bottleneck_stage != PLAN_BOUNDARIES;
    const struct plan_seconds *stage = &plan->stages[is_by_stage ? speed->bottleneck_stage : 0].decode;
    double slowest = is_by_stage ? stage->total : plan->decode_hop_seconds;
    double groups = (double)plan_groups_in_flight(plan, speed->running_sequences);
    double busy = token * groups * slowest / speed->cycle_seconds;
    double even = is_by_stage ? busy / plan->imbalance : 0.0;
    double parts = stage->read + stage->compute + stage->link;
    seconds[PLAN_CAUSE_WAITING] = token - busy;
    seconds[PLAN_CAUSE_UNEVEN] = is_by_stage ? busy - even : 0.0;
    seconds[PLAN_CAUSE_READING] = even * stage->read / parts;
    seconds[PLAN_CAUSE_COMPUTING] = even * stage->compute / parts;
    seconds[PLAN_CAUSE_LINKS] = is_by_stage ? even * stage->link / parts : busy;
}

/* The cause with the greatest excess over `base`, which may be all zeros. */
static enum plan_cause worst_cause(const double *seconds, const double *base) {
    enum plan_cause worst = PLAN_CAUSE_READING;
    for (int cause = 1; cause < PLAN_CAUSE_COUNT; cause++) {
        if (seconds[cause] - base[cause] > seconds[worst] - base[worst]) {
            worst = (enum plan_cause)cause;
        }
    }
    return worst;
}

/* " holds 2.0 times the tokens", if it is so much more. `before` and `after` are around the number. */
static void append_gain(double own, double best, const char *before, const char *after,
                        struct string_buffer *gains) {
    if (own > best * WORTH_SAYING) {
        string_buffer_append_format(gains, "%s%s %.1f times %s", gains->length == 0 ? "; but it " : ", ",
                                    before, own / best, after);
    }
}

static void append_gains(const struct plan *plan, const struct plan *best, struct string_buffer *out) {
    struct string_buffer gains = {0};
    append_gain((double)plan->token_capacity * plan->request.mesh.data,
                (double)best->token_capacity * best->request.mesh.data, "holds", "the tokens", &gains);
    append_gain(plan->speed.prefill_tokens_per_second, best->speed.prefill_tokens_per_second, "reads prompts",
                "as fast", &gains);
    append_gain(plan->speed.tokens_per_round / plan->speed.cycle_seconds,
                best->speed.tokens_per_round / best->speed.cycle_seconds, "answers one sequence", "as fast",
                &gains);
    string_buffer_append_text(out, string_buffer_text(&gains));
    out->is_failed = out->is_failed || gains.is_failed;
    string_buffer_deinit(&gains);
}

void plan_reasons_append(const struct plan *plan, const struct plan *best, struct string_buffer *out) {
    static const double nothing[PLAN_CAUSE_COUNT] = {0};
    double own[PLAN_CAUSE_COUNT];
    double first[PLAN_CAUSE_COUNT];
    plan_reasons_split(plan, own);
    plan_reasons_split(best, first);
    if (plan == best) {
        enum plan_cause cause = worst_cause(own, nothing);
        string_buffer_append_format(out, "the fastest: of a token's time %.0f %% goes to %s",
                                    100.0 * own[cause] * plan->speed.tokens_per_second, cause_name(cause));
        return;
    }
    double slower = best->speed.tokens_per_second / plan->speed.tokens_per_second - 1.0;
    if (slower < 0.0005) {
        string_buffer_append_text(out, "as fast as the first");
    } else {
        enum plan_cause cause = worst_cause(own, first);
        string_buffer_append_format(out,
                                    "%.1f %% more time per token: %.4g us of it go to %s instead of %.4g",
                                    100.0 * slower, own[cause] * 1e6, cause_name(cause), first[cause] * 1e6);
    }
    append_gains(plan, best, out);
}
