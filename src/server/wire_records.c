/* Each field once, for writing and for reading. */
#include "server/wire_records.h"

static void visit_sampling(struct wire_codec *codec, struct sluice_sampling *sampling) {
    sampling->temperature = wire_f64(codec, sampling->temperature);
    sampling->top_k = wire_int(codec, sampling->top_k);
    sampling->top_p = wire_f64(codec, sampling->top_p);
    sampling->min_p = wire_f64(codec, sampling->min_p);
    sampling->repetition_penalty = wire_f64(codec, sampling->repetition_penalty);
    sampling->presence_penalty = wire_f64(codec, sampling->presence_penalty);
    sampling->frequency_penalty = wire_f64(codec, sampling->frequency_penalty);
    sampling->logit_bias =
        wire_array(codec, sampling->logit_bias, &sampling->logit_bias_count, sizeof *sampling->logit_bias);
    sampling->seed = wire_u64(codec, sampling->seed);
}

static void visit_options(struct wire_codec *codec, struct sluice_request_options *options) {
    options->prompt = wire_array(codec, options->prompt, &options->prompt_count, sizeof *options->prompt);
    options->output_prefix_count = wire_size(codec, options->output_prefix_count);
    visit_sampling(codec, &options->sampling);
    options->choice_index = (uint32_t)wire_u64(codec, options->choice_index);
    options->token_limit = wire_i64(codec, options->token_limit);
    options->stop_tokens =
        wire_array(codec, options->stop_tokens, &options->stop_token_count, sizeof *options->stop_tokens);
    options->log_probability_count = wire_int(codec, options->log_probability_count);
    options->prompt_log_probability_count = wire_int(codec, options->prompt_log_probability_count);
    options->priority = wire_int(codec, options->priority);
    options->timeout_seconds = wire_f64(codec, options->timeout_seconds);
    options->draft_limit = wire_int(codec, options->draft_limit);
    options->skips_prefix_cache = wire_bool(codec, options->skips_prefix_cache);
}

static void visit_rules(struct wire_codec *codec, struct service_rules *rules) {
    rules->grammar = (enum service_grammar)wire_choice(codec, (int)rules->grammar, SERVICE_GRAMMAR_TOOLS);
    rules->grammar_text = wire_text(codec, rules->grammar_text);
    rules->is_grammar_optional = wire_bool(codec, rules->is_grammar_optional);
    rules->starts_in_reasoning = wire_bool(codec, rules->starts_in_reasoning);
    rules->stops = wire_texts(codec, rules->stops, &rules->stop_count);
    rules->min_tokens = wire_size(codec, rules->min_tokens);
    rules->allowed_tokens =
        wire_array(codec, rules->allowed_tokens, &rules->allowed_token_count, sizeof *rules->allowed_tokens);
    rules->bad_words = wire_texts(codec, rules->bad_words, &rules->bad_word_count);
}

static void visit_request(struct wire_codec *codec, struct service_request *request) {
    visit_options(codec, &request->options);
    visit_rules(codec, &request->rules);
}

/* What is read must fit together: readers walk `top` by the counts. */
static bool is_consistent(const struct wire_tokens *tokens, size_t top_count_count) {
    size_t total = 0;
    for (size_t i = 0; i < top_count_count; i++) {
        total += tokens->top_counts[i];
    }
    return (tokens->record_count == 0 || tokens->record_count == tokens->count) &&
           top_count_count == tokens->record_count && total == tokens->top_total;
}

static void visit_tokens(struct wire_codec *codec, struct wire_tokens *tokens) {
    size_t top_count_count = tokens->record_count;
    tokens->ids = wire_array(codec, tokens->ids, &tokens->count, sizeof *tokens->ids);
    tokens->chosen = wire_array(codec, tokens->chosen, &tokens->record_count, sizeof *tokens->chosen);
    tokens->top_counts = wire_array(codec, tokens->top_counts, &top_count_count, sizeof *tokens->top_counts);
    tokens->top = wire_array(codec, tokens->top, &tokens->top_total, sizeof *tokens->top);
    if (!is_consistent(tokens, top_count_count)) {
        codec->is_failed = true;
        *tokens = (struct wire_tokens){0};
    }
}

