/* What a person sees of a chat: answers on a terminal and elsewhere, the numbers about them, paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <pty.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/answer_view.h"
#include "cli/chat_status.h"
#include "cli/user_paths.h"
#include "support/temporary_directory.h"

/* A hostile answer: reasoning, then content with terminal commands in ESC, in C1 and as a lone DEL. */
static void show_answer(FILE *stream) {
    static const char content[] = "one\x1b]0;x\a\ttwo\n\xc2\x9bthree\x7f";
    struct answer_view view;
    answer_view_init(&view, stream);
    answer_view_show_reasoning(&view, "hm", 2);
    answer_view_show_reasoning(&view, "m", 1);
    answer_view_show_content(&view, content, sizeof content - 1);
    answer_view_finish(&view);
    answer_view_show_reasoning(&view, "cut", 3);
    answer_view_finish(&view);
    answer_view_deinit(&view);
}

static void test_answer_in_a_file(void **state) {
    (void)state;
    static const char expected[] =
        "<think>hmm</think>\none\x1b]0;x\a\ttwo\n\xc2\x9bthree\x7f\n<think>cut</think>\n";
    char found[256] = {0};
    FILE *file = tmpfile();
    assert_non_null(file);
    show_answer(file);
    rewind(file);
    assert_int_equal(fread(found, 1, sizeof found - 1, file), sizeof expected - 1);
    assert_string_equal(found, expected);
    fclose(file);
}

static void assert_shown_on_terminal(const char *expected) {
    char found[256] = {0};
    int master;
    int slave;
    assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
    FILE *terminal = fdopen(slave, "w");
    assert_non_null(terminal);
    show_answer(terminal);
    fclose(terminal);
    /* What was written stays readable; after it reading fails. */
    size_t length = 0;
    ssize_t count;
    while ((count = read(master, found + length, sizeof found - 1 - length)) > 0) {
        length += (size_t)count;
    }
    assert_string_equal(found, expected);
    close(master);
}

static void test_answer_on_a_terminal(void **state) {
    (void)state;
    unsetenv("NO_COLOR");
    assert_shown_on_terminal("\x1b[2mhmm\x1b[0m\r\n\r\none\xef\xbf\xbd]0;x\xef\xbf\xbd\ttwo\r\n"
                             "\xef\xbf\xbdthree\xef\xbf\xbd\r\n\x1b[2m"
                             "cut\x1b[0m\r\n\r\n");
    setenv("NO_COLOR", "1", 1);
    assert_shown_on_terminal("<think>hmm</think>\r\none\xef\xbf\xbd]0;x\xef\xbf\xbd\ttwo\r\n"
                             "\xef\xbf\xbdthree\xef\xbf\xbd\r\n<think>cut</think>\r\n");
    unsetenv("NO_COLOR");
}

static void assert_answer(const struct sluice_request_state *request, const char *expected) {
    struct string_buffer text = {0};
    chat_status_append_answer(&text, request, 40);
    assert_string_equal(string_buffer_text(&text), expected);
    string_buffer_deinit(&text);
}

static void test_numbers_of_an_answer(void **state) {
    (void)state;
    struct sluice_request_state request = {.finish_reason = SLUICE_FINISH_CANCELLED};
    assert_answer(&request, "stopped: 40 prompt tokens (0 cached), 0 new");
    request.finish_reason = SLUICE_FINISH_LENGTH;
    request.token_count = 1;
    request.first_token_seconds = 0.25;
    request.last_token_seconds = 0.25;
    assert_answer(&request,
                  "cut at the length limit: 40 prompt tokens (0 cached), 1 new, first after 0.25 s");
    request.finish_reason = SLUICE_FINISH_STOP;
    request.token_count = 11;
    request.last_token_seconds = 0.75;
    request.cached_prompt_tokens = 32;
    request.verified_drafts = 8;
    request.accepted_drafts = 6;
    assert_answer(&request, "40 prompt tokens (32 cached), 11 new at 20.0 tokens/s, first after 0.25 s, "
                            "75 % of 8 drafts accepted");
}

static void test_warning_near_the_end_of_the_context(void **state) {
    (void)state;
    struct string_buffer text = {0};
    chat_status_append_warning(&text, 700, 800);
    assert_string_equal(string_buffer_text(&text), "");
    chat_status_append_warning(&text, 701, 800);
    assert_string_equal(string_buffer_text(&text),
                        "The conversation has 99 tokens left of 800: /clear starts anew, --max-model-len "
                        "makes room for more.");
    string_buffer_deinit(&text);
}

