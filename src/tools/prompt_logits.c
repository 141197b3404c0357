/*
 * Main rows and draft rows come chunk by chunk in turns, but lie one after the other in the file: draft rows
 * wait in an unnamed temporary file.
 */
#include "tools/prompt_logits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weights/safetensors_writer.h"

struct logits_file {
    struct safetensors_writer *writer;
    FILE *draft_rows; /* NULL without draft rows */
    size_t row_bytes;
};

static enum status take_row(struct logits_file *file, bool is_draft, const float *logits) {
    if (!is_draft) {
        return safetensors_writer_append(file->writer, logits, file->row_bytes);
    }
    CHECK(fwrite(logits, 1, file->row_bytes, file->draft_rows) == file->row_bytes, STATUS_IO,
          "the temporary file for MTP logits cannot be written: %s", strerror(errno));
    return STATUS_OK;
}

static enum status take(void *context, int64_t position, bool is_draft, const float *logits) {
    (void)position;
    return take_row(context, is_draft, logits);
}

/* Moves the draft rows behind the main ones; `row` holds one of them. */
static enum status append_draft_rows(struct logits_file *file, size_t count, void *row) {
    CHECK(fseek(file->draft_rows, 0, SEEK_SET) == 0, STATUS_IO, "the temporary file cannot be read: %s",
          strerror(errno));
    for (size_t i = 0; i < count; i++) {
        CHECK(fread(row, 1, file->row_bytes, file->draft_rows) == file->row_bytes, STATUS_IO,
              "the temporary file for MTP logits cannot be read: %s", strerror(errno));
        TRY(safetensors_writer_append(file->writer, row, file->row_bytes));
    }
    return STATUS_OK;
}

static struct safetensors_entry describe(const char *name, size_t rows, int64_t vocabulary_size) {
    struct safetensors_entry entry = {.name = name, .dtype = DTYPE_F32, .rank = 2};
    entry.shape[0] = (int64_t)rows;
    entry.shape[1] = vocabulary_size;
    return entry;
}

static enum status write_file(struct engine_core *core, const int32_t *tokens, size_t count, bool wants_draft,
                              const char *path, const struct token_progress *progress) {
    enum status status = STATUS_OK;
    int64_t vocabulary_size = core->model->vocabulary_size;
    struct logits_file file = {.row_bytes = (size_t)vocabulary_size * sizeof(float)};
    struct safetensors_entry entries[2] = {describe("logits", count, vocabulary_size),
                                           describe("mtp_logits", count - 1, vocabulary_size)};
    struct logits_sink sink = {.take = take, .context = &file, .wants_draft = wants_draft};
    void *row = malloc(file.row_bytes);
    CHECK_MEMORY(row);
    TRY_GOTO(safetensors_writer_open(path, entries, wants_draft ? 2 : 1, &file.writer));
    if (wants_draft) {
        file.draft_rows = tmpfile();
        CHECK_GOTO(file.draft_rows != NULL, STATUS_IO, "no temporary file can be made: %s", strerror(errno));
    }
    TRY_GOTO(trace_logits(core, tokens, count, &sink, progress));
    if (wants_draft) {
        TRY_GOTO(append_draft_rows(&file, count - 1, row));
    }
    TRY_GOTO(safetensors_writer_finish(&file.writer));
fail:
    safetensors_writer_abort(&file.writer);
    if (file.draft_rows != NULL) {
        fclose(file.draft_rows);
    }
    free(row);
    return status;
}

/* Draft rows of one pass: the core's sequences, of which only one is used. */
enum { DRAFT_ROWS_AT_ONCE = 16 };

enum status prompt_logits_write(const struct sluice_engine_options *options, const int32_t *tokens,
                                size_t count, bool wants_draft, const char *path,
                                const struct token_progress *progress) {
    struct sluice_engine_options alone = *options;
    struct engine_core *core;
    alone.has_prefix_cache = false;
    alone.draft.limit = wants_draft ? 1 : 0;
    alone.sequence_limit =
        wants_draft && alone.step_token_limit >= DRAFT_ROWS_AT_ONCE ? DRAFT_ROWS_AT_ONCE : 1;
    TRY(engine_core_open(&alone, &core));
    enum status status = write_file(core, tokens, count, wants_draft, path, progress);
    engine_core_close(&core);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
