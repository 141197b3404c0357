/*
 * From rules to a grammar: calls of nullable rules get a way around them, each rule is made deterministic,
 * what cannot be completed is cut away, rules are ranked by who calls whom first, and all is laid out in
 * arrays.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/compile_work.h"
#include "text/grammar/grammar_builder.h"

/* Whether the rule's end can be reached without reading, given the rules that are known to be nullable. */
static bool is_end_reachable(const struct grammar_builder *builder, const struct grammar_builder_rule *rule,
                             bool *is_marked, uint32_t *stack) {
    const struct nfa *nfa = &rule->nfa;
    uint32_t depth = 0;
    memset(is_marked, 0, nfa->state_count * sizeof *is_marked);
    stack[depth++] = 0;
    is_marked[0] = true;
    while (depth > 0) {
        uint32_t state = stack[--depth];
        for (uint32_t e = nfa->first_edges[state]; e != NFA_NONE; e = nfa->edges[e].next) {
            const struct nfa_edge *edge = &nfa->edges[e];
            bool is_call = edge->first >= SYMBOL_CALL && edge->first < NFA_EMPTY;
            bool is_skippable = edge->first == NFA_EMPTY ||
                                (is_call && builder->rules[edge->first - SYMBOL_CALL]->is_nullable);
            if (is_skippable && !is_marked[edge->target]) {
                is_marked[edge->target] = true;
                stack[depth++] = edge->target;
            }
        }
    }
    return is_marked[rule->end];
}

static void add_ways_around(const struct grammar_builder *builder, struct nfa *nfa) {
    for (uint32_t s = 0; s < nfa->state_count; s++) {
        for (uint32_t e = nfa->first_edges[s]; e != NFA_NONE; e = nfa->edges[e].next) {
            uint32_t symbol = nfa->edges[e].first;
            if (symbol >= SYMBOL_CALL && symbol < NFA_EMPTY &&
                builder->rules[symbol - SYMBOL_CALL]->is_nullable) {
                nfa_add_empty(nfa, s, nfa->edges[e].target);
            }
        }
    }
}

/*
 * Learns something of a rule that follows from what is known of the rules it calls; true if that is news.
 * is_marked and stack: room for all its states.
 */
typedef bool (*learn_rule)(const struct grammar_builder *builder, struct grammar_builder_rule *rule,
                           bool *is_marked, uint32_t *stack);

static bool learn_once(const struct grammar_builder *builder, learn_rule learn, bool *is_marked,
                       uint32_t *stack) {
    bool is_changed = false;
    for (uint32_t i = builder->rule_count; i-- > 0;) {
        const struct grammar_builder_rule *rule = builder->rules[i];
        if (!compile_work_spend(rule->nfa.state_count + rule->dfa.state_count)) {
            return false;
        }
        is_changed = learn(builder, builder->rules[i], is_marked, stack) || is_changed;
    }
    return is_changed;
}

/* Until there is nothing more to learn. */
static enum status learn_all(const struct grammar_builder *builder, learn_rule learn) {
    uint32_t largest = 1;
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        const struct grammar_builder_rule *rule = builder->rules[i];
        largest = rule->nfa.state_count > largest ? rule->nfa.state_count : largest;
        largest = rule->dfa.state_count > largest ? rule->dfa.state_count : largest;
    }
    bool *is_marked = malloc(largest * sizeof *is_marked);
    uint32_t *stack = malloc(largest * sizeof *stack);
    bool has_memory = is_marked != NULL && stack != NULL;
    while (has_memory && learn_once(builder, learn, is_marked, stack)) {
    }
    free(is_marked);
    free(stack);
    CHECK(has_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK(compile_work_spend(0), STATUS_UNSUPPORTED, "the rules call each other too often");
    return STATUS_OK;
}

static bool learn_nullable(const struct grammar_builder *builder, struct grammar_builder_rule *rule,
                           bool *is_marked, uint32_t *stack) {
    bool is_news = !rule->is_nullable && is_end_reachable(builder, rule, is_marked, stack);
    rule->is_nullable = rule->is_nullable || is_news;
    return is_news;
}

static enum status find_nullable(const struct grammar_builder *builder) {
    TRY(learn_all(builder, learn_nullable));
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        add_ways_around(builder, &builder->rules[i]->nfa);
    }
    return STATUS_OK;
}

static enum status determinize_rules(struct grammar_builder *builder, const char *what) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        struct grammar_builder_rule *rule = builder->rules[i];
        TRY(nfa_check(&rule->nfa, what));
        TRY(dfa_determinize(&rule->nfa, 0, rule->end, GRAMMAR_STATES_MAX, what, &rule->dfa));
        nfa_deinit(&rule->nfa);
        total += rule->dfa.state_count;
        CHECK(total <= GRAMMAR_STATES_MAX, STATUS_UNSUPPORTED,
              "%s is too large: it needs more than %d states; lower its counts or simplify it", what,
              (int)GRAMMAR_STATES_MAX);
    }
    return STATUS_OK;
}

