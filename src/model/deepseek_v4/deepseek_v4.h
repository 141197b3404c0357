/*
 * The DeepSeek-V4 family: Flash, Pro and any configuration of their shape (spec deepseek-v4).
 *
 * deepseek_v4_config.c checks the configuration, deepseek_v4_tensors.c lists the tensors of
 * deepseek_v4_tensor_table.c, deepseek_v4_bind.c takes them, deepseek_v4_forward.c computes,
 * deepseek_v4_work.c counts. Everything here is private to these files.
 */
#ifndef SLUICE_MODEL_DEEPSEEK_V4_DEEPSEEK_V4_H
#define SLUICE_MODEL_DEEPSEEK_V4_DEEPSEEK_V4_H

#include "model/model.h"
#include "ops/moe_experts.h"
#include "ops/rope_table.h"
#include "tensor/weight.h"

extern const struct model_family deepseek_v4_family;

/* Compressed layers of this ratio overlap their blocks and choose entries by an indexer (spec 1.2). */
enum { RATIO_INDEXED = 4 };

/* How the checkpoint drafts. */
enum deepseek_v4_drafter {
    DRAFTER_NONE,
    DRAFTER_MTP,    /* one layer, spec 6.1 */
    DRAFTER_DSPARK, /* three block-drafting stages, spec 6.6: recognised, not run */
};

/* config.json, checked (spec 1.1). Letters in comments are the spec's. */
struct deepseek_v4_config {
    int64_t vocabulary_size; /* V */
    int64_t hidden_size;     /* D */
    int64_t layer_count;     /* L */
    int64_t head_count;      /* H */
    int64_t head_dim;        /* d */
    int64_t rotary_dim;      /* rd */
    int64_t q_rank;          /* Q */
    int64_t output_groups;   /* G */
    int64_t output_rank;     /* R */
    int64_t window;          /* positions, the current one included */
    int64_t index_head_count;
    int64_t index_head_dim;
    int64_t index_limit;  /* index_topk */
    int64_t stream_count; /* hc_mult */
    int64_t sinkhorn_iterations;
    int64_t expert_count; /* E */
    int64_t expert_picks; /* K */
    int64_t inner_size;   /* I */
    int64_t hash_layer_count;
    int64_t position_limit;
    double hyper_epsilon; /* hc_eps */
    double norm_epsilon;  /* rms_norm_eps */
    double routed_scaling;
    double swiglu_limit;
    double rope_theta;
    double compress_rope_theta;
    struct rope_scaling rope_scaling; /* of compressed layers; factor 1 for none */
    int64_t *ratios;                  /* [layer_count] */
    enum deepseek_v4_drafter drafter;
    int64_t dspark_stage_count;
    int64_t dspark_target_count; /* layers whose states the DSpark drafter reads */
    int64_t dspark_markov_rank;
    bool has_fp8_experts; /* expert_dtype; the files decide where they are at hand */
};

enum { DSPARK_STAGES = 3 };

/* Hyper-connection of one sublayer, or of a head. */
struct deepseek_v4_mix {
    struct weight mix;
    struct weight base;
    struct weight scale;
};

struct deepseek_v4_compressor {
    struct weight values; /* wkv */
    struct weight gate;   /* wgate */
    struct weight bias;   /* ape */
    struct weight norm;
    int raw_state;   /* index in the state table: ring of raw rows */
    int entry_state; /* index in the state table: entries */
};

struct deepseek_v4_indexer {
    struct weight queries; /* wq_b */
    struct weight head_weights;
    struct deepseek_v4_compressor compressor;
};

