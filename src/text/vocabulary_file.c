/* Vocabulary and merges; both are written in the byte alphabet. */
#include "text/vocabulary_file.h"

#include <string.h>

#include "text/byte_alphabet.h"
#include "text/tokenizer_file_checks.h"
#include "text/utf8.h"

/* Appends the bytes that `text` stands for; false if it has a character outside the byte alphabet. */
static bool append_alphabet_bytes(const char *text, size_t length, struct string_buffer *out) {
    for (size_t position = 0; position < length;) {
        struct utf8_step step = utf8_next(text + position, length - position);
        int byte = step.kind == UTF8_CHARACTER ? byte_alphabet_byte(step.code_point) : -1;
        if (byte < 0) {
            return false;
        }
        string_buffer_append_char(out, (char)byte);
        position += step.length;
    }
    return true;
}

static enum status read_token(const struct json_member *member, const char *what, struct token_table *tokens,
                              struct string_buffer *scratch) {
    size_t length = 0;
    const char *key = json_member_key(member, &length);
    const struct json *value = json_member_value(member);
    CHECK(json_kind(value) == JSON_KIND_INTEGER, STATUS_BAD_FORMAT,
          "%s: model.vocab has a token whose id is not an integer: \"%s\"", what, key);
    int64_t id = json_int64(value);
    CHECK(id >= 0 && id < TOKEN_ID_LIMIT, STATUS_BAD_FORMAT,
          "%s: model.vocab has the id %lld; ids must be in 0..%d", what, (long long)id, TOKEN_ID_LIMIT - 1);
    CHECK(length > 0, STATUS_BAD_FORMAT, "%s: model.vocab has an empty token (id %lld)", what, (long long)id);
    CHECK(token_table_get(tokens, (int32_t)id) == NULL, STATUS_BAD_FORMAT,
          "%s: model.vocab gives the id %lld to two tokens", what, (long long)id);
    string_buffer_clear(scratch);
    if (append_alphabet_bytes(key, length, scratch)) {
        TRY(string_buffer_check(scratch));
        TRY(token_table_add(tokens, (int32_t)id, scratch->data, scratch->length, 0));
    } else {
        TRY(token_table_add(tokens, (int32_t)id, key, length, TOKEN_TEXT));
    }
    return STATUS_OK;
}

static enum status read_tokens(const struct json *vocabulary, const char *what, struct tokenizer_parts *parts,
                               struct string_buffer *scratch) {
    CHECK(vocabulary != NULL && json_kind(vocabulary) == JSON_KIND_OBJECT, STATUS_BAD_FORMAT,
          "%s: model.vocab is missing or not an object", what);
    for (const struct json_member *member = json_first(vocabulary); member != NULL;
         member = json_next(vocabulary, member)) {
        TRY(read_token(member, what, &parts->tokens, scratch));
    }
    for (int byte = 0; byte < 256; byte++) {
        char bytes[1] = {(char)byte};
        parts->byte_ids[byte] = token_table_find(&parts->tokens, bytes, 1, false);
        CHECK(parts->byte_ids[byte] >= 0, STATUS_UNSUPPORTED,
              "%s: model.vocab has no token for the byte 0x%02X; only byte-level vocabularies are supported",
              what, (unsigned)byte);
    }
    return STATUS_OK;
}

/* The two sides of a merge as they stand in the file. */
struct merge_text {
    const char *sides[2];
    size_t lengths[2];
};

/* A merge is "a b" in older files and ["a", "b"] in newer ones; the blank is not in the byte alphabet. */
static bool read_merge_text(const struct json *merge, struct merge_text *out) {
    if (json_kind(merge) == JSON_KIND_ARRAY && json_length(merge) == 2) {
        for (size_t i = 0; i < 2; i++) {
            out->sides[i] = json_text(json_at(merge, i), &out->lengths[i]);
        }
        return out->sides[0] != NULL && out->sides[1] != NULL;
    }
    size_t length = 0;
    const char *text = json_text(merge, &length);
    const char *blank = text == NULL ? NULL : memchr(text, ' ', length);
    if (blank == NULL) {
        return false;
    }
    size_t left_length = (size_t)(blank - text);
    *out = (struct merge_text){{text, blank + 1}, {left_length, length - left_length - 1}};
    return true;
}

