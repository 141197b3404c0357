/* Follows the official parser step by step: read up to a stop text, then compare what was read. */
#include "text/dsml_strict.h"

#include <string.h>

#include "text/control_token.h"

#define DSML "｜DSML｜"

static const char block_opening[] = "\n\n<" DSML "tool_calls";
static const char block_closing[] = "</" DSML "tool_calls>";
static const char invoke_opening[] = "<" DSML "invoke";
static const char invoke_closing[] = "</" DSML "invoke";
static const char parameter_opening[] = "<" DSML "parameter";
static const char parameter_closing[] = "/" DSML "parameter";
static const char tag_ending[] = ">\n";

/* A part of the completion. */
struct span {
    const char *bytes;
    size_t length;
};

struct cursor {
    const char *at, *end;
    struct output_calls *calls;
};

static bool is_span(struct span span, const char *text) {
    return span.length == strlen(text) && memcmp(span.bytes, text, span.length) == 0;
}

static bool starts_with(struct span span, const char *text) {
    return span.length >= strlen(text) && memcmp(span.bytes, text, strlen(text)) == 0;
}

/*
 * Moves behind the nearer of two stop texts and returns it; `read` is what stood before it. NULL if there is
 * neither: `read` is the rest then.
 */
static const char *read_until(struct cursor *cursor, const char *stop, const char *other_stop,
                              struct span *read) {
    const char *const stops[] = {stop, other_stop};
    const char *start = cursor->at;
    for (const char *at = start; at < cursor->end; at++) {
        for (size_t i = 0; i < 2; i++) {
            size_t length = strlen(stops[i]);
            if (*at == *stops[i] && (size_t)(cursor->end - at) >= length &&
                memcmp(at, stops[i], length) == 0) {
                *read = (struct span){start, (size_t)(at - start)};
                cursor->at = at + length;
                return stops[i];
            }
        }
    }
    *read = (struct span){start, (size_t)(cursor->end - start)};
    cursor->at = cursor->end;
    return NULL;
}

static enum status check_no_control(struct span span, const char *where) {
    static const enum control_token forbidden[] = {CONTROL_TOKEN_BOS, CONTROL_TOKEN_EOS,
                                                   CONTROL_TOKEN_THINK_START, CONTROL_TOKEN_THINK_END,
                                                   CONTROL_TOKEN_DSML};
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
        const char *text = control_token_text(forbidden[i]);
        CHECK(memmem(span.bytes, span.length, text, strlen(text)) == NULL, STATUS_BAD_FORMAT,
              "the completion has the control token %s in its %s", text, where);
    }
    return STATUS_OK;
}

/* ` name="NAME">` and a newline; an invoke without parameters has one newline more. */
static enum status parse_invoke_name(struct span tag, struct dsml_attributes *out) {
    static const char opening[] = " name=\"";
    static const char ending[] = "\">\n";
    if (tag.length > 0 && tag.length >= sizeof ending && memcmp(tag.bytes + tag.length - 2, "\n\n", 2) == 0) {
        tag.length--;
    }
    size_t around = sizeof opening - 1 + sizeof ending - 1;
    CHECK(tag.length >= around && starts_with(tag, opening) &&
              memcmp(tag.bytes + tag.length - (sizeof ending - 1), ending, sizeof ending - 1) == 0,
          STATUS_BAD_FORMAT, "a tool call's invoke tag is not <" DSML "invoke name=\"...\"> and a newline");
    *out =
        (struct dsml_attributes){.name = tag.bytes + sizeof opening - 1, .name_length = tag.length - around};
    return STATUS_OK;
}

/* ` name="KEY" string="true|false">VALUE<`. The key ends where the earliest such attribute follows. */
static enum status parse_parameter(struct span text, struct dsml_attributes *out, struct span *value) {
    const char *position = text.bytes;
    const char *end = text.bytes + text.length;
    while ((position = memchr(position, '>', (size_t)(end - position))) != NULL) {
        size_t length = (size_t)(position - text.bytes);
        if (dsml_is_parameter_attributes(text.bytes, length) && end[-1] == '<') {
            *out = dsml_attributes_parse(text.bytes, length);
            *value = (struct span){position + 1, (size_t)(end - position) - 2};
            return STATUS_OK;
        }
        position++;
    }
    FAIL(STATUS_BAD_FORMAT, "a tool call's parameter is not <" DSML "parameter name=\"...\" "
                            "string=\"true|false\">VALUE</" DSML "parameter>");
}

