/* Reads the `model` object of tokenizer.json: vocabulary and merges. */
#ifndef SLUICE_TEXT_VOCABULARY_FILE_H
#define SLUICE_TEXT_VOCABULARY_FILE_H

#include "base/status.h"
#include "lib/json.h"
#include "text/tokenizer_file.h"

/*
 * Fills tokens, merges, byte_ids and ignores_merges of `parts`, which is empty, from the object `model`
 * (NULL if the file has none). On failure the parts may be half filled. Errors as tokenizer_file_read.
 */
enum status vocabulary_file_read(const struct json *model, const char *what, struct tokenizer_parts *parts);

#endif
