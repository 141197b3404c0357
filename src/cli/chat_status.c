/* Fixed layouts; the numbers are the engine's. */
#include "cli/chat_status.h"

static double percent(double part, double whole) {
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

void chat_status_append_answer(struct string_buffer *out, const struct sluice_request_state *state,
                               size_t prompt_tokens) {
    double seconds = state->last_token_seconds - state->first_token_seconds;
    string_buffer_append_text(out, state->finish_reason == SLUICE_FINISH_CANCELLED ? "stopped: "
                                   : state->finish_reason == SLUICE_FINISH_LENGTH
                                       ? "cut at the length limit: "
                                       : "");
    string_buffer_append_format(out, "%zu prompt tokens (%zu cached), %zu new", prompt_tokens,
                                state->cached_prompt_tokens, state->token_count);
    if (state->token_count > 1 && seconds > 0.0) {
        string_buffer_append_format(out, " at %.1f tokens/s", (double)(state->token_count - 1) / seconds);
    }
    if (state->token_count > 0) {
        string_buffer_append_format(out, ", first after %.2f s", state->first_token_seconds);
    }
    if (state->verified_drafts > 0) {
        string_buffer_append_format(out, ", %.0f %% of %zu drafts accepted",
                                    percent((double)state->accepted_drafts, (double)state->verified_drafts),
                                    state->verified_drafts);
    }
}

void chat_status_append_warning(struct string_buffer *out, int64_t used, int64_t context_tokens) {
    int64_t left = context_tokens - used;
    if (left < context_tokens / 8) {
        string_buffer_append_format(out,
                                    "The conversation has %lld tokens left of %lld: /clear starts anew, "
                                    "--max-model-len makes room for more.",
                                    (long long)(left < 0 ? 0 : left), (long long)context_tokens);
    }
}

static void append_drafts(struct string_buffer *out, const struct sluice_engine_facts *facts,
                          const struct sluice_engine_stats *stats) {
    int64_t verified = 0;
    int64_t accepted = 0;
    for (int i = 0; i < SLUICE_DRAFT_POSITIONS_MAX; i++) {
        verified += stats->verified_drafts[i];
        accepted += stats->accepted_drafts[i];
    }
    if (facts->draft_limit == 0) {
        string_buffer_append_text(
            out, facts->has_draft_layer ? "drafts    off\n" : "drafts    none: the model has no MTP layer\n");
        return;
    }
    string_buffer_append_format(out, "drafts    %lld verified, %lld accepted", (long long)verified,
                                (long long)accepted);
    for (int i = 0; i < SLUICE_DRAFT_POSITIONS_MAX && stats->verified_drafts[i] > 0; i++) {
        string_buffer_append_format(
            out, "%s%.0f %%", i == 0 ? "; by position " : ", ",
            percent((double)stats->accepted_drafts[i], (double)stats->verified_drafts[i]));
    }
    string_buffer_append_char(out, '\n');
}

static void append_memory(struct string_buffer *out, const struct sluice_memory_ledger *memory) {
    const struct {
        const char *name;
        size_t bytes;
    } rows[] = {
        {"weights, mapped", memory->mapped_weight_bytes},
        {"weights, copied", memory->copied_weight_bytes},
        {"running request", memory->slot_state_bytes},
        {"prefix snapshots", memory->snapshot_bytes},
        {"pages", memory->page_state_bytes},
        {"step", memory->step_bytes},
        {"host", memory->host_bytes},
        {"for drafts, in the above", memory->draft_bytes},
    };
    string_buffer_append_text(out, "memory\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        string_buffer_append_format(out, "  %-24s %10.1f MB\n", rows[i].name, (double)rows[i].bytes / 1e6);
    }
    string_buffer_append_format(out, "  room for %lld tokens in %d pages of %d\n",
                                (long long)memory->token_capacity, memory->page_count, memory->page_tokens);
}

void chat_status_append_engine(struct string_buffer *out, const struct sluice_engine_facts *facts,
                               const struct sluice_engine_stats *stats) {
    string_buffer_append_format(out, "answers   %lld, %lld tokens\n", (long long)stats->finished_requests,
                                (long long)stats->output_tokens);
    string_buffer_append_format(out, "prompts   %lld tokens, %.0f %% of them cached\n",
                                (long long)stats->prompt_tokens,
                                percent((double)stats->cached_prompt_tokens, (double)stats->prompt_tokens));
    string_buffer_append_format(out, "steps     %lld in %.2f s; planning %.1f %%, draft layer %.1f %%\n",
                                (long long)stats->steps, stats->step_seconds,
                                percent(stats->planning_seconds, stats->step_seconds),
                                percent(stats->draft_seconds, stats->step_seconds));
    append_drafts(out, facts, stats);
    append_memory(out, &facts->memory);
}
