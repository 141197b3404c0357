/*
 * Tensors are visited in file order, so that read-ahead and copies run through the files once. Rows of which
 * only some columns are wanted are packed in host memory, a piece at a time, and copied from there.
 */
#include "weights/loader.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file_map.h"
#include "weights/payload_check.h"
#include "weights/tensor_part.h"

/* Columns are packed in pieces of about this size: they stay in a cache on their way. */
enum { PACKED_BYTES_AT_ONCE = 1 << 20, HUGE_PAGE_BYTES = 2 << 20 };

/* One used tensor, or a part of it, on its way from the file to the device. */
struct planned_tensor {
    const struct tensor_spec *spec;
    const struct checkpoint_tensor *tensor;
    struct loaded_tensor *out;
    size_t offset; /* of the part's first byte in the tensor */
    size_t rows;
    size_t row_bytes;  /* of the part */
    size_t row_stride; /* from row to row in the file */
    bool is_held;      /* else it may be read later, where it is mapped */
    bool is_mapped;
    size_t memory_offset; /* in the copies' memory, if not mapped */
};

struct load_plan {
    struct planned_tensor *tensors; /* by shard and offset */
    size_t count;
    size_t memory_bytes;
    size_t mapped_bytes;
    size_t packed_bytes; /* scratch for parts of columns */
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

static size_t part_bytes(const struct planned_tensor *planned) {
    return planned->rows * planned->row_bytes;
}

/* Whether the part's bytes follow each other in the file. */
static bool is_in_one_piece(const struct planned_tensor *planned) {
    return planned->row_bytes == planned->row_stride || planned->rows <= 1;
}

static size_t rows_packed_at_once(const struct planned_tensor *planned) {
    size_t rows = PACKED_BYTES_AT_ONCE / planned->row_bytes;
    return rows == 0 ? 1 : rows;
}

/* Where the bytes of a part are in the tensor's. */
static void find_bytes(struct planned_tensor *planned, const struct tensor_part *part) {
    const struct checkpoint_tensor *tensor = planned->tensor;
    size_t element_bytes = dtype_bytes(tensor->dtype);
    if (part->count == 1) {
        planned->rows = 1;
        planned->row_bytes = tensor->bytes;
        planned->row_stride = tensor->bytes;
        return;
    }
    assert(tensor->rank == 1 || tensor->rank == 2);
    size_t row_elements = tensor->rank == 1 ? 1 : (size_t)tensor->shape[1];
    planned->row_bytes = element_bytes * (tensor->rank == 1 ? 1 : (size_t)part->shape[1]);
    planned->rows = planned->row_bytes == 0 ? 0 : (size_t)part->shape[0];
    planned->row_stride = element_bytes * row_elements;
    planned->offset =
        (size_t)part->first_row * planned->row_stride + (size_t)part->first_column * element_bytes;
}

/* Notes what becomes of record `index`; it is planned if this rank reads any of it. */
static void plan_tensor(const struct checkpoint *checkpoint, const struct tensor_spec_list *list,
                        size_t index, const struct shard_layout *layout, struct loaded_tensor *out,
                        struct load_plan *plan) {
    const struct tensor_spec *spec = &list->specs[index];
    struct planned_tensor planned = {.spec = spec, .out = out, .is_held = tensor_is_held(spec, layout)};
    planned.tensor = checkpoint_find(checkpoint, spec->name);
    *out = (struct loaded_tensor){.dtype = planned.tensor->dtype};
    out->part = tensor_part_of(list, index, layout);
    if (!out->part.is_here) {
        return;
    }
    find_bytes(&planned, &out->part);
    out->bytes = part_bytes(&planned);
    if (spec->is_used) {
        plan->tensors[plan->count++] = planned;
    }
}

static enum status build_plan(const struct checkpoint *checkpoint, const struct tensor_spec_list *list,
                              const struct shard_layout *layout, bool may_map,
                              struct loaded_tensor *out_tensors, struct load_plan *plan) {
    plan->tensors = calloc(list->count + 1, sizeof *plan->tensors);
    CHECK_MEMORY(plan->tensors);
    for (size_t i = 0; i < list->count; i++) {
        plan_tensor(checkpoint, list, i, layout, &out_tensors[i], plan);
    }
    qsort(plan->tensors, plan->count, sizeof *plan->tensors, compare_places);
    for (size_t i = 0; i < plan->count; i++) {
        struct planned_tensor *planned = &plan->tensors[i];
        size_t bytes = part_bytes(planned);
        planned->is_mapped = may_map && bytes >= LOADER_MAPPED_BYTES_MIN && is_in_one_piece(planned);
        if (!is_in_one_piece(planned)) {
            size_t packed_bytes = rows_packed_at_once(planned) * planned->row_bytes;
            plan->packed_bytes = packed_bytes > plan->packed_bytes ? packed_bytes : plan->packed_bytes;
        }
        if (planned->is_mapped) {
            plan->mapped_bytes += planned->is_held ? bytes : 0;
        } else {
            planned->memory_offset = plan->memory_bytes;
            plan->memory_bytes += align_up(bytes);
        }
    }
    return STATUS_OK;
}

/* First byte of a part in its shard's file, and the byte behind its last. */
static size_t file_begin(const struct planned_tensor *planned) {
    return planned->tensor->offset + planned->offset;
}

static size_t file_end(const struct planned_tensor *planned) {
    size_t gaps = planned->rows <= 1 ? 0 : (planned->rows - 1) * (planned->row_stride - planned->row_bytes);
    return file_begin(planned) + part_bytes(planned) + gaps;
}

/* Asks the kernel to read the used bytes ahead, in runs of adjacent tensors. Only a hint: failure is no
 * error. */
static void advise_reading(const struct checkpoint *checkpoint, const struct load_plan *plan) {
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t first = 0; first < plan->count;) {
        const struct planned_tensor *start = &plan->tensors[first];
        size_t shard = start->tensor->shard;
        size_t end = file_end(start);
        size_t next = first + 1;
        while (next < plan->count && plan->tensors[next].is_held == start->is_held &&
               plan->tensors[next].tensor->shard == shard &&
               file_begin(&plan->tensors[next]) <= end + page_bytes) {
            end = file_end(&plan->tensors[next]);
            next++;
        }
        if (start->is_held) {
            file_map_read_ahead(checkpoint->shards[shard].map.bytes + file_begin(start),
                                end - file_begin(start));
        }
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

/* Queues the copy of a part of columns through `packed`, which is free again when this returns. */
static enum status copy_columns(const struct planned_tensor *planned, const unsigned char *data,
                                struct stream *stream, unsigned char *packed, unsigned char *memory) {
    size_t rows_at_once = rows_packed_at_once(planned);
    for (size_t first = 0; first < planned->rows; first += rows_at_once) {
        size_t rows = planned->rows - first < rows_at_once ? planned->rows - first : rows_at_once;
        for (size_t row = 0; row < rows; row++) {
            memcpy(packed + row * planned->row_bytes, data + (first + row) * planned->row_stride,
                   planned->row_bytes);
        }
        TRY(stream_copy_to_device(stream, memory + first * planned->row_bytes, packed,
                                  rows * planned->row_bytes));
        TRY(stream_synchronize(stream));
    }
    return STATUS_OK;
}

/* Sets the data pointers; queues the copies on the stream. packed: the plan's scratch. */
static enum status place_tensors(const struct checkpoint *checkpoint, const struct load_plan *plan,
                                 struct stream *stream, unsigned char *packed, unsigned char *memory) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned_tensor *planned = &plan->tensors[i];
        const unsigned char *data = checkpoint_tensor_data(checkpoint, planned->tensor) + planned->offset;
        if (planned->spec->role == TENSOR_EXPERT_TABLE) {
            TRY(check_expert_table(checkpoint, planned));
        }
        if (planned->is_mapped) {
            planned->out->data = data;
            continue;
        }
        unsigned char *copy = memory + planned->memory_offset;
        planned->out->data = copy;
        if (!is_in_one_piece(planned)) {
            TRY(copy_columns(planned, data, stream, packed, copy));
        } else if (part_bytes(planned) > 0) {
            TRY(stream_copy_to_device(stream, copy, data, part_bytes(planned)));
        }
    }
    return STATUS_OK;
}

