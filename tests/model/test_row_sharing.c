/*
 * Who works on which rows, what lies beside them, and what goes over the wires when the ranks of a stage
 * share rows (spec parallelism 3, S-14, S-15, T-1, T-4, T-15).
 *
 * The linker puts this file's functions in front of the queue, the arena and the communicator
 * (CMakeLists.txt): they note what passes, from all ranks at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "comm/comm.h"
#include "engine/executor_internal.h"
#include "model/deepseek_v4/deepseek_v4.h"
#include "ops/add_broadcast.h"
#include "ops/hyper_connection_pre.h"
#include "ops/moe_combine.h"
#include "ops/sparse_attention.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum {
    RANKS_MAX = 4,
    NOTES_MAX = 64,
    LAYERS = 8,
    TOKENS_MAX = 96,
    HIDDEN = 256,
    STREAMS = 4,
    PICKS = 2,
    LOGITS_MAX = 33
};

/* Rows of the operations of one rank, in order. */
struct rank_notes {
    const struct op_queue *queue;
    int attention_count;
    int64_t attention[NOTES_MAX];
    int entry_count; /* hyper-connections before sublayers */
    int64_t entry[NOTES_MAX];
    int experts_count;
    int64_t experts[NOTES_MAX];
    int draft_count;
    int64_t draft[NOTES_MAX];
};

/* What passed while `is_open`; all ranks write. */
static struct {
    pthread_mutex_t lock;
    bool is_open;
    bool poisons; /* new memory of a step is NaN */
    uint64_t poisoned_bytes;
    struct rank_notes ranks[RANKS_MAX];
    uint64_t gathered_bytes;
    uint64_t summed_bytes;
    uint64_t exchanged_bytes;
    int boundary_count;
    size_t boundary_bytes[NOTES_MAX];
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum status __real_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);
enum status __real_device_arena_alloc(struct device_arena *arena, size_t bytes, void **out);
enum status __real_device_arena_tensor(struct device_arena *arena, enum dtype dtype, int rank,
                                       const int64_t *shape, struct tensor *out);
enum status __real_comm_start_gather(struct comm *comm, struct stream *stream, const void *in,
                                     const size_t *offsets, void *out, struct comm_flight *flight);
enum status __real_comm_gather(struct comm *comm, struct stream *stream, const void *in,
                               const size_t *offsets, void *out);
enum status __real_comm_sum_scatter(struct comm *comm, struct stream *stream, const float *values,
                                    const int64_t *first, int64_t width, float *out);
enum status __real_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight);
enum status __real_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);
enum status __wrap_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args);
enum status __wrap_device_arena_alloc(struct device_arena *arena, size_t bytes, void **out);
enum status __wrap_device_arena_tensor(struct device_arena *arena, enum dtype dtype, int rank,
                                       const int64_t *shape, struct tensor *out);
enum status __wrap_comm_start_gather(struct comm *comm, struct stream *stream, const void *in,
                                     const size_t *offsets, void *out, struct comm_flight *flight);
enum status __wrap_comm_gather(struct comm *comm, struct stream *stream, const void *in,
                               const size_t *offsets, void *out);
enum status __wrap_comm_sum_scatter(struct comm *comm, struct stream *stream, const float *values,
                                    const int64_t *first, int64_t width, float *out);
enum status __wrap_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight);
enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out);

static void note_rows(int *count, int64_t *rows, int64_t value) {
    if (*count < NOTES_MAX) {
        rows[(*count)++] = value;
    }
}

static void note_operation(struct rank_notes *rank, enum op_id op, const void *args) {
    if (op == OP_SPARSE_ATTENTION) {
        note_rows(&rank->attention_count, rank->attention,
                  ((const struct sparse_attention_args *)args)->queries.shape[0]);
    } else if (op == OP_HYPER_CONNECTION_PRE) {
        note_rows(&rank->entry_count, rank->entry,
                  ((const struct hyper_connection_pre_args *)args)->streams.shape[0]);
    } else if (op == OP_MOE_COMBINE) {
        note_rows(&rank->experts_count, rank->experts, ((const struct moe_combine_args *)args)->out.shape[0]);
    } else if (op == OP_ADD_BROADCAST) {
        note_rows(&rank->draft_count, rank->draft, ((const struct add_broadcast_args *)args)->out.shape[0]);
    }
}

