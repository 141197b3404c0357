/*
 * The byte alphabet of byte-level BPE files (from GPT-2): every byte is written as one printable character.
 *
 * Printable Latin-1 bytes stand for themselves; the other 68 are U+0100, U+0101, ... in byte order, so that
 * a blank is U+0120. Any thread; nothing is allocated.
 */
#ifndef SLUICE_TEXT_BYTE_ALPHABET_H
#define SLUICE_TEXT_BYTE_ALPHABET_H

#include <stdint.h>

/* The character that stands for a byte. */
uint32_t byte_alphabet_character(unsigned char byte);

/* The byte that a character stands for, -1 if it is not in the alphabet. */
int byte_alphabet_byte(uint32_t code_point);

#endif
