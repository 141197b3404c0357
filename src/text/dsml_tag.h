/*
 * One tag of the tool markup, from the control token to its '>'.
 *
 * Well-formed tags read `NAME`, `NAME name="..."` or `NAME name="..." string="true|false"`. Damaged ones
 * (unquoted or missing attributes) are read as far as they make sense. Any thread; nothing is allocated.
 */
#ifndef SLUICE_TEXT_DSML_TAG_H
#define SLUICE_TEXT_DSML_TAG_H

#include <stdbool.h>
#include <stddef.h>

enum dsml_tag_kind {
    DSML_TAG_UNKNOWN,
    DSML_TAG_TOOL_CALLS, /* also under V3.2's name, function_calls */
    DSML_TAG_INVOKE,
    DSML_TAG_PARAMETER,
};

struct dsml_attributes {
    const char *name; /* into the parsed text; NULL if there is none */
    size_t name_length;
    bool is_string; /* what string="..." says; true if it is missing */
};

/* The kind of the tag with this name; blanks before the name are skipped. */
enum dsml_tag_kind dsml_tag_kind_of(const char *name, size_t length);

/* Whether the attribute text (between the tag's name and a '>') is that of a complete parameter tag. */
bool dsml_is_parameter_attributes(const char *text, size_t length);

/* Reads the attribute text of an invoke or parameter tag. */
struct dsml_attributes dsml_attributes_parse(const char *text, size_t length);

#endif