static void visit_state(struct wire_codec *codec, struct sluice_request_state *state) {
    state->phase = (enum sluice_request_phase)wire_choice(codec, (int)state->phase, SLUICE_REQUEST_FINISHED);
    state->finish_reason =
        (enum sluice_finish_reason)wire_choice(codec, (int)state->finish_reason, SLUICE_FINISH_ERROR);
    state->status = (enum sluice_status)wire_choice(codec, (int)state->status, SLUICE_PEER_LOST);
    state->prompt_tokens_done = wire_size(codec, state->prompt_tokens_done);
    state->cached_prompt_tokens = wire_size(codec, state->cached_prompt_tokens);
    state->token_count = wire_size(codec, state->token_count);
    state->verified_drafts = wire_size(codec, state->verified_drafts);
    state->accepted_drafts = wire_size(codec, state->accepted_drafts);
    state->preemptions = wire_size(codec, state->preemptions);
    state->queue_seconds = wire_f64(codec, state->queue_seconds);
    state->first_token_seconds = wire_f64(codec, state->first_token_seconds);
    state->last_token_seconds = wire_f64(codec, state->last_token_seconds);
}

static void visit_update(struct wire_codec *codec, struct wire_update *update) {
    visit_tokens(codec, &update->tokens);
    visit_tokens(codec, &update->prompt_tokens);
    visit_state(codec, &update->state);
    update->message = wire_text(codec, update->message);
}

static void visit_ledger(struct wire_codec *codec, struct sluice_memory_ledger *memory) {
    memory->mapped_weight_bytes = wire_size(codec, memory->mapped_weight_bytes);
    memory->copied_weight_bytes = wire_size(codec, memory->copied_weight_bytes);
    memory->slot_state_bytes = wire_size(codec, memory->slot_state_bytes);
    memory->snapshot_bytes = wire_size(codec, memory->snapshot_bytes);
    memory->page_state_bytes = wire_size(codec, memory->page_state_bytes);
    memory->step_bytes = wire_size(codec, memory->step_bytes);
    memory->draft_bytes = wire_size(codec, memory->draft_bytes);
    memory->host_bytes = wire_size(codec, memory->host_bytes);
    memory->page_count = wire_int(codec, memory->page_count);
    memory->page_tokens = wire_int(codec, memory->page_tokens);
    memory->token_capacity = wire_i64(codec, memory->token_capacity);
}

static void visit_facts(struct wire_codec *codec, struct sluice_engine_facts *facts) {
    facts->vocabulary_size = wire_i64(codec, facts->vocabulary_size);
    facts->context_tokens = wire_i64(codec, facts->context_tokens);
    facts->layer_count = wire_int(codec, facts->layer_count);
    facts->sequence_limit = wire_int(codec, facts->sequence_limit);
    facts->draft_limit = wire_int(codec, facts->draft_limit);
    facts->has_draft_layer = wire_bool(codec, facts->has_draft_layer);
    facts->tensor_count = wire_size(codec, facts->tensor_count);
    facts->stage_imbalance = wire_f64(codec, facts->stage_imbalance);
    facts->load_seconds = wire_f64(codec, facts->load_seconds);
    visit_ledger(codec, &facts->memory);
}

static void visit_counters(struct wire_codec *codec, int64_t *counters, size_t count) {
    for (size_t i = 0; i < count; i++) {
        counters[i] = wire_i64(codec, counters[i]);
    }
}

static void visit_stage(struct wire_codec *codec, struct sluice_stage_stats *stage) {
    stage->compute_seconds = wire_f64(codec, stage->compute_seconds);
    stage->wait_seconds = wire_f64(codec, stage->wait_seconds);
    stage->send_seconds = wire_f64(codec, stage->send_seconds);
    stage->boundary_bytes = wire_i64(codec, stage->boundary_bytes);
    stage->plan_bytes = wire_i64(codec, stage->plan_bytes);
    stage->feedback_bytes = wire_i64(codec, stage->feedback_bytes);
    stage->sum_bytes = wire_i64(codec, stage->sum_bytes);
    stage->gather_bytes = wire_i64(codec, stage->gather_bytes);
    stage->exchange_bytes = wire_i64(codec, stage->exchange_bytes);
    stage->relay_bytes = wire_i64(codec, stage->relay_bytes);
    stage->expert_moves = wire_i64(codec, stage->expert_moves);
    stage->expert_imbalance = wire_f64(codec, stage->expert_imbalance);
}

