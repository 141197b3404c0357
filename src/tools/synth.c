/*
 * A batch is a stretch of the output, at most BATCH_BYTES, that may end within a tensor or span thousands.
 * While workers fill the pieces of one, one of them appends the one before to the files.
 */
#include "tools/synth.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_map.h"
#include "base/progress.h"
#include "base/worker_pool.h"
#include "tools/model_listing.h"
#include "tools/weight_generator.h"
#include "weights/checkpoint_writer.h"

/* A piece ends at whole elements of every type because its limit is a multiple of eight. */
enum { BATCH_BYTES = 4 << 20, PIECE_BYTES = 64 << 10, BATCH_PIECES = 4096, BATCHES = 2 };

/* A part of one tensor: what one task makes. */
struct piece {
    const struct weight_generator *generator;
    size_t first_byte;
    size_t byte_count;
    unsigned char *out;
};

struct synth {
    struct safetensors_entry *entries; /* by name */
    struct weight_generator *generators;
    size_t count;
    size_t total_bytes;
    unsigned char *batches[BATCHES];
    struct piece *pieces;
    /* Where the next batch begins. */
    size_t next_tensor;
    size_t next_byte;
};

/* A run of the pool: task 0 writes a batch, the others fill the pieces of the next one. */
struct synth_run {
    struct checkpoint_writer *writer;
    const struct piece *pieces;
    const unsigned char *written_batch;
    size_t written_bytes; /* 0: none yet */
    enum status status;   /* of writing */
    char message[ERROR_MESSAGE_BYTES];
};

static int compare_spec_names(const void *left, const void *right, void *specs) {
    const struct tensor_spec *list = specs;
    return strcmp(list[*(const size_t *)left].name, list[*(const size_t *)right].name);
}

/* The tensors in name order, as the official files hold them. */
static enum status plan_tensors(struct synth *synth, const struct tensor_spec_list *list) {
    enum status status = STATUS_OK;
    synth->entries = calloc(list->count + 1, sizeof *synth->entries);
    synth->generators = calloc(list->count + 1, sizeof *synth->generators);
    synth->batches[0] = malloc(BATCH_BYTES);
    synth->batches[1] = malloc(BATCH_BYTES);
    synth->pieces = calloc(BATCH_PIECES, sizeof *synth->pieces);
    size_t *order = calloc(list->count + 1, sizeof *order);
    CHECK_MEMORY_GOTO(synth->entries);
    CHECK_MEMORY_GOTO(synth->generators);
    CHECK_MEMORY_GOTO(synth->batches[0]);
    CHECK_MEMORY_GOTO(synth->batches[1]);
    CHECK_MEMORY_GOTO(synth->pieces);
    CHECK_MEMORY_GOTO(order);
    for (size_t i = 0; i < list->count; i++) {
        order[i] = i;
    }
    qsort_r(order, list->count, sizeof *order, compare_spec_names, list->specs);
    for (size_t i = 0; i < list->count; i++) {
        const struct tensor_spec *spec = &list->specs[order[i]];
        struct safetensors_entry *entry = &synth->entries[i];
        *entry = (struct safetensors_entry){.name = spec->name, .dtype = spec->dtype, .rank = spec->rank};
        memcpy(entry->shape, spec->shape, sizeof entry->shape);
        TRY_GOTO(safetensors_tensor_bytes(entry->dtype, entry->rank, entry->shape, &entry->bytes));
        TRY_GOTO(weight_generator_init(&synth->generators[i], list, order[i]));
        CHECK_GOTO(!__builtin_add_overflow(synth->total_bytes, entry->bytes, &synth->total_bytes),
                   STATUS_OUT_OF_RANGE, "the model has more bytes than can be counted");
    }
    synth->count = list->count;
fail:
    free(order);
    return status;
}

static void free_plan(struct synth *synth) {
    free(synth->entries);
    free(synth->generators);
    free(synth->batches[0]);
    free(synth->batches[1]);
    free(synth->pieces);
}

/* Cuts the next stretch of the output, to be made in `batch`, into pieces; returns its bytes, 0 at the end.
 */
