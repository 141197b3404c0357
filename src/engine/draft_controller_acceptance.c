/* Counts that fade, per temperature class and per sequence. */
#include "engine/draft_controller_acceptance.h"

#include <stdlib.h>

/* Of a first draft that nobody has tried, and of a later one against the one before (reports in spec 4.7). */
static const float FIRST_CHANCE = 0.7F;
static const float LATER_FACTOR = 0.8F;
static const float START_DRAFTS = 4; /* that these are worth */
/* Drafts, or ticks that did not try, after which evidence has faded to a third. */
static const float CLASS_HORIZON = 512;
static const float SEQUENCE_HORIZON = 128;
static const float UNTRIED_CLASS_HORIZON = 8192;
static const float UNTRIED_SEQUENCE_HORIZON = 512;
/* What doubt leaves. */
static const float DOUBT_CLASS_DRAFTS = 16;
static const float DOUBT_SEQUENCE_REFUSALS = 1;
/* Variance of the sequences' factors: until it is known, what that is worth, and bounds. */
static const float START_SPREAD = 0.15F;
static const float START_SPREAD_WEIGHT = 200;
static const float LEAST_SPREAD = 0.01F;
static const float MOST_SPREAD = 2;
static const float SPREAD_HORIZON = 128; /* sequences */
/* Rows of state after which drafts are as good as they get; the nearest matter most. */
enum { STATE_WINDOW_ROWS = 32, STATE_FIRST_ROWS = 4 };

static void refresh_expected(struct acceptance_class *class) {
    float start = FIRST_CHANCE;
    for (int32_t j = 0; j < ACCEPTANCE_POSITIONS; j++) {
        float accepted = class->accepted[j] + START_DRAFTS * start;
        class->expected[j] = accepted / (class->reached[j] + START_DRAFTS);
        start = LATER_FACTOR * class->expected[j];
    }
}

enum status draft_acceptance_init(struct draft_acceptance *acceptance, int32_t slot_count) {
    *acceptance = (struct draft_acceptance){.slot_count = slot_count};
    acceptance->sequences = calloc((size_t)slot_count, sizeof *acceptance->sequences);
    CHECK_MEMORY(acceptance->sequences);
    for (int32_t i = 0; i < ACCEPTANCE_CLASSES; i++) {
        refresh_expected(&acceptance->classes[i]);
    }
    return STATUS_OK;
}

void draft_acceptance_deinit(struct draft_acceptance *acceptance) {
    free(acceptance->sequences);
    acceptance->sequences = NULL;
}

/* Refusals of equal sequences vary by their expected number; what goes beyond it tells sequences apart. */
static void learn_spread(struct draft_acceptance *acceptance, const struct refusals *ended) {
    float difference = ended->seen - ended->expected;
    float keep = 1 - 1 / SPREAD_HORIZON;
    acceptance->spread_sum = acceptance->spread_sum * keep + difference * difference - ended->expected;
    acceptance->spread_weight = acceptance->spread_weight * keep + ended->expected * ended->expected;
}

static int32_t class_of(double temperature) {
    if (!(temperature > 0)) {
        return 0;
    }
    return temperature <= 0.5 ? 1 : temperature <= 1 ? 2 : 3;
}

void draft_acceptance_start(struct draft_acceptance *acceptance, int32_t slot, double temperature,
                            bool has_state) {
    learn_spread(acceptance, &acceptance->sequences[slot].all);
    acceptance->sequences[slot] = (struct acceptance_sequence){
        .temperature_class = class_of(temperature),
        .state_rows = has_state ? STATE_WINDOW_ROWS : 0,
    };
}

static void add_draft(struct acceptance_class *class, struct acceptance_sequence *sequence, int32_t position,
                      bool is_accepted, float weight) {
    float seen = is_accepted ? 0 : weight;
    float expected = weight * (1 - class->expected[position]);
    float keep = 1 - weight / SEQUENCE_HORIZON;
    sequence->recent.seen = sequence->recent.seen * keep + seen;
    sequence->recent.expected = sequence->recent.expected * keep + expected;
    sequence->all.seen += seen;
    sequence->all.expected += expected;
    keep = 1 - weight / CLASS_HORIZON;
    class->reached[position] = class->reached[position] * keep + weight;
    class->accepted[position] = class->accepted[position] * keep + (is_accepted ? weight : 0);
}

