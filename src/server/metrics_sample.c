#include "server/metrics_sample.h"

#include <math.h>
#include <stdio.h>

/* Label values have backslashes before quotes, backslashes and line ends. */
void metrics_text_begin(struct metrics_text *text, struct string_buffer *out, const char *model_name) {
    text->out = out;
    size_t used = (size_t)snprintf(text->labels, sizeof text->labels, "engine=\"0\",model_name=\"");
    for (const char *at = model_name; *at != '\0' && used + 4 < sizeof text->labels; at++) {
        if (*at == '\\' || *at == '"' || *at == '\n') {
            text->labels[used++] = '\\';
        }
        text->labels[used++] = *at;
        if (*at == '\n') {
            text->labels[used - 1] = 'n';
        }
    }
    text->labels[used++] = '"';
    text->labels[used] = '\0';
}

void metrics_text_describe(const struct metrics_text *text, const char *name, const char *type,
                           const char *help) {
    string_buffer_append_format(text->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_text_sample(const struct metrics_text *text, const char *name, const char *more, double value) {
    string_buffer_append_format(text->out, "%s{%s%s} ", name, text->labels, more);
    bool is_whole = fabs(value) < 1e15 && value == floor(value);
    string_buffer_append_format(text->out, is_whole ? "%.0f\n" : "%.9g\n", value);
}

void metrics_text_one(const struct metrics_text *text, const char *name, const char *type, const char *help,
                      double value) {
    metrics_text_describe(text, name, type, help);
    metrics_text_sample(text, name, "", value);
}
