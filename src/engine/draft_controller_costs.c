/* Curves of seconds over rows, moved by clipped averages. */
#include "engine/draft_controller_costs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double SLOWEST_RATE = 0.02;   /* share of a measurement once a point is well known */
static const double EXPERIMENT_RATE = 0.2; /* the same in an experiment, which is short */
static const double SPEED_RATE = 0.1;      /* share of a step in what is believed of the machine's speed */
static const double CLIP_SHARE = 0.25;     /* one slow tick counts as at most 1.25 times what was expected, */
static const double FIRST_CLIP_SHARE = 0.5;
static const double WELL_KNOWN = 4;
static const double SURPRISE_SHARE = 0.1; /* but if several in a row are off by this, in one direction, */
enum { SURPRISES_TO_BELIEVE = 4 };
static const double QUICK_RATE = 0.4;   /* something has changed. */
static const double MUCH_FASTER = 0.67; /* Nothing makes a tick fast by chance: that is believed at once. */
static const double DOUBT_WEIGHT = 4;
static const double RECENT_KEEP = 1 - 1.0 / 256;
static const double PROMPTS_KEEP = 1 - 1.0 / 1024; /* over several prompts and their answers */
enum { BEGUN_TOKENS = 64 };
static const double PROMPT_RATE = 0.1; /* share of a measurement of prompts' rows, once they are known */
static const double PROMPT_CLIP = 2;   /* and it counts as at most so many times what was expected */

/* Rows of the point behind this one. */
static int32_t next_point_rows(int32_t point) {
    return (point % 2 == 0 ? 2 : 3) << (point / 2);
}

static int32_t point_rows(int32_t point) {
    return point == 0 ? 1 : next_point_rows(point - 1);
}

int32_t cost_point_of(int32_t rows) {
    if (rows <= 1) {
        return 0;
    }
    int32_t power = 31 - __builtin_clz((unsigned)rows);
    int32_t point = 2 * power - 1;
    if (power >= 1 && rows >= 3 << (power - 1)) {
        point++;
    }
    return point < COST_POINTS - 1 ? point : COST_POINTS - 1;
}

/* The points around a row count and how far between them it lies; beyond the last point above 1. */
struct place {
    int32_t low;
    double fraction;
};

static struct place place_of(int32_t rows) {
    struct place place = {.low = cost_point_of(rows)};
    if (place.low == COST_POINTS - 1) {
        place.low--;
    }
    double from = point_rows(place.low);
    double to = next_point_rows(place.low);
    place.fraction = (rows - from) / (to - from);
    return place;
}

double cost_curve_at(const struct cost_curve *curve, int32_t rows) {
    if (rows <= 0) {
        return 0;
    }
    struct place place = place_of(rows);
    double low = curve->seconds[place.low];
    return low + place.fraction * (curve->seconds[place.low + 1] - low);
}

struct cost_line cost_curve_line(const struct cost_curve *curve, int32_t rows) {
    int32_t low = place_of(rows).low;
    int32_t first_rows = point_rows(low);
    int32_t last_rows = next_point_rows(low);
    double rise = curve->seconds[low + 1] - curve->seconds[low];
    return (struct cost_line){
        .first_rows = first_rows,
        .last_rows = low + 2 < COST_POINTS ? last_rows : INT32_MAX,
        .seconds = curve->seconds[low],
        .seconds_per_row = rise / (last_rows - first_rows),
    };
}

/* Points before the first measured one: along the line, but a row is never cheaper than its share. */
static void fill_below(struct cost_curve *curve, int32_t first, double slope) {
    double rows = point_rows(first);
    for (int32_t i = 0; i < first; i++) {
        double line = curve->seconds[first] - slope * (rows - point_rows(i));
        double share = curve->seconds[first] * point_rows(i) / rows;
        curve->seconds[i] = line > share ? line : share;
    }
}

static void fill_unmeasured(struct cost_curve *curve) {
    int32_t first = -1;
    int32_t last = -1;
    double first_slope = 0;
    double last_slope = 0;
    for (int32_t i = 0; i < COST_POINTS; i++) {
        if (curve->weight[i] <= 0) {
            continue;
        }
        if (last >= 0) {
            double rise = curve->seconds[i] - curve->seconds[last];
            last_slope = rise / (point_rows(i) - point_rows(last));
            if (last == first) {
                first_slope = last_slope;
            }
            for (int32_t k = last + 1; k < i; k++) {
                curve->seconds[k] = curve->seconds[last] + last_slope * (point_rows(k) - point_rows(last));
            }
        } else {
            first = i;
        }
        last = i;
    }
    fill_below(curve, first, first_slope);
    for (int32_t k = last + 1; k < COST_POINTS; k++) {
        curve->seconds[k] = curve->seconds[last] + last_slope * (point_rows(k) - point_rows(last));
    }
}

