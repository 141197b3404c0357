/* Lines of the text of metrics. Every sample carries the labels of vLLM: engine and model_name. */
#ifndef SLUICE_SERVER_METRICS_SAMPLE_H
#define SLUICE_SERVER_METRICS_SAMPLE_H

#include "base/string_buffer.h"

enum { METRICS_LABEL_BYTES = 512 };

/* Where the text goes, and the labels that all samples have. */
struct metrics_text {
    struct string_buffer *out;
    char labels[METRICS_LABEL_BYTES];
};

/* `out` is borrowed. */
void metrics_text_begin(struct metrics_text *text, struct string_buffer *out, const char *model_name);

/* Before the samples of a name. */
void metrics_text_describe(const struct metrics_text *text, const char *name, const char *type,
                           const char *help);

/* `more`: further labels with a comma before them, or "". */
void metrics_text_sample(const struct metrics_text *text, const char *name, const char *more, double value);

/* A name with one sample. */
void metrics_text_one(const struct metrics_text *text, const char *name, const char *type, const char *help,
                      double value);

#endif
