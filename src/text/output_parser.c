/*
 * A state machine over characters and control tokens: since it never looks at more than one of them, the
 * result cannot depend on how the input was split. Four levels (text, block, invoke, value) say where a
 * character goes; a tag is read between them and then changes the level.
 */
#include "text/output_parser.h"

#include <string.h>

#include "text/dsml_strict.h"
#include "text/tokenizer.h"

/* Longer names or attributes are no tag that a model means. */
enum { TAG_BYTES_MAX = 4096 };

static const char notice_disabled[] =
    "[The model tried to call a tool, but no tools are enabled for this request.]";
static const char notice_damaged[] = "[The model's tool call was damaged or cut off and has been dropped.]";

struct output_parser_options output_parser_options_default(void) {
    struct output_parser_options options = {.are_tools_enabled = true};
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        options.control_ids[i] = -1;
    }
    return options;
}

void output_parser_options_set_ids(struct output_parser_options *options, const struct tokenizer *tokenizer) {
    for (int i = 0; i < CONTROL_TOKEN_COUNT; i++) {
        options->control_ids[i] =
            tokenizer_added_token_id(tokenizer, control_token_text((enum control_token)i));
    }
}

void output_parser_init(struct output_parser *parser, const struct output_parser_options *options) {
    *parser = (struct output_parser){.options = *options, .is_reasoning = options->starts_in_reasoning};
    output_lexer_init(&parser->lexer, options->control_ids);
    output_calls_init(&parser->calls, options->are_tools_enabled, options->call_id_seed);
}

void output_parser_deinit(struct output_parser *parser) {
    output_writer_deinit(&parser->writer);
    output_calls_deinit(&parser->calls);
    string_buffer_deinit(&parser->tag.text);
    string_buffer_deinit(&parser->gap);
    string_buffer_deinit(&parser->transcript);
}

bool output_parser_is_stopped(const struct output_parser *parser) {
    return parser->is_stopped;
}

static bool is_blank_character(const char *bytes, size_t length) {
    return length == 1 && (*bytes == ' ' || *bytes == '\n' || *bytes == '\t' || *bytes == '\r');
}

static enum status append_section(struct output_parser *parser, const char *bytes, size_t length) {
    enum output_event_kind kind = parser->is_reasoning ? OUTPUT_EVENT_REASONING : OUTPUT_EVENT_CONTENT;
    parser->has_section_text = true;
    parser->has_visible_content =
        parser->has_visible_content || (!parser->is_reasoning && !is_blank_character(bytes, length));
    return output_writer_append(&parser->writer, kind, 0, bytes, length);
}

/* A character of reasoning or content. */
static enum status append_text(struct output_parser *parser, const char *bytes, size_t length) {
    if (parser->is_after_block) {
        if (is_blank_character(bytes, length)) {
            string_buffer_append(&parser->gap, bytes, length);
            return STATUS_OK;
        }
        parser->is_after_block = false;
        TRY(string_buffer_check(&parser->gap));
        if (parser->has_section_text && parser->gap.length > 0) {
            TRY(append_section(parser, parser->gap.data, parser->gap.length));
        }
        string_buffer_clear(&parser->gap);
    }
    return append_section(parser, bytes, length);
}

/* A character that belongs to no tag goes where the level says. */
static enum status release(struct output_parser *parser, const char *bytes, size_t length) {
    switch (parser->level) {
    case OUTPUT_LEVEL_TEXT:
        return append_text(parser, bytes, length);
    case OUTPUT_LEVEL_VALUE:
        return output_calls_append_value(&parser->calls, bytes, length);
    default:
        parser->calls.is_markup_dropped =
            parser->calls.is_markup_dropped || !is_blank_character(bytes, length);
        return STATUS_OK;
    }
}

static enum status release_characters(struct output_parser *parser, const char *bytes, size_t length) {
    while (length > 0) {
        size_t step = utf8_next(bytes, length).length;
        TRY(release(parser, bytes, step));
        bytes += step;
        length -= step;
    }
    return STATUS_OK;
}

