/* Sizes are small: hundreds of experts, at most 64 ranks. Choosing is not on the way of a step. */
#include "parallel/expert_balance.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "parallel/shard.h"

enum { RANKS_MAX = 64 };

/* A layer moves if its fullest rank gets so much emptier. */
static const double moved_share = 0.95;

int expert_balance_places(const struct expert_balance_shape *shape, int rank) {
    return (int)shard_cut_experts(shape->place_count, rank, shape->rank_count).count;
}

bool expert_balance_starts_with(const struct expert_balance_shape *shape, int rank, int expert) {
    struct shard_range own = shard_cut_experts(shape->place_count, rank, shape->rank_count);
    for (int64_t place = expert; place < shape->place_count; place += shape->expert_count) {
        if (place >= own.first && place < own.first + own.count) {
            return true;
        }
    }
    return false;
}

static size_t entry_count(const struct expert_balance *balance) {
    return (size_t)balance->shape.layer_count * (size_t)balance->shape.expert_count;
}

size_t expert_balance_bytes(const struct expert_balance *balance) {
    return entry_count(balance) * sizeof *balance->holders;
}

static uint64_t first_holders(const struct expert_balance_shape *shape, int expert) {
    uint64_t holders = 0;
    for (int rank = 0; rank < shape->rank_count; rank++) {
        holders |= (uint64_t)expert_balance_starts_with(shape, rank, expert) << rank;
    }
    return holders;
}

enum status expert_balance_init(struct expert_balance *balance, const struct expert_balance_shape *shape) {
    assert(shape->rank_count <= RANKS_MAX && shape->place_count >= shape->expert_count);
    *balance = (struct expert_balance){.shape = *shape};
    size_t entries = entry_count(balance);
    balance->holders = calloc(entries, sizeof *balance->holders);
    balance->next_holders = calloc(entries, sizeof *balance->next_holders);
    balance->counts = calloc(entries, sizeof *balance->counts);
    CHECK_MEMORY(balance->holders);
    CHECK_MEMORY(balance->next_holders);
    balance->copies = calloc((size_t)shape->expert_count, sizeof *balance->copies);
    CHECK_MEMORY(balance->counts);
    CHECK_MEMORY(balance->copies);
    for (size_t i = 0; i < entries; i++) {
        balance->holders[i] = first_holders(shape, (int)(i % (size_t)shape->expert_count));
    }
    memcpy(balance->next_holders, balance->holders, expert_balance_bytes(balance));
    return STATUS_OK;
}

void expert_balance_deinit(struct expert_balance *balance) {
    free(balance->holders);
    free(balance->next_holders);
    free(balance->counts);
    free(balance->copies);
    *balance = (struct expert_balance){0};
}

static int count_holders(uint64_t holders) {
    int count = 0;
    for (; holders != 0; holders &= holders - 1) {
        count++;
    }
    return count;
}

static size_t entry_of(const struct expert_balance *balance, int layer, int32_t expert) {
    return (size_t)layer * (size_t)balance->shape.expert_count + (size_t)expert;
}

int expert_balance_owner(const struct expert_balance *balance, int layer, int32_t expert, int64_t row) {
    uint64_t holders = balance->holders[entry_of(balance, layer, expert)];
    for (int64_t turn = row % count_holders(holders); turn > 0; turn--) {
        holders &= holders - 1;
    }
    int rank = 0;
    while ((holders >> rank & 1) == 0) {
        rank++;
    }
    return rank;
}

void expert_balance_count(struct expert_balance *balance, int layer, int32_t expert) {
    balance->counts[entry_of(balance, layer, expert)]++;
}

/* Rows of an expert for each rank that has it. */
static double share_of(uint64_t count, uint64_t holders) {
    return (double)count / count_holders(holders);
}

double expert_balance_skew(const struct expert_balance *balance, int layer, const uint64_t *holders) {
    const struct expert_balance_shape *shape = &balance->shape;
    const uint64_t *counts = balance->counts + entry_of(balance, layer, 0);
    double sum = 0.0;
    double most = 0.0;
    for (int rank = 0; rank < shape->rank_count; rank++) {
        double rows = 0.0;
        for (int e = 0; e < shape->expert_count; e++) {
            rows += (holders[e] >> rank & 1) != 0 ? share_of(counts[e], holders[e]) : 0.0;
        }
        sum += rows;
        most = rows > most ? rows : most;
    }
    return sum == 0.0 ? 1.0 : most * shape->rank_count / sum;
}

