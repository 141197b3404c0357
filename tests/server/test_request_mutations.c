/*
 * Two megabytes of requests that are JSON but not what anybody would send: members of good requests removed,
 * doubled, and replaced by what they must not be or by another part of the request.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/request_check.h"
#include "text/json_writer.h"

enum {
    MUTATED_BYTES = 2 << 20,
    CHANGES_MAX = 3,
    SEEDS_MAX = 64,
    ITEMS = 300,
    TEXT_BYTES = 3000,
    SEED_BYTES = 65536
};

struct seed {
    char *path;
    struct json *body;
};

/* Where a walk through a document is, and what it does at some of its values. */
struct mutation {
    const struct json *root;
    uint64_t random;
    size_t place;                /* values seen so far */
    size_t targets[CHANGES_MAX]; /* places that change */
    struct string_buffer *out;
};

/* xorshift64*: repeatable on every machine. */
static size_t pick(struct mutation *mutation, size_t limit) {
    uint64_t *state = &mutation->random;
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (size_t)((*state * 0x2545F4914F6CDD1Du) >> 33) % limit;
}

static size_t count_values(const struct json *value) {
    size_t count = 1;
    for (size_t i = 0; json_kind(value) == JSON_KIND_ARRAY && i < json_length(value); i++) {
        count += count_values(json_at(value, i));
    }
    for (const struct json_member *member = json_kind(value) == JSON_KIND_OBJECT ? json_first(value) : NULL;
         member != NULL; member = json_next(value, member)) {
        count += count_values(json_member_value(member));
    }
    return count;
}

/* The value at a place, in the order of the walk; counts `place` down. */
static const struct json *find_value(const struct json *value, size_t *place) {
    if ((*place)-- == 0) {
        return value;
    }
    const struct json *found = NULL;
    for (size_t i = 0; found == NULL && json_kind(value) == JSON_KIND_ARRAY && i < json_length(value); i++) {
        found = find_value(json_at(value, i), place);
    }
    for (const struct json_member *member = json_kind(value) == JSON_KIND_OBJECT ? json_first(value) : NULL;
         found == NULL && member != NULL; member = json_next(value, member)) {
        found = find_value(json_member_value(member), place);
    }
    return found;
}

static void write_many(struct string_buffer *out, const char *begin, const char *item, size_t count,
                       const char *end) {
    string_buffer_append_text(out, begin);
    for (size_t i = 0; i < count; i++) {
        string_buffer_append_text(out, item);
    }
    string_buffer_append_text(out, end);
}

static void write_replacement(struct mutation *mutation) {
    static const char *const values[] = {
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2.5",
        "1e308",
        "-1e308",
        "1e-300",
        "9223372036854775807",
        "-9223372036854775808",
        "4294967296",
        "\"\"",
        "\"x\"",
        "\"\\u0000\"",
        "\"\\ud83d\\ude00\"",
        "\"<｜end▁of▁sentence｜>\"",
        "[]",
        "{}",
        "[null]",
        "[[]]",
        "[[1], [\"a\"]]",
        "[4095, 4096, -1]",
        "{\"type\": \"function\"}",
        "{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#\"}}}",
        "{\"role\": \"tool\", \"content\": null}",
        "{\"type\": \"text\", \"text\": 7}",
    };
    size_t count = sizeof values / sizeof *values;
    size_t choice = pick(mutation, count + 4);
    struct string_buffer *out = mutation->out;
    if (choice < count) {
        string_buffer_append_text(out, values[choice]);
    } else if (choice == count) {
        write_many(out, "[0", ", 1", ITEMS, "]");
    } else if (choice == count + 1) {
        write_many(out, "\"", "é", TEXT_BYTES / 2, "\"");
    } else if (choice == count + 2) {
        write_many(out, "", "[", ITEMS, "");
        write_many(out, "1", "]", ITEMS, "");
    } else {
        size_t place = pick(mutation, count_values(mutation->root));
        assert_int_equal(json_write(find_value(mutation->root, &place), out), STATUS_OK);
    }
}

static bool is_target(const struct mutation *mutation) {
    for (size_t i = 0; i < CHANGES_MAX; i++) {
        if (mutation->targets[i] == mutation->place) {
            return true;
        }
    }
    return false;
}

static void write_mutated(struct mutation *mutation, const struct json *value);

static void write_members(struct mutation *mutation, const struct json *value) {
    bool has_item = false;
    string_buffer_append_text(mutation->out, "{");
    for (const struct json_member *member = json_first(value); member != NULL;
         member = json_next(value, member)) {
        size_t length;
        const char *key = json_member_key(member, &length);
        if (pick(mutation, 60) == 0) {
            mutation->place += count_values(json_member_value(member));
            continue; /* removed */
        }
        string_buffer_append_text(mutation->out, has_item ? ", " : "");
        has_item = true;
        struct json_writer writer = json_writer_on(mutation->out);
        json_writer_bytes(&writer, NULL, key, length);
        string_buffer_append_text(mutation->out, ": ");
        write_mutated(mutation, json_member_value(member));
    }
    string_buffer_append_text(mutation->out, "}");
}

