/*
 * What layers, head and draft layer take on this machine: the start-up profile of spec parallelism P-4.
 *
 * One rank measures, with its threads, before weights are loaded; the others take the cut that comes of it.
 * It opens the model once more, as if it were alone, with weights in the files' map, state for a few
 * sequences and a small step, and closes it again: nothing is loaded that the ranks do not read later, and
 * memory is below what they will have. Layers whose weights and states count the same are measured once: the
 * first of each kind.
 *
 * Steps are those of the cut's design point: as many sequences and drafts as asked for, half a context in,
 * 1024 tokens at most. If there are more than 32 sequences, or a layer would read more than 512 MB or compute
 * more than 4e9 operations, fewer run, and a single one besides: from what both read and compute follow
 * seconds per byte and per operation of each kind, and from these the step's.
 *
 * What is not measured: other ranks that use the same memory at the same time, and how matrices are cut
 * between the ranks of a stage, which is taken to leave proportions as they are.
 */
#ifndef SLUICE_ENGINE_STAGE_PROBE_H
#define SLUICE_ENGINE_STAGE_PROBE_H

#include "engine/stage_bytes.h"
#include "engine/stage_point.h"
#include "sluice/engine.h"

struct stage_probe {
    const struct sluice_engine_options *options; /* with the defaults worked out */
    const struct model *model;                   /* the whole one; need not be bound */
    int thread_count;
};

/*
 * Seconds of each of `count` points; `probe` is a struct stage_probe, as a stage_meter has it
 * (engine/stage_cut.h). costs[i].layers: [layer_count], the caller's. UNSUPPORTED where the
 * device does not read the files' map: a layer would have to be copied to be measured.
 */
enum status stage_probe_measure(void *probe, const struct stage_bytes *bytes,
                                const struct stage_point *points, int count, struct stage_costs *costs);

/* The point that is run in place of one that is too large. */
struct stage_point stage_probe_reduce(const struct stage_probe *probe, const struct stage_bytes *bytes,
                                      const struct stage_point *point);

/*
 * Seconds of `wanted`, from two smaller steps with less of both: a step takes its bytes and its operations
 * times what each of them takes. Where only a time below 0 would do for one of them, all is put down to the
 * other, and the larger of both steps counts.
 */
double stage_probe_extrapolate(const struct step_work *small, double small_seconds,
                               const struct step_work *large, double large_seconds,
                               const struct step_work *wanted);

/*
 * Bytes and operations per second of two steps, of which `small` reads more for what it computes. What cannot
 * be told apart is at least what a step has of it over all its time.
 */
void stage_probe_split(const struct step_work *small, double small_seconds, const struct step_work *large,
                       double large_seconds, double *bytes_per_second, double *operations_per_second);

#endif
