/* What a request says about the form of its answer: response_format, structured_outputs, guided_*. */
#ifndef SLUICE_SERVER_REQUEST_GRAMMAR_H
#define SLUICE_SERVER_REQUEST_GRAMMAR_H

#include "base/arena.h"
#include "server/answer_settings.h"
#include "server/request_reader.h"

/* Reads all of them; BAD_ARGUMENT if the request asks for two forms. */
enum status request_grammar_read(struct answer_settings *settings, struct request_reader *reader,
                                 struct arena *arena);

/*
 * Reads the object of a format: {"type": "text" | "json_object" | "json_schema", ...}. Its schema stands in
 * the object itself if it is flat, else within "json_schema". `name` is what the API calls the object, for
 * errors.
 */
enum status request_grammar_read_format(struct answer_settings *settings, struct request_reader *reader,
                                        const char *name, const struct json *format, bool is_schema_flat,
                                        struct arena *arena);

/*
 * The form of tool calls: `choice_json` is "auto" or "required" with its quotes, or a function's object.
 * "auto" gives way to another form; together with one, the others are BAD_ARGUMENT.
 */
enum status request_grammar_set_tools(struct answer_settings *settings, struct request_reader *reader,
                                      const struct json *tools, const char *choice_json, bool is_parallel,
                                      struct arena *arena);

#endif
