/*
 * Follows a grammar byte by byte, and says which tokens may come next.
 *
 * A set is all places in the grammar where the text so far may have led, each with the frame of what comes
 * behind its rule; frames share what they have in common, so a set stays small however deep the text nests
 * and however many readings it has. Sets and the ways between them are made when first needed and kept. So
 * are masks: the tokens that may follow a set. They are put together from what each state of the grammar
 * accepts within its rule, whatever comes behind the rule, and the few tokens that go on beyond the rule's
 * end.
 *
 * All of this is a cache. grammar_automaton_trim empties it when it has outgrown its limit; the epoch then
 * changes and numbers of sets from before have no meaning any more. Where a text has more readings than
 * GRAMMAR_CONFIGS_MAX, the rest is not followed: what is accepted is right still, some of it may be missing.
 *
 * One thread at a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_GRAMMAR_AUTOMATON_H
#define SLUICE_TEXT_GRAMMAR_GRAMMAR_AUTOMATON_H

#include "text/grammar/config_lists.h"
#include "text/grammar/grammar.h"
#include "text/grammar/token_sets.h"
#include "text/grammar/token_vocabulary.h"

enum {
    GRAMMAR_CONFIGS_MAX = 4096,
    GRAMMAR_SET_DEAD = 0, /* nothing can follow */
    GRAMMAR_FRAME_END = 0 /* behind the root rule */
};

struct state_tokens;

struct grammar_automaton {
    const struct grammar *grammar;             /* borrowed */
    const struct token_vocabulary *vocabulary; /* borrowed; NULL: no masks are asked for */
    size_t byte_limit;
    size_t state_bytes; /* of what states accept, but for their sets */
    uint32_t epoch;
    uint8_t symbol_classes[GRAMMAR_SYMBOLS_MAX]; /* symbols that no edge tells apart have one class */
    uint16_t class_symbols[GRAMMAR_SYMBOLS_MAX]; /* a symbol of each class */
    uint32_t class_count;
    struct config_lists sets, frames;
    struct config_lists target_lists;   /* what symbols lead to, before it is closed */
    struct chunk_table next;            /* by set and class: set, or UINT32_MAX while unknown */
    struct chunk_table popped_sets;     /* by frame: the set behind it, or UINT32_MAX */
    struct chunk_table closed_sets;     /* by target list: the set, or UINT32_MAX */
    struct chunk_table uniform_steps;   /* by set: struct uniform_step */
    struct chunk_table masks;           /* by set: const struct token_set *, or NULL */
    struct token_sets token_sets;       /* of masks and states */
    uint32_t *mask_words, *state_words; /* a mask of a set, and of a state, while it is worked out */
    struct state_tokens **state_tokens; /* by state of the grammar */
    struct automaton_scratch *scratch;
    bool is_out_of_memory; /* sets from then on are dead */
};

/* Owned: grammar_automaton_destroy. */
enum status grammar_automaton_create(const struct grammar *grammar, const struct token_vocabulary *vocabulary,
                                     size_t byte_limit, struct grammar_automaton **out);
void grammar_automaton_destroy(struct grammar_automaton **automaton);

/* Empties the cache if it takes more than its limit. */
void grammar_automaton_trim(struct grammar_automaton *automaton);

size_t grammar_automaton_bytes(const struct grammar_automaton *automaton);

/* The set before the first byte. */
uint32_t grammar_automaton_start(struct grammar_automaton *automaton);

/* The set behind a symbol (a byte, or GRAMMAR_BYTES + control token), GRAMMAR_SET_DEAD if it cannot follow.
 */
uint32_t grammar_automaton_step(struct grammar_automaton *automaton, uint32_t set, uint32_t symbol);

/* The set behind some bytes. */
uint32_t grammar_automaton_read(struct grammar_automaton *automaton, uint32_t set, const char *bytes,
                                size_t length);

/* Whether the text may end here, and whether it must. */
bool grammar_automaton_may_end(const struct grammar_automaton *automaton, uint32_t set);
bool grammar_automaton_must_end(const struct grammar_automaton *automaton, uint32_t set);

/*
 * Finds out what a state of the grammar accepts, whatever is behind its rule: most of the work of the masks
 * in which it occurs. False: memory is out, or half of the cache's limit is reached.
 */
bool grammar_automaton_prepare(struct grammar_automaton *automaton, uint32_t state);

/* The tokens that may follow, without the end. NULL if memory is out. Valid until the cache is trimmed. */
const struct token_set *grammar_automaton_tokens(struct grammar_automaton *automaton, uint32_t set);

#endif