enum status __wrap_op_queue_submit(struct op_queue *queue, enum op_id op, const void *args) {
    pthread_mutex_lock(&notes.lock);
    int rank = 0;
    while (rank < RANKS_MAX - 1 && notes.ranks[rank].queue != NULL && notes.ranks[rank].queue != queue) {
        rank++;
    }
    if (notes.is_open && !queue->is_dry) {
        notes.ranks[rank].queue = queue;
        note_operation(&notes.ranks[rank], op, args);
    }
    pthread_mutex_unlock(&notes.lock);
    return __real_op_queue_submit(queue, op, args);
}

static void poison(const struct device_arena *arena, void *memory, size_t bytes) {
    if (notes.poisons && arena->device != NULL) {
        memset(memory, 0xFF, bytes);
        pthread_mutex_lock(&notes.lock);
        notes.poisoned_bytes += bytes;
        pthread_mutex_unlock(&notes.lock);
    }
}

enum status __wrap_device_arena_alloc(struct device_arena *arena, size_t bytes, void **out) {
    enum status status = __real_device_arena_alloc(arena, bytes, out);
    if (status == STATUS_OK) {
        poison(arena, *out, bytes);
    }
    return status;
}

enum status __wrap_device_arena_tensor(struct device_arena *arena, enum dtype dtype, int rank,
                                       const int64_t *shape, struct tensor *out) {
    enum status status = __real_device_arena_tensor(arena, dtype, rank, shape, out);
    if (status == STATUS_OK) {
        poison(arena, out->data, tensor_bytes(out));
    }
    return status;
}

static void note_bytes(uint64_t *sum, uint64_t bytes) {
    pthread_mutex_lock(&notes.lock);
    *sum += notes.is_open ? bytes : 0;
    pthread_mutex_unlock(&notes.lock);
}

enum status __wrap_comm_gather(struct comm *comm, struct stream *stream, const void *in,
                               const size_t *offsets, void *out) {
    uint64_t before = comm_sent_bytes(comm);
    enum status status = __real_comm_gather(comm, stream, in, offsets, out);
    note_bytes(&notes.gathered_bytes, comm_sent_bytes(comm) - before);
    return status;
}

enum status __wrap_comm_start_gather(struct comm *comm, struct stream *stream, const void *in,
                                     const size_t *offsets, void *out, struct comm_flight *flight) {
    uint64_t before = comm_sent_bytes(comm);
    enum status status = __real_comm_start_gather(comm, stream, in, offsets, out, flight);
    note_bytes(&notes.gathered_bytes, comm_sent_bytes(comm) - before);
    return status;
}

enum status __wrap_comm_sum_scatter(struct comm *comm, struct stream *stream, const float *values,
                                    const int64_t *first, int64_t width, float *out) {
    uint64_t before = comm_sent_bytes(comm);
    enum status status = __real_comm_sum_scatter(comm, stream, values, first, width, out);
    note_bytes(&notes.summed_bytes, comm_sent_bytes(comm) - before);
    return status;
}

enum status __wrap_comm_start_exchange(struct comm *comm, struct stream *stream, const void *in,
                                       const size_t *send_offsets, void *out, const size_t *receive_offsets,
                                       struct comm_flight *flight) {
    uint64_t before = comm_sent_bytes(comm);
    enum status status =
        __real_comm_start_exchange(comm, stream, in, send_offsets, out, receive_offsets, flight);
    note_bytes(&notes.exchanged_bytes, comm_sent_bytes(comm) - before);
    return status;
}

