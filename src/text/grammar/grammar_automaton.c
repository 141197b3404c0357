/*
 * A step takes the edges of all places, then closes what it got: ends of rules go on behind their frames,
 * calls are entered. Calls are entered in the order of the rules' ranks, all of one rule at once with one
 * frame for all of them: that is where readings are joined.
 */
#include "text/grammar/grammar_automaton.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton_internal.h"

enum { SEEN_SLOTS = 4 * GRAMMAR_CONFIGS_MAX };

/* A call to be entered. */
struct pending_call {
    uint32_t rule;
    struct config behind;
};

struct automaton_scratch {
    struct config items[GRAMMAR_CONFIGS_MAX];
    uint32_t item_count;
    uint32_t seen_stamps[SEEN_SLOTS]; /* a slot is taken if it has this closure's stamp */
    struct config seen[SEEN_SLOTS];
    uint32_t stamp;
    struct pending_call pending[GRAMMAR_CONFIGS_MAX];
    uint32_t pending_count;
    struct config frame[GRAMMAR_CONFIGS_MAX];
    uint32_t frame_count;
    struct config spare[GRAMMAR_CONFIGS_MAX]; /* of sorting */
};

/* Symbols belong to one class if every edge of the grammar has both or neither. */
static void find_classes(struct grammar_automaton *automaton) {
    bool is_first[GRAMMAR_SYMBOLS_MAX + 1] = {true};
    const struct grammar *grammar = automaton->grammar;
    for (uint32_t i = 0; i < grammar->edge_count; i++) {
        is_first[grammar->edges[i].first] = true;
        is_first[grammar->edges[i].last + 1] = true;
    }
    for (uint32_t symbol = 0; symbol < GRAMMAR_SYMBOLS_MAX; symbol++) {
        if (is_first[symbol]) {
            automaton->class_symbols[automaton->class_count++] = (uint16_t)symbol;
        }
        automaton->symbol_classes[symbol] = (uint8_t)(automaton->class_count - 1);
    }
}

static bool is_seen(struct automaton_scratch *scratch, struct config config) {
    uint64_t hash =
        (uint64_t)config.state * 0x9E3779B97F4A7C15u ^ (uint64_t)config.frame * 0xC2B2AE3D27D4EB4Fu;
    for (uint32_t slot = (uint32_t)(hash >> 40) % SEEN_SLOTS;; slot = (slot + 1) % SEEN_SLOTS) {
        if (scratch->seen_stamps[slot] != scratch->stamp) {
            scratch->seen_stamps[slot] = scratch->stamp;
            scratch->seen[slot] = config;
            return false;
        }
        if (scratch->seen[slot].state == config.state && scratch->seen[slot].frame == config.frame) {
            return true;
        }
    }
}

static void add_item(struct automaton_scratch *scratch, struct config config) {
    if (scratch->item_count < GRAMMAR_CONFIGS_MAX && !is_seen(scratch, config)) {
        scratch->items[scratch->item_count++] = config;
    }
}

static void clear_items(struct automaton_scratch *scratch) {
    scratch->item_count = 0;
    scratch->pending_count = 0;
    if (++scratch->stamp == 0) {
        memset(scratch->seen_stamps, 0, sizeof scratch->seen_stamps);
        scratch->stamp = 1;
    }
}

/* Where a rule ends, what is behind its frame goes on. */
static void leave_rules(struct grammar_automaton *automaton) {
    struct automaton_scratch *scratch = automaton->scratch;
    for (uint32_t i = 0; i < scratch->item_count; i++) {
        if (!automaton->grammar->states[scratch->items[i].state].is_accepting) {
            continue;
        }
        struct config_span behind = config_lists_get(&automaton->frames, scratch->items[i].frame);
        for (uint32_t j = 0; j < behind.count; j++) {
            add_item(scratch, behind.items[j]);
        }
    }
}

static void add_calls(struct grammar_automaton *automaton, struct config place) {
    struct automaton_scratch *scratch = automaton->scratch;
    const struct grammar_state *state = &automaton->grammar->states[place.state];
    for (uint32_t i = 0; i < state->call_count && scratch->pending_count < GRAMMAR_CONFIGS_MAX; i++) {
        const struct grammar_call *call = &automaton->grammar->calls[state->call_offset + i];
        scratch->pending[scratch->pending_count++] =
            (struct pending_call){call->rule, {call->target, place.frame}};
    }
}

