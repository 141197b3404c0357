/*
 * Steps by whole characters. In the middle of a long text most characters do the same, so that a walk need
 * not look at tokens that are made of such ones. Without it a class with a count, each number of which is a
 * state of its own, would have all tokens walked byte by byte for each number.
 */
#include <stdlib.h>

#include "text/grammar/automaton_internal.h"

enum { GROUPS = 64, ASCII_BYTES = 0x80, LEAD_FIRST = 0xC2, LEAD_LAST = 0xF4 };

/* The set to which most groups of ASCII lead, each as a whole. */
static uint32_t find_usual_target(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t targets[GROUPS];
    uint64_t seen = 0;
    uint32_t usual = GRAMMAR_SET_DEAD;
    int usual_count = 0;
    for (uint32_t byte = 0; byte < ASCII_BYTES; byte++) {
        uint64_t group = token_trie_group((uint8_t)byte);
        uint32_t *target = &targets[__builtin_ctzll(group)];
        uint32_t next = automaton_step(automaton, set, byte);
        *target = (seen & group) == 0 || *target == next ? next : GRAMMAR_SET_DEAD;
        seen |= group;
    }
    for (uint64_t rest = seen; rest != 0; rest &= rest - 1) {
        uint32_t target = targets[__builtin_ctzll(rest)];
        int count = 0;
        for (uint64_t others = rest; others != 0; others &= others - 1) {
            count += targets[__builtin_ctzll(others)] == target;
        }
        if (target != GRAMMAR_SET_DEAD && count > usual_count) {
            usual = target;
            usual_count = count;
        }
    }
    return usual;
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

static struct uniform_step find_uniform_step(struct grammar_automaton *automaton, uint32_t set) {
    uint32_t target = find_usual_target(automaton, set);
    uint64_t leaving = TOKEN_TRIE_MALFORMED;
    if (target == GRAMMAR_SET_DEAD) {
        return (struct uniform_step){.next = GRAMMAR_SET_DEAD};
    }
    for (uint32_t byte = 0; byte <= LEAD_LAST; byte = byte + 1 == ASCII_BYTES ? LEAD_FIRST : byte + 1) {
        uint64_t group = token_trie_group((uint8_t)byte);
        if ((leaving & group) == 0 && !characters_lead_to(automaton, set, (uint8_t)byte, target)) {
            leaving |= group;
        }
    }
    return (struct uniform_step){.next = target, .groups = ~leaving};
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
