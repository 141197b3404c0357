/*
 * Checks on the objects of tokenizer.json that several readers share.
 *
 * `what` names the file and `where` the object ("model") in the error. A value may be NULL (absent).
 */
#ifndef SLUICE_TEXT_TOKENIZER_FILE_CHECKS_H
#define SLUICE_TEXT_TOKENIZER_FILE_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "lib/json.h"

/* True if the value is absent or null. */
bool tokenizer_file_is_absent(const struct json *value);

/* True if the value is a string and equals `text`. */
bool tokenizer_file_is_text(const struct json *value, const char *text);

/* BAD_FORMAT if `object` is no object, UNSUPPORTED if it has a key outside the NULL-terminated list. */
enum status tokenizer_file_check_keys(const struct json *object, const char *const *keys, const char *what,
                                      const char *where);

/* UNSUPPORTED if the object's "type" is not `type`. */
enum status tokenizer_file_check_type(const struct json *object, const char *type, const char *what,
                                      const char *where);

/* UNSUPPORTED if the object's `key` is set to anything but null, false, 0 or "". */
enum status tokenizer_file_check_unset(const struct json *object, const char *key, const char *what,
                                       const char *where);

#endif
