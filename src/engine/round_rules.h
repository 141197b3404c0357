/*
 * What the choice of a sequence's tokens needs, by slot, where tokens are chosen: a copy of its own, for the
 * sequence itself may live in another process.
 */
#ifndef SLUICE_ENGINE_ROUND_RULES_H
#define SLUICE_ENGINE_ROUND_RULES_H

#include "engine/round_plan.h"
#include "engine/token_counts.h"

struct slot_rules {
    uint32_t generation;
    struct sluice_sampling sampling; /* its bias is the one below */
    uint32_t choice_index;
    int32_t log_probability_count;        /* -1: none */
    int32_t prompt_log_probability_count; /* the same */
    struct sluice_logit_bias *bias;
    size_t bias_limit;
    struct token_counts *counts; /* NULL without penalties, else `count_memory` */
    struct token_counts count_memory;
    enum status status; /* why nothing can be chosen in this slot */
    char message[256];
};

/* Memory for counts is made here; that for biases when a sequence has more than any before. */
enum status slot_rules_init(struct slot_rules *rules, int64_t vocabulary_size);

/* Bytes that slot_rules_init allocates. */
size_t slot_rules_bytes(int64_t vocabulary_size);

/* A sequence begins: what it has so far is counted if a rule asks for that. Failures stay in the rules. */
void slot_rules_start(struct slot_rules *rules, const struct round_start *start);

/* Frees what the rules own. */
void slot_rules_deinit(struct slot_rules *rules);

#endif
