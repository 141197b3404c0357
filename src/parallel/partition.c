/*
 * Two dynamic programmes over cuts: the first finds the smallest possible largest cost, the second the most
 * even partition that keeps to it.
 */
#include "parallel/partition.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Sums of the same numbers in another order count as equal. */
static const double ROUNDING = 1e-9;

/* Tokens in a time that other steps promise over the first kind, for both to count. */
static const double OTHER_GAIN_LEAST = 1.2;

/* The search: tables over stages and ends, [stage_count + 1][layer_count + 1]. */
struct search {
    const struct partition_input *input;
    int stage_count;
    double *cost_sums;    /* [layer_count + 1]: of the layers before */
    double *other_sums;   /* the same, of the other kind of step */
    double *byte_sums;    /* the same */
    double *page_sums;    /* the same */
    double scale;         /* of costs, and */
    double other_scale;   /* of those of the other kind: parts of the best partition's; 1 and 0 without one */
    double *values;       /* largest cost, or sum of squares, of the best partition; infinite: none */
    int *cuts;            /* where its last stage begins */
    double largest_value; /* of the objective, that a stage may have */
};

static double range_sum(const double *values, int first, int end) {
    double sum = 0.0;
    for (int i = first; values != NULL && i < end; i++) {
        sum += values[i];
    }
    return sum;
}

static double end_costs(const struct partition_input *input, int stage_count, int stage) {
    return (stage == 0 ? input->first_cost : 0.0) + (stage == stage_count - 1 ? input->last_cost : 0.0);
}

static double end_bytes(const struct partition_input *input, int stage_count, int stage) {
    return input->stage_bytes + (stage == 0 ? input->first_bytes : 0.0) +
           (stage == stage_count - 1 ? input->last_bytes : 0.0);
}

double partition_stage_cost(const struct partition_input *input, int stage_count, const int *first_layers,
                            int stage) {
    return range_sum(input->layer_costs, first_layers[stage], first_layers[stage + 1]) +
           end_costs(input, stage_count, stage);
}

double partition_stage_bytes(const struct partition_input *input, int stage_count, const int *first_layers,
                             int stage) {
    return range_sum(input->layer_bytes, first_layers[stage], first_layers[stage + 1]) +
           end_bytes(input, stage_count, stage);
}

double partition_imbalance(const struct partition_input *input, int stage_count, const int *first_layers) {
    double largest = 0.0;
    double sum = 0.0;
    for (int stage = 0; stage < stage_count; stage++) {
        double cost = partition_stage_cost(input, stage_count, first_layers, stage);
        largest = cost > largest ? cost : largest;
        sum += cost;
    }
    return sum > 0.0 ? largest * stage_count / sum : 1.0;
}

/* The dependency that a cut before `layer` tears apart, NULL if there is none. */
static const struct partition_dependency *torn_by(const struct partition_input *input, int layer) {
    for (int i = 0; i < input->dependency_count; i++) {
        const struct partition_dependency *pair = &input->dependencies[i];
        if (pair->earlier_layer < layer && layer <= pair->later_layer) {
            return pair;
        }
    }
    return NULL;
}

static enum status parse_number(const char **at, long *out) {
    char *end = NULL;
    errno = 0;
    *out = strtol(*at, &end, 10);
    bool is_good = end != *at && errno == 0 && (*end == ',' || *end == '\0') && **at != ' ' && **at != '+';
    *at = *end == ',' ? end + 1 : NULL;
    return is_good ? STATUS_OK : STATUS_USAGE;
}

