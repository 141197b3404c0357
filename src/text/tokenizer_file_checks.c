/* One sentence for each way in which an object can be outside what is supported. */
#include "text/tokenizer_file_checks.h"

#include <string.h>

bool tokenizer_file_is_absent(const struct json *value) {
    return value == NULL || json_kind(value) == JSON_KIND_NULL;
}

bool tokenizer_file_is_text(const struct json *value, const char *text) {
    size_t length = 0;
    const char *found = value == NULL ? NULL : json_text(value, &length);
    return found != NULL && length == strlen(text) && memcmp(found, text, length) == 0;
}

enum status tokenizer_file_check_keys(const struct json *object, const char *const *keys, const char *what,
                                      const char *where) {
    CHECK(object != NULL && json_kind(object) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT,
          "%s: %s is missing or not an object", what, where);
    for (const struct json_member *member = json_first(object); member != NULL;
         member = json_next(object, member)) {
        size_t length = 0;
        const char *key = json_member_key(member, &length);
        bool is_known = false;
        for (size_t i = 0; keys[i] != NULL && !is_known; i++) {
            is_known = strlen(keys[i]) == length && memcmp(keys[i], key, length) == 0;
        }
        CHECK(is_known, STATUS_UNSUPPORTED, "%s: %s has the key \"%s\", which is not supported", what, where,
              key);
    }
    return STATUS_OK;
}

enum status tokenizer_file_check_type(const struct json *object, const char *type, const char *what,
                                      const char *where) {
    const struct json *value = json_get(object, "type");
    if (!tokenizer_file_is_text(value, type)) {
        const char *found = value == NULL ? NULL : json_text(value, NULL);
        FAIL(STATUS_UNSUPPORTED, "%s: %s has the type \"%s\"; only \"%s\" is supported", what, where,
             found == NULL ? "" : found, type);
    }
    return STATUS_OK;
}

enum status tokenizer_file_check_unset(const struct json *object, const char *key, const char *what,
                                       const char *where) {
    const struct json *value = json_get(object, key);
    bool is_unset = tokenizer_file_is_absent(value) || tokenizer_file_is_text(value, "") ||
                    (json_kind(value) == JSON_KIND_BOOL && !json_bool(value)) ||
                    ((json_kind(value) == JSON_KIND_INTEGER || json_kind(value) == JSON_KIND_REAL) &&
                     json_number(value) == 0.0);
    CHECK(is_unset, STATUS_UNSUPPORTED, "%s: %s sets %s, which is not supported", what, where, key);
    return STATUS_OK;
}