/*
 * The newest measurement, between `low` and the next point, is right: points on either side that contradict
 * it follow, and the two around it, should they have crossed, become level.
 */
static void keep_rising(struct cost_curve *curve, int32_t low, int32_t rows) {
    double measured = cost_curve_at(curve, rows);
    double least = measured * point_rows(low) / rows;
    double *seconds = curve->seconds;
    if (seconds[low] > seconds[low + 1]) {
        seconds[low] = measured;
        seconds[low + 1] = measured;
    } else if (seconds[low] < least) {
        seconds[low] = least;
    }
    for (int32_t i = low - 1; i >= 0; i--) {
        seconds[i] = seconds[i] < seconds[i + 1] ? seconds[i] : seconds[i + 1];
    }
    for (int32_t i = low + 2; i < COST_POINTS; i++) {
        seconds[i] = seconds[i] > seconds[i - 1] ? seconds[i] : seconds[i - 1];
    }
}

static int32_t count_surprise(int32_t before, double change, double expected) {
    if (change > SURPRISE_SHARE * expected) {
        return before > 0 ? before + 1 : 1;
    }
    if (change < -SURPRISE_SHARE * expected) {
        return before < 0 ? before - 1 : -1;
    }
    return 0;
}

/* What has changed here has probably changed elsewhere: the next measurements count more everywhere. */
static void doubt_points(struct cost_curve *curve) {
    for (int32_t i = 0; i < COST_POINTS; i++) {
        curve->weight[i] = curve->weight[i] < DOUBT_WEIGHT ? curve->weight[i] : DOUBT_WEIGHT;
    }
}

struct lesson {
    double change;       /* of the curve at the measured rows */
    bool is_from_change; /* the costs have changed, it is not noise */
};

static struct lesson lesson_of(struct cost_curve *curve, double expected, double seconds, double weight,
                               double least_rate) {
    double change = seconds - expected;
    double rate = 1 / (1 + weight);
    rate = rate > least_rate ? rate : least_rate;
    curve->surprises = count_surprise(curve->surprises, change, expected);
    if (abs(curve->surprises) >= SURPRISES_TO_BELIEVE || seconds < MUCH_FASTER * expected) {
        doubt_points(curve);
        return (struct lesson){(rate > QUICK_RATE ? rate : QUICK_RATE) * change, true};
    }
    double clip = (weight < WELL_KNOWN ? FIRST_CLIP_SHARE : CLIP_SHARE) * expected;
    return (struct lesson){rate * (weight > 0 && change > clip ? clip : change), false};
}

/*
 * The points around move so that the curve is right at the rows, and those further off a little in the same
 * direction: a slow minute slows all, and noise does not tilt the line between two points. A change of costs
 * does: what was measured often and lately stays.
 */
static void move_points(struct cost_curve *curve, int32_t rows, struct place place, struct lesson lesson) {
    double moves[COST_POINTS];
    double expected = cost_curve_at(curve, rows);
    for (int32_t i = 0; i < COST_POINTS; i++) {
        double nearness = point_rows(i) < rows ? (double)point_rows(i) / rows : (double)rows / point_rows(i);
        moves[i] = nearness * nearness * (expected > 0 ? curve->seconds[i] / expected : 1);
    }
    double *low = &moves[place.low];
    double *high = &moves[place.low + 1];
    double norm = *low + place.fraction * (*high - *low);
    for (int32_t i = 0; i < COST_POINTS; i++) {
        moves[i] /= norm;
    }
    if (lesson.is_from_change && place.fraction > 0 && place.fraction < 1) {
        *low /= 1 + curve->recent[place.low];
        *high /= 1 + curve->recent[place.low + 1];
        norm = *low + place.fraction * (*high - *low);
        *low /= norm;
        *high /= norm;
    }
    for (int32_t i = 0; i < COST_POINTS; i++) {
        curve->seconds[i] += moves[i] * lesson.change;
    }
}

static void add_weight(struct cost_curve *curve, int32_t point, double weight) {
    if (weight <= 0) {
        return;
    }
    curve->measured_points += curve->weight[point] <= 0 ? 1 : 0;
    curve->recent[point] += weight;
    curve->weight[point] += weight;
    double most = 1 / SLOWEST_RATE;
    curve->weight[point] = curve->weight[point] < most ? curve->weight[point] : most;
}

