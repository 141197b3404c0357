/* The comparison of a checkpoint with a model's list: all problems are found, the first ten are named. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "weights/loader.h"
#include "weights/safetensors.h"

enum { NAMED_PROBLEMS_MAX = 10 };

struct findings {
    const struct checkpoint *checkpoint;
    const struct tensor_spec_list *list;
    struct string_buffer text; /* the named problems, one a line */
    size_t count;
    bool is_converted_copy;
};

/* Counts one more problem; whether it is to be described on a line of its own. */
static bool begin_problem(struct findings *findings) {
    if (++findings->count > NAMED_PROBLEMS_MAX) {
        return false;
    }
    string_buffer_append_text(&findings->text, "\n  ");
    return true;
}

static void report_missing(struct findings *findings, const struct tensor_spec *spec) {
    if (!begin_problem(findings)) {
        return;
    }
    if (spec->role == TENSOR_BLOCK_SCALE && spec->partner >= 0) {
        string_buffer_append_format(&findings->text, "%s has no scales: looked for %s",
                                    findings->list->specs[spec->partner].name, spec->name);
        return;
    }
    char shape[SAFETENSORS_SHAPE_TEXT_BYTES];
    string_buffer_append_format(&findings->text, "%s is missing (%s %s)", spec->name, dtype_name(spec->dtype),
                                safetensors_shape_text(spec->rank, spec->shape, shape));
    if (findings->checkpoint->has_index) {
        string_buffer_append_text(&findings->text, "; no shard holds it and the index does not name it");
    }
}

static bool has_shape(const struct checkpoint_tensor *tensor, const struct tensor_spec *spec) {
    return tensor->rank == spec->rank &&
           memcmp(tensor->shape, spec->shape, (size_t)spec->rank * sizeof *spec->shape) == 0;
}

static void append_accepted_dtypes(struct string_buffer *text, const struct tensor_spec *spec) {
    string_buffer_append_text(text, dtype_name(spec->dtype));
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++) {
        if ((spec->other_dtypes & DTYPE_BIT(dtype)) != 0 && dtype != (int)spec->dtype) {
            string_buffer_append_format(text, " or %s", dtype_name((enum dtype)dtype));
        }
    }
}

static void compare_tensor(struct findings *findings, const struct tensor_spec *spec) {
    const struct checkpoint_tensor *tensor = checkpoint_find(findings->checkpoint, spec->name);
    if (tensor == NULL) {
        report_missing(findings, spec);
        return;
    }
    unsigned accepted = DTYPE_BIT(spec->dtype) | spec->other_dtypes;
    if ((accepted & DTYPE_BIT(tensor->dtype)) == 0 && begin_problem(findings)) {
        string_buffer_append_format(&findings->text, "%s is %s, needed is ", spec->name,
                                    dtype_name(tensor->dtype));
        append_accepted_dtypes(&findings->text, spec);
    }
    if (!has_shape(tensor, spec) && begin_problem(findings)) {
        char actual[SAFETENSORS_SHAPE_TEXT_BYTES];
        char expected[SAFETENSORS_SHAPE_TEXT_BYTES];
        bool is_scale = spec->role == TENSOR_BLOCK_SCALE && spec->partner >= 0;
        string_buffer_append_format(&findings->text, "%s has the shape %s, %s%s needs %s", spec->name,
                                    safetensors_shape_text(tensor->rank, tensor->shape, actual),
                                    is_scale ? "its matrix " : "config.json",
                                    is_scale ? findings->list->specs[spec->partner].name : "",
                                    safetensors_shape_text(spec->rank, spec->shape, expected));
    }
}

static bool is_tolerated(const struct tensor_spec_list *list, const char *name) {
    for (const char *const *pattern = list->tolerated_patterns; pattern != NULL && *pattern != NULL;
         pattern++) {
        if (fnmatch(*pattern, name, 0) == 0) {
            return true;
        }
    }
    return false;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Tensors that the list does not know. */
static enum status find_unexpected(struct findings *findings) {
    const struct tensor_spec_list *list = findings->list;
    const char **names = calloc(list->count + 1, sizeof *names);
    CHECK_MEMORY(names);
    for (size_t i = 0; i < list->count; i++) {
        names[i] = list->specs[i].name;
    }
    qsort(names, list->count, sizeof *names, compare_names);
    for (size_t i = 0; i < findings->checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &findings->checkpoint->tensors[i];
        if (bsearch(&tensor->name, names, list->count, sizeof *names, compare_names) != NULL ||
            is_tolerated(list, tensor->name)) {
            continue;
        }
        findings->is_converted_copy = findings->is_converted_copy ||
                                      strncmp(tensor->name, "model.", 6) == 0 ||
                                      strstr(tensor->name, "self_attn") != NULL;
        if (begin_problem(findings)) {
            string_buffer_append_format(&findings->text, "%s is in %s, but the model has no such tensor",
                                        tensor->name, findings->checkpoint->shards[tensor->shard].file_name);
        }
    }
    free(names);
    return STATUS_OK;
}

enum status checkpoint_check(const struct checkpoint *checkpoint, const struct tensor_spec_list *list) {
    struct findings findings = {.checkpoint = checkpoint, .list = list};
    for (size_t i = 0; i < list->count; i++) {
        compare_tensor(&findings, &list->specs[i]);
    }
    enum status status = STATUS_OK;
    TRY_GOTO(find_unexpected(&findings));
    if (findings.count > NAMED_PROBLEMS_MAX) {
        string_buffer_append_format(&findings.text, "\n  and %zu more", findings.count - NAMED_PROBLEMS_MAX);
    }
    if (findings.is_converted_copy) {
        string_buffer_append_text(&findings.text,
                                  "\nThe names are those of a copy converted for transformers: fetch "
                                  "the checkpoint with the official names.");
    }
    TRY_GOTO(string_buffer_check(&findings.text));
    CHECK_GOTO(findings.count == 0, STATUS_BAD_CHECKPOINT,
               "%s does not fit its config.json, %zu problem%s:%s", checkpoint->directory, findings.count,
               findings.count == 1 ? "" : "s", string_buffer_text(&findings.text));
fail:
    string_buffer_deinit(&findings.text);
    return status;
}
