/*
 * Payloads: a page as state_pool_read_page packs it; a snapshot as state_pool_read_slot does, then the saved
 * row of the draft layer if there is one. Among the ranks of a stage a head goes in front of them.
 */
#include "engine/prefix_part.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 64 };

static const uint64_t DEFAULT_LIMIT_BYTES = 16000000000u;

/* In front of a payload on its way to the other ranks of the stage. */
struct payload_head {
    int32_t is_there; /* else the payload means nothing, and no other follows */
    int32_t has_draft_rows;
    int32_t unused[14]; /* the payload is aligned to 64 bytes */
};

_Static_assert(sizeof(struct payload_head) == 64, "payloads are aligned as files' are");

/* A prefix with its keys. */
struct prefix_path {
    struct prefix_key *keys; /* [page_limit] */
    int32_t *tokens;         /* of key_count pages */
    int32_t key_count;
};

struct prefix_part {
    struct engine_core *core;
    struct prefix_disk *disk; /* NULL: the files are those of the stage's first rank */
    int32_t page_tokens;
    int32_t page_limit; /* of a sequence */
    size_t saved_row_bytes;
    size_t snapshot_bytes;
    struct prefix_path sought;
    struct prefix_path kept;
    struct payload_head *page; /* and a page behind it */
    struct payload_head *snapshot;
};

