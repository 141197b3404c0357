/*
 * Turns invokes and parameters into tool call events: header first, then growing arguments, then the end.
 *
 * Arguments are written as the official parser writes them: `{"key": value, ...}`. The header waits for the
 * first parameter or the closing tag, so that a doubled opening tag gives no call. One thread at a time.
 */
#ifndef SLUICE_TEXT_OUTPUT_CALLS_H
#define SLUICE_TEXT_OUTPUT_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "text/dsml_tag.h"
#include "text/output_writer.h"

struct output_calls {
    struct output_writer *writer; /* borrowed during a push */
    uint64_t id_seed;
    bool is_enabled;        /* false: calls are dropped */
    bool is_json_kept;      /* JSON values are reported as they are, valid or not */
    bool is_markup_dropped; /* something of the markup led to no call */
    size_t complete_count;

    bool is_open;              /* between an invoke's opening and closing */
    bool is_started;           /* its header was reported */
    bool has_arguments;        /* a parameter was reported */
    struct string_buffer name; /* empty: damaged, the invoke is dropped */
    struct string_buffer keys; /* of this invoke, as JSON strings, each between newlines */

    bool is_parameter_open;
    bool is_parameter_dropped;
    bool is_value_string;
    bool is_value_begun;        /* key and colon were reported */
    struct string_buffer key;   /* escaped */
    struct string_buffer value; /* JSON that waits for its end */
};

void output_calls_init(struct output_calls *calls, bool is_enabled, uint64_t id_seed);
void output_calls_deinit(struct output_calls *calls);

/* An invoke opens; one that is open is closed without its tag. `attributes` without a name: it is dropped. */
enum status output_calls_open(struct output_calls *calls, const struct dsml_attributes *attributes);

/*
 * The invoke ends, if one is open. Without its closing tag it counts if it has parameters; if not it is
 * dropped, because it may have been cut.
 */
enum status output_calls_close(struct output_calls *calls, bool has_closing_tag);

/* The completion ends inside the invoke, if one is open. */
enum status output_calls_abandon(struct output_calls *calls);

/*
 * A parameter opens; one that is open is closed, or replaced if it has the same name and no value yet. A
 * parameter outside an invoke, without a name or with a name that was there already is dropped.
 */
enum status output_calls_open_parameter(struct output_calls *calls, const struct dsml_attributes *attributes);

/* Whole characters of the open parameter's value. */
enum status output_calls_append_value(struct output_calls *calls, const char *bytes, size_t length);

enum status output_calls_close_parameter(struct output_calls *calls);

/* The id of a call, "call_" and 16 digits: differs between seeds and indices. */
enum { OUTPUT_CALL_ID_BYTES = 24 };
void output_call_id_format(uint64_t seed, size_t call_index, char out[OUTPUT_CALL_ID_BYTES]);

#endif
