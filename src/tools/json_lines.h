/* Files with one JSON object a line. */
#ifndef SLUICE_TOOLS_JSON_LINES_H
#define SLUICE_TOOLS_JSON_LINES_H

#include <stddef.h>

#include "base/status.h"
#include "lib/json.h"

/*
 * Reads the first `limit` objects (SIZE_MAX: all) into an array; blank lines are passed over. Errors name the
 * line; a file without objects is one. Owned: json_free.
 */
enum status json_lines_read(const char *path, size_t limit, struct json **out);

#endif
