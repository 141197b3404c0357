/* Every piece is flushed: people watch. */
#include "cli/answer_view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text/utf8.h"

const char ANSWER_VIEW_DIM[] = "\x1b[2m";
const char ANSWER_VIEW_PLAIN[] = "\x1b[0m";

bool answer_view_has_style(FILE *stream) {
    const char *no_color = getenv("NO_COLOR");
    return isatty(fileno(stream)) == 1 && (no_color == NULL || no_color[0] == '\0');
}

void answer_view_init(struct answer_view *view, FILE *stream) {
    *view = (struct answer_view){
        .stream = stream,
        .is_terminal = isatty(fileno(stream)) == 1,
        .is_styled = answer_view_has_style(stream),
        .is_at_line_start = true,
    };
}

void answer_view_deinit(struct answer_view *view) {
    string_buffer_deinit(&view->printable);
}

/* C0 but for newline and tab, DEL and C1. */
static bool is_control(const struct utf8_step *step) {
    uint32_t point = step->code_point;
    return step->kind == UTF8_CHARACTER && point != '\n' && point != '\t' &&
           (point < 0x20 || (point >= 0x7F && point < 0xA0));
}

static void append_printable(struct string_buffer *out, const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        struct utf8_step step = utf8_next(text + at, length - at);
        if (is_control(&step)) {
            string_buffer_append_text(out, UTF8_REPLACEMENT);
        } else {
            string_buffer_append(out, text + at, step.length);
        }
        at += step.length;
    }
}

static void show(struct answer_view *view, const char *text, size_t length) {
    if (length == 0) {
        return;
    }
    view->is_at_line_start = text[length - 1] == '\n';
    if (view->is_terminal) {
        string_buffer_clear(&view->printable);
        append_printable(&view->printable, text, length);
        text = string_buffer_text(&view->printable);
        length = view->printable.length;
    }
    fwrite(text, 1, length, view->stream);
    fflush(view->stream);
}

static void show_edge(struct answer_view *view, bool is_start) {
    if (view->is_in_reasoning == is_start) {
        return;
    }
    view->is_in_reasoning = is_start;
    if (is_start) {
        fputs(view->is_styled ? ANSWER_VIEW_DIM : "<think>", view->stream);
    } else {
        fputs(view->is_styled ? ANSWER_VIEW_PLAIN : "</think>", view->stream);
        fputs(view->is_styled ? "\n\n" : "\n", view->stream);
        view->is_at_line_start = true;
    }
}

void answer_view_show_reasoning(struct answer_view *view, const char *text, size_t length) {
    show_edge(view, true);
    show(view, text, length);
}

void answer_view_show_content(struct answer_view *view, const char *text, size_t length) {
    show_edge(view, false);
    show(view, text, length);
}

void answer_view_finish(struct answer_view *view) {
    show_edge(view, false);
    if (!view->is_at_line_start) {
        fputs("\n", view->stream);
        view->is_at_line_start = true;
    }
    fflush(view->stream);
}
