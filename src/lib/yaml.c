/* The parser's events, taken one by one: nothing is built that is not an option. */
#include "lib/yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "base/string_buffer.h"

enum { SETTINGS_MAX = 512, DEPTH_MAX = 16, NUMBER_BYTES_MAX = 40 };

struct reader {
    const char *path;
    struct arena *arena;
    yaml_parser_t parser;
    yaml_event_t event; /* the one that is looked at */
    struct option_setting *settings;
    size_t count;
};

static int line_of(const struct reader *reader) {
    return (int)reader->event.start_mark.line + 1;
}

static enum status next(struct reader *reader) {
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->parser, &reader->event)) {
        FAIL(STATUS_USAGE, "%s, line %d: this is no YAML: %s", reader->path,
             (int)reader->parser.problem_mark.line + 1,
             reader->parser.problem == NULL ? "it cannot be read" : reader->parser.problem);
    }
    return STATUS_OK;
}

static enum status expect(struct reader *reader, yaml_event_type_t type) {
    TRY(next(reader));
    CHECK(reader->event.type == type, STATUS_USAGE,
          "%s, line %d: a file of options is one list of \"name: value\"", reader->path, line_of(reader));
    return STATUS_OK;
}

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_null(const char *text) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
    return is_one_of(text, words);
}

/* The scalar's text, booleans as true and false; NULL: memory was out. */
static const char *scalar_text(struct reader *reader) {
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES", NULL};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO", NULL};
    const char *text = (const char *)reader->event.data.scalar.value;
    if (reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        text = is_one_of(text, yes) ? "true" : is_one_of(text, no) ? "false" : text;
    }
    return arena_copy_string(reader->arena, text, strlen(text));
}

static enum status check_scalar(const struct reader *reader) {
    const char *text = (const char *)reader->event.data.scalar.value;
    CHECK(strlen(text) == reader->event.data.scalar.length, STATUS_USAGE,
          "%s, line %d: the value holds a NUL", reader->path, line_of(reader));
    CHECK(reader->event.data.scalar.anchor == NULL && reader->event.data.scalar.tag == NULL, STATUS_USAGE,
          "%s, line %d: anchors and tags have no meaning among options", reader->path, line_of(reader));
    return STATUS_OK;
}

static enum status add(struct reader *reader, const char *name, const char *value, int line, bool is_item) {
    CHECK_MEMORY(name);
    CHECK_MEMORY(value);
    CHECK(reader->count < SETTINGS_MAX, STATUS_USAGE, "%s, line %d: there are more than %d options",
          reader->path, line, SETTINGS_MAX);
    reader->settings[reader->count++] =
        (struct option_setting){.name = name, .value = value, .line = line, .is_item = is_item};
    return STATUS_OK;
}

static void append_string(const char *text, struct string_buffer *out) {
    string_buffer_append_text(out, "\"");
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\' || byte < 0x20) {
            string_buffer_append_format(out, "\\u%04x", byte);
        } else {
            string_buffer_append(out, text, 1);
        }
    }
    string_buffer_append_text(out, "\"");
}

/* Whether JSON writes the text as a number too. */
static bool is_number(const char *text) {
    double value;
    int used = 0;
    const char *digits = text + (*text == '-');
    return strlen(text) < NUMBER_BYTES_MAX && digits[0] >= '0' && digits[0] <= '9' &&
           !(digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9') &&
           text[strspn(text, "-+.0123456789eE")] == '\0' && text[strlen(text) - 1] != '.' &&
           sscanf(text, "%lf%n", &value, &used) == 1 && text[used] == '\0';
}

static enum status append_scalar(struct reader *reader, bool is_key, struct string_buffer *out) {
    TRY(check_scalar(reader));
    const char *text = scalar_text(reader);
    CHECK_MEMORY(text);
    bool is_plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !is_key;
    if (is_plain && is_null(text)) {
        string_buffer_append_text(out, "null");
    } else if (is_plain && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || is_number(text))) {
        string_buffer_append_text(out, text);
    } else {
        append_string(text, out);
    }
    return STATUS_OK;
}

/* What brackets are open around the event in hand, innermost last. */
struct nesting {
    bool is_mapping[DEPTH_MAX];
    size_t members[DEPTH_MAX];
    int depth;
};

static enum status open_nested(struct reader *reader, struct nesting *nesting, struct string_buffer *out) {
    bool is_mapping = reader->event.type == YAML_MAPPING_START_EVENT;
    CHECK(nesting->depth < DEPTH_MAX, STATUS_USAGE, "%s, line %d: values are nested deeper than %d",
          reader->path, line_of(reader), DEPTH_MAX);
    nesting->is_mapping[nesting->depth] = is_mapping;
    nesting->members[nesting->depth++] = 0;
    string_buffer_append_text(out, is_mapping ? "{" : "[");
    return STATUS_OK;
}

