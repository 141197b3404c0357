/* What creating a request's constraint (request_constraint_create.c) and asking it (request_constraint.c)
 * share. */
#ifndef SLUICE_TEXT_REQUEST_CONSTRAINT_INTERNAL_H
#define SLUICE_TEXT_REQUEST_CONSTRAINT_INTERNAL_H

#include "base/arena.h"
#include "text/request_constraint.h"
#include "text/token_list.h"

/* Where the answer stands. */
struct constraint_place {
    bool is_thinking;
    uint32_t set; /* of the grammar's automaton */
};

struct request_constraint {
    struct arena arena;                        /* what `options` points to */
    struct request_constraint_options options; /* `grammar` and the allowed tokens are not kept */
    const uint32_t *allowed_words;             /* mask of the allowed tokens; NULL: all */
    struct grammar_cache *cache;
    const struct token_vocabulary *vocabulary;
    struct shared_grammar *grammar; /* NULL: none */
    bool accepts_empty;             /* the grammar does */
    struct stop_text stop;
    struct token_list tokens; /* accepted */
    size_t answer_start;      /* how many of them came before the grammar's first */
    uint32_t epoch;           /* of the automaton that `place` is from */
    struct constraint_place place;
    bool is_out_of_memory;
};

#endif