struct deepseek_v4_layer {
    int64_t ratio; /* 0: window only */
    bool is_hash_routed;
    struct deepseek_v4_mix attention_mix;
    struct deepseek_v4_mix ffn_mix;
    struct weight attention_norm;
    struct weight ffn_norm;
    struct weight sink;
    struct weight q_down; /* wq_a */
    struct weight q_norm;
    struct weight q_up; /* wq_b */
    struct weight kv;
    struct weight kv_norm;
    struct weight output_down;                /* wo_a */
    struct weight output_up;                  /* wo_b */
    struct deepseek_v4_compressor compressor; /* ratio != 0 */
    struct deepseek_v4_indexer indexer;       /* ratio == RATIO_INDEXED */
    struct weight router;
    struct weight router_bias;  /* not hash-routed */
    struct weight expert_table; /* hash-routed: I64 (vocabulary, picks) */
    struct weight shared_gate;
    struct weight shared_up;
    struct weight shared_down;
    struct weight *expert_gate; /* [expert_count]; data NULL for those of other ranks */
    struct weight *expert_up;
    struct weight *expert_down;
    int window_state; /* index in the state table */
};

/* The draft layer's own parts (spec 6.1). */
struct deepseek_v4_draft {
    struct deepseek_v4_layer layer;
    struct weight embedding_projection; /* e_proj */
    struct weight hidden_projection;    /* h_proj */
    struct weight embedding_norm;       /* enorm */
    struct weight hidden_norm;          /* hnorm */
    struct weight norm;
    struct deepseek_v4_mix head_mix;
};

struct deepseek_v4 {
    struct model base;
    struct deepseek_v4_config config;
    struct arena *arena;
    struct weight embedding;
    struct weight head;
    struct weight norm;
    struct deepseek_v4_mix head_mix;
    struct deepseek_v4_layer *layers; /* [layer_count]; no weights in those of other stages */
    struct deepseek_v4_draft draft;   /* deepseek_v4_has_draft */
    struct rope_table plain_rope;     /* layers of ratio 0 and the draft layer */
    struct rope_table compress_rope;  /* layers of other ratios */
    struct weight **bindings;         /* per tensor of the list: the weight it fills, or NULL */
    size_t binding_count;
};

static inline const struct deepseek_v4 *deepseek_v4_of(const struct model *model) {
    return (const struct deepseek_v4 *)(const void *)model;
}

/* Whether this stage runs the draft layer. */
static inline bool deepseek_v4_has_draft(const struct deepseek_v4 *model) {
    return model->base.draft_limit > 0 && model->base.stage.is_last;
}

enum status deepseek_v4_create(struct arena *arena, const struct json *config,
                               const struct model_request *request, struct model **out);
enum status deepseek_v4_config_parse(struct arena *arena, const struct json *config,
                                     struct deepseek_v4_config *out);
enum status deepseek_v4_list_tensors(struct model *model, const struct tensor_probe *probe,
                                     struct tensor_spec_list *list);
enum status deepseek_v4_bind(struct model *model, const struct tensor_spec_list *list,
                             const struct loaded_tensor *loaded);
enum status deepseek_v4_list_states(struct model *model, struct state_table *table);
void deepseek_v4_describe_boundary(const struct model *model, enum dtype activation, int64_t rows,
                                   struct boundary *out);
enum status deepseek_v4_forward_embed(const struct model *model, const struct step *step,
                                      struct boundary *boundary);
enum status deepseek_v4_forward_layers(const struct model *model, const struct step *step,
                                       struct boundary *boundary, int first, int end);
enum status deepseek_v4_forward_head(const struct model *model, const struct step *step,
                                     const struct boundary *boundary, const struct picked_rows *picked,
                                     struct tensor *logits);
enum status deepseek_v4_forward_draft(const struct model *model, const struct step *step,
                                      const struct boundary *in, const int32_t *in_rows,
                                      struct boundary *out);
enum status deepseek_v4_forward_draft_state(const struct model *model, const struct step *step,
                                            const struct boundary *in, const int32_t *in_rows);
enum status deepseek_v4_forward_draft_head(const struct model *model, const struct step *step,
                                           const struct boundary *boundary, const struct picked_rows *picked,
                                           struct tensor *logits);
double deepseek_v4_describe_row_work(const struct model *model, int64_t position, double *rows_read);
int deepseek_v4_list_expert(const struct model *model, int layer, int expert, struct memory_range *ranges);
void deepseek_v4_describe_attention_rows(const struct model *model, enum dtype activation, int layer,
                                         struct attention_rows *out);
void deepseek_v4_describe(const struct model *model, struct string_buffer *out);

#endif