static double known_weight(const struct cost_curve *curve, int32_t rows) {
    struct place place = place_of(rows);
    double high_share = place.fraction < 1 ? place.fraction : 1;
    return (1 - high_share) * curve->weight[place.low] + high_share * curve->weight[place.low + 1];
}

static void learn(struct cost_curve *curve, int32_t rows, double seconds, double least_rate) {
    struct place place = place_of(rows);
    int32_t low = place.low;
    double high_share = place.fraction < 1 ? place.fraction : 1;
    double known = known_weight(curve, rows);
    struct lesson lesson = lesson_of(curve, cost_curve_at(curve, rows), seconds, known, least_rate);
    move_points(curve, rows, place, lesson);
    for (int32_t i = 0; i < COST_POINTS; i++) {
        curve->recent[i] *= RECENT_KEEP;
    }
    add_weight(curve, low, 1 - high_share);
    add_weight(curve, low + 1, high_share);
    fill_unmeasured(curve);
    keep_rising(curve, low, rows);
}

void cost_curve_observe(struct cost_curve *curve, int32_t rows, double seconds) {
    if (rows >= 1 && seconds > 0) {
        learn(curve, rows, seconds, SLOWEST_RATE);
    }
}

static int32_t context_class(int32_t context_tokens) {
    int32_t class = 0;
    for (int32_t limit = 4096; class < COST_CONTEXT_CLASSES - 1 && context_tokens >= limit; limit *= 8) {
        class ++;
    }
    return class;
}

/* The class itself or, if it knows nothing, the nearest one that does, shorter contexts first. */
static int32_t known_class(const struct draft_costs *costs, int32_t class) {
    for (int32_t distance = 0; distance < COST_CONTEXT_CLASSES; distance++) {
        int32_t shorter = class - distance;
        int32_t longer = class + distance;
        if (shorter >= 0 && costs->step[shorter].measured_points > 0) {
            return shorter;
        }
        if (longer < COST_CONTEXT_CLASSES && costs->step[longer].measured_points > 0) {
            return longer;
        }
    }
    return class;
}

const struct cost_curve *draft_costs_step(const struct draft_costs *costs, int32_t context_tokens) {
    return &costs->step[known_class(costs, context_class(context_tokens))];
}

double draft_costs_slowness(const struct draft_costs *costs) {
    return costs->slowness > 0 ? costs->slowness : 1;
}

double draft_costs_at_curve_speed(const struct draft_costs *costs, double seconds) {
    return seconds / draft_costs_slowness(costs);
}

static void scale(struct cost_curve *curve, double factor) {
    for (int32_t i = 0; i < COST_POINTS; i++) {
        curve->seconds[i] *= factor;
    }
}

void draft_costs_forget_steps(struct draft_costs *costs) {
    double slowness = draft_costs_slowness(costs);
    memset(costs->step, 0, sizeof costs->step);
    scale(&costs->catch_up, slowness);
    scale(&costs->first_pass, slowness);
    scale(&costs->later_pass, slowness);
    costs->prompt_row_seconds *= slowness;
    costs->slowness = 1;
    costs->surprises = 0;
}

/* A machine that others use is slower for a while at all row counts: that says nothing about the curves. */
static void follow_speed(struct draft_costs *costs, const struct cost_curve *curve, int32_t rows,
                         double seconds) {
    double slowness = draft_costs_slowness(costs);
    double expected = cost_curve_at(curve, rows) * slowness;
    double change = seconds - expected;
    costs->surprises = count_surprise(costs->surprises, change, expected);
    /* A single tick that is far off is an accident. */
    double rate = costs->surprises == 0 ? SPEED_RATE : abs(costs->surprises) == 1 ? 0 : QUICK_RATE;
    costs->slowness = slowness + rate * change / expected * slowness;
}

void draft_costs_observe_step(struct draft_costs *costs, int32_t rows, int32_t context_tokens, double seconds,
                              bool is_experiment) {
    int32_t class = context_class(context_tokens);
    int32_t known = known_class(costs, class);
    if (known != class) {
        costs->step[class] = costs->step[known];
    }
    struct cost_curve *curve = &costs->step[class];
    if (rows < 1 || !(seconds > 0)) {
        return;
    }
    if (!is_experiment && known_weight(curve, rows) >= WELL_KNOWN) {
        follow_speed(costs, curve, rows, seconds);
        if (costs->surprises == 0) {
            learn(curve, rows, draft_costs_at_curve_speed(costs, seconds), SLOWEST_RATE);
        }
    } else {
        learn(curve, rows, draft_costs_at_curve_speed(costs, seconds), EXPERIMENT_RATE);
    }
}

