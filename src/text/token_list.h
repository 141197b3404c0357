/* A growing list of token ids. One thread at a time. */
#ifndef SLUICE_TEXT_TOKEN_LIST_H
#define SLUICE_TEXT_TOKEN_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct token_list {
    int32_t *ids; /* NULL before the first */
    size_t count;
    size_t capacity;
};

/* Frees the ids; a zeroed struct is an empty list. */
void token_list_deinit(struct token_list *list);

/* Makes room for `extra` more ids. */
enum status token_list_reserve(struct token_list *list, size_t extra);

enum status token_list_append(struct token_list *list, int32_t id);

#endif
