/* Paths against patterns, keys against headers, and what may stand in a line of the access log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/access_keys.h"
#include "server/access_log.h"
#include "server/route.h"

static void assert_match(const char *pattern, const char *path, enum route_fit fit, const char *expected_id) {
    struct route_id id;
    assert_int_equal(route_match(pattern, path, &id), fit);
    if (fit != ROUTE_FIT_NONE) {
        assert_int_equal(id.length, strlen(expected_id));
        assert_memory_equal(id.length == 0 ? "" : id.start, expected_id, id.length);
    }
}

static void test_routes(void **state) {
    (void)state;
    assert_match("/health", "/health", ROUTE_FIT_EXACT, "");
    assert_match("/health", "/health/", ROUTE_FIT_NONE, "");
    assert_match("/v1/models/{id}", "/v1/models/a", ROUTE_FIT_EXACT, "a");
    assert_match("/v1/models/{id}", "/v1/models/", ROUTE_FIT_NONE, "");
    assert_match("/v1/models/{id}", "/v1/models", ROUTE_FIT_NONE, "");
    assert_match("/v1/models/{id}", "/v1/models/maker/model", ROUTE_FIT_LOOSE, "maker/model");
    assert_match("/v1/responses/{id}/cancel", "/v1/responses/r1/cancel", ROUTE_FIT_EXACT, "r1");
    assert_match("/v1/responses/{id}/cancel", "/v1/responses/a/b/cancel", ROUTE_FIT_NONE, "");
    assert_match("/v1/responses/{id}/cancel", "/v1/responses//cancel", ROUTE_FIT_NONE, "");
    assert_match("/v1/responses/{id}/cancel", "/v1/responses/cancel", ROUTE_FIT_NONE, "");
    assert_match("/v1/responses/{id}", "/v1/responses/r1/cancel", ROUTE_FIT_LOOSE, "r1/cancel");
}

static void test_keys(void **state) {
    (void)state;
    static const char *const texts[] = {"alpha", "beta"};
    struct access_keys *keys = NULL;
    assert_int_equal(access_keys_create(texts, 2, &keys), STATUS_OK);
    assert_true(access_keys_admit(keys, "Bearer alpha", NULL));
    assert_true(access_keys_admit(keys, "bearer beta", NULL));
    assert_true(access_keys_admit(keys, "Bearer  alpha", NULL));
    assert_true(access_keys_admit(keys, NULL, "beta"));
    assert_true(access_keys_admit(keys, "Bearer wrong", "beta"));
    static const char *const wrong[] = {"",
                                        "Bearer",
                                        "Bearer ",
                                        "alpha",
                                        "Bearer alph",
                                        "Bearer alphaa",
                                        "Bearer Alpha",
                                        "Bearer alpha ",
                                        "Basic alpha"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(access_keys_admit(keys, wrong[i], NULL));
    }
    assert_false(access_keys_admit(keys, NULL, NULL));
    assert_false(access_keys_admit(keys, NULL, ""));
    access_keys_destroy(&keys);
    static const char *const bad[] = {"", "a b", "a\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(access_keys_create(&bad[i], 1, &keys), STATUS_USAGE);
        assert_null(keys);
    }
}

static void test_log_line(void **state) {
    (void)state;
    struct string_buffer line = {0};
    struct access_entry entry = {.peer = "::1",
                                 .method = "GET",
                                 .path = "/a b\n\"%=\xc3\xa9\\",
                                 .request_id = "",
                                 .status = 404,
                                 .bytes = 12,
                                 .seconds = 0.25};
    access_log_format(&entry, &line);
    const char *rest = strchr(string_buffer_text(&line), ' ');
    assert_memory_equal(line.data, "time=2", 6);
    assert_string_equal(rest, " peer=::1 method=GET path=/a%20b%0A%22%25%3D%C3%A9%5C status=404 bytes=12 "
                              "seconds=0.2500 id=-\n");
    assert_int_equal(rest - line.data, strlen("time=2026-01-02T03:04:05.678Z"));
    string_buffer_clear(&line);
    entry.has_left = true;
    entry.request_id = "x1";
    access_log_format(&entry, &line);
    assert_non_null(strstr(line.data, " id=x1 left=yes\n"));
    string_buffer_deinit(&line);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_log_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
