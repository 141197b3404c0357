/*
 * Writes one safetensors file as a stream: the list of tensors first, then their bytes in that order.
 *
 * The file appears under its name only when it is finished; until then it is NAME.partial. One thread.
 */
#ifndef SLUICE_WEIGHTS_SAFETENSORS_WRITER_H
#define SLUICE_WEIGHTS_SAFETENSORS_WRITER_H

#include <stddef.h>

#include "base/status.h"
#include "weights/safetensors.h"

struct safetensors_writer;

/*
 * Starts `path` with a header of `count` tensors; offset and bytes of the entries are ignored. Names must be
 * distinct and valid UTF-8 (BAD_ARGUMENT). IO if the file cannot be made. Owned: finish or abort.
 */
enum status safetensors_writer_open(const char *path, const struct safetensors_entry *tensors, size_t count,
                                    struct safetensors_writer **out);

/* Appends payload; pieces may end anywhere. BAD_ARGUMENT beyond the announced bytes. */
enum status safetensors_writer_append(struct safetensors_writer *writer, const void *bytes, size_t length);

/*
 * Completes the file, gives it its name and nulls the pointer. BAD_ARGUMENT if bytes are missing, IO if
 * the disk did not take them; either way the writer is gone and no file is left.
 */
enum status safetensors_writer_finish(struct safetensors_writer **writer);

/* Drops the unfinished file and nulls the pointer. NULL inside is allowed. */
void safetensors_writer_abort(struct safetensors_writer **writer);

#endif
