/*
 * Whole exchanges of each API, byte for byte: tests/golden/api. What differs from run to run, ids and times,
 * stands there as X. In streams there is one choice: in which order several come is up to threads.
 *
 * A file has a line with method and path, the request's body, a line "== answer" with the model's text behind
 * it, and "== reply" with status, content type and body. With SLUICE_RECORD_GOLDEN set the replies are
 * written anew, to be read before they are believed.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/api_fixture.h"

enum { TRANSCRIPT_BYTES = 65536, TOKENS_A_STEP = 3, NAME_BYTES = 512, TRANSCRIPTS_LEAST = 12 };

static const char FOLDER[] = SLUICE_SOURCE_DIR "/tests/golden/api";
static const char ANSWER_MARK[] = "\n== answer\n";
static const char REPLY_MARK[] = "\n== reply\n";

struct transcript {
    char text[TRANSCRIPT_BYTES]; /* cut into the strings below */
    const char *method, *path, *body, *answer, *reply;
};

/* What random ids and times stand behind, and how many digits they have at least. */
static const struct {
    const char *mark;
    size_t digits_least;
} changing[] = {
    {"call_", 8}, {"resp_", 8}, {"msg_", 8}, {"rs_", 8}, {"fc_", 8}, {"\"created\":", 1}, {"_at\":", 1},
};

/* The length of the mark at the beginning of `text` if something that changes follows; `end` is behind it. */
static size_t find_changing(const char *text, size_t *end) {
    for (size_t i = 0; i < sizeof changing / sizeof *changing; i++) {
        size_t length = strlen(changing[i].mark);
        if (strncmp(text, changing[i].mark, length) == 0) {
            size_t digits = strspn(text + length, "0123456789abcdef");
            *end = length + digits;
            return digits >= changing[i].digits_least ? length : 0;
        }
    }
    return 0;
}

static struct string_buffer mask(const char *text, size_t length) {
    struct string_buffer out = {0};
    for (size_t i = 0; i < length;) {
        size_t end = 1;
        size_t mark = find_changing(text + i, &end);
        if (mark > 0) {
            string_buffer_append(&out, text + i, mark);
            string_buffer_append_char(&out, 'X');
            i += end;
        } else {
            string_buffer_append_char(&out, text[i++]);
        }
    }
    return out;
}

/* Cuts at the mark and returns what is behind it. */
static char *cut(char *text, const char *mark) {
    char *place = strstr(text, mark);
    assert_non_null(place);
    *place = '\0';
    return place + strlen(mark);
}

static void read_transcript(const char *name, struct transcript *transcript) {
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t length = fread(transcript->text, 1, sizeof transcript->text - 1, file);
    assert_true(length < sizeof transcript->text - 1);
    fclose(file);
    transcript->text[length] = '\0';
    transcript->reply = cut(transcript->text, REPLY_MARK);
    transcript->answer = cut(transcript->text, ANSWER_MARK);
    transcript->body = cut(transcript->text, "\n");
    transcript->path = cut(transcript->text, " ");
    transcript->method = transcript->text;
}

static struct string_buffer make_reply(struct api_fixture *fixture, const struct transcript *transcript) {
    struct string_buffer out = {0};
    api_fixture_reset(fixture);
    script_service_set_lump(fixture->service, TOKENS_A_STEP);
    script_service_add_text(fixture->service, transcript->answer);
    int status = api_fixture_exchange(fixture, transcript->method, transcript->path, transcript->body,
                                      strlen(transcript->body));
    struct string_buffer body = memory_reply_body(&fixture->reply);
    struct string_buffer masked = mask(string_buffer_text(&body), body.length);
    string_buffer_append_format(&out, "%d %s\n%s\n", status, fixture->reply.content_type,
                                string_buffer_text(&masked));
    string_buffer_deinit(&masked);
    string_buffer_deinit(&body);
    return out;
}

static void write_transcript(const char *name, const struct transcript *transcript, const char *reply) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    fprintf(file, "%s %s\n%s%s%s%s%s", transcript->method, transcript->path, transcript->body, ANSWER_MARK,
            transcript->answer, REPLY_MARK, reply);
    assert_int_equal(fclose(file), 0);
}

static int is_transcript(const struct dirent *entry) {
    size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".txt") == 0;
}

static void test_transcripts(void **state) {
    static struct transcript transcript;
    struct dirent **entries;
    int count = scandir(FOLDER, &entries, is_transcript, alphasort);
    assert_true(count >= TRANSCRIPTS_LEAST);
    for (int i = 0; i < count; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s/%s", FOLDER, entries[i]->d_name);
        read_transcript(name, &transcript);
        struct string_buffer reply = make_reply(*state, &transcript);
        if (getenv("SLUICE_RECORD_GOLDEN") != NULL) {
            write_transcript(name, &transcript, reply.data);
        } else if (strcmp(reply.data, transcript.reply) != 0) {
            fail_msg("%s: the reply is now\n%s", entries[i]->d_name, reply.data);
        }
        string_buffer_deinit(&reply);
        free(entries[i]);
    }
    free(entries);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transcripts)};
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
