/* Rendering, turn by turn in order (spec deepseek-v4 8.2), and the effort texts (8.6). */
#include "text/chat_encoder_v4.h"

#include <string.h>

#include "base/arena.h"
#include "text/chat_tools_v4.h"
#include "text/chat_turns_v4.h"

enum { ENCODER_ARENA_BLOCK_BYTES = 16384 };

static const char effort_maximum[] =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the "
    "root "
    "cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial "
    "scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";

static const char effort_beyond_maximum[] =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
    "decompose the problem into its most fundamental components, trace every causal chain to its root, and "
    "resolve the underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
    "certain that no assumption remains unchecked and no error remains undiscovered.\n\n";

static const char response_format_head[] = "\n\n## Response Format:\n\nYou MUST strictly adhere to the "
                                           "following schema to reply:\n";

struct chat_encode_options chat_encode_options_default(void) {
    return (struct chat_encode_options){.is_thinking = true,
                                        .is_reasoning_dropped = true,
                                        .effort = CHAT_EFFORT_LOW,
                                        .release = CHAT_RELEASE_0731};
}

bool chat_encode_options_set_effort(struct chat_encode_options *options, const char *effort) {
    static const struct {
        const char *name;
        bool is_thinking;
        enum chat_effort effort;
    } rows[] = {
        {"none", false, CHAT_EFFORT_HIGH}, {"minimal", true, CHAT_EFFORT_LOW},
        {"low", true, CHAT_EFFORT_LOW},    {"medium", true, CHAT_EFFORT_LOW},
        {"high", true, CHAT_EFFORT_HIGH},  {"xhigh", true, CHAT_EFFORT_HIGH},
        {"max", true, CHAT_EFFORT_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(effort, rows[i].name) == 0) {
            options->is_thinking = rows[i].is_thinking;
            options->effort = rows[i].is_thinking ? rows[i].effort : options->effort;
            return true;
        }
    }
    return false;
}

static const char *effort_text(const struct chat_encode_options *options) {
    static const char *const texts[][3] = {
        [CHAT_RELEASE_PREVIEW] = {"", "", effort_maximum},
        [CHAT_RELEASE_0731] = {"", effort_maximum, effort_beyond_maximum},
    };
    return options->is_thinking ? texts[options->release][options->effort] : "";
}

static void append_text(struct chat_prompt *prompt, const struct chat_text *text) {
    chat_prompt_append_plain(prompt, text->bytes, text->length);
}

static void append_tools_and_format(struct chat_prompt *prompt, const struct chat_message *message) {
    if (message->tool_count > 0) {
        chat_prompt_append_template(prompt, "\n\n");
        chat_tools_append_schemas(prompt, message->tools, message->tool_count);
    }
    if (message->has_response_format) {
        chat_prompt_append_template(prompt, response_format_head);
        append_text(prompt, &message->response_format);
    }
}

static void append_blocks(struct chat_prompt *prompt, const struct chat_turn *turn) {
    for (size_t i = 0; i < turn->block_count; i++) {
        const struct chat_block *block = &turn->blocks[i];
        chat_prompt_append_template(prompt, i > 0 ? "\n\n" : "");
        chat_prompt_append_template(prompt, block->is_tool_result ? "<tool_result>" : "");
        append_text(prompt, &block->text);
        chat_prompt_append_template(prompt, block->is_tool_result ? "</tool_result>" : "");
    }
}

static enum status append_assistant(struct chat_prompt *prompt, const struct chat_turns *turns, size_t index,
                                    bool is_thinking) {
    const struct chat_message *message = turns->items[index].message;
    bool follows_task = index > 0 && turns->items[index - 1].task != CONTROL_TOKEN_NONE;
    bool is_kept = index >= turns->reasoning_start;
    if (is_thinking && !follows_task && is_kept) {
        append_text(prompt, &message->reasoning);
        chat_prompt_append_control(prompt, CONTROL_TOKEN_THINK_END);
    }
    append_text(prompt, &message->content);
    if (message->tool_call_count > 0) {
        TRY(chat_tools_append_calls(prompt, message->tool_calls, message->tool_call_count));
    }
    if (!message->is_without_eos) {
        chat_prompt_append_control(prompt, CONTROL_TOKEN_EOS);
    }
    return STATUS_OK;
}

