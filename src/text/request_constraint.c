/*
 * Where the answer stands is a place: thinking or not, and a set of the grammar's automaton. Questions about
 * drafts move a copy of it. Sets may be forgotten between two calls (grammar_automaton.h): then the tokens of
 * the answer, which are kept, are read again.
 */
#include "text/request_constraint.h"

#include <string.h>

#include "text/request_constraint_internal.h"

/* The tokens before a question: accepted ones, then drafts. */
struct history {
    const struct token_list *accepted;
    const int32_t *drafts;
    size_t draft_count;
};

static size_t history_count(const struct history *history) {
    return history->accepted->count + history->draft_count;
}

static int32_t history_at(const struct history *history, size_t index) {
    size_t accepted = history->accepted->count;
    return index < accepted ? history->accepted->ids[index] : history->drafts[index - accepted];
}

static bool contains(const int32_t *tokens, size_t count, int32_t token) {
    for (size_t i = 0; i < count; i++) {
        if (tokens[i] == token) {
            return true;
        }
    }
    return false;
}

static bool is_end_token(const struct request_constraint *constraint, int32_t token) {
    return contains(constraint->options.end_tokens, constraint->options.end_token_count, token);
}

static bool is_before_minimum(const struct request_constraint *constraint, size_t token_count) {
    return (int64_t)token_count < constraint->options.minimum_tokens;
}

static int32_t think_end(const struct request_constraint *constraint) {
    return constraint->vocabulary->control_ids[CONTROL_TOKEN_THINK_END];
}

/* The set behind a token, which may be dead. */
static uint32_t read_token(const struct request_constraint *constraint, struct grammar_automaton *automaton,
                           uint32_t set, int32_t token) {
    size_t length;
    const char *bytes = token_vocabulary_text(constraint->vocabulary, token, &length);
    if (bytes != NULL) {
        return grammar_automaton_read(automaton, set, bytes, length);
    }
    enum control_token control = token_vocabulary_control(constraint->vocabulary, token);
    return control == CONTROL_TOKEN_NONE || set == GRAMMAR_SET_DEAD
               ? GRAMMAR_SET_DEAD
               : grammar_automaton_step(automaton, set, GRAMMAR_BYTES + (uint32_t)control);
}

static void move_place(const struct request_constraint *constraint, struct grammar_automaton *automaton,
                       struct constraint_place *place, int32_t token) {
    if (!place->is_thinking) {
        place->set = automaton == NULL ? place->set : read_token(constraint, automaton, place->set, token);
    } else if (token == think_end(constraint)) {
        place->is_thinking = false;
        place->set = automaton == NULL ? place->set : grammar_automaton_start(automaton);
    }
}

/* Locks the grammar, if there is one, and makes sure that the place means something. */
static struct grammar_automaton *begin(struct request_constraint *constraint) {
    if (constraint->grammar == NULL) {
        return NULL;
    }
    struct grammar_automaton *automaton = grammar_lock(constraint->grammar);
    if (constraint->epoch != automaton->epoch) {
        constraint->epoch = automaton->epoch;
        if (!constraint->place.is_thinking) {
            constraint->place.set = grammar_automaton_start(automaton);
        }
        for (size_t i = constraint->answer_start;
             i < constraint->tokens.count && !constraint->place.is_thinking; i++) {
            constraint->place.set =
                read_token(constraint, automaton, constraint->place.set, constraint->tokens.ids[i]);
        }
    }
    return automaton;
}

static void end(struct request_constraint *constraint) {
    if (constraint->grammar != NULL) {
        grammar_unlock(constraint->grammar);
    }
}

/* Whether the token would complete a word that must not come. */
static bool completes_word(const struct token_sequence *word, const struct history *history, int32_t token) {
    size_t before = word->count - 1;
    size_t count = history_count(history);
    if (word->tokens[before] != token || before > count) {
        return false;
    }
    for (size_t i = 0; i < before; i++) {
        if (history_at(history, count - before + i) != word->tokens[i]) {
            return false;
        }
    }
    return true;
}

/* What a mask is filled from: the grammar, or the thinking before it. Returns whether it was filled at all.
 */
