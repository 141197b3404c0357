/* An axis that spans a decade or more is logarithmic. Ticks of x stand at the measured lengths. */
#include "tools/bench_plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum {
    PICTURE_WIDTH = 960,
    PICTURE_HEIGHT = 400,
    PANEL_WIDTH = 370,
    PANEL_HEIGHT = 230,
    PANEL_TOP = 96,
    PANEL_LEFT = 80,
    PANEL_STRIDE = 480, /* from one panel to the next */
    TICK_GAP = 24,      /* labels closer than that would touch */
    COLOURS = 6,        /* classes s0..s5 of the style sheet */
    LEGEND_LEFT = 46,
    LEGEND_STRIDE = 62,
};

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

struct axis {
    double first; /* value at pixel `from` */
    double last;  /* value at pixel `to` */
    double from;
    double to;
    bool is_log;
};

/* One panel: which measure of the rows it shows, and its axes. */
struct panel {
    const char *title;
    const char *x_label;
    const char *y_label;
    double unit; /* seconds times this are shown */
    bool is_prefill;
    struct axis x;
    struct axis y;
};

static const struct bench_measure *measure_of(const struct panel *panel, const struct bench_row *row) {
    return panel->is_prefill ? &row->prefill : &row->decode;
}

static double floor_of(const struct panel *panel, const struct bench_row *row) {
    const struct bench_measure *measure = measure_of(panel, row);
    return panel->unit * fmax(measure->bandwidth_floor_seconds, measure->flop_floor_seconds);
}

static double pixel(const struct axis *axis, double value) {
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

static void widen(double value, double *low, double *high) {
    *low = fmin(*low, value);
    *high = fmax(*high, value);
}

static void fit_axes(const struct bench_report *report, struct panel *panel) {
    double x_low = INFINITY;
    double x_high = 0.0;
    double y_low = INFINITY;
    double y_high = 0.0;
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_row *row = &report->rows[i];
        const struct bench_seconds *seconds = &measure_of(panel, row)->seconds;
        widen((double)row->prompt_tokens, &x_low, &x_high);
        widen(seconds->minimum * panel->unit, &y_low, &y_high);
        widen(seconds->maximum * panel->unit, &y_low, &y_high);
        if (floor_of(panel, row) > 0.0) {
            widen(floor_of(panel, row), &y_low, &y_high);
        }
    }
    panel->x.is_log = x_high >= 10.0 * x_low;
    panel->x.first = panel->x.is_log ? x_low : 0.0;
    panel->x.last = x_high > panel->x.first ? x_high : panel->x.first + 1.0;
    panel->y.is_log = y_high >= 10.0 * y_low;
    panel->y.first = panel->y.is_log ? round_down(y_low) : 0.0;
    panel->y.last = y_high * 1.05;
}

static void append_text(struct string_buffer *out, double x, double y, const char *anchor,
                        const char *css_class, const char *text) {
    string_buffer_append_format(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s%s%s>%s</text>\n", x, y,
                                anchor, css_class[0] == '\0' ? "" : " class=\"", css_class,
                                css_class[0] == '\0' ? "" : "\"", text);
}

static void append_line(struct string_buffer *out, const char *css_class, double x1, double y1, double x2,
                        double y2) {
    string_buffer_append_format(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                                css_class, x1, y1, x2, y2);
}

static void append_y_tick(const struct panel *panel, double value, struct string_buffer *out) {
    char label[32];
    double y = pixel(&panel->y, value);
    snprintf(label, sizeof label, "%.6g", value);
    append_line(out, "grid", panel->x.from, y, panel->x.to, y);
    append_text(out, panel->x.from - 8.0, y + 4.0, "end", "", label);
}

static void append_y_ticks(const struct panel *panel, struct string_buffer *out) {
    const struct axis *axis = &panel->y;
    if (axis->is_log) {
        double decades = log10(axis->last / axis->first);
        double tick = axis->first;
        while (tick <= axis->last) {
            /* Over many decades only their starts have room. */
            if (decades < 3.0 || fabs(round_down(tick) / pow(10.0, floor(log10(tick) + 1e-9)) - 1.0) < 0.1) {
                append_y_tick(panel, tick, out);
            }
            tick = next_tick(tick);
        }
        return;
    }
    double step = round_down(axis->last / 4.0);
    for (int i = 0; i * step <= axis->last; i++) {
        append_y_tick(panel, i * step, out);
    }
}

static void append_x_ticks(const struct bench_report *report, const struct panel *panel,
                           struct string_buffer *out) {
    double last_label = -INFINITY;
    for (int i = 0; i < report->row_count; i++) {
        int64_t length = report->rows[i].prompt_tokens;
        double x = pixel(&panel->x, (double)length);
        if (i > 0 && report->rows[i - 1].prompt_tokens == length) {
            continue;
        }
        append_line(out, "axis", x, panel->y.from, x, panel->y.from + 5.0);
        if (x - last_label >= TICK_GAP) {
            char label[32];
            snprintf(label, sizeof label, "%lld", (long long)length);
            append_text(out, x, panel->y.from + 19.0, "middle", "", label);
            last_label = x;
        }
    }
}

