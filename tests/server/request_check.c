#include "server/request_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TOKENS_A_STEP = 4 };

const char *const request_check_paths[] = {
    "/v1/chat/completions",      "/v1/completions", "/v1/responses", "/v1/messages",
    "/v1/messages/count_tokens", "/tokenize",       "/detokenize",
};
const size_t request_check_path_count = sizeof request_check_paths / sizeof *request_check_paths;

static void check_refusal(const struct api_fixture *fixture, const char *path) {
    const struct json *message = json_find(fixture->body, "error.message");
    size_t length = 0;
    assert_non_null(json_text(message, &length));
    assert_true(length > 10);
    assert_non_null(json_text(json_find(fixture->body, "error.type"), NULL));
    if (strncmp(path, "/v1/messages", strlen("/v1/messages")) == 0) {
        assert_json_text(fixture->body, "type", "error");
    }
    assert_int_equal(script_service_request_count(fixture->service), 0);
}

int request_check(struct api_fixture *fixture, const char *path, const char *body, size_t length) {
    api_fixture_reset(fixture);
    script_service_set_lump(fixture->service, TOKENS_A_STEP);
    script_service_add_text(fixture->service, "It is so.</think>{\"a\": [1, \"é\"]} and more" EOS);
    script_service_add_text(fixture->service, "<" DSML "tool_calls>\n<" DSML "invoke name=\"f\">\n<" DSML
                                              "parameter name=\"a\" string=\"true\">b</" DSML
                                              "parameter>\n</" DSML "invoke>\n</" DSML "tool_calls>" EOS);
    /* Of its own, so that a sanitizer sees what is read behind the end. */
    char *copy = malloc(length + (length == 0));
    assert_non_null(copy);
    memcpy(copy, body, length);
    int status = api_fixture_exchange(fixture, "POST", path, copy, length);
    free(copy);
    if (status != 200) {
        assert_true(status == 400 || status == 404 || status == 413);
        check_refusal(fixture, path);
    } else if (fixture->events != NULL) {
        assert_true(fixture->event_count > 0);
    } else {
        assert_int_equal(json_kind(fixture->body), JSON_KIND_OBJECT);
    }
    assert_int_equal(script_service_live_count(fixture->service), 0);
    return status;
}
