/* Encoding is a chain of cuts: ill-formed bytes, added tokens (two passes), splits; then BPE per piece. */
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/string_buffer.h"
#include "lib/json.h"
#include "lib/regex.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

static const size_t TEXT_BYTES_MAX = (size_t)1 << 30;

struct tokenizer {
    struct tokenizer_parts parts;
};

static enum status create_from_json(const struct json *file, const char *what, struct tokenizer **out) {
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    CHECK_MEMORY(tokenizer);
    enum status status = tokenizer_file_read(file, what, &tokenizer->parts);
    if (status != STATUS_OK) {
        free(tokenizer);
        return error_forward(status, ERROR_HERE);
    }
    *out = tokenizer;
    return STATUS_OK;
}

enum status tokenizer_load(const char *path, struct tokenizer **out) {
    struct json *file = NULL;
    enum status status;
    TRY_GOTO(json_parse_file(path, TOKENIZER_FILE_BYTES_MAX, &file));
    TRY_GOTO(create_from_json(file, path, out));
fail:
    json_free(&file);
    return status;
}

static bool can_be_read(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
        fclose(file);
    }
    return file != NULL;
}

enum status tokenizer_load_of_model(const char *model_directory, const char *path, struct tokenizer **out) {
    struct string_buffer within = {0};
    string_buffer_append_format(&within, "%s/tokenizer.json", path == NULL ? model_directory : path);
    enum status status = string_buffer_check(&within);
    if (status == STATUS_OK) {
        const char *in_folder = string_buffer_text(&within);
        status = tokenizer_load(path == NULL || can_be_read(in_folder) ? in_folder : path, out);
    }
    string_buffer_deinit(&within);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

enum status tokenizer_parse(const char *bytes, size_t length, const char *what, struct tokenizer **out) {
    CHECK(length <= TOKENIZER_FILE_BYTES_MAX, STATUS_BAD_FORMAT, "%s has %zu bytes; at most %d are supported",
          what, length, TOKENIZER_FILE_BYTES_MAX);
    struct json *file = NULL;
    enum status status;
    TRY_GOTO(json_parse(bytes, length, what, &file));
    TRY_GOTO(create_from_json(file, what, out));
fail:
    json_free(&file);
    return status;
}

void tokenizer_destroy(struct tokenizer **tokenizer) {
    if (*tokenizer != NULL) {
        tokenizer_parts_deinit(&(*tokenizer)->parts);
        free(*tokenizer);
        *tokenizer = NULL;
    }
}

/* One call of tokenizer_encode. */
struct encoding {
    const struct tokenizer_parts *parts;
    struct regex_matcher *matcher;
    struct bpe_scratch scratch;
    struct token_list *out;
    uint64_t piece_count;
};

static enum status encode_piece(void *context, const char *bytes, size_t length) {
    struct encoding *encoding = context;
    const struct tokenizer_parts *parts = encoding->parts;
    encoding->piece_count++;
    if (parts->ignores_merges) {
        int32_t id = token_table_find(&parts->tokens, bytes, length, false);
        if (id >= 0) {
            TRY(token_list_append(encoding->out, id));
            return STATUS_OK;
        }
    }
    TRY(bpe_encode(&parts->merges, parts->byte_ids, bytes, length, &encoding->scratch, encoding->out));
    return STATUS_OK;
}

/* Encodes well-formed text; `pass` is the first of the passes over added tokens that is still to come. */
static enum status encode_text(struct encoding *encoding, int pass, const char *text, size_t length) {
    if (length == 0) {
        return STATUS_OK;
    }
    if (pass == ADDED_TOKEN_PASSES) {
        struct piece_sink sink = {encode_piece, encoding};
        TRY(pre_tokenizer_split(&encoding->parts->pre_tokenizer, encoding->matcher, text, length, &sink));
        return STATUS_OK;
    }
    size_t start = 0;
    struct added_token_match match;
    while (added_tokens_find(&encoding->parts->added[pass], text, length, start, &match)) {
        TRY(encode_text(encoding, pass + 1, text + start, match.start - start));
        TRY(token_list_append(encoding->out, match.id));
        start = match.end;
    }
    TRY(encode_text(encoding, pass + 1, text + start, length - start));
    return STATUS_OK;
}

static enum status encode_bytes(struct encoding *encoding, int pass, const char *text, size_t length) {
    size_t position = 0;
    while (position < length) {
        size_t valid = utf8_valid_length(text + position, length - position);
        TRY(encode_text(encoding, pass, text + position, valid));
        position += valid;
        if (position < length) {
            TRY(token_list_append(encoding->out, encoding->parts->byte_ids[(unsigned char)text[position]]));
            position++;
        }
    }
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                             const struct tokenizer_encode_options *options, struct token_list *out) {
    CHECK(length <= TEXT_BYTES_MAX, STATUS_OUT_OF_RANGE,
          "a text of %zu bytes is too long to tokenize; at most %zu", length, TEXT_BYTES_MAX);
    struct encoding encoding = {.parts = &tokenizer->parts, .out = out};
    TRY(regex_matcher_create(&encoding.matcher));
    size_t old_count = out->count;
    enum status status =
        encode_bytes(&encoding, options->match_added_tokens ? 0 : ADDED_TOKEN_PASSES, text, length);
    if (options->work != NULL) {
        options->work->piece_count += encoding.piece_count;
        options->work->heap_step_count += encoding.scratch.step_count;
    }
    bpe_scratch_deinit(&encoding.scratch);
    regex_matcher_destroy(&encoding.matcher);
    if (status != STATUS_OK) {
        out->count = old_count;
        return error_forward(status, ERROR_HERE);
    }
    return STATUS_OK;
}

enum status tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                             bool skip_special, struct string_buffer *out) {
    const struct token_table *tokens = &tokenizer->parts.tokens;
    for (size_t i = 0; i < count; i++) {
        CHECK(token_table_get(tokens, ids[i]) != NULL, STATUS_OUT_OF_RANGE,
              "the token id %d at index %zu is not in the tokenizer's vocabulary of %d", ids[i], i,
              tokens->size);
    }
    for (size_t i = 0; i < count; i++) {
        const struct token_entry *entry = token_table_get(tokens, ids[i]);
        if (!skip_special || (entry->flags & TOKEN_SPECIAL) == 0) {
            string_buffer_append(out, tokens->bytes.data + entry->offset, entry->length);
        }
    }
    TRY(string_buffer_check(out));
    return STATUS_OK;
}

