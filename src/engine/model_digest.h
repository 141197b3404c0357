/*
 * What makes the bytes of a model's state: a digest for whatever keeps state longer than an engine lives.
 */
#ifndef SLUICE_ENGINE_MODEL_DIGEST_H
#define SLUICE_ENGINE_MODEL_DIGEST_H

#include "base/status.h"
#include "lib/hash.h"
#include "lib/json.h"
#include "weights/checkpoint.h"

/*
 * SHA-256 over the configuration, every tensor's name, type, shape and place, all bytes of tensors up to
 * 64 KiB (norms, biases, scales of small matrices: training moves them all), and the beginning of every 16th
 * bigger one. Does not read the whole checkpoint.
 */
enum status model_digest_make(const struct json *config, const struct checkpoint *checkpoint,
                              uint8_t digest[HASH_SHA256_BYTES]);

#endif
