/* The text and the JSON show the same facts in the same order. */
#include "tools/inspect_report.h"

#include <stdio.h>
#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "lib/json.h"
#include "weights/safetensors.h"

enum { NAMED_PAYLOAD_PROBLEMS = 20 };

/* Row and column of a problem's first element; a tensor of one axis is one row. */
static void locate(const struct verify_problem *found, size_t *row, size_t *column) {
    const struct checkpoint_tensor *tensor = found->tensor;
    size_t columns = tensor->rank > 0 ? (size_t)tensor->shape[tensor->rank - 1] : 1;
    *row = found->problem.first_index / columns;
    *column = found->problem.first_index % columns;
}

/* "20.3 M" */
static void append_short_count(struct string_buffer *out, uint64_t count) {
    static const struct {
        double size;
        const char *unit;
    } units[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " K"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if ((double)count >= units[i].size) {
            string_buffer_append_format(out, "%.1f%s", (double)count / units[i].size, units[i].unit);
            return;
        }
    }
    string_buffer_append_format(out, "%llu", (unsigned long long)count);
}

static size_t shard_bytes(const struct checkpoint *checkpoint, size_t shard) {
    size_t bytes = 0;
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        bytes += checkpoint->tensors[i].shard == shard ? checkpoint->tensors[i].bytes : 0;
    }
    return bytes;
}

static void append_overview(const struct inspection *inspection, struct string_buffer *out) {
    const struct checkpoint *checkpoint = inspection->checkpoint;
    const struct model *model = inspection->listing.model;
    string_buffer_append_format(out, "%s\n", checkpoint->directory);
    if (model != NULL) {
        string_buffer_append_format(out, "  family      %s\n", model->family->model_type);
        string_buffer_append_format(out, "  model       %s\n", string_buffer_text(&inspection->description));
        string_buffer_append_format(out, "  positions   up to %lld\n", (long long)model->position_limit);
    }
    string_buffer_append_text(out, "  parameters  ");
    append_short_count(out, inspection->parameter_count);
    string_buffer_append_format(out, "\n  tensors     %zu in %zu file%s, %zu bytes\n",
                                checkpoint->tensor_count, checkpoint->shard_count,
                                checkpoint->shard_count == 1 ? "" : "s", checkpoint->tensor_bytes);
    string_buffer_append_format(
        out, "  alignment   %zu tensors start inside an element (allowed, read unaligned)\n",
        inspection->unaligned_count);
    if (inspection->tokenizer_size > 0) {
        string_buffer_append_format(out, "  tokenizer   %d ids\n", (int)inspection->tokenizer_size);
    } else {
        string_buffer_append_text(out, "  tokenizer   none\n");
    }
}

static void append_tables(const struct inspection *inspection, struct string_buffer *out) {
    const struct checkpoint *checkpoint = inspection->checkpoint;
    string_buffer_append_format(out, "\n  %-42s %8s %16s\n", "type", "tensors", "bytes");
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        const struct inspect_dtype *entry = &inspection->dtypes[dtype];
        if (entry->tensor_count > 0) {
            string_buffer_append_format(out, "  %-42s %8zu %16zu\n", dtype_name((enum dtype)dtype),
                                        entry->tensor_count, entry->bytes);
        }
    }
    string_buffer_append_format(out, "\n  %-42s %8s %16s\n", "file", "tensors", "bytes");
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        string_buffer_append_format(out, "  %-42s %8zu %16zu\n", checkpoint->shards[i].file_name,
                                    checkpoint->shards[i].tensor_count, shard_bytes(checkpoint, i));
    }
}

static void append_kernels(const struct inspection *inspection, struct string_buffer *out) {
    string_buffer_append_format(out, "\n  kernels for %s numerics with %s\n",
                                numerics_name(inspection->numerics),
                                cpu_features_name(inspection->cpu_features));
    for (size_t i = 0; i < inspection->kernels.count; i++) {
        const struct kernel_choice *choice = &inspection->kernels.items[i];
        const struct op_entry *entry = choice->entry;
        string_buffer_append_format(out, "  %-22s %-6s %-38s %-14s %s\n", op_name(choice->op),
                                    choice->weights, entry == NULL ? "none" : entry->name,
                                    entry == NULL ? "" : entry->arithmetic,
                                    entry == NULL ? "" : cpu_features_name(entry->features));
    }
}

