#include "server/metrics_stages.h"

#include <stdio.h>

#include "server/stage_links.h"

enum { LABEL_BYTES = 96 };

static void write_times(const struct metrics_text *text, const struct sluice_engine_stats *stats) {
    static const char name[] = "sluice:stage_seconds_total";
    metrics_text_describe(text, name, "counter",
                          "Time of a pipeline stage while steps were under way. Waits over all parts is the "
                          "share of bubbles.");
    for (int32_t i = 0; i < stats->stage_count; i++) {
        const struct sluice_stage_stats *stage = &stats->stages[i];
        const struct {
            const char *part;
            double seconds;
        } parts[] = {{"compute", stage->compute_seconds},
                     {"wait", stage->wait_seconds},
                     {"send", stage->send_seconds}};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            char labels[LABEL_BYTES];
            snprintf(labels, sizeof labels, ",stage=\"%d\",part=\"%s\"", (int)i, parts[k].part);
            metrics_text_sample(text, name, labels, parts[k].seconds);
        }
    }
}

static void write_links(const struct metrics_text *text, const struct sluice_engine_stats *stats) {
    static const char name[] = "sluice:link_bytes_total";
    struct stage_link links[STAGE_LINKS_MAX];
    size_t count = stage_links_list(stats, links);
    if (count > 0) {
        metrics_text_describe(text, name, "counter",
                              "Bytes that ranks of a stage sent to those of another, or of their own.");
    }
    for (size_t i = 0; i < count; i++) {
        char labels[LABEL_BYTES];
        snprintf(labels, sizeof labels, ",from=\"%d\",to=\"%d\",kind=\"%s\"", (int)links[i].from,
                 (int)links[i].to, links[i].kind);
        metrics_text_sample(text, name, labels, (double)links[i].bytes);
    }
}

static void write_experts(const struct metrics_text *text, const struct sluice_engine_stats *stats) {
    static const char *const names[] = {"sluice:expert_moves_total", "sluice:expert_imbalance"};
    static const char *const types[] = {"counter", "gauge"};
    static const char *const helps[] = {"Experts that a rank of a stage got of another.",
                                        "Rows that a stage's fullest rank computed in experts over the mean, "
                                        "when experts were last placed; 0: "
                                        "never."};
    for (size_t k = 0; k < 2 && stats->stages[0].relay_bytes > 0; k++) {
        metrics_text_describe(text, names[k], types[k], helps[k]);
        for (int32_t i = 0; i < stats->stage_count; i++) {
            const struct sluice_stage_stats *stage = &stats->stages[i];
            char labels[LABEL_BYTES];
            snprintf(labels, sizeof labels, ",stage=\"%d\"", (int)i);
            metrics_text_sample(text, names[k], labels,
                                k == 0 ? (double)stage->expert_moves : stage->expert_imbalance);
        }
    }
}

void metrics_write_stages(const struct metrics_text *text, const struct sluice_engine_stats *stats,
                          double imbalance) {
    write_times(text, stats);
    metrics_text_one(
        text, "sluice:stage_imbalance", "gauge",
        "What the slowest stage of the pipeline takes over the mean, by the cut of the layers; 0: "
        "not known yet.",
        imbalance);
    write_links(text, stats);
    write_experts(text, stats);
}
