/*
 * A number is followed together with both bounds: as long as its digits are those of a bound, the next digit
 * is limited by the bound's next one; once they differ, it is not any more. So a state is the place in the
 * digits and whether the lower and the upper bound still hold it.
 */
#include "text/grammar/json_number.h"

#include <stdlib.h>
#include <string.h>

static int digit_at(const char *digits, size_t index) {
    return index < strlen(digits) ? digits[index] - '0' : 0;
}

/* Drops leading zeros of the integer part and trailing ones of the fraction. */
static void trim_zeros(struct number_bound *bound) {
    size_t zeros = strspn(bound->integer, "0");
    memmove(bound->integer, bound->integer + zeros, strlen(bound->integer + zeros) + 1);
    if (bound->integer[0] == '\0') {
        strcpy(bound->integer, "0");
    }
    for (size_t length = strlen(bound->fraction); length > 0 && bound->fraction[length - 1] == '0';
         length--) {
        bound->fraction[length - 1] = '\0';
    }
    bool is_zero = strcmp(bound->integer, "0") == 0 && bound->fraction[0] == '\0';
    bound->is_negative = bound->is_negative && !is_zero;
}

/* Splits digits at the point; `point` counts from their start and may lie outside. */
static bool place_point(const char *digits, long point, struct number_bound *out) {
    long length = (long)strlen(digits);
    long integer_length = point > 0 ? point : 0;
    long fraction_length = length > point ? length - point : 0;
    if (integer_length > NUMBER_DIGITS_MAX || fraction_length > NUMBER_DIGITS_MAX) {
        return false;
    }
    for (long i = 0; i < integer_length; i++) {
        out->integer[i] = i < length ? digits[i] : '0';
    }
    for (long i = 0; i < fraction_length; i++) {
        long place = point + i;
        out->fraction[i] = place >= 0 && place < length ? digits[place] : '0';
    }
    trim_zeros(out);
    return true;
}

bool number_bound_read(const struct json *value, bool is_exclusive, struct number_bound *out) {
    struct string_buffer text = {0};
    char digits[NUMBER_DIGITS_MAX + 1];
    size_t count = 0;
    bool has_point = false;
    long point = 0;
    *out = (struct number_bound){.is_given = true, .is_exclusive = is_exclusive};
    bool is_read = json_write(value, &text) == STATUS_OK;
    const char *at = string_buffer_text(&text);
    out->is_negative = *at == '-';
    at += out->is_negative;
    for (; is_read && ((*at >= '0' && *at <= '9') || *at == '.'); at++) {
        if (*at == '.') {
            has_point = true;
            point = (long)count;
        } else if (count == NUMBER_DIGITS_MAX) {
            is_read = false;
        } else {
            digits[count++] = *at;
        }
    }
    digits[count] = '\0';
    point = has_point ? point : (long)count;
    if (*at == 'e' || *at == 'E') {
        point += strtol(at + 1, NULL, 10);
    }
    string_buffer_deinit(&text);
    return is_read && count > 0 && place_point(digits, point, out);
}

static int compare_magnitudes(const struct number_bound *a, const struct number_bound *b) {
    size_t a_length = strlen(a->integer);
    size_t b_length = strlen(b->integer);
    if (a_length != b_length) {
        return a_length < b_length ? -1 : 1;
    }
    int order = strcmp(a->integer, b->integer);
    return order != 0 ? order : strcmp(a->fraction, b->fraction);
}

static int compare_values(const struct number_bound *a, const struct number_bound *b) {
    if (a->is_negative != b->is_negative) {
        return a->is_negative ? -1 : 1;
    }
    int order = compare_magnitudes(a, b);
    return a->is_negative ? -order : order;
}

void number_bound_tighten(struct number_bound *bound, const struct number_bound *other, bool is_lower) {
    if (!other->is_given) {
        return;
    }
    int order = bound->is_given ? compare_values(other, bound) : 0;
    bool is_tighter = is_lower ? order > 0 : order < 0;
    if (!bound->is_given || is_tighter || (order == 0 && other->is_exclusive)) {
        *bound = *other;
    }
}

bool number_range_contains(const struct number_range *range, const struct number_bound *value) {
    int lower = range->lower.is_given ? compare_values(value, &range->lower) : 1;
    int upper = range->upper.is_given ? compare_values(value, &range->upper) : -1;
    return (lower > 0 || (lower == 0 && !range->lower.is_exclusive)) &&
           (upper < 0 || (upper == 0 && !range->upper.is_exclusive));
}

