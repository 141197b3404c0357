/* Operations on finished automata; determinize.c makes them. */
#include "text/grammar/symbol_dfa.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/dfa_builder.h"

void dfa_deinit(struct dfa *dfa) {
    free(dfa->edge_offsets);
    free(dfa->edges);
    free(dfa->is_accepting);
    *dfa = (struct dfa){0};
}

uint32_t dfa_step(const struct dfa *dfa, uint32_t state, uint32_t symbol) {
    for (uint32_t i = dfa->edge_offsets[state]; i < dfa->edge_offsets[state + 1]; i++) {
        if (symbol >= dfa->edges[i].first && symbol <= dfa->edges[i].last) {
            return dfa->edges[i].target;
        }
    }
    return UINT32_MAX;
}

/* Marks what is reachable from the start. `stack` has room for all states. */
static void mark_reachable(const struct dfa *dfa, bool *is_marked, uint32_t *stack) {
    size_t depth = 0;
    is_marked[0] = true;
    stack[depth++] = 0;
    while (depth > 0) {
        uint32_t state = stack[--depth];
        for (uint32_t i = dfa->edge_offsets[state]; i < dfa->edge_offsets[state + 1]; i++) {
            uint32_t target = dfa->edges[i].target;
            if (!is_marked[target]) {
                is_marked[target] = true;
                stack[depth++] = target;
            }
        }
    }
}

/* Sources of the edges into each state, by counting. */
static bool reverse_edges(const struct dfa *dfa, uint32_t *offsets, uint32_t *sources) {
    uint32_t edge_count = dfa->edge_offsets[dfa->state_count];
    for (uint32_t i = 0; i < edge_count; i++) {
        offsets[dfa->edges[i].target + 1]++;
    }
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        offsets[s + 1] += offsets[s];
    }
    uint32_t *next = malloc((dfa->state_count + 1) * sizeof *next);
    if (next == NULL) {
        return false;
    }
    memcpy(next, offsets, dfa->state_count * sizeof *next);
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        for (uint32_t i = dfa->edge_offsets[s]; i < dfa->edge_offsets[s + 1]; i++) {
            sources[next[dfa->edges[i].target]++] = s;
        }
    }
    free(next);
    return true;
}

/* Marks what leads to an accepting state. */
static bool mark_useful(const struct dfa *dfa, bool *is_marked, uint32_t *stack) {
    uint32_t *offsets = calloc(dfa->state_count + 1, sizeof *offsets);
    uint32_t *sources = malloc((dfa->edge_offsets[dfa->state_count] + 1) * sizeof *sources);
    bool is_done = offsets != NULL && sources != NULL && reverse_edges(dfa, offsets, sources);
    size_t depth = 0;
    for (uint32_t s = 0; s < dfa->state_count && is_done; s++) {
        if (dfa->is_accepting[s]) {
            is_marked[s] = true;
            stack[depth++] = s;
        }
    }
    while (depth > 0) {
        uint32_t state = stack[--depth];
        for (uint32_t i = offsets[state]; i < offsets[state + 1]; i++) {
            if (!is_marked[sources[i]]) {
                is_marked[sources[i]] = true;
                stack[depth++] = sources[i];
            }
        }
    }
    free(offsets);
    free(sources);
    return is_done;
}

/* Moves what is kept to the front; `numbers` gives each state its new number or UINT32_MAX. */
static void compact(struct dfa *dfa, const uint32_t *numbers, uint32_t kept_count) {
    uint32_t edge_count = 0;
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        uint32_t first = dfa->edge_offsets[s];
        uint32_t end = dfa->edge_offsets[s + 1];
        if (numbers[s] == UINT32_MAX) {
            continue;
        }
        dfa->is_accepting[numbers[s]] = dfa->is_accepting[s];
        dfa->edge_offsets[numbers[s]] = edge_count;
        for (uint32_t i = first; i < end; i++) {
            struct dfa_edge edge = dfa->edges[i];
            if (numbers[edge.target] != UINT32_MAX) {
                edge.target = numbers[edge.target];
                dfa->edges[edge_count++] = edge;
            }
        }
    }
    dfa->edge_offsets[kept_count] = edge_count;
    dfa->state_count = kept_count;
}

enum status dfa_trim(struct dfa *dfa) {
    if (dfa->state_count == 0) {
        return STATUS_OK;
    }
    enum status status = STATUS_OK;
    bool *is_reachable = calloc(dfa->state_count, sizeof *is_reachable);
    bool *is_useful = calloc(dfa->state_count, sizeof *is_useful);
    uint32_t *numbers = malloc(dfa->state_count * sizeof *numbers);
    CHECK_MEMORY_GOTO(is_reachable != NULL && is_useful != NULL ? numbers : NULL);
    mark_reachable(dfa, is_reachable, numbers);
    bool is_done = mark_useful(dfa, is_useful, numbers);
    CHECK_GOTO(is_done, STATUS_OUT_OF_MEMORY, "out of memory");
    uint32_t kept_count = 0;
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        bool is_kept = is_reachable[s] && is_useful[s] && is_useful[0];
        numbers[s] = is_kept ? kept_count++ : UINT32_MAX;
    }
    compact(dfa, numbers, kept_count);
