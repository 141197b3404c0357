/* The top level of the file: added tokens, normalizer, splits, decoder; the model is vocabulary_file's. */
#include "text/tokenizer_file.h"

#include <stdio.h>
#include <string.h>

#include "text/split_pattern.h"
#include "text/tokenizer_file_checks.h"
#include "text/vocabulary_file.h"

enum { PLACE_BYTES = 64 };

void tokenizer_parts_deinit(struct tokenizer_parts *parts) {
    token_table_deinit(&parts->tokens);
    merge_table_deinit(&parts->merges);
    for (int pass = 0; pass < ADDED_TOKEN_PASSES; pass++) {
        added_tokens_deinit(&parts->added[pass]);
    }
    pre_tokenizer_deinit(&parts->pre_tokenizer);
    *parts = (struct tokenizer_parts){0};
}

/* Visible ASCII stands for itself in the byte alphabet: such a text may be a piece of the vocabulary. */
static bool is_visible_ascii(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] < 0x21 || text[i] > 0x7E) {
            return false;
        }
    }
    return true;
}

/* Enters the token into the table, or marks the entry that the vocabulary has for it. */
static enum status enter_added_token(const char *text, size_t length, int64_t id, unsigned flags,
                                     const char *what, const char *where, struct token_table *tokens) {
    bool is_text = !is_visible_ascii(text, length);
    int32_t known_id = token_table_find(tokens, text, length, is_text);
    if (known_id < 0 && !is_text) {
        /* an added token that the vocabulary does not hold */
        known_id = token_table_find(tokens, text, length, true);
    }
    if (known_id >= 0) {
        CHECK(known_id == id, STATUS_BAD_FORMAT, "%s: %s has the id %lld, but its text is the token %d", what,
              where, (long long)id, known_id);
        CHECK((tokens->entries[id].flags & TOKEN_ADDED) == 0, STATUS_BAD_FORMAT,
              "%s: %s repeats an earlier added token", what, where);
        tokens->entries[id].flags |= flags;
        return STATUS_OK;
    }
    CHECK(id >= 0 && id < TOKEN_ID_LIMIT, STATUS_BAD_FORMAT, "%s: %s has the id %lld; ids must be in 0..%d",
          what, where, (long long)id, TOKEN_ID_LIMIT - 1);
    CHECK(token_table_get(tokens, (int32_t)id) == NULL, STATUS_BAD_FORMAT,
          "%s: %s has the id %lld, which another token has", what, where, (long long)id);
    TRY(token_table_add(tokens, (int32_t)id, text, length, flags | TOKEN_TEXT));
    return STATUS_OK;
}

static enum status read_added_token(const struct json *item, const char *what, const char *where,
                                    struct tokenizer_parts *parts) {
    static const char *const keys[] = {"id",     "content",    "single_word", "lstrip",
                                       "rstrip", "normalized", "special",     NULL};
    static const char *const unset_keys[] = {"single_word", "lstrip", "rstrip"};
    TRY(tokenizer_file_check_keys(item, keys, what, where));
    for (size_t i = 0; i < sizeof unset_keys / sizeof unset_keys[0]; i++) {
        TRY(tokenizer_file_check_unset(item, unset_keys[i], what, where));
    }
    const struct json *id = json_get(item, "id");
    const struct json *content = json_get(item, "content");
    const struct json *special = json_get(item, "special");
    const struct json *normalized = json_get(item, "normalized");
    CHECK(id != NULL && json_kind(id) == JSON_KIND_INTEGER, STATUS_BAD_FORMAT, "%s: %s has no integer id",
          what, where);
    CHECK(special != NULL && json_kind(special) == JSON_KIND_BOOL && normalized != NULL &&
              json_kind(normalized) == JSON_KIND_BOOL,
          STATUS_BAD_FORMAT, "%s: %s does not say with true or false whether it is special and normalized",
          what, where);
    size_t length = 0;
    const char *text = content == NULL ? NULL : json_text(content, &length);
    CHECK(text != NULL && length > 0 && length <= ADDED_TOKEN_BYTES_MAX, STATUS_BAD_FORMAT,
          "%s: %s must have a content of 1 to %d bytes", what, where, ADDED_TOKEN_BYTES_MAX);
    unsigned flags = TOKEN_ADDED | (json_bool(special) ? TOKEN_SPECIAL : 0u);
    TRY(enter_added_token(text, length, json_int64(id), flags, what, where, &parts->tokens));
    TRY(added_tokens_add(&parts->added[json_bool(normalized) ? 1 : 0], text, length,
                         (int32_t)json_int64(id)));
    return STATUS_OK;
}

