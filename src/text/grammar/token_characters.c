/*
 * A tree over the groups: a leaf has the tokens with characters of one group, a node those of both its
 * children. Groups stand in the order of their bytes, so that what a grammar leaves out is few nodes.
 */
#include "text/grammar/token_characters.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of masks. Nodes: 1 is the root, 2n and 2n + 1 are the children of n. */
enum {
    FIRST_LEAF = CHARACTER_GROUPS,
    FIRST_COUNT = 2 * CHARACTER_GROUPS, /* of tokens of 0 characters; then of at most 1, and so on */
    WITHOUT_BLANK = FIRST_COUNT + TOKEN_CHARACTERS_MAX + 1,
    WITH_BLANK,
    MASKS,
    BLOCK_WORDS = 512 /* are worked on while they are near */
};

enum status token_characters_init(struct token_characters *characters, uint32_t word_count) {
    *characters = (struct token_characters){.word_count = word_count};
    characters->masks = calloc((size_t)MASKS * word_count + 1, sizeof *characters->masks);
    CHECK_MEMORY(characters->masks);
    return STATUS_OK;
}

void token_characters_deinit(struct token_characters *characters) {
    free(characters->masks);
    *characters = (struct token_characters){0};
}

static uint32_t *mask_at(const struct token_characters *characters, uint32_t mask) {
    return characters->masks + (size_t)mask * characters->word_count;
}

static void set_bit(struct token_characters *characters, uint32_t mask, int32_t token) {
    mask_at(characters, mask)[token / 32] |= UINT32_C(1) << token % 32;
}

void token_characters_add(struct token_characters *characters, int32_t token, const char *bytes,
                          size_t length) {
    size_t first = bytes[0] == ' ' ? 1 : 0;
    uint32_t count = 0;
    for (size_t i = first; i < length; i++) {
        bool is_within = ((unsigned char)bytes[i] & 0xC0) == 0x80;
        if (!is_within || i == first) {
            set_bit(characters, FIRST_LEAF + character_group_at(bytes + i, length - i), token);
        }
        count += is_within ? 0 : 1;
    }
    set_bit(characters, first == 1 ? WITH_BLANK : WITHOUT_BLANK, token);
    for (; count <= TOKEN_CHARACTERS_MAX; count++) {
        set_bit(characters, FIRST_COUNT + count, token);
    }
}

void token_characters_finish(struct token_characters *characters) {
    for (uint32_t node = FIRST_LEAF - 1; node > 0; node--) {
        uint32_t *out = mask_at(characters, node);
        const uint32_t *left = mask_at(characters, 2 * node);
        const uint32_t *right = mask_at(characters, 2 * node + 1);
        for (uint32_t i = 0; i < characters->word_count; i++) {
            out[i] = left[i] | right[i];
        }
    }
}

/* Groups of which tokens are left out, as few nodes. */
struct cover {
    uint32_t nodes[CHARACTER_GROUPS];
    uint32_t count;
};

static void cover_groups(struct cover *cover, struct character_groups groups) {
    bool is_left_out[2 * CHARACTER_GROUPS];
    for (uint32_t group = 0; group < CHARACTER_GROUPS; group++) {
        is_left_out[FIRST_LEAF + group] = groups_have(groups, group);
    }
    for (uint32_t node = FIRST_LEAF - 1; node > 0; node--) {
        is_left_out[node] = is_left_out[2 * node] && is_left_out[2 * node + 1];
    }
    cover->count = 0;
    for (uint32_t node = 1; node < 2 * CHARACTER_GROUPS; node++) {
        if (is_left_out[node] && (node == 1 || !is_left_out[node / 2])) {
            cover->nodes[cover->count++] = node;
        }
    }
}

void token_characters_select(const struct token_characters *characters, bool has_blank,
                             struct character_groups groups, uint32_t count_max, uint32_t *words) {
    struct cover cover;
    uint32_t kept[BLOCK_WORDS];
    const uint32_t *all = mask_at(characters, has_blank ? WITH_BLANK : WITHOUT_BLANK);
    const uint32_t *counted =
        count_max > TOKEN_CHARACTERS_MAX ? all : mask_at(characters, FIRST_COUNT + count_max);
    cover_groups(&cover, groups_not(groups));
    for (uint32_t first = 0; first < characters->word_count; first += BLOCK_WORDS) {
        uint32_t rest = characters->word_count - first;
        uint32_t count = rest < BLOCK_WORDS ? rest : BLOCK_WORDS;
        for (uint32_t i = 0; i < count; i++) {
            kept[i] = all[first + i] & counted[first + i];
        }
        for (uint32_t k = 0; k < cover.count; k++) {
            const uint32_t *left_out = mask_at(characters, cover.nodes[k]) + first;
            for (uint32_t i = 0; i < count; i++) {
                kept[i] &= ~left_out[i];
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            words[first + i] |= kept[i];
        }
    }
}
