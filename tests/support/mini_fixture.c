#include "support/mini_fixture.h"

#include <stdio.h>

#include "support/golden_file.h"

enum { RECORDED = 6 };

void mini_fill_text(int32_t *tokens, size_t count) {
    struct golden_file golden;
    size_t filled = 0;
    golden_file_open("mini-v4", &golden);
    for (int i = 0; filled < count; i = (i + 1) % RECORDED) {
        char name[32];
        int64_t length;
        snprintf(name, sizeof name, "%d.ids", i);
        const int32_t *ids = golden_file_integers(&golden, name, &length);
        for (int64_t j = 0; j < length && filled < count; j++) {
            tokens[filled++] = ids[j];
        }
    }
    golden_file_close(&golden);
}

struct sluice_engine_options mini_engine_options(int64_t context) {
    struct sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = SLUICE_SOURCE_DIR "/models/mini-v4";
    options.thread_count = 2;
    options.context_tokens = context;
    options.has_prefix_cache = false;
    options.draft.is_adaptive = false;
    return options;
}

struct sluice_request_options mini_request(const int32_t *prompt, size_t prompt_count, int64_t answer) {
    struct sluice_request_options request = sluice_request_options_default();
    request.prompt = prompt;
    request.prompt_count = prompt_count;
    request.token_limit = answer;
    request.sampling.temperature = 0.0;
    request.log_probability_count = 3;
    return request;
}
