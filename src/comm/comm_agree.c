/*
 * What ranks tell each other about themselves: host memory, a few bytes.
 *
 * A maximum spreads in rounds: with distance 1, 2, 4, ... each rank hears what the ranks behind it know. So
 * everybody has heard of everybody after log2(size) rounds, for any size, and a maximum does not mind hearing
 * of a rank twice.
 */
#include <string.h>

#include "base/clock.h"
#include "comm/comm_pass.h"

/* Both outlive the pass, whose messages they are. */
struct maximum {
    uint64_t known;
    uint64_t heard;
};

static enum status spread_maximum(struct comm_pass *pass, struct maximum *value) {
    const struct comm *comm = pass->comm;
    for (int distance = 1; distance < comm->size; distance *= 2) {
        int from = (comm->rank + comm->size - distance) % comm->size;
        TRY(comm_pass_receive(pass, from, &value->heard, sizeof value->heard));
        TRY(comm_pass_send(pass, (comm->rank + distance) % comm->size, &value->known, sizeof value->known));
        TRY(comm_pass_wait(pass));
        value->known = value->heard > value->known ? value->heard : value->known;
    }
    return STATUS_OK;
}

static enum status find_maximum(struct comm *comm, const char *operation, uint64_t *value) {
    struct comm_pass pass;
    TRY(comm_check_usable(comm, operation));
    TRY(comm_pass_begin(comm, NULL, operation, &pass));
    struct maximum maximum = {.known = *value};
    enum status status = spread_maximum(&pass, &maximum);
    comm_pass_end(&pass);
    TRY(status);
    *value = maximum.known;
    return STATUS_OK;
}

enum status comm_barrier(struct comm *comm) {
    uint64_t nothing = 0;
    TRY(find_maximum(comm, "comm_barrier", &nothing));
    return STATUS_OK;
}

enum status comm_agree(struct comm *comm, enum status own) {
    /* The larger status counts, then the lower rank. */
    uint64_t worst = (uint64_t)own << 32 | (UINT32_MAX - (uint32_t)comm->rank);
    TRY(find_maximum(comm, "comm_agree", &worst));
    enum status agreed = (enum status)(worst >> 32);
    if (agreed == STATUS_OK) {
        return STATUS_OK;
    }
    int speaker = (int)(UINT32_MAX - (uint32_t)worst);
    char sentence[ERROR_MESSAGE_BYTES] = "";
    const struct error_record *record = error_last();
    strcpy(sentence, record->status == own ? record->message : status_text(own));
    TRY(comm_broadcast_host(comm, speaker, sentence, sizeof sentence));
    if (agreed != own) {
        FAIL(agreed, "rank %d of %d failed: %s", speaker, comm->size, sentence);
    }
    return agreed;
}

/* Ranks count from the root here. A rank hears from the one whose number lacks its lowest bit. */
static enum status spread_memory(struct comm_pass *pass, int root, void *memory, size_t bytes) {
    const struct comm *comm = pass->comm;
    int number = (comm->rank + comm->size - root) % comm->size;
    int reach = 1;
    while (reach < comm->size && (number & reach) == 0) {
        reach *= 2;
    }
    if (number != 0) {
        TRY(comm_pass_receive(pass, (number - reach + root) % comm->size, memory, bytes));
        pass->deadline_seconds = comm->idle_seconds;
        TRY(comm_pass_wait(pass));
        pass->started = clock_seconds();
        pass->deadline_seconds = comm->deadline_seconds;
    }
    for (reach /= 2; reach > 0; reach /= 2) {
        if (number + reach < comm->size) {
            TRY(comm_pass_send(pass, (number + reach + root) % comm->size, memory, bytes));
        }
    }
    TRY(comm_pass_wait(pass));
    return STATUS_OK;
}

enum status comm_broadcast_host(struct comm *comm, int root, void *memory, size_t bytes) {
    struct comm_pass pass;
    TRY(comm_check_usable(comm, "comm_broadcast_host"));
    TRY(comm_pass_begin(comm, NULL, "comm_broadcast_host", &pass));
    enum status status = spread_memory(&pass, root, memory, bytes);
    comm_pass_end(&pass);
    TRY(status);
    return STATUS_OK;
}
