/* Entries between the queue and the workers. */
#include <stdio.h>

#include "server/supervisor_internal.h"

/* Above it a worker gets no more requests until it has read those before. */
enum { BACKLOG_BYTES = 1 << 20, ARENA_BYTES = 4096 };

static void tell(struct journal_entry *entry) {
    if (entry->notify != NULL) {
        entry->notify(entry->notify_context);
    }
}

static void end(struct journal_entry *entry, enum sluice_finish_reason reason, enum status status,
                const char *message) {
    journal_entry_finish(entry, reason, status, message);
    tell(entry);
}

/* Takes the entry from the worker that has it. */
static void take_back(struct supervisor *supervisor, struct journal_entry *entry) {
    struct supervisor_slot *slot = &supervisor->slots[entry->slot];
    slot->on_probation = slot->on_probation == entry ? NULL : slot->on_probation;
    journal_list_remove(&slot->sent, entry);
    id_table_remove(&supervisor->sent, &entry->node);
    entry->slot = -1;
}

static bool is_queued(const struct journal_entry *entry) {
    return entry->slot < 0 && !journal_entry_is_over(entry);
}

/* Returns whether any worker is usable. */
static bool fill_loads(const struct supervisor *supervisor, struct replica_load *loads) {
    bool is_any_usable = false;
    for (int i = 0; i < supervisor->options.worker_count; i++) {
        const struct supervisor_slot *slot = &supervisor->slots[i];
        loads[i].is_usable =
            slot->phase == SLOT_READY && wire_connection_backlog(&slot->connection) < BACKLOG_BYTES;
        loads[i].requests = slot->sent.count;
        is_any_usable = is_any_usable || loads[i].is_usable;
    }
    return is_any_usable;
}

/* Others over which a worker may have died wait until the one that is being tried has got on. */
static bool must_wait(const struct supervisor_slot *slot, const struct journal_entry *entry) {
    return entry->strikes > 0 && slot->on_probation != NULL;
}

/* The worker for an entry, which gets to know its text; -1: none has room, or it must wait. */
static int choose(struct supervisor *supervisor, const struct journal_entry *entry) {
    struct replica_load loads[SUPERVISOR_WORKERS_MAX];
    if (!fill_loads(supervisor, loads)) {
        return -1;
    }
    if (supervisor->options.worker_count == 1) {
        return must_wait(&supervisor->slots[0], entry) ? -1 : 0;
    }
    struct arena arena;
    size_t count;
    arena_init(&arena, ARENA_BYTES);
    const int32_t *text = journal_entry_text(entry, &arena, &count);
    int replica = replica_router_choose(supervisor->router, text, text == NULL ? 0 : count, loads);
    if (replica >= 0 && must_wait(&supervisor->slots[replica], entry)) {
        replica = -1;
    }
    if (replica >= 0 && text != NULL) {
        replica_router_learn(supervisor->router, replica, text, count);
    }
    arena_deinit(&arena);
    return replica;
}

static void send_entry(struct supervisor *supervisor, struct journal_entry *entry,
                       struct supervisor_slot *slot, double now) {
    journal_list_remove(&supervisor->queued, entry);
    entry->node.id = ++supervisor->last_id;
    enum status status = journal_entry_write(entry, now, &slot->connection.out);
    if (status != STATUS_OK) {
        end(entry, SLUICE_FINISH_ERROR, status, error_last()->message);
        return;
    }
    entry->slot = slot->index;
    slot->on_probation = entry->strikes > 0 ? entry : slot->on_probation;
    journal_list_insert(&slot->sent, entry);
    id_table_put(&supervisor->sent, &entry->node);
}

void supervisor_dispatch(struct supervisor *supervisor, double now) {
    struct journal_entry *next = NULL;
    for (struct journal_entry *entry = supervisor->queued.first; entry != NULL; entry = next) {
        next = entry->next;
        if (entry->deadline > 0.0 && now >= entry->deadline) {
            journal_list_remove(&supervisor->queued, entry);
            end(entry, SLUICE_FINISH_DEADLINE, STATUS_OK, "");
            continue;
        }
        int slot = choose(supervisor, entry);
        if (slot >= 0) {
            send_entry(supervisor, entry, &supervisor->slots[slot], now);
        }
    }
}

static void put_of_entry(struct supervisor *supervisor, const struct journal_entry *entry,
                         enum wire_kind kind) {
    struct wire_record record = {.kind = kind, .id = entry->node.id};
    wire_connection_put(&supervisor->slots[entry->slot].connection, &record);
}