enum status partition_parse(const char *text, int layer_count, int stage_count, int *first_layers) {
    long sum = 0;
    int stage = 0;
    for (const char *at = text; at != NULL; stage++) {
        long layers;
        CHECK(parse_number(&at, &layers) == STATUS_OK, STATUS_USAGE,
              "the layer partition is \"%s\", expected numbers of layers separated by commas, such as %d for "
              "one stage",
              text, layer_count);
        CHECK(layers >= 0 && layers <= layer_count, STATUS_USAGE,
              "stage %d of the layer partition \"%s\" has %ld layers, expected 1 to %d", stage, text, layers,
              layer_count);
        CHECK(layers > 0 || (at == NULL && stage > 0), STATUS_USAGE,
              "stage %d of the layer partition \"%s\" has no layers: only the last one, which has the head, "
              "may "
              "have none",
              stage, text);
        CHECK(stage < stage_count, STATUS_USAGE,
              "the layer partition \"%s\" has more than %d numbers, expected one for each of %d stages", text,
              stage_count, stage_count);
        first_layers[stage] = (int)sum;
        sum += layers;
    }
    CHECK(stage == stage_count, STATUS_USAGE,
          "the layer partition \"%s\" has %d numbers, expected one for each of %d stages", text, stage,
          stage_count);
    CHECK(sum == layer_count, STATUS_USAGE, "the layer partition \"%s\" has %ld layers in all, expected %d",
          text, sum, layer_count);
    first_layers[stage_count] = layer_count;
    return STATUS_OK;
}

enum status partition_read(const struct partition_input *input, const char *text, int stage_count,
                           int *first_layers) {
    TRY(partition_parse(text, input->layer_count, stage_count, first_layers));
    for (int stage = 1; stage < stage_count; stage++) {
        const struct partition_dependency *pair = torn_by(input, first_layers[stage]);
        CHECK(pair == NULL, STATUS_BAD_CONFIG,
              "the cut before layer %d separates layer %d from layer %d, which reads what it left: choose a "
              "partition that keeps both on one stage",
              first_layers[stage], pair->earlier_layer, pair->later_layer);
    }
    return STATUS_OK;
}

static double limit_of(const struct search *search, int stage) {
    const struct partition_input *input = search->input;
    return input->byte_limits == NULL ? input->byte_limit : input->byte_limits[stage];
}

static bool is_allowed(const struct search *search, int stage, int first, int end) {
    const struct partition_input *input = search->input;
    bool is_empty_allowed = stage > 0 && stage == search->stage_count - 1;
    double bytes =
        search->byte_sums[end] - search->byte_sums[first] + end_bytes(input, search->stage_count, stage);
    bool fits = input->layer_bytes == NULL || bytes <= limit_of(search, stage);
    return (first < end || is_empty_allowed) && fits && (first == 0 || torn_by(input, first) == NULL);
}

/* What a stage of layers first to end - 1 costs; infinite where it is not allowed. */
static double stage_cost(const struct search *search, int stage, int first, int end) {
    const struct partition_input *input = search->input;
    const struct partition_load *other = input->other;
    if (!is_allowed(search, stage, first, end)) {
        return INFINITY;
    }
    double cost =
        search->cost_sums[end] - search->cost_sums[first] + end_costs(input, search->stage_count, stage);
    if (other == NULL || search->other_scale == 0.0) {
        return cost * search->scale;
    }
    double of_other = search->other_sums[end] - search->other_sums[first] +
                      (stage == 0 ? other->first_cost : 0.0) +
                      (stage == search->stage_count - 1 ? other->last_cost : 0.0);
    return fmax(cost * search->scale, of_other * search->other_scale);
}

/* What the partition is to keep small. By pages: a page's part of the memory that is left for pages. */
static double objective_value(const struct search *search, int stage, int first, int end, double cost) {
    const struct partition_input *input = search->input;
    if (input->objective == PARTITION_BY_COST || isinf(cost)) {
        return cost;
    }
    double pages = search->page_sums[end] - search->page_sums[first] +
                   (stage == search->stage_count - 1 ? input->last_page_bytes : 0.0);
    double bytes =
        search->byte_sums[end] - search->byte_sums[first] + end_bytes(input, search->stage_count, stage);
    bool has_limit = input->layer_bytes != NULL && isfinite(limit_of(search, stage));
    return has_limit ? pages / fmax(limit_of(search, stage) - bytes, 1.0) : pages;
}

static int table_index(const struct search *search, int stage_count, int end) {
    return stage_count * (search->input->layer_count + 1) + end;
}