static bool is_dead_call(const struct grammar_builder *builder, const struct dfa_edge *edge) {
    return edge->first >= SYMBOL_CALL && !builder->rules[edge->first - SYMBOL_CALL]->is_productive;
}

/* Whether the rule's end is reachable by calls of rules that can be completed. `marks`: room for all states.
 */
static bool is_rule_productive(const struct grammar_builder *builder, const struct dfa *dfa, bool *is_marked,
                               uint32_t *stack) {
    uint32_t depth = 0;
    if (dfa->state_count == 0) {
        return false;
    }
    memset(is_marked, 0, dfa->state_count * sizeof *is_marked);
    stack[depth++] = 0;
    is_marked[0] = true;
    while (depth > 0) {
        uint32_t state = stack[--depth];
        if (dfa->is_accepting[state]) {
            return true;
        }
        for (uint32_t e = dfa->edge_offsets[state]; e < dfa->edge_offsets[state + 1]; e++) {
            uint32_t target = dfa->edges[e].target;
            if (!is_dead_call(builder, &dfa->edges[e]) && !is_marked[target]) {
                is_marked[target] = true;
                stack[depth++] = target;
            }
        }
    }
    return false;
}

/* Takes calls of rules that accept nothing out of the edges. */
static void drop_dead_calls(const struct grammar_builder *builder, struct dfa *dfa) {
    uint32_t count = 0;
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        uint32_t first = dfa->edge_offsets[s];
        dfa->edge_offsets[s] = count;
        for (uint32_t e = first; e < dfa->edge_offsets[s + 1]; e++) {
            if (!is_dead_call(builder, &dfa->edges[e])) {
                dfa->edges[count++] = dfa->edges[e];
            }
        }
    }
    if (dfa->state_count > 0) {
        dfa->edge_offsets[dfa->state_count] = count;
    }
}

static bool learn_productive(const struct grammar_builder *builder, struct grammar_builder_rule *rule,
                             bool *is_marked, uint32_t *stack) {
    bool is_news = !rule->is_productive && is_rule_productive(builder, &rule->dfa, is_marked, stack);
    rule->is_productive = rule->is_productive || is_news;
    return is_news;
}

static enum status cut_dead_ends(const struct grammar_builder *builder) {
    TRY(learn_all(builder, learn_productive));
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        drop_dead_calls(builder, &builder->rules[i]->dfa);
        TRY(dfa_trim(&builder->rules[i]->dfa));
    }
    return STATUS_OK;
}

/* The rules that the start calls, each once: room for all rules. Returns how many. */
static uint32_t find_first_calls(const struct dfa *dfa, uint32_t *out) {
    uint32_t count = 0;
    if (dfa->state_count == 0) {
        return 0;
    }
    for (uint32_t e = dfa->edge_offsets[0]; e < dfa->edge_offsets[1]; e++) {
        if (dfa->edges[e].first >= SYMBOL_CALL) {
            out[count++] = dfa->edges[e].first - SYMBOL_CALL;
        }
    }
    return count;
}

/*
 * Ranks the rules so that who is called first comes after its callers: rules that no unranked rule calls are
 * ranked next. What is left over calls itself.
 */
static enum status rank_rules(const struct grammar_builder *builder, struct grammar *grammar,
                              const char *what) {
    enum status status = STATUS_OK;
    uint32_t count = builder->rule_count;
    uint32_t *caller_counts = calloc(count, sizeof *caller_counts);
    uint32_t *order = malloc(count * sizeof *order);
    uint32_t *called = malloc(count * sizeof *called);
    CHECK_MEMORY_GOTO(caller_counts != NULL && order != NULL ? called : NULL);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t called_count = find_first_calls(&builder->rules[i]->dfa, called);
        for (uint32_t j = 0; j < called_count; j++) {
            caller_counts[called[j]]++;
        }
    }
    uint32_t ranked = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (caller_counts[i] == 0) {
            order[ranked++] = i;
        }
    }
    for (uint32_t next = 0; next < ranked; next++) {
        grammar->rules[order[next]].rank = next;
        uint32_t called_count = find_first_calls(&builder->rules[order[next]]->dfa, called);
        for (uint32_t j = 0; j < called_count; j++) {
            if (--caller_counts[called[j]] == 0) {
                order[ranked++] = called[j];
            }
        }
    }
    for (uint32_t i = 0; i < count && ranked < count; i++) {
        CHECK_GOTO(caller_counts[i] == 0, STATUS_UNSUPPORTED,
                   "%s is left recursive: %s calls itself, directly or through others, before it reads "
                   "anything; put something in front of the call",
                   what, builder->rules[i]->name);
    }
fail:
    free(caller_counts);
    free(order);
    free(called);
    return status;
}

