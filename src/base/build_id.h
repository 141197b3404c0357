/*
 * Which build of the program this is: the linker's identifier, a digest of all code and data.
 */
#ifndef SLUICE_BASE_BUILD_ID_H
#define SLUICE_BASE_BUILD_ID_H

enum { BUILD_ID_TEXT_BYTES = 65 };

/* Writes it in hexadecimal digits; "" if the build has none. Any thread. */
void build_id_read(char text[BUILD_ID_TEXT_BYTES]);

#endif