static void visit_stats(struct wire_codec *codec, struct sluice_engine_stats *stats) {
    stats->running_requests = wire_int(codec, stats->running_requests);
    stats->waiting_requests = wire_int(codec, stats->waiting_requests);
    stats->free_pages = wire_int(codec, stats->free_pages);
    stats->cached_pages = wire_int(codec, stats->cached_pages);
    stats->steps = wire_i64(codec, stats->steps);
    stats->step_rows = wire_i64(codec, stats->step_rows);
    stats->step_seconds = wire_f64(codec, stats->step_seconds);
    stats->planning_seconds = wire_f64(codec, stats->planning_seconds);
    stats->draft_seconds = wire_f64(codec, stats->draft_seconds);
    stats->finished_requests = wire_i64(codec, stats->finished_requests);
    stats->preemptions = wire_i64(codec, stats->preemptions);
    stats->prompt_tokens = wire_i64(codec, stats->prompt_tokens);
    stats->cached_prompt_tokens = wire_i64(codec, stats->cached_prompt_tokens);
    stats->output_tokens = wire_i64(codec, stats->output_tokens);
    stats->disk_queried_tokens = wire_i64(codec, stats->disk_queried_tokens);
    stats->disk_found_tokens = wire_i64(codec, stats->disk_found_tokens);
    stats->disk_read_bytes = wire_i64(codec, stats->disk_read_bytes);
    stats->disk_written_bytes = wire_i64(codec, stats->disk_written_bytes);
    stats->disk_damaged_entries = wire_i64(codec, stats->disk_damaged_entries);
    stats->disk_failed_writes = wire_i64(codec, stats->disk_failed_writes);
    stats->disk_dropped_entries = wire_i64(codec, stats->disk_dropped_entries);
    stats->disk_evicted_entries = wire_i64(codec, stats->disk_evicted_entries);
    stats->draft_tokens = wire_i64(codec, stats->draft_tokens);
    visit_counters(codec, stats->verified_drafts, SLUICE_DRAFT_POSITIONS_MAX);
    visit_counters(codec, stats->accepted_drafts, SLUICE_DRAFT_POSITIONS_MAX);
    visit_counters(codec, stats->ticks_by_draft_length, SLUICE_DRAFT_POSITIONS_MAX + 1);
    stats->cold_ticks = wire_i64(codec, stats->cold_ticks);
    stats->warm_ticks = wire_i64(codec, stats->warm_ticks);
    stats->draft_switches = wire_i64(codec, stats->draft_switches);
    stats->draft_guard_trips = wire_i64(codec, stats->draft_guard_trips);
    stats->draft_probe_gain = wire_f64(codec, stats->draft_probe_gain);
    stats->draft_length = wire_int(codec, stats->draft_length);
    stats->draft_regime =
        (enum sluice_draft_regime)wire_choice(codec, (int)stats->draft_regime, SLUICE_DRAFT_REGIME_DRAFT);
    stats->stage_count = wire_choice(codec, stats->stage_count, SLUICE_STAGES_MAX);
    for (int32_t i = 0; i < stats->stage_count; i++) {
        visit_stage(codec, &stats->stages[i]);
    }
}

void wire_record_visit(struct wire_codec *codec, struct wire_record *record) {
    record->id = wire_u64(codec, record->id);
    switch (record->kind) {
    case WIRE_SUBMIT:
        visit_request(codec, &record->request);
        break;
    case WIRE_READY:
        visit_facts(codec, &record->facts);
        break;
    case WIRE_UPDATE:
        visit_update(codec, &record->update);
        break;
    case WIRE_STATS:
        visit_stats(codec, &record->stats);
        break;
    case WIRE_FATAL:
        record->status = (enum status)wire_choice(codec, (int)record->status, STATUS_PEER_LOST);
        record->message = wire_text(codec, record->message);
        break;
    case WIRE_CANCEL:
    case WIRE_RELEASE:
    case WIRE_CLEAR:
    case WIRE_PING:
    case WIRE_KIND_COUNT:
        break;
    }
}
