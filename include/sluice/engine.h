/*
 * The engine: one loaded model on one device.
 *
 * An engine owns the weights, the state of its sessions and the memory of a step. Opening plans all of it;
 * nothing is allocated by a forward step. One thread at a time may use an engine and its sessions. Functions
 * that fail return a status; sluice_last_error has the sentence.
 */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_engine;

enum sluice_numerics {
    SLUICE_NUMERICS_IDEAL,  /* no activation rounding: for checks against golden logits */
    SLUICE_NUMERICS_NATIVE, /* the roundings the checkpoint was trained with */
};

struct sluice_engine_options {
    const char *model_directory; /* official checkpoint: config.json and safetensors; borrowed */
    const char *device;          /* "cpu"; borrowed */
    const char *cpu_features;    /* "auto", or the highest instruction set that kernels may use; borrowed */
    enum sluice_numerics numerics;
    int thread_count;       /* host threads of kernels; 0: the cores this process may use */
    int64_t context_tokens; /* longest session; 0: 4096 or the model's limit if that is less */
    int chunk_tokens;       /* most tokens of one forward step */
    int session_count;      /* sessions that may exist at once */
    int draft_limit; /* K_max: draft tokens a session may verify at once; 0: no MTP, no memory for it */
};

/* The defaults: "cpu", native, all cores, 4096 positions, steps of 512 tokens, one session, no drafting. */
struct sluice_engine_options sluice_engine_options_default(void);

/* What was loaded and planned. */
struct sluice_engine_facts {
    int64_t vocabulary_size;
    int64_t context_tokens;
    int layer_count;
    size_t tensor_count;
    size_t mapped_bytes; /* weights read in place from the files */
    size_t copied_bytes; /* weights copied to device memory */
    size_t state_bytes;  /* all sessions' state */
    size_t step_bytes;   /* activations and workspace of a step */
    double load_seconds; /* from the call to ready */
};

/*
 * Loads a checkpoint. The whole of it is checked first: BAD_CONFIG, BAD_CHECKPOINT, UNSUPPORTED name what
 * does not fit. Owned by the caller: sluice_engine_close.
 */
enum sluice_status sluice_engine_open(const struct sluice_engine_options *options,
                                      struct sluice_engine **out);

/* Frees everything; sessions must be gone. Nulls the pointer; NULL inside is allowed. */
void sluice_engine_close(struct sluice_engine **engine);

struct sluice_engine_facts sluice_engine_facts(const struct sluice_engine *engine);

#ifdef __cplusplus
}
#endif

#endif
