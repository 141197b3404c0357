/* The list of model families. */
#ifndef SLUICE_MODEL_MODEL_REGISTRY_H
#define SLUICE_MODEL_MODEL_REGISTRY_H

#include "model/model.h"

/*
 * The family of a parsed config.json by its model_type. UNSUPPORTED names the type and the known ones;
 * BAD_CONFIG if there is no model_type.
 */
enum status model_family_find(const struct json *config, const struct model_family **out);

#endif
