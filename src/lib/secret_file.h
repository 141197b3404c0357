/*
 * A secret that several processes share, in a file.
 */
#ifndef SLUICE_LIB_SECRET_FILE_H
#define SLUICE_LIB_SECRET_FILE_H

#include "base/string_buffer.h"

/*
 * Appends what the file holds, without blanks and newlines at its end. USAGE if it is shorter than 16 bytes
 * or longer than 4096, or if others than its owner may read it.
 */
enum status secret_file_read(const char *path, struct string_buffer *out);

#endif
