/*
 * Grammars that requests share: the same text is compiled once, and what was found out about its tokens
 * stays.
 *
 * Any thread may ask for a grammar; compiling holds no lock, so that others do not wait. Grammars that nobody
 * uses stay until the cache is over its limit, the longest unused first to go. Following one is done under
 * its own lock (grammar_lock), by the engine's thread in the main.
 */
#ifndef SLUICE_TEXT_GRAMMAR_GRAMMAR_CACHE_H
#define SLUICE_TEXT_GRAMMAR_GRAMMAR_CACHE_H

#include "text/grammar/grammar_automaton.h"
#include "text/grammar/grammar_source.h"

struct grammar_cache;
struct shared_grammar;

/* The vocabulary must outlive the cache. Owned: grammar_cache_destroy, once every grammar has been released.
 */
enum status grammar_cache_create(const struct token_vocabulary *vocabulary, size_t byte_limit,
                                 struct grammar_cache **out);
void grammar_cache_destroy(struct grammar_cache **cache);

const struct token_vocabulary *grammar_cache_vocabulary(const struct grammar_cache *cache);

/* Finds or compiles. Errors are those of grammar_source_compile. Counted: grammar_cache_release. */
enum status grammar_cache_acquire(struct grammar_cache *cache, const struct grammar_source *source,
                                  struct shared_grammar **out);

/* Nulls the pointer; NULL inside is allowed. */
void grammar_cache_release(struct grammar_cache *cache, struct shared_grammar **grammar);

/* Grammars in the cache, and compilations so far. */
struct grammar_cache_counts {
    size_t grammars;
    size_t compilations;
    size_t bytes;
};
struct grammar_cache_counts grammar_cache_counts(struct grammar_cache *cache);

/*
 * Finds out what tokens the grammar's states accept, those first that a text meets first, until all are known
 * or so much time has passed: who follows the grammar later has that much less to do. Once for each grammar.
 * The lock is held for one state at a time.
 */
void grammar_prepare(struct shared_grammar *grammar, double seconds);

/* The automaton, trimmed and locked until grammar_unlock. */
struct grammar_automaton *grammar_lock(struct shared_grammar *grammar);
void grammar_unlock(struct shared_grammar *grammar);

#endif
