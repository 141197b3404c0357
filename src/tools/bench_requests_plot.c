/* Both axes are logarithmic where they span a decade; each point shows fastest and slowest repeat. */
#include <math.h>

#include "tools/bench_plot_parts.h"
#include "tools/bench_requests_report.h"

enum { PICTURE_WIDTH = 640, PICTURE_HEIGHT = 400, PANEL_WIDTH = 520, PANEL_HEIGHT = 230, LEGEND_STRIDE = 62 };

struct panel {
    struct plot_axis x;
    struct plot_axis y;
};

static struct panel make_panel(const struct bench_requests_report *report) {
    double low = INFINITY;
    double high = 0.0;
    struct panel panel = {.x = {.from = PLOT_LEFT, .to = PLOT_LEFT + PANEL_WIDTH},
                          .y = {.from = PLOT_TOP + PANEL_HEIGHT, .to = PLOT_TOP}};
    for (int i = 0; i < report->row_count; i++) {
        plot_widen(report->rows[i].tokens_per_second.minimum, &low, &high);
        plot_widen(report->rows[i].tokens_per_second.maximum, &low, &high);
    }
    plot_fit_x(&panel.x, (double)report->rows[0].concurrency,
               (double)report->rows[report->row_count - 1].concurrency);
    plot_fit_y(&panel.y, low, high);
    return panel;
}

static void append_setting(const struct bench_requests_report *report, const struct panel *panel, int setting,
                           struct string_buffer *out) {
    int colour = setting % PLOT_COLOURS;
    string_buffer_append_format(out, "<path class=\"line s%d\" d=\"", colour);
    for (int i = setting; i < report->row_count; i += report->setting_count) {
        const struct bench_requests_row *row = &report->rows[i];
        string_buffer_append_format(out, "%s%.1f %.1f", i == setting ? "M" : "L",
                                    plot_pixel(&panel->x, (double)row->concurrency),
                                    plot_pixel(&panel->y, row->tokens_per_second.median));
    }
    string_buffer_append_text(out, "\"/>\n");
    for (int i = setting; i < report->row_count; i += report->setting_count) {
        const struct bench_requests_row *row = &report->rows[i];
        char name[BENCH_SETTING_NAME_BYTES];
        double x = plot_pixel(&panel->x, (double)row->concurrency);
        bench_setting_name(&row->setting, name);
        string_buffer_append_format(out, "<path class=\"range s%d\" d=\"M%.1f %.1fV%.1f\"/>\n", colour, x,
                                    plot_pixel(&panel->y, row->tokens_per_second.minimum),
                                    plot_pixel(&panel->y, row->tokens_per_second.maximum));
        string_buffer_append_format(out,
                                    "<circle class=\"m s%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%lld "
                                    "requests, drafts %s: %.4g tokens/s</title></circle>\n",
                                    colour, x, plot_pixel(&panel->y, row->tokens_per_second.median),
                                    (long long)row->concurrency, name, row->tokens_per_second.median);
    }
}

enum status bench_requests_plot(const struct bench_requests_report *report, struct string_buffer *out) {
    static const struct plot_titles titles = {"Output", "requests at once", "tokens per second"};
    CHECK(report->row_count > 0, STATUS_BAD_ARGUMENT, "a benchmark without rows has nothing to plot");
    struct panel panel = make_panel(report);
    double last_label = -INFINITY;
    plot_begin(out, PICTURE_WIDTH, PICTURE_HEIGHT, "Measured median with fastest and slowest repeat");
    plot_append_frame(&panel.x, &panel.y, &titles, out);
    plot_append_text(out, PLOT_LEFT, 79.0, "start", "", "drafts");
    for (int i = 0; i < report->row_count; i += report->setting_count) {
        plot_append_x_tick(&panel.x, &panel.y, report->rows[i].concurrency, &last_label, out);
    }
    for (int s = 0; s < report->setting_count; s++) {
        char name[BENCH_SETTING_NAME_BYTES];
        bench_setting_name(&report->rows[s].setting, name);
        plot_append_legend(out, PLOT_LEFT + LEGEND_STRIDE * (s + 1), s % PLOT_COLOURS, name);
        append_setting(report, &panel, s, out);
    }
    return plot_end(out);
}