static enum status read_added_tokens(const struct json *list, const char *what,
                                     struct tokenizer_parts *parts) {
    if (tokenizer_file_is_absent(list)) {
        return STATUS_OK;
    }
    CHECK(json_kind(list) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT, "%s: added_tokens is not an array", what);
    for (size_t i = 0; i < json_length(list); i++) {
        char where[PLACE_BYTES];
        snprintf(where, sizeof where, "added_tokens[%zu]", i);
        TRY(read_added_token(json_at(list, i), what, where, parts));
    }
    return STATUS_OK;
}

static enum status check_normalizer(const struct json *normalizer, const char *what) {
    static const char *const keys[] = {"type", "normalizers", NULL};
    if (tokenizer_file_is_absent(normalizer)) {
        return STATUS_OK;
    }
    const char *where = "normalizer";
    TRY(tokenizer_file_check_keys(normalizer, keys, what, where));
    TRY(tokenizer_file_check_type(normalizer, "Sequence", what, where));
    CHECK(json_length(json_get(normalizer, "normalizers")) == 0, STATUS_UNSUPPORTED,
          "%s: normalizer has steps; only text that is not normalized is supported", what);
    return STATUS_OK;
}

/* Compiles {"Regex": "..."} or {"String": "..."}. */
static enum status read_split_pattern(const struct json *pattern, const char *what, const char *where,
                                      struct regex **out) {
    static const char *const keys[] = {"Regex", "String", NULL};
    TRY(tokenizer_file_check_keys(pattern, keys, what, where));
    size_t length = 0;
    const struct json *regex = json_get(pattern, "Regex");
    const struct json *literal = json_get(pattern, "String");
    CHECK((regex == NULL) != (literal == NULL), STATUS_BAD_FORMAT,
          "%s: %s must hold one of \"Regex\" and \"String\"", what, where);
    const char *text = json_text(regex != NULL ? regex : literal, &length);
    CHECK(text != NULL && length > 0, STATUS_BAD_FORMAT, "%s: %s must hold a text that is not empty", what,
          where);
    char name[ERROR_MESSAGE_BYTES / 2];
    snprintf(name, sizeof name, "%s: %s", what, where);
    if (literal != NULL) {
        TRY(regex_create(text, length, REGEX_SYNTAX_LITERAL, name, out));
        return STATUS_OK;
    }
    struct string_buffer translated = {0};
    enum status status;
    TRY_GOTO(split_pattern_translate(text, length, name, &translated));
    TRY_GOTO(regex_create(translated.data, translated.length, REGEX_SYNTAX_PERL, name, out));
fail:
    string_buffer_deinit(&translated);
    return status;
}

