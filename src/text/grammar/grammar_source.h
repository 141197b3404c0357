/*
 * What a request asks its answer to be, in any of the forms that clients know, and the grammar of it.
 */
#ifndef SLUICE_TEXT_GRAMMAR_GRAMMAR_SOURCE_H
#define SLUICE_TEXT_GRAMMAR_GRAMMAR_SOURCE_H

#include <stddef.h>

#include "text/grammar/grammar.h"

enum grammar_kind {
    GRAMMAR_NONE,
    GRAMMAR_JSON_OBJECT, /* any JSON object; no text */
    GRAMMAR_JSON_SCHEMA, /* a schema as JSON (json_schema.h) */
    GRAMMAR_REGEX,       /* the whole answer matches (pattern.h) */
    GRAMMAR_CHOICE,      /* a JSON array of strings: one of them */
    GRAMMAR_EBNF,        /* rules (ebnf.h) */
    GRAMMAR_TOOLS,       /* a JSON object: free text or tool calls (tool_grammar.h) */
};

struct grammar_source {
    enum grammar_kind kind;
    const char *text;
    size_t length;
    uint64_t work_limit; /* units of compile_work.h; 0: GRAMMAR_WORK_MAX */
};

enum {
    GRAMMAR_WORK_MAX = 250000000, /* some two seconds; what takes more is refused */
    GRAMMAR_WORK_SMALL = 5000000, /* some 50 ms, in which nearly all grammars of requests are compiled */
};

/* UNSUPPORTED and BAD_FORMAT say in one sentence what is wrong and where. Owned: grammar_destroy. */
enum status grammar_source_compile(const struct grammar_source *source, struct grammar **out);

/* Whether the last compilation of this thread failed because its limit of work was crossed. */
bool grammar_source_is_cut_short(void);

#endif
