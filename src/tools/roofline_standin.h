#ifndef SLUICE_TOOLS_ROOFLINE_STANDIN_H
#define SLUICE_TOOLS_ROOFLINE_STANDIN_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/worker_pool.h"
struct roofline {
    double read_bytes_per_second, f32_flops_per_second, bf16_flops_per_second;
};
struct standin {
    const uint64_t *data;
    size_t words;
    uint64_t sums[64];
};
static inline void standin_read(void *context, size_t index, unsigned worker) {
    struct standin *s = context;
    uint64_t sum = 0;
    (void)worker;
    for (size_t i = 0; i < s->words; i++) {
        sum += s->data[index * s->words + i];
    }
    s->sums[index] = sum;
}
static inline enum status roofline_measure(struct worker_pool *pool, unsigned features, struct roofline *out) {
    (void)features;
    *out = (struct roofline){.f32_flops_per_second = 100e9, .bf16_flops_per_second = 200e9};
    struct standin s = {.words = 2 << 20};
    uint64_t *data = malloc(16 * s.words * 8);
    CHECK_MEMORY(data);
    memset(data, 1, 16 * s.words * 8);
    s.data = data;
    for (int r = 0; r < 4; r++) {
        double t = clock_seconds();
        worker_pool_run(pool, 16, standin_read, &s);
        double rate = (double)(16 * s.words * 8) / (clock_seconds() - t);
        out->read_bytes_per_second = rate > out->read_bytes_per_second ? rate : out->read_bytes_per_second;
    }
    free(data);
    return STATUS_OK;
}
#endif