/* Boundaries are what goes through a stream where no logits are asked for; records are host memory. */
enum status __wrap_comm_start_send(struct comm *comm, struct stream *stream, int to, const void *memory,
                                   size_t bytes, struct comm_request *out) {
    pthread_mutex_lock(&notes.lock);
    if (notes.is_open && stream != NULL && notes.boundary_count < NOTES_MAX) {
        notes.boundary_bytes[notes.boundary_count++] = bytes - 64; /* its header (A.1) */
    }
    pthread_mutex_unlock(&notes.lock);
    return __real_comm_start_send(comm, stream, to, memory, bytes, out);
}

static void open_notes(void) {
    pthread_mutex_lock(&notes.lock);
    memset(notes.ranks, 0, sizeof notes.ranks);
    notes.gathered_bytes = 0;
    notes.summed_bytes = 0;
    notes.exchanged_bytes = 0;
    notes.boundary_count = 0;
    notes.is_open = true;
    pthread_mutex_unlock(&notes.lock);
}

/* Ranks are behind the leader until they end. */
static void close_engine_and_notes(struct engine_core **engine) {
    engine_core_close(engine);
    pthread_mutex_lock(&notes.lock);
    notes.is_open = false;
    pthread_mutex_unlock(&notes.lock);
}

/*
 * Early sends 1024 bytes less of a row in layers with plain compressors, for 262144 operations more, and 4096
 * less in indexed ones for 655360: 3906 and 6250 bytes per million. So at 5000 only these gather early.
 */
static const char mixing_numbers[] = "{\"operations_per_second\": 1e12, \"compute_share\": 1,"
                                     " \"link_bytes_per_second\": 5e9}";
static char directory[FIXTURE_PATH_BYTES];
static char mixing_profile[FIXTURE_PATH_BYTES + 16];
static int32_t tokens[TOKENS_MAX];

static int set_up(void **state) {
    (void)state;
    fixture_make(directory);
    fixture_write(directory, "mixing.json", mixing_numbers, strlen(mixing_numbers));
    snprintf(mixing_profile, sizeof mixing_profile, "%s/mixing.json", directory);
    model_synthesise(directory, LAYOUT_CONFIG, NULL, 0);
    model_random_tokens(3, TINY_VOCABULARY, tokens, TOKENS_MAX);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fixture_remove(directory);
    return 0;
}

/* `profile`: by which the engine chooses what it is to gather; NULL: by none. */
static struct engine_core *open_ranks_of(int pipeline, int tensor, enum sluice_row_sharing sharing,
                                         enum sluice_row_gather gather, int drafts, const char *profile) {
    struct sluice_engine_options options = model_options(directory);
    options.device_profile = profile;
    options.step_token_limit = TOKENS_MAX;
    options.sequence_limit = LOGITS_MAX; /* that many rows may ask for logits */
    options.draft.limit = drafts;
    options.parallel = (struct sluice_parallel_options){.pipeline = pipeline,
                                                        .tensor = tensor,
                                                        .has_expert_parallelism = true,
                                                        .row_sharing = sharing,
                                                        .row_gather = gather,
                                                        .expert_exchange = SLUICE_EXPERT_EXCHANGE_GATHER,
                                                        .shared_experts = SLUICE_SHARED_EXPERTS_CUT};
    return model_open(&options);
}

static struct engine_core *open_ranks(int pipeline, int tensor, enum sluice_row_sharing sharing,
                                      enum sluice_row_gather gather, int drafts) {
    return open_ranks_of(pipeline, tensor, sharing, gather, drafts, NULL);
}

/* Ways to gather: all layers early, all late, some of them. */
enum way { WAY_EARLY, WAY_LATE, WAY_MIXED, WAYS };

static struct engine_core *open_way(int tensor, enum way way) {
    static const enum sluice_row_gather gathers[WAYS] = {SLUICE_ROW_GATHER_EARLY, SLUICE_ROW_GATHER_LATE,
                                                         SLUICE_ROW_GATHER_AUTO};
    return open_ranks_of(1, tensor, SLUICE_ROW_SHARING_ON, gathers[way], 0, mixing_profile);
}

static bool is_early(enum way way, const struct deepseek_v4_layer *layer) {
    return way == WAY_EARLY || (way == WAY_MIXED && layer->ratio == 4);
}