static enum status parse_parameters(struct cursor *cursor, const char *stop) {
    while (stop == parameter_opening) {
        struct span read;
        struct span value = {"", 0};
        struct dsml_attributes attributes;
        const char *closing = read_until(cursor, parameter_closing, parameter_closing, &read);
        CHECK(closing != NULL, STATUS_BAD_FORMAT, "a tool call's parameter has no closing tag");
        TRY(parse_parameter(read, &attributes, &value));
        TRY(output_calls_open_parameter(cursor->calls, &attributes));
        CHECK(!cursor->calls->is_parameter_dropped, STATUS_BAD_FORMAT,
              "a tool call has the parameter \"%.*s\" twice", (int)attributes.name_length, attributes.name);
        TRY(output_calls_append_value(cursor->calls, value.bytes, value.length));
        stop = read_until(cursor, parameter_opening, invoke_closing, &read);
        CHECK(stop != NULL, STATUS_BAD_FORMAT, "a tool call has no closing invoke tag");
        CHECK(is_span(read, tag_ending), STATUS_BAD_FORMAT,
              "behind a tool call's parameter stands something else than a newline");
    }
    return STATUS_OK;
}

static enum status parse_block(struct cursor *cursor) {
    struct span read;
    for (;;) {
        const char *stop = read_until(cursor, invoke_opening, block_closing, &read);
        CHECK(stop != NULL, STATUS_BAD_FORMAT, "the tool block has no closing tool_calls tag");
        CHECK(is_span(read, tag_ending), STATUS_BAD_FORMAT,
              "between the tags of the tool block stands something else than a newline");
        if (stop == block_closing) {
            return STATUS_OK;
        }
        struct dsml_attributes attributes;
        stop = read_until(cursor, parameter_opening, invoke_closing, &read);
        CHECK(stop != NULL, STATUS_BAD_FORMAT, "a tool call has no closing invoke tag");
        TRY(parse_invoke_name(read, &attributes));
        TRY(output_calls_open(cursor->calls, &attributes));
        TRY(parse_parameters(cursor, stop));
        TRY(output_calls_close(cursor->calls, true));
    }
}

enum status dsml_parse_strict(const char *text, size_t length, bool is_thinking, struct output_calls *calls) {
    struct cursor cursor = {text, text + length, calls};
    const char *end_mark = control_token_text(CONTROL_TOKEN_EOS);
    const char *think_end = control_token_text(CONTROL_TOKEN_THINK_END);
    struct span read;
    calls->is_json_kept = true;
    if (is_thinking) {
        const char *stop = read_until(&cursor, think_end, block_opening, &read);
        CHECK(stop == think_end, STATUS_BAD_FORMAT, "the reasoning is not closed by %s", think_end);
        TRY(check_no_control(read, "reasoning"));
        TRY(output_writer_append(calls->writer, OUTPUT_EVENT_REASONING, 0, read.bytes, read.length));
    }
    const char *stop = read_until(&cursor, end_mark, block_opening, &read);
    CHECK(stop != NULL, STATUS_BAD_FORMAT, "the completion does not end with %s", end_mark);
    TRY(check_no_control(read, "content"));
    TRY(output_writer_append(calls->writer, OUTPUT_EVENT_CONTENT, 0, read.bytes, read.length));
    if (stop == block_opening) {
        TRY(parse_block(&cursor));
        stop = read_until(&cursor, end_mark, end_mark, &read);
        CHECK(stop != NULL && read.length == 0, STATUS_BAD_FORMAT, "behind the tool block stands not only %s",
              end_mark);
    }
    CHECK(cursor.at == cursor.end, STATUS_BAD_FORMAT, "behind %s stands more text", end_mark);
    return STATUS_OK;
}
