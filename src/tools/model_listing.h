/*
 * A configuration file turned into a model and the list of its tensors, without weights.
 *
 * Drafting is off: the list holds the draft layer's tensors all the same. One thread.
 */
#ifndef SLUICE_TOOLS_MODEL_LISTING_H
#define SLUICE_TOOLS_MODEL_LISTING_H

#include "base/arena.h"
#include "base/status.h"
#include "model/model.h"

struct model_listing {
    struct arena arena; /* holds the model and the list */
    struct model *model;
    struct tensor_spec_list list;
};

/*
 * Reads a config.json. `probe` as for model_family.list_tensors: NULL where no weights are at hand. Owned:
 * model_listing_deinit, also of a zeroed struct.
 */
enum status model_listing_read(const char *config_path, const struct tensor_probe *probe,
                               struct model_listing *out);

void model_listing_deinit(struct model_listing *listing);

#endif
