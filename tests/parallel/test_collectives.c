/*
 * Collectives by meaning, on ranks as threads (spec parallelism S-1 to S-5, 3.4, 5.2 to 5.4, T-2): against
 * values that the test knows of every row, sums in a tree of its own, and experts on one rank; bytes against
 * the formulas.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/expert_balance.h"
#include "parallel/rank_steps.h"
#include "tensor/elements.h"

static const int group_sizes[] = {1, 2, 3, 4, 8};

enum { GROUP_SIZES = sizeof group_sizes / sizeof group_sizes[0], WIDTH = 5 };

static void run_all_sizes(rank_body *body, enum numerics numerics) {
    for (int g = 0; g < GROUP_SIZES; g++) {
        int ranks = group_sizes[g];
        for (int64_t rows = 1; rows <= 4 * ranks + 1; rows++) {
            for (int is_shared = 0; is_shared < 2; is_shared++) {
                rank_steps_run(&(struct rank_setting){.count = ranks,
                                                      .rows = rows,
                                                      .is_shared = is_shared == 1,
                                                      .numerics = numerics,
                                                      .has_expert_parallelism = true},
                               body, NULL);
            }
        }
    }
}

/* S-1, S-2: own rows of known values, then all of them in the order of ranks; and back. */
static void check_round_trip(struct rank_step *rank) {
    struct shard_range own = parallel_own_range(&rank->step);
    struct placed_rows mine = {.layout = rank->step.shares == NULL ? ROWS_FULL : ROWS_SHARD,
                               .shares = rank->step.shares};
    struct placed_rows full;
    struct placed_rows back;
    mine.tensor = rank_steps_tensor(rank, DTYPE_F32, own.count, WIDTH);
    float *values = mine.tensor.data;
    for (int64_t i = 0; i < own.count * WIDTH; i++) {
        values[i] = rank_steps_value(1, own.first * WIDTH + i);
    }
    uint64_t before = comm_sent_bytes(rank->ranks.tensor);
    EXPECT(parallel_gather_rows(&rank->step, &mine, &full) == STATUS_OK);
    /* 3.4: own rows to each of the others; nothing where all have all. */
    uint64_t others = rank->step.shares == NULL ? 0 : (uint64_t)rank->ranks.count - 1;
    EXPECT(comm_sent_bytes(rank->ranks.tensor) - before ==
           others * (uint64_t)(own.count * WIDTH) * sizeof(float));
    EXPECT(full.layout == ROWS_FULL && full.tensor.shape[0] == rank->batch.row_count);
    for (int64_t i = 0; i < rank->batch.row_count * WIDTH; i++) {
        EXPECT(((float *)full.tensor.data)[i] == rank_steps_value(1, i));
    }
    EXPECT(parallel_shard_rows(&rank->step, &full, &back) == STATUS_OK);
    EXPECT(back.tensor.shape[0] == own.count &&
           memcmp(back.tensor.data, values, tensor_bytes(&back.tensor)) == 0);
    struct batch_view batch = parallel_own_batch(&rank->step);
    EXPECT(batch.row_count == own.count && batch.row_segment == rank->batch.row_segment + own.first);
    for (int64_t i = 0; i < own.count; i++) {
        EXPECT(batch.token_ids[i] == 100 + own.first + i && batch.positions[i] == own.first + i);
    }
}

static void rows_go_round(void **state) {
    (void)state;
    run_all_sizes(check_round_trip, NUMERICS_IDEAL);
}

static float part_of_sum(int rank, int64_t index) {
    return rank_steps_value(10 + (uint64_t)rank, index) * (float)(1 + rank % 3);
}

/* ((0+1)+(2+3))+...: pairs of neighbours, level by level, the odd last one as it is. */
static float tree_sum(int ranks, int64_t index) {
    float nodes[RANKS_MAX];
    for (int rank = 0; rank < ranks; rank++) {
        nodes[rank] = part_of_sum(rank, index);
    }
    while (ranks > 1) {
        for (int i = 0; i < ranks / 2; i++) {
            nodes[i] = nodes[2 * i] + nodes[2 * i + 1];
        }
        nodes[ranks / 2] = nodes[ranks - 1];
        ranks = (ranks + 1) / 2;
    }
    return nodes[0];
}

