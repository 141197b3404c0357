/* One gather of fixed records (spec parallelism A.4). */
#include "engine/lockstep.h"

enum { REPLICAS_MAX = 64 };

/* All ranks are the same build: a record is memory as it is. */
struct lockstep_record {
    uint64_t number;
    int32_t rows;
    int32_t draft_passes;
    int32_t in_flight;
    int32_t is_ending;
};

static void add(const struct lockstep_record *record, struct lockstep_tick *out) {
    out->rows += record->rows;
    out->draft_passes = record->draft_passes > out->draft_passes ? record->draft_passes : out->draft_passes;
    out->is_idle = out->is_idle && record->rows == 0 && record->in_flight == 0;
    out->is_end = out->is_end && record->is_ending != 0;
}

enum status lockstep_agree(struct comm *leaders, uint64_t number, const struct lockstep_wish *own,
                           struct lockstep_tick *out) {
    struct lockstep_record records[REPLICAS_MAX] = {{.number = number,
                                                     .rows = own->rows,
                                                     .draft_passes = own->draft_passes,
                                                     .in_flight = own->in_flight,
                                                     .is_ending = own->is_ending}};
    int count = leaders == NULL ? 1 : comm_size(leaders);
    if (leaders != NULL) {
        struct lockstep_record of_own = records[0];
        size_t offsets[REPLICAS_MAX + 1];
        for (int i = 0; i <= count; i++) {
            offsets[i] = (size_t)i * sizeof of_own;
        }
        TRY(comm_gather(leaders, NULL, &of_own, offsets, records));
    }
    *out = (struct lockstep_tick){.is_idle = true, .is_end = true};
    for (int i = 0; i < count; i++) {
        CHECK(records[i].number == number, STATUS_INTERNAL,
              "replica %d is at exchange %llu, replica %d at %llu: they have lost their lockstep", i,
              (unsigned long long)records[i].number, leaders == NULL ? 0 : comm_rank(leaders),
              (unsigned long long)number);
        add(&records[i], out);
    }
    return STATUS_OK;
}
