/* What the two halves of the automaton share: sets (grammar_automaton.c) and masks (grammar_tokens.c). */
#ifndef SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H
#define SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H

#include "text/grammar/grammar_automaton.h"

/* As grammar_automaton_step, in place where the way is known: walks take it for every byte of the tokens. */
static inline uint32_t automaton_step(struct grammar_automaton *automaton, uint32_t set, uint32_t symbol) {
    const uint32_t *ways = chunk_table_at(&automaton->next, set);
    uint32_t next = ways[automaton->symbol_classes[symbol]];
    return next != UINT32_MAX ? next : grammar_automaton_step(automaton, set, symbol);
}

/* What characters do behind a set, by their groups (character_groups.h). */
struct uniform_step {
    uint32_t next;                   /* the set to which most characters lead, or GRAMMAR_SET_DEAD */
    struct character_groups groups;  /* all characters of these lead there */
    struct character_groups refused; /* none of these can follow */
};

/* Found out once for each set. */
struct uniform_step automaton_uniform_step(struct grammar_automaton *automaton, uint32_t set);

/* Whether so many characters may follow that it pays to look what they do together. */
bool automaton_is_wide(const struct grammar_automaton *automaton, uint32_t set);

/*
 * What characters do one after another: so many of the allowed ones may follow a set in any order, those that
 * are refused may stand nowhere among them. A text with others is not decided.
 */
struct character_run {
    struct character_groups allowed, refused;
    uint32_t length; /* UINT32_MAX: any number */
    bool is_cut;     /* behind so many neither may follow; otherwise texts that are longer are not decided */
};

/*
 * With `sees_ends` a text that goes on where a rule may end counts as not decided, and so does all behind the
 * set itself if it may.
 */
struct character_run automaton_character_run(struct grammar_automaton *automaton, uint32_t set,
                                             bool sees_ends);

/* The set of places, as they are. */
uint32_t automaton_set_of_places(struct grammar_automaton *automaton, const struct config *places,
                                 uint32_t count);

/* The set behind the frames of places. */
uint32_t automaton_set_behind(struct grammar_automaton *automaton, const struct config *places,
                              uint32_t count);

/* Frees masks and what states accept. */
void automaton_forget_tokens(struct grammar_automaton *automaton);

#endif
