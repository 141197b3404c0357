/* Three runs of bytes have no printable character of their own: 00-20, 7F-A0 and AD. */
#include "text/byte_alphabet.h"

enum { FIRST_STAND_IN = 0x100, LOW_RUN = 0x21, MIDDLE_RUN = 0x22 };

uint32_t byte_alphabet_character(unsigned char byte) {
    if (byte <= 0x20) {
        return FIRST_STAND_IN + byte;
    }
    if (byte >= 0x7F && byte <= 0xA0) {
        return FIRST_STAND_IN + LOW_RUN + (uint32_t)(byte - 0x7F);
    }
    if (byte == 0xAD) {
        return FIRST_STAND_IN + LOW_RUN + MIDDLE_RUN;
    }
    return byte;
}

int byte_alphabet_byte(uint32_t code_point) {
    if (code_point < FIRST_STAND_IN) {
        return byte_alphabet_character((unsigned char)code_point) == code_point ? (int)code_point : -1;
    }
    uint32_t index = code_point - FIRST_STAND_IN;
    if (index < LOW_RUN) {
        return (int)index;
    }
    if (index < LOW_RUN + MIDDLE_RUN) {
        return (int)(index - LOW_RUN) + 0x7F;
    }
    return index == LOW_RUN + MIDDLE_RUN ? 0xAD : -1;
}
