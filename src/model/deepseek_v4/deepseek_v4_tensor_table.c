/* Placements and targets, row by row. */
#include "model/deepseek_v4/deepseek_v4_tensor_table.h"

#include "model/deepseek_v4/deepseek_v4.h"

#define REPLICATED PLACEMENT_REPLICATED, UNIT_ONE
#define BY_SINK PLACEMENT_SPLIT_ROWS, UNIT_SINK
#define BY_HEAD PLACEMENT_SPLIT_ROWS, UNIT_HEAD
#define BY_GROUP_ROWS PLACEMENT_SPLIT_ROWS, UNIT_GROUP
#define BY_GROUP_COLUMNS PLACEMENT_SPLIT_COLUMNS, UNIT_GROUP
#define BY_BLOCK_ROWS PLACEMENT_SPLIT_ROWS, UNIT_BLOCK
#define BY_BLOCK_COLUMNS PLACEMENT_SPLIT_COLUMNS, UNIT_BLOCK
#define LAYER(field) offsetof(struct deepseek_v4_layer, field)
#define DRAFT(field) offsetof(struct deepseek_v4_draft, field)
#define MODEL(field) offsetof(struct deepseek_v4, field)

static const struct tensor_row layer_rows[] = {
    {"hc_attn_fn", STORAGE_F32, DIM_MIXES, DIM_STREAMS_HIDDEN, REPLICATED, ALWAYS, LAYER(attention_mix.mix)},
    {"hc_attn_base", STORAGE_F32, DIM_MIXES, DIM_NONE, REPLICATED, ALWAYS, LAYER(attention_mix.base)},
    {"hc_attn_scale", STORAGE_F32, DIM_THREE, DIM_NONE, REPLICATED, ALWAYS, LAYER(attention_mix.scale)},
    {"hc_ffn_fn", STORAGE_F32, DIM_MIXES, DIM_STREAMS_HIDDEN, REPLICATED, ALWAYS, LAYER(ffn_mix.mix)},
    {"hc_ffn_base", STORAGE_F32, DIM_MIXES, DIM_NONE, REPLICATED, ALWAYS, LAYER(ffn_mix.base)},
    {"hc_ffn_scale", STORAGE_F32, DIM_THREE, DIM_NONE, REPLICATED, ALWAYS, LAYER(ffn_mix.scale)},
    {"attn_norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, LAYER(attention_norm)},
    {"ffn_norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, LAYER(ffn_norm)},
    {"attn.attn_sink", STORAGE_F32, DIM_HEADS, DIM_NONE, BY_SINK, ALWAYS, LAYER(sink)},
    {"attn.wq_a.weight", STORAGE_FP8, DIM_Q_RANK, DIM_HIDDEN, REPLICATED, ALWAYS, LAYER(q_down)},
    {"attn.q_norm.weight", STORAGE_BF16, DIM_Q_RANK, DIM_NONE, REPLICATED, ALWAYS, LAYER(q_norm)},
    {"attn.wq_b.weight", STORAGE_FP8, DIM_HEADS_ALL, DIM_Q_RANK, BY_HEAD, ALWAYS, LAYER(q_up)},
    {"attn.wkv.weight", STORAGE_FP8, DIM_HEAD, DIM_HIDDEN, REPLICATED, ALWAYS, LAYER(kv)},
    {"attn.kv_norm.weight", STORAGE_BF16, DIM_HEAD, DIM_NONE, REPLICATED, ALWAYS, LAYER(kv_norm)},
    {"attn.wo_a.weight", STORAGE_FP8, DIM_OUTPUT_RANK_ALL, DIM_GROUP_INPUT, BY_GROUP_ROWS, ALWAYS,
     LAYER(output_down)},
    {"attn.wo_b.weight", STORAGE_FP8, DIM_HIDDEN, DIM_OUTPUT_RANK_ALL, BY_GROUP_COLUMNS, ALWAYS,
     LAYER(output_up)},
    {"attn.compressor.ape", STORAGE_F32, DIM_RATIO, DIM_COMPRESSOR, REPLICATED, IF_COMPRESSED,
     LAYER(compressor.bias)},
    {"attn.compressor.wkv.weight", STORAGE_BF16, DIM_COMPRESSOR, DIM_HIDDEN, REPLICATED, IF_COMPRESSED,
     LAYER(compressor.values)},
    {"attn.compressor.wgate.weight", STORAGE_BF16, DIM_COMPRESSOR, DIM_HIDDEN, REPLICATED, IF_COMPRESSED,
     LAYER(compressor.gate)},
    {"attn.compressor.norm.weight", STORAGE_BF16, DIM_HEAD, DIM_NONE, REPLICATED, IF_COMPRESSED,
     LAYER(compressor.norm)},
    {"attn.indexer.wq_b.weight", STORAGE_FP8, DIM_INDEX_ALL, DIM_Q_RANK, REPLICATED, IF_INDEXED,
     LAYER(indexer.queries)},
    {"attn.indexer.weights_proj.weight", STORAGE_BF16, DIM_INDEX_HEADS, DIM_HIDDEN, REPLICATED, IF_INDEXED,
     LAYER(indexer.head_weights)},
    {"attn.indexer.compressor.ape", STORAGE_F32, DIM_RATIO, DIM_INDEX_COMPRESSOR, REPLICATED, IF_INDEXED,
     LAYER(indexer.compressor.bias)},
    {"attn.indexer.compressor.wkv.weight", STORAGE_BF16, DIM_INDEX_COMPRESSOR, DIM_HIDDEN, REPLICATED,
     IF_INDEXED, LAYER(indexer.compressor.values)},
    {"attn.indexer.compressor.wgate.weight", STORAGE_BF16, DIM_INDEX_COMPRESSOR, DIM_HIDDEN, REPLICATED,
     IF_INDEXED, LAYER(indexer.compressor.gate)},
    {"attn.indexer.compressor.norm.weight", STORAGE_BF16, DIM_INDEX, DIM_NONE, REPLICATED, IF_INDEXED,
     LAYER(indexer.compressor.norm)},
    {"ffn.gate.weight", STORAGE_BF16, DIM_EXPERTS, DIM_HIDDEN, REPLICATED, ALWAYS, LAYER(router)},
    {"ffn.gate.bias", STORAGE_F32, DIM_EXPERTS, DIM_NONE, REPLICATED, IF_SCORE_ROUTED, LAYER(router_bias)},
    {"ffn.gate.tid2eid", STORAGE_TABLE, DIM_VOCABULARY, DIM_PICKS, REPLICATED, IF_HASH_ROUTED,
     LAYER(expert_table)},
    {"ffn.shared_experts.w1.weight", STORAGE_FP8, DIM_INNER, DIM_HIDDEN, BY_BLOCK_ROWS, ALWAYS,
     LAYER(shared_gate)},
    {"ffn.shared_experts.w3.weight", STORAGE_FP8, DIM_INNER, DIM_HIDDEN, BY_BLOCK_ROWS, ALWAYS,
     LAYER(shared_up)},
    {"ffn.shared_experts.w2.weight", STORAGE_FP8, DIM_HIDDEN, DIM_INNER, BY_BLOCK_COLUMNS, ALWAYS,
     LAYER(shared_down)},
};

const struct expert_row deepseek_v4_expert_rows[EXPERT_TENSORS] = {
    {"w1", DIM_INNER, DIM_HIDDEN, BY_BLOCK_ROWS, LAYER(expert_gate)},
    {"w3", DIM_INNER, DIM_HIDDEN, BY_BLOCK_ROWS, LAYER(expert_up)},
    {"w2", DIM_HIDDEN, DIM_INNER, BY_BLOCK_COLUMNS, LAYER(expert_down)},
};

static const struct tensor_row draft_rows[] = {
    {"e_proj.weight", STORAGE_FP8, DIM_HIDDEN, DIM_HIDDEN, REPLICATED, ALWAYS, DRAFT(embedding_projection)},
    {"h_proj.weight", STORAGE_FP8, DIM_HIDDEN, DIM_HIDDEN, REPLICATED, ALWAYS, DRAFT(hidden_projection)},
    {"enorm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, DRAFT(embedding_norm)},
    {"hnorm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, DRAFT(hidden_norm)},
    {"norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, DRAFT(norm)},
    {"hc_head_fn", STORAGE_F32, DIM_STREAMS, DIM_STREAMS_HIDDEN, REPLICATED, ALWAYS, DRAFT(head_mix.mix)},
    {"hc_head_base", STORAGE_F32, DIM_STREAMS, DIM_NONE, REPLICATED, ALWAYS, DRAFT(head_mix.base)},
    {"hc_head_scale", STORAGE_F32, DIM_ONE, DIM_NONE, REPLICATED, ALWAYS, DRAFT(head_mix.scale)},
};

static const struct tensor_row dspark_first_rows[] = {
    {"main_proj.weight", STORAGE_FP8, DIM_HIDDEN, DIM_TARGETS_HIDDEN, REPLICATED, ALWAYS, 0},
    {"main_norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, 0},
};

static const struct tensor_row dspark_last_rows[] = {
    {"norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, 0},
    {"hc_head_fn", STORAGE_F32, DIM_STREAMS, DIM_STREAMS_HIDDEN, REPLICATED, ALWAYS, 0},
    {"hc_head_base", STORAGE_F32, DIM_STREAMS, DIM_NONE, REPLICATED, ALWAYS, 0},
    {"hc_head_scale", STORAGE_F32, DIM_ONE, DIM_NONE, REPLICATED, ALWAYS, 0},
    {"markov_head.markov_w1.weight", STORAGE_BF16, DIM_VOCABULARY, DIM_MARKOV, REPLICATED, ALWAYS, 0},
    {"markov_head.markov_w2.weight", STORAGE_BF16, DIM_VOCABULARY, DIM_MARKOV, REPLICATED, ALWAYS, 0},
    {"confidence_head.proj.weight", STORAGE_BF16, DIM_ONE, DIM_HIDDEN_MARKOV, REPLICATED, ALWAYS, 0},
};

const struct model_row deepseek_v4_model_rows[MODEL_TENSORS] = {
    {{"embed.weight", STORAGE_BF16, DIM_VOCABULARY, DIM_HIDDEN, PLACEMENT_SPLIT_VOCABULARY, UNIT_ONE, ALWAYS,
      MODEL(embedding)},
     STAGE_FIRST_AND_DRAFT},
    {{"head.weight", STORAGE_BF16, DIM_VOCABULARY, DIM_HIDDEN, PLACEMENT_SPLIT_VOCABULARY, UNIT_ONE, ALWAYS,
      MODEL(head)},
     STAGE_LAST},
    {{"norm.weight", STORAGE_BF16, DIM_HIDDEN, DIM_NONE, REPLICATED, ALWAYS, MODEL(norm)}, STAGE_LAST},
    {{"hc_head_fn", STORAGE_F32, DIM_STREAMS, DIM_STREAMS_HIDDEN, REPLICATED, ALWAYS, MODEL(head_mix.mix)},
     STAGE_LAST},
    {{"hc_head_base", STORAGE_F32, DIM_STREAMS, DIM_NONE, REPLICATED, ALWAYS, MODEL(head_mix.base)},
     STAGE_LAST},
    {{"hc_head_scale", STORAGE_F32, DIM_ONE, DIM_NONE, REPLICATED, ALWAYS, MODEL(head_mix.scale)},
     STAGE_LAST},
};

#define TABLE(rows) \
    { rows, sizeof rows / sizeof rows[0] }

const struct tensor_table deepseek_v4_layer_table = TABLE(layer_rows);
const struct tensor_table deepseek_v4_draft_table = TABLE(draft_rows);
const struct tensor_table deepseek_v4_dspark_first_table = TABLE(dspark_first_rows);
const struct tensor_table deepseek_v4_dspark_last_table = TABLE(dspark_last_rows);