/* The numbers without sign from `lower` to `upper`. */
struct magnitudes {
    struct nfa *nfa;
    const struct number_bound *lower, *upper; /* upper may be NULL */
    bool is_integer;
    uint32_t end;
};

/* Which bounds the digits so far are equal to. */
enum { HELD_BY_LOWER = 1, HELD_BY_UPPER = 2, HELD_COUNT = 4 };

/* What a digit may be in a state, and the states it leads to: `targets` by what holds the number then. */
static void add_digits(const struct magnitudes *m, uint32_t from, int held, int least, int lower_digit,
                       int upper_digit, const uint32_t targets[HELD_COUNT]) {
    for (int digit = least; digit <= 9; digit++) {
        bool is_below = (held & HELD_BY_LOWER) != 0 && digit < lower_digit;
        bool is_above = (held & HELD_BY_UPPER) != 0 && digit > upper_digit;
        if (is_below || is_above) {
            continue;
        }
        int next = (held & HELD_BY_LOWER) != 0 && digit == lower_digit ? HELD_BY_LOWER : 0;
        next |= (held & HELD_BY_UPPER) != 0 && digit == upper_digit ? HELD_BY_UPPER : 0;
        nfa_add_edge(m->nfa, from, (uint32_t)('0' + digit), (uint32_t)('0' + digit), targets[next]);
    }
}

static void add_states(struct nfa *nfa, uint32_t states[HELD_COUNT]) {
    for (int held = 0; held < HELD_COUNT; held++) {
        states[held] = nfa_add_state(nfa);
    }
}

/* Whether the number may end after `read` digits of its fraction. */
static bool may_end(const struct magnitudes *m, size_t read, int held) {
    if ((held & HELD_BY_LOWER) != 0 && (strlen(m->lower->fraction) > read || m->lower->is_exclusive)) {
        return false;
    }
    bool is_held_above = (held & HELD_BY_UPPER) != 0 && m->upper != NULL;
    return !is_held_above || strlen(m->upper->fraction) > read || !m->upper->is_exclusive;
}

/* The fraction, if any, behind integer parts that end in `states`. */
static void add_fraction(const struct magnitudes *m, const uint32_t ends[HELD_COUNT]) {
    uint32_t states[HELD_COUNT];
    uint32_t targets[HELD_COUNT];
    size_t digit_count = strlen(m->lower->fraction);
    size_t upper_count = m->upper == NULL ? 0 : strlen(m->upper->fraction);
    digit_count = upper_count > digit_count ? upper_count : digit_count;
    add_states(m->nfa, states);
    for (int held = 0; held < HELD_COUNT; held++) {
        if (may_end(m, 0, held)) {
            nfa_add_empty(m->nfa, ends[held], m->end);
        }
        nfa_add_edge(m->nfa, ends[held], '.', '.', states[held]);
    }
    /* Behind all digits of the bounds more digits follow: a last round that leads to itself. */
    for (size_t i = 0; i <= digit_count && !m->is_integer; i++) {
        add_states(m->nfa, targets);
        for (int held = 0; held < HELD_COUNT; held++) {
            int upper_digit = m->upper == NULL ? 0 : digit_at(m->upper->fraction, i);
            add_digits(m, states[held], held, 0, digit_at(m->lower->fraction, i), upper_digit, targets);
            if (i == digit_count) {
                add_digits(m, targets[held], held, 0, 0, 0, targets);
            }
            if (may_end(m, i + 1, held)) {
                nfa_add_empty(m->nfa, targets[held], m->end);
            }
        }
        memcpy(states, targets, sizeof states);
    }
}

/* Integer parts of a number of digits, to `ends` by what holds them. */
static void add_integers(const struct magnitudes *m, uint32_t from, size_t length,
                         const uint32_t ends[HELD_COUNT]) {
    uint32_t states[HELD_COUNT];
    uint32_t targets[HELD_COUNT];
    int held = length == strlen(m->lower->integer) ? HELD_BY_LOWER : 0;
    held |= m->upper != NULL && length == strlen(m->upper->integer) ? HELD_BY_UPPER : 0;
    add_states(m->nfa, states);
    nfa_add_empty(m->nfa, from, states[held]);
    for (size_t i = 0; i < length; i++) {
        bool is_last = i + 1 == length;
        if (is_last) {
            memcpy(targets, ends, sizeof targets);
        } else {
            add_states(m->nfa, targets);
        }
        for (int h = 0; h < HELD_COUNT; h++) {
            int upper_digit = m->upper == NULL ? 0 : digit_at(m->upper->integer, i);
            add_digits(m, states[h], h, i == 0 && length > 1 ? 1 : 0, digit_at(m->lower->integer, i),
                       upper_digit, targets);
        }
        memcpy(states, targets, sizeof states);
    }
}