void draft_acceptance_observe(struct draft_acceptance *acceptance, int32_t slot, int32_t verified,
                              int32_t accepted) {
    struct acceptance_sequence *sequence = &acceptance->sequences[slot];
    struct acceptance_class *class = &acceptance->classes[sequence->temperature_class];
    /* Drafts from a window that is still filling say less about those to come. */
    float weight = (float)(STATE_FIRST_ROWS + sequence->state_rows) / STATE_WINDOW_ROWS;
    weight = weight < 1 ? weight : 1;
    for (int32_t j = 0; j < verified && j <= accepted; j++) {
        add_draft(class, sequence, j, j < accepted, weight);
    }
    if (verified == 0) {
        sequence->recent.seen *= 1 - 1 / UNTRIED_SEQUENCE_HORIZON;
        sequence->recent.expected *= 1 - 1 / UNTRIED_SEQUENCE_HORIZON;
    }
}

void draft_acceptance_end_tick(struct draft_acceptance *acceptance, int32_t verified_most) {
    float keep = 1 - 1 / UNTRIED_CLASS_HORIZON;
    for (int32_t i = 0; i < ACCEPTANCE_CLASSES; i++) {
        struct acceptance_class *class = &acceptance->classes[i];
        for (int32_t j = verified_most; j < ACCEPTANCE_POSITIONS; j++) {
            class->reached[j] *= keep;
            class->accepted[j] *= keep;
        }
        refresh_expected(class);
    }
}

void draft_acceptance_note_state(struct draft_acceptance *acceptance, int32_t slot, int32_t rows) {
    struct acceptance_sequence *sequence = &acceptance->sequences[slot];
    int32_t sum = rows == 0 ? 0 : sequence->state_rows + rows;
    sequence->state_rows = sum < STATE_WINDOW_ROWS ? sum : STATE_WINDOW_ROWS;
}

void draft_acceptance_doubt(struct draft_acceptance *acceptance) {
    for (int32_t i = 0; i < acceptance->slot_count; i++) {
        struct refusals *recent = &acceptance->sequences[i].recent;
        if (recent->expected > DOUBT_SEQUENCE_REFUSALS) {
            recent->seen *= DOUBT_SEQUENCE_REFUSALS / recent->expected;
            recent->expected = DOUBT_SEQUENCE_REFUSALS;
        }
    }
    for (int32_t i = 0; i < ACCEPTANCE_CLASSES; i++) {
        struct acceptance_class *class = &acceptance->classes[i];
        for (int32_t j = 0; j < ACCEPTANCE_POSITIONS; j++) {
            if (class->reached[j] > DOUBT_CLASS_DRAFTS) {
                class->accepted[j] *= DOUBT_CLASS_DRAFTS / class->reached[j];
                class->reached[j] = DOUBT_CLASS_DRAFTS;
            }
        }
        refresh_expected(class);
    }
}

/* Refusals of the sequence for each that its class expects, as far as the difference is believed. */
static float factor_of(const struct draft_acceptance *acceptance,
                       const struct acceptance_sequence *sequence) {
    float spread = (acceptance->spread_sum + START_SPREAD * START_SPREAD_WEIGHT) /
                   (acceptance->spread_weight + START_SPREAD_WEIGHT);
    spread = spread < LEAST_SPREAD ? LEAST_SPREAD : spread > MOST_SPREAD ? MOST_SPREAD : spread;
    return (sequence->recent.seen + 1 / spread) / (sequence->recent.expected + 1 / spread);
}

void draft_acceptance_chances(const struct draft_acceptance *acceptance, int32_t slot, int32_t count,
                              float *chances) {
    const struct acceptance_sequence *sequence = &acceptance->sequences[slot];
    const struct acceptance_class *class = &acceptance->classes[sequence->temperature_class];
    float factor = factor_of(acceptance, sequence);
    float product = 1;
    for (int32_t j = 0; j < count; j++) {
        float chance = 1 - factor * (1 - class->expected[j]);
        product *= chance > 0 ? chance : 0;
        chances[j] = product;
    }
}
