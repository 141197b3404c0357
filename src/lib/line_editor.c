/*
 * The terminal sends no signals while a line is edited: Ctrl-C is a key like others, which ends the line, so
 * that no signal handler of ours is involved. Ctrl-Z raises its signal itself; the library handles it.
 */
#include "lib/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { HISTORY_LINES = 1000 };

static const size_t LINE_BYTES_MAX = (size_t)64 << 20;

/* What terminals are told, and tell us, about pastes. */
static const char PASTE_MARKS_ON[] = "\x1b[?2004h";
static const char PASTE_MARKS_OFF[] = "\x1b[?2004l";
static const wchar_t PASTE_END[] = L"\x1b[201~";

struct line_editor {
    struct line_editor_options options;
    EditLine *library; /* NULL: plain reading */
    History *history;
    FILE *screen; /* what the library draws on */
    bool is_continued;
    bool is_interrupted;
};

static struct line_editor *editor_of(EditLine *library) {
    struct line_editor *editor = NULL;
    el_get(library, EL_CLIENTDATA, (void **)&editor);
    return editor;
}

/* The library's callbacks: the types are its. */
static char *current_prompt(EditLine *library) {
    const struct line_editor *editor = editor_of(library);
    return (char *)(editor->is_continued ? editor->options.continuation_prompt : editor->options.prompt);
}

static unsigned char interrupt_line(EditLine *library, int key) {
    (void)key;
    editor_of(library)->is_interrupted = true;
    return CC_NEWLINE;
}

/* For the whole job, as the terminal does it. */
static unsigned char suspend_job(EditLine *library, int key) {
    (void)library;
    (void)key;
    kill(0, SIGTSTP);
    return CC_REDISPLAY;
}

/* Reads what is pasted up to the mark at its end. NULL if memory is out. Owned: free. */
static wchar_t *read_paste(EditLine *library) {
    const size_t mark_length = sizeof PASTE_END / sizeof PASTE_END[0] - 1;
    size_t length = 0;
    size_t capacity = 256;
    wchar_t *text = calloc(capacity, sizeof *text);
    wchar_t character;
    while (text != NULL && el_wgetc(library, &character) == 1) {
        if (length + 1 == capacity) {
            capacity *= 2;
            wchar_t *longer = realloc(text, capacity * sizeof *text);
            if (longer == NULL) {
                free(text);
                return NULL;
            }
            text = longer;
        }
        text[length++] = character == L'\r' ? L'\n' : character;
        text[length] = L'\0';
        if (length >= mark_length && wcscmp(text + length - mark_length, PASTE_END) == 0) {
            text[length - mark_length] = L'\0';
            break;
        }
    }
    return text;
}

static unsigned char paste_text(EditLine *library, int key) {
    (void)key;
    wchar_t *text = read_paste(library);
    int inserted = text == NULL ? -1 : el_winsertstr(library, text);
    free(text);
    return inserted == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
}

static void bind_keys(EditLine *library) {
    el_set(library, EL_EDITOR, "emacs");
    el_set(library, EL_SIGNAL, 1);
    el_set(library, EL_SETTY, "-d", "-isig", NULL);
    /* In wide characters: of narrow ones the library would lose copies. */
    el_wset(library, EL_ADDFN, L"sluice-interrupt", L"Give the line up", interrupt_line);
    el_wset(library, EL_ADDFN, L"sluice-suspend", L"Stop until continued", suspend_job);
    el_wset(library, EL_ADDFN, L"sluice-paste", L"Insert a paste", paste_text);
    /* The user's own .editrc goes before our ordinary keys, but not before these. */
    el_source(library, NULL);
    el_set(library, EL_BIND, "^C", "sluice-interrupt", NULL);
    el_set(library, EL_BIND, "^Z", "sluice-suspend", NULL);
    el_set(library, EL_BIND, "\\e[200~", "sluice-paste", NULL);
}

static enum status load_history(struct line_editor *editor) {
    const char *path = editor->options.history_file;
    HistEvent event;
    editor->history = history_init();
    CHECK_MEMORY(editor->history);
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    el_set(editor->library, EL_HIST, history, editor->history);
    struct stat info;
    if (path == NULL || stat(path, &info) != 0) {
        return STATUS_OK;
    }
    /* Saving would overwrite whatever it is. */
    CHECK(info.st_size == 0 || history(editor->history, &event, H_LOAD, path) >= 0, STATUS_BAD_FORMAT,
          "%s is no history of lines; name another file with --history, or none", path);
    return STATUS_OK;
}

static enum status start_library(struct line_editor *editor) {
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        setlocale(LC_CTYPE, "");
    }
    editor->screen = isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
    editor->library = el_init("sluice", stdin, editor->screen, stderr);
    CHECK(editor->library != NULL, STATUS_OUT_OF_MEMORY, "the line editor cannot be started");
    el_set(editor->library, EL_CLIENTDATA, editor);
    el_set(editor->library, EL_PROMPT, current_prompt);
    bind_keys(editor->library);
    return load_history(editor);
}

