/* What the chat tests share: from the JSON of a request to a rendered prompt, failing the test on errors. */
#ifndef SLUICE_TESTS_SUPPORT_CHAT_FIXTURE_H
#define SLUICE_TESTS_SUPPORT_CHAT_FIXTURE_H

#include <stddef.h>

#include "text/chat_encoder_v4.h"

/* Short names of the control tokens, for expected prompts. */
#define BOS "<｜begin▁of▁sentence｜>"
#define EOS "<｜end▁of▁sentence｜>"
#define USER "<｜User｜>"
#define ASSISTANT "<｜Assistant｜>"
#define DSML "｜DSML｜"

/* Renders {"messages": [...], "tools": [...]}. Owned: chat_prompt_deinit. */
struct chat_prompt render_request(const char *request, const struct chat_encode_options *options);

/* Fails the test if the prompt of the request differs. */
void assert_prompt(const char *request, bool is_thinking, const char *expected);

/* The parser's status for a request; the error text is in error_last(). */
enum status parse_request_status(const char *request);

/* The bytes of tests/golden/chat/NAME, NUL-terminated. Owned: free. */
char *read_chat_golden(const char *name);

#endif
