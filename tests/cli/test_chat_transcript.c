/* The conversation of a chat: its messages, and files of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/chat_transcript.h"
#include "support/temporary_directory.h"

static void add_user(struct chat_transcript *transcript, const char *text) {
    assert_int_equal(chat_transcript_add_user(transcript, text, strlen(text)), STATUS_OK);
}

static void add_assistant(struct chat_transcript *transcript, const char *content, const char *reasoning) {
    struct string_buffer texts[2] = {0};
    string_buffer_append_text(&texts[0], content);
    string_buffer_append_text(&texts[1], reasoning);
    assert_int_equal(chat_transcript_add_assistant(transcript, &texts[0], &texts[1]), STATUS_OK);
    string_buffer_deinit(&texts[0]);
    string_buffer_deinit(&texts[1]);
}

static void set_system(struct chat_transcript *transcript, const char *text) {
    assert_int_equal(chat_transcript_set_system(transcript, text, text == NULL ? 0 : strlen(text)),
                     STATUS_OK);
}

/* The conversation as "role:content(reasoning)|...". */
static void assert_conversation(const struct chat_transcript *transcript, const char *expected) {
    static const char roles[] = "sua";
    struct chat_conversation conversation = chat_transcript_view(transcript);
    struct string_buffer text = {0};
    for (size_t i = 0; i < conversation.message_count; i++) {
        const struct chat_message *message = &conversation.messages[i];
        string_buffer_append_format(&text, "%s%c:%s", i == 0 ? "" : "|", roles[message->role],
                                    message->content.bytes);
        if (message->reasoning.length > 0) {
            string_buffer_append_format(&text, "(%s)", message->reasoning.bytes);
        }
    }
    assert_string_equal(string_buffer_text(&text), expected);
    string_buffer_deinit(&text);
}

static void write_file(const char *name, const char *text) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *name, const char *expected) {
    char text[4096] = {0};
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, expected);
}

static void test_turns_follow_the_system_message(void **state) {
    (void)state;
    struct chat_transcript transcript;
    assert_int_equal(chat_transcript_init(&transcript), STATUS_OK);
    assert_conversation(&transcript, "");
    add_user(&transcript, "Hi");
    add_assistant(&transcript, "Hello.", "A greeting.");
    assert_conversation(&transcript, "u:Hi|a:Hello.(A greeting.)");
    set_system(&transcript, "Be kind.");
    assert_string_equal(chat_transcript_system(&transcript), "Be kind.");
    add_user(&transcript, "Bye");
    assert_conversation(&transcript, "s:Be kind.|u:Hi|a:Hello.(A greeting.)|u:Bye");
    chat_transcript_drop_last(&transcript);
    assert_conversation(&transcript, "s:Be kind.|u:Hi|a:Hello.(A greeting.)");
    assert_int_equal(chat_transcript_clear(&transcript), STATUS_OK);
    assert_conversation(&transcript, "s:Be kind.");
    chat_transcript_drop_last(&transcript);
    assert_conversation(&transcript, "s:Be kind.");
    set_system(&transcript, NULL);
    assert_conversation(&transcript, "");
    assert_string_equal(chat_transcript_system(&transcript), "");
    chat_transcript_deinit(&transcript);
}

static void test_grows(void **state) {
    (void)state;
    char text[16];
    struct chat_transcript transcript;
    assert_int_equal(chat_transcript_init(&transcript), STATUS_OK);
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "%d", i);
        add_user(&transcript, text);
    }
    struct chat_conversation conversation = chat_transcript_view(&transcript);
    assert_int_equal(conversation.message_count, 500);
    for (int i = 0; i < 500; i++) {
        snprintf(text, sizeof text, "%d", i);
        assert_string_equal(conversation.messages[i].content.bytes, text);
    }
    chat_transcript_deinit(&transcript);
}