static enum status release_held(struct output_parser *parser) {
    struct output_held held = parser->held;
    parser->held.length = 0;
    return release_characters(parser, held.bytes, held.length);
}

static size_t held_newline_count(const struct output_held *held) {
    size_t count = 0;
    while (count < held->length && held->bytes[count] == '\n') {
        count++;
    }
    return count;
}

static bool has_held_angle(const struct output_held *held) {
    return held_newline_count(held) < held->length;
}

static void hold(struct output_parser *parser, char byte) {
    parser->held.bytes[parser->held.length++] = byte;
}

/* A character outside tags: keeps back what may belong to a tag, releases the rest. */
static enum status take_character(struct output_parser *parser, const char *bytes, size_t length) {
    /* Two newlines belong to the block's opening; one is forgiven behind a value whose closing tag is
     * missing. */
    size_t newline_limit = parser->level == OUTPUT_LEVEL_TEXT    ? 2
                           : parser->level == OUTPUT_LEVEL_VALUE ? 1
                                                                 : 0;
    char byte = length == 1 ? *bytes : '\0';
    struct output_held *held = &parser->held;
    if (byte == '\n' && newline_limit > 0) {
        if (has_held_angle(held)) {
            TRY(release_held(parser));
        } else if (held->length == newline_limit) {
            return release(parser, "\n", 1);
        }
        hold(parser, byte);
        return STATUS_OK;
    }
    if (byte == '<') {
        if (has_held_angle(held)) {
            TRY(release_held(parser));
        }
        hold(parser, byte);
        return STATUS_OK;
    }
    if (byte == '/' && held->length > 0 && held->bytes[held->length - 1] == '<') {
        hold(parser, byte);
        return STATUS_OK;
    }
    TRY(release_held(parser));
    return release(parser, bytes, length);
}

/* The text before a tool block is over: newlines in front of the block wait until text follows it. */
static void leave_text(struct output_parser *parser) {
    bool closes_reasoning = parser->is_reasoning && parser->options.are_tools_enabled;
    if (closes_reasoning) {
        parser->is_reasoning = false;
        parser->has_section_text = false;
        string_buffer_clear(&parser->gap);
    } else {
        string_buffer_append(&parser->gap, parser->tag.before.bytes, held_newline_count(&parser->tag.before));
    }
    parser->has_wrapper = false;
}

static void return_to_text(struct output_parser *parser) {
    parser->level = OUTPUT_LEVEL_TEXT;
    parser->is_after_block = true;
    parser->has_wrapper = false;
}

static void leave_invoke(struct output_parser *parser) {
    if (parser->has_wrapper) {
        parser->level = OUTPUT_LEVEL_BLOCK;
    } else {
        return_to_text(parser);
    }
}

/* The value ends, with its closing tag or because another tag implies it. */
static enum status leave_value(struct output_parser *parser, bool has_closing_tag) {
    if (has_closing_tag) {
        TRY(release_characters(parser, parser->tag.before.bytes, held_newline_count(&parser->tag.before)));
    }
    if (parser->calls.is_open) {
        parser->level = OUTPUT_LEVEL_INVOKE;
    } else {
        leave_invoke(parser);
    }
    return STATUS_OK;
}

static enum status apply_closing_tag(struct output_parser *parser, enum dsml_tag_kind kind) {
    if (kind == DSML_TAG_PARAMETER) {
        return output_calls_close_parameter(&parser->calls);
    }
    if (kind == DSML_TAG_INVOKE && parser->calls.is_open) {
        TRY(output_calls_close(&parser->calls, true));
        leave_invoke(parser);
    } else if (kind == DSML_TAG_TOOL_CALLS) {
        TRY(output_calls_close(&parser->calls, false));
        return_to_text(parser);
    }
    return STATUS_OK;
}