static enum status read_merge(const struct json *merge, size_t rank, const char *what,
                              struct tokenizer_parts *parts, struct string_buffer *scratch) {
    struct merge_text text;
    CHECK(read_merge_text(merge, &text), STATUS_BAD_FORMAT,
          "%s: model.merges[%zu] is neither \"left right\" nor [\"left\", \"right\"]", what, rank);
    string_buffer_clear(scratch);
    int32_t ids[2];
    for (size_t i = 0; i < 2; i++) {
        size_t start = scratch->length;
        bool is_mapped = append_alphabet_bytes(text.sides[i], text.lengths[i], scratch);
        TRY(string_buffer_check(scratch));
        ids[i] = -1;
        if (is_mapped && scratch->length > start) {
            ids[i] = token_table_find(&parts->tokens, scratch->data + start, scratch->length - start, false);
        }
        CHECK(ids[i] >= 0, STATUS_BAD_FORMAT, "%s: the %s side of model.merges[%zu] is not in the vocabulary",
              what, i == 0 ? "left" : "right", rank);
    }
    int32_t result = token_table_find(&parts->tokens, scratch->data, scratch->length, false);
    CHECK(result >= 0, STATUS_BAD_FORMAT, "%s: the result of model.merges[%zu] is not in the vocabulary",
          what, rank);
    CHECK(merge_table_add(&parts->merges, ids[0], ids[1], result), STATUS_BAD_FORMAT,
          "%s: model.merges[%zu] repeats the pair of an earlier merge", what, rank);
    return STATUS_OK;
}

static enum status read_merges(const struct json *merges, const char *what, struct tokenizer_parts *parts,
                               struct string_buffer *scratch) {
    CHECK(merges != NULL && json_kind(merges) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "%s: model.merges is missing or not an array", what);
    size_t count = json_length(merges);
    CHECK(count <= MERGE_COUNT_LIMIT, STATUS_UNSUPPORTED,
          "%s: model.merges has %zu merges; at most %d are supported", what, count, MERGE_COUNT_LIMIT);
    TRY(merge_table_init(&parts->merges, count));
    for (size_t rank = 0; rank < count; rank++) {
        TRY(read_merge(json_at(merges, rank), rank, what, parts, scratch));
    }
    return STATUS_OK;
}

enum status vocabulary_file_read(const struct json *model, const char *what, struct tokenizer_parts *parts) {
    static const char *const keys[] = {"type",
                                       "dropout",
                                       "unk_token",
                                       "continuing_subword_prefix",
                                       "end_of_word_suffix",
                                       "fuse_unk",
                                       "byte_fallback",
                                       "ignore_merges",
                                       "vocab",
                                       "merges",
                                       NULL};
    static const char *const unset_keys[] = {
        "dropout",  "unk_token",    "continuing_subword_prefix", "end_of_word_suffix",
        "fuse_unk", "byte_fallback"};
    TRY(tokenizer_file_check_keys(model, keys, what, "model"));
    TRY(tokenizer_file_check_type(model, "BPE", what, "model"));
    for (size_t i = 0; i < sizeof unset_keys / sizeof unset_keys[0]; i++) {
        TRY(tokenizer_file_check_unset(model, unset_keys[i], what, "model"));
    }
    const struct json *ignore_merges = json_get(model, "ignore_merges");
    CHECK(tokenizer_file_is_absent(ignore_merges) || json_kind(ignore_merges) == JSON_KIND_BOOL,
          STATUS_BAD_FORMAT, "%s: model.ignore_merges is not a boolean", what);
    parts->ignores_merges = ignore_merges != NULL && json_bool(ignore_merges);
    struct string_buffer scratch = {0};
    enum status status;
    TRY_GOTO(read_tokens(json_get(model, "vocab"), what, parts, &scratch));
    TRY_GOTO(read_merges(json_get(model, "merges"), what, parts, &scratch));
fail:
    string_buffer_deinit(&scratch);
    return status;
}