static enum status append_turn(struct chat_prompt *prompt, const struct chat_turns *turns, size_t index,
                               bool is_thinking) {
    const struct chat_turn *turn = &turns->items[index];
    switch (turn->role) {
    case CHAT_ROLE_USER:
        chat_prompt_append_control(prompt, CONTROL_TOKEN_USER);
        append_blocks(prompt, turn);
        break;
    case CHAT_ROLE_DEVELOPER:
        chat_prompt_append_control(prompt, CONTROL_TOKEN_USER);
        append_text(prompt, &turn->message->content);
        append_tools_and_format(prompt, turn->message);
        break;
    case CHAT_ROLE_LATEST_REMINDER:
        chat_prompt_append_control(prompt, CONTROL_TOKEN_LATEST_REMINDER);
        append_text(prompt, &turn->message->content);
        break;
    case CHAT_ROLE_ASSISTANT:
        TRY(append_assistant(prompt, turns, index, is_thinking));
        break;
    default: /* system: no token marks it, wherever it stands */
        append_text(prompt, &turn->message->content);
        append_tools_and_format(prompt, turn->message);
        break;
    }
    return STATUS_OK;
}

/* What stands between a turn and the assistant's turn after it, or at the end of the prompt. */
static void append_transition(struct chat_prompt *prompt, const struct chat_turns *turns, size_t index,
                              bool is_thinking) {
    const struct chat_turn *turn = &turns->items[index];
    if (index + 1 < turns->count) {
        enum chat_role next_role = turns->items[index + 1].role;
        if (next_role != CHAT_ROLE_ASSISTANT && next_role != CHAT_ROLE_LATEST_REMINDER) {
            return;
        }
    }
    if (turn->task != CONTROL_TOKEN_NONE && turn->task != CONTROL_TOKEN_ACTION) {
        chat_prompt_append_control(prompt, turn->task);
        return;
    }
    if (turn->task == CONTROL_TOKEN_ACTION) {
        chat_prompt_append_control(prompt, CONTROL_TOKEN_ASSISTANT);
        chat_prompt_append_control(prompt, is_thinking ? CONTROL_TOKEN_THINK_START : CONTROL_TOKEN_THINK_END);
        chat_prompt_append_control(prompt, CONTROL_TOKEN_ACTION);
    } else if (turn->role == CHAT_ROLE_USER || turn->role == CHAT_ROLE_DEVELOPER) {
        bool starts_thinking = is_thinking && index + 1 >= turns->reasoning_start;
        chat_prompt_append_control(prompt, CONTROL_TOKEN_ASSISTANT);
        chat_prompt_append_control(prompt,
                                   starts_thinking ? CONTROL_TOKEN_THINK_START : CONTROL_TOKEN_THINK_END);
    }
}

enum status chat_encode_v4(const struct chat_conversation *conversation,
                           const struct chat_encode_options *options, struct chat_prompt *prompt) {
    struct arena arena;
    arena_init(&arena, ENCODER_ARENA_BLOCK_BYTES);
    enum status status = STATUS_OK;
    struct chat_turns turns;
    TRY_GOTO(
        chat_turns_build(conversation, options->is_thinking, options->is_reasoning_dropped, &arena, &turns));
    chat_prompt_append_control(prompt, CONTROL_TOKEN_BOS);
    chat_prompt_append_template(prompt, effort_text(options));
    for (size_t i = 0; i < turns.count; i++) {
        TRY_GOTO(append_turn(prompt, &turns, i, options->is_thinking));
        append_transition(prompt, &turns, i, options->is_thinking);
    }
    TRY_GOTO(chat_prompt_check(prompt));
fail:
    arena_deinit(&arena);
    return status;
}