static bool fill_from_grammar(const struct request_constraint *constraint,
                              struct grammar_automaton *automaton, const struct constraint_place *place,
                              uint32_t *mask, bool *may_end) {
    const struct token_vocabulary *vocabulary = constraint->vocabulary;
    *may_end = true;
    if (automaton == NULL) {
        return false;
    }
    if (place->is_thinking) {
        memcpy(mask, vocabulary->text_words, vocabulary->word_count * sizeof *mask);
        mask[think_end(constraint) / 32] |= UINT32_C(1) << think_end(constraint) % 32;
        *may_end = constraint->accepts_empty;
        return true;
    }
    const struct token_set *tokens = grammar_automaton_tokens(automaton, place->set);
    for (uint32_t i = 0; tokens != NULL && i < tokens->count; i++) {
        if (tokens->is_mask) {
            mask[i] = tokens->values[i];
        } else {
            mask[tokens->values[i] / 32] |= UINT32_C(1) << tokens->values[i] % 32;
        }
    }
    *may_end = grammar_automaton_may_end(automaton, place->set);
    return true;
}

static void set_bit(uint32_t *mask, int32_t token, bool is_set) {
    uint32_t bit = UINT32_C(1) << token % 32;
    mask[token / 32] = is_set ? mask[token / 32] | bit : mask[token / 32] & ~bit;
}

