/* An axis that spans a decade or more is logarithmic. */
#include "tools/bench_plot_parts.h"

#include <math.h>
#include <stdio.h>

enum { TICK_GAP = 24 }; /* labels closer than that would touch */

static const char style_sheet[] =
    "<style>\n"
    "text{font:12px system-ui,sans-serif;fill:#3d3d3a}.title{font-size:14px;font-weight:600;fill:#0b0b0b}\n"
    ".back{fill:#fcfcfb}.grid{stroke:#e3e2dd}.axis{stroke:#8a8984}.line,.range{fill:none;stroke-width:2}\n"
    ".floor{fill:none;stroke-width:1.5;stroke-dasharray:5 4;opacity:.75}\n"
    ".s0{stroke:#2a78d6}.s1{stroke:#d95926}.s2{stroke:#128a60}.s3{stroke:#7a5cc7}.s4{stroke:#b07800}"
    ".s5{stroke:#c23b6b}\n"
    ".m{stroke:none}.m.s0{fill:#2a78d6}.m.s1{fill:#d95926}.m.s2{fill:#128a60}.m.s3{fill:#7a5cc7}"
    ".m.s4{fill:#b07800}.m.s5{fill:#c23b6b}\n"
    "@media(prefers-color-scheme:dark){text{fill:#c3c2b7}.title{fill:#fff}.back{fill:#1a1a19}"
    ".grid{stroke:#34342f}\n"
    ".s0{stroke:#5a9cec}.s1{stroke:#f08050}.s2{stroke:#35c08c}.s3{stroke:#a98df0}.s4{stroke:#e0a830}"
    ".s5{stroke:#ec7aa2}\n"
    ".m.s0{fill:#5a9cec}.m.s1{fill:#f08050}.m.s2{fill:#35c08c}.m.s3{fill:#a98df0}.m.s4{fill:#e0a830}"
    ".m.s5{fill:#ec7aa2}}\n"
    "</style>\n";

double plot_pixel(const struct plot_axis *axis, double value) {
    double share = axis->is_log ? log(value / axis->first) / log(axis->last / axis->first)
                                : (value - axis->first) / (axis->last - axis->first);
    return axis->from + share * (axis->to - axis->from);
}

/* The largest of 1, 2 and 5 times a power of ten that is not above `value`. */
static double round_down(double value) {
    double power = pow(10.0, floor(log10(value) + 1e-9));
    double digit = value / power * (1.0 + 1e-9);
    return power * (digit >= 5.0 ? 5.0 : digit >= 2.0 ? 2.0 : 1.0);
}

static double next_tick(double tick) {
    double power = pow(10.0, floor(log10(tick) + 1e-9));
    double digit = round(tick / power);
    return power * (digit < 1.5 ? 2.0 : digit < 3.5 ? 5.0 : 10.0);
}

void plot_widen(double value, double *low, double *high) {
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

void plot_append_text(struct string_buffer *out, double x, double y, const char *anchor,
                      const char *css_class, const char *text) {
    string_buffer_append_format(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s%s%s>%s</text>\n", x, y,
                                anchor, css_class[0] == '\0' ? "" : " class=\"", css_class,
                                css_class[0] == '\0' ? "" : "\"", text);
}

void plot_append_line(struct string_buffer *out, const char *css_class, double x1, double y1, double x2,
                      double y2) {
    string_buffer_append_format(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                                css_class, x1, y1, x2, y2);
}

static void append_y_tick(const struct plot_axis *x_axis, const struct plot_axis *y_axis, double value,
                          struct string_buffer *out) {
    char label[32];
    double y = plot_pixel(y_axis, value);
    snprintf(label, sizeof label, "%.6g", value);
    plot_append_line(out, "grid", x_axis->from, y, x_axis->to, y);
    plot_append_text(out, x_axis->from - 8.0, y + 4.0, "end", "", label);
}

static void append_y_ticks(const struct plot_axis *x_axis, const struct plot_axis *axis,
                           struct string_buffer *out) {
    if (axis->is_log) {
        double decades = log10(axis->last / axis->first);
        double tick = axis->first;
        while (tick <= axis->last) {
            /* Over many decades only their starts have room. */
            if (decades < 3.0 || fabs(round_down(tick) / pow(10.0, floor(log10(tick) + 1e-9)) - 1.0) < 0.1) {
                append_y_tick(x_axis, axis, tick, out);
            }
            tick = next_tick(tick);
        }
        return;
    }
    double step = round_down(axis->last / 4.0);
    for (int i = 0; i * step <= axis->last; i++) {
        append_y_tick(x_axis, axis, i * step, out);
    }
}

void plot_fit_x(struct plot_axis *axis, double low, double high) {
    axis->is_log = high >= 10.0 * low;
    axis->first = axis->is_log ? low : 0.0;
    axis->last = high > axis->first ? high : axis->first + 1.0;
}

void plot_fit_y(struct plot_axis *axis, double low, double high) {
    axis->is_log = high >= 10.0 * low;
    axis->first = axis->is_log ? round_down(low) : 0.0;
    axis->last = high * 1.05;
}

void plot_append_frame(const struct plot_axis *x_axis, const struct plot_axis *y_axis,
                       const struct plot_titles *titles, struct string_buffer *out) {
    plot_append_text(out, x_axis->from, 56.0, "start", "title", titles->title);
    append_y_ticks(x_axis, y_axis, out);
    plot_append_line(out, "axis", x_axis->from, y_axis->from, x_axis->to, y_axis->from);
    plot_append_line(out, "axis", x_axis->from, y_axis->from, x_axis->from, y_axis->to);
    plot_append_text(out, (x_axis->from + x_axis->to) / 2.0, y_axis->from + 42.0, "middle", "", titles->x);
    string_buffer_append_format(
        out, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
        x_axis->from - 56.0, (y_axis->from + y_axis->to) / 2.0, titles->y);
}

void plot_append_x_tick(const struct plot_axis *x_axis, const struct plot_axis *y_axis, int64_t value,
                        double *last_label, struct string_buffer *out) {
    double x = plot_pixel(x_axis, (double)value);
    plot_append_line(out, "axis", x, y_axis->from, x, y_axis->from + 5.0);
    if (x - *last_label >= TICK_GAP) {
        char label[32];
        snprintf(label, sizeof label, "%lld", (long long)value);
        plot_append_text(out, x, y_axis->from + 19.0, "middle", "", label);
        *last_label = x;
    }
}

void plot_begin(struct string_buffer *out, int width, int height, const char *note) {
    string_buffer_append_format(out,
                                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                                "width=\"%d\" height=\"%d\" role=\"img\">\n<title>sluice bench</title>\n",
                                width, height, width, height);
    string_buffer_append_text(out, style_sheet);
    string_buffer_append_text(out, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
    plot_append_text(out, PLOT_LEFT, 28.0, "start", "", note);
}

void plot_append_legend(struct string_buffer *out, double x, int colour, const char *label) {
    char css_class[16];
    snprintf(css_class, sizeof css_class, "line s%d", colour);
    plot_append_line(out, css_class, x, 75.0, x + 14.0, 75.0);
    plot_append_text(out, x + 19.0, 79.0, "start", "", label);
}

enum status plot_end(struct string_buffer *out) {
    string_buffer_append_text(out, "</svg>\n");
    return string_buffer_check(out);
}