/* Integer parts with more digits than the lower bound, if there is no upper one. */
static void add_longer_integers(const struct magnitudes *m, uint32_t from, uint32_t end) {
    uint32_t state = nfa_add_range(m->nfa, from, '1', '9');
    for (size_t i = 0; i < strlen(m->lower->integer); i++) {
        state = nfa_add_range(m->nfa, state, '0', '9');
    }
    nfa_add_edge(m->nfa, state, '0', '9', state);
    nfa_add_empty(m->nfa, state, end);
}

static void add_magnitudes(const struct magnitudes *m, uint32_t from) {
    uint32_t ends[HELD_COUNT];
    size_t longest = strlen(m->upper == NULL ? m->lower->integer : m->upper->integer);
    add_states(m->nfa, ends);
    for (size_t length = strlen(m->lower->integer); length <= longest; length++) {
        add_integers(m, from, length, ends);
    }
    if (m->upper == NULL) {
        add_longer_integers(m, from, ends[0]);
    }
    add_fraction(m, ends);
}

static uint32_t add_bounded(struct nfa *nfa, uint32_t from, const struct number_range *range) {
    const struct number_bound zero = {.is_given = true, .integer = "0"};
    const struct number_bound above_zero = {.is_given = true, .is_exclusive = true, .integer = "0"};
    uint32_t end = nfa_add_state(nfa);
    const struct number_bound *lower = range->lower.is_given ? &range->lower : NULL;
    const struct number_bound *upper = range->upper.is_given ? &range->upper : NULL;
    if (upper == NULL || !upper->is_negative) {
        bool is_above = lower != NULL && !lower->is_negative;
        struct magnitudes m = {nfa, is_above ? lower : &zero, upper, range->is_integer, end};
        add_magnitudes(&m, from);
    }
    if (lower == NULL || lower->is_negative) {
        bool is_below = upper != NULL && upper->is_negative;
        struct magnitudes m = {nfa, is_below ? upper : &above_zero, lower, range->is_integer, end};
        add_magnitudes(&m, nfa_add_range(nfa, from, '-', '-'));
    }
    return end;
}

static uint32_t add_digit(struct nfa *nfa, uint32_t from, const void *context) {
    (void)context;
    return nfa_add_range(nfa, from, '0', '9');
}

/* -? ( 0 | [1-9] [0-9]* ) */
static uint32_t add_any_integer(struct nfa *nfa, uint32_t from) {
    uint32_t unsigned_start = nfa_add_state(nfa);
    uint32_t end = nfa_add_state(nfa);
    nfa_add_empty(nfa, from, unsigned_start);
    nfa_add_edge(nfa, from, '-', '-', unsigned_start);
    nfa_add_edge(nfa, unsigned_start, '0', '0', end);
    uint32_t rest = nfa_add_range(nfa, unsigned_start, '1', '9');
    nfa_add_empty(nfa, nfa_add_repeat(nfa, rest, add_digit, NULL, 0, UINT32_MAX), end);
    return end;
}

static uint32_t add_any_number(struct nfa *nfa, uint32_t from) {
    uint32_t integer = add_any_integer(nfa, from);
    uint32_t mantissa = nfa_add_state(nfa);
    uint32_t end = nfa_add_state(nfa);
    uint32_t fraction =
        nfa_add_repeat(nfa, nfa_add_range(nfa, integer, '.', '.'), add_digit, NULL, 1, UINT32_MAX);
    nfa_add_empty(nfa, integer, mantissa);
    nfa_add_empty(nfa, fraction, mantissa);
    nfa_add_empty(nfa, mantissa, end);
    uint32_t sign = nfa_add_state(nfa);
    uint32_t digits = nfa_add_state(nfa);
    nfa_add_edge(nfa, mantissa, 'e', 'e', sign);
    nfa_add_edge(nfa, mantissa, 'E', 'E', sign);
    nfa_add_empty(nfa, sign, digits);
    nfa_add_edge(nfa, sign, '+', '+', digits);
    nfa_add_edge(nfa, sign, '-', '-', digits);
    nfa_add_empty(nfa, nfa_add_repeat(nfa, digits, add_digit, NULL, 1, UINT32_MAX), end);
    return end;
}

uint32_t json_number_add(struct nfa *nfa, uint32_t from, const struct number_range *range) {
    if (range->lower.is_given || range->upper.is_given) {
        return add_bounded(nfa, from, range);
    }
    return range->is_integer ? add_any_integer(nfa, from) : add_any_number(nfa, from);
}
