/* The JSON wrapper: what it accepts, what it refuses and why, and that it writes as Python's json does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/string_buffer.h"
#include "lib/json.h"

static struct json *parse(const char *text) {
    struct json *value;
    assert_int_equal(json_parse(text, strlen(text), "input", &value), STATUS_OK);
    return value;
}

static void expect_refused(const char *bytes, size_t length, const char *fragment) {
    struct json *value;
    assert_int_equal(json_parse(bytes, length, "request body", &value), STATUS_BAD_FORMAT);
    assert_null(value);
    assert_non_null(strstr(error_last()->message, "request body"));
    if (strstr(error_last()->message, fragment) == NULL) {
        fail_msg("'%s' does not contain '%s'", error_last()->message, fragment);
    }
}

static void refuses_what_strict_json_forbids(void **state) {
    (void)state;
    static const char *const bad[] = {
        "{\"a\":1,\"a\":2}",
        "1e400",
        "123456789012345678901234567890",
        "{} x",
        "\"\\ud800\"",
        "[1,]",
        "NaN",
        "Infinity",
        "01",
        "'a'",
        "\"\xff\"",
        "{\"a\\u0000b\":1}",
        "[1,2",
        "{\"a\"}",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        expect_refused(bad[i], strlen(bad[i]), "");
    }
}

static void error_names_line_and_column(void **state) {
    (void)state;
    static const char text[] = "{\n  \"a\": 1,\n  \"b\": nope\n}";
    expect_refused(text, strlen(text), "line 3, column 11");
    static const char twice[] = "{\"key\": 1,\n \"key\": 2}";
    expect_refused(twice, strlen(twice), "duplicate object key");
}

/* A number that no type holds is valid JSON: what is wrong with it is its size. */
static void error_names_a_number_that_is_too_large(void **state) {
    (void)state;
    static const char *const large[] = {"{\n\"seed\": 9223372036854775808}", "[\n-9223372036854775809]",
                                        "[\n1e309]", "[\n-1e309]"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        expect_refused(large[i], strlen(large[i]), "has a number that is too large: line 2, column ");
        /* What is quoted is the number itself. */
        expect_refused(large[i], strlen(large[i]), i < 2 ? "922337203685477580" : "1e309");
        assert_null(strstr(error_last()->message, "not valid JSON"));
    }
    struct json *value = parse("[9223372036854775807, -9223372036854775808, 1e308, 1e-400]");
    assert_true(json_int64(json_at(value, 0)) == INT64_MAX && json_int64(json_at(value, 1)) == INT64_MIN);
    assert_true(json_number(json_at(value, 2)) == 1e308 && json_number(json_at(value, 3)) == 0.0);
    json_free(&value);
}

static void depth_is_limited(void **state) {
    (void)state;
    static char text[2 * 513];
    memset(text, '[', 512);
    memset(text + 512, ']', 512);
    struct json *value;
    assert_int_equal(json_parse(text, 1024, "input", &value), STATUS_OK);
    json_free(&value);
    assert_null(value);
    memset(text, '[', 513);
    memset(text + 513, ']', 513);
    expect_refused(text, 1026, "512");
    /* Brackets inside strings are text. */
    memset(text, '[', sizeof text);
    text[0] = '"';
    text[1] = '\\';
    text[2] = '"';
    text[sizeof text - 1] = '"';
    assert_int_equal(json_parse(text, sizeof text, "input", &value), STATUS_OK);
    json_free(&value);
}

static void reads_values_in_order(void **state) {
    (void)state;
    struct json *value =
        parse("{\"z\":[1,-2.5,true,null,\"t\\u0000\xc3\xa9\"],\"a\":{},\"m\":9223372036854775807}");
    static const char *const keys[] = {"z", "a", "m"};
    size_t count = 0;
    for (const struct json_member *member = json_first(value); member != NULL;
         member = json_next(value, member)) {
        size_t length;
        assert_string_equal(json_member_key(member, &length), keys[count]);
        assert_int_equal(length, 1);
        assert_ptr_equal(json_member_value(member), json_get(value, keys[count]));
        count++;
    }
    assert_int_equal(count, 3);
    const struct json *list = json_get(value, "z");
    assert_int_equal(json_length(list), 5);
    assert_int_equal(json_int64(json_at(list, 0)), 1);
    assert_true(json_number(json_at(list, 0)) == 1.0);
    assert_int_equal(json_kind(json_at(list, 1)), JSON_KIND_REAL);
    assert_true(json_number(json_at(list, 1)) == -2.5);
    assert_int_equal(json_int64(json_at(list, 1)), 0);
    assert_true(json_bool(json_at(list, 2)));
    assert_int_equal(json_kind(json_at(list, 3)), JSON_KIND_NULL);
    size_t length;
    const char *text = json_text(json_at(list, 4), &length);
    assert_int_equal(length, 4);
    assert_memory_equal(text, "t\0\xc3\xa9", 4);
    assert_null(json_at(list, 5));
    assert_null(json_get(value, "q"));
    assert_null(json_get(list, "q"));
    assert_null(json_text(list, NULL));
    assert_null(json_first(list));
    assert_int_equal(json_length(json_get(value, "m")), 0);
    assert_int_equal(json_int64(json_get(value, "m")), INT64_MAX);
    json_free(&value);
}

