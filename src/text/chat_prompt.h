/*
 * A rendered prompt: alternating runs of plain bytes and single control tokens.
 *
 * The official encoder makes one string and matches control tokens anywhere in it, so that a user can type
 * a fake turn. Here only the template emits control tokens; what a message holds stays plain, whatever it
 * spells. Neighbouring plain bytes are one run, so the tokenizer splits it as it would split the official
 * string. Appending never reports; chat_prompt_check does. One thread at a time.
 */
#ifndef SLUICE_TEXT_CHAT_PROMPT_H
#define SLUICE_TEXT_CHAT_PROMPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "base/string_buffer.h"
#include "text/control_token.h"

struct token_list;
struct tokenizer;

struct chat_segment {
    size_t start, length;       /* bytes of the prompt's text; length > 0 */
    enum control_token control; /* CONTROL_TOKEN_NONE: plain bytes */
};

struct chat_prompt {
    struct string_buffer text; /* the whole prompt as the official encoder spells it */
    struct chat_segment *segments;
    size_t segment_count, segment_capacity;
    bool is_failed;
};

/* Frees everything; a zeroed struct is an empty prompt. */
void chat_prompt_deinit(struct chat_prompt *prompt);

/* Content: no byte of it becomes a control token. */
void chat_prompt_append_plain(struct chat_prompt *prompt, const char *bytes, size_t length);

void chat_prompt_append_control(struct chat_prompt *prompt, enum control_token control);

/* Text written by the template itself: control tokens spelled in it are control tokens. */
void chat_prompt_append_template(struct chat_prompt *prompt, const char *text);

/* Whether what the model writes next is reasoning: the prompt's last turn has an open thinking mark. */
bool chat_prompt_is_reasoning_open(const struct chat_prompt *prompt);

/* OUT_OF_MEMORY if any append failed. */
enum status chat_prompt_check(const struct chat_prompt *prompt);

enum chat_matching {
    CHAT_MATCHING_TEMPLATE_ONLY, /* control tokens come from control segments only */
    CHAT_MATCHING_OFFICIAL,      /* every added token spelled anywhere in the text is matched */
};

/*
 * Appends the prompt's token ids to `out`. UNSUPPORTED if the tokenizer lacks a control token that the
 * prompt needs.
 */
enum status chat_prompt_encode(const struct chat_prompt *prompt, const struct tokenizer *tokenizer,
                               enum chat_matching matching, struct token_list *out);

#endif