static void append_tensors(const struct checkpoint *checkpoint, struct string_buffer *out) {
    string_buffer_append_char(out, '\n');
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &checkpoint->tensors[i];
        char shape[SAFETENSORS_SHAPE_TEXT_BYTES];
        string_buffer_append_format(out, "  %-52s %-8s %-16s %12zu  %s\n", tensor->name,
                                    dtype_name(tensor->dtype),
                                    safetensors_shape_text(tensor->rank, tensor->shape, shape), tensor->bytes,
                                    checkpoint->shards[tensor->shard].file_name);
    }
}

static void append_problems(const struct inspection *inspection, struct string_buffer *out) {
    const struct verify_result *payload = &inspection->payload;
    string_buffer_append_char(out, '\n');
    if (inspection->problem_count == 0) {
        string_buffer_append_format(out, "  no problems: the files fit config.json%s\n",
                                    inspection->is_verified ? " and all values are sound" : "");
    }
    string_buffer_append_text(out, string_buffer_text(&inspection->problems));
    for (size_t i = 0; i < payload->count && i < NAMED_PAYLOAD_PROBLEMS; i++) {
        size_t row;
        size_t column;
        locate(&payload->problems[i], &row, &column);
        string_buffer_append_format(out, "%s: row %zu, column %zu %s (%zu in all)\n",
                                    payload->problems[i].tensor->name, row, column,
                                    payload->problems[i].problem.text, payload->problems[i].problem.count);
    }
    if (payload->count > NAMED_PAYLOAD_PROBLEMS) {
        string_buffer_append_format(out, "and bad values in %zu more tensors\n",
                                    payload->count - NAMED_PAYLOAD_PROBLEMS);
    }
}

enum status inspect_report_text(const struct inspection *inspection, bool lists_tensors,
                                struct string_buffer *out) {
    append_overview(inspection, out);
    append_tables(inspection, out);
    append_kernels(inspection, out);
    if (lists_tensors) {
        append_tensors(inspection->checkpoint, out);
    }
    append_problems(inspection, out);
    return string_buffer_check(out);
}

/* Building JSON: every setter fails alike if memory is out, so failures are collected in one flag. */
struct builder {
    bool is_failed;
};

static void set(struct builder *builder, struct json *object, const char *key, struct json *value) {
    builder->is_failed = !json_set(object, key, value) || builder->is_failed;
}

static void set_text(struct builder *builder, struct json *object, const char *key, const char *text) {
    set(builder, object, key, json_new_string(text, strlen(text)));
}

static void set_count(struct builder *builder, struct json *object, const char *key, uint64_t count) {
    set(builder, object, key, json_new_integer((int64_t)count));
}

/* Stores `value` in its parent and hands it out for filling: the parent owns it. */
static struct json *append_object(struct builder *builder, struct json *list) {
    struct json *object = json_new_object();
    builder->is_failed = !json_append(list, object) || builder->is_failed;
    return object;
}

static struct json *set_object(struct builder *builder, struct json *parent, const char *key) {
    struct json *object = json_new_object();
    set(builder, parent, key, object);
    return object;
}

static struct json *set_list(struct builder *builder, struct json *parent, const char *key) {
    struct json *list = json_new_array();
    set(builder, parent, key, list);
    return list;
}

static void build_model(struct builder *builder, const struct inspection *inspection, struct json *root) {
    const struct model *model = inspection->listing.model;
    if (model == NULL) {
        set(builder, root, "model", json_new_null());
    } else {
        struct json *object = set_object(builder, root, "model");
        set_text(builder, object, "family", model->family->model_type);
        set_text(builder, object, "description", string_buffer_text(&inspection->description));
        set_count(builder, object, "layers", (uint64_t)model->layer_count);
        set_count(builder, object, "hidden_size", (uint64_t)model->hidden_size);
        set_count(builder, object, "vocabulary_size", (uint64_t)model->vocabulary_size);
        set_count(builder, object, "position_limit", (uint64_t)model->position_limit);
    }
    if (inspection->tokenizer_size == 0) {
        set(builder, root, "tokenizer", json_new_null());
    } else {
        struct json *object = set_object(builder, root, "tokenizer");
        set_count(builder, object, "vocabulary_size", (uint64_t)inspection->tokenizer_size);
    }
}