/* S-3, S-4: own rows are those of the whole sum, rounded once. */
static void check_sum(struct rank_step *rank) {
    struct shard_range own = parallel_own_range(&rank->step);
    struct placed_rows partial = {.layout = ROWS_PARTIAL};
    struct placed_rows sum;
    partial.tensor = rank_steps_tensor(rank, DTYPE_F32, rank->batch.row_count, WIDTH);
    for (int64_t i = 0; i < rank->batch.row_count * WIDTH; i++) {
        ((float *)partial.tensor.data)[i] = part_of_sum(rank->ranks.rank, i);
    }
    EXPECT(parallel_sum_rows(&rank->step, &partial, &sum) == STATUS_OK);
    EXPECT(sum.tensor.shape[0] == own.count && sum.tensor.dtype == rank->step.activation);
    EXPECT(parallel_expect_own(&rank->step, &sum, "sum") == STATUS_OK);
    /* Where nothing is rounded the sum takes the place of the rank's rows of the parts. */
    EXPECT(sum.tensor.dtype != DTYPE_F32 ||
           sum.tensor.data == (float *)partial.tensor.data + own.first * WIDTH);
    for (int64_t i = 0; i < own.count * WIDTH; i++) {
        float expected = tree_sum(rank->ranks.count, own.first * WIDTH + i);
        unsigned char element[4] = {0};
        float actual;
        size_t bytes = dtype_bytes(sum.tensor.dtype);
        elements_encode(sum.tensor.dtype, &expected, 1, element);
        EXPECT(memcmp((char *)sum.tensor.data + (size_t)i * bytes, element, bytes) == 0);
        elements_decode(sum.tensor.dtype, (char *)sum.tensor.data + (size_t)i * bytes, 1, &actual);
        EXPECT(actual == actual);
    }
}

static void sums_end_with_their_rows(void **state) {
    (void)state;
    run_all_sizes(check_sum, NUMERICS_IDEAL);
    run_all_sizes(check_sum, NUMERICS_NATIVE);
}

/* Eight experts of which some are picked by nobody, as plain matrices. */
enum { EXPERTS = 8, PICKS = 3, HIDDEN = 128, INNER = 128, MATRIX = HIDDEN * INNER, EXPERT_ROWS = 33 };

static struct {
    float matrices[3][EXPERTS][MATRIX];
    struct weight weights[3][EXPERTS];
    float x[EXPERT_ROWS * HIDDEN];
    int32_t picks[EXPERT_ROWS * PICKS];
    float routing[EXPERT_ROWS * PICKS];
    float expected[EXPERT_ROWS * PICKS * HIDDEN];
} experts;

static struct moe_experts_args expert_args(const struct expert_weights *bank, int64_t first, int64_t rows) {
    return (struct moe_experts_args){
        .x = {.dtype = DTYPE_F32, .rank = 2, .shape = {rows, HIDDEN}, .data = experts.x + first * HIDDEN},
        .experts = {.dtype = DTYPE_I32,
                    .rank = 2,
                    .shape = {rows, PICKS},
                    .data = experts.picks + first * PICKS},
        .weights = {.dtype = DTYPE_F32,
                    .rank = 2,
                    .shape = {rows, PICKS},
                    .data = experts.routing + first * PICKS},
        .bank = bank,
        .clamp = 10.0f};
}

static struct expert_weights bank_of(struct shard_range range) {
    return (struct expert_weights){.gate = &experts.weights[0][range.first],
                                   .up = &experts.weights[1][range.first],
                                   .down = &experts.weights[2][range.first],
                                   .count = range.count,
                                   .first = range.first};
}

/* All rows on one rank. */
static void run_alone(struct rank_step *rank) {
    struct expert_weights bank = bank_of((struct shard_range){0, EXPERTS});
    struct moe_experts_args args = expert_args(&bank, 0, EXPERT_ROWS);
    args.out = (struct tensor){
        .dtype = DTYPE_F32, .rank = 3, .shape = {EXPERT_ROWS, PICKS, HIDDEN}, .data = experts.expected};
    EXPECT(op_moe_experts(&rank->queue, &args) == STATUS_OK);
    EXPECT(stream_synchronize(rank->stream) == STATUS_OK);
}

