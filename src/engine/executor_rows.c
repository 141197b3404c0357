/* Boundary rows kept beside snapshots: on every rank, whoever has the row. */
#include "engine/executor_internal.h"

static size_t row_bytes(const struct tensor *tensor) {
    return (size_t)tensor_row_elements(tensor) * dtype_bytes(tensor->dtype);
}

static char *row_at(const struct tensor *tensor, int32_t row) {
    return (char *)tensor->data + (size_t)row * row_bytes(tensor);
}

static enum status check_saved_row(const struct executor *executor, int32_t row) {
    CHECK(row >= 0 && row < executor->saved.tensors[0].shape[0], STATUS_INTERNAL,
          "saved row %d of %lld was asked for", row, (long long)executor->saved.tensors[0].shape[0]);
    return STATUS_OK;
}

/* Collective. A row of the last step from the rank that has it, to all. */
static enum status fetch_row(struct executor *executor, const struct tensor *from, int32_t row, void *to) {
    const struct step_ranks *ranks = &executor->options.ranks->step;
    const struct row_shares *shares = &executor->step_deal.shares;
    int owner = row_shares_owner(shares, ranks->count, row);
    for (int rank = 0; rank <= ranks->count; rank++) {
        ranks->offsets[rank] = rank > owner ? row_bytes(from) : 0;
    }
    const void *own = owner == ranks->rank ? row_at(from, (int32_t)(row - shares->first[owner])) : from->data;
    return comm_gather(ranks->tensor, executor->queue.stream, own, ranks->offsets, to);
}

enum status executor_save_row(struct executor *executor, int32_t step_row, int32_t saved_row) {
    TRY(check_saved_row(executor, saved_row));
    CHECK(step_row >= 0 && step_row < executor->step_rows, STATUS_INTERNAL,
          "row %d of the last step was to be saved, which has %lld rows", step_row,
          (long long)executor->step_rows);
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *from = &executor_boundary(executor)->tensors[i];
        char *to = row_at(&executor->saved.tensors[i], saved_row);
        TRY(executor->step_deal.is_shared
                ? fetch_row(executor, from, step_row, to)
                : stream_copy_within(executor->queue.stream, to, row_at(from, step_row), row_bytes(from)));
    }
    return STATUS_OK;
}

enum status executor_copy_saved_row(struct executor *executor, int32_t from, int32_t to) {
    TRY(check_saved_row(executor, from));
    TRY(check_saved_row(executor, to));
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *rows = &executor->saved.tensors[i];
        TRY(stream_copy_within(executor->queue.stream, row_at(rows, to), row_at(rows, from),
                               row_bytes(rows)));
    }
    return STATUS_OK;
}

size_t executor_saved_row_bytes(const struct executor *executor) {
    size_t bytes = 0;
    for (int i = 0; i < executor->saved.count; i++) {
        bytes += row_bytes(&executor->saved.tensors[i]);
    }
    return bytes;
}

enum status executor_read_saved_row(struct executor *executor, int32_t saved_row, void *bytes) {
    char *to = bytes;
    TRY(check_saved_row(executor, saved_row));
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *from = &executor->saved.tensors[i];
        TRY(stream_copy_to_host(executor->queue.stream, to, row_at(from, saved_row), row_bytes(from)));
        to += row_bytes(from);
    }
    return stream_synchronize(executor->queue.stream);
}

enum status executor_write_saved_row(struct executor *executor, int32_t saved_row, const void *bytes) {
    const char *from = bytes;
    TRY(check_saved_row(executor, saved_row));
    for (int i = 0; i < executor->saved.count; i++) {
        const struct tensor *to = &executor->saved.tensors[i];
        TRY(stream_copy_to_device(executor->queue.stream, row_at(to, saved_row), from, row_bytes(to)));
        from += row_bytes(to);
    }
    return stream_synchronize(executor->queue.stream);
}
