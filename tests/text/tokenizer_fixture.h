/* What the tokenizer tests share: the two tokenizers, encoding in one line, recorded encodings. */
#ifndef SLUICE_TESTS_TEXT_TOKENIZER_FIXTURE_H
#define SLUICE_TESTS_TEXT_TOKENIZER_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/json.h"
#include "text/tokenizer.h"

#define DEEPSEEK_V3_TOKENIZER SLUICE_SOURCE_DIR "/tests/golden/tokenizers/deepseek-v3/tokenizer.json"
#define MINI_V4_TOKENIZER SLUICE_SOURCE_DIR "/models/mini-v4/tokenizer.json"

/* Fails the test if the file cannot be loaded. Owned: tokenizer_destroy. */
struct tokenizer *load_tokenizer(const char *path);

/* Fails the test if the file cannot be read. Owned: json_free. */
struct json *load_json(const char *path);

/* Replaces the list's ids by those of the text. */
void encode_into(const struct tokenizer *tokenizer, const char *text, size_t length, bool match_added_tokens,
                 struct token_list *out);

/* Fails the test if the text with added tokens matched has other ids. */
void assert_ids(const struct tokenizer *tokenizer, const char *text, const int32_t *ids, size_t count);

/* Fails the test if encoding and decoding does not give the same bytes. */
void assert_round_trip(const struct tokenizer *tokenizer, const char *text, size_t length,
                       bool match_added_tokens);

/* `count` copies of the unit. Owned: free. */
char *repeat_text(const char *unit, size_t count, size_t *length);

#endif
