/* Tensors are visited in file order, so that read-ahead and copies run through the files once. */
#include "weights/loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/payload_check.h"

/* One used tensor on its way from the file to the device. */
struct planned_tensor {
    const struct tensor_spec *spec;
    const struct checkpoint_tensor *tensor;
    struct loaded_tensor *out;
    bool is_mapped;
    size_t memory_offset; /* in the copies' memory, if not mapped */
};

struct load_plan {
    struct planned_tensor *tensors; /* by shard and offset */
    size_t count;
    size_t memory_bytes;
    size_t mapped_bytes;
};

static int compare_places(const void *left, const void *right) {
    const struct checkpoint_tensor *a = ((const struct planned_tensor *)left)->tensor;
    const struct checkpoint_tensor *b = ((const struct planned_tensor *)right)->tensor;
    if (a->shard != b->shard) {
        return a->shard < b->shard ? -1 : 1;
    }
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static size_t align_up(size_t bytes) {
    return (bytes + LOADER_ALIGNMENT - 1) / LOADER_ALIGNMENT * LOADER_ALIGNMENT;
}

static enum status build_plan(const struct checkpoint *checkpoint, const struct tensor_spec_list *list,
                              bool may_map, struct loaded_tensor *out_tensors, struct load_plan *plan) {
    plan->tensors = calloc(list->count + 1, sizeof *plan->tensors);
    CHECK_MEMORY(plan->tensors);
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor_spec *spec = &list->specs[i];
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, spec->name);
        out_tensors[i] = (struct loaded_tensor){.dtype = tensor->dtype, .bytes = tensor->bytes};
        if (spec->is_used) {
            plan->tensors[plan->count++] =
                (struct planned_tensor){.spec = spec,
                                        .tensor = tensor,
                                        .out = &out_tensors[i],
                                        .is_mapped = may_map && tensor->bytes >= LOADER_MAPPED_BYTES_MIN};
        }
    }
    qsort(plan->tensors, plan->count, sizeof *plan->tensors, compare_places);
    for (size_t i = 0; i < plan->count; i++) {
        struct planned_tensor *planned = &plan->tensors[i];
        if (planned->is_mapped) {
            plan->mapped_bytes += planned->tensor->bytes;
        } else {
            planned->memory_offset = plan->memory_bytes;
            plan->memory_bytes += align_up(planned->tensor->bytes);
        }
    }
    return STATUS_OK;
}

/* Asks the kernel to read the used bytes ahead, in runs of adjacent tensors. Only a hint: failure is no
 * error. */
static void advise_reading(const struct checkpoint *checkpoint, const struct load_plan *plan) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t first = 0; first < plan->count;) {
        const struct checkpoint_tensor *start = plan->tensors[first].tensor;
        size_t end = start->offset + start->bytes;
        size_t next = first + 1;
        while (next < plan->count && plan->tensors[next].tensor->shard == start->shard &&
               plan->tensors[next].tensor->offset <= end + page_bytes) {
            end = plan->tensors[next].tensor->offset + plan->tensors[next].tensor->bytes;
            next++;
        }
        size_t begin = start->offset / page_bytes * page_bytes;
        const unsigned char *address = checkpoint->shards[start->shard].map.bytes + begin;
        (void)madvise((void *)(uintptr_t)address, end - begin, MADV_WILLNEED);
        first = next;
    }
}

/* A token routed to an expert that does not exist would read outside the weights. */
static enum status check_expert_table(const struct checkpoint *checkpoint,
                                      const struct planned_tensor *planned) {
    struct payload_problem problem;
    const struct checkpoint_tensor *tensor = planned->tensor;
    if (!payload_find_problem(planned->spec, tensor->dtype, checkpoint_tensor_data(checkpoint, tensor),
                              tensor->bytes, &problem)) {
        return STATUS_OK;
    }
    size_t columns = tensor->rank > 1 ? (size_t)tensor->shape[tensor->rank - 1] : 1;
    FAIL(STATUS_BAD_CHECKPOINT, "%s: tensor %s: row %zu, column %zu %s: ids run from 0 to %lld (%zu in all)",
         checkpoint->directory, tensor->name, problem.first_index / columns, problem.first_index % columns,
         problem.text, (long long)planned->spec->value_limit - 1, problem.count);
}

/* Sets the data pointers; queues the copies on the stream. */
static enum status place_tensors(const struct checkpoint *checkpoint, const struct load_plan *plan,
                                 struct stream *stream, unsigned char *memory) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned_tensor *planned = &plan->tensors[i];
        const unsigned char *data = checkpoint_tensor_data(checkpoint, planned->tensor);
        if (planned->spec->role == TENSOR_EXPERT_TABLE) {
            TRY(check_expert_table(checkpoint, planned));
        }
        if (planned->is_mapped) {
            planned->out->data = data;
            continue;
        }
        planned->out->data = memory + planned->memory_offset;
        if (planned->tensor->bytes > 0) {
            TRY(stream_copy_to_device(stream, memory + planned->memory_offset, data, planned->tensor->bytes));
        }
    }
    return STATUS_OK;
}

enum status checkpoint_load(struct checkpoint **checkpoint, const struct tensor_spec_list *list,
                            struct device *device, struct stream *stream, struct loaded_tensor *out_tensors,
                            struct loaded_weights *ownership) {
    enum status status = STATUS_OK;
    struct load_plan plan = {0};
    struct loaded_weights weights = {0};
    TRY_GOTO(checkpoint_check(*checkpoint, list));
    TRY_GOTO(build_plan(*checkpoint, list, device_reads_host_memory(device), out_tensors, &plan));
    advise_reading(*checkpoint, &plan);
    if (plan.memory_bytes > 0) {
        TRY_GOTO(device_memory_alloc(device, plan.memory_bytes, &weights.memory));
    }
    status = place_tensors(*checkpoint, &plan, stream, weights.memory);
    /* Copies that were queued before a failure still use the memory. */
    enum status synchronized = stream_synchronize(stream);
    TRY_GOTO(status);
    TRY_GOTO(synchronized);
    weights.mapped_bytes = plan.mapped_bytes;
    weights.copied_bytes = plan.memory_bytes;
    weights.checkpoint = *checkpoint;
    *checkpoint = NULL;
    if (plan.mapped_bytes == 0) {
        checkpoint_close(&weights.checkpoint);
    }
    *ownership = weights;
    free(plan.tensors);
    return STATUS_OK;

fail:
    weights_release(&weights, device);
    free(plan.tensors);
    return status;
}

void weights_release(struct loaded_weights *weights, struct device *device) {
    device_memory_free(device, &weights->memory);
    checkpoint_close(&weights->checkpoint);
    *weights = (struct loaded_weights){0};
}
