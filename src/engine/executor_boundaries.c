/*
 * Boundaries on their way from one stage to the next. Each lies behind its header, which goes in the same
 * message and is compared with what this rank's own plan says should come (P-17).
 */
#include <assert.h>

#include "engine/executor_internal.h"
#include "lib/hash.h"

/* Where the message of tensor `index` begins, and how many bytes it has. */
static void *message_of(const struct boundary *boundary, int index, size_t *bytes) {
    size_t header = index == 0 ? BOUNDARY_HEADER_BYTES : 0;
    *bytes = tensor_bytes(&boundary->tensors[index]) + header;
    return (char *)boundary->tensors[index].data - header;
}

enum status executor_wait_for_buffer(struct executor *executor, int buffer) {
    for (int i = 0; i < BOUNDARY_TENSORS_MAX; i++) {
        if (executor->sends[buffer][i].state != NULL) {
            TRY(comm_wait(executor->options.ranks->pipeline, &executor->sends[buffer][i]));
        }
    }
    return STATUS_OK;
}

enum status executor_await_boundary(struct executor *executor, int buffer) {
    const struct executor_ranks *ranks = executor->options.ranks;
    const struct boundary *boundary = &executor->boundaries[buffer];
    double began = tick_trace_now(executor_trace(executor));
    for (int i = 0; i < boundary->count; i++) {
        size_t bytes;
        void *memory = message_of(boundary, i, &bytes);
        TRY(comm_start_receive_early(ranks->pipeline, executor->queue.stream, ranks->stage - 1, memory, bytes,
                                     &executor->receives[buffer][i]));
    }
    tick_trace_add(executor_trace(executor), TRACE_AWAIT, began);
    return STATUS_OK;
}

void executor_drop_boundaries(struct executor *executor) {
    struct comm *pipeline = executor->options.ranks == NULL ? NULL : executor->options.ranks->pipeline;
    for (int buffer = 0; buffer < BOUNDARY_BUFFERS_MAX && pipeline != NULL; buffer++) {
        for (int i = 0; i < BOUNDARY_TENSORS_MAX; i++) {
            comm_cancel(pipeline, &executor->receives[buffer][i]);
            comm_cancel(pipeline, &executor->sends[buffer][i]);
        }
    }
}

static struct boundary_header header_of(const struct executor *executor, const struct boundary *boundary,
                                        int source_stage) {
    const struct executor_ranks *ranks = executor->options.ranks;
    struct boundary_header header = boundary_header_of(boundary, ranks->step.rank, ranks->step.count);
    header.step_number = executor->step_number;
    header.epoch = ranks->epoch;
    header.stage = (uint16_t)source_stage;
    return header;
}

/* Of all rows, read row by row; 0 where headers have none. */
static enum status sum_up(struct executor *executor, const struct boundary *boundary, uint64_t *out) {
    *out = 0;
    for (int i = 0; i < boundary->count && BOUNDARY_FLAGS != 0; i++) {
        const struct tensor *tensor = &boundary->tensors[i];
        size_t row_bytes = (size_t)tensor_row_elements(tensor) * dtype_bytes(tensor->dtype);
        for (int64_t row = 0; row < tensor->shape[0]; row++) {
            const char *from = (const char *)tensor->data + (size_t)row * row_bytes;
            TRY(stream_copy_to_host(executor->queue.stream, executor->scan, from, row_bytes));
            TRY(stream_synchronize(executor->queue.stream));
            *out = hash_xxh3_128(executor->scan, row_bytes, *out).low;
        }
    }
    return STATUS_OK;
}

static enum status check_header(struct executor *executor, const struct boundary *boundary) {
    struct boundary_header expected = header_of(executor, boundary, executor->options.ranks->stage - 1);
    struct boundary_header *came = &executor->header;
    size_t bytes;
    TRY(stream_copy_to_host(executor->queue.stream, came, message_of(boundary, 0, &bytes), sizeof *came));
    TRY(stream_synchronize(executor->queue.stream));
    TRY(boundary_header_check(came, &expected));
    TRY(sum_up(executor, boundary, &expected.checksum));
    CHECK(came->checksum == expected.checksum, STATUS_INTERNAL,
          "rows for step %llu came from stage %d and are not those that it sent: their checksum is %016llx, "
          "expected %016llx",
          (unsigned long long)expected.step_number, (int)expected.stage,
          (unsigned long long)expected.checksum, (unsigned long long)came->checksum);
    return STATUS_OK;
}

enum status executor_receive_boundary(struct executor *executor, const struct boundary *boundary) {
    const struct executor_ranks *ranks = executor->options.ranks;
    if (executor->queue.is_dry) {
        return STATUS_OK;
    }
    for (int i = 0; i < boundary->count; i++) {
        size_t bytes;
        message_of(boundary, i, &bytes);
        TRY(comm_wait_sized(ranks->pipeline, &executor->receives[executor->buffer][i], bytes));
    }
    return check_header(executor, boundary);
}

enum status executor_send_boundary(struct executor *executor, const struct boundary *boundary) {
    const struct executor_ranks *ranks = executor->options.ranks;
    size_t bytes;
    CHECK(boundary->layout != ROWS_PARTIAL, STATUS_INTERNAL, "a sum is still owed at a stage's end");
    if (executor->queue.is_dry) {
        return STATUS_OK;
    }
    assert(boundary->tensors[0].data == executor_boundary(executor)->tensors[0].data);
    executor->header = header_of(executor, boundary, ranks->stage);
    TRY(sum_up(executor, boundary, &executor->header.checksum));
    TRY(stream_copy_to_device(executor->queue.stream, message_of(boundary, 0, &bytes), &executor->header,
                              sizeof executor->header));
    for (int i = 0; i < boundary->count; i++) {
        void *memory = message_of(boundary, i, &bytes);
        TRY(comm_start_send(ranks->pipeline, executor->queue.stream, ranks->stage + 1, memory, bytes,
                            &executor->sends[executor->buffer][i]));
    }
    return STATUS_OK;
}
