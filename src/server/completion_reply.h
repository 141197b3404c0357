/* How /v1/completions writes answers. */
#ifndef SLUICE_SERVER_COMPLETION_REPLY_H
#define SLUICE_SERVER_COMPLETION_REPLY_H

#include "server/answer.h"

extern const struct answer_format completion_reply_format;

#endif
