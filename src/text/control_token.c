/* Texts of the control tokens; no text is the beginning of another one, so the first match is the only one.
 */
#include "text/control_token.h"

#include <string.h>

struct control_text {
    const char *bytes;
    size_t length;
};

static const struct control_text texts[CONTROL_TOKEN_COUNT] = {
#define X(name, text) {text, sizeof(text) - 1},
    CONTROL_TOKEN_LIST(X)
#undef X
};

const char *control_token_text(enum control_token token) {
    return texts[token].bytes;
}

size_t control_token_length(enum control_token token) {
    return texts[token].length;
}

enum control_token control_token_at(const char *bytes, size_t length) {
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        if (texts[i].length <= length && memcmp(bytes, texts[i].bytes, texts[i].length) == 0) {
            return (enum control_token)i;
        }
    }
    return CONTROL_TOKEN_NONE;
}

enum control_token control_token_of_task(const char *name, size_t length) {
    static const char opening[] = "<｜";
    static const char closing[] = "｜>";
    const size_t around = sizeof opening - 1 + sizeof closing - 1;
    for (int i = CONTROL_TOKEN_ACTION; i < CONTROL_TOKEN_COUNT; i++) {
        if (texts[i].length == length + around &&
            memcmp(texts[i].bytes + sizeof opening - 1, name, length) == 0) {
            return (enum control_token)i;
        }
    }
    return CONTROL_TOKEN_NONE;
}