void draft_costs_set_step(struct draft_costs *costs, int32_t rows, double seconds) {
    for (int32_t class = 0; class < COST_CONTEXT_CLASSES; class ++) {
        cost_curve_observe(&costs->step[class], rows, seconds);
    }
}

double draft_costs_passes(const struct draft_costs *costs, const struct draft_passes *passes) {
    double seconds = cost_curve_at(&costs->catch_up, passes->sequence_count) +
                     costs->prompt_row_seconds * passes->prompt_rows;
    for (int32_t j = 0; j < passes->pass_count; j++) {
        const struct cost_curve *curve = j == 0 ? &costs->first_pass : &costs->later_pass;
        seconds += cost_curve_at(curve, passes->pass_rows[j]);
    }
    return seconds;
}

void draft_costs_observe_prompts(struct draft_costs *costs, int32_t rows, double seconds) {
    double known = costs->prompt_row_seconds;
    double measured = seconds > 0 ? seconds / rows : 0;
    if (known > 0) {
        measured = measured < PROMPT_CLIP * known ? measured : PROMPT_CLIP * known;
        measured = known + PROMPT_RATE * (measured - known);
    }
    costs->prompt_row_seconds = measured;
}

void draft_costs_note_prompts(struct draft_costs *costs, int32_t prompt_rows, int64_t tokens) {
    costs->prompt_rows = PROMPTS_KEEP * costs->prompt_rows + prompt_rows;
    costs->tokens = PROMPTS_KEEP * costs->tokens + (double)tokens;
}

double draft_costs_prompt_share(const struct draft_costs *costs, int32_t sequence_count) {
    double tokens = costs->tokens + (double)BEGUN_TOKENS * sequence_count;
    return costs->prompt_row_seconds * costs->prompt_rows / tokens;
}

/* A pass curve that knows nothing gets an equal share of what the known parts leave. */
static void begin_passes(struct draft_costs *costs, const struct draft_passes *passes, double seconds) {
    double left = seconds - cost_curve_at(&costs->catch_up, passes->sequence_count);
    int32_t unknown_passes = passes->pass_count;
    if (costs->first_pass.measured_points > 0) {
        left -= cost_curve_at(&costs->first_pass, passes->pass_rows[0]);
        unknown_passes--;
    } else if (costs->later_pass.measured_points > 0) {
        for (int32_t j = 1; j < passes->pass_count; j++) {
            left -= cost_curve_at(&costs->later_pass, passes->pass_rows[j]);
        }
        unknown_passes = 1;
    }
    double least = 0.01 * seconds;
    double share = (left > least ? left : least) / unknown_passes;
    if (costs->first_pass.measured_points == 0) {
        cost_curve_observe(&costs->first_pass, passes->pass_rows[0], share);
    }
    if (passes->pass_count > 1 && costs->later_pass.measured_points == 0) {
        cost_curve_observe(&costs->later_pass, passes->pass_rows[1], share);
    }
}

void draft_costs_observe_passes(struct draft_costs *costs, const struct draft_passes *passes,
                                double seconds) {
    if (!(seconds > 0)) {
        return;
    }
    if (passes->prompt_rows > 0) {
        struct draft_passes others = *passes;
        others.prompt_rows = 0;
        draft_costs_observe_prompts(costs, passes->prompt_rows, seconds - draft_costs_passes(costs, &others));
        return;
    }
    if (passes->sequence_count < 1) {
        return;
    }
    if (passes->pass_count == 0) {
        cost_curve_observe(&costs->catch_up, passes->sequence_count, seconds);
        return;
    }
    if (costs->first_pass.measured_points == 0 ||
        (passes->pass_count > 1 && costs->later_pass.measured_points == 0)) {
        begin_passes(costs, passes, seconds);
        return;
    }
    double factor = seconds / draft_costs_passes(costs, passes);
    double catch_up = cost_curve_at(&costs->catch_up, passes->sequence_count);
    double first = cost_curve_at(&costs->first_pass, passes->pass_rows[0]);
    cost_curve_observe(&costs->first_pass, passes->pass_rows[0], first * factor);
    if (passes->pass_count > 1) {
        double later = cost_curve_at(&costs->later_pass, passes->pass_rows[1]);
        cost_curve_observe(&costs->later_pass, passes->pass_rows[1], later * factor);
    }
    /* Ticks without drafts measure catching up alone; here it is only kept in proportion. */
    cost_curve_observe(&costs->catch_up, passes->sequence_count, catch_up * factor);
}
