/*
 * A range is cut where forms change their length and where a leading byte has only some of its continuations;
 * what is left are sequences of byte ranges.
 */
#include "text/grammar/utf8_symbols.h"

#include <stdlib.h>

#include "text/utf8.h"

/* Both ends have forms of one length, and differ in a suffix that runs through all its values, or not at all.
 */
static void add_sequence(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target) {
    char first_bytes[UTF8_CHARACTER_BYTES_MAX];
    char last_bytes[UTF8_CHARACTER_BYTES_MAX];
    size_t length = utf8_encode(first, first_bytes);
    utf8_encode(last, last_bytes);
    for (size_t i = 0; i < length; i++) {
        uint32_t next = i + 1 == length ? target : nfa_add_state(nfa);
        nfa_add_edge(nfa, from, (unsigned char)first_bytes[i], (unsigned char)last_bytes[i], next);
        from = next;
    }
}

/* Cuts until the range is one sequence. Depth: two per continuation byte. */
static void add_cut(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target) {
    static const uint32_t length_ends[] = {0x7F, 0x7FF, 0xD7FF, 0xDFFF, 0xFFFF};
    for (size_t i = 0; i < sizeof length_ends / sizeof *length_ends; i++) {
        if (first <= length_ends[i] && last > length_ends[i]) {
            add_cut(nfa, from, first, length_ends[i], target);
            add_cut(nfa, from, length_ends[i] + 1, last, target);
            return;
        }
    }
    if (first >= 0xD800 && last <= 0xDFFF) {
        return;
    }
    for (int bits = 6; bits <= 18 && last >= 0x80; bits += 6) {
        uint32_t mask = (UINT32_C(1) << bits) - 1;
        if ((first & ~mask) == (last & ~mask)) {
            continue;
        }
        if ((first & mask) != 0) {
            add_cut(nfa, from, first, first | mask, target);
            add_cut(nfa, from, (first | mask) + 1, last, target);
            return;
        }
        if ((last & mask) != mask) {
            add_cut(nfa, from, first, (last & ~mask) - 1, target);
            add_cut(nfa, from, last & ~mask, last, target);
            return;
        }
    }
    add_sequence(nfa, from, first, last, target);
}

void utf8_symbols_add(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target) {
    add_cut(nfa, from, first, last, target);
}

static void add_text_to(struct nfa *nfa, uint32_t from, const char *text, uint32_t target) {
    nfa_add_empty(nfa, nfa_add_text(nfa, from, text), target);
}

/* A control character without a letter of its own: \u00xx in lower case. */
static void add_hex_escape(struct nfa *nfa, uint32_t from, uint32_t code_point, uint32_t target) {
    const char digits[] = "0123456789abcdef";
    char text[] = "\\u00xx";
    text[4] = digits[code_point >> 4];
    text[5] = digits[code_point & 15];
    add_text_to(nfa, from, text, target);
}

static void add_escape(struct nfa *nfa, uint32_t from, uint32_t code_point, uint32_t target) {
    static const struct {
        uint32_t code_point;
        const char *escape;
    } letters[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                   {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].code_point == code_point) {
            add_text_to(nfa, from, letters[i].escape, target);
            return;
        }
    }
    add_hex_escape(nfa, from, code_point, target);
}

void utf8_symbols_add_json(struct nfa *nfa, uint32_t from, uint32_t first, uint32_t last, uint32_t target) {
    for (; first <= last && first < 0x20; first++) {
        add_escape(nfa, from, first, target);
    }
    static const uint32_t escaped[] = {'"', '\\'};
    for (size_t i = 0; i < sizeof escaped / sizeof *escaped && first <= last; i++) {
        if (first > escaped[i] || last < escaped[i]) {
            continue;
        }
        if (first < escaped[i]) {
            add_cut(nfa, from, first, escaped[i] - 1, target);
        }
        add_escape(nfa, from, escaped[i], target);
        first = escaped[i] + 1;
    }
    if (first <= last) {
        add_cut(nfa, from, first, last, target);
    }
}

uint32_t utf8_symbols_add_dfa(struct nfa *nfa, uint32_t from, const struct dfa *dfa,
                              utf8_symbols_adder *add) {
    uint32_t end = nfa_add_state(nfa);
    uint32_t *states = malloc((dfa->state_count + 1) * sizeof *states);
    if (states == NULL) {
        nfa->is_out_of_memory = true;
        return end;
    }
    for (uint32_t s = 0; s < dfa->state_count; s++) {
        states[s] = nfa_add_state(nfa);
    }
    for (uint32_t s = 0; s < dfa->state_count && !nfa->is_over_limit; s++) {
        if (dfa->is_accepting[s]) {
            nfa_add_empty(nfa, states[s], end);
        }
        for (uint32_t i = dfa->edge_offsets[s]; i < dfa->edge_offsets[s + 1]; i++) {
            add(nfa, states[s], dfa->edges[i].first, dfa->edges[i].last, states[dfa->edges[i].target]);
        }
    }
    if (dfa->state_count > 0) {
        nfa_add_empty(nfa, from, states[0]);
    }
    free(states);
    return end;
}
