/* What the tests of grammars share: grammars by their text, and random ways through them. */
#ifndef SLUICE_TESTS_TEXT_GRAMMAR_FIXTURE_H
#define SLUICE_TESTS_TEXT_GRAMMAR_FIXTURE_H

#include "text/grammar/grammar_automaton.h"
#include "text/grammar/grammar_source.h"

/* A source from a C string. */
struct grammar_source grammar_source_of(enum grammar_kind kind, const char *text);

/* Fails the test if it does not compile. Owned: grammar_destroy. */
struct grammar *compile_grammar(enum grammar_kind kind, const char *text);

/* Fails the test unless compiling fails with a message that holds `part`. */
void assert_grammar_refused(enum grammar_kind kind, const char *text, const char *part);

/* Fails the test if memory is out. Owned: token_vocabulary_destroy. */
struct token_vocabulary *make_vocabulary(const struct tokenizer *tokenizer);

bool mask_has(const uint32_t *mask, int32_t token);

/* A random token of the mask, -1 if it is empty. */
int32_t pick_token(const uint32_t *mask, int32_t token_count, uint64_t *random_state);

uint64_t next_random(uint64_t *state);

/* One of each kind, some nested, some with states that mean different things by what is behind them. */
struct grammar_example {
    enum grammar_kind kind;
    const char *text;
};
extern const struct grammar_example grammar_examples[];
extern const size_t grammar_example_count;

#endif
