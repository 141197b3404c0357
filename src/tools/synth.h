/*
 * Writes a model directory of pseudo-random weights in the official format, for tests, benchmarks and plans.
 *
 * The weights depend on the tensors' names and shapes only: the same list gives the same bytes for any number
 * of threads and any shard size.
 */
#ifndef SLUICE_TOOLS_SYNTH_H
#define SLUICE_TOOLS_SYNTH_H

#include <stddef.h>

#include "base/status.h"
#include "weights/tensor_spec.h"

struct synth_request {
    const char *config_path; /* copied to config.json; read before anything is written */
    const char *directory;   /* made if it does not exist; its parent must */
    size_t shard_bytes;      /* 0: one file */
    unsigned thread_count;
};

/*
 * Writes all tensors of the list, by name, and the configuration. Holds some megabytes at a time, never a
 * whole checkpoint. BAD_ARGUMENT if the directory already holds weights; after a failure no weight file is
 * left.
 */
enum status synth_write(const struct synth_request *request, const struct tensor_spec_list *list);

/* The same with the list that the configuration's model family gives. */
enum status synth_write_model(const struct synth_request *request);

#endif