/* Everything besides the weights that decides the bytes of state, and whose they are. */
static enum status make_model_key(const struct prefix_part *part, uint8_t key[HASH_SHA256_BYTES]) {
    const struct engine_core *core = part->core;
    const struct model_stage *stage = &core->model->stage;
    struct string_buffer text = {0};
    string_buffer_append(&text, (const char *)core->digest, sizeof core->digest);
    string_buffer_append_format(&text, "numerics %d page %d drafts %d layers %d to %d%s ",
                                (int)core->options.numerics, core->options.page_tokens,
                                core->options.draft.limit, stage->first_layer, stage->end_layer,
                                stage->is_last ? " and drafts" : "");
    executor_describe_arithmetic(core->executor, &text);
    enum status status = string_buffer_check(&text);
    if (status == STATUS_OK) {
        status = hash_sha256(text.data, text.length, key);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status open_disk(struct prefix_part *part) {
    const struct sluice_engine_options *engine = &part->core->options;
    struct prefix_disk_options options = {
        .directory = engine->prefix_cache_directory,
        .page_tokens = part->page_tokens,
        .page_bytes = part->core->states.page_bytes,
        .snapshot_bytes = part->snapshot_bytes,
        .limit_bytes =
            engine->prefix_cache_disk_bytes == 0 ? DEFAULT_LIMIT_BYTES : engine->prefix_cache_disk_bytes,
        .buffer_count = BUFFERS,
    };
    TRY(make_model_key(part, options.model_key));
    return prefix_disk_open(&options, &part->disk);
}

static enum status alloc_path(const struct prefix_part *part, struct prefix_path *path) {
    path->keys = calloc((size_t)part->page_limit, sizeof *path->keys);
    path->tokens = calloc((size_t)part->page_limit * (size_t)part->page_tokens, sizeof *path->tokens);
    CHECK_MEMORY(path->keys);
    CHECK_MEMORY(path->tokens);
    return STATUS_OK;
}

static bool has_files(const struct engine_core *core) {
    return core->ranks == NULL || core->ranks->step.rank == 0;
}

static enum status fill_part(struct prefix_part *part) {
    part->page = calloc(1, sizeof *part->page + part->core->states.page_bytes);
    part->snapshot = calloc(1, sizeof *part->snapshot + part->snapshot_bytes);
    CHECK_MEMORY(part->page);
    CHECK_MEMORY(part->snapshot);
    if (!has_files(part->core)) {
        return STATUS_OK;
    }
    TRY(alloc_path(part, &part->sought));
    TRY(alloc_path(part, &part->kept));
    return open_disk(part);
}

enum status prefix_part_create(struct engine_core *core, struct prefix_part **out) {
    struct prefix_part *part = calloc(1, sizeof *part);
    CHECK_MEMORY(part);
    part->core = core;
    part->page_tokens = core->options.page_tokens;
    part->page_limit = (int32_t)core->states.pages_per_slot;
    part->saved_row_bytes = executor_saved_row_bytes(core->executor);
    part->snapshot_bytes = core->states.snapshot_bytes + part->saved_row_bytes;
    enum status status = fill_part(part);
    if (status != STATUS_OK) {
        prefix_part_destroy(&part);
        return error_forward(status, ERROR_HERE);
    }
    *out = part;
    return STATUS_OK;
}

static void free_path(struct prefix_path *path) {
    free(path->keys);
    free(path->tokens);
}

void prefix_part_destroy(struct prefix_part **part) {
    if (*part != NULL) {
        prefix_disk_close(&(*part)->disk);
        free_path(&(*part)->sought);
        free_path(&(*part)->kept);
        free((*part)->page);
        free((*part)->snapshot);
        free(*part);
        *part = NULL;
    }
}

static const int32_t *page_start(const struct prefix_part *part, const int32_t *tokens, int32_t page) {
    return tokens + (int64_t)page * part->page_tokens;
}

/* Keys of the first `count` pages. Those that the path's last prefix has in common with this one are known.
 */
static enum status make_keys(const struct prefix_part *part, struct prefix_path *path, const int32_t *tokens,
                             int32_t count) {
    size_t page_bytes = (size_t)part->page_tokens * sizeof *tokens;
    int32_t known = 0;
    while (known < count && known < path->key_count &&
           memcmp(page_start(part, path->tokens, known), page_start(part, tokens, known), page_bytes) == 0) {
        known++;
    }
    path->key_count = known;
    for (int32_t i = known; i < count; i++) {
        const struct prefix_key *parent = i == 0 ? NULL : &path->keys[i - 1];
        TRY(prefix_disk_key(part->disk, parent, page_start(part, tokens, i), &path->keys[i]));
        path->key_count++;
    }
    memcpy(path->tokens, tokens, (size_t)count * page_bytes);
    return STATUS_OK;
}

static enum status check_count(const struct prefix_part *part, int32_t count) {
    CHECK(count >= 0 && count <= part->page_limit, STATUS_INTERNAL,
          "a prefix of %d pages came in, a sequence has at most %d", count, part->page_limit);
    return STATUS_OK;
}

static bool has_page(const struct prefix_part *part, const struct prefix_path *path, int32_t page) {
    return prefix_disk_has(part->disk, &path->keys[page], PREFIX_ENTRY_PAGE);
}

/* Deletes what lies behind a page that is not there. */
static void drop_behind(struct prefix_part *part, int32_t page) {
    const struct prefix_path *path = &part->sought;
    for (int32_t i = page + 1; i < path->key_count && has_page(part, path, i); i++) {
        prefix_disk_drop(part->disk, &path->keys[i], PREFIX_ENTRY_PAGE);
        prefix_disk_drop(part->disk, &path->keys[i], PREFIX_ENTRY_SNAPSHOT);
    }
}

enum status prefix_part_find(struct prefix_part *part, const struct prefix_order *order,
                             struct prefix_answer *out) {
    const struct prefix_path *path = &part->sought;
    int32_t count = order->token_count / part->page_tokens;
    *out = (struct prefix_answer){.end_page = order->first_page};
    if (part->disk == NULL) {
        return STATUS_OK;
    }
    TRY(check_count(part, count));
    TRY(make_keys(part, &part->sought, order->tokens, count));
    int32_t page = order->first_page;
    for (; page < count && has_page(part, path, page); page++) {
        if (prefix_disk_has(part->disk, &path->keys[page], PREFIX_ENTRY_SNAPSHOT)) {
            out->end_page = page + 1;
        }
    }
    if (page < count) {
        drop_behind(part, page);
    }
    return STATUS_OK;
}

/* Collective over the ranks of a stage. A payload from the one that has it to all. */
static enum status share(const struct prefix_part *part, struct payload_head *head, size_t payload_bytes) {
    const struct executor_ranks *ranks = part->core->ranks;
    if (ranks == NULL || comm_size(ranks->step.tensor) == 1) {
        return STATUS_OK;
    }
    return comm_broadcast_host(ranks->step.tensor, 0, head, sizeof *head + payload_bytes);
}

/* Collective over the ranks of a stage. An entry of the prefix that was sought, on all of them. */
static enum status read_entry(struct prefix_part *part, int32_t page, enum prefix_entry_kind kind,
                              struct payload_head *head, size_t payload_bytes) {
    const struct prefix_path *path = &part->sought;
    if (part->disk != NULL) {
        bool has_draft_rows = false;
        CHECK(page < path->key_count, STATUS_INTERNAL,
              "page %d of a prefix was to be loaded, of which %d were looked for", page, path->key_count);
        *head = (struct payload_head){0};
        head->is_there = prefix_disk_read(part->disk, &path->keys[page], kind,
                                          page_start(part, path->tokens, page), head + 1, &has_draft_rows);
        head->has_draft_rows = has_draft_rows;
    }
    return share(part, head, payload_bytes);
}

/* Collective over the ranks of a stage. */
static enum status load_page(struct prefix_part *part, int32_t page, int32_t to, bool *is_there) {
    struct engine_core *core = part->core;
    TRY(read_entry(part, page, PREFIX_ENTRY_PAGE, part->page, core->states.page_bytes));
    *is_there = part->page->is_there != 0;
    if (!*is_there) {
        if (part->disk != NULL) {
            drop_behind(part, page);
        }
        return STATUS_OK;
    }
    TRY(state_pool_write_page(&core->states, core->stream, to, part->page + 1));
    return stream_synchronize(core->stream);
}

enum status prefix_part_load(struct prefix_part *part, const struct prefix_order *order,
                             struct prefix_answer *out) {
    int32_t end = order->first_page + order->page_count;
    *out = (struct prefix_answer){.end_page = order->first_page};
    while (out->end_page < end) {
        bool is_there;
        TRY(load_page(part, out->end_page, order->pages[out->end_page - order->first_page], &is_there));
        if (!is_there) {
            return STATUS_OK;
        }
        out->end_page++;
    }
    if (order->has_snapshot) {
        TRY(read_entry(part, end - 1, PREFIX_ENTRY_SNAPSHOT, part->snapshot, part->snapshot_bytes));
        out->end_page -= part->snapshot->is_there == 0;
        out->has_draft_rows = part->snapshot->has_draft_rows;
    }
    return STATUS_OK;
}

enum status prefix_part_restore(struct prefix_part *part, const struct prefix_order *order) {
    struct engine_core *core = part->core;
    const unsigned char *payload = (const unsigned char *)(part->snapshot + 1);
    CHECK(part->snapshot->is_there != 0, STATUS_INTERNAL,
          "a snapshot was to go into slot %d, but none was read", order->snapshot_slot);
    TRY(state_pool_write_slot(&core->states, core->stream, order->snapshot_slot, payload));
    if (order->has_draft_rows && part->saved_row_bytes > 0) {
        TRY(executor_write_saved_row(core->executor, order->snapshot_slot,
                                     payload + core->states.snapshot_bytes));
    }
    return stream_synchronize(core->stream);
}

/* Takes back a buffer that could not be filled. */
static enum status cancel(struct prefix_part *part, struct prefix_disk_buffer *buffer, enum status status) {
    prefix_disk_cancel(part->disk, buffer);
    return error_forward(status, ERROR_HERE);
}

/* Writes a page behind; *keeps_up false if the disk does not. */
static enum status keep_page(struct prefix_part *part, const struct prefix_order *order, int32_t index,
                             bool *keeps_up) {
    struct engine_core *core = part->core;
    struct prefix_disk_buffer *buffer = prefix_disk_reserve(part->disk, PREFIX_ENTRY_PAGE);
    *keeps_up = buffer != NULL;
    if (buffer == NULL) {
        return STATUS_OK;
    }
    enum status status =
        state_pool_read_page(&core->states, core->stream, order->pages[index], buffer->payload);
    status = status == STATUS_OK ? stream_synchronize(core->stream) : status;
    if (status != STATUS_OK) {
        return cancel(part, buffer, status);
    }
    prefix_disk_submit(part->disk, buffer, &part->kept.keys[index], page_start(part, order->tokens, index),
                       false);
    return STATUS_OK;
}

static enum status read_snapshot(const struct prefix_part *part, const struct prefix_order *order,
                                 unsigned char *payload) {
    struct engine_core *core = part->core;
    unsigned char *saved_row = payload + core->states.snapshot_bytes;
    memset(saved_row, 0, part->saved_row_bytes);
    TRY(state_pool_read_slot(&core->states, core->stream, order->snapshot_slot, payload));
    if (order->has_draft_rows && part->saved_row_bytes > 0) {
        TRY(executor_read_saved_row(core->executor, order->snapshot_slot, saved_row));
    }
    return stream_synchronize(core->stream);
}

static enum status keep_snapshot(struct prefix_part *part, const struct prefix_order *order, int32_t index) {
    struct prefix_disk_buffer *buffer = prefix_disk_reserve(part->disk, PREFIX_ENTRY_SNAPSHOT);
    if (buffer == NULL) {
        return STATUS_OK;
    }
    enum status status = read_snapshot(part, order, buffer->payload);
    if (status != STATUS_OK) {
        return cancel(part, buffer, status);
    }
    prefix_disk_submit(part->disk, buffer, &part->kept.keys[index], page_start(part, order->tokens, index),
                       order->has_draft_rows);
    return STATUS_OK;
}

enum status prefix_part_keep(struct prefix_part *part, const struct prefix_order *order) {
    int32_t count = order->token_count / part->page_tokens;
    bool keeps_up = true;
    if (part->disk == NULL || count == 0) {
        return STATUS_OK;
    }
    TRY(check_count(part, count));
    CHECK(order->page_count == count, STATUS_INTERNAL, "a prefix of %d pages was to be kept in %d", count,
          order->page_count);
    TRY(make_keys(part, &part->kept, order->tokens, count));
    /* What is missing lies at the end: an entry is written after those that it builds on. */
    int32_t first = count;
    while (first > 0 && !has_page(part, &part->kept, first - 1)) {
        first--;
    }
    for (int32_t i = first; i < count && keeps_up; i++) {
        TRY(keep_page(part, order, i, &keeps_up));
    }
    return keeps_up ? keep_snapshot(part, order, count - 1) : STATUS_OK;
}

struct prefix_disk_counters prefix_part_counters(struct prefix_part *part) {
    return part->disk == NULL ? (struct prefix_disk_counters){0} : prefix_disk_counters(part->disk);
}
