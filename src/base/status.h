/*
 * Status codes and the per-thread error record.
 *
 * A function that can fail returns enum status and leaves its results in its last pointer parameters.
 * FAIL and CHECK start an error record (one sentence for the user), TRY forwards a failure and adds the
 * place to the record's trace. Nothing here prints; the command line prints the record once, at the top.
 */
#ifndef SLUICE_BASE_STATUS_H
#define SLUICE_BASE_STATUS_H

#include "sluice/status.h"

/* The internal names of the public codes, with the same values. */
enum status {
#define X(name, value, text) STATUS_##name = (value),
    SLUICE_STATUS_LIST(X)
#undef X
};

enum { ERROR_MESSAGE_BYTES = 4096, ERROR_FRAMES_MAX = 16 };

struct error_frame {
    const char *file;
    const char *function;
    int line;
};

/* The last failure of a thread. `frames` runs from the failing function outwards. */
struct error_record {
    enum status status;
    int frame_count;
    struct error_frame frames[ERROR_FRAMES_MAX];
    char message[ERROR_MESSAGE_BYTES];
};

/* Name ("BAD_SHAPE") and text of a status. Static strings. */
const char *status_name(enum status status);
const char *status_text(enum status status);

/* Starts this thread's error record and returns `status`. A longer message is cut at a character. */
enum status error_raise(enum status status, struct error_frame frame, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the place to this thread's record and returns `status`. */
enum status error_forward(enum status status, struct error_frame frame);

/* This thread's record: never NULL, valid until the thread's next failure. */
const struct error_record *error_last(void);

#define ERROR_HERE ((struct error_frame){__FILE__, __func__, __LINE__})

/*
 * The macros return their own copy of the status, not what error_raise returns: so a compiler and a static
 * analyser see that no result is used after a failure.
 */

/* Leaves the function with an error. */
#define FAIL(code, ...)                                     \
    do {                                                    \
        const enum status fail_status_ = (code);            \
        error_raise(fail_status_, ERROR_HERE, __VA_ARGS__); \
        return fail_status_;                                \
    } while (0)

/* Leaves the function with an error if the condition on its input does not hold. */
#define CHECK(condition, code, ...)  \
    do {                             \
        if (!(condition)) {          \
            FAIL(code, __VA_ARGS__); \
        }                            \
    } while (0)

/* Leaves the function with the callee's failure. */
#define TRY(call)                                   \
    do {                                            \
        const enum status try_status_ = (call);     \
        if (try_status_ != STATUS_OK) {             \
            error_forward(try_status_, ERROR_HERE); \
            return try_status_;                     \
        }                                           \
    } while (0)

/* As FAIL, CHECK and TRY, for functions that clean up: sets the local `status` and jumps to `fail`. */
#define FAIL_GOTO(code, ...)                          \
    do {                                              \
        status = (code);                              \
        error_raise(status, ERROR_HERE, __VA_ARGS__); \
        goto fail;                                    \
    } while (0)
#define CHECK_GOTO(condition, code, ...)  \
    do {                                  \
        if (!(condition)) {               \
            FAIL_GOTO(code, __VA_ARGS__); \
        }                                 \
    } while (0)
#define TRY_GOTO(call)                         \
    do {                                       \
        status = (call);                       \
        if (status != STATUS_OK) {             \
            error_forward(status, ERROR_HERE); \
            goto fail;                         \
        }                                      \
    } while (0)

/* For the most common failure. */
#define CHECK_MEMORY(pointer) CHECK((pointer) != NULL, STATUS_OUT_OF_MEMORY, "out of memory")
#define CHECK_MEMORY_GOTO(pointer) CHECK_GOTO((pointer) != NULL, STATUS_OUT_OF_MEMORY, "out of memory")

#endif
