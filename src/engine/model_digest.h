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
 * SHA-256 over the configuration; every file's name, size and time of last change; every tensor's name, type,
 * shape and place; all bytes of tensors up to 64 KiB (norms, biases, scales of small matrices: training moves
 * them all); and the beginning of every 16th bigger one. Does not read the whole checkpoint, which takes
 * minutes for a big one.
 *
 * So it notices whatever is written into a file, by the time, and another training of the same model under
 * files that a copy gave the same times, by the samples. It does not notice single bytes that were changed
 * with the file's time put back afterwards. A copy of a checkpoint has the same digest if it kept the times
 * (cp -p, rsync -t), and else one of its own.
 */
enum status model_digest_make(const struct json *config, const struct checkpoint *checkpoint,
                              uint8_t digest[HASH_SHA256_BYTES]);

#endif
