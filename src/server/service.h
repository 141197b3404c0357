/*
 * Who answers: an engine in this process, a worker process or several of them, or a script in a test.
 *
 * The front hands over token ids and takes tokens back; it holds no weights. Calls may come from any thread,
 * for one generation from one thread at a time (cancel excepted). Nothing here waits.
 */
#ifndef SLUICE_SERVER_SERVICE_H
#define SLUICE_SERVER_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "sluice/engine.h"
#include "sluice/request.h"

struct service;
struct generation;

/* What the tokens of an answer must be; plain data, so that it can travel to another process. */
enum service_grammar {
    SERVICE_GRAMMAR_NONE,
    SERVICE_GRAMMAR_JSON,        /* any JSON object */
    SERVICE_GRAMMAR_JSON_SCHEMA, /* text: a schema */
    SERVICE_GRAMMAR_REGEX,       /* text: a pattern that the whole answer matches */
    SERVICE_GRAMMAR_CHOICE,      /* text: a JSON array of strings */
    SERVICE_GRAMMAR_EBNF,        /* text: a grammar */
    SERVICE_GRAMMAR_TOOLS,       /* text: an object (text/grammar/tool_grammar.h) */
};

struct service_text {
    const char *bytes;
    size_t length;
};

struct service_rules {
    enum service_grammar grammar;
    struct service_text grammar_text;
    bool is_grammar_optional;         /* one that is UNSUPPORTED is left out */
    bool starts_in_reasoning;         /* the grammar holds behind the end of thinking */
    const struct service_text *stops; /* the answer ends where one of them is complete */
    size_t stop_count;
    size_t min_tokens; /* no end before as many */
    const int32_t *allowed_tokens;
    size_t allowed_token_count; /* 0: all */
    const struct service_text *bad_words;
    size_t bad_word_count;
};

/* Everything is borrowed until submit returns. */
struct service_request {
    struct sluice_request_options options; /* its constraint and notify stay empty */
    struct service_rules rules;
    /* Called on any thread when there is something to take; must only pass the word on. */
    void (*notify)(void *context);
    void *notify_context;
};

/* A token of the answer, or of the prompt. */
struct service_token {
    int32_t id;
    struct sluice_log_probability chosen;
    const struct sluice_log_probability *top; /* [top_count], likeliest first */
    size_t top_count;                         /* 0 if nothing is recorded */
};

/* What came since it was last asked. Pointers are valid until the next take or release. */
struct service_update {
    const struct service_token *tokens; /* each one is taken once, whatever restarts of workers were needed */
    size_t token_count;
    const struct service_token *prompt_tokens; /* with log-probabilities, all at once before the first token;
                                                  the first prompt token has none: its top_count is 0 */
    size_t prompt_token_count;
    struct sluice_request_state state; /* its token_count counts all tokens so far */
};

/* What those who answer are doing, summed up over all of them. */
struct service_stats {
    struct sluice_engine_stats engine;
    int worker_count;
    int ready_count;  /* workers that answer */
    int64_t restarts; /* of workers */
};

struct service_kind {
    /* As sluice_engine_submit; PEER_LOST while nobody can answer. Owned by the caller: release. */
    enum status (*submit)(struct service *service, const struct service_request *request,
                          struct generation **out);
    void (*take)(struct generation *generation, struct service_update *out);
    void (*cancel)(struct generation *generation);
    /* Gives the generation up and nulls; notify is not called any more once it has returned. */
    void (*release)(struct generation **generation);
    /*
     * False while nobody can answer; `why` then has a sentence, valid until the next call. Of an engine: for
     * ever, and seen by whoever sees the errors of its requests.
     */
    bool (*is_ready)(struct service *service, const char **why);
    struct sluice_engine_facts (*facts)(struct service *service);
    void (*stats)(struct service *service, struct service_stats *out);
    enum status (*clear_prefix_cache)(struct service *service); /* soon */
    void (*close)(struct service **service);
};

/* First member of every service; struct generation begins with a pointer to its service. */
struct service {
    const struct service_kind *kind;
};

struct generation {
    struct service *service;
};

#endif
