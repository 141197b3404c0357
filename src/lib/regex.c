/* The wrapper of PCRE2's 8-bit library. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/regex.h"

#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>

enum {
    PATTERN_BYTES_MAX = 64 << 10,
    HEAP_KIB_MAX = 64 << 10,
    /* The deepest honest use seen is one step per character and alternative. */
    STEPS_PER_BYTE = 64,
    STEPS_AT_LEAST = 100000,
};

struct regex {
    pcre2_code *code;
};

struct regex_matcher {
    pcre2_match_data *match;
    pcre2_match_context *context;
};

enum status regex_create(const char *pattern, size_t length, enum regex_syntax syntax, const char *what,
                         struct regex **out) {
    CHECK(length <= PATTERN_BYTES_MAX, STATUS_BAD_FORMAT,
          "%s is a regular expression of %zu bytes; at most %d are supported", what, length,
          PATTERN_BYTES_MAX);
    struct regex *regex = calloc(1, sizeof *regex);
    CHECK_MEMORY(regex);
    uint32_t options = PCRE2_UTF | (syntax == REGEX_SYNTAX_LITERAL ? PCRE2_LITERAL : PCRE2_UCP);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, length, options, &error, &error_offset, NULL);
    if (regex->code == NULL) {
        free(regex);
        PCRE2_UCHAR message[256];
        pcre2_get_error_message(error, message, sizeof message);
        FAIL(STATUS_BAD_FORMAT, "%s is not a valid regular expression: %s at byte %zu", what,
             (const char *)message, (size_t)error_offset);
    }
    /* Where executable memory is forbidden this fails and matching uses the interpreter. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    *out = regex;
    return STATUS_OK;
}

void regex_destroy(struct regex **regex) {
    if (*regex != NULL) {
        pcre2_code_free((*regex)->code);
        free(*regex);
        *regex = NULL;
    }
}

enum status regex_matcher_create(struct regex_matcher **out) {
    struct regex_matcher *matcher = calloc(1, sizeof *matcher);
    CHECK_MEMORY(matcher);
    matcher->match = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (matcher->match == NULL || matcher->context == NULL) {
        regex_matcher_destroy(&matcher);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    pcre2_set_heap_limit(matcher->context, HEAP_KIB_MAX);
    *out = matcher;
    return STATUS_OK;
}

void regex_matcher_destroy(struct regex_matcher **matcher) {
    if (*matcher != NULL) {
        pcre2_match_data_free((*matcher)->match);
        pcre2_match_context_free((*matcher)->context);
        free(*matcher);
        *matcher = NULL;
    }
}

enum status regex_find(const struct regex *regex, struct regex_matcher *matcher, const char *text,
                       size_t length, size_t offset, struct regex_span *out, bool *is_found) {
    CHECK(offset <= length, STATUS_BAD_ARGUMENT, "a search starts at byte %zu of a text of %zu bytes", offset,
          length);
    PCRE2_SPTR subject = length == 0 ? (PCRE2_SPTR) "" : (PCRE2_SPTR)text;
    size_t rest = length - offset;
    uint32_t steps = UINT32_MAX;
    if (rest < (UINT32_MAX - STEPS_AT_LEAST) / STEPS_PER_BYTE) {
        steps = (uint32_t)rest * STEPS_PER_BYTE + STEPS_AT_LEAST;
    }
    pcre2_set_match_limit(matcher->context, steps);
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int code = pcre2_match(regex->code, subject, length, offset, options, matcher->match, matcher->context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT) {
        /* Compiled code keeps its backtracking points in 32 KiB of stack; the interpreter has the heap. */
        options |= PCRE2_NO_JIT;
        code = pcre2_match(regex->code, subject, length, offset, options, matcher->match, matcher->context);
    }
    if (code == PCRE2_ERROR_NOMATCH) {
        *is_found = false;
        return STATUS_OK;
    }
    if (code < 0) {
        PCRE2_UCHAR message[256];
        pcre2_get_error_message(code, message, sizeof message);
        FAIL(code == PCRE2_ERROR_NOMEMORY ? STATUS_OUT_OF_MEMORY : STATUS_OUT_OF_RANGE,
             "a regular expression could not be matched against a text of %zu bytes: %s", length,
             (const char *)message);
    }
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(matcher->match);
    CHECK(span[0] >= offset && span[0] <= span[1] && span[1] <= length, STATUS_UNSUPPORTED,
          "a regular expression moved the start of its match, which is not supported");
    *out = (struct regex_span){span[0], span[1]};
    *is_found = true;
    return STATUS_OK;
}