static bool is_empty(const uint32_t *mask, uint32_t word_count) {
    for (uint32_t i = 0; i < word_count; i++) {
        if (mask[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Sets the end tokens as grammar and minimum say. */
static void set_end_tokens(const struct request_constraint *constraint, const struct history *history,
                           bool may_end, uint32_t *mask) {
    const struct request_constraint_options *options = &constraint->options;
    for (size_t i = 0; i < options->end_token_count; i++) {
        set_bit(mask, options->end_tokens[i], false);
    }
    bool is_too_early = is_before_minimum(constraint, history_count(history)) &&
                        !is_empty(mask, constraint->vocabulary->word_count);
    for (size_t i = 0; i < options->end_token_count; i++) {
        set_bit(mask, options->end_tokens[i], may_end && !is_too_early);
    }
}

/* Whether rules beside the grammar say something at this point. */
static bool has_other_rules(const struct request_constraint *constraint, const struct history *history) {
    const struct request_constraint_options *options = &constraint->options;
    bool has_rules = constraint->allowed_words != NULL || options->banned_token_count > 0 ||
                     (options->end_token_count > 0 && is_before_minimum(constraint, history_count(history)));
    for (size_t i = 0; i < options->bad_word_count && !has_rules; i++) {
        const struct token_sequence *word = &options->bad_words[i];
        has_rules = completes_word(word, history, word->tokens[word->count - 1]);
    }
    return has_rules;
}

/* The mask at a place; false, and nothing filled, if everything is allowed. */
static bool fill_mask(const struct request_constraint *constraint, struct grammar_automaton *automaton,
                      const struct constraint_place *place, const struct history *history, uint32_t *mask) {
    const struct request_constraint_options *options = &constraint->options;
    bool may_end;
    bool is_filled = fill_from_grammar(constraint, automaton, place, mask, &may_end);
    if (!is_filled && !has_other_rules(constraint, history)) {
        return false;
    }
    for (int32_t token = 0; token < constraint->vocabulary->token_count && !is_filled; token++) {
        set_bit(mask, token, true);
    }
    set_end_tokens(constraint, history, may_end, mask);
    for (uint32_t i = 0; i < constraint->vocabulary->word_count && constraint->allowed_words != NULL; i++) {
        mask[i] &= constraint->allowed_words[i];
    }
    for (size_t i = 0; i < options->banned_token_count; i++) {
        set_bit(mask, options->banned_tokens[i], false);
    }
    for (size_t i = 0; i < options->bad_word_count; i++) {
        const struct token_sequence *word = &options->bad_words[i];
        int32_t last = word->tokens[word->count - 1];
        if (completes_word(word, history, last)) {
            set_bit(mask, last, false);
        }
    }
    return true;
}

/* Whether a request without end tokens is over, because its grammar can only end. */
static bool is_over_at(const struct request_constraint *constraint, const struct grammar_automaton *automaton,
                       const struct constraint_place *place) {
    return automaton != NULL && constraint->options.end_token_count == 0 && !place->is_thinking &&
           grammar_automaton_must_end(automaton, place->set);
}

static bool allow(void *context, const int32_t *drafts, size_t draft_count, uint32_t *mask) {
    struct request_constraint *constraint = context;
    struct grammar_automaton *automaton = begin(constraint);
    struct constraint_place place = constraint->place;
    struct history history = {&constraint->tokens, drafts, draft_count};
    bool is_over = false;
    for (size_t i = 0; i < draft_count && !is_over; i++) {
        move_place(constraint, automaton, &place, drafts[i]);
        is_over = is_end_token(constraint, drafts[i]) || is_over_at(constraint, automaton, &place);
    }
    /* Nothing follows drafts that end the request, but the engine asks, and no token at all would be an
     * error. */
    bool is_filled = !is_over && fill_mask(constraint, automaton, &place, &history, mask);
    end(constraint);
    return is_filled;
}

/* Whether the grammar allows the token at the place. */
static bool is_in_grammar(const struct request_constraint *constraint, struct grammar_automaton *automaton,
                          const struct constraint_place *place, int32_t token) {
    if (automaton == NULL) {
        return true;
    }
    if (is_end_token(constraint, token)) {
        return place->is_thinking ? constraint->accepts_empty
                                  : grammar_automaton_may_end(automaton, place->set);
    }
    if (place->is_thinking) {
        size_t length;
        return token == think_end(constraint) ||
               token_vocabulary_text(constraint->vocabulary, token, &length) != NULL;
    }
    return read_token(constraint, automaton, place->set, token) != GRAMMAR_SET_DEAD;
}

/* The same by all other rules. */
static bool is_allowed_otherwise(const struct request_constraint *constraint,
                                 const struct grammar_automaton *automaton,
                                 const struct constraint_place *place, const struct history *history,
                                 int32_t token) {
    const struct request_constraint_options *options = &constraint->options;
    const uint32_t *allowed = constraint->allowed_words;
    if (token < 0 || token >= constraint->vocabulary->token_count ||
        (allowed != NULL && (allowed[token / 32] >> token % 32 & 1) == 0) ||
        contains(options->banned_tokens, options->banned_token_count, token)) {
        return false;
    }
    for (size_t i = 0; i < options->bad_word_count; i++) {
        if (completes_word(&options->bad_words[i], history, token)) {
            return false;
        }
    }
    bool must_end =
        automaton != NULL && !place->is_thinking && grammar_automaton_must_end(automaton, place->set);
    return must_end || !is_end_token(constraint, token) ||
           !is_before_minimum(constraint, history_count(history));
}

static size_t count_allowed(void *context, const int32_t *drafts, size_t draft_count) {
    struct request_constraint *constraint = context;
    struct grammar_automaton *automaton = begin(constraint);
    struct constraint_place place = constraint->place;
    size_t count = 0;
    bool is_over = false;
    while (count < draft_count && !is_over) {
        struct history history = {&constraint->tokens, drafts, count};
        int32_t token = drafts[count];
        if (!is_in_grammar(constraint, automaton, &place, token) ||
            !is_allowed_otherwise(constraint, automaton, &place, &history, token)) {
            break;
        }
        move_place(constraint, automaton, &place, token);
        is_over = is_end_token(constraint, token) || is_over_at(constraint, automaton, &place);
        count++;
    }
    end(constraint);
    return count;
}

/* Looks for stop strings in the token's text. */
static bool is_stopped_by(struct request_constraint *constraint, bool was_thinking, int32_t token) {
    size_t length;
    const char *bytes = token_vocabulary_text(constraint->vocabulary, token, &length);
    bool is_early = (int64_t)constraint->tokens.count <= constraint->options.minimum_tokens &&
                    constraint->options.minimum_tokens > 0;
    if (constraint->options.stop_string_count > 0 && !was_thinking && bytes != NULL && !is_early) {
        stop_text_push(&constraint->stop, bytes, length, NULL);
    }
    return constraint->stop.is_stopped;
}

static bool accept(void *context, int32_t token) {
    struct request_constraint *constraint = context;
    struct grammar_automaton *automaton = begin(constraint);
    bool was_thinking = constraint->place.is_thinking;
    move_place(constraint, automaton, &constraint->place, token);
    bool is_over = is_over_at(constraint, automaton, &constraint->place);
    end(constraint);
    /* Without the token nothing that follows could be judged. */
    constraint->is_out_of_memory =
        constraint->is_out_of_memory || token_list_append(&constraint->tokens, token) != STATUS_OK;
    if (was_thinking) {
        constraint->answer_start = constraint->tokens.count;
    }
    return is_stopped_by(constraint, was_thinking, token) || is_over || constraint->is_out_of_memory;
}

struct sluice_constraint request_constraint_interface(struct request_constraint *constraint) {
    return (struct sluice_constraint){
        .count_allowed = count_allowed, .allow = allow, .accept = accept, .context = constraint};
}

const struct stop_string *request_constraint_stop(const struct request_constraint *constraint) {
    return constraint->stop.is_stopped ? &constraint->options.stop_strings[constraint->stop.stopped_by]
                                       : NULL;
}