static void test_numbers_of_the_engine(void **state) {
    (void)state;
    struct sluice_engine_facts facts = {.draft_limit = 3, .has_draft_layer = true};
    struct sluice_engine_stats stats = {.steps = 100,
                                        .step_seconds = 2.0,
                                        .planning_seconds = 0.02,
                                        .draft_seconds = 0.5,
                                        .finished_requests = 2,
                                        .prompt_tokens = 400,
                                        .cached_prompt_tokens = 100,
                                        .output_tokens = 50,
                                        .verified_drafts = {20, 10},
                                        .accepted_drafts = {15, 5}};
    struct string_buffer text = {0};
    facts.memory = (struct sluice_memory_ledger){
        .mapped_weight_bytes = 12300000, .page_count = 32, .page_tokens = 128, .token_capacity = 4096};
    chat_status_append_engine(&text, &facts, &stats);
    static const char *const expected[] = {"answers   2, 50 tokens\n",
                                           "prompts   400 tokens, 25 % of them cached\n",
                                           "steps     100 in 2.00 s; planning 1.0 %, draft layer 25.0 %\n",
                                           "drafts    30 verified, 20 accepted; by position 75 %, 50 %\n",
                                           "weights, mapped                12.3 MB\n",
                                           "room for 4096 tokens in 32 pages of 128\n"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_non_null(strstr(string_buffer_text(&text), expected[i]));
    }
    string_buffer_clear(&text);
    facts.draft_limit = 0;
    chat_status_append_engine(&text, &facts, &stats);
    assert_non_null(strstr(string_buffer_text(&text), "drafts    off\n"));
    string_buffer_clear(&text);
    facts.has_draft_layer = false;
    chat_status_append_engine(&text, &facts, &stats);
    assert_non_null(strstr(string_buffer_text(&text), "drafts    none: the model has no MTP layer\n"));
    string_buffer_deinit(&text);
}

static void assert_history(const char *expected) {
    struct string_buffer path = {0};
    assert_int_equal(user_paths_find_history(&path), STATUS_OK);
    assert_string_equal(string_buffer_text(&path), expected);
    string_buffer_deinit(&path);
}

static void test_history_is_where_state_belongs(void **state) {
    (void)state;
    char home[1024];
    char expected[2048];
    struct stat info;
    assert_non_null(getcwd(home, sizeof home));
    setenv("HOME", home, 1);
    setenv("XDG_STATE_HOME", "relative", 1);
    snprintf(expected, sizeof expected, "%s/.local/state/sluice/chat_history", home);
    assert_history(expected);
    assert_int_equal(stat(".local/state/sluice", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    snprintf(expected, sizeof expected, "%s/state", home);
    setenv("XDG_STATE_HOME", expected, 1);
    strcat(expected, "/sluice/chat_history");
    assert_history(expected);
    assert_history(expected);

    struct string_buffer path = {0};
    fclose(fopen("file", "w"));
    setenv("XDG_STATE_HOME", strcat(home, "/file"), 1);
    assert_int_equal(user_paths_find_history(&path), STATUS_IO);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    string_buffer_clear(&path);
    assert_int_equal(user_paths_find_history(&path), STATUS_NOT_FOUND);
    string_buffer_deinit(&path);
}

static void test_typed_paths(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"~/a b", "/home/rosa/a b"}, {"~", "~"}, {"~x/y", "~x/y"}, {"a/~/b", "a/~/b"}, {"/x", "/x"}};
    setenv("HOME", "/home/rosa", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct string_buffer path = {0};
        user_paths_append_typed(&path, cases[i][0]);
        assert_string_equal(string_buffer_text(&path), cases[i][1]);
        string_buffer_deinit(&path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer_in_a_file),
        cmocka_unit_test(test_answer_on_a_terminal),
        cmocka_unit_test(test_numbers_of_an_answer),
        cmocka_unit_test(test_warning_near_the_end_of_the_context),
        cmocka_unit_test(test_numbers_of_the_engine),
        cmocka_unit_test_setup_teardown(test_history_is_where_state_belongs, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test(test_typed_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
