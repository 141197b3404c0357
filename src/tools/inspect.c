/* Gathers facts; a part that cannot be read becomes a problem and leaves its facts empty. */
#include "tools/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/tokenizer.h"
#include "weights/loader.h"

enum { FP4_CODES_PER_BYTE = 2 };

/* Notes this thread's last failure. */
static void note_failure(struct inspection *inspection) {
    string_buffer_append_format(&inspection->problems, "%s\n", error_last()->message);
    inspection->problem_count++;
}

static void read_model(const char *directory, struct inspection *inspection) {
    char *path;
    if (asprintf(&path, "%s/config.json", directory) < 0) {
        inspection->problems.is_failed = true;
        return;
    }
    struct tensor_probe probe = checkpoint_probe(inspection->checkpoint);
    if (model_listing_read(path, &probe, &inspection->listing) != STATUS_OK) {
        note_failure(inspection);
    } else {
        const struct model *model = inspection->listing.model;
        model->family->describe(model, &inspection->description);
        if (checkpoint_check(inspection->checkpoint, &inspection->listing.list) != STATUS_OK) {
            note_failure(inspection);
        }
    }
    free(path);
}

static enum status match_specs(struct inspection *inspection) {
    const struct checkpoint *checkpoint = inspection->checkpoint;
    inspection->specs = calloc(checkpoint->tensor_count + 1, sizeof *inspection->specs);
    CHECK_MEMORY(inspection->specs);
    for (size_t i = 0; i < inspection->listing.list.count; i++) {
        const struct tensor_spec *spec = &inspection->listing.list.specs[i];
        const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, spec->name);
        if (tensor != NULL) {
            inspection->specs[tensor - checkpoint->tensors] = spec;
        }
    }
    return STATUS_OK;
}

static uint64_t count_parameters(const struct checkpoint_tensor *tensor, const struct tensor_spec *spec) {
    uint64_t elements = tensor->bytes / dtype_bytes(tensor->dtype);
    if (spec == NULL) {
        return elements;
    }
    switch (spec->role) {
    case TENSOR_BLOCK_SCALE:
    case TENSOR_EXPERT_TABLE:
        return 0;
    case TENSOR_FP4_MATRIX:
        return elements * FP4_CODES_PER_BYTE;
    default:
        return elements;
    }
}

static void count_tensors(struct inspection *inspection) {
    const struct checkpoint *checkpoint = inspection->checkpoint;
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        const struct checkpoint_tensor *tensor = &checkpoint->tensors[i];
        inspection->dtypes[tensor->dtype].tensor_count++;
        inspection->dtypes[tensor->dtype].bytes += tensor->bytes;
        inspection->parameter_count += count_parameters(tensor, inspection->specs[i]);
        inspection->unaligned_count += tensor->offset % dtype_bytes(tensor->dtype) != 0;
    }
}

static void read_tokenizer(const char *directory, struct inspection *inspection) {
    char *path;
    if (asprintf(&path, "%s/tokenizer.json", directory) < 0) {
        inspection->problems.is_failed = true;
        return;
    }
    struct tokenizer *tokenizer = NULL;
    if (access(path, F_OK) == 0 && tokenizer_load(path, &tokenizer) != STATUS_OK) {
        note_failure(inspection);
    }
    if (tokenizer != NULL) {
        inspection->tokenizer_size = tokenizer_vocabulary_size(tokenizer);
        const struct model *model = inspection->listing.model;
        if (model != NULL && inspection->tokenizer_size > model->vocabulary_size) {
            string_buffer_append_format(
                &inspection->problems, "%s has ids up to %d, but the model's vocabulary has %lld entries\n",
                path, (int)inspection->tokenizer_size - 1, (long long)model->vocabulary_size);
            inspection->problem_count++;
        }
    }
    tokenizer_destroy(&tokenizer);
    free(path);
}

/* What a step would run here, on the cpu device. */
static enum status list_kernels(const struct inspect_request *request, struct inspection *inspection) {
    struct kernel_machine machine;
    const char *features = request->cpu_features == NULL ? "auto" : request->cpu_features;
    enum status status = kernel_machine_init(&machine, "cpu", features);
    if (status == STATUS_OK) {
        inspection->numerics = request->numerics;
        inspection->cpu_features = machine.features;
        status = kernel_choices_list(&machine, request->numerics, &inspection->kernels);
    }
    kernel_machine_deinit(&machine);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status inspection_read(const struct inspect_request *request, struct inspection *out) {
    *out = (struct inspection){0};
    TRY(checkpoint_open(request->directory, &out->checkpoint));
    read_model(request->directory, out);
    TRY(match_specs(out));
    count_tensors(out);
    read_tokenizer(request->directory, out);
    TRY(list_kernels(request, out));
    TRY(string_buffer_check(&out->description));
    TRY(string_buffer_check(&out->problems));
    if (request->verifies) {
        TRY(verify_payload(out->checkpoint, out->specs, request->thread_count, &out->payload));
        out->problem_count += out->payload.count;
        out->is_verified = true;
    }
    return STATUS_OK;
}

void inspection_deinit(struct inspection *inspection) {
    verify_result_deinit(&inspection->payload);
    string_buffer_deinit(&inspection->description);
    string_buffer_deinit(&inspection->problems);
    free(inspection->specs);
    model_listing_deinit(&inspection->listing);
    checkpoint_close(&inspection->checkpoint);
}
