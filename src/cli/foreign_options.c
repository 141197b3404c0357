#include "cli/foreign_options.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum { NAMES_BYTES = 1024 };

static const char MEMORY[] = "--memory-limit says how much memory is taken";
static const char HOSTS[] = "ranks on several hosts are started by --hosts, from one of them";
static const char REPLICAS[] = "--data-parallel-size replicas are all started by this command";
static const char ONE_SEQUENCE_ONE_STAGE[] =
    "a sequence's context cannot be cut between ranks (CFG-14); -pp and -tp share its state out";

static const struct foreign_option options[] = {
    {.name = "trust-remote-code"},
    {.name = "enable-auto-tool-choice"},
    {.name = "enable-chunked-prefill"},
    {.name = "enable-request-id-headers"},
    {.name = "enable-server-load-tracking"},
    {.name = "enable-log-requests"},
    {.name = "enable-per-request-metrics"},
    {.name = "enable-dbo"},
    {.name = "enforce-eager"},
    {.name = "async-scheduling"},
    {.name = "disable-hybrid-kv-cache-manager"},
    {.name = "disable-log-stats"},
    {.name = "disable-log-requests"},
    {.name = "disable-fastapi-docs"},
    {.name = "allow-credentials"},
    {.name = "allowed-methods", .has_value = true},
    {.name = "allowed-headers", .has_value = true},
    {.name = "tokenizer-mode", .has_value = true},
    {.name = "reasoning-parser", .has_value = true},
    {.name = "reasoning-config", .has_value = true},
    {.name = "tool-call-parser", .has_value = true},
    {.name = "chat-template-content-format", .has_value = true},
    {.name = "structured-outputs-config", .has_value = true},
    {.name = "guided-decoding-backend", .has_value = true},
    {.name = "dtype", .has_value = true},
    {.name = "quantization", .alias = "q", .has_value = true},
    {.name = "kv-cache-dtype", .has_value = true},
    {.name = "seed", .has_value = true},
    {.name = "gpu-memory-utilization", .has_value = true, .hint = MEMORY},
    {.name = "kv-cache-memory-bytes", .has_value = true, .hint = MEMORY},
    {.name = "swap-space", .has_value = true},
    {.name = "cpu-offload-gb", .has_value = true},
    {.name = "num-gpu-blocks-override", .has_value = true},
    {.name = "prefix-caching-hash-algo", .has_value = true},
    {.name = "max-num-partial-prefills", .has_value = true},
    {.name = "long-prefill-token-threshold", .has_value = true},
    {.name = "scheduling-policy", .has_value = true},
    {.name = "stream-interval", .has_value = true},
    {.name = "load-format", .has_value = true},
    {.name = "safetensors-load-strategy", .has_value = true},
    {.name = "model-loader-extra-config", .has_value = true},
    {.name = "download-dir", .has_value = true},
    {.name = "compilation-config", .alias = "cc", .has_value = true},
    {.name = "optimization-level", .has_value = true},
    {.name = "attention-backend", .has_value = true},
    {.name = "attention-config", .alias = "ac", .has_value = true},
    {.name = "moe-backend", .has_value = true},
    {.name = "linear-backend", .has_value = true},
    {.name = "all2all-backend", .has_value = true},
    {.name = "expert-placement-strategy", .has_value = true},
    {.name = "data-parallel-backend", .alias = "dpb", .has_value = true},
    {.name = "api-server-count", .has_value = true},
    {.name = "uvicorn-log-level", .has_value = true},
    {.name = "show-hidden-metrics-for-version", .has_value = true},
    {.name = "enable-sleep-mode"},
    {.name = "additional-config", .has_value = true},
    {.name = "otlp-traces-endpoint", .has_value = true},
    {.name = "logprobs-mode", .has_value = true},
    {.name = "response-role", .has_value = true},
    {.name = "return-tokens-as-token-ids", .hint = "requests ask for it by a field of that name"},
    {.name = "chat-template",
     .has_value = true,
     .refusal = "prompts have the model's own format, which is part of this program"},
    {.name = "nnodes", .alias = "n", .has_value = true, .harmless = "1", .refusal = HOSTS},
    {.name = "node-rank", .alias = "r", .has_value = true, .harmless = "0", .refusal = HOSTS},
    {.name = "master-addr", .has_value = true, .refusal = HOSTS},
    {.name = "master-port", .has_value = true, .refusal = HOSTS},
    {.name = "headless", .refusal = HOSTS},
    {.name = "data-parallel-rank", .alias = "dpn", .has_value = true, .refusal = REPLICAS},
    {.name = "data-parallel-start-rank", .alias = "dpr", .has_value = true, .refusal = REPLICAS},
    {.name = "data-parallel-size-local", .alias = "dpl", .has_value = true, .refusal = REPLICAS},
    {.name = "data-parallel-address", .alias = "dpa", .has_value = true, .refusal = REPLICAS},
    {.name = "data-parallel-rpc-port", .alias = "dpp", .has_value = true, .refusal = REPLICAS},
    {.name = "data-parallel-hybrid-lb", .alias = "dph", .refusal = REPLICAS},
    {.name = "data-parallel-external-lb", .alias = "dpe", .refusal = REPLICAS},
    {.name = "decode-context-parallel-size",
     .alias = "dcp",
     .has_value = true,
     .harmless = "1",
     .refusal = ONE_SEQUENCE_ONE_STAGE},
    {.name = "prefill-context-parallel-size",
     .alias = "pcp",
     .has_value = true,
     .harmless = "1",
     .refusal = ONE_SEQUENCE_ONE_STAGE},
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

const char *foreign_option_refusal(const struct foreign_option *option, const char *value) {
    const char *harmless = option->has_value ? option->harmless : "false";
    bool is_harmless = harmless != NULL && strcmp(harmless, value) == 0;
    return is_harmless ? NULL : option->refusal;
}

/* What stands behind the word's '=', or the next word; "" if there is none. `*next` is behind it. */
static const char *take_value(const struct foreign_option *option, int argc, char **argv, int *next) {
    const char *word = argv[(*next)++];
    const char *equals = strchr(word, '=');
    if (equals != NULL || !option->has_value || *next >= argc) {
        return equals == NULL ? "" : equals + 1;
    }
    return argv[(*next)++];
}

static void add_name(char names[NAMES_BYTES], const char *name) {
    size_t length = strlen(names);
    snprintf(names + length, NAMES_BYTES - length, "%s--%s", length == 0 ? "" : ", ", name);
}

enum status foreign_options_drop(int *argc, char **argv) {
    char names[NAMES_BYTES] = "";
    int kept = 0;
    int next = 0;
    while (next < *argc && strcmp(argv[next], "--") != 0) {
        const struct foreign_option *option = find(argv[next]);
        if (option == NULL) {
            argv[kept++] = argv[next++];
            continue;
        }
        const char *refusal = foreign_option_refusal(option, take_value(option, *argc, argv, &next));
        CHECK(refusal == NULL, STATUS_USAGE, "--%s has no meaning here: %s; leave it out", option->name,
              refusal);
        if (option->hint != NULL) {
            log_write(LOG_WARNING, "cli", "--%s changes nothing here: %s", option->name, option->hint);
        } else {
            add_name(names, option->name);
        }
    }
    while (next < *argc) {
        argv[kept++] = argv[next++];
    }
    *argc = kept;
    if (names[0] != '\0') {
        log_write(LOG_WARNING, "cli", "these options change nothing here: %s", names);
    }
    return STATUS_OK;
}
