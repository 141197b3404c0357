/* Ticks of x stand at the measured lengths. */
#include "tools/bench_plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/bench_plot_parts.h"

enum {
    PICTURE_WIDTH = 960,
    PICTURE_HEIGHT = 400,
    PANEL_WIDTH = 370,
    PANEL_HEIGHT = 230,
    PANEL_STRIDE = 480, /* from one panel to the next */
    LEGEND_LEFT = 46,
    LEGEND_STRIDE = 62,
};

/* One panel: which measure of the rows it shows, and its axes. */
struct panel {
    struct plot_titles titles;
    double unit; /* seconds times this are shown */
    bool is_prefill;
    struct plot_axis x;
    struct plot_axis y;
};

static const struct bench_measure *measure_of(const struct panel *panel, const struct bench_row *row) {
    return panel->is_prefill ? &row->prefill : &row->decode;
}

static double floor_of(const struct panel *panel, const struct bench_row *row) {
    const struct bench_measure *measure = measure_of(panel, row);
    return panel->unit * fmax(measure->bandwidth_floor_seconds, measure->flop_floor_seconds);
}

static void fit_axes(const struct bench_report *report, struct panel *panel) {
    double x_low = INFINITY;
    double x_high = 0.0;
    double y_low = INFINITY;
    double y_high = 0.0;
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_row *row = &report->rows[i];
        const struct bench_spread *seconds = &measure_of(panel, row)->seconds;
        plot_widen((double)row->prompt_tokens, &x_low, &x_high);
        plot_widen(seconds->minimum * panel->unit, &y_low, &y_high);
        plot_widen(seconds->maximum * panel->unit, &y_low, &y_high);
        if (floor_of(panel, row) > 0.0) {
            plot_widen(floor_of(panel, row), &y_low, &y_high);
        }
    }
    plot_fit_x(&panel->x, x_low, x_high);
    plot_fit_y(&panel->y, y_low, y_high);
}

static void append_axes(const struct bench_report *report, const struct panel *panel,
                        struct string_buffer *out) {
    double last_label = -INFINITY;
    plot_append_frame(&panel->x, &panel->y, &panel->titles, out);
    for (int i = 0; i < report->row_count; i++) {
        int64_t length = report->rows[i].prompt_tokens;
        if (i == 0 || report->rows[i - 1].prompt_tokens != length) {
            plot_append_x_tick(&panel->x, &panel->y, length, &last_label, out);
        }
    }
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
                                    plot_pixel(&panel->x, (double)row->prompt_tokens),
                                    plot_pixel(&panel->y, value));
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
        const struct bench_spread *seconds = &measure_of(panel, row)->seconds;
        double x = plot_pixel(&panel->x, (double)row->prompt_tokens);
        string_buffer_append_format(out, "<path class=\"range s%d\" d=\"M%.1f %.1fV%.1f\"/>\n", colour, x,
                                    plot_pixel(&panel->y, seconds->minimum * panel->unit),
                                    plot_pixel(&panel->y, seconds->maximum * panel->unit));
        string_buffer_append_format(
            out,
            "<circle class=\"m s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%lld tokens, batch %lld: "
            "%.4g (floor %.4g)</title></circle>\n",
            colour, x, plot_pixel(&panel->y, seconds->median * panel->unit), (long long)row->prompt_tokens,
            (long long)batch, seconds->median * panel->unit, floor_of(panel, row));
    }
}

static void append_legend(const struct panel *panel, int index, int64_t batch, struct string_buffer *out) {
    char label[48];
    snprintf(label, sizeof label, "%lld", (long long)batch);
    plot_append_legend(out, panel->x.from + (double)(LEGEND_LEFT + index * LEGEND_STRIDE),
                       index % PLOT_COLOURS, label);
}

static void append_series(const struct bench_report *report, const struct panel *panel,
                          struct string_buffer *out) {
    /* The rows of the first length name all batches; prefill is the same for each. */
    int64_t first_length = report->rows[0].prompt_tokens;
    int index = 0;
    for (int i = 0; i < report->row_count && report->rows[i].prompt_tokens == first_length; i++) {
        int64_t batch = report->rows[i].batch;
        append_path(report, panel, batch, index % PLOT_COLOURS, true, out);
        append_path(report, panel, batch, index % PLOT_COLOURS, false, out);
        append_points(report, panel, batch, index % PLOT_COLOURS, out);
        if (panel->is_prefill) {
            return;
        }
        if (index == 0) {
            plot_append_text(out, panel->x.from, 79.0, "start", "", "batch");
        }
        append_legend(panel, index, batch, out);
        index++;
    }
}

static void append_panel(const struct bench_report *report, struct panel *panel, int column,
                         struct string_buffer *out) {
    double left = PLOT_LEFT + (double)(column * PANEL_STRIDE);
    panel->x.from = left;
    panel->x.to = left + PANEL_WIDTH;
    panel->y.from = PLOT_TOP + PANEL_HEIGHT;
    panel->y.to = PLOT_TOP;
    fit_axes(report, panel);
    append_axes(report, panel, out);
    append_series(report, panel, out);
}

enum status bench_plot_svg(const struct bench_report *report, struct string_buffer *out) {
    CHECK(report->row_count > 0, STATUS_BAD_ARGUMENT, "a benchmark without rows has nothing to plot");
    struct panel decode = {.titles = {"Decode", "context (tokens)", "ms per step"}, .unit = 1e3};
    struct panel prefill = {.titles = {"Prefill", "prompt (tokens)", "seconds"}, .unit = 1.0};
    prefill.is_prefill = true;
    plot_begin(out, PICTURE_WIDTH, PICTURE_HEIGHT,
               "Measured median with fastest and slowest repeat; dashed: "
               "the floor set by the machine\xE2\x80\x99s limits");
    append_panel(report, &decode, 0, out);
    append_panel(report, &prefill, 1, out);
    return plot_end(out);
}
