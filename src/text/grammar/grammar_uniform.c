/*
 * Steps by whole characters. In the middle of a long text most characters do the same, so that a walk need
 * not look at tokens that are made of such ones. Without it a class with a count, each number of which is a
 * state of its own, would have all tokens walked byte by byte for each number.
 */
#include <stdlib.h>

#include "text/grammar/automaton_internal.h"

enum { ASCII_BYTES = 0x80, LEAD_FIRST = 0xC2, LEAD_LAST = 0xF4 };

enum {
    WIDE_CHARACTERS_MIN = 16, /* of ASCII; fewer are followed as fast one by one */
    RUN_CHANGES_MAX = 8 /* as many groups may do otherwise in one of the sets of a run than in another */
};

/* The set to which most characters of ASCII lead. */
static uint32_t find_usual_target(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t targets[ASCII_BYTES];
    uint32_t counts[ASCII_BYTES];
    uint32_t target_count = 0;
    uint32_t usual = 0;
    for (uint32_t byte = 0; byte < ASCII_BYTES; byte++) {
        uint32_t next = automaton_step(automaton, set, byte);
        uint32_t i = 0;
        if (next == GRAMMAR_SET_DEAD) {
            continue;
        }
        while (i < target_count && targets[i] != next) {
            i++;
        }
        if (i == target_count) {
            targets[target_count] = next;
            counts[target_count++] = 0;
        }
        counts[i]++;
        usual = counts[i] > counts[usual] ? i : usual;
    }
    return target_count == 0 ? GRAMMAR_SET_DEAD : targets[usual];
}

/* Whether bytes `first` to `last` and `more` continuation bytes behind them lead to `target`, all of them. */
static bool all_lead_to(struct grammar_automaton *automaton, uint32_t set, uint32_t first, uint32_t last,
                        int more, uint32_t target) {
    uint32_t before = GRAMMAR_SET_DEAD;
    for (uint32_t byte = first; byte <= last; byte++) {
        uint32_t next = automaton_step(automaton, set, byte);
        bool is_known = next != GRAMMAR_SET_DEAD && next == before;
        if (!is_known &&
            (next == GRAMMAR_SET_DEAD ||
             (more == 0 ? next != target : !all_lead_to(automaton, next, 0x80, 0xBF, more - 1, target)))) {
            return false;
        }
        before = next;
    }
    return true;
}

/* The same for all characters that begin with a byte (Unicode 15, table 3-7). */
static bool characters_lead_to(struct grammar_automaton *automaton, uint32_t set, uint8_t lead,
                               uint32_t target) {
    if (lead < ASCII_BYTES) {
        return automaton_step(automaton, set, lead) == target;
    }
    uint32_t first = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint32_t last = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    uint32_t behind = automaton_step(automaton, set, lead);
    return behind != GRAMMAR_SET_DEAD && all_lead_to(automaton, behind, first, last,
                                                     lead < 0xE0   ? 0
                                                     : lead < 0xF0 ? 1
                                                                   : 2,
                                                     target);
}

/* The byte that may begin a character next; more than LEAD_LAST: none. */
static uint32_t next_first_byte(uint32_t byte) {
    return byte + 1 == ASCII_BYTES ? LEAD_FIRST : byte + 1;
}

static struct uniform_step find_uniform_step(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t target = find_usual_target(automaton, set);
    struct character_groups leaving = {{0}};
    struct character_groups followed = {{0}};
    groups_add(&leaving, CHARACTER_GROUP_MALFORMED);
    groups_add(&followed, CHARACTER_GROUP_MALFORMED);
    for (uint32_t byte = 0; byte <= LEAD_LAST; byte = next_first_byte(byte)) {
        uint32_t group = character_group((uint8_t)byte);
        if (automaton_step(automaton, set, byte) != GRAMMAR_SET_DEAD) {
            groups_add(&followed, group);
        }
        if (!groups_have(leaving, group) &&
            (target == GRAMMAR_SET_DEAD || !characters_lead_to(automaton, set, (uint8_t)byte, target))) {
            groups_add(&leaving, group);
        }
    }
    struct uniform_step step = {.next = target, .refused = groups_not(followed)};
    step.groups = target == GRAMMAR_SET_DEAD ? (struct character_groups){{0}} : groups_not(leaving);
    return step;
}

struct uniform_step automaton_uniform_step(struct grammar_automaton *automaton, uint32_t set) {
    if (!chunk_table_reserve(&automaton->uniform_steps, set)) {
        automaton->is_out_of_memory = true;
        return (struct uniform_step){.next = GRAMMAR_SET_DEAD};
    }
    struct uniform_step *step = chunk_table_at(&automaton->uniform_steps, set);
    if (step->next == UINT32_MAX) {
        *step = find_uniform_step(automaton, set);
    }
    return *step;
}

bool automaton_is_wide(const struct grammar_automaton *automaton, uint32_t set) {
    struct config_span places = config_lists_get(&automaton->sets, set);
    for (uint32_t i = 0; i < places.count; i++) {
        const struct grammar_state *state = &automaton->grammar->states[places.items[i].state];
        const struct grammar_edge *edges = automaton->grammar->edges + state->edge_offset;
        uint32_t characters = 0;
        for (uint32_t e = 0; e < state->edge_count && edges[e].last < ASCII_BYTES; e++) {
            characters += edges[e].last - edges[e].first + UINT32_C(1);
        }
        if (characters >= WIDE_CHARACTERS_MIN) {
            return true;
        }
    }
    return false;
}

static struct character_groups changed_groups(struct character_groups a, struct character_groups b) {
    return groups_or(groups_and(a, groups_not(b)), groups_and(b, groups_not(a)));
}

struct character_run automaton_character_run(struct grammar_automaton *automaton, uint32_t set,
                                             bool sees_ends) {
    struct uniform_step step = automaton_uniform_step(automaton, set);
    struct character_run run = {.allowed = step.groups, .refused = step.refused, .is_cut = true};
    bool may_end = sees_ends && grammar_automaton_may_end(automaton, set);
    while (step.next != GRAMMAR_SET_DEAD) {
        may_end = may_end || (sees_ends && grammar_automaton_may_end(automaton, step.next));
        if (step.next == set) {
            run.length = UINT32_MAX;
            break;
        }
        run.length++;
        set = step.next;
        step = automaton_uniform_step(automaton, set);
        uint32_t changes = groups_count(
            groups_or(changed_groups(run.allowed, step.groups), changed_groups(run.refused, step.refused)));
        run.is_cut = groups_are_in(groups_or(run.allowed, run.refused), step.refused);
        if (step.next == GRAMMAR_SET_DEAD || changes > RUN_CHANGES_MAX ||
            run.length == TOKEN_CHARACTERS_MAX) {
            break;
        }
        run.allowed = groups_and(run.allowed, step.groups);
        run.refused = groups_and(run.refused, step.refused);
    }
    if (may_end) {
        run.refused = (struct character_groups){{0}};
        run.is_cut = false;
    }
    return run;
}