const char *tokenizer_token_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *length) {
    const struct token_entry *entry = token_table_get(&tokenizer->parts.tokens, id);
    if (entry == NULL) {
        *length = 0;
        return NULL;
    }
    *length = entry->length;
    return tokenizer->parts.tokens.bytes.data + entry->offset;
}

int32_t tokenizer_added_token_id(const struct tokenizer *tokenizer, const char *text) {
    size_t length = strlen(text);
    for (int kind = 0; kind < 2; kind++) {
        int32_t id = token_table_find(&tokenizer->parts.tokens, text, length, kind == 0);
        if (tokenizer_is_added(tokenizer, id)) {
            return id;
        }
    }
    return -1;
}

int32_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer) {
    return tokenizer->parts.tokens.size;
}

static bool has_flag(const struct tokenizer *tokenizer, int32_t id, unsigned flag) {
    const struct token_entry *entry = token_table_get(&tokenizer->parts.tokens, id);
    return entry != NULL && (entry->flags & flag) != 0;
}

bool tokenizer_is_added(const struct tokenizer *tokenizer, int32_t id) {
    return has_flag(tokenizer, id, TOKEN_ADDED);
}

bool tokenizer_is_special(const struct tokenizer *tokenizer, int32_t id) {
    return has_flag(tokenizer, id, TOKEN_SPECIAL);
}