static void build_tables(struct builder *builder, const struct inspection *inspection, struct json *root) {
    const struct checkpoint *checkpoint = inspection->checkpoint;
    set_count(builder, root, "parameters", inspection->parameter_count);
    set_count(builder, root, "tensor_count", checkpoint->tensor_count);
    set_count(builder, root, "tensor_bytes", checkpoint->tensor_bytes);
    set_count(builder, root, "unaligned_tensors", inspection->unaligned_count);
    struct json *types = set_list(builder, root, "types");
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if (inspection->dtypes[dtype].tensor_count > 0) {
            struct json *object = append_object(builder, types);
            set_text(builder, object, "type", dtype_name((enum dtype)dtype));
            set_count(builder, object, "tensors", inspection->dtypes[dtype].tensor_count);
            set_count(builder, object, "bytes", inspection->dtypes[dtype].bytes);
        }
    }
    struct json *files = set_list(builder, root, "files");
    for (size_t i = 0; i < checkpoint->shard_count; i++) {
        struct json *object = append_object(builder, files);
        set_text(builder, object, "name", checkpoint->shards[i].file_name);
        set_count(builder, object, "tensors", checkpoint->shards[i].tensor_count);
        set_count(builder, object, "bytes", shard_bytes(checkpoint, i));
    }
}

static void build_kernels(struct builder *builder, const struct inspection *inspection, struct json *root) {
    set_text(builder, root, "numerics", numerics_name(inspection->numerics));
    set_text(builder, root, "cpu_features", cpu_features_name(inspection->cpu_features));
    struct json *kernels = set_list(builder, root, "kernels");
    for (size_t i = 0; i < inspection->kernels.count; i++) {
        const struct kernel_choice *choice = &inspection->kernels.items[i];
        struct json *object = append_object(builder, kernels);
        set_text(builder, object, "operation", op_name(choice->op));
        set_text(builder, object, "weights", choice->weights);
        if (choice->entry != NULL) {
            set_text(builder, object, "name", choice->entry->name);
            set_text(builder, object, "arithmetic", choice->entry->arithmetic);
            set_text(builder, object, "features", cpu_features_name(choice->entry->features));
        }
    }
}

static void build_tensors(struct builder *builder, const struct checkpoint *checkpoint, struct json *root) {
    struct json *tensors = set_list(builder, root, "tensors");
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &checkpoint->tensors[i];
        struct json *object = append_object(builder, tensors);
        set_text(builder, object, "name", tensor->name);
        set_text(builder, object, "type", dtype_name(tensor->dtype));
        struct json *shape = set_list(builder, object, "shape");
        for (int axis = 0; axis < tensor->rank; axis++) {
            builder->is_failed =
                !json_append(shape, json_new_integer(tensor->shape[axis])) || builder->is_failed;
        }
        set_count(builder, object, "bytes", tensor->bytes);
        set_text(builder, object, "file", checkpoint->shards[tensor->shard].file_name);
    }
}

/* "problems": sentences; "payload": {"problems": [...]}, all of them. */
static void build_problems(struct builder *builder, const struct inspection *inspection, struct json *root) {
    struct json *sentences = set_list(builder, root, "problems");
    const char *text = string_buffer_text(&inspection->problems);
    if (*text != '\0') {
        size_t length = strlen(text) - 1;
        builder->is_failed = !json_append(sentences, json_new_string(text, length)) || builder->is_failed;
    }
    if (!inspection->is_verified) {
        set(builder, root, "payload", json_new_null());
        return;
    }
    struct json *problems = set_list(builder, set_object(builder, root, "payload"), "problems");
    for (size_t i = 0; i < inspection->payload.count; i++) {
        const struct verify_problem *found = &inspection->payload.problems[i];
        size_t row;
        size_t column;
        locate(found, &row, &column);
        struct json *object = append_object(builder, problems);
        set_text(builder, object, "tensor", found->tensor->name);
        set_text(builder, object, "problem", found->problem.text);
        set_count(builder, object, "row", row);
        set_count(builder, object, "column", column);
        set_count(builder, object, "count", found->problem.count);
    }
}

enum status inspect_report_json(const struct inspection *inspection, bool lists_tensors,
                                struct string_buffer *out) {
    enum status status = STATUS_OK;
    struct builder builder = {0};
    struct json *root = json_new_object();
    CHECK_MEMORY_GOTO(root);
    set_text(&builder, root, "directory", inspection->checkpoint->directory);
    build_model(&builder, inspection, root);
    build_tables(&builder, inspection, root);
    build_problems(&builder, inspection, root);
    build_kernels(&builder, inspection, root);
    if (lists_tensors) {
        build_tensors(&builder, inspection->checkpoint, root);
    } else {
        set(&builder, root, "tensors", json_new_null());
    }
    CHECK_GOTO(!builder.is_failed, STATUS_OUT_OF_MEMORY, "out of memory, or a name that is not UTF-8");
    TRY_GOTO(json_write(root, out));
    string_buffer_append_char(out, '\n');
    TRY_GOTO(string_buffer_check(out));
fail:
    json_free(&root);
    return status;
}
