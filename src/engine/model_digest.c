/* One long text of all that counts, hashed at the end; contents go in as hashes of their own. */
#include "engine/model_digest.h"

#include <inttypes.h>

#include "base/string_buffer.h"

enum { WHOLE_BYTES_MAX = 65536, SAMPLE_BYTES = 4096, SAMPLE_EVERY = 16 };

/* Bytes of a tensor that are looked at: all of a small one, the beginning of some big ones. */
static size_t sampled_bytes(const struct checkpoint_tensor *tensor, size_t index) {
    if (tensor->bytes <= WHOLE_BYTES_MAX) {
        return tensor->bytes;
    }
    return index % SAMPLE_EVERY == 0 ? SAMPLE_BYTES : 0;
}

static void append_shard(const struct checkpoint_shard *shard, struct string_buffer *text) {
    string_buffer_append_format(text, "%s %zu %" PRId64 "\n", shard->file_name, shard->map.length,
                                shard->map.modified_nanoseconds);
}

static void append_tensor(const struct checkpoint *checkpoint, size_t index, struct string_buffer *text) {
    const struct checkpoint_tensor *tensor = &checkpoint->tensors[index];
    size_t bytes = sampled_bytes(tensor, index);
    struct hash128 hash = hash_xxh3_128(checkpoint_tensor_data(checkpoint, tensor), bytes, 0);
    string_buffer_append_format(text, "%s %d %zu %zu %zu %016" PRIx64 "%016" PRIx64, tensor->name,
                                (int)tensor->dtype, tensor->shard, tensor->offset, tensor->bytes, hash.high,
                                hash.low);
    for (int axis = 0; axis < tensor->rank; axis++) {
        string_buffer_append_format(text, " %lld", (long long)tensor->shape[axis]);
    }
    string_buffer_append_text(text, "\n");
}

enum status model_digest_make(const struct json *config, const struct checkpoint *checkpoint,
                              uint8_t digest[HASH_SHA256_BYTES]) {
    struct string_buffer text = {0};
    enum status status = json_write(config, &text);
    for (size_t i = 0; i < checkpoint->shard_count && status == STATUS_OK; i++) {
        append_shard(&checkpoint->shards[i], &text);
    }
    for (size_t i = 0; i < checkpoint->tensor_count && status == STATUS_OK; i++) {
        append_tensor(checkpoint, i, &text);
    }
    if (status == STATUS_OK) {
        status = string_buffer_check(&text);
    }
    if (status == STATUS_OK) {
        status = hash_sha256(text.data, text.length, digest);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
