/*
 * A model family: what the engine needs from one, as a table of functions.
 *
 * A family names no device, rank count or numerics mode. It is created from a parsed config.json, declares
 * its tensors, its state and what crosses a pipeline stage, and runs forward passes as calls of operations.
 * A model is immutable once bound; its forward functions may run on several threads with different steps.
 */
#ifndef SLUICE_MODEL_MODEL_H
#define SLUICE_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "lib/json.h"
#include "model/state_table.h"
#include "parallel/collectives.h"
#include "parallel/step.h"
#include "tensor/tensor.h"
#include "weights/tensor_spec.h"

/* What a stage hands to the next: named tensors with one row per token, all placed alike. */
enum { BOUNDARY_TENSORS_MAX = 4 };

struct boundary {
    int count;
    const char *names[BOUNDARY_TENSORS_MAX];
    struct tensor tensors[BOUNDARY_TENSORS_MAX];
    enum rows_layout layout; /* never ROWS_PARTIAL: no sum is owed over a boundary (parallelism P-12) */
    const struct row_shares *shares; /* of ROWS_SHARD */
};

/* The pipeline stage that a model object is for. */
struct model_stage {
    int first_layer;
    int end_layer; /* behind the last; a last stage may have no layers */
    bool is_first; /* looks token ids up */
    bool is_last;  /* has the head and, with drafting, the draft layer */
};

/* What the user asks of the model beyond its configuration. */
struct model_request {
    int draft_limit; /* K_max: most draft tokens a request may verify at once; 0: drafting off */
    const struct model_stage *stage; /* NULL: the whole model */
};

struct model_family;
struct partition_dependency; /* parallel/partition.h */

/* Facts that every family has. A family's own struct embeds this as its first member. */
struct model {
    const struct model_family *family;
    int64_t vocabulary_size;
    int64_t hidden_size;
    int64_t position_limit;      /* max_position_embeddings */
    int64_t expert_count;        /* routed experts of a layer; 0 if there are none */
    int64_t expert_picks;        /* of them, how many a token goes to */
    int64_t shared_expert_bytes; /* of a layer's experts that see every row, as published */
    int64_t first_expert;        /* experts of a layer that this rank has something of, once bound: first, */
    int64_t held_experts;        /* and how many */
    struct model_stage stage;
    int layer_count; /* of all stages, without draft layers */
    int draft_limit;
    bool has_draft_layer; /* in the checkpoint, whether drafting is on or not */
    /* Layers that read what an earlier one left, and no boundary carries: a cut leaves them together (spec
       parallelism P-8). NULL: there are none. */
    const struct partition_dependency *dependencies;
    int dependency_count;
};

/* A row of a step as attention wants it on every rank: bytes that are gathered, and what computing them takes
 * (spec parallelism 3.6, 3.7). */
struct attention_rows {
    size_t hidden_bytes;    /* the row itself, on which the first projections run, or */
    size_t projected_bytes; /* what these give; */
    size_t chosen_bytes;    /* the entries that it attends to */
    double operations;      /* of the first projections */
};

/* Memory that kernels read; of one weight or its scales. */
struct memory_range {
    const void *bytes;
    size_t length;
};

enum { EXPERT_RANGES_MAX = 8 };

struct model_family {
    const char *model_type; /* as in config.json */

    /* Checks the configuration and creates the model in `arena` (borrowed, must outlive it). */
    enum status (*create)(struct arena *arena, const struct json *config, const struct model_request *request,
                          struct model **out);

    /*
     * Declares every tensor of the checkpoint, whatever the stage: the files are checked as a whole. `probe`
     * NULL: storage as the configuration says (synth).
     */
    enum status (*list_tensors)(struct model *model, const struct tensor_probe *probe,
                                struct tensor_spec_list *list);

    /*
     * Takes the loaded tensors, one per record of the list that list_tensors made, or the parts of them that
     * this rank has: weights get the parts' rows, columns and leaves. INTERNAL if the stage lacks any.
     */
    enum status (*bind)(struct model *model, const struct tensor_spec_list *list,
                        const struct loaded_tensor *loaded);

    /* Declares what the stage's layers must remember of one sequence. */
    enum status (*list_states)(struct model *model, struct state_table *table);

    /* Names and shapes of the boundary for `rows` tokens; the tensors' memory is the caller's to fill in. */
    void (*describe_boundary)(const struct model *model, enum dtype activation, int64_t rows,
                              struct boundary *out);

    /* Token ids to the first boundary, which it writes. */
    enum status (*forward_embed)(const struct model *model, const struct step *step,
                                 struct boundary *boundary);

    /* Layers first..end-1, in place on the boundary; writes the layers' state. */
    enum status (*forward_layers)(const struct model *model, const struct step *step,
                                  struct boundary *boundary, int first, int end);

    /* logits: F32 (count, vocabulary) of picked rows of the last boundary, read in place. Reads no state. */
    enum status (*forward_head)(const struct model *model, const struct step *step,
                                const struct boundary *boundary, const struct picked_rows *picked,
                                struct tensor *logits);

    /*
     * One pass of the draft layer over the step's rows: the boundary row in_rows[i] of `in`, at row i's
     * position, with the token at the position after it (the step's token ids). in_rows: device I32, of this
     * rank's own rows: each goes on from a row of `in` that this rank has. Writes
     * the draft layer's state and `out`, which may serve as `in` of the next pass and may not be `in`.
     *
     * Position 0 is like any other: the token's embedding is not masked (spec deepseek-v4 6.1, as the
     * official code and the golden logits have it; parallelism M-6 tells of another engine).
     */
    enum status (*forward_draft)(const struct model *model, const struct step *step,
                                 const struct boundary *in, const int32_t *in_rows, struct boundary *out);

    /* The state rows alone, with the bits that forward_draft gives them (spec parallelism M-12). */
    enum status (*forward_draft_state)(const struct model *model, const struct step *step,
                                       const struct boundary *in, const int32_t *in_rows);

    /* As forward_head, for boundaries that forward_draft wrote: logits of the token two positions on. */
    enum status (*forward_draft_head)(const struct model *model, const struct step *step,
                                      const struct boundary *boundary, const struct picked_rows *picked,
                                      struct tensor *logits);

    /*
     * What a row at `position` costs beyond the products with weights, for floors and planning: returns
     * additions and multiplications of the stage's layers, draft layers excepted, and sets rows_read, one per
     * record of the state table, to the rows of that kind it reads (averages where that changes from row to
     * row).
     */
    double (*describe_row_work)(const struct model *model, int64_t position, double *rows_read);

    /* What ranks that share rows gather for the attention of a layer, by number (the draft layer comes behind
     * the others), per row of a step. */
    void (*describe_attention_rows)(const struct model *model, enum dtype activation, int layer,
                                    struct attention_rows *out);

    /* The weights of an expert of a layer, by its number (the draft layer comes behind the others). Returns
     * how many ranges; 0: none here. */
    int (*list_expert)(const struct model *model, int layer, int expert,
                       struct memory_range ranges[EXPERT_RANGES_MAX]);

    /* A sentence for `inspect`: layer kinds and sizes. Appends to `out`. */
    void (*describe)(const struct model *model, struct string_buffer *out);
};

#endif
