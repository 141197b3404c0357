/* How /v1/messages writes answers. */
#ifndef SLUICE_SERVER_MESSAGES_REPLY_H
#define SLUICE_SERVER_MESSAGES_REPLY_H

#include "server/answer.h"

extern const struct answer_format messages_reply_format;

/* Makes the format's state; OUT_OF_MEMORY. The format frees it. */
enum status messages_reply_prepare(struct answer *answer);

#endif
