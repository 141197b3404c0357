/* tokenizer.json files made by hand: what is read, and what is refused with which sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "text/byte_alphabet.h"
#include "text/tokenizer_fixture.h"
#include "text/utf8.h"

/* Parts of a file; those that are NULL are as in the smallest good file. */
struct file_parts {
    const char *top;        /* members before all others */
    const char *added;      /* array */
    const char *normalizer; /* value */
    const char *pre;        /* value of pre_tokenizer */
    const char *decoder;    /* value */
    const char *model;      /* members of model before vocab */
    const char *vocab;      /* members after the 256 bytes, whose ids are the bytes */
    const char *merges;     /* array */
};

#define BYTE_LEVEL \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define SEQUENCE(steps) "{\"type\":\"Sequence\",\"pretokenizers\":[" steps "]}"
#define SPLIT(pattern)                                                                                  \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\",\"invert\":" \
    "false}"
#define ADDED(id, content, special, normalized)                                                           \
    "{\"id\":" id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false," \
    "\"normalized\":" normalized ",\"special\":" special "}"

static const char *or_default(const char *text, const char *other) {
    return text == NULL ? other : text;
}

static void append_byte_vocabulary(struct string_buffer *out) {
    for (int byte = 0; byte < 256; byte++) {
        char character[UTF8_CHARACTER_BYTES_MAX];
        size_t length = utf8_encode(byte_alphabet_character((unsigned char)byte), character);
        string_buffer_append_text(out, byte == 0 ? "\"" : ",\"");
        if (byte == '"' || byte == '\\') {
            string_buffer_append_char(out, '\\');
        }
        string_buffer_append(out, character, length);
        string_buffer_append_format(out, "\":%d", byte);
    }
}

static void write_file(const struct file_parts *parts, struct string_buffer *out) {
    string_buffer_append_format(out, "{%s\"added_tokens\":%s,\"normalizer\":%s,", or_default(parts->top, ""),
                                or_default(parts->added, "[]"), or_default(parts->normalizer, "null"));
    string_buffer_append_format(out, "\"pre_tokenizer\":%s,\"decoder\":%s,\"model\":{%s\"vocab\":{",
                                or_default(parts->pre, SEQUENCE(SPLIT("\\\\s+") "," BYTE_LEVEL)),
                                or_default(parts->decoder, "{\"type\":\"ByteLevel\"}"),
                                or_default(parts->model, "\"type\":\"BPE\","));
    append_byte_vocabulary(out);
    string_buffer_append_format(out, "%s},\"merges\":%s}}",
                                or_default(parts->vocab, ",\"ab\":256,\"abc\":257"),
                                or_default(parts->merges, "[\"a b\",[\"ab\",\"c\"]]"));
}

static enum status parse_parts(const struct file_parts *parts, struct tokenizer **out) {
    struct string_buffer text = {0};
    write_file(parts, &text);
    enum status status = tokenizer_parse(text.data, text.length, "tokenizer.json", out);
    string_buffer_deinit(&text);
    return status;
}

static struct tokenizer *parse_good(struct file_parts parts) {
    struct tokenizer *tokenizer = NULL;
    if (parse_parts(&parts, &tokenizer) != STATUS_OK) {
        fail_msg("%s", error_last()->message);
    }
    return tokenizer;
}

static void assert_refused(struct file_parts parts, enum status expected, const char *message) {
    struct tokenizer *tokenizer = NULL;
    enum status status = parse_parts(&parts, &tokenizer);
    assert_null(tokenizer);
    assert_string_equal(error_last()->message, message);
    assert_int_equal(status, expected);
}

#define IDS(...) (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)

static void test_smallest_file(void **state) {
    (void)state;
    struct tokenizer *tokenizer = parse_good((struct file_parts){0});
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 258);
    assert_ids(tokenizer, "abcab  a b", IDS(257, 256, ' ', ' ', 'a', ' ', 'b'));
    tokenizer_destroy(&tokenizer);
    assert_null(tokenizer);
}