static int set_up(void **state) {
    (void)state;
    for (int m = 0; m < 3; m++) {
        for (int e = 0; e < EXPERTS; e++) {
            for (int i = 0; i < MATRIX; i++) {
                experts.matrices[m][e][i] = rank_steps_value((uint64_t)(100 + m * EXPERTS + e), i) * 0.125f;
            }
            experts.weights[m][e] = (struct weight){.name = "w",
                                                    .format = WEIGHT_PLAIN,
                                                    .dtype = DTYPE_F32,
                                                    .rows = m == 2 ? HIDDEN : INNER,
                                                    .columns = m == 2 ? INNER : HIDDEN,
                                                    .data = experts.matrices[m][e]};
        }
    }
    for (int i = 0; i < EXPERT_ROWS * HIDDEN; i++) {
        experts.x[i] = rank_steps_value(7, i);
    }
    for (int i = 0; i < EXPERT_ROWS * PICKS; i++) {
        /* Never the last expert, and the same one twice in a row now and then. */
        experts.picks[i] = i % 11 == 1 ? experts.picks[i - 1] : (i * i * 7 + i / 5) % (EXPERTS - 1);
        experts.routing[i] = rank_steps_value(8, i);
    }
    rank_steps_run(&(struct rank_setting){.count = 1, .rows = EXPERT_ROWS}, run_alone, NULL);
    return 0;
}

static int expert_owner(int32_t expert, int ranks) {
    int rank = 0;
    while (expert >= (rank + 1) * EXPERTS / ranks) {
        rank++;
    }
    return rank;
}

static bool has_pick_of(int64_t row, int rank, int ranks) {
    bool has = false;
    for (int slot = 0; slot < PICKS; slot++) {
        has = has || expert_owner(experts.picks[row * PICKS + slot], ranks) == rank;
    }
    return has;
}

/*
 * Bytes that a rank sends: picks and weights of its rows to all others, its rows to all others or to those
 * that have some of their experts (5.2), and results to the owners of their rows, each by itself (E-9) and as
 * fp32 (E-5, strict).
 */
static uint64_t expected_bytes(const struct rank_step *rank, struct shard_range own) {
    int ranks = rank->ranks.count;
    int me = rank->ranks.rank;
    uint64_t bytes = (uint64_t)(ranks - 1) * (uint64_t)own.count * PICKS * 8;
    for (int64_t row = 0; row < rank->batch.row_count; row++) {
        bool is_own = row >= own.first && row < own.first + own.count;
        for (int other = 0; other < ranks && is_own; other++) {
            bool goes = rank->ranks.exchange == EXPERT_EXCHANGE_GATHER || has_pick_of(row, other, ranks);
            bytes += other != me && goes ? HIDDEN * sizeof(float) : 0;
        }
        for (int slot = 0; slot < PICKS && !is_own; slot++) {
            bool is_mine = expert_owner(experts.picks[row * PICKS + slot], ranks) == me;
            bytes += is_mine ? HIDDEN * sizeof(float) : 0;
        }
    }
    return bytes;
}

/* Sums in between, over the same ranks and with the same scratch, are in nobody's way (E-23). */
static void sum_meanwhile(struct rank_step *rank) {
    struct placed_rows partial = {.layout = ROWS_PARTIAL};
    struct placed_rows sum;
    partial.tensor = rank_steps_tensor(rank, DTYPE_F32, rank->batch.row_count, WIDTH);
    EXPECT(parallel_sum_rows(&rank->step, &partial, &sum) == STATUS_OK);
    EXPECT(parallel_gather_rows(&rank->step, &sum, &sum) == STATUS_OK);
}