static void test_file_is_what_clients_send(void **state) {
    (void)state;
    struct chat_transcript transcript;
    assert_int_equal(chat_transcript_init(&transcript), STATUS_OK);
    set_system(&transcript, "Be \"kind\".");
    add_user(&transcript, "a\nb \xff \xc3\xa9"); /* an ill-formed byte */
    add_assistant(&transcript, "c", "d");
    add_assistant(&transcript, "", "");
    assert_int_equal(chat_transcript_save(&transcript, "saved.json"), STATUS_OK);
    assert_file("saved.json", "{\"messages\": [\n"
                              "{\"role\": \"system\", \"content\": \"Be \\\"kind\\\".\"},\n"
                              "{\"role\": \"user\", \"content\": \"a\\nb \xef\xbf\xbd \xc3\xa9\"},\n"
                              "{\"role\": \"assistant\", \"content\": \"c\", \"reasoning_content\": \"d\"},\n"
                              "{\"role\": \"assistant\", \"content\": \"\"}\n"
                              "]}\n");
    assert_int_equal(chat_transcript_clear(&transcript), STATUS_OK);
    set_system(&transcript, NULL);
    add_user(&transcript, "forgotten");
    assert_int_equal(chat_transcript_load(&transcript, "saved.json"), STATUS_OK);
    assert_conversation(&transcript, "s:Be \"kind\".|u:a\nb \xef\xbf\xbd \xc3\xa9|a:c(d)|a:");
    write_file("array.json", "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}]}]");
    assert_int_equal(chat_transcript_load(&transcript, "array.json"), STATUS_OK);
    assert_conversation(&transcript, "u:x");
    chat_transcript_deinit(&transcript);
}

static void test_failed_save_leaves_no_trace(void **state) {
    (void)state;
    struct chat_transcript transcript;
    assert_int_equal(chat_transcript_init(&transcript), STATUS_OK);
    assert_int_equal(chat_transcript_save(&transcript, "x"), STATUS_BAD_ARGUMENT);
    add_user(&transcript, "Hi");
    assert_int_equal(chat_transcript_save(&transcript, "nowhere/x"), STATUS_IO);
    assert_string_equal(error_last()->message, "nowhere/x cannot be written: No such file or directory");
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(chat_transcript_save(&transcript, "folder"), STATUS_IO);
    DIR *folder = opendir(".");
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        assert_true(entry->d_name[0] == '.' || strcmp(entry->d_name, "folder") == 0);
    }
    closedir(folder);
    chat_transcript_deinit(&transcript);
}

static void test_refused_file_changes_nothing(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum status status;
        const char *message;
    } cases[] = {
        {"{", STATUS_BAD_FORMAT, "x.json is not valid JSON"},
        {"{\"model\": 1}", STATUS_BAD_FORMAT, "x.json has no \"messages\""},
        {"[]", STATUS_BAD_FORMAT, "at least one message"},
        {"[{\"role\": \"wizard\"}]", STATUS_BAD_FORMAT, "wizard"},
        {"[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"system\", \"content\": \"b\"}]",
         STATUS_UNSUPPORTED, "x.json: messages[1] is neither the user's nor the assistant's"},
        {"[{\"role\": \"tool\", \"content\": \"a\"}]", STATUS_UNSUPPORTED, "messages[0] uses tools"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"tools\": [{\"type\": \"function\", "
         "\"function\": {\"name\": \"f\"}}]}",
         STATUS_UNSUPPORTED, "uses tools, which chat cannot run"},
        {"[{\"role\": \"user\", \"content\": \"a\", \"task\": \"title\"}]", STATUS_UNSUPPORTED, "has a task"},
    };
    struct chat_transcript transcript;
    assert_int_equal(chat_transcript_init(&transcript), STATUS_OK);
    add_user(&transcript, "Hi");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("x.json", cases[i].text);
        assert_int_equal(chat_transcript_load(&transcript, "x.json"), cases[i].status);
        assert_non_null(strstr(error_last()->message, cases[i].message));
    }
    assert_int_equal(chat_transcript_load(&transcript, "missing.json"), STATUS_NOT_FOUND);
    assert_conversation(&transcript, "u:Hi");
    chat_transcript_deinit(&transcript);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns_follow_the_system_message),
        cmocka_unit_test(test_grows),
        cmocka_unit_test_setup_teardown(test_file_is_what_clients_send, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_failed_save_leaves_no_trace, enter_temporary_directory,
                                        leave_temporary_directory),
        cmocka_unit_test_setup_teardown(test_refused_file_changes_nothing, enter_temporary_directory,
                                        leave_temporary_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
