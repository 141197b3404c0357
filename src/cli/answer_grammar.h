/*
 * What an answer must be, by the options --json-schema, --regex, --grammar, --choice and --tool-choice.
 */
#ifndef SLUICE_CLI_ANSWER_GRAMMAR_H
#define SLUICE_CLI_ANSWER_GRAMMAR_H

#include "cli/option_table.h"
#include "lib/json.h"
#include "sluice/request.h"
#include "text/request_constraint.h"

struct answer_grammar {
    enum grammar_kind kind; /* GRAMMAR_NONE: anything */
    struct string_buffer text;
    struct token_vocabulary *vocabulary;
    struct grammar_cache *cache;
    struct request_constraint *constraint;
};

/* Reads files and checks that one of the options was given at most. */
enum status answer_grammar_read(struct answer_grammar *grammar, const struct cli_options *options);

/* The grammar of calls of these tools, as --tool-choice says; nothing without it. */
enum status answer_grammar_read_tools(struct answer_grammar *grammar, const struct cli_options *options,
                                      const struct json *tools);

void answer_grammar_deinit(struct answer_grammar *grammar);

/*
 * Compiles it for a model and has the request obey it; borrows the grammar until the request is finished.
 * Nothing without a grammar.
 */
enum status answer_grammar_apply(struct answer_grammar *grammar, const struct tokenizer *tokenizer,
                                 int64_t vocabulary_size, bool starts_in_reasoning,
                                 struct sluice_request_options *request);

#endif