static void expect_rows(const int64_t *rows, int count, int expected_count, int64_t expected) {
    assert_int_equal(count, expected_count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(rows[i], expected);
    }
}

/* T-1, S-9: 3 rows on 2 ranks: attention sees 3, everything else 2 and 1, and so again. */
static void attention_sees_all_rows_and_the_rest_its_own(void **state) {
    (void)state;
    float logits[3 * TINY_VOCABULARY];
    struct engine_core *engine = open_ranks(1, 2, SLUICE_ROW_SHARING_ON, SLUICE_ROW_GATHER_AUTO, 0);
    const struct op_queue *leader = &engine->executor->queue;
    open_notes();
    for (int time = 0; time < 2; time++) {
        model_run(engine, 0, 3 * time, tokens + 3 * time, 3, logits);
    }
    close_engine_and_notes(&engine);
    int64_t own_sum = 0;
    for (int i = 0; i < 2; i++) {
        const struct rank_notes *rank = &notes.ranks[i];
        int64_t own = rank->queue == leader ? 2 : 1;
        expect_rows(rank->attention, rank->attention_count, 2 * LAYERS, 3);
        expect_rows(rank->entry, rank->entry_count, 2 * 2 * LAYERS, own);
        expect_rows(rank->experts, rank->experts_count, 2 * LAYERS, own);
        own_sum += own;
    }
    assert_int_equal(own_sum, 3);
}

/* A round on all ranks whose step has three rows, with one draft pass over them if asked for. */
static void run_round_of_three(struct executor *executor, bool has_draft) {
    int32_t sources[3] = {0, 1, 2};
    struct step_segment step = {0, 0, 3, tokens};
    struct step_segment draft = {0, 0, 3, tokens + 1};
    struct round_segment segment = {
        .catch_up_rows = 3, .following_token = tokens[3], .token_room = 1, .saved_row = -1, .kept_row = -1};
    struct round_plan round = {
        .step = {.segments = &step, .segment_count = 1}, .segments = &segment, .regime = DRAFT_REGIME_WARM};
    struct draft_plan plan = {.segments = &draft,
                              .segment_count = 1,
                              .source = DRAFT_SOURCE_STEP,
                              .source_rows = sources,
                              .writes_state_only = true};
    EXPECT_OK(executor_lead(executor, &(struct plan_record){.kind = PLAN_KIND_ROUND, .round = round}));
    EXPECT_OK(executor_step(executor, &round.step, NULL));
    if (has_draft) {
        EXPECT_OK(executor_run_draft(executor, &plan, NULL));
    }
    EXPECT_OK(executor_end_passes(executor));
}

/*
 * T-1 for drafts, S-24: projections and layer see own rows, attention all of them. Rows stay with the ranks
 * that have their sources: of the rows 0, 1 and 2 of three, two are on the first rank and one on the second.
 */
static void draft_passes_share_rows_too(void **state) {
    (void)state;
    uint64_t gathered[2];
    uint64_t moved[2];
    for (int has_draft = 0; has_draft < 2; has_draft++) {
        struct engine_core *engine = open_ranks(1, 2, SLUICE_ROW_SHARING_ON, SLUICE_ROW_GATHER_AUTO, 2);
        const struct op_queue *leader = &engine->executor->queue;
        open_notes();
        run_round_of_three(engine->executor, has_draft);
        close_engine_and_notes(&engine);
        for (int i = 0; i < 2; i++) {
            const struct rank_notes *rank = &notes.ranks[i];
            int64_t own = rank->queue == leader ? 2 : 1;
            expect_rows(rank->draft, rank->draft_count, has_draft, own);
            expect_rows(rank->entry, rank->entry_count, 2 * LAYERS + has_draft, own);
        }
        gathered[has_draft] = notes.gathered_bytes;
        moved[has_draft] = notes.exchanged_bytes + notes.summed_bytes;
    }
    /* S-26: nothing but the rows of the window is gathered. */
    assert_int_equal(gathered[1] - gathered[0], 3 * 128 * sizeof(float));
    assert_int_equal(moved[1], moved[0]);
}

