/*
 * Files of options in YAML, behind the YAML library (libyaml).
 *
 * A file is one mapping of names to values: a scalar, a list of scalars, or anything nested, which becomes
 * JSON text. Booleans may be spelt as in YAML 1.1 (yes, on). Anchors, tags and several documents have no
 * meaning in such files and are refused, as are names that come twice.
 */
#ifndef SLUICE_LIB_YAML_H
#define SLUICE_LIB_YAML_H

#include "base/arena.h"
#include "base/options.h"

/*
 * Reads the file into settings; a list gives one for each item. NOT_FOUND or IO if it cannot be read; USAGE
 * with file and line for what is no such mapping. All texts lie in the arena.
 */
enum status yaml_read_settings(const char *path, struct arena *arena, struct option_settings *out);

#endif
