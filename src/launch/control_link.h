/*
 * A rank's end of the control connection.
 *
 * A thread of its own reports several times a second what the rank is at, and ends the process at once when
 * the supervisor says so, when the supervisor is gone, or at SIGTERM: a rank that waits for a lost one is in
 * no state to end in order. What has been written by then is kept.
 */
#ifndef SLUICE_LAUNCH_CONTROL_LINK_H
#define SLUICE_LAUNCH_CONTROL_LINK_H

#include "launch/control_channel.h"

struct control_link;

struct control_link_options {
    const char *address;      /* job_supervisor_address */
    struct string_buffer key; /* taken over, also after a failure */
    int rank;
    int rank_count;
};

/*
 * Connects, proves to belong to the job and takes over the standard streams that the supervisor gives; blocks
 * SIGTERM in the caller and in threads started later. Must come before other threads. Owned:
 * control_link_leave or control_link_fail.
 */
enum status control_link_open(struct control_link_options *options, struct control_link **out);

/* From now on reports are what `describe` writes, called on the link's thread. NULL: no more. */
void control_link_set_describe(struct control_link *link,
                               void (*describe)(void *context, char *text, size_t bytes), void *context);

/* This rank ends: as it should with an exit code, or by a failure that the supervisor reports. Frees; nulls.
 */
void control_link_leave(struct control_link **link, int exit_code);
void control_link_fail(struct control_link **link, int exit_code, enum status status, const char *message);

#endif
