/* Checkpoints with faults: a copy of a model directory in which something was changed. Asserts. */
#ifndef SLUICE_TESTS_SUPPORT_CHECKPOINT_EDIT_H
#define SLUICE_TESTS_SUPPORT_CHECKPOINT_EDIT_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes written over a tensor's own. */
struct checkpoint_patch {
    const char *name;
    size_t offset;
    const void *bytes;
    size_t count;
};

/* What the copy differs in; a zeroed struct changes nothing. */
struct checkpoint_edit {
    const char *left_out;      /* fnmatch pattern of tensors that are left out; NULL: none */
    bool widens_scales;        /* E8M0 scales become F32 with the same values */
    const char *const *extras; /* NULL-terminated names of further tensors (BF16, two zeros); NULL: none */
    const struct checkpoint_patch *patches;
    size_t patch_count;
    size_t shard_bytes; /* 0: one file */
};

/* Writes weights and config.json of the model directory `from` into the existing, empty directory `to`. */
void checkpoint_copy_edited(const char *from, const char *to, const struct checkpoint_edit *edit);

#endif