static enum status apply_opening_tag(struct output_parser *parser, enum dsml_tag_kind kind,
                                     const struct dsml_attributes *attributes) {
    if (parser->level == OUTPUT_LEVEL_TEXT) {
        leave_text(parser);
        parser->level = OUTPUT_LEVEL_BLOCK;
    }
    switch (kind) {
    case DSML_TAG_TOOL_CALLS:
        parser->has_wrapper = true;
        return STATUS_OK;
    case DSML_TAG_INVOKE:
        parser->level = OUTPUT_LEVEL_INVOKE;
        return output_calls_open(&parser->calls, attributes);
    default:
        parser->level = OUTPUT_LEVEL_VALUE;
        return output_calls_open_parameter(&parser->calls, attributes);
    }
}

/* The tag is complete: it changes the level. */
static enum status apply_tag(struct output_parser *parser) {
    struct output_tag *tag = &parser->tag;
    tag->is_open = false;
    TRY(string_buffer_check(&tag->text));
    bool is_stray = parser->level == OUTPUT_LEVEL_TEXT && tag->is_closing;
    if (tag->kind == DSML_TAG_UNKNOWN || is_stray) {
        parser->calls.is_markup_dropped = true;
        return release_characters(parser, tag->before.bytes, held_newline_count(&tag->before));
    }
    if (!parser->options.are_tools_enabled) {
        parser->calls.is_markup_dropped = true;
    }
    struct dsml_attributes attributes = {.name = NULL};
    if (!tag->is_closing && tag->kind != DSML_TAG_TOOL_CALLS) {
        attributes = dsml_attributes_parse(string_buffer_text(&tag->text) + tag->name_length,
                                           tag->text.length - tag->name_length);
    }
    if (parser->level == OUTPUT_LEVEL_VALUE) {
        TRY(leave_value(parser, tag->is_closing && tag->kind == DSML_TAG_PARAMETER));
    }
    if (tag->is_closing) {
        return apply_closing_tag(parser, tag->kind);
    }
    return apply_opening_tag(parser, tag->kind, &attributes);
}

static void begin_tag(struct output_parser *parser) {
    struct output_tag *tag = &parser->tag;
    tag->is_open = true;
    tag->is_name_done = false;
    tag->is_quoted = false;
    tag->is_quote_ending = false;
    tag->before = parser->held;
    tag->is_closing = parser->held.bytes[parser->held.length - 1] == '/';
    string_buffer_clear(&tag->text);
    parser->held.length = 0;
}

/* Whether the tag, its name being done, is only text that a value holds. */
static bool is_text_of_value(const struct output_parser *parser) {
    const struct output_tag *tag = &parser->tag;
    return parser->level == OUTPUT_LEVEL_VALUE &&
           (tag->kind == DSML_TAG_UNKNOWN || (tag->kind == DSML_TAG_TOOL_CALLS && !tag->is_closing));
}

static void resolve_tag_name(struct output_tag *tag) {
    tag->is_name_done = true;
    tag->name_length = tag->text.length;
    tag->kind = dsml_tag_kind_of(string_buffer_text(&tag->text), tag->text.length);
}

/* The tag's name has ended. A tag that a value may hold is put back into the value. */
static enum status finish_tag_name(struct output_parser *parser) {
    struct output_tag *tag = &parser->tag;
    TRY(string_buffer_check(&tag->text));
    resolve_tag_name(tag);
    if (!is_text_of_value(parser)) {
        return STATUS_OK;
    }
    tag->is_open = false;
    TRY(release_characters(parser, tag->before.bytes, tag->before.length));
    TRY(release_characters(parser, control_token_text(CONTROL_TOKEN_DSML),
                           control_token_length(CONTROL_TOKEN_DSML)));
    return release_characters(parser, tag->text.data, tag->text.length);
}

