/*
 * What all ranks of a layout loaded, byte by byte, against the files and table 1.3 of spec parallelism.
 * Asserts.
 */
#ifndef SLUICE_TESTS_MODEL_RANK_TALLY_H
#define SLUICE_TESTS_MODEL_RANK_TALLY_H

#include "model/rank_loading.h"

/* T-5: all ranks' parts are every tensor of the files, each byte as often as it should be. */
void rank_tally_expect_whole(const struct rank_setting *setting, struct device *device,
                             struct stream *stream);

#endif
