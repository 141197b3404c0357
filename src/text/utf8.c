/* Well-formed sequences by table 3-7 of the Unicode standard. */
#include "text/utf8.h"

/* How a lead byte continues: the number of bytes and the range of the second one. */
struct lead {
    size_t length; /* 0: no character starts with this byte */
    unsigned char low, high;
};

static struct lead lead_of(unsigned char byte) {
    if (byte < 0x80) {
        return (struct lead){1, 0, 0};
    }
    if (byte < 0xC2 || byte > 0xF4) {
        return (struct lead){0, 0, 0};
    }
    if (byte < 0xE0) {
        return (struct lead){2, 0x80, 0xBF};
    }
    if (byte < 0xF0) {
        /* no overlong forms, no surrogates */
        return (struct lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    }
    /* no overlong forms, nothing above U+10FFFF */
    return (struct lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
}

struct utf8_step utf8_next(const char *bytes, size_t length) {
    const unsigned char *at = (const unsigned char *)bytes;
    struct lead lead = lead_of(at[0]);
    if (lead.length == 0) {
        return (struct utf8_step){UTF8_INVALID, 0, 1};
    }
    if (lead.length == 1) {
        return (struct utf8_step){UTF8_CHARACTER, at[0], 1};
    }
    uint32_t code_point = at[0] & (0x7Fu >> lead.length);
    for (size_t i = 1; i < lead.length; i++) {
        if (i == length) {
            return (struct utf8_step){UTF8_INCOMPLETE, 0, i};
        }
        unsigned char low = i == 1 ? lead.low : 0x80;
        unsigned char high = i == 1 ? lead.high : 0xBF;
        if (at[i] < low || at[i] > high) {
            return (struct utf8_step){UTF8_INVALID, 0, i};
        }
        code_point = code_point << 6 | (at[i] & 0x3Fu);
    }
    return (struct utf8_step){UTF8_CHARACTER, code_point, lead.length};
}

size_t utf8_valid_length(const char *bytes, size_t length) {
    size_t position = 0;
    while (position < length) {
        struct utf8_step step = utf8_next(bytes + position, length - position);
        if (step.kind != UTF8_CHARACTER) {
            break;
        }
        position += step.length;
    }
    return position;
}

size_t utf8_encode(uint32_t code_point, char out[UTF8_CHARACTER_BYTES_MAX]) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code_point & 0x3F));
        code_point >>= 6;
    }
    out[0] = (char)((0xF00u >> length & 0xFFu) | code_point);
    return length;
}

void utf8_append_lossy(struct string_buffer *out, const char *bytes, size_t length) {
    size_t position = 0;
    while (position < length) {
        size_t valid = utf8_valid_length(bytes + position, length - position);
        string_buffer_append(out, bytes + position, valid);
        position += valid;
        if (position < length) {
            string_buffer_append(out, UTF8_REPLACEMENT, UTF8_REPLACEMENT_BYTES);
            position += utf8_next(bytes + position, length - position).length;
        }
    }
}
