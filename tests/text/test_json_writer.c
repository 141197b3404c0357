/* What the JSON writer writes reads back as what was meant, whatever bytes and numbers it is given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lib/json.h"
#include "text/json_writer.h"

static void test_structure(void **state) {
    (void)state;
    struct string_buffer out = {0};
    struct json_writer writer = json_writer_on(&out);
    static const int32_t ids[] = {3, -4};
    json_writer_begin(&writer, NULL, '{');
    json_writer_begin(&writer, "empty", '[');
    json_writer_end(&writer, ']');
    json_writer_integer(&writer, "i", -5);
    json_writer_bool(&writer, "b", true);
    json_writer_null(&writer, "n");
    json_writer_ids(&writer, "ids", ids, 2);
    json_writer_raw(&writer, "raw", "{}", 2);
    json_writer_begin(&writer, "list", '[');
    json_writer_begin(&writer, NULL, '{');
    json_writer_end(&writer, '}');
    json_writer_text(&writer, NULL, "x");
    json_writer_end(&writer, ']');
    json_writer_end(&writer, '}');
    assert_string_equal(
        out.data,
        "{\"empty\":[],\"i\":-5,\"b\":true,\"n\":null,\"ids\":[3,-4],\"raw\":{},\"list\":[{},\"x\"]}");
    string_buffer_deinit(&out);
}

static void test_strings(void **state) {
    (void)state;
    struct string_buffer out = {0};
    struct json_writer writer = json_writer_on(&out);
    json_writer_begin(&writer, NULL, '[');
    json_writer_bytes(&writer, NULL, "a\"\\\n\x01/\0z", 8);
    json_writer_bytes(&writer, NULL, "\xF0\x9F é", 5);
    json_writer_bytes(&writer, NULL, "\xED\xA0\x80", 3);
    json_writer_end(&writer, ']');
    assert_string_equal(out.data, "[\"a\\\"\\\\\\n\\u0001/\\u0000z\",\"\xEF\xBF\xBD é\","
                                  "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"]");
    string_buffer_deinit(&out);
}

static double written(double value) {
    struct string_buffer out = {0};
    struct json_writer writer = json_writer_on(&out);
    struct json *read = NULL;
    json_writer_real(&writer, NULL, value);
    assert_int_equal(json_parse(out.data, out.length, "a number", &read), STATUS_OK);
    assert_int_equal(json_kind(read), JSON_KIND_REAL);
    double result = json_number(read);
    json_free(&read);
    string_buffer_deinit(&out);
    return result;
}

/* Exactly the number, and a real one even if it is whole. */
static void test_reals(void **state) {
    (void)state;
    static const double values[] = {0.0,
                                    -0.0,
                                    1.0,
                                    -1.5,
                                    0.1,
                                    1.0 / 3.0,
                                    1e300,
                                    1e-310,
                                    123456789012345680.0,
                                    -2.3025850929940455,
                                    5e-324,
                                    1.7976931348623157e308};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        assert_true(written(values[i]) == values[i]);
    }
    assert_true(written(INFINITY) == 1.7976931348623157e308);
    assert_true(written(-INFINITY) == -1.7976931348623157e308);
    struct string_buffer out = {0};
    struct json_writer writer = json_writer_on(&out);
    json_writer_real(&writer, NULL, NAN);
    assert_string_equal(out.data, "null");
    string_buffer_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