static void run_trip(struct rank_step *rank, const struct placed_rows *rows,
                     const struct moe_experts_args *args, const struct layer_experts *layer) {
    struct expert_trip trip;
    bool sums = rank->context != NULL;
    EXPECT(parallel_send_to_experts(&rank->step, rows, args, layer, &trip) == STATUS_OK);
    if (sums) {
        sum_meanwhile(rank);
    }
    EXPECT(parallel_run_experts(&trip) == STATUS_OK);
    if (sums) {
        sum_meanwhile(rank);
    }
    EXPECT(parallel_take_results(&trip) == STATUS_OK);
    EXPECT(stream_synchronize(rank->stream) == STATUS_OK);
}

static void check_experts(struct rank_step *rank) {
    struct shard_range own = parallel_own_range(&rank->step);
    struct expert_weights bank = bank_of(shard_cut_experts(EXPERTS, rank->ranks.rank, rank->ranks.count));
    struct moe_experts_args args = expert_args(&bank, own.first, own.count);
    struct placed_rows rows = {.tensor = args.x,
                               .layout = rank->step.shares == NULL ? ROWS_FULL : ROWS_SHARD,
                               .shares = rank->step.shares};
    EXPECT(DEVICE_ARENA_TENSOR(&rank->arena, DTYPE_F32, &args.out, own.count, PICKS, HIDDEN) == STATUS_OK);
    uint64_t before = comm_sent_bytes(rank->ranks.tensor);
    run_trip(rank, &rows, &args, &(struct layer_experts){.count = EXPERTS});
    EXPECT(memcmp(args.out.data, experts.expected + own.first * PICKS * HIDDEN, tensor_bytes(&args.out)) ==
           0);
    if (rank->step.shares != NULL && rank->ranks.count > 1 && rank->context == NULL) {
        EXPECT(comm_sent_bytes(rank->ranks.tensor) - before == expected_bytes(rank, own));
    }
}

/* Any placement with a holder for each expert, the same on every rank. */
static void place_at_random(struct expert_balance *balance) {
    int ranks = balance->shape.rank_count;
    for (int i = 0; i < balance->shape.layer_count * EXPERTS; i++) {
        uint64_t bits = (uint64_t)(i * 2654435761u >> 7) & (((uint64_t)1 << ranks) - 1);
        balance->holders[i] = bits != 0 ? bits : (uint64_t)1 << (i % ranks);
    }
}

/* Experts without data where the rank does not have them: whoever computes them there stops the test. */
static void keep_held(const struct rank_step *rank, int layer, struct weight weights[3][EXPERTS]) {
    memcpy(weights, experts.weights, sizeof experts.weights);
    for (int e = 0; e < EXPERTS; e++) {
        bool is_held = rank->ranks.balance->holders[layer * EXPERTS + e] >> rank->ranks.rank & 1;
        for (int m = 0; m < 3 && !is_held; m++) {
            weights[m][e].data = NULL;
        }
    }
}

/* E-17, E-13: experts that moved anywhere, and copies of them, give the same; every pick is counted once. */
static void check_moved_experts(struct rank_step *rank) {
    enum { LAYERS = 2, LAYER = 1 };
    const struct expert_balance_shape shape = {.layer_count = LAYERS,
                                               .expert_count = EXPERTS,
                                               .rank_count = rank->ranks.count,
                                               .place_count = EXPERTS * rank->ranks.count};
    struct expert_balance balance;
    int32_t own_picks[EXPERT_ROWS * PICKS];
    struct weight weights[3][EXPERTS];
    struct shard_range own = parallel_own_range(&rank->step);
    EXPECT(expert_balance_init(&balance, &shape) == STATUS_OK);
    place_at_random(&balance);
    rank->ranks.balance = &balance;
    rank->ranks.own_picks = own_picks;
    keep_held(rank, LAYER, weights);
    struct expert_weights bank = {.gate = weights[0], .up = weights[1], .down = weights[2], .count = EXPERTS};
    struct moe_experts_args args = expert_args(&bank, own.first, own.count);
    struct placed_rows rows = {.tensor = args.x,
                               .layout = rank->step.shares == NULL ? ROWS_FULL : ROWS_SHARD,
                               .shares = rank->step.shares};
    EXPECT(DEVICE_ARENA_TENSOR(&rank->arena, DTYPE_F32, &args.out, own.count, PICKS, HIDDEN) == STATUS_OK);
    run_trip(rank, &rows, &args, &(struct layer_experts){.layer = LAYER, .count = EXPERTS});
    EXPECT(memcmp(args.out.data, experts.expected + own.first * PICKS * HIDDEN, tensor_bytes(&args.out)) ==
           0);
    for (int e = 0; e < EXPERTS; e++) {
        uint64_t count = 0;
        for (int64_t pair = 0; pair < rank->batch.row_count * PICKS; pair++) {
            count += experts.picks[pair] == e;
        }
        EXPECT(balance.counts[LAYER * EXPERTS + e] == count);
        EXPECT(balance.counts[e] == 0);
    }
    expert_balance_deinit(&balance);
}