/* The lowest rank first, the leftmost among equals. */
static void test_merge_order(void **state) {
    (void)state;
    struct tokenizer *tokenizer = parse_good((struct file_parts){
        .vocab = ",\"bc\":256,\"ab\":257,\"aa\":258,\"abc\":259",
        .merges = "[\"b c\",\"a b\",\"a a\",\"ab c\"]",
    });
    assert_ids(tokenizer, "abc", IDS('a', 256));
    assert_ids(tokenizer, "aaa", IDS(258, 'a'));
    assert_ids(tokenizer, "aab", IDS('a', 257));
    tokenizer_destroy(&tokenizer);
    tokenizer = parse_good((struct file_parts){
        .model = "\"type\":\"BPE\",\"ignore_merges\":true,",
        .vocab = ",\"bc\":256,\"ab\":257,\"aa\":258,\"abc\":259",
        .merges = "[\"b c\",\"a b\",\"a a\",\"ab c\"]",
    });
    assert_ids(tokenizer, "abc", IDS(259));
    assert_ids(tokenizer, "abcb", IDS('a', 256, 'b'));
    tokenizer_destroy(&tokenizer);
}

/* Longest first; those that are normalized come second, wherever they start. */
static void test_added_tokens(void **state) {
    (void)state;
    struct tokenizer *tokenizer = parse_good((struct file_parts){
        .added =
            "[" ADDED("300", "<x>", "true", "false") "," ADDED("301", "<x>y", "false", "false") "," ADDED(
                "302", "a<", "false", "true") "," ADDED("256", "ab", "false", "true") "]",
    });
    assert_int_equal(tokenizer_vocabulary_size(tokenizer), 303);
    assert_ids(tokenizer, "<x>y<x>z", IDS(301, 300, 'z'));
    assert_ids(tokenizer, "a<x>", IDS('a', 300));
    assert_ids(tokenizer, "a<abc", IDS(302, 256, 'c'));
    assert_int_equal(tokenizer_added_token_id(tokenizer, "ab"), 256);
    assert_int_equal(tokenizer_added_token_id(tokenizer, "<x>"), 300);
    assert_true(tokenizer_is_special(tokenizer, 300));
    assert_false(tokenizer_is_special(tokenizer, 301));
    /* ids may have holes */
    size_t length = 0;
    assert_null(tokenizer_token_bytes(tokenizer, 299, &length));
    struct string_buffer decoded = {0};
    assert_int_equal(tokenizer_decode(tokenizer, IDS(299), false, &decoded), STATUS_OUT_OF_RANGE);
    tokenizer_destroy(&tokenizer);
}

/* A literal pattern, matches that are empty, and a step that sees its piece as a whole text. */
static void test_splits(void **state) {
    (void)state;
    struct tokenizer *tokenizer = parse_good((struct file_parts){
        .pre = SEQUENCE(
            "{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":\"Isolated\"}," BYTE_LEVEL),
    });
    assert_ids(tokenizer, "abc", IDS('a', 'b', 'c'));
    tokenizer_destroy(&tokenizer);
    tokenizer = parse_good((struct file_parts){.pre = SEQUENCE(SPLIT("x*") "," BYTE_LEVEL)});
    assert_ids(tokenizer, "abéc", IDS('a', 'b', 0xC3, 0xA9, 'c'));
    tokenizer_destroy(&tokenizer);
    tokenizer =
        parse_good((struct file_parts){.pre = SEQUENCE(SPLIT("c") "," SPLIT("a(?!b)") "," BYTE_LEVEL)});
    assert_ids(tokenizer, "abab", IDS(256, 256));
    assert_ids(tokenizer, "acab", IDS('a', 'c', 256));
    tokenizer_destroy(&tokenizer);
    tokenizer = parse_good((struct file_parts){.pre = SEQUENCE(BYTE_LEVEL)});
    assert_ids(tokenizer, "ab c", IDS(256, ' ', 'c'));
    tokenizer_destroy(&tokenizer);
}

