/*
 * Prefixes on disk, below the prefix cache in memory: a directory of entries that outlives the process.
 *
 * There are two kinds of entry for each node of the prefix cache: the rows of its page, and the snapshot at
 * its end. An entry is a file, named after its key: SHA-256 of the model's key, the parent's key and the
 * page's tokens. A file appears under its name complete (written aside, then renamed) and a reader believes
 * nothing that it has not checked, so several processes may share a directory and files may come and go at
 * any time. What does not pass the check is deleted, with one line in the log; to the caller it was never
 * there. The directory is private to its user (0700, files 0600): entries hold what users wrote.
 *
 * Reads are made by the caller's thread, into its memory. Writes are made by a thread of the cache: the
 * caller reserves a buffer, fills it and submits it. When all buffers are on their way the entry is dropped,
 * so nobody who serves waits for a disk to write. The same thread keeps the directory below its limit: what
 * was used longest ago goes first, a page counting as used when an entry that builds on it was.
 *
 * Key, reads, reserving and submitting: one thread at a time. Counters: any thread.
 */
#ifndef SLUICE_ENGINE_PREFIX_DISK_H
#define SLUICE_ENGINE_PREFIX_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/prefix_disk_entry.h"

struct prefix_disk;

struct prefix_disk_options {
    const char *directory; /* made if it is missing; the folder around it must be there */
    /* Digest of all that decides the bytes of a page or snapshot: weights, configuration, arithmetic. */
    uint8_t model_key[PREFIX_KEY_BYTES];
    int32_t page_tokens;
    size_t page_bytes; /* 0: entries are their heads, which say that there is nothing to remember */
    size_t snapshot_bytes;
    uint64_t limit_bytes; /* of all files; another process that writes may take it some over */
    int32_t buffer_count; /* entries that can be on their way to the disk */
};

/* Memory for a payload that is to be written, from reservation to submission. */
struct prefix_disk_buffer {
    enum prefix_entry_kind kind;
    size_t payload_bytes;
    unsigned char *payload; /* aligned to 64 bytes */
};

struct prefix_disk_counters {
    int64_t reads; /* asked for */
    int64_t hits;
    int64_t read_bytes; /* of payloads */
    int64_t damaged;    /* entries that did not pass the check */
    int64_t writes;
    int64_t written_bytes; /* of files */
    int64_t failed_writes;
    int64_t dropped; /* reservations refused because all buffers were on their way */
    int64_t evicted; /* files deleted to stay below the limit */
};

/*
 * Opens or makes the directory and starts the writer. Errors say what is wrong with the directory (IO,
 * NOT_FOUND), or that the limit is too small for one entry of each kind (BAD_ARGUMENT).
 */
enum status prefix_disk_open(const struct prefix_disk_options *options, struct prefix_disk **out);

/* Writes all that was submitted, then frees and nulls; NULL inside is allowed. No buffer may be reserved. */
void prefix_disk_close(struct prefix_disk **disk);

/* The key of a page of `tokens` [page_tokens] after `parent`'s; parent NULL: the first of a prefix. */
enum status prefix_disk_key(struct prefix_disk *disk, const struct prefix_key *parent, const int32_t *tokens,
                            struct prefix_key *out);

/* Whether there is a file of the right size for this entry. Says nothing of what is in it. */
bool prefix_disk_has(const struct prefix_disk *disk, const struct prefix_key *key,
                     enum prefix_entry_kind kind);

/*
 * Reads an entry whose page holds `tokens` into `payload` (page_bytes or snapshot_bytes). Returns whether
 * there was one that passed all checks; otherwise the payload's bytes mean nothing. A hit counts as a use.
 */
bool prefix_disk_read(struct prefix_disk *disk, const struct prefix_key *key, enum prefix_entry_kind kind,
                      const int32_t *tokens, void *payload, bool *has_draft_rows);

/* Deletes the entry if there is one. */
void prefix_disk_drop(struct prefix_disk *disk, const struct prefix_key *key, enum prefix_entry_kind kind);

/* A buffer for a payload of this kind; NULL if there is none now. Cancel or submit it. */
struct prefix_disk_buffer *prefix_disk_reserve(struct prefix_disk *disk, enum prefix_entry_kind kind);

/* Takes the filled buffer back and writes it under this key, in place of what is there. */
void prefix_disk_submit(struct prefix_disk *disk, struct prefix_disk_buffer *buffer,
                        const struct prefix_key *key, const int32_t *tokens, bool has_draft_rows);

/* Takes the buffer back and writes nothing. */
void prefix_disk_cancel(struct prefix_disk *disk, struct prefix_disk_buffer *buffer);

struct prefix_disk_counters prefix_disk_counters(struct prefix_disk *disk);

#endif