static size_t plan_batch(struct synth *synth, unsigned char *batch, size_t *piece_count) {
    size_t batch_bytes = 0;
    *piece_count = 0;
    while (synth->next_tensor < synth->count && *piece_count < BATCH_PIECES) {
        size_t left = synth->entries[synth->next_tensor].bytes - synth->next_byte;
        if (left == 0) {
            synth->next_tensor++;
            synth->next_byte = 0;
            continue;
        }
        size_t bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
        if (bytes > BATCH_BYTES - batch_bytes) {
            break;
        }
        synth->pieces[(*piece_count)++] = (struct piece){.generator = &synth->generators[synth->next_tensor],
                                                         .first_byte = synth->next_byte,
                                                         .byte_count = bytes,
                                                         .out = batch + batch_bytes};
        batch_bytes += bytes;
        synth->next_byte += bytes;
    }
    return batch_bytes;
}

/* The error record belongs to the thread that failed, so its sentence is kept for the caller's. */
static void write_batch(struct synth_run *run) {
    if (run->written_bytes == 0) {
        return;
    }
    run->status = checkpoint_writer_append(run->writer, run->written_batch, run->written_bytes);
    if (run->status != STATUS_OK) {
        snprintf(run->message, sizeof run->message, "%s", error_last()->message);
    }
}

static void run_task(void *context, size_t index, unsigned worker) {
    (void)worker;
    struct synth_run *run = context;
    if (index == 0) {
        write_batch(run);
        return;
    }
    const struct piece *piece = &run->pieces[index - 1];
    weight_generator_fill(piece->generator, piece->first_byte, piece->byte_count, piece->out);
}

static enum status write_tensors(struct synth *synth, struct worker_pool *pool,
                                 struct checkpoint_writer *writer) {
    enum status status = STATUS_OK;
    struct progress progress;
    struct synth_run run = {.writer = writer, .pieces = synth->pieces};
    size_t done = 0;
    size_t made_bytes = 1;
    progress_start(&progress, "writing weights", "MB", synth->total_bytes / 1000000);
    for (size_t i = 0; made_bytes > 0; i++) {
        size_t piece_count;
        unsigned char *batch = synth->batches[i % BATCHES];
        made_bytes = plan_batch(synth, batch, &piece_count);
        worker_pool_run(pool, 1 + piece_count, run_task, &run);
        CHECK_GOTO(run.status == STATUS_OK, run.status, "%s", run.message);
        done += run.written_bytes;
        progress_update(&progress, done / 1000000);
        run.written_batch = batch;
        run.written_bytes = made_bytes;
    }
fail:
    progress_finish(&progress);
    return status;
}

static enum status prepare_directory(const char *directory) {
    CHECK(mkdir(directory, 0777) == 0 || errno == EEXIST, STATUS_IO, "cannot make the directory %s: %s",
          directory, strerror(errno));
    static const char *const weight_files[] = {"model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof weight_files / sizeof *weight_files; i++) {
        char *path;
        CHECK(asprintf(&path, "%s/%s", directory, weight_files[i]) >= 0, STATUS_OUT_OF_MEMORY,
              "out of memory");
        bool exists = access(path, F_OK) == 0;
        free(path);
        CHECK(!exists, STATUS_BAD_ARGUMENT, "%s already holds %s: name a new or empty directory", directory,
              weight_files[i]);
    }
    return STATUS_OK;
}

enum status synth_write(const struct synth_request *request, const struct tensor_spec_list *list) {
    enum status status = STATUS_OK;
    struct synth synth = {0};
    struct file_map config = {0};
    struct worker_pool *pool = NULL;
    struct checkpoint_writer *writer = NULL;
    TRY_GOTO(file_map_open(request->config_path, &config));
    CHECK_GOTO(config.length > 0, STATUS_BAD_CONFIG, "%s is empty", request->config_path);
    TRY_GOTO(plan_tensors(&synth, list));
    TRY_GOTO(worker_pool_create(request->thread_count, &pool));
    TRY_GOTO(prepare_directory(request->directory));
    TRY_GOTO(checkpoint_writer_open(request->directory, synth.entries, synth.count, request->shard_bytes,
                                    &writer));
    TRY_GOTO(write_tensors(&synth, pool, writer));
    TRY_GOTO(checkpoint_writer_add_file(writer, "config.json", config.bytes, config.length));
    TRY_GOTO(checkpoint_writer_finish(&writer));
fail:
    checkpoint_writer_abort(&writer);
    worker_pool_destroy(&pool);
    free_plan(&synth);
    file_map_close(&config);
    return status;
}

enum status synth_write_model(const struct synth_request *request) {
    struct model_listing listing;
    TRY(model_listing_read(request->config_path, NULL, &listing));
    enum status status = synth_write(request, &listing.list);
    model_listing_deinit(&listing);
    TRY(status);
    return STATUS_OK;
}
