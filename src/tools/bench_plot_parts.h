/* What the pictures of all benchmarks are made of: one SVG document, panels with axes, lines in colours. */
#ifndef SLUICE_TOOLS_BENCH_PLOT_PARTS_H
#define SLUICE_TOOLS_BENCH_PLOT_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"

enum {
    PLOT_COLOURS = 6, /* classes s0..s5 of the style sheet */
    PLOT_LEFT = 80,
    PLOT_TOP = 96,
};

struct plot_axis {
    double first; /* value at pixel `from` */
    double last;  /* value at pixel `to` */
    double from;
    double to;
    bool is_log;
};

/* Of a panel. */
struct plot_titles {
    const char *title;
    const char *x;
    const char *y;
};

/* Starts the document; `note` stands above the panels. */
void plot_begin(struct string_buffer *out, int width, int height, const char *note);

/* Ends it; an error if memory was out anywhere. */
enum status plot_end(struct string_buffer *out);

/* Lets an axis, whose pixels are set, reach from `low` to `high`; both above 0. */
void plot_fit_x(struct plot_axis *axis, double low, double high);
void plot_fit_y(struct plot_axis *axis, double low, double high);

/* Makes low and high take in the value. */
void plot_widen(double value, double *low, double *high);

double plot_pixel(const struct plot_axis *axis, double value);

/* Axes, titles, the ticks of y; those of x are the caller's. */
void plot_append_frame(const struct plot_axis *x_axis, const struct plot_axis *y_axis,
                       const struct plot_titles *titles, struct string_buffer *out);

/* A tick of x, with a label if there is room behind *last_label (-INFINITY at first). */
void plot_append_x_tick(const struct plot_axis *x_axis, const struct plot_axis *y_axis, int64_t value,
                        double *last_label, struct string_buffer *out);

/* A piece of line in a colour and what it stands for, above the panel. */
void plot_append_legend(struct string_buffer *out, double x, int colour, const char *label);

void plot_append_text(struct string_buffer *out, double x, double y, const char *anchor,
                      const char *css_class, const char *text);
void plot_append_line(struct string_buffer *out, const char *css_class, double x1, double y1, double x2,
                      double y2);

#endif