static void test_bad_model(void **state) {
    (void)state;
    assert_refused((struct file_parts){.model = "\"type\":\"WordPiece\","}, STATUS_UNSUPPORTED,
                   "tokenizer.json: model has the type \"WordPiece\"; only \"BPE\" is supported");
    assert_refused((struct file_parts){.model = "\"type\":\"BPE\",\"byte_fallback\":true,"},
                   STATUS_UNSUPPORTED, "tokenizer.json: model sets byte_fallback, which is not supported");
    assert_refused((struct file_parts){.model = "\"type\":\"BPE\",\"dropout\":0.1,"}, STATUS_UNSUPPORTED,
                   "tokenizer.json: model sets dropout, which is not supported");
    assert_refused((struct file_parts){.model = "\"type\":\"BPE\",\"unk_token\":\"<unk>\","},
                   STATUS_UNSUPPORTED, "tokenizer.json: model sets unk_token, which is not supported");
    assert_refused((struct file_parts){.model = "\"type\":\"BPE\",\"ignore_merges\":1,"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.ignore_merges is not a boolean");
    assert_refused((struct file_parts){.model = "\"type\":\"BPE\",\"cache\":1,"}, STATUS_UNSUPPORTED,
                   "tokenizer.json: model has the key \"cache\", which is not supported");
}

static void test_bad_vocabulary(void **state) {
    (void)state;
    assert_refused((struct file_parts){.vocab = ",\"ab\":97,\"abc\":257"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.vocab gives the id 97 to two tokens");
    assert_refused((struct file_parts){.vocab = ",\"ab\":-1"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.vocab has the id -1; ids must be in 0..1048575");
    assert_refused((struct file_parts){.vocab = ",\"ab\":1048576"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.vocab has the id 1048576; ids must be in 0..1048575");
    assert_refused((struct file_parts){.vocab = ",\"ab\":\"256\""}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.vocab has a token whose id is not an integer: \"ab\"");
    assert_refused((struct file_parts){.vocab = ",\"\":256"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.vocab has an empty token (id 256)");
    struct tokenizer *tokenizer = NULL;
    static const char text[] = "{\"pre_tokenizer\":" SEQUENCE(
        BYTE_LEVEL) ",\"decoder\":" BYTE_LEVEL ",\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}";
    assert_int_equal(tokenizer_parse(text, strlen(text), "t", &tokenizer), STATUS_UNSUPPORTED);
    assert_string_equal(
        error_last()->message,
        "t: model.vocab has no token for the byte 0x00; only byte-level vocabularies are supported");
}

static void test_bad_merges(void **state) {
    (void)state;
    assert_refused((struct file_parts){.merges = "[\"a b\",\"x y\"]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: the result of model.merges[1] is not in the vocabulary");
    assert_refused((struct file_parts){.merges = "[\"xy z\"]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: the left side of model.merges[0] is not in the vocabulary");
    assert_refused((struct file_parts){.merges = "[\"a \"]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: the right side of model.merges[0] is not in the vocabulary");
    assert_refused((struct file_parts){.merges = "[\"a b c\"]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: the right side of model.merges[0] is not in the vocabulary");
    assert_refused((struct file_parts){.merges = "[\"a b\",[\"a\",\"b\"]]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.merges[1] repeats the pair of an earlier merge");
    assert_refused((struct file_parts){.merges = "[\"ab\"]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.merges[0] is neither \"left right\" nor [\"left\", \"right\"]");
    assert_refused((struct file_parts){.merges = "[[\"a\",1]]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.merges[0] is neither \"left right\" nor [\"left\", \"right\"]");
    assert_refused((struct file_parts){.merges = "{}"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: model.merges is missing or not an array");
}

static void test_bad_added_tokens(void **state) {
    (void)state;
    assert_refused((struct file_parts){.added = "[" ADDED("97", "<x>", "true", "false") "]"},
                   STATUS_BAD_FORMAT,
                   "tokenizer.json: added_tokens[0] has the id 97, which another token has");
    assert_refused((struct file_parts){.added = "[" ADDED("300", "ab", "true", "false") "]"},
                   STATUS_BAD_FORMAT,
                   "tokenizer.json: added_tokens[0] has the id 300, but its text is the token 256");
    assert_refused((struct file_parts){.added = "[" ADDED("300", "<x>", "true", "false") "," ADDED(
                                           "300", "<x>", "true", "true") "]"},
                   STATUS_BAD_FORMAT, "tokenizer.json: added_tokens[1] repeats an earlier added token");
    assert_refused((struct file_parts){.added = "[" ADDED("300", "", "true", "false") "]"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: added_tokens[0] must have a content of 1 to 512 bytes");
    assert_refused((struct file_parts){.added = "[" ADDED("-5", "<x>", "true", "false") "]"},
                   STATUS_BAD_FORMAT,
                   "tokenizer.json: added_tokens[0] has the id -5; ids must be in 0..1048575");
    assert_refused((struct file_parts){.added = "[" ADDED("\"5\"", "<x>", "true", "false") "]"},
                   STATUS_BAD_FORMAT, "tokenizer.json: added_tokens[0] has no integer id");
    assert_refused((struct file_parts){.added = "[{\"id\":300,\"content\":\"<x>\",\"lstrip\":true}]"},
                   STATUS_UNSUPPORTED, "tokenizer.json: added_tokens[0] sets lstrip, which is not supported");
    assert_refused(
        (struct file_parts){.added = "[{\"id\":300,\"content\":\"<x>\"}]"}, STATUS_BAD_FORMAT,
        "tokenizer.json: added_tokens[0] does not say with true or false whether it is special and "
        "normalized");
    assert_refused((struct file_parts){.added = "{}"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: added_tokens is not an array");
}

static void test_bad_steps(void **state) {
    (void)state;
    assert_refused((struct file_parts){.normalizer = "{\"type\":\"NFC\"}"}, STATUS_UNSUPPORTED,
                   "tokenizer.json: normalizer has the type \"NFC\"; only \"Sequence\" is supported");
    assert_refused(
        (struct file_parts){.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}"},
        STATUS_UNSUPPORTED,
        "tokenizer.json: normalizer has steps; only text that is not normalized is supported");
    assert_refused((struct file_parts){.decoder = "{\"type\":\"Metaspace\"}"}, STATUS_UNSUPPORTED,
                   "tokenizer.json: decoder has the type \"Metaspace\"; only \"ByteLevel\" is supported");
    assert_refused((struct file_parts){.pre = "null"}, STATUS_BAD_FORMAT,
                   "tokenizer.json: pre_tokenizer is missing or not an object");
    assert_refused((struct file_parts){.pre = SEQUENCE("")}, STATUS_BAD_FORMAT,
                   "tokenizer.json: pre_tokenizer.pretokenizers is missing, empty or not an array");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE("{\"type\":\"Digits\"}," BYTE_LEVEL)}, STATUS_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer.pretokenizers[0] has the type \"Digits\"; only \"Split\" is "
        "supported");
    assert_refused((struct file_parts){.pre = SEQUENCE(SPLIT("a"))}, STATUS_UNSUPPORTED,
                   "tokenizer.json: pre_tokenizer.pretokenizers[0] has the key \"pattern\", which is not "
                   "supported");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":"
                                            "\"Removed\",\"invert\":false}," BYTE_LEVEL)},
        STATUS_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer.pretokenizers[0] has another behavior than \"Isolated\", which is not "
        "supported");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE("{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},\"behavior\":"
                                            "\"Isolated\",\"invert\":true}," BYTE_LEVEL)},
        STATUS_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer.pretokenizers[0] sets invert, which is not supported");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}")},
        STATUS_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer.pretokenizers[0] does not set use_regex to false; only false is "
        "supported");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE(SPLIT("(a") "," BYTE_LEVEL)}, STATUS_BAD_FORMAT,
        "tokenizer.json: pre_tokenizer.pretokenizers[0].pattern is not a valid regular expression: "
        "missing closing parenthesis at byte 2");
    assert_refused(
        (struct file_parts){.pre = SEQUENCE(SPLIT("\\\\w") "," BYTE_LEVEL)}, STATUS_UNSUPPORTED,
        "tokenizer.json: pre_tokenizer.pretokenizers[0].pattern uses the escape \\w at byte 0, which is "
        "not supported");
    assert_refused((struct file_parts){.top = "\"extra\":1,"}, STATUS_UNSUPPORTED,
                   "tokenizer.json: the file has the key \"extra\", which is not supported");
}

static void test_file_errors(void **state) {
    (void)state;
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_load(SLUICE_SOURCE_DIR "/no-such-tokenizer.json", &tokenizer),
                     STATUS_NOT_FOUND);
    assert_int_equal(tokenizer_parse("[1,", 3, "t", &tokenizer), STATUS_BAD_FORMAT);
    assert_int_equal(tokenizer_parse("[]", 2, "t", &tokenizer), STATUS_BAD_FORMAT);
    assert_string_equal(error_last()->message, "t: the file is missing or not an object");
    assert_null(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_file), cmocka_unit_test(test_merge_order),
        cmocka_unit_test(test_added_tokens),  cmocka_unit_test(test_splits),
        cmocka_unit_test(test_bad_model),     cmocka_unit_test(test_bad_vocabulary),
        cmocka_unit_test(test_bad_merges),    cmocka_unit_test(test_bad_added_tokens),
        cmocka_unit_test(test_bad_steps),     cmocka_unit_test(test_file_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
