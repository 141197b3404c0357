/* In the order of the specification's table. */
#include "parallel/layout_check.h"

enum { PAGE_UNIT = 128, MIDDLE_BUFFERS_LEAST = 3 };

enum status layout_check_rank_count(const struct mesh_shape *mesh, int64_t count, const char *what) {
    int64_t asked = (int64_t)mesh->data * mesh->pipeline * mesh->context * mesh->tensor;
    CHECK(asked == count, STATUS_USAGE,
          "%d data x %d pipeline x %d context x %d tensor parallel ranks are %lld, but there are %lld %s: "
          "change -dp, -pp or -tp, or their number",
          mesh->data, mesh->pipeline, mesh->context, mesh->tensor, (long long)asked, (long long)count, what);
    return STATUS_OK;
}

enum status layout_check_stages(int stage_count, int layer_count) {
    CHECK(stage_count <= layer_count + 1, STATUS_BAD_CONFIG,
          "%d pipeline stages were asked for, but the model has %d layers: -pp can be at most %d, the last "
          "stage with the head alone",
          stage_count, layer_count, layer_count + 1);
    return STATUS_OK;
}

enum status layout_check_draft_tensors(int draft_limit, int64_t missing_count, const char *missing) {
    CHECK(
        draft_limit == 0 || missing_count == 0, STATUS_BAD_CHECKPOINT,
        "drafting is on (num_speculative_tokens %d), but the checkpoint lacks %lld draft tensors, the first "
        "is %s: leave --speculative-config out",
        draft_limit, (long long)missing_count, missing);
    return STATUS_OK;
}

enum status layout_check_reserved(const struct mesh_shape *mesh) {
    CHECK(mesh->context == 1, STATUS_UNSUPPORTED,
          "context parallelism of %d was asked for, which is not supported yet: leave -cp at 1",
          mesh->context);
    return STATUS_OK;
}

enum status layout_check_page_tokens(int64_t page_tokens) {
    CHECK(page_tokens >= PAGE_UNIT && page_tokens <= 1 << 20 && page_tokens % PAGE_UNIT == 0, STATUS_USAGE,
          "page_tokens (--block-size) is %lld, expected a multiple of %d: a page holds whole blocks of every "
          "layer",
          (long long)page_tokens, PAGE_UNIT);
    return STATUS_OK;
}

enum status layout_check_buffers(int stage_count, int groups_in_flight, int buffer_count) {
    CHECK(
        stage_count < 3 || buffer_count >= MIDDLE_BUFFERS_LEAST, STATUS_USAGE,
        "%d boundary buffers with %d groups in flight over %d stages: a middle stage receives, computes and "
        "sends at once, so --pp-buffers must be at least %d",
        buffer_count, groups_in_flight, stage_count, MIDDLE_BUFFERS_LEAST);
    return STATUS_OK;
}

bool layout_append_few_groups(int stage_count, int groups_in_flight, int buffer_count,
                              struct string_buffer *out) {
    if (groups_in_flight == 0 || groups_in_flight >= stage_count) {
        return false;
    }
    string_buffer_append_format(
        out, "%d groups in flight cannot fill %d stages (%d boundary buffers): leave --pp-inflight at %d",
        groups_in_flight, stage_count, buffer_count, stage_count);
    return true;
}

enum status layout_check_expert_table(const char *name, int64_t row_count, int64_t vocabulary_size) {
    CHECK(row_count == vocabulary_size, STATUS_BAD_CHECKPOINT,
          "%s has %lld rows, but the vocabulary has %lld entries: config.json and files do not belong "
          "together",
          name, (long long)row_count, (long long)vocabulary_size);
    return STATUS_OK;
}

enum status layout_check_sums(const char *backend, int tensor, int most) {
    bool is_power = (tensor & (tensor - 1)) == 0;
    int nearest = 1;
    while (nearest * 2 <= tensor && nearest * 2 <= most) {
        nearest *= 2;
    }
    CHECK(is_power && tensor <= most, STATUS_UNSUPPORTED,
          "the %s backend's sums are the same on any number of ranks that is a power of two up to %d, so "
          "tensor parallelism of %d is not supported: the nearest supported is -tp %d",
          backend, most, tensor, nearest);
    return STATUS_OK;
}
