/*
 * Measures what a step of a request costs that obeys a grammar: the mask and the accepted token, on the 129k
 * tokens of deepseek-v3. Asserts nothing; `make bench` runs it. Working ahead, as servers do it, is no step.
 *
 * Answers are random walks. Cold are the first answers of a grammar; warm are others after them, which share
 * the states that the first ones met and still meet new ones. Each grammar begins anew several times, with
 * the same walks: what the machine does besides hits a step once, what the step itself costs it costs each
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "text/grammar_fixture.h"
#include "text/request_constraint.h"
#include "text/tokenizer_fixture.h"

enum {
    STEPS_MAX = 80,
    COLD_ANSWERS = 60,
    WARM_ANSWERS = 40,
    SAMPLES_MAX = COLD_ANSWERS * STEPS_MAX,
    REPEATS = 3,
    END = 1
};

/* As a server does where it compiles. */
static const double PREPARE_SECONDS = 0.05;

static const char *const kind_names[] = {"", "JSON", "JSON Schema", "regex", "choice", "EBNF", "tools"};
static const int32_t end_tokens[] = {END};

struct samples {
    double microseconds[SAMPLES_MAX];
    size_t count;
};

/* Of this thread: what else runs on the machine does not count. */
static double now_microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void answer(struct grammar_cache *cache, const struct request_constraint_options *options,
                   uint64_t seed, struct samples *out) {
    uint32_t word_count = grammar_cache_vocabulary(cache)->word_count;
    uint32_t *mask = malloc(word_count * sizeof *mask);
    uint64_t random_state = seed;
    struct request_constraint *constraint;
    assert_int_equal(request_constraint_create(cache, options, &constraint), STATUS_OK);
    struct sluice_constraint interface = request_constraint_interface(constraint);
    request_constraint_prepare(constraint, PREPARE_SECONDS);
    for (int i = 0; i < STEPS_MAX; i++) {
        double start = now_microseconds();
        memset(mask, 0, word_count * sizeof *mask);
        bool is_limited = interface.allow(interface.context, NULL, 0, mask);
        double spent = now_microseconds() - start;
        assert_true(is_limited);
        int32_t token =
            pick_token(mask, (int32_t)grammar_cache_vocabulary(cache)->token_count, &random_state);
        if (token == END) {
            break;
        }
        start = now_microseconds();
        bool is_over = interface.accept(interface.context, token);
        out->microseconds[out->count++] = spent + now_microseconds() - start;
        if (is_over) {
            break;
        }
    }
    request_constraint_destroy(&constraint);
    free(mask);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(struct samples *samples, double share) {
    qsort(samples->microseconds, samples->count, sizeof samples->microseconds[0], compare);
    return samples->microseconds[(size_t)(share * (double)(samples->count - 1))];
}

static void measure_once(struct token_vocabulary *vocabulary, const struct grammar_example *example,
                         struct samples *cold, struct samples *warm) {
    struct grammar_cache *cache;
    struct request_constraint_options options = {.grammar = grammar_source_of(example->kind, example->text),
                                                 .end_tokens = end_tokens,
                                                 .end_token_count = 1};
    assert_int_equal(grammar_cache_create(vocabulary, SIZE_MAX, &cache), STATUS_OK);
    cold->count = 0;
    warm->count = 0;
    for (uint64_t i = 0; i < COLD_ANSWERS; i++) {
        answer(cache, &options, 1 + i, cold);
    }
    for (uint64_t i = 0; i < WARM_ANSWERS; i++) {
        answer(cache, &options, 1001 + i, warm);
    }
    grammar_cache_destroy(&cache);
}

/* The costliest step by the least that it took in any run. */
static double least_maximum(const struct samples runs[REPEATS]) {
    double maximum = 0.0;
    for (size_t i = 0; i < runs[0].count; i++) {
        double least = runs[0].microseconds[i];
        for (int r = 1; r < REPEATS; r++) {
            assert_int_equal(runs[r].count, runs[0].count);
            least = runs[r].microseconds[i] < least ? runs[r].microseconds[i] : least;
        }
        maximum = least > maximum ? least : maximum;
    }
    return maximum;
}

static void measure(struct token_vocabulary *vocabulary, const struct grammar_example *example) {
    static struct samples cold[REPEATS], warm;
    for (int r = 0; r < REPEATS; r++) {
        measure_once(vocabulary, example, &cold[r], &warm);
    }
    double maximum = least_maximum(cold);
    /* Of the source its first line. */
    printf("| %s | %.*s | %zu | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f |\n", kind_names[example->kind],
           (int)(strcspn(example->text, "\n") < 44 ? strcspn(example->text, "\n") : 44), example->text,
           warm.count, quantile(&warm, 0.5), quantile(&warm, 0.9), quantile(&warm, 0.99),
           quantile(&cold[0], 0.5), quantile(&cold[0], 1.0), maximum);
}

int main(void) {
    struct tokenizer *tokenizer = load_tokenizer(DEEPSEEK_V3_TOKENIZER);
    struct token_vocabulary *vocabulary = make_vocabulary(tokenizer);
    printf("Microseconds of processor time per step (mask and accepted token), %d tokens:\n\n",
           (int)vocabulary->token_count);
    printf("| grammar | source | warm steps | warm median | warm p90 | warm p99 | cold median | cold maximum "
           "of one run "
           "| cold maximum of each step's least of %d |\n|---|---|---|---|---|---|---|---|---|\n",
           REPEATS);
    for (size_t i = 0; i < grammar_example_count; i++) {
        measure(vocabulary, &grammar_examples[i]);
    }
    token_vocabulary_destroy(&vocabulary);
    tokenizer_destroy(&tokenizer);
    return 0;
}