/*
 * T-4, S-6: all memory of a step is NaN before somebody writes it, so that whatever lies beside the own rows
 * is. Nothing of it gets into a logit, whichever layers gather late (S-14).
 */
static void what_lies_beside_rows_is_never_read(void **state) {
    (void)state;
    static float expected[TOKENS_MAX * TINY_VOCABULARY];
    static float actual[TOKENS_MAX * TINY_VOCABULARY];
    static const int32_t lengths[] = {1, 2, 3, 5, 33};
    struct engine_core *alone = open_ranks(1, 1, SLUICE_ROW_SHARING_OFF, SLUICE_ROW_GATHER_AUTO, 0);
    for (int way = 0; way < WAYS; way++) {
        struct engine_core *engine = open_way(4, (enum way)way);
        int32_t position = 0;
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            model_run(alone, 0, position, tokens + position, lengths[i], expected);
            notes.poisons = true;
            notes.poisoned_bytes = 0;
            model_run(engine, 0, position, tokens + position, lengths[i], actual);
            notes.poisons = false;
            assert_true(notes.poisoned_bytes > 10000);
            model_expect_same_logits(actual, expected, lengths[i], TINY_VOCABULARY, "poisoned memory");
            position += lengths[i];
        }
        engine_core_close(&engine);
    }
    engine_core_close(&alone);
}

/* T-15: room for ceil(n_max / T) rows of the streams; with a switch, for the steps that do not share too. */
static void boundaries_have_room_for_own_rows(void **state) {
    (void)state;
    struct engine_core *on = open_ranks(1, 4, SLUICE_ROW_SHARING_ON, SLUICE_ROW_GATHER_AUTO, 0);
    struct engine_core *by_rows = open_ranks(1, 4, SLUICE_ROW_SHARING_AUTO, SLUICE_ROW_GATHER_AUTO, 0);
    struct engine_core *off = open_ranks(1, 4, SLUICE_ROW_SHARING_OFF, SLUICE_ROW_GATHER_AUTO, 0);
    assert_int_equal(tensor_bytes(&on->executor->boundaries[0].tensors[0]),
                     TOKENS_MAX / 4 * STREAMS * HIDDEN * sizeof(float));
    assert_int_equal(by_rows->executor->boundaries[0].tensors[0].shape[0], TOKENS_MAX / 4);
    assert_int_equal(off->executor->boundaries[0].tensors[0].shape[0], TOKENS_MAX);
    assert_true(on->facts.memory.step_bytes < off->facts.memory.step_bytes);
    engine_core_close(&on);
    engine_core_close(&by_rows);
    engine_core_close(&off);
}

/* S-18, S-19, S-21, P-13: each rank sends its own rows of the streams, S * H * b * valid(i), all together
 * those of n. */
static void boundaries_are_sent_in_shares(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 7; n += 3) {
        size_t sum = 0;
        size_t row_bytes = STREAMS * HIDDEN * sizeof(float);
        int32_t half = (n + 1) / 2;
        struct engine_core *engine = open_ranks(2, 2, SLUICE_ROW_SHARING_ON, SLUICE_ROW_GATHER_AUTO, 0);
        open_notes();
        model_run(engine, 0, 0, tokens, n, NULL);
        close_engine_and_notes(&engine);
        assert_int_equal(notes.boundary_count, 2);
        for (int i = 0; i < notes.boundary_count; i++) {
            size_t bytes = notes.boundary_bytes[i];
            assert_true(bytes == (size_t)half * row_bytes || bytes == (size_t)(n - half) * row_bytes);
            sum += bytes;
        }
        assert_int_equal(sum, (size_t)n * row_bytes);
    }
}