static void append_axes(const struct bench_report *report, const struct panel *panel,
                        struct string_buffer *out) {
    double middle = (panel->x.from + panel->x.to) / 2.0;
    append_text(out, panel->x.from, 56.0, "start", "title", panel->title);
    append_y_ticks(panel, out);
    append_line(out, "axis", panel->x.from, panel->y.from, panel->x.to, panel->y.from);
    append_line(out, "axis", panel->x.from, panel->y.from, panel->x.from, panel->y.to);
    append_x_ticks(report, panel, out);
    append_text(out, middle, panel->y.from + 42.0, "middle", "", panel->x_label);
    double y = (panel->y.from + panel->y.to) / 2.0;
    string_buffer_append_format(
        out, "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
        panel->x.from - 56.0, y, panel->y_label);
}

/* A line through the rows of one batch; `value` picks what is drawn. */
static void append_path(const struct bench_report *report, const struct panel *panel, int64_t batch,
                        int colour, bool is_floor, struct string_buffer *out) {
    bool is_first = true;
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_row *row = &report->rows[i];
        double value = is_floor ? floor_of(panel, row) : measure_of(panel, row)->seconds.median * panel->unit;
        if (row->batch != batch || value <= 0.0) {
            continue;
        }
        if (is_first) {
            string_buffer_append_format(out, "<path class=\"%s s%d\" d=\"", is_floor ? "floor" : "line",
                                        colour);
        }
        string_buffer_append_format(out, "%s%.1f %.1f", is_first ? "M" : "L",
                                    pixel(&panel->x, (double)row->prompt_tokens), pixel(&panel->y, value));
        is_first = false;
    }
    if (!is_first) {
        string_buffer_append_text(out, "\"/>\n");
    }
}

static void append_points(const struct bench_report *report, const struct panel *panel, int64_t batch,
                          int colour, struct string_buffer *out) {
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_row *row = &report->rows[i];
        if (row->batch != batch) {
            continue;
        }
        const struct bench_seconds *seconds = &measure_of(panel, row)->seconds;
        double x = pixel(&panel->x, (double)row->prompt_tokens);
        string_buffer_append_format(out, "<path class=\"range s%d\" d=\"M%.1f %.1fV%.1f\"/>\n", colour, x,
                                    pixel(&panel->y, seconds->minimum * panel->unit),
                                    pixel(&panel->y, seconds->maximum * panel->unit));
        string_buffer_append_format(
            out,
            "<circle class=\"m s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%lld tokens, batch %lld: "
            "%.4g (floor %.4g)</title></circle>\n",
            colour, x, pixel(&panel->y, seconds->median * panel->unit), (long long)row->prompt_tokens,
            (long long)batch, seconds->median * panel->unit, floor_of(panel, row));
    }
}

static void append_legend(const struct panel *panel, int index, int64_t batch, struct string_buffer *out) {
    char label[48];
    char css_class[16];
    double x = panel->x.from + (double)(LEGEND_LEFT + index * LEGEND_STRIDE);
    snprintf(css_class, sizeof css_class, "line s%d", index % COLOURS);
    append_line(out, css_class, x, 75.0, x + 14.0, 75.0);
    snprintf(label, sizeof label, "%lld", (long long)batch);
    append_text(out, x + 19.0, 79.0, "start", "", label);
}

static void append_series(const struct bench_report *report, const struct panel *panel,
                          struct string_buffer *out) {
    /* The rows of the first length name all batches; prefill is the same for each. */
    int64_t first_length = report->rows[0].prompt_tokens;
    int index = 0;
    for (int i = 0; i < report->row_count && report->rows[i].prompt_tokens == first_length; i++) {
        int64_t batch = report->rows[i].batch;
        append_path(report, panel, batch, index % COLOURS, true, out);
        append_path(report, panel, batch, index % COLOURS, false, out);
        append_points(report, panel, batch, index % COLOURS, out);
        if (panel->is_prefill) {
            return;
        }
        if (index == 0) {
            append_text(out, panel->x.from, 79.0, "start", "", "batch");
        }
        append_legend(panel, index, batch, out);
        index++;
    }
}

static void append_panel(const struct bench_report *report, struct panel *panel, int column,
                         struct string_buffer *out) {
    double left = PANEL_LEFT + (double)(column * PANEL_STRIDE);
    panel->x.from = left;
    panel->x.to = left + PANEL_WIDTH;
    panel->y.from = PANEL_TOP + PANEL_HEIGHT;
    panel->y.to = PANEL_TOP;
    fit_axes(report, panel);
    append_axes(report, panel, out);
    append_series(report, panel, out);
}

enum status bench_plot_svg(const struct bench_report *report, struct string_buffer *out) {
    CHECK(report->row_count > 0, STATUS_BAD_ARGUMENT, "a benchmark without rows has nothing to plot");
    struct panel decode = {.title = "Decode", .x_label = "context (tokens)", .y_label = "ms per step"};
    struct panel prefill = {.title = "Prefill", .x_label = "prompt (tokens)", .y_label = "seconds"};
    decode.unit = 1e3;
    prefill.unit = 1.0;
    prefill.is_prefill = true;
    string_buffer_append_format(out,
                                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                                "width=\"%d\" height=\"%d\" role=\"img\">\n<title>sluice bench</title>\n",
                                PICTURE_WIDTH, PICTURE_HEIGHT, PICTURE_WIDTH, PICTURE_HEIGHT);
    string_buffer_append_text(out, style_sheet);
    string_buffer_append_text(out, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
    append_text(out, PANEL_LEFT, 28.0, "start", "",
                "Measured median with fastest and slowest repeat; dashed: "
                "the floor set by the machine\xE2\x80\x99s limits");
    append_panel(report, &decode, 0, out);
    append_panel(report, &prefill, 1, out);
    string_buffer_append_text(out, "</svg>\n");
    return string_buffer_check(out);
}
