/* Lists of members lie in one array behind each other. */
#include "text/grammar/dfa_builder.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/compile_work.h"

void dfa_builder_init(struct dfa_builder *builder, uint32_t state_limit) {
    *builder = (struct dfa_builder){.state_limit = state_limit};
}

void dfa_builder_deinit(struct dfa_builder *builder) {
    free(builder->member_offsets);
    free(builder->member_counts);
    free(builder->edge_offsets);
    free(builder->is_accepting);
    free(builder->members);
    free(builder->edges);
    free(builder->slots);
    *builder = (struct dfa_builder){0};
}

bool dfa_builder_is_good(const struct dfa_builder *builder) {
    return !builder->is_out_of_memory && !builder->is_over_limit;
}

/* Resizes one array; on failure the old one stays. */
static bool resize(void *array_pointer, size_t count, size_t element_bytes) {
    void *old;
    memcpy(&old, array_pointer, sizeof old);
    void *resized = realloc(old, count * element_bytes);
    if (resized == NULL) {
        return false;
    }
    memcpy(array_pointer, &resized, sizeof resized);
    return true;
}

static bool grow_states(struct dfa_builder *builder) {
    uint32_t capacity = builder->state_capacity == 0 ? 64 : 2 * builder->state_capacity;
    bool is_grown = resize(&builder->member_offsets, capacity, sizeof *builder->member_offsets) &&
                    resize(&builder->member_counts, capacity, sizeof *builder->member_counts) &&
                    resize(&builder->edge_offsets, capacity + 1, sizeof *builder->edge_offsets) &&
                    resize(&builder->is_accepting, capacity, sizeof *builder->is_accepting);
    builder->state_capacity = is_grown ? capacity : builder->state_capacity;
    return is_grown;
}

static uint32_t hash_members(const uint32_t *members, uint32_t count) {
    uint64_t hash = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ members[i]) * 0x100000001B3u;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

static uint32_t find_slot(const struct dfa_builder *builder, const uint32_t *members, uint32_t count) {
    uint32_t slot = hash_members(members, count) & (builder->slot_count - 1);
    for (;; slot = (slot + 1) & (builder->slot_count - 1)) {
        uint32_t state = builder->slots[slot];
        if (state == UINT32_MAX) {
            return slot;
        }
        if (builder->member_counts[state] == count &&
            memcmp(builder->members + builder->member_offsets[state], members, count * sizeof *members) ==
                0) {
            return slot;
        }
    }
}

static bool grow_slots(struct dfa_builder *builder) {
    uint32_t slot_count = builder->slot_count == 0 ? 256 : 2 * builder->slot_count;
    if (!resize(&builder->slots, slot_count, sizeof *builder->slots)) {
        return false;
    }
    builder->slot_count = slot_count;
    memset(builder->slots, 0xFF, slot_count * sizeof *builder->slots);
    for (uint32_t s = 0; s < builder->state_count; s++) {
        uint32_t slot =
            find_slot(builder, builder->members + builder->member_offsets[s], builder->member_counts[s]);
        builder->slots[slot] = s;
    }
    return true;
}

static bool make_room(struct dfa_builder *builder, uint32_t member_count) {
    if (builder->state_count == builder->state_capacity && !grow_states(builder)) {
        return false;
    }
    if (2 * (builder->state_count + 1) > builder->slot_count && !grow_slots(builder)) {
        return false;
    }
    uint32_t capacity = builder->member_capacity == 0 ? 256 : builder->member_capacity;
    while (capacity < builder->member_total + member_count) {
        capacity *= 2;
    }
    if (capacity != builder->member_capacity) {
        if (!resize(&builder->members, capacity, sizeof *builder->members)) {
            return false;
        }
        builder->member_capacity = capacity;
    }
    return true;
}

enum {
    MEMBER_TOTAL_MAX = 1 << 26, /* sets of states may be long: what they take together has a limit too */
    STATE_UNITS = 8             /* of work, for a new state */
};

uint32_t dfa_builder_find_state(struct dfa_builder *builder, const uint32_t *members, uint32_t count) {
    if (!dfa_builder_is_good(builder)) {
        return 0;
    }
    if (!make_room(builder, count)) {
        builder->is_out_of_memory = true;
        return 0;
    }
    uint32_t slot = find_slot(builder, members, count);
    if (builder->slots[slot] != UINT32_MAX) {
        return builder->slots[slot];
    }
    if (builder->state_count == builder->state_limit || builder->member_total > MEMBER_TOTAL_MAX ||
        !compile_work_spend(STATE_UNITS + count)) {
        builder->is_over_limit = true;
        return 0;
    }
    uint32_t state = builder->state_count++;
    builder->slots[slot] = state;
    builder->member_offsets[state] = builder->member_total;
    builder->member_counts[state] = count;
    memcpy(builder->members + builder->member_total, members, count * sizeof *members);
    builder->member_total += count;
    return state;
}

const uint32_t *dfa_builder_members(const struct dfa_builder *builder, uint32_t state, uint32_t *count) {
    *count = builder->member_counts[state];
    return builder->members + builder->member_offsets[state];
}

void dfa_builder_open_state(struct dfa_builder *builder, bool is_accepting) {
    if (dfa_builder_is_good(builder)) {
        builder->is_accepting[builder->opened_count] = is_accepting;
        builder->edge_offsets[builder->opened_count++] = builder->edge_count;
    }
}

void dfa_builder_add_edge(struct dfa_builder *builder, uint32_t first, uint32_t last, uint32_t target) {
    if (!dfa_builder_is_good(builder)) {
        return;
    }
    if (builder->edge_count > builder->edge_offsets[builder->opened_count - 1]) {
        struct dfa_edge *before = &builder->edges[builder->edge_count - 1];
        if (before->target == target && before->last + 1 == first && first < SYMBOL_CONTROL) {
            before->last = last;
            return;
        }
    }
    if (builder->edge_count == builder->edge_capacity) {
        uint32_t capacity = builder->edge_capacity == 0 ? 256 : 2 * builder->edge_capacity;
        if (!resize(&builder->edges, capacity, sizeof *builder->edges)) {
            builder->is_out_of_memory = true;
            return;
        }
        builder->edge_capacity = capacity;
    }
    builder->edges[builder->edge_count++] = (struct dfa_edge){first, last, target};
}

enum status dfa_builder_finish(struct dfa_builder *builder, const char *what, struct dfa *out) {
    CHECK(!builder->is_out_of_memory, STATUS_OUT_OF_MEMORY, "out of memory");
    CHECK(!builder->is_over_limit, STATUS_UNSUPPORTED,
          "%s is too large: its automaton would need more than %u states; lower its counts or simplify it",
          what, builder->state_limit);
    if (builder->state_count == 0) {
        *out = (struct dfa){0};
        return STATUS_OK;
    }
    builder->edge_offsets[builder->state_count] = builder->edge_count;
    *out = (struct dfa){builder->state_count, builder->edge_offsets, builder->edges, builder->is_accepting};
    builder->edge_offsets = NULL;
    builder->edges = NULL;
    builder->is_accepting = NULL;
    return STATUS_OK;
}
