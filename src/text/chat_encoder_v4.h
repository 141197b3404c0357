/*
 * The V4 prompt format: a conversation in, a prompt out (spec deepseek-v4 8.1 to 8.6).
 *
 * Texts equal the official encoder's to the byte. What differs is told by the segments: only the template's
 * own control tokens are control tokens (text/chat_prompt.h). Any thread; nothing is kept between calls.
 */
#ifndef SLUICE_TEXT_CHAT_ENCODER_V4_H
#define SLUICE_TEXT_CHAT_ENCODER_V4_H

#include <stdbool.h>

#include "text/chat_message.h"
#include "text/chat_prompt.h"

/* Which encoder the checkpoint came with: they map efforts to different texts. */
enum chat_release {
    CHAT_RELEASE_PREVIEW, /* April, June: only max has a text */
    CHAT_RELEASE_0731,    /* 0731, 0813: high and max have texts */
};

enum chat_effort {
    CHAT_EFFORT_LOW, /* the default: no text in any release */
    CHAT_EFFORT_HIGH,
    CHAT_EFFORT_MAX,
};

struct chat_encode_options {
    bool is_thinking;
    bool is_reasoning_dropped; /* leave out reasoning before the last user turn, unless there are tools */
    enum chat_effort effort;   /* without effect unless thinking */
    enum chat_release release;
};

/* Thinking on, old reasoning dropped, low effort, release 0731. */
struct chat_encode_options chat_encode_options_default(void);

/*
 * Maps an API's reasoning_effort: "none" turns thinking off, minimal/low/medium mean low, high/xhigh mean
 * high, max means max. False, and nothing is changed, for any other word.
 */
bool chat_encode_options_set_effort(struct chat_encode_options *options, const char *effort);

/*
 * Appends the prompt of the conversation to `prompt` (zeroed or empty). The conversation must outlive the
 * call only.
 */
enum status chat_encode_v4(const struct chat_conversation *conversation,
                           const struct chat_encode_options *options, struct chat_prompt *prompt);

#endif
