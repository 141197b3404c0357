#include "text/grammar_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

const struct grammar_example grammar_examples[] = {
    {GRAMMAR_JSON_OBJECT, ""},
    {GRAMMAR_JSON_SCHEMA, "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, "
                          "\"age\": {\"type\": \"integer\", "
                          "\"minimum\": 0, \"maximum\": 150}, \"tags\": {\"type\": \"array\", \"items\": "
                          "{\"enum\": [\"red\", \"green\", "
                          "\"gr\\u00fcn\"]}, \"maxItems\": 3}}, \"required\": [\"age\"]}"},
    {GRAMMAR_JSON_SCHEMA, "{\"$defs\": {\"n\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": "
                          "\"string\", \"maxLength\": 5}, "
                          "\"next\": {\"anyOf\": [{\"$ref\": \"#/$defs/n\"}, {\"type\": \"null\"}]}}, "
                          "\"required\": [\"v\", \"next\"], "
                          "\"additionalProperties\": false}}, \"$ref\": \"#/$defs/n\"}"},
    {GRAMMAR_JSON_SCHEMA,
     "{\"type\": \"string\", \"pattern\": \"^[a-z\\u00e9]+ [^x]*$\", \"maxLength\": 30}"},
    {GRAMMAR_JSON_SCHEMA, "{\"type\": \"array\", \"items\": {\"type\": [\"number\", \"null\"]}}"},
    {GRAMMAR_REGEX, "(yes|no|maybe)(, (because|since) [^.!?]{3,40}[.!?])?"},
    {GRAMMAR_CHOICE, "[\"red\", \"green\", \"greenish\", \"\\ud83d\\ude00\"]"},
    {GRAMMAR_EBNF,
     "root ::= sum\nsum ::= item ((\"+\" | \"-\") item)*\nitem ::= [0-9]+ | \"(\" sum \")\" | word\n"
     "word ::= letter+\nletter ::= [a-z]"},
    {GRAMMAR_EBNF, "root ::= long | long root\nlong ::= .  . (\"x\" | root)"},
    {GRAMMAR_TOOLS, "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
                    "\"parameters\": {\"type\": "
                    "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": "
                    "\"integer\"}, \"unit\": "
                    "{\"enum\": [\"c\", \"f\"]}}, \"required\": [\"city\"]}}}, {\"name\": \"stop\"}]}"},
};
const size_t grammar_example_count = sizeof grammar_examples / sizeof *grammar_examples;

struct grammar_source grammar_source_of(enum grammar_kind kind, const char *text) {
    return (struct grammar_source){.kind = kind, .text = text, .length = strlen(text)};
}

struct grammar *compile_grammar(enum grammar_kind kind, const char *text) {
    struct grammar_source source = grammar_source_of(kind, text);
    struct grammar *grammar;
    if (grammar_source_compile(&source, &grammar) != STATUS_OK) {
        fail_msg("%.200s: %s", text, error_last()->message);
    }
    return grammar;
}

void assert_grammar_refused(enum grammar_kind kind, const char *text, const char *part) {
    struct grammar_source source = grammar_source_of(kind, text);
    struct grammar *grammar;
    if (grammar_source_compile(&source, &grammar) == STATUS_OK) {
        fail_msg("%.200s is not refused", text);
    }
    if (strstr(error_last()->message, part) == NULL) {
        fail_msg("%.200s is refused with <%s>, not <%s>", text, error_last()->message, part);
    }
}

struct token_vocabulary *make_vocabulary(const struct tokenizer *tokenizer) {
    struct token_vocabulary *vocabulary;
    assert_int_equal(token_vocabulary_create(tokenizer, INT32_MAX, &vocabulary), STATUS_OK);
    return vocabulary;
}

bool mask_has(const uint32_t *mask, int32_t token) {
    return (mask[token / 32] >> token % 32 & 1) != 0;
}

uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

int32_t pick_token(const uint32_t *mask, int32_t token_count, uint64_t *random_state) {
    uint64_t count = 0;
    for (int32_t token = 0; token < token_count; token++) {
        count += mask_has(mask, token);
    }
    if (count == 0) {
        return -1;
    }
    uint64_t wanted = next_random(random_state) % count;
    int32_t token = 0;
    for (;; token++) {
        if (mask_has(mask, token) && wanted-- == 0) {
            return token;
        }
    }
}
