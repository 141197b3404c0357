/* Lines are compared as text: whoever adds a key need not change how ranks are compared. */
#include "engine/rank_identity.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend_registry.h"
#include "base/build_id.h"
#include "engine/executor.h"
#include "engine/model_digest.h"
#include "lib/hash.h"
#include "lib/json.h"

enum {
    PROTOCOL_VERSION = 1,
    CONFIG_BYTES_MAX = 16 << 20,
    IDENTITY_BYTES_MAX = 4 << 20,
    DIFFERENCES_SHOWN = 4,
    VALUE_BYTES_SHOWN = 60,
};

static void append_hex(struct string_buffer *out, const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        string_buffer_append_format(out, "%02x", bytes[i]);
    }
}

static enum status append_config(const struct json *config, struct string_buffer *out) {
    for (const struct json_member *member = json_first(config); member != NULL;
         member = json_next(config, member)) {
        string_buffer_append_format(out, "config.json %s=", json_member_key(member, NULL));
        TRY(json_write(json_member_value(member), out));
        string_buffer_append_char(out, '\n');
    }
    return STATUS_OK;
}

static enum status append_files(const char *directory, struct string_buffer *out) {
    struct json *config = NULL;
    struct checkpoint *checkpoint = NULL;
    struct string_buffer path = {0};
    uint8_t digest[HASH_SHA256_BYTES];
    enum status status = STATUS_OK;
    string_buffer_append_format(&path, "%s/config.json", directory);
    TRY_GOTO(string_buffer_check(&path));
    TRY_GOTO(json_parse_file(string_buffer_text(&path), CONFIG_BYTES_MAX, &config));
    TRY_GOTO(append_config(config, out));
    TRY_GOTO(checkpoint_open(directory, &checkpoint));
    TRY_GOTO(model_digest_make(config, checkpoint, digest));
    string_buffer_append_text(out, "checkpoint=");
    append_hex(out, digest, sizeof digest);
    string_buffer_append_char(out, '\n');
fail:
    checkpoint_close(&checkpoint);
    json_free(&config);
    string_buffer_deinit(&path);
    return status;
}

static enum status append_arithmetic(const struct sluice_engine_options *options, struct string_buffer *out) {
    const struct backend *backend;
    struct op_table table;
    TRY(backend_find(options->device, &backend));
    TRY(backend->build_table((enum numerics)options->numerics, options->cpu_features, &table));
    string_buffer_append_text(out, "arithmetic=");
    executor_describe_table(&table, out);
    string_buffer_append_char(out, '\n');
    return STATUS_OK;
}

enum status rank_identity_describe(const struct sluice_engine_options *options, struct string_buffer *out) {
    char build[BUILD_ID_TEXT_BYTES];
    build_id_read(build);
    string_buffer_append_format(
        out, "protocol=%d\nbuild=%s\nnumerics=%s\nnum_speculative_tokens=%d\n", PROTOCOL_VERSION, build,
        options->numerics == SLUICE_NUMERICS_IDEAL ? "ideal" : "native", options->draft.limit);
    TRY(append_files(options->model_directory, out));
    TRY(append_arithmetic(options, out));
    return string_buffer_check(out);
}

/* A line's value, or NULL. `key` ends at its '='. */
static const char *find_value(const char *lines, const char *key, size_t key_length) {
    for (const char *line = lines; line != NULL && *line != '\0';) {
        if (strncmp(line, key, key_length) == 0 && line[key_length] == '=') {
            return line + key_length + 1;
        }
        const char *end = strchr(line, '\n');
        line = end == NULL ? NULL : end + 1;
    }
    return NULL;
}

static int value_length(const char *value) {
    size_t length = strcspn(value, "\n");
    return (int)(length < VALUE_BYTES_SHOWN ? length : VALUE_BYTES_SHOWN);
}

/* What two long values have in common at their beginnings says nothing. */
static size_t common_length(const char *a, const char *b) {
    size_t length = 0;
    while (a[length] == b[length] && a[length] != '\n' && a[length] != '\0') {
        length++;
    }
    return length < VALUE_BYTES_SHOWN / 2 ? 0 : length - VALUE_BYTES_SHOWN / 4;
}

static void append_difference(struct string_buffer *out, const char *key, size_t key_length,
                              const char *leader, const char *other) {
    static const char nothing[] = "nothing";
    leader = leader == NULL ? nothing : leader;
    other = other == NULL ? nothing : other;
    size_t skipped = common_length(leader, other);
    string_buffer_append_format(out, "%s%.*s is %.*s there and %.*s here", out->length == 0 ? "" : ", ",
                                (int)key_length, key, value_length(other + skipped), other + skipped,
                                value_length(leader + skipped), leader + skipped);
}

