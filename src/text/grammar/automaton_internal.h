/* What the two halves of the automaton share: sets (grammar_automaton.c) and masks (grammar_tokens.c). */
#ifndef SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H
#define SLUICE_TEXT_GRAMMAR_AUTOMATON_INTERNAL_H

#include "text/grammar/grammar_automaton.h"

/* The set of one place, as it is. */
uint32_t automaton_set_of_place(struct grammar_automaton *automaton, struct config place);

/* The set behind a frame. */
uint32_t automaton_set_behind(struct grammar_automaton *automaton, uint32_t frame);

/* Frees masks and what states accept. */
void automaton_forget_tokens(struct grammar_automaton *automaton);

#endif
