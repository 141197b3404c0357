/*
 * Subset construction. Of a set only the states that matter are kept: those with symbols, those that ask for
 * the text's end, and the end itself.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/compile_work.h"
#include "text/grammar/dfa_builder.h"

/* Visits of edges: about a second. */
enum { WORK_MAX = 100000000 };

struct determinizer {
    const struct nfa *nfa;
    uint32_t end;
    struct dfa_builder builder;
    uint32_t *marks; /* by state: the closure that reached it last */
    uint32_t mark;
    uint32_t *stack, *set; /* room for all states */
    uint32_t *sources;     /* the members of the state being opened */
    struct nfa_edge *edges;
    uint32_t *bounds; /* where ranges begin, or others end */
    uint32_t edge_capacity;
    size_t work;
};

static int compare_numbers(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void push(struct determinizer *d, uint32_t state, uint32_t *depth) {
    if (d->marks[state] != d->mark) {
        d->marks[state] = d->mark;
        d->stack[(*depth)++] = state;
    }
}

/* Whether the state has a place of its own in a set. */
static bool is_significant(const struct determinizer *d, uint32_t state) {
    if (state == d->end) {
        return true;
    }
    for (uint32_t e = d->nfa->first_edges[state]; e != NFA_NONE; e = d->nfa->edges[e].next) {
        if (d->nfa->edges[e].first != NFA_EMPTY && d->nfa->edges[e].first != NFA_AT_START) {
            return true;
        }
    }
    return false;
}

/* Follows empty edges from what `stack` holds, `depth` states; returns the size of `set`, sorted. */
static uint32_t close_set(struct determinizer *d, uint32_t depth, bool is_at_start, bool is_at_end) {
    uint32_t count = 0;
    while (depth > 0) {
        uint32_t state = d->stack[--depth];
        if (is_significant(d, state)) {
            d->set[count++] = state;
        }
        for (uint32_t e = d->nfa->first_edges[state]; e != NFA_NONE; e = d->nfa->edges[e].next) {
            const struct nfa_edge *edge = &d->nfa->edges[e];
            d->work++;
            if (edge->first == NFA_EMPTY || (edge->first == NFA_AT_START && is_at_start) ||
                (edge->first == NFA_AT_END && is_at_end)) {
                push(d, edge->target, &depth);
            }
        }
    }
    qsort(d->set, count, sizeof *d->set, compare_numbers);
    return count;
}

/* Whether the text may end in the set `sources`. */
static bool is_set_accepting(struct determinizer *d, uint32_t count) {
    uint32_t depth = 0;
    d->mark++;
    for (uint32_t i = 0; i < count; i++) {
        push(d, d->sources[i], &depth);
    }
    close_set(d, depth, false, true);
    return d->marks[d->end] == d->mark;
}

static bool reserve_edges(struct determinizer *d, uint32_t count) {
    if (count <= d->edge_capacity) {
        return true;
    }
    uint32_t capacity = 2 * count;
    struct nfa_edge *edges = realloc(d->edges, capacity * sizeof *edges);
    d->edges = edges != NULL ? edges : d->edges;
    uint32_t *bounds = realloc(d->bounds, 2 * capacity * sizeof *bounds);
    d->bounds = bounds != NULL ? bounds : d->bounds;
    d->edge_capacity = edges != NULL && bounds != NULL ? capacity : d->edge_capacity;
    return d->edge_capacity == capacity;
}

/* The edges with symbols of `sources`; UINT32_MAX if memory is out. */
static uint32_t collect_edges(struct determinizer *d, uint32_t source_count) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < source_count; i++) {
        for (uint32_t e = d->nfa->first_edges[d->sources[i]]; e != NFA_NONE; e = d->nfa->edges[e].next) {
            if (d->nfa->edges[e].first < NFA_EMPTY) {
                if (!reserve_edges(d, count + 1)) {
                    return UINT32_MAX;
                }
                d->edges[count++] = d->nfa->edges[e];
            }
        }
    }
    return count;
}

static uint32_t collect_bounds(struct determinizer *d, uint32_t edge_count) {
    for (uint32_t i = 0; i < edge_count; i++) {
        d->bounds[2 * i] = d->edges[i].first;
        d->bounds[2 * i + 1] = d->edges[i].last + 1;
    }
    qsort(d->bounds, 2 * (size_t)edge_count, sizeof *d->bounds, compare_numbers);
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2 * edge_count; i++) {
        if (count == 0 || d->bounds[count - 1] != d->bounds[i]) {
            d->bounds[count++] = d->bounds[i];
        }
    }
    return count;
}

/* The targets of all edges with the symbols from a bound to the next one. */
static void add_interval(struct determinizer *d, uint32_t edge_count, uint32_t first, uint32_t last) {
    uint32_t depth = 0;
    d->mark++;
    d->work += edge_count;
    for (uint32_t i = 0; i < edge_count; i++) {
        if (d->edges[i].first <= first && d->edges[i].last >= last) {
            push(d, d->edges[i].target, &depth);
        }
    }
    if (depth > 0) {
        uint32_t count = close_set(d, depth, false, false);
        dfa_builder_add_edge(&d->builder, first, last, dfa_builder_find_state(&d->builder, d->set, count));
    }
}

static void open_state(struct determinizer *d, uint32_t state) {
    uint32_t count;
    const uint32_t *members = dfa_builder_members(&d->builder, state, &count);
    size_t work_before = d->work;
    memcpy(d->sources, members, count * sizeof *members);
    dfa_builder_open_state(&d->builder, is_set_accepting(d, count));
    uint32_t edge_count = collect_edges(d, count);
    if (edge_count == UINT32_MAX) {
        d->builder.is_out_of_memory = true;
        return;
    }
    uint32_t bound_count = edge_count == 0 ? 0 : collect_bounds(d, edge_count);
    for (uint32_t i = 0; i + 1 < bound_count; i++) {
        add_interval(d, edge_count, d->bounds[i], d->bounds[i + 1] - 1);
    }
    bool is_within = compile_work_spend(d->work - work_before) && d->work <= WORK_MAX;
    d->builder.is_over_limit = d->builder.is_over_limit || !is_within;
}

enum status dfa_determinize(const struct nfa *nfa, uint32_t start, uint32_t end, uint32_t state_limit,
                            const char *what, struct dfa *out) {
    *out = (struct dfa){0};
    enum status status = STATUS_OK;
    struct determinizer d = {.nfa = nfa, .end = end};
    uint32_t depth = 0;
    dfa_builder_init(&d.builder, state_limit);
    d.marks = calloc(nfa->state_count, sizeof *d.marks);
    d.stack = malloc(nfa->state_count * sizeof *d.stack);
    d.set = malloc(nfa->state_count * sizeof *d.set);
    d.sources = malloc(nfa->state_count * sizeof *d.sources);
    CHECK_MEMORY_GOTO(d.marks != NULL && d.stack != NULL && d.set != NULL ? d.sources : NULL);
    d.mark = 1;
    push(&d, start, &depth);
    uint32_t count = close_set(&d, depth, true, false);
    dfa_builder_find_state(&d.builder, d.set, count);
    for (uint32_t s = 0; s < d.builder.state_count && dfa_builder_is_good(&d.builder); s++) {
        open_state(&d, s);
    }
    TRY_GOTO(dfa_builder_finish(&d.builder, what, out));
    TRY_GOTO(dfa_trim(out));
fail:
    dfa_builder_deinit(&d.builder);
    free(d.marks);
    free(d.stack);
    free(d.set);
    free(d.sources);
    free(d.edges);
    free(d.bounds);
    return status;
}