static void carry_out(struct supervisor *supervisor, struct journal_entry *entry) {
    if (entry->is_released) {
        if (entry->slot >= 0) {
            put_of_entry(supervisor, entry, WIRE_RELEASE);
            take_back(supervisor, entry);
        } else if (is_queued(entry)) {
            journal_list_remove(&supervisor->queued, entry);
        }
        journal_entry_destroy(&entry);
    } else if (is_queued(entry)) {
        journal_list_remove(&supervisor->queued, entry);
        end(entry, SLUICE_FINISH_CANCELLED, STATUS_OK, "");
    } else if (entry->slot >= 0) {
        put_of_entry(supervisor, entry, WIRE_CANCEL);
    }
}

void supervisor_take_wishes(struct supervisor *supervisor) {
    while (supervisor->first_wish != NULL) {
        struct journal_entry *entry = supervisor->first_wish;
        supervisor->first_wish = entry->next_wish;
        entry->has_wish = false;
        carry_out(supervisor, entry);
    }
}

/* What the worker knows from now on: a next turn begins with it. */
static void learn_answer(struct supervisor *supervisor, const struct supervisor_slot *slot,
                         const struct journal_entry *entry) {
    struct arena arena;
    size_t count;
    if (supervisor->options.worker_count == 1) {
        return;
    }
    arena_init(&arena, ARENA_BYTES);
    const int32_t *text = journal_entry_text(entry, &arena, &count);
    if (text != NULL) {
        replica_router_learn(supervisor->router, slot->index, text, count);
    }
    arena_deinit(&arena);
}

enum status supervisor_take_update(struct supervisor *supervisor, struct supervisor_slot *slot,
                                   const struct wire_record *record) {
    struct id_node *node = id_table_find(&supervisor->sent, record->id);
    if (node == NULL) {
        return STATUS_OK; /* of a generation that was released meanwhile */
    }
    struct journal_entry *entry = journal_entry_of_node(node);
    CHECK(entry->slot == slot->index, STATUS_BAD_FORMAT, "worker %d speaks of a request of worker %d",
          slot->index, entry->slot);
    TRY(journal_entry_update(entry, &record->update));
    if (slot->on_probation == entry && entry->strikes == 0) {
        slot->on_probation = NULL;
    }
    if (journal_entry_is_over(entry)) {
        take_back(supervisor, entry);
        learn_answer(supervisor, slot, entry);
    }
    tell(entry);
    return STATUS_OK;
}

/*
 * Whether the worker may have been running the entry: it runs so many at once, by priority and arrival. The
 * others have nothing to do with its death.
 */
static bool may_have_run(const struct supervisor_slot *slot, const struct journal_entry *entry) {
    int before = 0;
    bool is_behind = false;
    for (const struct journal_entry *other = slot->sent.first; other != NULL; other = other->next) {
        is_behind = is_behind || other == entry;
        before += other->priority < entry->priority || (other->priority == entry->priority && !is_behind);
    }
    return before < slot->facts.sequence_limit;
}

/*
 * A worker compiles grammars before a request runs, in an order that depends on how long they take: it may
 * have been at any of those that have no token yet.
 */
static bool may_have_been_compiled(const struct journal_entry *entry) {
    return entry->has_grammar && !entry->is_answered;
}

static void mark_suspects(struct supervisor_slot *slot) {
    for (struct journal_entry *entry = slot->sent.first; entry != NULL; entry = entry->next) {
        entry->is_suspect = may_have_been_compiled(entry) || may_have_run(slot, entry);
    }
}

void supervisor_requeue(struct supervisor *supervisor, struct supervisor_slot *slot, const char *reason) {
    mark_suspects(slot);
    while (slot->sent.first != NULL) {
        struct journal_entry *entry = slot->sent.first;
        take_back(supervisor, entry);
        if (entry->is_released) {
            journal_list_insert(&supervisor->queued, entry); /* where its wish finds it */
        } else if (entry->is_cancelled) {
            end(entry, SLUICE_FINISH_CANCELLED, STATUS_OK, "");
        } else if (journal_entry_strike(entry, entry->is_suspect)) {
            journal_list_insert(&supervisor->queued, entry);
        } else {
            char message[sizeof entry->message];
            snprintf(message, sizeof message,
                     "two workers in a row stopped while they had this request (%.256s); try again", reason);
            end(entry, SLUICE_FINISH_ERROR, STATUS_PEER_LOST, message);
        }
    }
}

void supervisor_fail_queue(struct supervisor *supervisor, const char *reason) {
    while (supervisor->queued.first != NULL) {
        struct journal_entry *entry = supervisor->queued.first;
        journal_list_remove(&supervisor->queued, entry);
        end(entry, SLUICE_FINISH_ERROR, STATUS_PEER_LOST, reason);
    }
}
