/*
 * Rows on their way to experts with quantised weights (spec parallelism E-5, 3.4): a byte a channel and one
 * for 128 of them, and the bits of one rank that has all rows as they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/rank_steps.h"
#include "parallel/shard.h"
#include "tensor/elements.h"

enum { EXPERTS = 4, PICKS = 2, HIDDEN = 256, INNER = 128, MATRIX = HIDDEN * INNER, ROWS = 13 };

/* Codes of 256 channels and 2 scales, padded to 8 bytes; a pick and its weight. */
enum { ROW_BYTES = 264, PICK_BYTES = 8, RESULT_BYTES = 2 * HIDDEN };

static struct {
    uint8_t codes[3][EXPERTS][MATRIX];
    uint8_t scales[2];
    struct weight weights[3][EXPERTS];
    uint16_t x[ROWS * HIDDEN];
    int32_t picks[ROWS * PICKS];
    float routing[ROWS * PICKS];
    uint16_t expected[ROWS * PICKS * HIDDEN];
} scene;

static struct moe_experts_args args_of(const struct expert_weights *bank, int64_t first, int64_t rows) {
    return (struct moe_experts_args){
        .x = {.dtype = DTYPE_BF16, .rank = 2, .shape = {rows, HIDDEN}, .data = scene.x + first * HIDDEN},
        .experts = {.dtype = DTYPE_I32,
                    .rank = 2,
                    .shape = {rows, PICKS},
                    .data = scene.picks + first * PICKS},
        .weights = {.dtype = DTYPE_F32,
                    .rank = 2,
                    .shape = {rows, PICKS},
                    .data = scene.routing + first * PICKS},
        .bank = bank,
        .clamp = 10.0f};
}

static struct expert_weights bank_of(struct shard_range range) {
    return (struct expert_weights){.gate = &scene.weights[0][range.first],
                                   .up = &scene.weights[1][range.first],
                                   .down = &scene.weights[2][range.first],
                                   .count = range.count,
                                   .first = range.first};
}

static void run_alone(struct rank_step *rank) {
    struct expert_weights bank = bank_of((struct shard_range){0, EXPERTS});
    struct moe_experts_args args = args_of(&bank, 0, ROWS);
    args.out = (struct tensor){
        .dtype = DTYPE_BF16, .rank = 3, .shape = {ROWS, PICKS, HIDDEN}, .data = scene.expected};
    EXPECT(op_moe_experts(&rank->queue, &args) == STATUS_OK);
    EXPECT(stream_synchronize(rank->stream) == STATUS_OK);
}

/* Values that rounding changes, of very different sizes; codes that are numbers. */
static int set_up(void **state) {
    (void)state;
    memset(scene.scales, 127 - 4, sizeof scene.scales);
    for (int m = 0; m < 3; m++) {
        for (int e = 0; e < EXPERTS; e++) {
            for (int i = 0; i < MATRIX; i++) {
                scene.codes[m][e][i] = (uint8_t)((i * 37 + e * 11 + m * 5 + i / 256) & 0xB7);
            }
            scene.weights[m][e] = (struct weight){.name = "w",
                                                  .format = WEIGHT_FP8,
                                                  .dtype = DTYPE_F8_E4M3,
                                                  .rows = m == 2 ? HIDDEN : INNER,
                                                  .columns = m == 2 ? INNER : HIDDEN,
                                                  .data = scene.codes[m][e],
                                                  .scales = scene.scales,
                                                  .scale_dtype = DTYPE_F8_E8M0};
        }
    }
    for (int i = 0; i < ROWS * HIDDEN; i++) {
        float value = rank_steps_value(7, i) * (i % 31 == 0 ? 1000.0f : 0.01f);
        elements_encode(DTYPE_BF16, &value, 1, &scene.x[i]);
    }
    for (int i = 0; i < ROWS * PICKS; i++) {
        scene.picks[i] = (i * i + i / 3) % EXPERTS;
        scene.routing[i] = 0.5f + rank_steps_value(8, i) * 0.25f;
    }
    rank_steps_run(&(struct rank_setting){.count = 1, .rows = ROWS, .numerics = NUMERICS_NATIVE}, run_alone,
                   NULL);
    return 0;
}

static int holder_of(int32_t expert, int ranks) {
    return expert * ranks / EXPERTS;
}

/* What a rank sends, counted pair by pair. */
static uint64_t bytes_sent(const struct rank_step *rank, struct shard_range own) {
    int ranks = rank->ranks.count;
    uint64_t bytes = 0;
    for (int other = 0; other < ranks; other++) {
        for (int64_t row = 0; row < ROWS && other != rank->ranks.rank; row++) {
            bool is_own = row >= own.first && row < own.first + own.count;
            bool is_theirs = row >= rank->shares.first[other] && row < rank->shares.first[other + 1];
            bool goes = rank->ranks.exchange == EXPERT_EXCHANGE_GATHER;
            for (int slot = 0; slot < PICKS; slot++) {
                int holder = holder_of(scene.picks[row * PICKS + slot], ranks);
                goes = goes || holder == other;
                bytes += is_theirs && holder == rank->ranks.rank ? RESULT_BYTES : 0;
            }
            bytes += is_own ? PICKS * PICK_BYTES + (goes ? ROW_BYTES : 0) : 0;
        }
    }
    return bytes;
}

static void check_rows(struct rank_step *rank) {
    struct shard_range own = parallel_own_range(&rank->step);
    struct expert_weights bank = bank_of(shard_cut_experts(EXPERTS, rank->ranks.rank, rank->ranks.count));
    struct moe_experts_args args = args_of(&bank, own.first, own.count);
    struct placed_rows rows = {.tensor = args.x, .layout = ROWS_SHARD, .shares = rank->step.shares};
    EXPECT(DEVICE_ARENA_TENSOR(&rank->arena, DTYPE_BF16, &args.out, own.count, PICKS, HIDDEN) == STATUS_OK);
    uint64_t before = comm_sent_bytes(rank->ranks.tensor);
    struct expert_trip trip;
    EXPECT(parallel_send_to_experts(&rank->step, &rows, &args, &(struct layer_experts){.count = EXPERTS},
                                    &trip) == STATUS_OK);
    EXPECT(parallel_run_experts(&trip) == STATUS_OK);
    EXPECT(parallel_take_results(&trip) == STATUS_OK);
    EXPECT(stream_synchronize(rank->stream) == STATUS_OK);
    EXPECT(memcmp(args.out.data, scene.expected + own.first * PICKS * HIDDEN, tensor_bytes(&args.out)) == 0);
    EXPECT(comm_sent_bytes(rank->ranks.tensor) - before == bytes_sent(rank, own));
}

static void rows_travel_as_what_is_read_of_them(void **state) {
    (void)state;
    for (int count = 2; count <= 4; count *= 2) {
        struct rank_setting setting = {.count = count,
                                       .rows = ROWS,
                                       .numerics = NUMERICS_NATIVE,
                                       .is_shared = true,
                                       .has_expert_parallelism = true,
                                       .exchange = EXPERT_EXCHANGE_GATHER};
        rank_steps_run(&setting, check_rows, NULL);
        setting.exchange = EXPERT_EXCHANGE_DISPATCH;
        rank_steps_run(&setting, check_rows, NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_travel_as_what_is_read_of_them)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