/* Bytes a row of first projections in layer kinds of layout-v4 (3.6, in fp32, selections apart). */
static size_t projected_bytes(const struct deepseek_v4_layer *layer) {
    size_t width = 128;
    size_t halves = layer->ratio == 4 ? 2 : 1;
    size_t compressor = layer->ratio == 0 ? 0 : 2 * halves * width;
    size_t indexer = layer->ratio == 4 ? 2 * 2 * (size_t)layer->indexer.compressor.norm.columns : 0;
    return (128 + 128 + compressor + indexer) * sizeof(float);
}

/* 3.4 and 3.6, S-15: bytes of all ranks together, to the byte, in a step whose rows divide. */
static void bytes_are_those_of_the_formulas(void **state) {
    (void)state;
    enum { ROWS = 8, RANKS = 2 };
    for (int way = 0; way < WAYS; way++) {
        struct engine_core *engine = open_way(RANKS, (enum way)way);
        const struct deepseek_v4 *model = deepseek_v4_of(engine->model);
        size_t row = HIDDEN * sizeof(float);
        size_t gathered_row = 0;
        for (int l = 0; l < LAYERS; l++) {
            const struct deepseek_v4_layer *layer = &model->layers[l];
            gathered_row += is_early((enum way)way, layer) ? row : projected_bytes(layer);
            gathered_row +=
                layer->ratio == 4 ? (size_t)model->config.index_limit * sizeof(int32_t) : 0; /* S-16 */
            gathered_row += row;                                             /* shared expert */
            gathered_row += row + PICKS * (sizeof(int32_t) + sizeof(float)); /* experts, agrs */
        }
        open_notes();
        model_run(engine, 0, 0, tokens, ROWS, NULL);
        close_engine_and_notes(&engine);
        /* Each of T ranks sends its n / T rows to T - 1 others. */
        assert_int_equal(notes.gathered_bytes, (RANKS - 1) * ROWS * gathered_row);
        /* Attention and shared expert: (T - 1) / T of n rows of fp32 from each rank. */
        assert_int_equal(notes.summed_bytes, LAYERS * 2 * (RANKS - 1) * ROWS * row);
        /* Results of experts: none that stays, each once; at most all. */
        assert_true(notes.exchanged_bytes % row == 0 && notes.exchanged_bytes > 0 &&
                    notes.exchanged_bytes <= LAYERS * ROWS * PICKS * row);
    }
}

/* T-3, P-12, at the model's door: streams that still owe a sum, or are all rows where shares are due. */
static void streams_with_a_wrong_tag_are_refused(void **state) {
    (void)state;
    struct engine_core *engine = open_ranks(1, 1, SLUICE_ROW_SHARING_OFF, SLUICE_ROW_GATHER_AUTO, 0);
    struct executor *executor = engine->executor;
    const struct model_family *family = engine->model->family;
    struct batch_view batch = {.row_count = 1, .segment_count = 1};
    const struct row_deal all = {.is_shared = false};
    struct step step = executor_make_step(executor, &batch, &all);
    struct boundary boundary = executor_slice_boundary(&executor->boundaries[0], 0, 1);
    executor->queue.is_dry = true;
    EXPECT_OK(family->forward_layers(engine->model, &step, &boundary, 0, 1));
    for (int layout = ROWS_SHARD; layout <= ROWS_PARTIAL; layout++) {
        boundary.layout = (enum rows_layout)layout;
        assert_int_equal(family->forward_layers(engine->model, &step, &boundary, 0, 1), STATUS_INTERNAL);
        assert_non_null(strstr(error_last()->message, "streams"));
        assert_int_equal(family->forward_embed(engine->model, &step, &boundary), STATUS_INTERNAL);
    }
    executor->queue.is_dry = false;
    engine_core_close(&engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_sees_all_rows_and_the_rest_its_own),
        cmocka_unit_test(draft_passes_share_rows_too),
        cmocka_unit_test(what_lies_beside_rows_is_never_read),
        cmocka_unit_test(boundaries_have_room_for_own_rows),
        cmocka_unit_test(boundaries_are_sent_in_shares),
        cmocka_unit_test(bytes_are_those_of_the_formulas),
        cmocka_unit_test(streams_with_a_wrong_tag_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
