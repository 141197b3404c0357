#include "server/answer_metrics.h"

#include "base/clock.h"
#include "server/api_internal.h"

void answer_metrics_take(struct answer_item *item, size_t token_count) {
    double now = clock_seconds();
    bool is_first = item->moment_taken == 0.0;
    const struct metrics_tokens tokens = {
        .count = token_count,
        .is_first = is_first,
        .seconds = now - (is_first ? item->answer->moment_opened : item->moment_taken),
    };
    if (token_count > 0) {
        metrics_record_tokens(item->answer->api->options.metrics, &tokens);
        item->moment_taken = now;
    }
}

static size_t longest(const struct answer *answer) {
    size_t most = 0;
    for (size_t i = 0; i < answer->item_count; i++) {
        size_t count = answer->items[i].choice.token_count;
        most = count > most ? count : most;
    }
    return most;
}

void answer_metrics_end(const struct answer_item *item, enum metrics_finish finish) {
    const struct answer *answer = item->answer;
    const struct sluice_request_state *state = &item->state;
    bool is_last = answer->unfinished_count == 1;
    const struct metrics_request request = {
        .finish = finish,
        .prompt_tokens = answer->prompts[item->choice.prompt_index].ids.count,
        .cached_prompt_tokens = state->cached_prompt_tokens,
        .tokens = item->choice.token_count,
        .token_limit = answer->settings.token_limit,
        .total_seconds = clock_seconds() - answer->moment_opened,
        .queue_seconds = state->queue_seconds,
        .first_token_seconds = state->first_token_seconds,
        .last_token_seconds = state->last_token_seconds,
        .is_corrupted = state->finish_reason == SLUICE_FINISH_ERROR && state->status == SLUICE_NOT_FINITE,
        .longest_tokens = is_last ? longest(answer) : 0,
        .choice_count = is_last ? (size_t)answer->settings.choice_count : 0,
    };
    metrics_record_request(answer->api->options.metrics, &request);
}