/* Value of layers 0 to end - 1 on stages 0 to stage, with a cut before `cut`. */
static double value_with_cut(const struct search *search, int stage, int cut, int end, bool is_even) {
    double before = search->values[table_index(search, stage, cut)];
    double cost = stage_cost(search, stage, cut, end);
    double value = objective_value(search, stage, cut, end, cost);
    if (!is_even) {
        return before > value ? before : value;
    }
    return value > search->largest_value * (1.0 + ROUNDING) ? INFINITY : before + cost * cost;
}

/* Layers on the stages of the best partition of layers 0 to end - 1 on `count` stages, first stage first. */
static int layers_on_stage(const struct search *search, int count, int end, int stage) {
    int first = end;
    for (int s = count; s > stage; s--) {
        end = first;
        first = search->cuts[table_index(search, s, end)];
    }
    return end - first;
}

/* Whether the partition that ends in cut `a` is to be preferred to the one with `b`, which costs the same. */
static bool is_cut_preferred(const struct search *search, int stage, int a, int b) {
    if (stage == search->stage_count - 1) {
        return a > b;
    }
    for (int s = 0; s < stage; s++) {
        int of_a = layers_on_stage(search, stage, a, s);
        int of_b = layers_on_stage(search, stage, b, s);
        if (of_a != of_b) {
            return of_a < of_b;
        }
    }
    return false;
}

/* Fills the tables: the least largest cost, or the most even partition that keeps to largest_cost. */
static double fill_tables(struct search *search, bool is_even) {
    int layers = search->input->layer_count;
    for (int end = 0; end <= layers; end++) {
        search->values[table_index(search, 0, end)] = end == 0 ? 0.0 : INFINITY;
    }
    for (int stage = 0; stage < search->stage_count; stage++) {
        for (int end = 0; end <= layers; end++) {
            double best = INFINITY;
            int best_cut = 0;
            for (int cut = 0; cut <= end; cut++) {
                double value = value_with_cut(search, stage, cut, end, is_even);
                bool is_equal = isfinite(best) && fabs(value - best) <= ROUNDING * best;
                if (is_equal ? is_cut_preferred(search, stage, cut, best_cut) : value < best) {
                    best = value;
                    best_cut = cut;
                }
            }
            search->values[table_index(search, stage + 1, end)] = best;
            search->cuts[table_index(search, stage + 1, end)] = best_cut;
        }
    }
    return search->values[table_index(search, search->stage_count, layers)];
}

static double sum_to(const double *values, int index, double before) {
    return before + (values == NULL ? 0.0 : values[index]);
}

static void fill_sums(struct search *search) {
    const struct partition_input *input = search->input;
    const double *other = input->other == NULL ? NULL : input->other->layer_costs;
    for (int i = 0; i < input->layer_count; i++) {
        search->cost_sums[i + 1] = sum_to(input->layer_costs, i, search->cost_sums[i]);
        search->other_sums[i + 1] = sum_to(other, i, search->other_sums[i]);
        search->byte_sums[i + 1] = sum_to(input->layer_bytes, i, search->byte_sums[i]);
        search->page_sums[i + 1] = sum_to(input->layer_page_bytes, i, search->page_sums[i]);
    }
}

/* Costs of both kinds of steps become parts of what they could be at best, if both count. */
static void scale_costs(struct search *search, double best_cost) {
    search->scale = 0.0;
    search->other_scale = 1.0;
    double best_of_other = fill_tables(search, false);
    bool both_count = search->input->other->tokens * best_cost >= OTHER_GAIN_LEAST * best_of_other;
    search->scale = both_count ? 1.0 / best_cost : 1.0;
    search->other_scale = both_count ? 1.0 / best_of_other : 0.0;
}

static void trace_back(const struct search *search, int *first_layers) {
    int end = search->input->layer_count;
    first_layers[search->stage_count] = end;
    for (int stage = search->stage_count; stage > 0; stage--) {
        end = search->cuts[table_index(search, stage, end)];
        first_layers[stage - 1] = end;
    }
}

static double least_limit(const struct search *search) {
    double least = limit_of(search, 0);
    for (int stage = 1; stage < search->stage_count; stage++) {
        least = fmin(least, limit_of(search, stage));
    }
    return least;
}

