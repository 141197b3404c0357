/*
 * Grammars of requests: no crash and no endless work; a refusal says something; what was compiled can be
 * followed without ever getting stuck, and spells UTF-8.
 *
 * The first byte says what the rest is: o any object, s JSON Schema, r regular expression, c choices,
 * e rules, t tools.
 */
#include <stdint.h>
#include <string.h>

#include "text/grammar/grammar_automaton.h"
#include "text/grammar/grammar_source.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 150, CACHE_BYTES = 1 << 24 };

static void require(bool holds) {
    if (!holds) {
        __builtin_trap();
    }
}

static enum grammar_kind kind_of(uint8_t letter) {
    static const char letters[] = "osrcet";
    static const enum grammar_kind kinds[] = {GRAMMAR_JSON_OBJECT, GRAMMAR_JSON_SCHEMA, GRAMMAR_REGEX,
                                              GRAMMAR_CHOICE,      GRAMMAR_EBNF,        GRAMMAR_TOOLS};
    const char *at = letter == '\0' ? NULL : strchr(letters, letter);
    return at == NULL ? GRAMMAR_NONE : kinds[at - letters];
}

/* One of the symbols that may follow; GRAMMAR_SYMBOLS_MAX if none may. */
static uint32_t pick_symbol(struct grammar_automaton *automaton, uint32_t set, uint64_t *random_state) {
    uint32_t picked = GRAMMAR_SYMBOLS_MAX;
    uint32_t count = 0;
    for (uint32_t symbol = 0; symbol < GRAMMAR_SYMBOLS_MAX; symbol++) {
        if (grammar_automaton_step(automaton, set, symbol) != GRAMMAR_SET_DEAD) {
            *random_state = *random_state * 6364136223846793005u + 1442695040888963407u;
            count++;
            picked = (*random_state >> 33) % count == 0 ? symbol : picked;
        }
    }
    return picked;
}

static void follow(const struct grammar *grammar, uint64_t random_state) {
    struct grammar_automaton *automaton;
    char text[STEPS_MAX];
    size_t length = 0;
    if (grammar_automaton_create(grammar, NULL, CACHE_BYTES, &automaton) != STATUS_OK) {
        return;
    }
    uint32_t set = grammar_automaton_start(automaton);
    for (int i = 0; i < STEPS_MAX; i++) {
        require(set != GRAMMAR_SET_DEAD);
        uint32_t symbol = pick_symbol(automaton, set, &random_state);
        bool is_stuck = symbol == GRAMMAR_SYMBOLS_MAX;
        require(is_stuck == grammar_automaton_must_end(automaton, set));
        require(!is_stuck || grammar_automaton_may_end(automaton, set));
        if (is_stuck) {
            break;
        }
        if (symbol < GRAMMAR_BYTES) {
            text[length++] = (char)symbol;
        }
        set = grammar_automaton_step(automaton, set, symbol);
    }
    /* The last character may be a beginning. */
    size_t valid = utf8_valid_length(text, length);
    require(length - valid <= 3);
    require(valid == length || !grammar_automaton_may_end(automaton, set));
    grammar_automaton_destroy(&automaton);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct grammar *grammar;
    if (size == 0 || kind_of(data[0]) == GRAMMAR_NONE) {
        return 0;
    }
    struct grammar_source source = {
        .kind = kind_of(data[0]), .text = (const char *)data + 1, .length = size - 1};
    if (grammar_source_compile(&source, &grammar) != STATUS_OK) {
        require(error_last()->message[0] != '\0');
        return 0;
    }
    follow(grammar, size);
    grammar_destroy(&grammar);
    return 0;
}