/* The event in hand and all that it opens, as JSON. Keys are every other member of a mapping. */
static enum status append_nested(struct reader *reader, struct string_buffer *out) {
    struct nesting nesting = {.depth = 0};
    do {
        int inner = nesting.depth - 1;
        yaml_event_type_t type = reader->event.type;
        bool is_end = type == YAML_MAPPING_END_EVENT || type == YAML_SEQUENCE_END_EVENT;
        bool is_value = inner >= 0 && nesting.is_mapping[inner] && nesting.members[inner] % 2 == 1;
        bool is_key = inner >= 0 && nesting.is_mapping[inner] && !is_value;
        if (!is_end && inner >= 0) {
            string_buffer_append_text(out, is_value ? ":" : nesting.members[inner] > 0 ? "," : "");
            nesting.members[inner]++;
        }
        if (type == YAML_SCALAR_EVENT) {
            TRY(append_scalar(reader, is_key, out));
        } else if (is_end) {
            string_buffer_append_text(out, nesting.is_mapping[inner] ? "}" : "]");
            nesting.depth--;
        } else {
            CHECK(type != YAML_ALIAS_EVENT && !is_key, STATUS_USAGE,
                  "%s, line %d: names are plain words, and references have no meaning among options",
                  reader->path, line_of(reader));
            TRY(open_nested(reader, &nesting, out));
        }
        if (nesting.depth > 0) {
            TRY(next(reader));
        }
    } while (nesting.depth > 0);
    return STATUS_OK;
}

static enum status read_mapping(struct reader *reader, const char *name) {
    struct string_buffer text = {0};
    int line = line_of(reader);
    enum status status = append_nested(reader, &text);
    if (status == STATUS_OK) {
        status = string_buffer_check(&text);
    }
    if (status == STATUS_OK) {
        status = add(reader, name, arena_copy_string(reader->arena, text.data, text.length), line, false);
    }
    string_buffer_deinit(&text);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status read_scalar(struct reader *reader, const char *name, bool is_item) {
    const char *text = (const char *)reader->event.data.scalar.value;
    bool is_plain = reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    TRY(check_scalar(reader));
    CHECK(!is_plain || !is_null(text), STATUS_USAGE, "%s, line %d: %s has no value", reader->path,
          line_of(reader), name);
    return add(reader, name, scalar_text(reader), line_of(reader), is_item);
}

static enum status read_list(struct reader *reader, const char *name) {
    for (;;) {
        TRY(next(reader));
        if (reader->event.type == YAML_SEQUENCE_END_EVENT) {
            return STATUS_OK;
        }
        CHECK(reader->event.type == YAML_SCALAR_EVENT, STATUS_USAGE,
              "%s, line %d: a list of options holds words and numbers only", reader->path, line_of(reader));
        TRY(read_scalar(reader, name, true));
    }
}

/* The name in hand and what follows it. */
static enum status read_setting(struct reader *reader) {
    CHECK(reader->event.type == YAML_SCALAR_EVENT, STATUS_USAGE,
          "%s, line %d: the name of an option is a word", reader->path, line_of(reader));
    TRY(check_scalar(reader));
    const char *key = (const char *)reader->event.data.scalar.value;
    const char *name = arena_copy_string(reader->arena, key, strlen(key));
    CHECK_MEMORY(name);
    for (size_t i = 0; i < reader->count; i++) {
        CHECK(strcmp(reader->settings[i].name, name) != 0, STATUS_USAGE,
              "%s, line %d: %s stands in line %d already", reader->path, line_of(reader), name,
              reader->settings[i].line);
    }
    TRY(next(reader));
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, name, false);
    case YAML_SEQUENCE_START_EVENT:
        return read_list(reader, name);
    case YAML_MAPPING_START_EVENT:
        return read_mapping(reader, name);
    default:
        FAIL(STATUS_USAGE, "%s, line %d: references have no meaning among options", reader->path,
             line_of(reader));
    }
}

static enum status read_document(struct reader *reader) {
    TRY(expect(reader, YAML_STREAM_START_EVENT));
    TRY(next(reader));
    if (reader->event.type == YAML_STREAM_END_EVENT) {
        return STATUS_OK;
    }
    TRY(expect(reader, YAML_MAPPING_START_EVENT));
    TRY(next(reader));
    while (reader->event.type != YAML_MAPPING_END_EVENT) {
        TRY(read_setting(reader));
        TRY(next(reader));
    }
    TRY(expect(reader, YAML_DOCUMENT_END_EVENT));
    return expect(reader, YAML_STREAM_END_EVENT);
}

enum status yaml_read_settings(const char *path, struct arena *arena, struct option_settings *out) {
    struct reader reader = {.path = path, .arena = arena};
    reader.settings = ARENA_NEW(arena, struct option_setting, SETTINGS_MAX);
    CHECK_MEMORY(reader.settings);
    FILE *file = fopen(path, "re");
    CHECK(file != NULL, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "cannot open %s: %s", path,
          strerror(errno));
    if (!yaml_parser_initialize(&reader.parser)) {
        fclose(file);
        FAIL(STATUS_OUT_OF_MEMORY, "out of memory");
    }
    yaml_parser_set_input_file(&reader.parser, file);
    enum status status = read_document(&reader);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.parser);
    fclose(file);
    *out = (struct option_settings){.file = path, .items = reader.settings, .count = reader.count};
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