static enum status read_split(const struct json *step, const char *what, const char *where,
                              struct pre_tokenizer *pre_tokenizer) {
    static const char *const keys[] = {"type", "pattern", "behavior", "invert", NULL};
    TRY(tokenizer_file_check_keys(step, keys, what, where));
    TRY(tokenizer_file_check_type(step, "Split", what, where));
    CHECK(tokenizer_file_is_text(json_get(step, "behavior"), "Isolated"), STATUS_UNSUPPORTED,
          "%s: %s has another behavior than \"Isolated\", which is not supported", what, where);
    TRY(tokenizer_file_check_unset(step, "invert", what, where));
    CHECK(pre_tokenizer->split_count < PRE_TOKENIZER_SPLITS_MAX, STATUS_UNSUPPORTED,
          "%s: pre_tokenizer has more than %d splits, which is not supported", what,
          PRE_TOKENIZER_SPLITS_MAX);
    char pattern_where[PLACE_BYTES + sizeof ".pattern"];
    snprintf(pattern_where, sizeof pattern_where, "%s.pattern", where);
    TRY(read_split_pattern(json_get(step, "pattern"), what, pattern_where,
                           &pre_tokenizer->splits[pre_tokenizer->split_count]));
    pre_tokenizer->split_count++;
    return STATUS_OK;
}

/* Both switches are on if the file does not say otherwise. */
static enum status check_byte_level(const struct json *step, const char *what, const char *where) {
    static const char *const keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    static const char *const switches[] = {"add_prefix_space", "use_regex"};
    TRY(tokenizer_file_check_keys(step, keys, what, where));
    TRY(tokenizer_file_check_type(step, "ByteLevel", what, where));
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const struct json *value = json_get(step, switches[i]);
        CHECK(value != NULL && json_kind(value) == JSON_KIND_BOOL && !json_bool(value), STATUS_UNSUPPORTED,
              "%s: %s does not set %s to false; only false is supported", what, where, switches[i]);
    }
    return STATUS_OK;
}

static enum status read_pre_tokenizer(const struct json *sequence, const char *what,
                                      struct pre_tokenizer *pre_tokenizer) {
    static const char *const keys[] = {"type", "pretokenizers", NULL};
    TRY(tokenizer_file_check_keys(sequence, keys, what, "pre_tokenizer"));
    TRY(tokenizer_file_check_type(sequence, "Sequence", what, "pre_tokenizer"));
    const struct json *steps = json_get(sequence, "pretokenizers");
    size_t count = json_length(steps);
    CHECK(count > 0 && json_kind(steps) == JSON_KIND_ARRAY, STATUS_BAD_FORMAT,
          "%s: pre_tokenizer.pretokenizers is missing, empty or not an array", what);
    for (size_t i = 0; i < count; i++) {
        char where[PLACE_BYTES];
        snprintf(where, sizeof where, "pre_tokenizer.pretokenizers[%zu]", i);
        if (i + 1 < count) {
            TRY(read_split(json_at(steps, i), what, where, pre_tokenizer));
        } else {
            TRY(check_byte_level(json_at(steps, i), what, where));
        }
    }
    return STATUS_OK;
}

static enum status read_file(const struct json *file, const char *what, struct tokenizer_parts *parts) {
    static const char *const keys[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    static const char *const decoder_keys[] = {"type", "add_prefix_space", "trim_offsets", "use_regex", NULL};
    TRY(tokenizer_file_check_keys(file, keys, what, "the file"));
    TRY(check_normalizer(json_get(file, "normalizer"), what));
    TRY(read_pre_tokenizer(json_get(file, "pre_tokenizer"), what, &parts->pre_tokenizer));
    /* A decoder ignores the three switches: they belong to the same object's use as a pre-tokenizer. */
    TRY(tokenizer_file_check_keys(json_get(file, "decoder"), decoder_keys, what, "decoder"));
    TRY(tokenizer_file_check_type(json_get(file, "decoder"), "ByteLevel", what, "decoder"));
    TRY(vocabulary_file_read(json_get(file, "model"), what, parts));
    TRY(read_added_tokens(json_get(file, "added_tokens"), what, parts));
    return STATUS_OK;
}

enum status tokenizer_file_read(const struct json *file, const char *what, struct tokenizer_parts *parts) {
    *parts = (struct tokenizer_parts){0};
    enum status status = read_file(file, what, parts);
    if (status != STATUS_OK) {
        tokenizer_parts_deinit(parts);
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}
