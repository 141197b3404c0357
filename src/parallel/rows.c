/* Tags and what they are compared with: the step's own dealing out, never a shape. */
#include "parallel/rows.h"

#include <assert.h>

static const char *const layout_names[] = {
    [ROWS_FULL] = "all rows (FULL)",
    [ROWS_SHARD] = "a share of the rows (SHARD)",
    [ROWS_PARTIAL] = "a sum that is still owed (PARTIAL)",
};

struct row_shares row_shares_even(int64_t count, int ranks) {
    assert(ranks >= 1 && ranks <= STEP_RANKS_MAX);
    struct row_shares shares = {.first = {0}};
    for (int rank = 0; rank < ranks; rank++) {
        struct shard_range range = shard_cut_rows(count, rank, ranks);
        shares.first[rank + 1] = range.first + range.count;
    }
    return shares;
}

int row_shares_owner(const struct row_shares *shares, int ranks, int64_t row) {
    int rank = 0;
    while (rank < ranks - 1 && row >= shares->first[rank + 1]) {
        rank++;
    }
    return rank;
}

struct shard_range parallel_own_range(const struct step *step) {
    if (step->shares == NULL) {
        return (struct shard_range){.count = step->batch->row_count};
    }
    const int64_t *first = step->shares->first + (step->queue->is_dry ? 0 : step->ranks->rank);
    return (struct shard_range){.first = first[0], .count = first[1] - first[0]};
}

struct batch_view parallel_own_batch(const struct step *step) {
    struct shard_range own = parallel_own_range(step);
    struct batch_view view = *step->batch;
    view.row_count = own.count;
    view.token_ids += own.first;
    view.positions += own.first;
    view.row_segment += own.first;
    return view;
}

struct placed_rows placed_rows_like(const struct placed_rows *rows, struct tensor tensor) {
    return (struct placed_rows){.tensor = tensor, .layout = rows->layout, .shares = rows->shares};
}

enum status parallel_own_tensor(const struct step *step, int64_t copies, int64_t width,
                                struct placed_rows *out) {
    *out =
        (struct placed_rows){.layout = step->shares == NULL ? ROWS_FULL : ROWS_SHARD, .shares = step->shares};
    STEP_TENSOR(step, step->activation, &out->tensor, parallel_own_range(step).count, copies, width);
    return STATUS_OK;
}

static enum status expect(const struct placed_rows *rows, enum rows_layout layout, int64_t count,
                          const char *what) {
    CHECK(rows->layout == layout, STATUS_INTERNAL, "%s: %s came, expected is %s", what,
          layout_names[rows->layout], layout_names[layout]);
    CHECK(rows->tensor.shape[0] == count, STATUS_INTERNAL, "%s: %lld rows came, tagged as %s, which are %lld",
          what, (long long)rows->tensor.shape[0], layout_names[layout], (long long)count);
    return STATUS_OK;
}

enum status parallel_expect_own(const struct step *step, const struct placed_rows *rows, const char *what) {
    TRY(expect(rows, step->shares == NULL ? ROWS_FULL : ROWS_SHARD, parallel_own_range(step).count, what));
    CHECK(rows->shares == step->shares, STATUS_INTERNAL,
          "%s: the rows were dealt out in another way than this step's", what);
    return STATUS_OK;
}

enum status parallel_expect_full(const struct step *step, const struct placed_rows *rows, const char *what) {
    return expect(rows, ROWS_FULL, step->batch->row_count, what);
}