static void write_items(struct mutation *mutation, const struct json *value) {
    string_buffer_append_text(mutation->out, "[");
    for (size_t i = 0; i < json_length(value); i++) {
        string_buffer_append_text(mutation->out, i > 0 ? ", " : "");
        write_mutated(mutation, json_at(value, i));
        if (pick(mutation, 40) == 0) { /* doubled */
            string_buffer_append_text(mutation->out, ", ");
            assert_int_equal(json_write(json_at(value, i), mutation->out), STATUS_OK);
        }
    }
    string_buffer_append_text(mutation->out, "]");
}

static void write_mutated(struct mutation *mutation, const struct json *value) {
    bool is_changed = is_target(mutation);
    mutation->place++;
    if (is_changed) {
        mutation->place += count_values(value) - 1;
        write_replacement(mutation);
    } else if (json_kind(value) == JSON_KIND_OBJECT) {
        write_members(mutation, value);
    } else if (json_kind(value) == JSON_KIND_ARRAY) {
        write_items(mutation, value);
    } else {
        assert_int_equal(json_write(value, mutation->out), STATUS_OK);
    }
}

static int is_seed(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static struct seed read_seed(const char *name) {
    static char text[SEED_BYTES];
    struct seed seed;
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    const char *newline = memchr(text, '\n', length);
    assert_true(newline != NULL && length < sizeof text);
    seed.path = strndup(text, (size_t)(newline - text));
    assert_int_equal(json_parse(newline + 1, length - (size_t)(newline + 1 - text), name, &seed.body),
                     STATUS_OK);
    return seed;
}

/* The fuzzer's corpus, in the order of names: a path and a body each. */
static size_t read_seeds(struct seed *seeds) {
    static const char folder[] = SLUICE_SOURCE_DIR "/tests/fuzz/corpus/fuzz_requests";
    struct dirent **entries;
    int count = scandir(folder, &entries, is_seed, alphasort);
    assert_true(count > 0 && count <= SEEDS_MAX);
    for (int i = 0; i < count; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s/%s", folder, entries[i]->d_name);
        seeds[i] = read_seed(name);
        free(entries[i]);
    }
    free(entries);
    return (size_t)count;
}

static void free_seeds(struct seed *seeds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(seeds[i].path);
        json_free(&seeds[i].body);
    }
}

static void test_mutations(void **state) {
    struct api_fixture *fixture = *state;
    struct seed seeds[SEEDS_MAX];
    size_t seed_count = read_seeds(seeds);
    size_t accepted = 0;
    size_t count = 0;
    struct mutation mutation = {.random = 20240607};
    for (size_t bytes = 0; bytes < MUTATED_BYTES; count++) {
        struct string_buffer text = {0};
        const struct seed *seed = &seeds[count % seed_count];
        size_t values = count_values(seed->body);
        mutation.root = seed->body;
        mutation.place = 0;
        mutation.out = &text;
        size_t changes = 1 + pick(&mutation, CHANGES_MAX);
        for (size_t i = 0; i < CHANGES_MAX; i++) {
            mutation.targets[i] = i < changes ? pick(&mutation, values) : SIZE_MAX;
        }
        write_mutated(&mutation, seed->body);
        accepted += request_check(fixture, seed->path, text.data, text.length) == 200;
        bytes += text.length;
        string_buffer_deinit(&text);
    }
    print_message("%zu requests, %zu of them accepted\n", count, accepted);
    /* Neither is everything refused nor everything taken. */
    assert_true(accepted > count / 20 && accepted < count - count / 20);
    free_seeds(seeds, seed_count);
}

/* What the mutations start from is accepted. */
static void test_seeds(void **state) {
    struct api_fixture *fixture = *state;
    struct seed seeds[SEEDS_MAX];
    size_t count = read_seeds(seeds);
    assert_true(count >= request_check_path_count);
    for (size_t i = 0; i < count; i++) {
        struct string_buffer text = {0};
        assert_int_equal(json_write(seeds[i].body, &text), STATUS_OK);
        int status = request_check(fixture, seeds[i].path, text.data, text.length);
        if (status != 200) {
            fail_msg("%s %s: %d %s", seeds[i].path, text.data, status,
                     string_buffer_text(&fixture->reply.body));
        }
        string_buffer_deinit(&text);
    }
    free_seeds(seeds, count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, api_fixture_open, api_fixture_close);
}
