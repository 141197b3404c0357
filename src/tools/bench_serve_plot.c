/* Left what comes out, right what it takes: medians, with a bar up to the 99th percentile. */
#include <math.h>

#include "tools/bench_plot_parts.h"
#include "tools/bench_serve_report.h"

enum { PICTURE_WIDTH = 960, PICTURE_HEIGHT = 400, PANEL_WIDTH = 370, PANEL_HEIGHT = 230, PANEL_STRIDE = 480 };

/* A curve of a panel. */
struct series {
    const char *name;
    double (*middle)(const struct bench_serve_row *row);
    double (*high)(const struct bench_serve_row *row);
};

struct panel {
    struct plot_titles titles;
    const struct series *series;
    int series_count;
    struct plot_axis x, y;
};

static double output_rate(const struct bench_serve_row *row) {
    return bench_rate((double)row->output_tokens, row->seconds);
}

static double first_token_median(const struct bench_serve_row *row) {
    return 1e3 * row->first_token.median;
}

static double first_token_high(const struct bench_serve_row *row) {
    return 1e3 * row->first_token.p99;
}

static double token_median(const struct bench_serve_row *row) {
    return 1e3 * row->token.median;
}

static double token_high(const struct bench_serve_row *row) {
    return 1e3 * row->token.p99;
}

/* What the rows of the picture have on their x axis: of a report with both kinds only the closed loop. */
static double x_of(const struct bench_serve_report *report, const struct bench_serve_row *row) {
    bool is_closed = report->rows[0].concurrency > 0;
    double x = is_closed ? (double)row->concurrency : row->request_rate;
    return row->completed_count > 0 ? x : 0.0;
}

static void fit_axes(const struct bench_serve_report *report, struct panel *panel) {
    double x_low = INFINITY;
    double x_high = 0.0;
    double y_low = INFINITY;
    double y_high = 0.0;
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_serve_row *row = &report->rows[i];
        double x = x_of(report, row);
        if (x > 0.0) {
            plot_widen(x, &x_low, &x_high);
        }
        for (int s = 0; s < panel->series_count && x > 0.0; s++) {
            double middle = panel->series[s].middle(row);
            if (middle > 0.0) {
                plot_widen(middle, &y_low, &y_high);
                plot_widen(panel->series[s].high(row), &y_low, &y_high);
            }
        }
    }
    /* A panel without values keeps its frame. */
    plot_fit_x(&panel->x, x_high > 0.0 ? x_low : 1.0, x_high > 0.0 ? x_high : 1.0);
    plot_fit_y(&panel->y, y_high > 0.0 ? y_low : 1.0, y_high > 0.0 ? y_high : 1.0);
}

static void append_path(const struct bench_serve_report *report, const struct panel *panel, int index,
                        struct string_buffer *out) {
    const struct series *series = &panel->series[index];
    const char *command = "M";
    string_buffer_append_format(out, "<path class=\"line s%d\" d=\"", index);
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_serve_row *row = &report->rows[i];
        double x = x_of(report, row);
        if (x > 0.0 && series->middle(row) > 0.0) {
            string_buffer_append_format(out, "%s%.1f %.1f", command, plot_pixel(&panel->x, x),
                                        plot_pixel(&panel->y, series->middle(row)));
            command = "L";
        }
    }
    string_buffer_append_text(out, "\"/>\n");
}

static void append_points(const struct bench_serve_report *report, const struct panel *panel, int index,
                          struct string_buffer *out) {
    const struct series *series = &panel->series[index];
    for (int i = 0; i < report->row_count; i++) {
        const struct bench_serve_row *row = &report->rows[i];
        double x = x_of(report, row);
        double middle = series->middle(row);
        if (x <= 0.0 || middle <= 0.0) {
            continue;
        }
        string_buffer_append_format(out, "<path class=\"range s%d\" d=\"M%.1f %.1fV%.1f\"/>\n", index,
                                    plot_pixel(&panel->x, x), plot_pixel(&panel->y, middle),
                                    plot_pixel(&panel->y, series->high(row)));
        string_buffer_append_format(
            out,
            "<circle class=\"m s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%g: %s %.4g</title></circle>\n",
            index, plot_pixel(&panel->x, x), plot_pixel(&panel->y, middle), x, series->name, middle);
    }
}

static void append_panel(const struct bench_serve_report *report, struct panel *panel, int column,
                         struct string_buffer *out) {
    double left = PLOT_LEFT + (double)(column * PANEL_STRIDE);
    double last_label = -INFINITY;
    panel->x.from = left;
    panel->x.to = left + PANEL_WIDTH;
    panel->y.from = PLOT_TOP + PANEL_HEIGHT;
    panel->y.to = PLOT_TOP;
    fit_axes(report, panel);
    plot_append_frame(&panel->x, &panel->y, &panel->titles, out);
    for (int i = 0; i < report->row_count; i++) {
        double x = x_of(report, &report->rows[i]);
        if (x >= 1.0) {
            plot_append_x_tick(&panel->x, &panel->y, (int64_t)x, &last_label, out);
        }
    }
    for (int s = 0; s < panel->series_count; s++) {
        append_path(report, panel, s, out);
        append_points(report, panel, s, out);
        if (panel->series_count > 1) {
            plot_append_legend(out, left + 10.0 + 170.0 * s, s, panel->series[s].name);
        }
    }
}

enum status bench_serve_plot(const struct bench_serve_report *report, struct string_buffer *out) {
    static const struct series throughput[] = {{"output tokens/s", output_rate, output_rate}};
    static const struct series times[] = {{"to the first token", first_token_median, first_token_high},
                                          {"per token after it", token_median, token_high}};
    CHECK(report->row_count > 0, STATUS_BAD_ARGUMENT, "a benchmark without rows has nothing to plot");
    const char *x = report->rows[0].concurrency > 0 ? "requests at once" : "requests per second asked";
    struct panel left = {
        .titles = {"Output", x, "tokens per second"}, .series = throughput, .series_count = 1};
    struct panel right = {.titles = {"Times", x, "ms"}, .series = times, .series_count = 2};
    plot_begin(out, PICTURE_WIDTH, PICTURE_HEIGHT, "Medians; bars reach up to the 99th percentile");
    append_panel(report, &left, 0, out);
    append_panel(report, &right, 1, out);
    return plot_end(out);
}
