/*
 * What the processes of a job must have in common, and who they are (spec parallelism F-7, CFG-18, CFG-21).
 *
 * Each rank describes its program, checkpoint, configuration and arithmetic in lines of "key=value". All see
 * all descriptions, each with a digest that only who knows the job's secret can make, and come to the same
 * result, before weights are loaded.
 */
#ifndef SLUICE_ENGINE_RANK_IDENTITY_H
#define SLUICE_ENGINE_RANK_IDENTITY_H

#include "base/string_buffer.h"
#include "comm/comm.h"
#include "sluice/engine.h"

enum { RANK_NONCE_BYTES = 16 };

/* What digests are made with: the secret, empty if there is none, and what the leader drew for this time. */
struct rank_identity_key {
    const void *secret;
    size_t secret_bytes;
    uint8_t nonce[RANK_NONCE_BYTES];
};

/* Appends the lines for the checkpoint, device and numerics of the options. */
enum status rank_identity_describe(const struct sluice_engine_options *options, struct string_buffer *out);

/* BAD_CONFIG names the keys in which a rank's lines differ from those of rank 0, with both values. */
enum status rank_identity_compare(const char *leader, const char *other, int other_rank);

/*
 * Collective. All ranks' descriptions are like rank 0's; PEER_LOST names a rank whose digest is wrong,
 * BAD_CONFIG what differs. The same on every rank.
 */
enum status rank_identity_agree(struct comm *comm, const struct rank_identity_key *key,
                                const struct string_buffer *own);

#endif
