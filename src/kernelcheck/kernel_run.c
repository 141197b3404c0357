/* As op_queue launches, with canaries around the workspace. */
#include "kernelcheck/kernel_run.h"

#include <stdlib.h>

#include "device/device_impl.h"

enum { CANARY_BYTES = 64, CANARY = 0xFF };

enum status kernel_workspace_init(struct kernel_workspace *out, const struct kernel_case *kernel_case,
                                  const struct op_entry *entry, const struct worker_pool *pool) {
    *out = (struct kernel_workspace){0};
    if (entry->workspace_bytes == NULL) {
        return STATUS_OK;
    }
    unsigned threads = pool == NULL ? 1 : worker_pool_thread_count(pool);
    struct device *device = kernel_case->place.device;
    out->bytes = entry->workspace_bytes(&kernel_case->args, threads);
    /* On the guard device the end of the memory is the canary behind. */
    out->total = CANARY_BYTES + out->bytes + (device_reads_host_memory(device) ? CANARY_BYTES : 0);
    TRY(device_memory_alloc(device, out->total, &out->memory));
    TRY(stream_fill(kernel_case->place.stream, out->memory, CANARY, out->total));
    return STATUS_OK;
}

void kernel_workspace_deinit(struct kernel_workspace *workspace, const struct kernel_case *kernel_case) {
    device_memory_free(kernel_case->place.device, &workspace->memory);
}

enum status kernel_workspace_check(const struct kernel_workspace *workspace,
                                   const struct kernel_case *kernel_case, bool *is_damaged) {
    enum status status = STATUS_OK;
    *is_damaged = false;
    if (workspace->memory == NULL) {
        return STATUS_OK;
    }
    unsigned char *bytes = malloc(workspace->total);
    CHECK_MEMORY(bytes);
    TRY_GOTO(stream_copy_to_host(kernel_case->place.stream, bytes, workspace->memory, workspace->total));
    TRY_GOTO(stream_synchronize(kernel_case->place.stream));
    for (size_t i = 0; i < workspace->total; i++) {
        bool is_canary = i < CANARY_BYTES || i >= CANARY_BYTES + workspace->bytes;
        *is_damaged = *is_damaged || (is_canary && bytes[i] != CANARY);
    }
fail:
    free(bytes);
    return status;
}

enum status kernel_launch(const struct kernel_case *kernel_case, const struct op_entry *entry,
                          struct worker_pool *pool, const struct kernel_workspace *workspace) {
    struct stream *stream = kernel_case->place.stream;
    struct kernel_env env = {.stream = stream, .pool = pool};
    if (workspace->memory != NULL) {
        env.workspace = (unsigned char *)workspace->memory + CANARY_BYTES;
    }
    stream_kernel_enter(stream);
    enum status status = entry->run(&env, &kernel_case->args);
    stream_kernel_leave(stream);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status kernel_run(struct kernel_case *kernel_case, const struct op_entry *entry,
                       struct worker_pool *pool, bool *is_damaged) {
    enum status status = STATUS_OK;
    struct kernel_workspace workspace = {0};
    TRY_GOTO(kernel_workspace_init(&workspace, kernel_case, entry, pool));
    TRY_GOTO(kernel_case_upload(kernel_case));
    TRY_GOTO(kernel_launch(kernel_case, entry, pool, &workspace));
    TRY_GOTO(kernel_case_download(kernel_case));
    TRY_GOTO(kernel_workspace_check(&workspace, kernel_case, is_damaged));
fail:
    kernel_workspace_deinit(&workspace, kernel_case);
    return status;
}
