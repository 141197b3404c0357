/* How /v1/chat/completions writes answers. */
#ifndef SLUICE_SERVER_CHAT_REPLY_H
#define SLUICE_SERVER_CHAT_REPLY_H

#include "server/answer.h"

extern const struct answer_format chat_reply_format;

#endif