double expert_balance_mean_skew(const struct expert_balance *balance) {
    double sum = 0.0;
    int count = 0;
    for (int layer = 0; layer < balance->shape.layer_count; layer++) {
        size_t first = entry_of(balance, layer, 0);
        bool is_picked = false;
        for (int e = 0; e < balance->shape.expert_count; e++) {
            is_picked |= balance->counts[first + (size_t)e] > 0;
        }
        sum += is_picked ? expert_balance_skew(balance, layer, balance->holders + first) : 0.0;
        count += is_picked;
    }
    return count == 0 ? 1.0 : sum / count;
}

/* One layer, being placed. */
struct placing {
    const struct expert_balance_shape *shape;
    const uint64_t *counts;
    uint64_t *holders;
    int places[RANKS_MAX];  /* that a rank has left */
    double rows[RANKS_MAX]; /* that it computes */
};

/* The rank for one more holder of an expert; -1 if all that have place left have it. */
static int find_rank(const struct placing *placing, int expert) {
    int best = -1;
    for (int rank = 0; rank < placing->shape->rank_count; rank++) {
        bool is_possible = placing->places[rank] > 0 && (placing->holders[expert] >> rank & 1) == 0;
        if (is_possible && (best < 0 || placing->rows[rank] < placing->rows[best])) {
            best = rank;
        }
    }
    return best;
}

/* How many ranks each expert is to lie on. */
static void choose_copies(const struct expert_balance_shape *shape, const uint64_t *counts, int *copies) {
    for (int e = 0; e < shape->expert_count; e++) {
        copies[e] = 1;
    }
    for (int place = shape->expert_count; place < shape->place_count; place++) {
        int best = -1;
        for (int e = 0; e < shape->expert_count; e++) {
            /* counts[e] / copies[e] against the best one's, without rounding. */
            bool is_possible = copies[e] < shape->rank_count;
            if (is_possible &&
                (best < 0 || counts[e] * (uint64_t)copies[best] > counts[best] * (uint64_t)copies[e])) {
                best = e;
            }
        }
        if (best >= 0) {
            copies[best]++;
        }
    }
}

/* The expert whose copies are fullest of those that are not placed yet; copies: of those that are, 0. */
static int find_fullest(const struct placing *placing, const int *copies) {
    int best = -1;
    for (int e = 0; e < placing->shape->expert_count; e++) {
        if (copies[e] > 0 && (best < 0 || placing->counts[e] * (uint64_t)copies[best] >
                                              placing->counts[best] * (uint64_t)copies[e])) {
            best = e;
        }
    }
    return best;
}

/*
 * Each expert has a holder: places are no fewer than experts and copies. A copy for which only ranks have
 * place that have the expert already is left out.
 */
static void place_layer(struct placing *placing, int *copies) {
    const struct expert_balance_shape *shape = placing->shape;
    memset(placing->holders, 0, (size_t)shape->expert_count * sizeof *placing->holders);
    for (int rank = 0; rank < shape->rank_count; rank++) {
        placing->places[rank] = expert_balance_places(shape, rank);
        placing->rows[rank] = 0.0;
    }
    choose_copies(shape, placing->counts, copies);
    for (int expert; (expert = find_fullest(placing, copies)) >= 0; copies[expert] = 0) {
        double rows = (double)placing->counts[expert] / copies[expert];
        for (int copy = 0; copy < copies[expert]; copy++) {
            int rank = find_rank(placing, expert);
            if (rank >= 0) {
                placing->holders[expert] |= (uint64_t)1 << rank;
                placing->places[rank]--;
                placing->rows[rank] += rows;
            }
        }
    }
}

static void choose_layer(struct expert_balance *balance, int layer, int *copies) {
    size_t first = entry_of(balance, layer, 0);
    struct placing placing = {.shape = &balance->shape,
                              .counts = balance->counts + first,
                              .holders = balance->next_holders + first};
    place_layer(&placing, copies);
    double before = expert_balance_skew(balance, layer, balance->holders + first);
    if (expert_balance_skew(balance, layer, placing.holders) > moved_share * before) {
        memcpy(placing.holders, balance->holders + first,
               (size_t)balance->shape.expert_count * sizeof *placing.holders);
    }
}

void expert_balance_choose(struct expert_balance *balance) {
    const struct expert_balance_shape *shape = &balance->shape;
    int *copies = balance->copies;
    for (int layer = 0; layer < shape->layer_count; layer++) {
        choose_layer(balance, layer, copies);
    }
    for (size_t i = 0; i < entry_count(balance); i++) {
        balance->counts[i] /= 2;
    }
}

bool expert_balance_is_new(const struct expert_balance *balance, int layer, int expert, int rank) {
    size_t entry = entry_of(balance, layer, expert);
    return (balance->next_holders[entry] & ~balance->holders[entry]) >> rank & 1;
}

void expert_balance_switch(struct expert_balance *balance) {
    memcpy(balance->holders, balance->next_holders, expert_balance_bytes(balance));
}