static void assert_written(const struct json *value, const char *compact, const char *spaced) {
    struct string_buffer buffer = {0};
    assert_int_equal(json_write(value, &buffer), STATUS_OK);
    assert_string_equal(string_buffer_text(&buffer), compact);
    string_buffer_clear(&buffer);
    assert_int_equal(json_write_spaced(value, &buffer), STATUS_OK);
    assert_string_equal(string_buffer_text(&buffer), spaced);
    string_buffer_deinit(&buffer);
}

/* The expected texts are what Python's json.dumps(value, ensure_ascii=False) gives. */
static void writes_like_python(void **state) {
    (void)state;
    struct json *value =
        parse("{\"b\":[1,2.0,[],{}],\"a\":\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\\u007f\xe4\xb8\xad\","
              "\"n\":null,\"t\":true,\"f\":false,\"i\":-0}");
    assert_written(value,
                   "{\"b\":[1,2.0,[],{}],\"a\":\"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\x7f\xe4\xb8\xad\","
                   "\"n\":null,\"t\":true,\"f\":false,\"i\":0}",
                   "{\"b\": [1, 2.0, [], {}], \"a\": \"\\u0001\\b\\f\\n\\r\\t\\\"\\\\/\x7f\xe4\xb8\xad\", "
                   "\"n\": null, \"t\": true, \"f\": false, \"i\": 0}");
    json_free(&value);
}

/* The expected texts are Python's repr of the same doubles. */
static void writes_reals_shortest(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0x1.999999999999ap-4, "0.1"},
        {0x1.a36e2eb1c432dp-14, "0.0001"},
        {0x1.4f8b588e368f1p-17, "1e-05"},
        {0x1.0c6f7a0b5ed8dp-20, "1e-06"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {0x1.e240cp+16, "123456.75"},
        {0x1p-44, "5.684341886080802e-14"},
        {0x1p-1074, "5e-324"},
        {0x1.fffffffffffffp+1023, "1.7976931348623157e+308"},
        {100.0, "100.0"},
        {0x1.5555555555555p-2, "0.3333333333333333"},
        {-2.5e-7, "-2.5e-07"},
        {1.5e16, "1.5e+16"},
        {0x1.921fb54442d18p+1, "3.141592653589793"},
        {12345678901234567.0, "1.2345678901234568e+16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *value = json_new_real(cases[i].value);
        assert_written(value, cases[i].text, cases[i].text);
        json_free(&value);
    }
}

static void builds_documents(void **state) {
    (void)state;
    struct json *object = json_new_object();
    struct json *list = json_new_array();
    assert_true(json_append(list, json_new_integer(INT64_MIN)));
    assert_true(json_append(list, json_new_bool(false)));
    assert_true(json_append(list, json_new_null()));
    assert_true(json_set(object, "list", list));
    assert_true(json_set(object, "text", json_new_string("a\0b", 3)));
    assert_null(json_new_string("\xc0\x80", 2));
    assert_null(json_new_real(1.0 / 0.0));
    /* What could not be made cannot be stored. */
    assert_false(json_set(object, "bad", NULL));
    assert_false(json_append(list, NULL));
    assert_written(object, "{\"list\":[-9223372036854775808,false,null],\"text\":\"a\\u0000b\"}",
                   "{\"list\": [-9223372036854775808, false, null], \"text\": \"a\\u0000b\"}");
    json_free(&object);
    json_free(&object);
}

static void files_are_bounded(void **state) {
    (void)state;
    struct json *value;
    assert_int_equal(json_parse_file(SLUICE_SOURCE_DIR "/models/mini-v4/config.json", 1 << 20, &value),
                     STATUS_OK);
    assert_int_equal(json_int64(json_get(value, "vocab_size")), 4096);
    json_free(&value);
    assert_int_equal(json_parse_file(SLUICE_SOURCE_DIR "/models/mini-v4/config.json", 100, &value),
                     STATUS_BAD_FORMAT);
    assert_non_null(strstr(error_last()->message, "at most 100"));
    assert_int_equal(json_parse_file(SLUICE_SOURCE_DIR "/models/mini-v4/nothing.json", 100, &value),
                     STATUS_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_strict_json_forbids),
        cmocka_unit_test(error_names_line_and_column),
        cmocka_unit_test(error_names_a_number_that_is_too_large),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(reads_values_in_order),
        cmocka_unit_test(writes_like_python),
        cmocka_unit_test(writes_reals_shortest),
        cmocka_unit_test(builds_documents),
        cmocka_unit_test(files_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
