/* Found by a hash of the mask, then compared. */
#include "text/grammar/token_sets.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"

static size_t bytes_of(const struct token_set *set) {
    return sizeof *set + set->count * sizeof *set->values;
}

/* How many tokens a mask has. */
static uint32_t count_tokens(const uint32_t *words, uint32_t word_count) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < word_count; i++) {
        count += words[i] == 0 ? 0 : (uint32_t)__builtin_popcount(words[i]);
    }
    return count;
}

/* A mask with more tokens than its list has room for stays a mask. */
static bool is_kept_as_mask(uint32_t token_count, uint32_t word_count) {
    return token_count > word_count / 2;
}

static bool has_same_tokens(const struct token_set *set, const uint32_t *words, uint32_t word_count) {
    if (set->is_mask) {
        return memcmp(set->values, words, word_count * sizeof *words) == 0;
    }
    if (set->count != count_tokens(words, word_count)) {
        return false;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if ((words[set->values[i] / 32] >> set->values[i] % 32 & 1) == 0) {
            return false;
        }
    }
    return true;
}

static struct token_set *make_set(const uint32_t *words, uint32_t word_count) {
    uint32_t token_count = count_tokens(words, word_count);
    bool is_mask = is_kept_as_mask(token_count, word_count);
    uint32_t value_count = is_mask ? word_count : token_count;
    struct token_set *set = malloc(sizeof *set + value_count * sizeof *set->values);
    if (set == NULL) {
        return NULL;
    }
    set->is_mask = is_mask;
    set->count = value_count;
    if (is_mask) {
        memcpy(set->values, words, word_count * sizeof *words);
        return set;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < word_count; i++) {
        for (uint32_t rest = words[i]; rest != 0; rest &= rest - 1) {
            set->values[count++] = 32 * i + (uint32_t)__builtin_ctz(rest);
        }
    }
    return set;
}

const struct token_set *token_sets_find(struct token_sets *sets, const uint32_t *words, uint32_t word_count) {
    uint64_t hash = hash_xxh3_128(words, word_count * sizeof *words, 0).low;
    struct token_set **bucket = &sets->buckets[hash % TOKEN_SETS_BUCKETS];
    for (struct token_set *set = *bucket; set != NULL; set = set->next) {
        if (set->hash == hash && has_same_tokens(set, words, word_count)) {
            return set;
        }
    }
    struct token_set *made = make_set(words, word_count);
    if (made != NULL) {
        made->hash = hash;
        made->next = *bucket;
        *bucket = made;
        sets->bytes += bytes_of(made);
    }
    return made;
}

void token_set_add_to(const struct token_set *set, uint32_t *words) {
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->is_mask) {
            words[i] |= set->values[i];
        } else {
            words[set->values[i] / 32] |= UINT32_C(1) << set->values[i] % 32;
        }
    }
}

void token_sets_clear(struct token_sets *sets) {
    for (size_t i = 0; i < TOKEN_SETS_BUCKETS; i++) {
        while (sets->buckets[i] != NULL) {
            struct token_set *set = sets->buckets[i];
            sets->buckets[i] = set->next;
            free(set);
        }
    }
    sets->bytes = 0;
}
