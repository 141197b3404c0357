/*
 * The formats of strings, as patterns over the whole text: RFC 3339 for dates and times (leap days included,
 * leap seconds too), RFC 4122 for UUIDs, dot-atoms for e-mail addresses.
 */
#include <string.h>

#include "text/grammar/json_schema_internal.h"

#define DATE                                                          \
    "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])"        \
    "|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))" \
    "|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"

const char *json_format_pattern(const char *name) {
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", DATE},
        {"time", TIME},
        {"date-time", DATE "T" TIME},
        {"uuid", "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
        {"email", ATOM "(?:\\." ATOM ")*@" LABEL "(?:\\." LABEL ")+"},
        {"ipv4", OCTET "(?:\\." OCTET "){3}"},
        {"hostname", LABEL "(?:\\." LABEL ")*"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return formats[i].pattern;
        }
    }
    return NULL;
}