/* Adds where a call goes on. A call at a rule's end goes on where the rule does: nesting stays flat. */
static void add_to_frame(struct grammar_automaton *automaton, struct config behind) {
    struct automaton_scratch *scratch = automaton->scratch;
    struct config_span span = {&behind, 1};
    if (automaton->grammar->states[behind.state].is_last) {
        span = config_lists_get(&automaton->frames, behind.frame);
    }
    for (uint32_t i = 0; i < span.count && scratch->frame_count < GRAMMAR_CONFIGS_MAX; i++) {
        scratch->frame[scratch->frame_count++] = span.items[i];
    }
}

static uint32_t rule_to_enter(const struct grammar_automaton *automaton) {
    const struct automaton_scratch *scratch = automaton->scratch;
    uint32_t rule = scratch->pending[0].rule;
    for (uint32_t i = 1; i < scratch->pending_count; i++) {
        if (automaton->grammar->rules[scratch->pending[i].rule].rank < automaton->grammar->rules[rule].rank) {
            rule = scratch->pending[i].rule;
        }
    }
    return rule;
}

/* Enters the first of the pending rules from everywhere it is called. */
static void enter_rule(struct grammar_automaton *automaton) {
    struct automaton_scratch *scratch = automaton->scratch;
    uint32_t rule = rule_to_enter(automaton);
    uint32_t kept = 0;
    scratch->frame_count = 0;
    for (uint32_t i = 0; i < scratch->pending_count; i++) {
        if (scratch->pending[i].rule == rule) {
            add_to_frame(automaton, scratch->pending[i].behind);
        } else {
            scratch->pending[kept++] = scratch->pending[i];
        }
    }
    scratch->pending_count = kept;
    scratch->frame_count = config_sort(scratch->frame, scratch->frame_count, scratch->spare);
    uint32_t frame = config_lists_find(&automaton->frames, scratch->frame, scratch->frame_count);
    if (frame == UINT32_MAX) {
        automaton->is_out_of_memory = true;
        return;
    }
    struct config place = {automaton->grammar->rules[rule].start, frame};
    add_item(scratch, place);
    add_calls(automaton, place);
}

static uint32_t intern_set(struct grammar_automaton *automaton, struct config *items, uint32_t count) {
    uint32_t set =
        config_lists_find(&automaton->sets, items, config_sort(items, count, automaton->scratch->spare));
    if (set == UINT32_MAX || !chunk_table_reserve(&automaton->next, set)) {
        automaton->is_out_of_memory = true;
        return GRAMMAR_SET_DEAD;
    }
    return set;
}

/* The set of the items, their rules' ends and calls followed. */
static uint32_t close_items(struct grammar_automaton *automaton) {
    struct automaton_scratch *scratch = automaton->scratch;
    leave_rules(automaton);
    for (uint32_t i = 0; i < scratch->item_count; i++) {
        add_calls(automaton, scratch->items[i]);
    }
    while (scratch->pending_count > 0 && !automaton->is_out_of_memory) {
        enter_rule(automaton);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < scratch->item_count; i++) {
        uint32_t state = scratch->items[i].state;
        if (state == GRAMMAR_END || automaton->grammar->states[state].edge_count > 0) {
            scratch->items[count++] = scratch->items[i];
        }
    }
    return automaton->is_out_of_memory ? GRAMMAR_SET_DEAD : intern_set(automaton, scratch->items, count);
}

/* The numbers of the dead set and the last frame. */
static bool add_first_lists(struct grammar_automaton *automaton) {
    struct config end = {GRAMMAR_END, GRAMMAR_FRAME_END};
    return config_lists_find(&automaton->sets, &end, 0) == GRAMMAR_SET_DEAD &&
           config_lists_find(&automaton->frames, &end, 1) == GRAMMAR_FRAME_END &&
           chunk_table_reserve(&automaton->next, 0);
}

static void set_up_tables(struct grammar_automaton *automaton) {
    const struct chunk_table numbers = {.entry_bytes = sizeof(uint32_t), .fill = CHUNK_TABLE_UNKNOWN};
    config_lists_init(&automaton->sets);
    config_lists_init(&automaton->frames);
    config_lists_init(&automaton->target_lists);
    automaton->popped_sets = numbers;
    automaton->closed_sets = numbers;
    automaton->next = numbers;
    automaton->next.entry_bytes *= automaton->class_count;
    automaton->uniform_steps = numbers;
    automaton->uniform_steps.entry_bytes = sizeof(struct uniform_step);
    automaton->masks = (struct chunk_table){.entry_bytes = sizeof(struct token_set *)};
}