fail:
    free(is_reachable);
    free(is_useful);
    free(numbers);
    return status;
}

/* Adds the edges that both states have, to pairs. */
static void add_common_edges(struct dfa_builder *builder, const struct dfa *a, uint32_t a_state,
                             const struct dfa *b, uint32_t b_state) {
    for (uint32_t i = a->edge_offsets[a_state]; i < a->edge_offsets[a_state + 1]; i++) {
        const struct dfa_edge *left = &a->edges[i];
        for (uint32_t j = b->edge_offsets[b_state]; j < b->edge_offsets[b_state + 1]; j++) {
            const struct dfa_edge *right = &b->edges[j];
            uint32_t first = left->first > right->first ? left->first : right->first;
            uint32_t last = left->last < right->last ? left->last : right->last;
            if (first <= last) {
                const uint32_t pair[] = {left->target, right->target};
                dfa_builder_add_edge(builder, first, last, dfa_builder_find_state(builder, pair, 2));
            }
        }
    }
}

enum status dfa_intersect(const struct dfa *a, const struct dfa *b, uint32_t state_limit, const char *what,
                          struct dfa *out) {
    *out = (struct dfa){0};
    enum status status = STATUS_OK;
    struct dfa_builder builder;
    dfa_builder_init(&builder, state_limit);
    if (a->state_count > 0 && b->state_count > 0) {
        dfa_builder_find_state(&builder, (const uint32_t[]){0, 0}, 2);
    }
    for (uint32_t s = 0; s < builder.state_count && dfa_builder_is_good(&builder); s++) {
        uint32_t count;
        const uint32_t *members = dfa_builder_members(&builder, s, &count);
        const uint32_t pair[] = {members[0], members[1]};
        dfa_builder_open_state(&builder, a->is_accepting[pair[0]] && b->is_accepting[pair[1]]);
        add_common_edges(&builder, a, pair[0], b, pair[1]);
    }
    TRY_GOTO(dfa_builder_finish(&builder, what, out));
    TRY_GOTO(dfa_trim(out));
fail:
    dfa_builder_deinit(&builder);
    return status;
}

/* The edges of a state and, between them, ones to the sink. */
static void add_complete_edges(struct dfa_builder *builder, const struct dfa *dfa, uint32_t state,
                               uint32_t last_symbol) {
    uint32_t next = 0;
    const uint32_t sink = dfa->state_count;
    for (uint32_t i = dfa->edge_offsets[state]; i < dfa->edge_offsets[state + 1]; i++) {
        const struct dfa_edge *edge = &dfa->edges[i];
        if (edge->first > next) {
            dfa_builder_add_edge(builder, next, edge->first - 1, sink);
        }
        dfa_builder_add_edge(builder, edge->first, edge->last, edge->target);
        next = edge->last + 1;
    }
    if (next <= last_symbol) {
        dfa_builder_add_edge(builder, next, last_symbol, sink);
    }
}

enum status dfa_complement(const struct dfa *dfa, uint32_t last_symbol, struct dfa *out) {
    *out = (struct dfa){0};
    enum status status = STATUS_OK;
    struct dfa_builder builder;
    dfa_builder_init(&builder, UINT32_MAX);
    for (uint32_t s = 0; s <= dfa->state_count; s++) {
        dfa_builder_find_state(&builder, &s, 1);
    }
    for (uint32_t s = 0; s <= dfa->state_count && dfa_builder_is_good(&builder); s++) {
        bool is_sink = s == dfa->state_count;
        dfa_builder_open_state(&builder, is_sink || !dfa->is_accepting[s]);
        if (is_sink) {
            dfa_builder_add_edge(&builder, 0, last_symbol, s);
        } else {
            add_complete_edges(&builder, dfa, s, last_symbol);
        }
    }
    TRY_GOTO(dfa_builder_finish(&builder, "the complement", out));
    TRY_GOTO(dfa_trim(out));
fail:
    dfa_builder_deinit(&builder);
    return status;
}

enum status dfa_exclude(const struct dfa *all, const struct nfa *taken, uint32_t taken_end,
                        uint32_t state_limit, const char *what, struct dfa *out) {
    enum status status = STATUS_OK;
    struct dfa excluded = {0};
    struct dfa others = {0};
    TRY_GOTO(nfa_check(taken, what));
    TRY_GOTO(dfa_determinize(taken, 0, taken_end, state_limit, what, &excluded));
    TRY_GOTO(dfa_complement(&excluded, SYMBOL_CODE_POINTS - 1, &others));
    TRY_GOTO(dfa_intersect(all, &others, state_limit, what, out));
fail:
    dfa_deinit(&excluded);
    dfa_deinit(&others);
    return status;
}
