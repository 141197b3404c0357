/*
 * Masks of the tokens of a vocabulary by the characters that they are made of.
 *
 * In the middle of a text most tokens may follow or not by their characters and their number alone. Which
 * ones do is a matter of some hundred thousand bits here, and not of as many steps. A blank that a token
 * begins with is looked at apart: it is where words begin. Immutable once filled; any thread may read it.
 */
#ifndef SLUICE_TEXT_GRAMMAR_TOKEN_CHARACTERS_H
#define SLUICE_TEXT_GRAMMAR_TOKEN_CHARACTERS_H

#include "base/status.h"
#include "text/grammar/character_groups.h"

enum { TOKEN_CHARACTERS_MAX = 32 }; /* longer tokens are not told apart */

struct token_characters {
    uint32_t word_count; /* of a mask */
    uint32_t *masks;
};

/* No tokens yet. Owned: token_characters_deinit. */
enum status token_characters_init(struct token_characters *characters, uint32_t word_count);
void token_characters_deinit(struct token_characters *characters);

void token_characters_add(struct token_characters *characters, int32_t token, const char *bytes,
                          size_t length);

/* Once all tokens were added. */
void token_characters_finish(struct token_characters *characters);

/*
 * Adds to a mask the tokens that begin with a blank, or those that do not, whose rest is made of characters
 * of these groups, at most so many; above TOKEN_CHARACTERS_MAX: any number.
 */
void token_characters_select(const struct token_characters *characters, bool has_blank,
                             struct character_groups groups, uint32_t count_max, uint32_t *words);

#endif