/* Differences of keys of `lines`; keys that both have count only in the leader's turn. */
static int collect_differences(const char *lines, const char *leader, const char *other, bool is_leaders_turn,
                               struct string_buffer *out) {
    int count = 0;
    for (const char *line = lines; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        size_t key_length = strcspn(line, "=\n");
        const char *a = find_value(leader, line, key_length);
        const char *b = find_value(other, line, key_length);
        bool is_equal = a != NULL && b != NULL && strcspn(a, "\n") == strcspn(b, "\n") &&
                        memcmp(a, b, strcspn(a, "\n")) == 0;
        if (!is_equal && (is_leaders_turn || a == NULL) && count++ < DIFFERENCES_SHOWN) {
            append_difference(out, line, key_length, a, b);
        }
        line = *end == '\0' ? end : end + 1;
    }
    return count;
}

enum status rank_identity_compare(const char *leader, const char *other, int other_rank) {
    struct string_buffer differences = {0};
    int count = collect_differences(leader, leader, other, true, &differences);
    count += collect_differences(other, leader, other, false, &differences);
    char text[ERROR_MESSAGE_BYTES / 2];
    size_t length = differences.length < sizeof text - 1 ? differences.length : sizeof text - 1;
    memcpy(text, string_buffer_text(&differences), length);
    text[length] = '\0';
    string_buffer_deinit(&differences);
    CHECK(count == 0, STATUS_BAD_CONFIG,
          "rank %d does not fit rank 0: %s; all ranks need the same program, checkpoint and options",
          other_rank, text);
    return STATUS_OK;
}

static enum status make_digest(const struct rank_identity_key *key, int rank, const char *text, size_t length,
                               uint8_t digest[HASH_SHA256_BYTES]) {
    struct string_buffer bytes = {0};
    string_buffer_append(&bytes, (const char *)key->nonce, sizeof key->nonce);
    string_buffer_append_format(&bytes, "%d\n", rank);
    string_buffer_append(&bytes, text, length);
    enum status status = string_buffer_check(&bytes);
    if (status == STATUS_OK) {
        status = hash_hmac_sha256(key->secret, key->secret_bytes, bytes.data, bytes.length, digest);
    }
    string_buffer_deinit(&bytes);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Each description, with its digest before it, ends with a zero byte. */
static enum status check_all(const struct rank_identity_key *key, const char *all, const size_t *offsets,
                             int count) {
    for (int rank = 0; rank < count; rank++) {
        const char *own = all + offsets[rank];
        size_t length = offsets[rank + 1] - offsets[rank];
        uint8_t digest[HASH_SHA256_BYTES];
        CHECK(length > HASH_SHA256_BYTES && own[length - 1] == '\0', STATUS_PEER_LOST,
              "rank %d describes itself in another form: all ranks need the same program", rank);
        TRY(make_digest(key, rank, own + HASH_SHA256_BYTES, length - HASH_SHA256_BYTES, digest));
        CHECK(hash_digest_is_equal(digest, (const uint8_t *)own), STATUS_PEER_LOST,
              "rank %d does not know the secret of this job: give all ranks the same --peer-secret-file",
              rank);
    }
    for (int rank = 1; rank < count; rank++) {
        TRY(rank_identity_compare(all + offsets[0] + HASH_SHA256_BYTES,
                                  all + offsets[rank] + HASH_SHA256_BYTES, rank));
    }
    return STATUS_OK;
}

/* Where everybody's bytes go. offsets: [size + 1]. */
static enum status gather_offsets(struct comm *comm, uint64_t own_bytes, size_t *offsets) {
    int size = comm_size(comm);
    uint64_t *sizes = calloc((size_t)size, sizeof *sizes);
    CHECK_MEMORY(sizes);
    for (int i = 0; i <= size; i++) {
        offsets[i] = (size_t)i * sizeof *sizes;
    }
    enum status status = comm_gather(comm, NULL, &own_bytes, offsets, sizes);
    for (int i = 0; i < size && status == STATUS_OK; i++) {
        CHECK_GOTO(sizes[i] <= IDENTITY_BYTES_MAX, STATUS_PEER_LOST,
                   "rank %d describes itself in another form: all ranks need the same program", i);
        offsets[i + 1] = offsets[i] + (size_t)sizes[i];
    }
fail:
    free(sizes);
    return status;
}

enum status rank_identity_agree(struct comm *comm, const struct rank_identity_key *key,
                                const struct string_buffer *own) {
    enum status status = STATUS_OK;
    int size = comm_size(comm);
    size_t own_bytes = HASH_SHA256_BYTES + own->length + 1;
    char *all = NULL;
    char *mine = NULL;
    size_t *offsets = calloc((size_t)size + 1, sizeof *offsets);
    CHECK_MEMORY(offsets);
    TRY_GOTO(gather_offsets(comm, own_bytes, offsets));
    all = calloc(1, offsets[size]);
    mine = calloc(1, own_bytes);
    CHECK_MEMORY_GOTO(all);
    CHECK_MEMORY_GOTO(mine);
    memcpy(mine + HASH_SHA256_BYTES, string_buffer_text(own), own->length);
    TRY_GOTO(make_digest(key, comm_rank(comm), mine + HASH_SHA256_BYTES, own->length + 1, (uint8_t *)mine));
    TRY_GOTO(comm_gather(comm, NULL, mine, offsets, all));
    TRY_GOTO(check_all(key, all, offsets, size));
fail:
    free(mine);
    free(all);
    free(offsets);
    return status;
}