static void lay_out_state(struct grammar *grammar, const struct dfa *dfa, uint32_t state, uint32_t base) {
    struct grammar_state *out = &grammar->states[base + state];
    out->edge_offset = grammar->edge_count;
    out->call_offset = grammar->call_count;
    for (uint32_t e = dfa->edge_offsets[state]; e < dfa->edge_offsets[state + 1]; e++) {
        const struct dfa_edge *edge = &dfa->edges[e];
        uint32_t target = base + edge->target;
        if (edge->first >= SYMBOL_CALL) {
            grammar->calls[grammar->call_count++] = (struct grammar_call){edge->first - SYMBOL_CALL, target};
            continue;
        }
        uint32_t shift = edge->first >= SYMBOL_CONTROL ? SYMBOL_CONTROL - GRAMMAR_BYTES : 0;
        grammar->has_controls = grammar->has_controls || shift > 0;
        grammar->edges[grammar->edge_count++] =
            (struct grammar_edge){(uint16_t)(edge->first - shift), (uint16_t)(edge->last - shift), target};
    }
    out->edge_count = grammar->edge_count - out->edge_offset;
    out->call_count = grammar->call_count - out->call_offset;
    out->is_accepting = dfa->is_accepting[state];
    out->is_last = out->is_accepting && out->edge_count == 0 && out->call_count == 0;
}

static void find_outer_states(struct grammar *grammar, uint32_t root_state_count) {
    for (uint32_t i = 0; i < grammar->call_count; i++) {
        if (grammar->calls[i].rule == grammar->root) {
            return;
        }
    }
    grammar->outer_first = grammar->rules[grammar->root].start;
    grammar->outer_end = grammar->outer_first + root_state_count;
}

static enum status lay_out(const struct grammar_builder *builder, uint32_t root, const char *what,
                           struct grammar *grammar) {
    size_t state_count = 1;
    size_t edge_count = 1;
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        const struct dfa *dfa = &builder->rules[i]->dfa;
        state_count += dfa->state_count;
        edge_count += dfa->state_count > 0 ? dfa->edge_offsets[dfa->state_count] : 0;
    }
    grammar->states = calloc(state_count, sizeof *grammar->states);
    grammar->edges = calloc(edge_count, sizeof *grammar->edges);
    grammar->calls = calloc(edge_count, sizeof *grammar->calls);
    grammar->rules = calloc(builder->rule_count, sizeof *grammar->rules);
    bool has_memory = grammar->states != NULL && grammar->edges != NULL && grammar->calls != NULL;
    CHECK_MEMORY(has_memory ? grammar->rules : NULL);
    grammar->rule_count = builder->rule_count;
    grammar->root = root;
    grammar->state_count = 1;
    for (uint32_t i = 0; i < builder->rule_count; i++) {
        const struct dfa *dfa = &builder->rules[i]->dfa;
        grammar->rules[i].start = grammar->state_count;
        for (uint32_t s = 0; s < dfa->state_count; s++) {
            lay_out_state(grammar, dfa, s, grammar->state_count);
        }
        grammar->state_count += dfa->state_count;
    }
    grammar->accepts_empty = builder->rules[root]->is_nullable;
    find_outer_states(grammar, builder->rules[root]->dfa.state_count);
    return rank_rules(builder, grammar, what);
}

enum status grammar_builder_finish(struct grammar_builder *builder, uint32_t root, const char *what,
                                   struct grammar **out) {
    *out = NULL;
    CHECK(!builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK(!grammar_builder_is_over(builder), STATUS_UNSUPPORTED,
          "%s is too large: it needs more than %d states; lower its counts or simplify it", what,
          (int)GRAMMAR_STATES_MAX);
    TRY(find_nullable(builder));
    TRY(determinize_rules(builder, what));
    TRY(cut_dead_ends(builder));
    CHECK(builder->rules[root]->is_productive, STATUS_UNSUPPORTED,
          "%s can be met by no text at all; check for requirements that exclude each other", what);
    struct grammar *grammar = calloc(1, sizeof *grammar);
    CHECK_MEMORY(grammar);
    enum status status = lay_out(builder, root, what, grammar);
    if (status != STATUS_OK) {
        grammar_destroy(&grammar);
        return error_forward(status, ERROR_HERE);
    }
    *out = grammar;
    return STATUS_OK;
}

void grammar_destroy(struct grammar **grammar) {
    if (*grammar != NULL) {
        free((*grammar)->states);
        free((*grammar)->edges);
        free((*grammar)->calls);
        free((*grammar)->rules);
        free(*grammar);
        *grammar = NULL;
    }
}

size_t grammar_bytes(const struct grammar *grammar) {
    return sizeof *grammar + grammar->state_count * sizeof *grammar->states +
           grammar->edge_count * sizeof *grammar->edges + grammar->call_count * sizeof *grammar->calls +
           grammar->rule_count * sizeof *grammar->rules;
}