static void moved_experts_give_what_one_rank_gives(void **state) {
    (void)state;
    static const int64_t row_counts[] = {1, 3, 8, EXPERT_ROWS};
    for (int count = 2; count <= 4; count++) {
        for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
            struct rank_setting setting = {
                .count = count, .rows = row_counts[i], .has_expert_parallelism = true};
            rank_steps_run(&setting, check_moved_experts, NULL);
            setting.is_shared = true;
            setting.exchange = EXPERT_EXCHANGE_GATHER;
            rank_steps_run(&setting, check_moved_experts, NULL);
            setting.exchange = EXPERT_EXCHANGE_DISPATCH;
            rank_steps_run(&setting, check_moved_experts, NULL);
        }
    }
}

/* E-6, E-8, E-19, S-7, S-27: with fewer rows than ranks, too, some of which then bring none and get none. */
static void experts_give_what_one_rank_gives(void **state) {
    (void)state;
    static const int64_t row_counts[] = {1, 2, 3, 4, 7, 8, EXPERT_ROWS};
    for (int g = 0; g < GROUP_SIZES; g++) {
        for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
            struct rank_setting setting = {
                .count = group_sizes[g], .rows = row_counts[i], .has_expert_parallelism = true};
            rank_steps_run(&setting, check_experts, NULL);
            setting.is_shared = true;
            setting.exchange = EXPERT_EXCHANGE_GATHER;
            rank_steps_run(&setting, check_experts, NULL);
            setting.exchange = EXPERT_EXCHANGE_DISPATCH;
            rank_steps_run(&setting, check_experts, NULL);
        }
    }
}

/* E-23: whatever the ranks do between the calls of a trip. */
static void other_work_is_in_nobodys_way(void **state) {
    (void)state;
    static const bool sums = true;
    static const int64_t row_counts[] = {1, 3, EXPERT_ROWS};
    for (int count = 2; count <= 4; count++) {
        for (size_t i = 0; i < sizeof row_counts / sizeof row_counts[0]; i++) {
            struct rank_setting setting = {
                .count = count, .rows = row_counts[i], .has_expert_parallelism = true};
            rank_steps_run(&setting, check_experts, &sums);
            setting.is_shared = true;
            setting.exchange = EXPERT_EXCHANGE_GATHER;
            rank_steps_run(&setting, check_experts, &sums);
            setting.exchange = EXPERT_EXCHANGE_DISPATCH;
            rank_steps_run(&setting, check_experts, &sums);
        }
    }
}

/* Every row picks the same expert, and what it gives is known. */
static void pick_one_expert(int expert) {
    for (int i = 0; i < EXPERT_ROWS * PICKS; i++) {
        experts.picks[i] = expert;
    }
    rank_steps_run(&(struct rank_setting){.count = 1, .rows = EXPERT_ROWS}, run_alone, NULL);
}

/* E-7, B57: no row is dropped where all want one rank, the first or the last; the others have nothing to do.
 */
static void one_rank_may_get_all_rows(void **state) {
    pick_one_expert(0);
    experts_give_what_one_rank_gives(state);
    pick_one_expert(EXPERTS - 1);
    experts_give_what_one_rank_gives(state);
    set_up(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_round),
        cmocka_unit_test(sums_end_with_their_rows),
        cmocka_unit_test(experts_give_what_one_rank_gives),
        cmocka_unit_test(other_work_is_in_nobodys_way),
        cmocka_unit_test(one_rank_may_get_all_rows),
        cmocka_unit_test(moved_experts_give_what_one_rank_gives),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
