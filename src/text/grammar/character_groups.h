/*
 * Groups of characters that grammars mostly treat alike, by the byte that begins them: each sign, letter and
 * digit of ASCII is one of its own, so are the blanks, the other control characters are one together, and
 * beyond ASCII the scripts of some first bytes. If a set of characters holds whole groups, a text of such
 * groups is made of such characters.
 */
#ifndef SLUICE_TEXT_GRAMMAR_CHARACTER_GROUPS_H
#define SLUICE_TEXT_GRAMMAR_CHARACTER_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHARACTER_GROUPS = 128,       /* room for so many */
    CHARACTER_GROUP_MALFORMED = 0 /* bytes that are no UTF-8 where they stand, as the rest of a character */
};

struct character_groups {
    uint64_t words[2];
};

extern const uint8_t character_group_of_byte[256];

/* The group of the characters that begin with a byte. */
static inline uint32_t character_group(uint8_t byte) {
    return character_group_of_byte[byte];
}

/*
 * The group of the character that begins a text, which may be cut off at the text's end; bytes behind it that
 * belong to none are its fault.
 */
uint32_t character_group_at(const char *bytes, size_t length);

static inline void groups_add(struct character_groups *groups, uint32_t group) {
    groups->words[group / 64] |= UINT64_C(1) << group % 64;
}

static inline bool groups_have(struct character_groups groups, uint32_t group) {
    return (groups.words[group / 64] >> group % 64 & 1) != 0;
}

static inline struct character_groups groups_or(struct character_groups a, struct character_groups b) {
    return (struct character_groups){{a.words[0] | b.words[0], a.words[1] | b.words[1]}};
}

/* Those of `a` that are in `b` too. */
static inline struct character_groups groups_and(struct character_groups a, struct character_groups b) {
    return (struct character_groups){{a.words[0] & b.words[0], a.words[1] & b.words[1]}};
}

static inline struct character_groups groups_not(struct character_groups groups) {
    return (struct character_groups){{~groups.words[0], ~groups.words[1]}};
}

static inline bool groups_are_none(struct character_groups groups) {
    return (groups.words[0] | groups.words[1]) == 0;
}

/* Whether all of `a` are in `b`. */
static inline bool groups_are_in(struct character_groups a, struct character_groups b) {
    return groups_are_none(groups_and(a, groups_not(b)));
}

static inline uint32_t groups_count(struct character_groups groups) {
    return (uint32_t)(__builtin_popcountll(groups.words[0]) + __builtin_popcountll(groups.words[1]));
}

#endif
