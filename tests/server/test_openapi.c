/* The document at /openapi.json against the routes: each has its place, and nothing else has. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/json.h"
#include "server/front_internal.h"
#include "server/openapi.h"

enum { ROUTES_MAX = 128, KEY_BYTES = 128 };

/* "GET /health", of all routes but the page. */
static size_t list_routes(char keys[ROUTES_MAX][KEY_BYTES]) {
    size_t front_count;
    size_t api_count;
    size_t count = 0;
    const struct front_route *of_front = front_routes(&front_count);
    const struct api_route *of_api = api_routes(&api_count);
    for (size_t i = 0; i < front_count; i++) {
        if (strcmp(of_front[i].path, "/") != 0) {
            snprintf(keys[count++], KEY_BYTES, "%s %s", of_front[i].method, of_front[i].path);
        }
    }
    for (size_t i = 0; i < api_count; i++) {
        snprintf(keys[count++], KEY_BYTES, "%s %s", of_api[i].method, of_api[i].path);
    }
    return count;
}

static bool is_listed(char keys[ROUTES_MAX][KEY_BYTES], size_t count, const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static void test_routes_are_documented(void **state) {
    (void)state;
    static char routes[ROUTES_MAX][KEY_BYTES];
    static char documented[ROUTES_MAX][KEY_BYTES];
    size_t route_count = list_routes(routes);
    size_t count = 0;
    struct json *document = NULL;
    assert_int_equal(json_parse((const char *)openapi_json, openapi_json_length, "openapi.json", &document),
                     STATUS_OK);
    const struct json *paths = json_get(document, "paths");
    for (const struct json_member *path = json_first(paths); path != NULL; path = json_next(paths, path)) {
        const struct json *methods = json_member_value(path);
        for (const struct json_member *at = json_first(methods); at != NULL; at = json_next(methods, at)) {
            char method[16] = "";
            const char *name = json_member_key(at, NULL);
            for (size_t i = 0; name[i] != '\0'; i++) {
                method[i] = (char)toupper((unsigned char)name[i]);
            }
            snprintf(documented[count++], KEY_BYTES, "%s %s", method, json_member_key(path, NULL));
        }
    }
    for (size_t i = 0; i < route_count; i++) {
        if (!is_listed(documented, count, routes[i])) {
            fail_msg("%s is not in openapi.json", routes[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_listed(routes, route_count, documented[i])) {
            fail_msg("%s is in openapi.json, but no route", documented[i]);
        }
    }
    assert_int_equal(count, route_count);
    json_free(&document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes_are_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