/* Huge pages must be asked for before memory is touched. Only a hint: failure is no error. */
static void advise_huge_pages(void *memory, size_t bytes) {
    uintptr_t begin = ((uintptr_t)memory + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    uintptr_t end = ((uintptr_t)memory + bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if (begin < end) {
        (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
}

static enum status alloc_copies(const struct load_plan *plan, const struct load_options *options,
                                struct device *device, void **memory) {
    CHECK(options->copy_limit_bytes == 0 || plan->memory_bytes <= options->copy_limit_bytes,
          STATUS_OUT_OF_MEMORY, "copies of the weights take %.1f MB, but no more than %.1f MB may be taken%s",
          (double)plan->memory_bytes / 1e6, (double)options->copy_limit_bytes / 1e6,
          options->copies_all ? ": leave the weights mapped (--weights mapped)" : "");
    if (plan->memory_bytes == 0) {
        return STATUS_OK;
    }
    TRY(device_memory_alloc(device, plan->memory_bytes, memory));
    if (options->copies_all && device_reads_host_memory(device)) {
        advise_huge_pages(*memory, plan->memory_bytes);
    }
    return STATUS_OK;
}

enum status checkpoint_load(struct checkpoint **checkpoint, const struct tensor_spec_list *list,
                            const struct load_options *given, struct device *device, struct stream *stream,
                            struct loaded_tensor *out_tensors, struct loaded_weights *ownership) {
    const struct load_options options = given == NULL ? (struct load_options){0} : *given;
    bool may_map = device_reads_host_memory(device) && !options.copies_all;
    enum status status = STATUS_OK;
    struct load_plan plan = {0};
    struct loaded_weights weights = {0};
    unsigned char *packed = NULL;
    if (options.layout != NULL) {
        TRY_GOTO(tensor_parts_check(list, options.layout));
    }
    TRY_GOTO(checkpoint_check(*checkpoint, list));
    TRY_GOTO(build_plan(*checkpoint, list, options.layout, may_map, out_tensors, &plan));
    advise_reading(*checkpoint, &plan);
    if (plan.packed_bytes > 0) {
        packed = malloc(plan.packed_bytes);
        CHECK_MEMORY_GOTO(packed);
    }
    TRY_GOTO(alloc_copies(&plan, &options, device, &weights.memory));
    status = place_tensors(*checkpoint, &plan, stream, packed, weights.memory);
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
    free(packed);
    free(plan.tensors);
    return STATUS_OK;

fail:
    weights_release(&weights, device);
    free(packed);
    free(plan.tensors);
    return status;
}

void weights_release(struct loaded_weights *weights, struct device *device) {
    device_memory_free(device, &weights->memory);
    checkpoint_close(&weights->checkpoint);
    *weights = (struct loaded_weights){0};
}
