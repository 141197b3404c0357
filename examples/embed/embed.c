/*
 * Two requests at once in a program of one's own: tokens as they come, then what each of them took.
 *
 * Usage: embed MODEL_DIRECTORY
 *
 * The engine works on token ids; here prompts are ids. Build it against an installed Sluice:
 *     cc embed.c $(pkg-config --cflags --libs sluice) -o embed
 */
#include <inttypes.h>
#include <stdio.h>

#include <sluice/engine.h>
#include <sluice/request.h>
#include <sluice/status.h>

enum { REQUESTS = 2, END_TOKEN = 1 };

/* Functions that fail return a status; the sentence to it is kept for the thread that called. */
static int complain(const char *what) {
    fprintf(stderr, "embed: %s: %s\n", what, sluice_last_error());
    return 1;
}

static enum sluice_status submit(struct sluice_engine *engine, const int32_t *prompt, size_t prompt_count,
                                 uint64_t seed, struct sluice_request **out) {
    static const int32_t stop_tokens[] = {END_TOKEN};
    struct sluice_request_options options = sluice_request_options_default();
    options.prompt = prompt; /* copied, as all arrays of the options are */
    options.prompt_count = prompt_count;
    options.token_limit = 32;
    options.stop_tokens = stop_tokens;
    options.stop_token_count = 1;
    options.sampling.temperature = 0.7;
    options.sampling.seed = seed;
    return sluice_engine_submit(engine, &options, out);
}

/*
 * Prints the tokens of one request as they come. The other one runs meanwhile, in the same steps; a program
 * that wants to show both at once waits for each on a thread of its own.
 */
static void stream(int number, struct sluice_request *request) {
    struct sluice_request_state state = {0};
    printf("request %d:", number);
    for (size_t shown = 0; state.phase != SLUICE_REQUEST_FINISHED; shown = state.token_count) {
        state = sluice_request_wait(request, shown, SIZE_MAX, -1.0);
        for (size_t i = shown; i < state.token_count; i++) {
            printf(" %" PRId32, sluice_request_token(request, i));
        }
        fflush(stdout);
    }
    printf("\n");
}

static int print_usage(int number, struct sluice_request *request, size_t prompt_count) {
    struct sluice_request_state state = sluice_request_state(request);
    if (state.finish_reason == SLUICE_FINISH_ERROR) {
        fprintf(stderr, "embed: request %d: %s\n", number, state.message);
        return 1;
    }
    printf("usage %d: %zu prompt tokens, %zu cached, %zu new, %zu of %zu drafts accepted, ended by %s\n",
           number, prompt_count, state.cached_prompt_tokens, state.token_count, state.accepted_drafts,
           state.verified_drafts, state.finish_reason == SLUICE_FINISH_STOP ? "stop" : "length");
    return 0;
}

static int run(struct sluice_engine *engine) {
    static const int32_t prompts[REQUESTS][4] = {{0, 101, 102, 103}, {0, 201, 202, 203}};
    struct sluice_request *requests[REQUESTS] = {NULL};
    int status = 0;
    for (int i = 0; i < REQUESTS && status == 0; i++) {
        if (submit(engine, prompts[i], 4, (uint64_t)i, &requests[i]) != SLUICE_OK) {
            status = complain("a request was refused");
        }
    }
    for (int i = 0; i < REQUESTS && status == 0; i++) {
        stream(i, requests[i]);
        status = print_usage(i, requests[i], 4);
    }
    for (int i = 0; i < REQUESTS; i++) {
        sluice_request_release(&requests[i]); /* before the engine is closed; it cancels what still runs */
    }
    return status;
}

int main(int argc, char **argv) {
    struct sluice_engine_options options = sluice_engine_options_default();
    struct sluice_engine *engine;
    if (argc != 2) {
        fprintf(stderr, "usage: embed MODEL_DIRECTORY\n");
        return 2;
    }
    options.model_directory = argv[1];
    options.sequence_limit = REQUESTS;
    options.draft.limit = SLUICE_DRAFTS_IF_POSSIBLE;
    if (sluice_engine_open(&options, &engine) != SLUICE_OK) {
        return complain("the engine did not open");
    }
    int status = run(engine);
    sluice_engine_close(&engine);
    return status;
}