enum status grammar_automaton_create(const struct grammar *grammar, const struct token_vocabulary *vocabulary,
                                     size_t byte_limit, struct grammar_automaton **out) {
    *out = NULL;
    struct grammar_automaton *automaton = calloc(1, sizeof *automaton);
    CHECK_MEMORY(automaton);
    automaton->grammar = grammar;
    automaton->vocabulary = vocabulary;
    automaton->byte_limit = byte_limit;
    automaton->scratch = calloc(1, sizeof *automaton->scratch);
    automaton->state_tokens = calloc(grammar->state_count, sizeof *automaton->state_tokens);
    size_t word_count = vocabulary == NULL ? 0 : vocabulary->word_count;
    automaton->mask_words = calloc(word_count + 1, sizeof *automaton->mask_words);
    automaton->state_words = calloc(word_count + 1, sizeof *automaton->state_words);
    find_classes(automaton);
    set_up_tables(automaton);
    if (automaton->scratch == NULL || automaton->state_tokens == NULL || automaton->mask_words == NULL ||
        automaton->state_words == NULL || !add_first_lists(automaton)) {
        grammar_automaton_destroy(&automaton);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    *out = automaton;
    return STATUS_OK;
}

static void forget_sets(struct grammar_automaton *automaton) {
    automaton_forget_tokens(automaton);
    config_lists_deinit(&automaton->sets);
    config_lists_deinit(&automaton->frames);
    config_lists_deinit(&automaton->target_lists);
    chunk_table_clear(&automaton->next);
    chunk_table_clear(&automaton->popped_sets);
    chunk_table_clear(&automaton->closed_sets);
    chunk_table_clear(&automaton->uniform_steps);
}

void grammar_automaton_destroy(struct grammar_automaton **automaton) {
    if (*automaton != NULL) {
        if ((*automaton)->state_tokens != NULL) {
            forget_sets(*automaton);
        }
        free((*automaton)->state_tokens);
        free((*automaton)->mask_words);
        free((*automaton)->state_words);
        free((*automaton)->scratch);
        free(*automaton);
        *automaton = NULL;
    }
}

size_t grammar_automaton_bytes(const struct grammar_automaton *automaton) {
    return config_lists_bytes(&automaton->sets) + config_lists_bytes(&automaton->frames) +
           config_lists_bytes(&automaton->target_lists) + chunk_table_bytes(&automaton->next) +
           chunk_table_bytes(&automaton->popped_sets) + chunk_table_bytes(&automaton->closed_sets) +
           chunk_table_bytes(&automaton->uniform_steps) + chunk_table_bytes(&automaton->masks) +
           automaton->state_bytes + automaton->token_sets.bytes;
}

void grammar_automaton_trim(struct grammar_automaton *automaton) {
    if (automaton->is_out_of_memory || grammar_automaton_bytes(automaton) > automaton->byte_limit) {
        forget_sets(automaton);
        automaton->epoch++;
        automaton->is_out_of_memory = !add_first_lists(automaton);
    }
}

uint32_t grammar_automaton_start(struct grammar_automaton *automaton) {
    struct automaton_scratch *scratch = automaton->scratch;
    clear_items(scratch);
    if (automaton->is_out_of_memory) {
        return GRAMMAR_SET_DEAD;
    }
    if (automaton->grammar->accepts_empty) {
        add_item(scratch, (struct config){GRAMMAR_END, GRAMMAR_FRAME_END});
    }
    scratch->pending[scratch->pending_count++] =
        (struct pending_call){automaton->grammar->root, {GRAMMAR_END, GRAMMAR_FRAME_END}};
    return close_items(automaton);
}

uint32_t automaton_set_of_places(struct grammar_automaton *automaton, const struct config *places,
                                 uint32_t count) {
    if (automaton->is_out_of_memory) {
        return GRAMMAR_SET_DEAD;
    }
    memcpy(automaton->scratch->items, places, count * sizeof *places);
    return intern_set(automaton, automaton->scratch->items, count);
}

static uint32_t set_behind_frame(struct grammar_automaton *automaton, uint32_t frame) {
    if (!chunk_table_reserve(&automaton->popped_sets, frame)) {
        automaton->is_out_of_memory = true;
        return GRAMMAR_SET_DEAD;
    }
    uint32_t *popped = chunk_table_at(&automaton->popped_sets, frame);
    if (*popped == UINT32_MAX) {
        struct config_span behind = config_lists_get(&automaton->frames, frame);
        clear_items(automaton->scratch);
        for (uint32_t i = 0; i < behind.count; i++) {
            add_item(automaton->scratch, behind.items[i]);
        }
        *popped = close_items(automaton);
    }
    return *popped;
}

uint32_t automaton_set_behind(struct grammar_automaton *automaton, const struct config *places,
                              uint32_t count) {
    uint32_t set = set_behind_frame(automaton, places[0].frame);
    for (uint32_t i = 1; i < count; i++) {
        set_behind_frame(automaton, places[i].frame);
    }
    if (count == 1 || automaton->is_out_of_memory) {
        return set;
    }
    clear_items(automaton->scratch);
    for (uint32_t i = 0; i < count; i++) {
        struct config_span behind =
            config_lists_get(&automaton->sets, set_behind_frame(automaton, places[i].frame));
        for (uint32_t j = 0; j < behind.count; j++) {
            add_item(automaton->scratch, behind.items[j]);
        }
    }
    return intern_set(automaton, automaton->scratch->items, automaton->scratch->item_count);
}

/* The edge of a state that has the symbol; UINT32_MAX if none has. */
static uint32_t find_target(const struct grammar *grammar, uint32_t state, uint32_t symbol) {
    const struct grammar_edge *edges = grammar->edges + grammar->states[state].edge_offset;
    uint32_t low = 0;
    uint32_t high = grammar->states[state].edge_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (edges[middle].last < symbol) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool is_found = low < grammar->states[state].edge_count && edges[low].first <= symbol;
    return is_found ? edges[low].target : UINT32_MAX;
}

/*
 * The set of the items that a symbol led to. Many symbols lead to the same ones, and closing takes long where
 * a text has many readings: that is done once.
 */
static uint32_t close_targets(struct grammar_automaton *automaton) {
    struct automaton_scratch *scratch = automaton->scratch;
    const struct grammar_state *first = &automaton->grammar->states[scratch->items[0].state];
    if (scratch->item_count == 1 && first->call_count == 0 && !first->is_accepting) {
        return intern_set(automaton, scratch->items, 1); /* closed as it is */
    }
    uint32_t list = config_lists_find(&automaton->target_lists, scratch->items, scratch->item_count);
    if (list == UINT32_MAX || !chunk_table_reserve(&automaton->closed_sets, list)) {
        automaton->is_out_of_memory = true;
        return GRAMMAR_SET_DEAD;
    }
    uint32_t *closed = chunk_table_at(&automaton->closed_sets, list);
    if (*closed == UINT32_MAX) {
        *closed = close_items(automaton);
    }
    return *closed;
}

static uint32_t make_step(struct grammar_automaton *automaton, uint32_t set, uint32_t class) {
    clear_items(automaton->scratch);
    struct config_span places = config_lists_get(&automaton->sets, set);
    for (uint32_t i = 0; i < places.count; i++) {
        uint32_t target =
            find_target(automaton->grammar, places.items[i].state, automaton->class_symbols[class]);
        if (target != UINT32_MAX) {
            add_item(automaton->scratch, (struct config){target, places.items[i].frame});
        }
    }
    return automaton->scratch->item_count == 0 ? GRAMMAR_SET_DEAD : close_targets(automaton);
}

uint32_t grammar_automaton_step(struct grammar_automaton *automaton, uint32_t set, uint32_t symbol) {
    if (automaton->is_out_of_memory) {
        return GRAMMAR_SET_DEAD;
    }
    uint32_t class = automaton->symbol_classes[symbol];
    uint32_t *next = (uint32_t *)chunk_table_at(&automaton->next, set) + class;
    if (*next == UINT32_MAX) {
        *next = make_step(automaton, set, class);
    }
    return *next;
}

uint32_t grammar_automaton_read(struct grammar_automaton *automaton, uint32_t set, const char *bytes,
                                size_t length) {
    for (size_t i = 0; i < length && set != GRAMMAR_SET_DEAD; i++) {
        set = grammar_automaton_step(automaton, set, (unsigned char)bytes[i]);
    }
    return set;
}

bool grammar_automaton_may_end(const struct grammar_automaton *automaton, uint32_t set) {
    struct config_span places = config_lists_get(&automaton->sets, set);
    return places.count > 0 && places.items[0].state == GRAMMAR_END;
}

bool grammar_automaton_must_end(const struct grammar_automaton *automaton, uint32_t set) {
    return grammar_automaton_may_end(automaton, set) && config_lists_get(&automaton->sets, set).count == 1;
}
