/* Which layouts an engine can have at all, before a checkpoint is opened. */
#include <limits.h>

#include "base/log.h"
#include "base/string_buffer.h"
#include "engine/rank_team.h"
#include "engine/rank_team_groups.h"
#include "parallel/layout_check.h"

/* Boundary buffers of a stage between others, and of the first and the last one (P-19). */
enum { MIDDLE_BUFFERS = 3, END_BUFFERS = 2 };

int rank_team_replicas(const struct sluice_parallel_options *parallel) {
    return parallel->data > 1 ? parallel->data : 1;
}

int rank_team_size(const struct sluice_parallel_options *parallel) {
    int64_t stages = (int64_t)rank_team_replicas(parallel) * parallel->pipeline;
    bool is_possible = stages <= TEAM_RANKS_MAX && parallel->tensor <= TEAM_RANKS_MAX;
    return is_possible ? (int)stages * parallel->tensor : INT_MAX;
}

/* Replicas in one engine are there to share experts (G-3); others are engines of their own. */
static enum status check_replicas(const struct sluice_parallel_options *parallel) {
    CHECK(parallel->data <= 1 || parallel->has_expert_parallelism, STATUS_UNSUPPORTED,
          "%d replicas in one engine share whole experts, but every expert was to be cut between ranks: "
          "leave --no-enable-expert-parallel out",
          parallel->data);
    return STATUS_OK;
}

/* Groups in flight that leave stages without work are no fault, but seldom meant (CFG-17). */
static void warn_of_few_groups(const struct sluice_parallel_options *parallel) {
    struct string_buffer text = {0};
    int buffers = parallel->pipeline > 2 ? MIDDLE_BUFFERS : END_BUFFERS;
    if (layout_append_few_groups(parallel->pipeline, parallel->in_flight, buffers, &text)) {
        log_write(LOG_WARNING, "engine", "%s", string_buffer_text(&text));
    }
    string_buffer_deinit(&text);
}

enum status rank_team_check_options(const struct sluice_engine_options *options) {
    const struct sluice_parallel_options *parallel = &options->parallel;
    CHECK(parallel->data <= TEAM_RANKS_MAX && parallel->tensor >= 1 && parallel->tensor <= TEAM_RANKS_MAX &&
              parallel->pipeline >= 1 && parallel->pipeline <= TEAM_RANKS_MAX &&
              rank_team_size(parallel) <= TEAM_RANKS_MAX,
          STATUS_OUT_OF_RANGE,
          "%d replicas of %d pipeline stages of %d ranks were asked for; 1 to %d ranks are possible",
          rank_team_replicas(parallel), parallel->pipeline, parallel->tensor, TEAM_RANKS_MAX);
    TRY(check_replicas(parallel));
    CHECK(parallel->shared_rows_min >= 0, STATUS_OUT_OF_RANGE,
          "shared_rows_min is %d, expected 0 or the fewest rows of a step that ranks share",
          parallel->shared_rows_min);
    warn_of_few_groups(parallel);
    return STATUS_OK;
}
