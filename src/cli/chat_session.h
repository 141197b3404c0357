/*
 * A conversation with a model that is loaded: the engine, what was said, how answers are made.
 *
 * Each turn encodes the whole conversation; what the engine knows of it already comes from its prefix cache.
 * One thread.
 */
#ifndef SLUICE_CLI_CHAT_SESSION_H
#define SLUICE_CLI_CHAT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "cli/chat_transcript.h"
#include "cli/option_table.h"
#include "cli/request_options.h"
#include "server/generation_config.h"
#include "sluice/engine.h"
#include "text/chat_encoder_v4.h"
#include "text/tokenizer.h"

struct chat_session {
    const struct cli_options *options; /* borrowed */
    struct tokenizer *tokenizer;
    struct generation_config recommended;
    struct cli_sampling sampling;
    struct chat_encode_options format; /* its is_thinking may be changed between turns */
    struct chat_transcript transcript;
    struct sluice_engine *engine;
    struct sluice_engine_facts facts;
    uint32_t answer_count; /* each answer has its own noise */
};

/* Loads the model; the conversation starts with --system. */
enum status chat_session_open(struct chat_session *session, const struct cli_options *options);
void chat_session_close(struct chat_session *session);

/*
 * Sends the user's message, shows the answer on stdout and a line about it on stderr, and keeps both
 * messages. An interrupt (cli/interrupt.h) stops the answer: what was said is kept. If nothing was said, or
 * on failure, the conversation is as before.
 */
enum status chat_session_send(struct chat_session *session, const char *text, size_t length);

#endif