bool line_editor_has_person(void) {
    return isatty(STDIN_FILENO) == 1 && (isatty(STDOUT_FILENO) == 1 || isatty(STDERR_FILENO) == 1);
}

enum status line_editor_create(const struct line_editor_options *options, struct line_editor **out) {
    enum status status = STATUS_OK;
    struct line_editor *editor = calloc(1, sizeof *editor);
    CHECK_MEMORY(editor);
    editor->options = *options;
    if (line_editor_has_person()) {
        TRY_GOTO(start_library(editor));
    }
    *out = editor;
    return STATUS_OK;
fail:
    line_editor_destroy(&editor);
    return status;
}

void line_editor_destroy(struct line_editor **editor_pointer) {
    struct line_editor *editor = *editor_pointer;
    if (editor == NULL) {
        return;
    }
    if (editor->library != NULL) {
        el_end(editor->library);
    }
    if (editor->history != NULL) {
        history_end(editor->history);
    }
    free(editor);
    *editor_pointer = NULL;
}

/* Appends one line from the terminal, its newline included. */
static enum status read_typed(struct line_editor *editor, struct string_buffer *line, enum line_kind *kind) {
    editor->is_interrupted = false;
    /* The library would do this after it has shown the prompt; Ctrl-C is a key from the prompt on. */
    el_set(editor->library, EL_PREP_TERM, 1);
    fputs(PASTE_MARKS_ON, editor->screen);
    fflush(editor->screen);
    int length = 0;
    const char *text = el_gets(editor->library, &length);
    bool has_text = text != NULL && length > 0;
    *kind = editor->is_interrupted ? LINE_INTERRUPTED : has_text ? LINE_TEXT : LINE_END;
    fputs(PASTE_MARKS_OFF, editor->screen);
    /* The library leaves the cursor behind the line, or behind the ^D that it shows. */
    fputs(*kind == LINE_INTERRUPTED ? "^C\n" : *kind == LINE_END ? "\n" : "", editor->screen);
    fflush(editor->screen);
    if (*kind == LINE_TEXT) {
        string_buffer_append(line, text, (size_t)length);
    }
    return string_buffer_check(line);
}

/* Appends one line from standard input, its newline included. */
static enum status read_piped(struct string_buffer *line, enum line_kind *kind) {
    char *text = NULL;
    size_t capacity = 0;
    errno = 0;
    ssize_t length = getline(&text, &capacity, stdin);
    *kind = length < 0 ? LINE_END : LINE_TEXT;
    string_buffer_append(line, text, length < 0 ? 0 : (size_t)length);
    free(text);
    CHECK(length >= 0 || !ferror(stdin), STATUS_IO, "standard input cannot be read: %s", strerror(errno));
    return string_buffer_check(line);
}

static bool ends_in(const struct string_buffer *line, char byte) {
    return line->length > 0 && line->data[line->length - 1] == byte;
}

/* Takes the end of the line off, and one backslash before it; returns whether there was one. */
static bool drop_line_end(struct string_buffer *line) {
    string_buffer_drop_back(line, ends_in(line, '\n'));
    string_buffer_drop_back(line, ends_in(line, '\r'));
    bool is_continued = ends_in(line, '\\');
    string_buffer_drop_back(line, is_continued);
    return is_continued;
}

enum status line_editor_read(struct line_editor *editor, struct string_buffer *line, enum line_kind *kind) {
    string_buffer_clear(line);
    editor->is_continued = false;
    do {
        if (editor->is_continued) {
            string_buffer_append_char(line, '\n');
        }
        TRY(editor->library != NULL ? read_typed(editor, line, kind) : read_piped(line, kind));
        CHECK(line->length <= LINE_BYTES_MAX, STATUS_OUT_OF_RANGE, "a line of more than 64 MiB is not read");
        if (*kind != LINE_TEXT) {
            break;
        }
        editor->is_continued = drop_line_end(line);
    } while (editor->is_continued);
    if (*kind == LINE_INTERRUPTED) {
        string_buffer_clear(line);
    } else if (*kind == LINE_END && editor->is_continued) {
        string_buffer_drop_back(line, 1);
        *kind = LINE_TEXT;
    }
    return STATUS_OK;
}

enum status line_editor_remember(struct line_editor *editor, const char *line) {
    HistEvent event;
    if (editor->history == NULL || line[0] == '\0') {
        return STATUS_OK;
    }
    CHECK(history(editor->history, &event, H_ENTER, line) >= 0, STATUS_OUT_OF_MEMORY, "out of memory");
    const char *path = editor->options.history_file;
    CHECK(path == NULL || history(editor->history, &event, H_SAVE, path) >= 0, STATUS_IO,
          "the history of lines cannot be written to %s", path);
    return STATUS_OK;
}
