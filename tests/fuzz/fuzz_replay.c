/*
 * Runs a fuzzer's entry point without libFuzzer: over the files of a corpus and over seeded mutations of
 * them.
 *
 * Usage: FUZZER DIRECTORY [MUTATIONS_PER_FILE]. The same build gives the same inputs in every run; the last
 * input is not kept, because a sanitizer's report or the number printed here leads back to it.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES_MAX = 1 << 20, CHANGES_MAX = 6, DEFAULT_MUTATIONS = 2000 };
static const double time_limit_seconds = 10.0;

struct input {
    uint8_t *bytes; /* room for INPUT_BYTES_MAX */
    size_t length;
};

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* xorshift64*: quality does not matter here, repeatability does. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

static size_t pick(uint64_t *state, size_t limit) {
    return limit == 0 ? 0 : (size_t)(next_random(state) % limit);
}

static void insert_bytes(struct input *input, size_t at, const void *bytes, size_t count) {
    if (input->length + count > INPUT_BYTES_MAX) {
        return;
    }
    memmove(input->bytes + at + count, input->bytes + at, input->length - at);
    memcpy(input->bytes + at, bytes, count);
    input->length += count;
}

static void remove_bytes(struct input *input, size_t at, size_t count) {
    memmove(input->bytes + at, input->bytes + at + count, input->length - at - count);
    input->length -= count;
}

/* Texts that parsers trip over. */
static void insert_token(struct input *input, uint64_t *state) {
    static const char *const tokens[] = {"-1",
                                         "18446744073709551615",
                                         "9223372036854775807",
                                         "1e400",
                                         "0.5",
                                         "null",
                                         "{}",
                                         "[]",
                                         "\"\"",
                                         "\\u0000",
                                         "\\",
                                         "\"",
                                         "[",
                                         "{",
                                         "]",
                                         "}",
                                         ",",
                                         ":",
                                         "\xff",
                                         "\xc3\xa9"};
    const char *token = tokens[pick(state, sizeof tokens / sizeof *tokens)];
    insert_bytes(input, pick(state, input->length + 1), token, strlen(token));
}

static void repeat_stretch(struct input *input, uint64_t *state) {
    uint8_t stretch[64];
    size_t from = pick(state, input->length);
    size_t count = input->length - from;
    count = count < sizeof stretch ? count : sizeof stretch;
    memcpy(stretch, input->bytes + from, count);
    insert_bytes(input, pick(state, input->length + 1), stretch, count);
}

static void change(struct input *input, uint64_t *state) {
    uint8_t byte = (uint8_t)next_random(state);
    size_t at = pick(state, input->length);
    switch (pick(state, 7)) {
    case 0:
        if (input->length > 0) {
            input->bytes[at] ^= (uint8_t)(1u << (byte & 7u));
        }
        break;
    case 1:
        if (input->length > 0) {
            input->bytes[at] = byte;
        }
        break;
    case 2:
        insert_bytes(input, at, &byte, 1);
        break;
    case 3:
        remove_bytes(input, at, pick(state, input->length - at + (input->length > 0)) % 32);
        break;
    case 4:
        input->length = at;
        break;
    case 5:
        repeat_stretch(input, state);
        break;
    default:
        insert_token(input, state);
        break;
    }
}

/* Gives the entry point a block of the exact size, so that a sanitizer sees a read past its end. */
static void run_exact(const struct input *input) {
    uint8_t *copy = malloc(input->length == 0 ? 1 : input->length);
    if (copy != NULL) {
        memcpy(copy, input->bytes, input->length);
        LLVMFuzzerTestOneInput(copy, input->length);
    }
    free(copy);
}

static size_t run_file(const struct input *original, struct input *scratch, uint64_t seed, size_t mutations,
                       double deadline) {
    size_t done = 0;
    run_exact(original);
    for (; done < mutations && now_seconds() < deadline; done++) {
        uint64_t state = (seed * 0x9E3779B97F4A7C15u + done) | 1u;
        memcpy(scratch->bytes, original->bytes, original->length);
        scratch->length = original->length;
        next_random(&state);
        for (size_t changes = 1 + pick(&state, CHANGES_MAX); changes > 0; changes--) {
            change(scratch, &state);
        }
        run_exact(scratch);
    }
    return done;
}

static int read_input(const char *directory, const char *name, struct input *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return -1;
    }
    out->length = fread(out->bytes, 1, INPUT_BYTES_MAX, file);
    fclose(file);
    return 0;
}

static int is_file_name(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [MUTATIONS_PER_FILE]\n", argv[0]);
        return 2;
    }
    size_t mutations = argc > 2 ? strtoull(argv[2], NULL, 10) : DEFAULT_MUTATIONS;
    struct dirent **entries;
    int count = scandir(argv[1], &entries, is_file_name, alphasort);
    struct input original = {.bytes = malloc(INPUT_BYTES_MAX)};
    struct input scratch = {.bytes = malloc(INPUT_BYTES_MAX)};
    if (count <= 0 || original.bytes == NULL || scratch.bytes == NULL) {
        fprintf(stderr, "%s holds no corpus\n", argv[1]);
        return 1;
    }
    double start = now_seconds();
    size_t total = 0;
    int failures = 0;
    for (int i = 0; i < count; i++) {
        /* Each file gets its share of the time, so that a slow one does not starve those after it. */
        double deadline = start + time_limit_seconds * (i + 1) / count;
        if (read_input(argv[1], entries[i]->d_name, &original) != 0) {
            failures++;
        } else {
            total += run_file(&original, &scratch, (uint64_t)i + 1, mutations, deadline);
        }
        free(entries[i]);
    }
    free(entries);
    free(original.bytes);
    free(scratch.bytes);
    printf("%d files, %zu mutations, %.1f s\n", count, total, now_seconds() - start);
    return failures > 0;
}
