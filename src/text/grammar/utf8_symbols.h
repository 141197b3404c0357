/*
 * Characters as the bytes of their UTF-8 form, in plain text and inside JSON strings.
 */
#ifndef SLUICE_TEXT_GRAMMAR_UTF8_SYMBOLS_H
#define SLUICE_TEXT_GRAMMAR_UTF8_SYMBOLS_H

#include "text/grammar/symbol_dfa.h"
#include "text/grammar/symbol_nfa.h"

/* Ways from one state to another over the UTF-8 forms of a range of code points, surrogates left out. */
void utf8_symbols_add(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target);

/*
 * The same as they stand in a JSON string: a quote, a backslash and control characters by their shortest
 * escapes (spec deepseek-v4 8.3), everything else as it is.
 */
void utf8_symbols_add_json(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target);

/* How characters are spelled. */
typedef void utf8_symbols_adder(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last,
                                uint32_t target);

/* Appends an automaton over code points, each spelled by `add`. Returns the state behind. */
uint32_t utf8_symbols_add_dfa(struct nfa *nfa, uint32_t from, const struct dfa *dfa, utf8_symbols_adder *add);

#endif
