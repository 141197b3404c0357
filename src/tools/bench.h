/*
 * The offline benchmark: prefill and decode measured apart, each beside its floor.
 *
 * For each prompt length, prompts of random tokens are taken in; then, for each batch size, so many
 * sequences decode from there on, one token each a step. Everything runs through the engine's executor, with
 * logits for every decoded token and without a sampler. One thread.
 */
#ifndef SLUICE_TOOLS_BENCH_H
#define SLUICE_TOOLS_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "kernelcheck/roofline.h"
#include "model/step_work.h"
#include "sluice/engine.h"
#include "tools/bench_numbers.h"

struct bench_request {
    /* Directory, device, numerics, features, threads, chunk; the rest is worked out. */
    struct sluice_engine_options engine;
    struct bench_numbers prompt_tokens; /* ascending, each at least 1 */
    struct bench_numbers batches;       /* each at least 1 */
    int64_t gen_tokens;                 /* steps of one decode measurement, at least 1 */
    int repeats;                        /* at least 1 */
    uint64_t seed;                      /* of the tokens */
};

/* Bytes that the first rank sends to the others of its tensor group; zeros with one rank. */
struct bench_sent {
    double sums;
    double gathers;
    double exchanges;
};

/* What was measured, what it takes at least, and the share of the machine's limits that was reached. */
struct bench_measure {
    struct bench_spread seconds;
    struct bench_sent sent;
    struct step_work work;
    double
        read_bytes_per_second; /* the machine's read bandwidth before and after: their mean; 0: not taken */
    double bandwidth_floor_seconds; /* the bytes at that bandwidth or, where it was not taken, the report's */
    double flop_floor_seconds;      /* the operations at its peak */
};

struct bench_row {
    int64_t prompt_tokens; /* and so the context that decoding starts from */
    int64_t batch;
    struct bench_measure prefill; /* of one whole prompt */
    struct bench_measure decode;  /* of one step */
    size_t peak_resident_bytes;   /* of the process so far */
};

struct bench_report {
    struct sluice_engine_facts facts;
    struct roofline limits;
    double peak_flops;     /* the limit that operations of this numerics mode have */
    unsigned thread_count; /* of all ranks together */
    unsigned cpu_features;
    int tensor; /* ranks */
    int chunk_tokens;
    int64_t gen_tokens;
    int repeats;
    double large_page_fraction; /* of mapped files, at the end: small pages are slower to read */
    struct string_buffer model_directory;
    struct string_buffer model_description;
    struct bench_row *rows; /* prompt by prompt, then batch by batch */
    int row_count;
};

/* Measures the machine with `thread_count` threads (0: the cores allowed); `cpu_features` as in
 * --cpu-features.
 */
enum status bench_measure_limits(unsigned thread_count, const char *cpu_features, unsigned *used_features,
                                 unsigned *used_threads, struct roofline *out);

/*
 * Loads the model and measures all rows, on one stage. With several ranks floors are those of one that does
 * it all with as many threads. Owned: bench_report_deinit, also of a zeroed struct.
 */
enum status bench_run(const struct bench_request *request, struct bench_report *out);

void bench_report_deinit(struct bench_report *report);

/* Share of a limit that was reached: floor over measured time; 0 where either is unknown. */
double bench_fraction(double floor_seconds, double seconds);

#endif
