/* One table by first byte; clang-format keeps its hands off it. */
#include "text/grammar/character_groups.h"

#include "text/utf8.h"

/* clang-format off */
const uint8_t character_group_of_byte[256] = {
    1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
    39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54,
    55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70,
    71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86,
    87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101, 1,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 102, 102, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103,
    103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103, 103,
    104, 105, 105, 106, 107, 107, 107, 107, 107, 107, 108, 108, 108, 109, 110, 110,
    111, 112, 112, 112, 113, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
/* clang-format on */

static bool is_continuation(char byte) {
    return ((unsigned char)byte & 0xC0) == 0x80;
}

uint32_t character_group_at(const char *bytes, size_t length) {
    struct utf8_step step = utf8_next(bytes, length);
    bool is_alone = step.length == length || !is_continuation(bytes[step.length]);
    return step.kind == UTF8_INVALID || !is_alone ? CHARACTER_GROUP_MALFORMED
                                                  : character_group((uint8_t)bytes[0]);
}
