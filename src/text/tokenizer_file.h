/*
 * Reads tokenizer.json, the tokenizer file of the Hugging Face library, as far as this model family uses it:
 * byte-level BPE behind a list of splits.
 *
 * Whatever would change the ids and is not handled here is refused by name. Not read, because it never
 * applies here: `truncation` and `padding` (batches for training) and `post_processor` (prompts carry their
 * own begin and end marks).
 */
#ifndef SLUICE_TEXT_TOKENIZER_FILE_H
#define SLUICE_TEXT_TOKENIZER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "lib/json.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/token_table.h"
#include "text/tokenizer_bpe.h"

enum {
    TOKENIZER_FILE_BYTES_MAX = 64 << 20,
    ADDED_TOKEN_BYTES_MAX = 512,
    /* Added tokens are matched in two passes: those that the file calls normalized come second. */
    ADDED_TOKEN_PASSES = 2,
};

struct tokenizer_parts {
    struct token_table tokens;
    struct merge_table merges;
    int32_t byte_ids[256]; /* token of each single byte */
    struct added_tokens added[ADDED_TOKEN_PASSES];
    struct pre_tokenizer pre_tokenizer;
    bool ignores_merges; /* a piece that is a token is taken whole */
};

/*
 * Fills `parts` from a parsed file. `what` names the file in errors: BAD_FORMAT if it contradicts itself,
 * UNSUPPORTED if it asks for something that is not handled here. On failure `parts` is empty.
 */
enum status tokenizer_file_read(const struct json *file, const char *what, struct tokenizer_parts *parts);

/* Frees all; a zeroed struct is empty. */
void tokenizer_parts_deinit(struct tokenizer_parts *parts);

#endif
