/*
 * A program for test scripts: compiles grammars and says which texts they accept.
 *
 * Each line of the input is a JSON object {"kind", "text", "instances": [...]}; each line of the output is
 * {"accepted": [...]} or {"error": "..."}. The tag token of tool calls counts by its text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/json.h"
#include "text/grammar/grammar_automaton.h"
#include "text/grammar/grammar_source.h"

static enum grammar_kind kind_of(const char *name) {
    static const struct {
        const char *name;
        enum grammar_kind kind;
    } kinds[] = {{"json_object", GRAMMAR_JSON_OBJECT},
                 {"json_schema", GRAMMAR_JSON_SCHEMA},
                 {"regex", GRAMMAR_REGEX},
                 {"choice", GRAMMAR_CHOICE},
                 {"ebnf", GRAMMAR_EBNF},
                 {"tools", GRAMMAR_TOOLS}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return kinds[i].kind;
        }
    }
    return GRAMMAR_NONE;
}

static bool is_accepted(struct grammar_automaton *automaton, const char *text, size_t length) {
    uint32_t set = grammar_automaton_start(automaton);
    for (size_t i = 0; i < length && set != GRAMMAR_SET_DEAD;) {
        if (control_token_at(text + i, length - i) == CONTROL_TOKEN_DSML) {
            set = grammar_automaton_step(automaton, set, GRAMMAR_BYTES + CONTROL_TOKEN_DSML);
            i += control_token_length(CONTROL_TOKEN_DSML);
        } else {
            set = grammar_automaton_step(automaton, set, (unsigned char)text[i++]);
        }
    }
    return set != GRAMMAR_SET_DEAD && grammar_automaton_may_end(automaton, set);
}

/* The answer to one line. */
static enum status probe(const struct json *question, struct json *answer) {
    struct grammar *grammar = NULL;
    struct grammar_automaton *automaton = NULL;
    const char *kind = json_text(json_get(question, "kind"), NULL);
    struct grammar_source source = {.kind = kind_of(kind)};
    source.text = json_text(json_get(question, "text"), &source.length);
    TRY(grammar_source_compile(&source, &grammar));
    enum status status = grammar_automaton_create(grammar, NULL, 1 << 26, &automaton);
    struct json *accepted = json_new_array();
    const struct json *instances = json_get(question, "instances");
    for (size_t i = 0; i < json_length(instances) && status == STATUS_OK; i++) {
        size_t length;
        const char *text = json_text(json_at(instances, i), &length);
        json_append(accepted, json_new_bool(is_accepted(automaton, text, length)));
    }
    json_set(answer, "accepted", accepted);
    grammar_automaton_destroy(&automaton);
    grammar_destroy(&grammar);
    return status;
}

static enum status answer_line(const char *line, size_t length) {
    enum status status = STATUS_OK;
    struct json *question = NULL;
    struct json *answer = json_new_object();
    struct string_buffer text = {0};
    TRY_GOTO(json_parse(line, length, "the line", &question));
    if (probe(question, answer) != STATUS_OK) {
        const char *message = error_last()->message;
        json_set(answer, "error", json_new_string(message, strlen(message)));
    }
    TRY_GOTO(json_write(answer, &text));
    printf("%s\n", string_buffer_text(&text));
fail:
    json_free(&question);
    json_free(&answer);
    string_buffer_deinit(&text);
    return status;
}

int main(void) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (length = getline(&line, &capacity, stdin)) > 0) {
        status = answer_line(line, (size_t)length);
    }
    free(line);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", error_last()->message);
    }
    return status == STATUS_OK ? 0 : 1;
}
