/*
 * Rows and results on their way between the ranks of whole experts: who has what, and how it lies in messages
 * (spec parallelism 5.2 to 5.4). For parallel/ only; parallel/expert_trip.h says when.
 *
 * Every rank learns all picks, so that who sends what to whom needs no further message. What comes in has the
 * order of rows in the step, so nothing depends on who comes first (E-6).
 */
#ifndef SLUICE_PARALLEL_EXPERT_ROUTES_H
#define SLUICE_PARALLEL_EXPERT_ROUTES_H

#include "comm/comm.h"
#include "ops/moe_experts.h"
#include "parallel/shard.h"
#include "parallel/step.h"

/* The experts of a layer, on all ranks. */
struct layer_experts {
    int layer; /* by number; the draft layer comes behind the model's */
    int64_t count;
};

/* Whole experts on several ranks, and who has which. Offsets are scratch of the step: other work uses it too.
 */
struct expert_routes {
    const struct step *step;
    int64_t rows; /* of the step, of all replicas */
    int64_t picks;
    size_t result_bytes;       /* of one (row, slot) */
    int32_t *owners;           /* host [rows * picks]: the rank that has the picked expert */
    struct row_shares shares;  /* rows that each rank has, where they are dealt out */
    size_t *send_offsets;      /* host [ranks + 1] */
    size_t *receive_offsets;   /* the same */
    bool computes_picked_only; /* a rank computes the rows that picked an expert of it, else all */
};

/* `experts`: the picks of all rows. In a dry run nobody has picked anything. */
enum status expert_routes_begin(const struct step *step, const struct moe_experts_args *args,
                                const struct tensor *experts, const struct layer_experts *layer,
                                struct expert_routes *out);

/*
 * Picks (all rows, picks) that this rank computes; the others are of no expert. Where experts lie in order
 * the bank leaves the others out.
 */
enum status expert_routes_keep_picks(const struct expert_routes *routes, struct tensor *experts);

/*
 * Collective. Own rows, args->x, start for the ranks that have some of their experts, once for each; args
 * gets what is computed here. At most every rank gets all own rows, and this one computes all rows: a dry run
 * has room for that. args->x may be of any type.
 */
enum status expert_routes_send_rows(const struct expert_routes *routes, struct moe_experts_args *args,
                                    struct comm_flight *flight);

/* Collective. `results` of the rows computed here, overwritten, start for the ranks that have the rows. */
enum status expert_routes_return_results(const struct expert_routes *routes, unsigned char *results,
                                         unsigned char *received, struct comm_flight *flight);

/* Results of own rows from where they came in, rank after rank, to their places. */
enum status expert_routes_place_results(const struct expert_routes *routes, const unsigned char *received,
                                        unsigned char *placed);

/*
 * Collective, where every rank has all rows: results that were computed here start for all others, from their
 * places through `packed`, of as many bytes; and those of others get to their places.
 */
enum status expert_routes_gather_results(const struct expert_routes *routes, unsigned char *placed,
                                         unsigned char *packed, struct comm_flight *flight);
enum status expert_routes_place_gathered(const struct expert_routes *routes, unsigned char *placed,
                                         unsigned char *packed);

#endif
