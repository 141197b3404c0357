/*
 * What a client makes of a chat completion, streamed or whole: one line of text, so that all ways to ask for
 * the same can be compared. Asserts.
 */
#ifndef SLUICE_TESTS_SERVER_CHAT_SUMMARY_H
#define SLUICE_TESTS_SERVER_CHAT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/string_buffer.h"
#include "server/api_fixture.h"

/* Fields of a request: a short one, and one whose answer starts with content. */
#define HI "\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"temperature\":0"
#define NO_THINKING "\"chat_template_kwargs\":{\"thinking\":false}"

/*
 * Sends one request with these fields to a service that answers with the script, `lump` tokens at a time.
 * Gives choice 0 as {reasoning}{content}name(arguments)...finish. Owned: string_buffer_deinit.
 */
struct string_buffer chat_summary(struct api_fixture *fixture, const char *fields, const char *script,
                                  bool is_streaming, size_t lump);

/* Fails unless the summary is this one, streamed and whole, one token a step and all at once. */
void assert_chat_answer(struct api_fixture *fixture, const char *fields, const char *script,
                        const char *expected);

#endif
