/* Edges are lists in one array. */
#include "text/grammar/symbol_nfa.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/compile_work.h"

void nfa_init(struct nfa *nfa, uint32_t state_limit) {
    *nfa = (struct nfa){.state_limit = state_limit};
    nfa_add_state(nfa);
}

void nfa_deinit(struct nfa *nfa) {
    free(nfa->first_edges);
    free(nfa->edges);
    *nfa = (struct nfa){0};
}

enum status nfa_check(const struct nfa *nfa, const char *what) {
    CHECK(!nfa->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK(!nfa->is_over_limit, STATUS_UNSUPPORTED,
          "%s is too large: it needs more than %u states; lower its counts or nest fewer repetitions", what,
          nfa->state_limit);
    return STATUS_OK;
}

uint32_t nfa_add_state(struct nfa *nfa) {
    nfa->is_over_limit = nfa->is_over_limit || nfa->state_count >= nfa->state_limit;
    if (nfa->is_over_limit || nfa->is_out_of_memory) {
        return 0;
    }
    if (nfa->state_count == nfa->state_capacity) {
        uint32_t capacity = nfa->state_capacity == 0 ? 64 : 2 * nfa->state_capacity;
        uint32_t *states = realloc(nfa->first_edges, capacity * sizeof *states);
        if (states == NULL) {
            nfa->is_out_of_memory = true;
            return 0;
        }
        nfa->first_edges = states;
        nfa->state_capacity = capacity;
    }
    nfa->first_edges[nfa->state_count] = NFA_NONE;
    return nfa->state_count++;
}

void nfa_add_edge(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target) {
    nfa->is_over_limit =
        nfa->is_over_limit || nfa->edge_count / 16 > nfa->state_limit || !compile_work_spend(1);
    if (nfa->is_over_limit || nfa->is_out_of_memory) {
        return;
    }
    if (nfa->edge_count == nfa->edge_capacity) {
        uint32_t capacity = nfa->edge_capacity == 0 ? 128 : 2 * nfa->edge_capacity;
        struct nfa_edge *edges = realloc(nfa->edges, capacity * sizeof *edges);
        if (edges == NULL) {
            nfa->is_out_of_memory = true;
            return;
        }
        nfa->edges = edges;
        nfa->edge_capacity = capacity;
    }
    nfa->edges[nfa->edge_count] = (struct nfa_edge){first, last, target, nfa->first_edges[from]};
    nfa->first_edges[from] = nfa->edge_count++;
}

void nfa_add_empty(struct nfa *nfa, uint32_t from, uint32_t target) {
    nfa_add_edge(nfa, from, NFA_EMPTY, NFA_EMPTY, target);
}

uint32_t nfa_add_range(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last) {
    uint32_t target = nfa_add_state(nfa);
    nfa_add_edge(nfa, from, first, last, target);
    return target;
}

uint32_t nfa_add_bytes(struct nfa *nfa, uint32_t from, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && !nfa->is_over_limit; i++) {
        from = nfa_add_range(nfa, from, (unsigned char)bytes[i], (unsigned char)bytes[i]);
    }
    return from;
}

uint32_t nfa_add_text(struct nfa *nfa, uint32_t from, const char *text) {
    return nfa_add_bytes(nfa, from, text, strlen(text));
}

uint32_t nfa_add_repeat(struct nfa *nfa, uint32_t from, nfa_builder *build, const void *context,
                        uint32_t minimum, uint32_t maximum) {
    bool is_bounded = maximum != UINT32_MAX;
    if (minimum > NFA_REPEAT_MAX || (is_bounded && maximum > NFA_REPEAT_MAX)) {
        nfa->is_over_limit = true;
        return 0;
    }
    for (uint32_t i = 0; i < minimum && !nfa->is_over_limit; i++) {
        from = build(nfa, from, context);
    }
    uint32_t end = nfa_add_state(nfa);
    if (!is_bounded) {
        uint32_t loop = nfa_add_state(nfa);
        nfa_add_empty(nfa, from, loop);
        nfa_add_empty(nfa, build(nfa, loop, context), loop);
        nfa_add_empty(nfa, loop, end);
        return end;
    }
    for (uint32_t i = minimum; i < maximum && !nfa->is_over_limit; i++) {
        nfa_add_empty(nfa, from, end);
        from = build(nfa, from, context);
    }
    nfa_add_empty(nfa, from, end);
    return end;
}