static enum status run_search(struct search *search, int *first_layers) {
    const struct partition_input *input = search->input;
    fill_sums(search);
    search->largest_value = fill_tables(search, false);
    CHECK(isfinite(search->largest_value) || input->layer_bytes != NULL, STATUS_BAD_CONFIG,
          "%d layers cannot be cut for %d stages, since some read what others left and stay with them: use "
          "fewer "
          "stages",
          input->layer_count, search->stage_count);
    CHECK(isfinite(search->largest_value), STATUS_OUT_OF_MEMORY,
          "no partition of %d layers over %d stages fits into %.2f GB per rank: use more ranks, a shorter "
          "context or fewer sequences",
          input->layer_count, search->stage_count, least_limit(search) / 1e9);
    if (input->other != NULL && input->objective == PARTITION_BY_COST) {
        scale_costs(search, search->largest_value);
        search->largest_value = fill_tables(search, false);
    }
    fill_tables(search, true);
    trace_back(search, first_layers);
    return STATUS_OK;
}

/* Sums have one number for each end of layers, tables one for each end and number of stages. */
static enum status alloc_search(struct search *search) {
    size_t ends = (size_t)search->input->layer_count + 1;
    size_t entries = ends * ((size_t)search->stage_count + 1);
    search->cost_sums = calloc(ends, sizeof *search->cost_sums);
    search->other_sums = calloc(ends, sizeof *search->other_sums);
    search->byte_sums = calloc(ends, sizeof *search->byte_sums);
    search->page_sums = calloc(ends, sizeof *search->page_sums);
    search->values = calloc(entries, sizeof *search->values);
    search->cuts = calloc(entries, sizeof *search->cuts);
    CHECK_MEMORY(search->cost_sums);
    CHECK_MEMORY(search->other_sums);
    CHECK_MEMORY(search->byte_sums);
    CHECK_MEMORY(search->page_sums);
    CHECK_MEMORY(search->values);
    CHECK_MEMORY(search->cuts);
    return STATUS_OK;
}

static void free_search(struct search *search) {
    free(search->cost_sums);
    free(search->other_sums);
    free(search->byte_sums);
    free(search->page_sums);
    free(search->values);
    free(search->cuts);
}

/* Leaves the search as it was for the choice; free_search whatever comes of it. */
static enum status search_best(struct search *search, int *first_layers) {
    const struct partition_input *input = search->input;
    int stage_count = search->stage_count;
    search->scale = 1.0;
    CHECK(stage_count >= 1 && stage_count <= input->layer_count + (stage_count > 1), STATUS_BAD_CONFIG,
          "%d pipeline stages were asked for, but the model has %d layers: a stage needs one, but for the "
          "last, "
          "so at most %d stages are possible",
          stage_count, input->layer_count, input->layer_count + 1);
    TRY(alloc_search(search));
    return run_search(search, first_layers);
}

enum status partition_choose(const struct partition_input *input, int stage_count, int *first_layers) {
    struct search search = {.input = input, .stage_count = stage_count};
    enum status status = search_best(&search, first_layers);
    free_search(&search);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status partition_weighs_other(const struct partition_input *input, int stage_count, bool *weighs) {
    struct search search = {.input = input, .stage_count = stage_count};
    int *best = malloc(((size_t)stage_count + 1) * sizeof *best);
    CHECK_MEMORY(best);
    enum status status = search_best(&search, best);
    *weighs = status == STATUS_OK && search.other_scale > 0.0;
    free_search(&search);
    free(best);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static double dearest_stage(const struct search *search, const int *first_layers) {
    double dearest = 0.0;
    for (int s = 0; s < search->stage_count; s++) {
        dearest = fmax(dearest, stage_cost(search, s, first_layers[s], first_layers[s + 1]));
    }
    return dearest;
}

enum status partition_loss(const struct partition_input *input, int stage_count, const int *first_layers,
                           double *loss) {
    struct search search = {.input = input, .stage_count = stage_count};
    int *best = malloc(((size_t)stage_count + 1) * sizeof *best);
    CHECK_MEMORY(best);
    enum status status = search_best(&search, best);
    if (status == STATUS_OK) {
        *loss = dearest_stage(&search, first_layers) / dearest_stage(&search, best);
    }
    free_search(&search);
    free(best);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
