/*
 * Status codes of every function that can fail, public and internal.
 *
 * One list yields the enum, the names and the texts; values are stable.
 */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text) */
#define SLUICE_STATUS_LIST(X)                                          \
    X(OK, 0, "success")                                                \
    X(USAGE, 1, "the command line is wrong")                           \
    X(BAD_ARGUMENT, 2, "an argument is outside its contract")          \
    X(NOT_FOUND, 3, "a file or name was not found")                    \
    X(IO, 4, "reading or writing failed")                              \
    X(BAD_FORMAT, 5, "the input does not follow its format")           \
    X(BAD_CONFIG, 6, "the model configuration is not valid")           \
    X(BAD_CHECKPOINT, 7, "the checkpoint does not fit the model")      \
    X(BAD_SHAPE, 8, "tensor shapes or types do not fit the operation") \
    X(UNSUPPORTED, 9, "valid, but not implemented here")               \
    X(OUT_OF_MEMORY, 10, "memory could not be allocated")              \
    X(OUT_OF_RANGE, 11, "a value is outside its range")                \
    X(CONTEXT_FULL, 12, "the context length is used up")               \
    X(NOT_FINITE, 13, "the model produced a value that is not finite") \
    X(INTERNAL, 14, "an internal promise was broken")                  \
    X(PEER_LOST, 15, "another rank failed or did not answer in time")

enum sluice_status {
#define X(name, value, text) SLUICE_##name = (value),
    SLUICE_STATUS_LIST(X)
#undef X
};

/* Text of a status: a static string, never NULL. Any thread. */
const char *sluice_status_text(enum sluice_status status);

/*
 * What the last failed call on this thread said: one sentence with what, where and what to do.
 * Owned by the thread, valid until its next failing call; "" if none failed.
 */
const char *sluice_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
