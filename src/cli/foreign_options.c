#include "cli/foreign_options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { NAMES_BYTES = 1024 };

static const struct foreign_option options[] = {
    {"trust-remote-code", NULL, false},
    {"enable-auto-tool-choice", NULL, false},
    {"enable-chunked-prefill", NULL, false},
    {"enable-request-id-headers", NULL, false},
    {"enable-server-load-tracking", NULL, false},
    {"enable-log-requests", NULL, false},
    {"enable-per-request-metrics", NULL, false},
    {"enable-dbo", NULL, false},
    {"enforce-eager", NULL, false},
    {"async-scheduling", NULL, false},
    {"disable-hybrid-kv-cache-manager", NULL, false},
    {"disable-log-stats", NULL, false},
    {"disable-log-requests", NULL, false},
    {"disable-fastapi-docs", NULL, false},
    {"allow-credentials", NULL, false},
    {"allowed-methods", NULL, true},
    {"allowed-headers", NULL, true},
    {"tokenizer-mode", NULL, true},
    {"reasoning-parser", NULL, true},
    {"reasoning-config", NULL, true},
    {"tool-call-parser", NULL, true},
    {"chat-template-content-format", NULL, true},
    {"structured-outputs-config", NULL, true},
    {"guided-decoding-backend", NULL, true},
    {"dtype", NULL, true},
    {"quantization", "q", true},
    {"kv-cache-dtype", NULL, true},
    {"seed", NULL, true},
    {"gpu-memory-utilization", NULL, true},
    {"swap-space", NULL, true},
    {"cpu-offload-gb", NULL, true},
    {"num-gpu-blocks-override", NULL, true},
    {"prefix-caching-hash-algo", NULL, true},
    {"max-num-partial-prefills", NULL, true},
    {"long-prefill-token-threshold", NULL, true},
    {"scheduling-policy", NULL, true},
    {"stream-interval", NULL, true},
    {"load-format", NULL, true},
    {"safetensors-load-strategy", NULL, true},
    {"model-loader-extra-config", NULL, true},
    {"download-dir", NULL, true},
    {"compilation-config", "cc", true},
    {"optimization-level", NULL, true},
    {"attention-backend", NULL, true},
    {"attention-config", "ac", true},
    {"moe-backend", NULL, true},
    {"linear-backend", NULL, true},
    {"all2all-backend", NULL, true},
    {"expert-placement-strategy", NULL, true},
    {"data-parallel-backend", "dpb", true},
    {"api-server-count", NULL, true},
    {"uvicorn-log-level", NULL, true},
    {"show-hidden-metrics-for-version", NULL, true},
};

enum { OPTION_COUNT = sizeof options / sizeof options[0] };

const struct foreign_option *foreign_options(size_t *count) {
    *count = OPTION_COUNT;
    return options;
}

/* Whether `word`, up to '=' or '.', is that name; vLLM takes underlines for dashes. */
static bool is_name(const char *word, size_t length, const char *name) {
    if (name == NULL || strlen(name) != length) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char letter = word[i] == '_' ? '-' : word[i];
        if (letter != name[i]) {
            return false;
        }
    }
    return true;
}

static const struct foreign_option *find(const char *argument) {
    if (argument[0] != '-' || argument[1] == '\0') {
        return NULL;
    }
    bool is_long = argument[1] == '-';
    const char *word = argument + (is_long ? 2 : 1);
    size_t length = strcspn(word, "=.");
    bool is_negated = is_long && length > 3 && strncmp(word, "no-", 3) == 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct foreign_option *option = &options[i];
        bool is_it = is_name(word, length, is_long ? option->name : option->alias);
        bool is_its_opposite =
            is_negated && !option->has_value && is_name(word + 3, length - 3, option->name);
        if (is_it || is_its_opposite) {
            return option;
        }
    }
    return NULL;
}

const struct foreign_option *foreign_options_find(const char *key) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (is_name(key, strlen(key), options[i].name)) {
            return &options[i];
        }
    }
    return NULL;
}

void foreign_options_drop(int *argc, char **argv) {
    char names[NAMES_BYTES] = "";
    int kept = 0;
    int next = 0;
    while (next < *argc && strcmp(argv[next], "--") != 0) {
        const struct foreign_option *option = find(argv[next]);
        char *word = argv[next++];
        if (option == NULL) {
            argv[kept++] = word;
            continue;
        }
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s--%s", length == 0 ? "" : ", ", option->name);
        next += option->has_value && strchr(word, '=') == NULL && next < *argc;
    }
    while (next < *argc) {
        argv[kept++] = argv[next++];
    }
    *argc = kept;
    if (names[0] != '\0') {
        log_write(LOG_WARNING, "cli", "these options change nothing here: %s", names);
    }
}