static bool is_name_character(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

static bool has_attributes(const struct output_tag *tag) {
    return !tag->is_closing && tag->kind != DSML_TAG_TOOL_CALLS;
}

/* A quote closes only in front of what can follow an attribute: names may hold quotes. */
static void track_quotes(struct output_tag *tag, char byte) {
    if (tag->is_quote_ending && byte != '\0' && strchr(" \t\r\n<>/", byte) != NULL) {
        tag->is_quoted = false;
    }
    tag->is_quote_ending = byte == '"' && tag->is_quoted;
    tag->is_quoted = tag->is_quoted || byte == '"';
}

/* A '>' ends the tag unless it stands inside quotes. */
static bool is_tag_end(const struct output_tag *tag) {
    return !tag->is_quoted || (tag->kind == DSML_TAG_PARAMETER &&
                               dsml_is_parameter_attributes(tag->text.data + tag->name_length,
                                                            tag->text.length - tag->name_length));
}

static enum status take_tag_character(struct output_parser *parser, const char *bytes, size_t length) {
    struct output_tag *tag = &parser->tag;
    char byte = length == 1 ? *bytes : '\0';
    if (!tag->is_name_done) {
        bool is_blank_before =
            byte == ' ' && (tag->text.length == 0 || tag->text.data[tag->text.length - 1] == ' ');
        if ((is_name_character(byte) || is_blank_before) && tag->text.length < TAG_BYTES_MAX) {
            string_buffer_append_char(&tag->text, byte);
            return STATUS_OK;
        }
        TRY(finish_tag_name(parser));
        if (!tag->is_open) {
            return take_character(parser, bytes, length);
        }
    }
    track_quotes(tag, byte);
    if (byte == '>' && is_tag_end(tag)) {
        return apply_tag(parser);
    }
    bool is_blank = is_blank_character(bytes, length) && byte != '\n';
    bool is_cut = has_attributes(tag) ? (byte == '\n' || byte == '<') && !tag->is_quoted : !is_blank;
    if (is_cut || tag->text.length >= TAG_BYTES_MAX) {
        TRY(apply_tag(parser));
        return take_character(parser, bytes, length);
    }
    string_buffer_append(&tag->text, bytes, length);
    return STATUS_OK;
}

/* A control token ends the tag that is being read. */
static enum status cut_tag(struct output_parser *parser) {
    struct output_tag *tag = &parser->tag;
    if (!tag->is_open) {
        return STATUS_OK;
    }
    if (!tag->is_name_done) {
        TRY(finish_tag_name(parser));
        if (!tag->is_open) {
            return STATUS_OK;
        }
    }
    /* After an unclosed quote the next tag's opening was taken for part of the name. */
    size_t length = tag->text.length;
    const char *end = string_buffer_text(&tag->text) + length;
    struct output_held held = {.length = 0};
    if (length > tag->name_length && end[-1] == '<') {
        held = (struct output_held){"<", 1};
    } else if (length > tag->name_length + 1 && end[-1] == '/' && end[-2] == '<') {
        held = (struct output_held){"</", 2};
    }
    tag->text.length -= held.length;
    TRY(apply_tag(parser));
    parser->held = held;
    return STATUS_OK;
}

/* The completion ends: whatever is unfinished is dropped. */
static enum status stop(struct output_parser *parser, bool has_end_mark) {
    parser->is_stopped = true;
    struct output_tag *tag = &parser->tag;
    if (tag->is_open) {
        if (!tag->is_name_done) {
            resolve_tag_name(tag);
        }
        /* A closing tag needs only its name. */
        if (tag->is_open && tag->is_closing && tag->kind != DSML_TAG_UNKNOWN) {
            TRY(apply_tag(parser));
        }
        parser->calls.is_markup_dropped = parser->calls.is_markup_dropped || tag->is_open;
        tag->is_open = false;
        parser->held.length = 0;
    }
    TRY(output_calls_abandon(&parser->calls));
    bool is_block_opening = !has_end_mark && parser->level == OUTPUT_LEVEL_TEXT &&
                            held_newline_count(&parser->held) == 2 && has_held_angle(&parser->held);
    if (is_block_opening) {
        parser->calls.is_markup_dropped = true;
        parser->held.length = 0;
    }
    if (parser->level == OUTPUT_LEVEL_TEXT) {
        return release_held(parser);
    }
    return STATUS_OK;
}

static enum status on_character(void *context, const char *bytes, size_t length) {
    struct output_parser *parser = context;
    if (parser->options.is_strict) {
        string_buffer_append(&parser->transcript, bytes, length);
        return STATUS_OK;
    }
    if (parser->is_stopped) {
        return STATUS_OK;
    }
    return parser->tag.is_open ? take_tag_character(parser, bytes, length)
                               : take_character(parser, bytes, length);
}

static enum status take_control(struct output_parser *parser, enum control_token control) {
    if (control == CONTROL_TOKEN_EOS || control == CONTROL_TOKEN_USER) {
        return stop(parser, true);
    }
    TRY(cut_tag(parser));
    if (control == CONTROL_TOKEN_DSML && has_held_angle(&parser->held)) {
        begin_tag(parser);
        return STATUS_OK;
    }
    TRY(release_held(parser));
    if (parser->level == OUTPUT_LEVEL_VALUE) {
        return release_characters(parser, control_token_text(control), control_token_length(control));
    }
    if (control == CONTROL_TOKEN_THINK_END && parser->level == OUTPUT_LEVEL_TEXT && parser->is_reasoning) {
        parser->is_reasoning = false;
        parser->is_after_block = false;
        parser->has_section_text = false;
        string_buffer_clear(&parser->gap);
    }
    return STATUS_OK;
}

static enum status on_control(void *context, enum control_token control) {
    struct output_parser *parser = context;
    if (parser->options.is_strict) {
        string_buffer_append_text(&parser->transcript, control_token_text(control));
        parser->is_stopped = parser->is_stopped || control == CONTROL_TOKEN_EOS;
        return STATUS_OK;
    }
    return parser->is_stopped ? STATUS_OK : take_control(parser, control);
}

static struct output_lexer_handler begin_push(struct output_parser *parser, const struct output_sink *sink) {
    parser->writer.sink = sink;
    parser->calls.writer = &parser->writer;
    return (struct output_lexer_handler){on_character, on_control, parser};
}

enum status output_parser_push_token(struct output_parser *parser, int32_t id, const char *bytes,
                                     size_t length, const struct output_sink *sink) {
    struct output_lexer_handler handler = begin_push(parser, sink);
    TRY(output_lexer_push_token(&parser->lexer, id, bytes, length, &handler));
    return output_writer_flush(&parser->writer);
}

enum status output_parser_push_text(struct output_parser *parser, const char *bytes, size_t length,
                                    const struct output_sink *sink) {
    struct output_lexer_handler handler = begin_push(parser, sink);
    TRY(output_lexer_push_text(&parser->lexer, bytes, length, &handler));
    return output_writer_flush(&parser->writer);
}

static enum status finish_strict(struct output_parser *parser) {
    TRY(string_buffer_check(&parser->transcript));
    TRY(dsml_parse_strict(string_buffer_text(&parser->transcript), parser->transcript.length,
                          parser->options.starts_in_reasoning, &parser->calls));
    parser->is_reasoning = false;
    return STATUS_OK;
}

static enum status finish_robust(struct output_parser *parser) {
    if (!parser->is_stopped) {
        TRY(stop(parser, false));
    }
    bool is_silent = !parser->has_visible_content && parser->calls.complete_count == 0;
    if (is_silent && parser->calls.is_markup_dropped) {
        const char *notice = parser->options.are_tools_enabled ? notice_damaged : notice_disabled;
        TRY(output_writer_append(&parser->writer, OUTPUT_EVENT_CONTENT, 0, notice, strlen(notice)));
    }
    return STATUS_OK;
}

enum status output_parser_finish(struct output_parser *parser, const struct output_sink *sink,
                                 struct output_result *result) {
    struct output_lexer_handler handler = begin_push(parser, sink);
    TRY(output_lexer_finish(&parser->lexer, &handler));
    TRY(parser->options.is_strict ? finish_strict(parser) : finish_robust(parser));
    TRY(output_writer_flush(&parser->writer));
    bool has_calls = parser->calls.complete_count > 0;
    *result = (struct output_result){.finish = has_calls ? OUTPUT_FINISH_TOOL_CALLS : OUTPUT_FINISH_STOP,
                                     .tool_call_count = parser->calls.complete_count,
                                     .is_reasoning_unclosed = parser->is_reasoning,
                                     .is_markup_dropped = parser->calls.is_markup_dropped};
    return STATUS_OK;
}
