/*
 * What each rank of a layout loads (spec parallelism 1.2 to 1.9, T-5 and T-7).
 *
 * Expectations are those of tables 1.3 by tensor name, or bytes of the files; the placements that the model
 * declares and the cuts of the loader are what is tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/device_cpu.h"
#include "backends/guard/device_guard.h"
#include "model/deepseek_v4/deepseek_v4.h"
#include "model/rank_loading.h"
#include "model/rank_tally.h"
#include "support/checkpoint_edit.h"
#include "support/model_fixture.h"
#include "weights/fixture.h"

enum { LAYOUT_LAYERS = 8, TINY_LAYERS = 6 };

/* Model directories, made once. */
static struct {
    char layout[FIXTURE_PATH_BYTES];
    char tiny[FIXTURE_PATH_BYTES];
    char uneven[FIXTURE_PATH_BYTES];  /* layout-v4 with three blocks inside each expert */
    char fp8[FIXTURE_PATH_BYTES];     /* layout-v4 with FP8 experts */
    char widened[FIXTURE_PATH_BYTES]; /* that with F32 scales */
} directories;

static struct {
    struct device *device;
    struct stream *stream;
} machine;

static int make_all(void **state) {
    (void)state;
    static const struct config_change three_blocks[] = {{"moe_intermediate_size", "384"}};
    static const struct config_change fp8_experts[] = {{"expert_dtype", "\"fp8\""}};
    static const struct checkpoint_edit widen = {.widens_scales = true};
    fixture_make(directories.layout);
    fixture_make(directories.tiny);
    fixture_make(directories.uneven);
    fixture_make(directories.fp8);
    fixture_make(directories.widened);
    model_synthesise(directories.layout, LAYOUT_CONFIG, NULL, 0);
    model_synthesise(directories.tiny, TINY_CONFIG, NULL, 0);
    model_synthesise(directories.uneven, LAYOUT_CONFIG, three_blocks, 1);
    model_synthesise(directories.fp8, LAYOUT_CONFIG, fp8_experts, 1);
    checkpoint_copy_edited(directories.fp8, directories.widened, &widen);
    EXPECT_OK(device_cpu_create(&machine.device));
    EXPECT_OK(device_stream_create(machine.device, &machine.stream));
    return 0;
}

static int drop_all(void **state) {
    (void)state;
    device_stream_destroy(&machine.stream);
    device_destroy(&machine.device);
    fixture_remove(directories.layout);
    fixture_remove(directories.tiny);
    fixture_remove(directories.uneven);
    fixture_remove(directories.fp8);
    fixture_remove(directories.widened);
    return 0;
}

static void parts_make_up_the_checkpoint(void **state) {
    (void)state;
    const struct {
        const char *directory;
        int layers;
        int tensor_limit; /* its output groups */
    } models[] = {{directories.layout, LAYOUT_LAYERS, 4}, {directories.tiny, TINY_LAYERS, 2}};
    for (size_t m = 0; m < 2; m++) {
        const int stages[] = {1, 2, 3, models[m].layers};
        for (size_t p = 0; p < 4; p++) {
            for (int tensor = 1; tensor <= models[m].tensor_limit; tensor *= 2) {
                for (int expert = 0; expert < 2; expert++) {
                    struct rank_setting setting = rank_setting_split(models[m].directory, models[m].layers,
                                                                     stages[p], tensor, expert == 1);
                    setting.draft_limit = (int)(p + m) % 2;
                    rank_tally_expect_whole(&setting, machine.device, machine.stream);
                }
            }
        }
    }
}

/* Three blocks over two and four ranks; FP8 experts with scales of both types; replicas. */
static void uneven_and_quantised_parts_are_complete(void **state) {
    (void)state;
    const char *const models[] = {directories.uneven, directories.fp8, directories.widened};
    for (size_t m = 0; m < 3; m++) {
        for (int tensor = 2; tensor <= 8; tensor *= 2) {
            struct rank_setting setting = rank_setting_split(models[m], LAYOUT_LAYERS, 2, tensor, false);
            setting.draft_limit = 1;
            rank_tally_expect_whole(&setting, machine.device, machine.stream);
        }
    }
    struct rank_setting replicas = rank_setting_split(directories.layout, LAYOUT_LAYERS, 2, 2, true);
    replicas.mesh.data = 2;
    rank_tally_expect_whole(&replicas, machine.device, machine.stream);
    replicas.mesh.has_expert_parallelism = false;
    rank_tally_expect_whole(&replicas, machine.device, machine.stream);
}

/* Where device memory is its own, whole rows are copied too. */
static void parts_are_complete_on_other_devices(void **state) {
    (void)state;
    struct device *device;
    struct stream *stream;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 2, 4, false);
    EXPECT_OK(device_guard_create(&device));
    EXPECT_OK(device_stream_create(device, &stream));
    rank_tally_expect_whole(&setting, device, stream);
    assert_int_equal(device_memory_bytes(device), 0);
    device_stream_destroy(&stream);
    device_destroy(&device);
}

/* Rank 2 of 4 of layout-v4: 16 heads of 128, 8 groups of 128, experts of 4 blocks, vocabulary 512. */
static void parts_are_where_the_specification_says(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t rows, columns; /* as stored; 0: a vector */
        int64_t first_row, first_column;
    } lines[] = {
        {"layers.1.attn.attn_sink", 4, 0, 8, 0},
        {"layers.1.attn.wq_b.weight", 512, 128, 1024, 0},
        {"layers.1.attn.wq_b.scale", 4, 1, 8, 0},
        {"layers.1.attn.wo_a.weight", 256, 256, 512, 0},
        {"layers.1.attn.wo_a.scale", 2, 2, 4, 0},
        {"layers.1.attn.wo_b.weight", 256, 256, 0, 512},
        {"layers.1.attn.wo_b.scale", 2, 2, 0, 4},
        {"layers.1.attn.indexer.wq_b.weight", 2048, 128, 0, 0},
        {"layers.1.ffn.shared_experts.w1.weight", 128, 256, 256, 0},
        {"layers.1.ffn.shared_experts.w2.weight", 256, 128, 0, 256},
        {"layers.1.ffn.shared_experts.w2.scale", 2, 1, 0, 2},
        {"layers.1.ffn.experts.7.w1.weight", 128, 128, 256, 0},
        {"layers.1.ffn.experts.7.w1.scale", 128, 8, 256, 0},
        {"layers.1.ffn.experts.7.w2.weight", 256, 64, 0, 128},
        {"layers.1.ffn.experts.7.w2.scale", 256, 4, 0, 8},
        {"layers.1.ffn.gate.weight", 8, 256, 0, 0},
        {"mtp.0.attn.wo_b.weight", 256, 256, 0, 512},
        {"embed.weight", 512, 256, 0, 0},
        {"head.weight", 128, 256, 256, 0},
    };
    struct loaded_rank rank;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 1, 4, false);
    setting.draft_limit = 1;
    rank_load(&setting, 2, machine.device, machine.stream, &rank);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const struct loaded_tensor *loaded = &rank.tensors[rank_find(&rank, lines[i].name)];
        const struct tensor_part *part = &loaded->part;
        if (!part->is_here || loaded->data == NULL || part->shape[0] != lines[i].rows ||
            part->shape[1] != lines[i].columns || part->first_row != lines[i].first_row ||
            part->first_column != lines[i].first_column) {
            fail_msg("%s: %lld x %lld from row %lld, column %lld", lines[i].name, (long long)part->shape[0],
                     (long long)part->shape[1], (long long)part->first_row, (long long)part->first_column);
        }
    }
    assert_int_equal(rank.model->first_expert, 0);
    assert_int_equal(rank.model->held_experts, 8);
    rank_free(&rank, machine.device);
}

/* Big parts of rows stay in the file map, parts of columns are copied. */
static void rows_are_mapped_and_columns_copied(void **state) {
    (void)state;
    struct loaded_rank rank;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 1, 2, true);
    rank_load(&setting, 1, machine.device, machine.stream, &rank);
    const struct checkpoint *files = rank.weights.checkpoint;
    const struct checkpoint_tensor *up = checkpoint_find(files, "layers.0.attn.wq_b.weight");
    assert_ptr_equal(rank.tensors[rank_find(&rank, up->name)].data,
                     checkpoint_tensor_data(files, up) + up->bytes / 2);
    const struct loaded_tensor *down = &rank.tensors[rank_find(&rank, "layers.0.attn.wo_b.weight")];
    assert_in_range((uintptr_t)down->data, (uintptr_t)rank.weights.memory,
                    (uintptr_t)rank.weights.memory + rank.weights.copied_bytes - down->bytes);
    rank_free(&rank, machine.device);
}

static void expect_same_rows(const struct weight *part, const struct weight *whole, int64_t first_row,
                             int64_t first_column) {
    float *actual = calloc((size_t)whole->columns, sizeof *actual);
    float *expected = calloc((size_t)whole->columns, sizeof *expected);
    assert_true(first_row + part->rows <= whole->rows && first_column + part->columns <= whole->columns);
    for (int64_t row = 0; row < part->rows; row++) {
        weight_decode_row(part, row, actual);
        weight_decode_row(whole, first_row + row, expected);
        if (memcmp(actual, expected + first_column, (size_t)part->columns * sizeof *actual) != 0) {
            fail_msg("%s: row %lld differs", part->name, (long long)row);
        }
    }
    free(actual);
    free(expected);
}

/* The layer's weights have the numbers of the whole ones from where rank `index` of `parts` begins. */
static void expect_layer_part(const struct deepseek_v4_layer *part, const struct deepseek_v4_layer *whole,
                              int index, int parts, int64_t blocks_before) {
    int64_t heads = 16 / parts * index;
    int64_t inner = 128 * blocks_before;
    expect_same_rows(&part->sink, &whole->sink, 0, heads);
    expect_same_rows(&part->q_up, &whole->q_up, heads * 128, 0);
    expect_same_rows(&part->output_down, &whole->output_down, heads / 2 * 128, 0);
    expect_same_rows(&part->output_up, &whole->output_up, 0, heads / 2 * 128);
    expect_same_rows(&part->shared_gate, &whole->shared_gate, inner, 0);
    expect_same_rows(&part->shared_up, &whole->shared_up, inner, 0);
    expect_same_rows(&part->shared_down, &whole->shared_down, 0, inner);
    expect_same_rows(&part->router, &whole->router, 0, 0);
    assert_int_equal(part->output_up.leaves.count, 8 / parts);
    assert_int_equal(part->output_up.leaves.first, 8 / parts * index);
    assert_int_equal(part->shared_down.leaves.count, 16 / parts);
    assert_int_equal(part->shared_down.leaves.first, 16 / parts * index);
    assert_int_equal(leaves_columns(&part->output_up.leaves), part->output_up.columns);
    assert_int_equal(leaves_columns(&part->shared_down.leaves), part->shared_down.columns);
    for (int e = 0; e < 8; e++) {
        expect_same_rows(&part->expert_gate[e], &whole->expert_gate[e], inner, 0);
        expect_same_rows(&part->expert_up[e], &whole->expert_up[e], inner, 0);
        expect_same_rows(&part->expert_down[e], &whole->expert_down[e], 0, inner);
        assert_int_equal(part->expert_down[e].leaves.first, 16 / parts * index);
        assert_int_equal(leaves_columns(&part->expert_down[e].leaves), part->expert_down[e].columns);
    }
}

static const struct deepseek_v4 *model_of(const struct loaded_rank *rank) {
    return deepseek_v4_of(rank->model);
}

/* Weights of a rank have the numbers of the whole ones, block for block: UNEVEN has 0, 1, 1 and 1 (G-9). */
static void bound_weights_have_the_numbers_of_the_whole(void **state) {
    (void)state;
    static const int64_t blocks_before[] = {0, 0, 1, 2, 3};
    struct loaded_rank whole;
    struct rank_setting one = rank_setting_split(directories.uneven, LAYOUT_LAYERS, 1, 1, false);
    struct rank_setting four = rank_setting_split(directories.uneven, LAYOUT_LAYERS, 1, 4, false);
    one.draft_limit = 1;
    four.draft_limit = 1;
    rank_load(&one, 0, machine.device, machine.stream, &whole);
    for (int r = 0; r < 4; r++) {
        struct loaded_rank rank;
        rank_load(&four, r, machine.device, machine.stream, &rank);
        for (int l = 0; l < LAYOUT_LAYERS; l++) {
            const struct deepseek_v4_layer *layer = &model_of(&rank)->layers[l];
            assert_int_equal(layer->shared_gate.rows, 128 * (blocks_before[r + 1] - blocks_before[r]));
            expect_layer_part(layer, &model_of(&whole)->layers[l], r, 4, blocks_before[r]);
        }
        expect_layer_part(&model_of(&rank)->draft.layer, &model_of(&whole)->draft.layer, r, 4,
                          blocks_before[r]);
        expect_same_rows(&model_of(&rank)->head, &model_of(&whole)->head, 128 * r, 0);
        expect_same_rows(&model_of(&rank)->embedding, &model_of(&whole)->embedding, 0, 0);
        rank_free(&rank, machine.device);
    }
    rank_free(&whole, machine.device);
}

/* B57: whole experts: rank r of an expert group of 4 (two replicas of two ranks) has experts 2r and 2r + 1.
 */
static void experts_are_dealt_out_in_order(void **state) {
    (void)state;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 1, 2, true);
    setting.mesh.data = 2;
    for (int r = 0; r < 4; r++) {
        struct loaded_rank rank;
        rank_load(&setting, r, machine.device, machine.stream, &rank);
        assert_int_equal(rank.model->first_expert, 2 * r);
        assert_int_equal(rank.model->held_experts, 2);
        const struct deepseek_v4_layer *layer = &model_of(&rank)->layers[3];
        for (int e = 0; e < 8; e++) {
            bool is_own = e / 2 == r;
            assert_true(is_own == (layer->expert_gate[e].data != NULL));
            assert_true(is_own == (layer->expert_down[e].scales != NULL));
            assert_int_equal(layer->expert_down[e].columns, 512);
            assert_int_equal(layer->expert_down[e].leaves.count, 16);
        }
        rank_free(&rank, machine.device);
    }
}

/* Table 1.3 and model-level tensors: stages 0 (layers 0, 1), 1 (2 to 4) and 2 (5 to 7) of layout-v4. */
static const struct {
    const char *name;
    const char *stages;       /* with drafting off: the stages that have it */
    const char *draft_stages; /* with drafting on */
} stage_lines[] = {
    {"embed.weight", "0", "02"},
    {"head.weight", "2", "2"},
    {"norm.weight", "2", "2"},
    {"hc_head_fn", "2", "2"},
    {"hc_head_base", "2", "2"},
    {"hc_head_scale", "2", "2"},
    {"layers.0.attn_norm.weight", "0", "0"},
    {"layers.0.ffn.gate.tid2eid", "0", "0"},
    {"layers.1.attn.wq_b.scale", "0", "0"},
    {"layers.2.hc_attn_fn", "1", "1"},
    {"layers.4.ffn.experts.7.w2.scale", "1", "1"},
    {"layers.5.attn.indexer.wq_b.weight", "2", "2"},
    {"layers.7.ffn.gate.bias", "2", "2"},
    {"mtp.0.attn.wq_b.weight", "", "2"},
    {"mtp.0.ffn.experts.0.w1.weight", "", "2"},
    {"mtp.0.e_proj.weight", "", "2"},
    {"mtp.0.e_proj.scale", "", "2"},
    {"mtp.0.norm.weight", "", "2"},
    {"mtp.0.hc_head_fn", "", "2"},
};

/* Other stages' weights are zeroed, this one's are there. */
static void expect_bound_stage(const struct loaded_rank *rank, bool has_draft) {
    const struct deepseek_v4 *model = model_of(rank);
    for (int l = 0; l < LAYOUT_LAYERS; l++) {
        bool is_own = l >= rank->stage.first_layer && l < rank->stage.end_layer;
        assert_true(is_own == (model->layers[l].q_up.data != NULL));
        assert_true(is_own == (model->layers[l].q_up.name != NULL));
        assert_true(is_own == (model->layers[l].expert_gate != NULL));
    }
    assert_true(rank->stage.is_last == (model->norm.data != NULL));
    assert_true(rank->stage.is_last == (model->head.rows != 0));
    assert_true((rank->stage.is_first || (rank->stage.is_last && has_draft)) == (model->embedding.rows != 0));
    assert_true((rank->stage.is_last && has_draft) == (model->draft.norm.data != NULL));
}

/* G-21, G-22: the draft layer and its embedding are on the last stage. */
static void stages_load_what_is_theirs(void **state) {
    (void)state;
    for (int has_draft = 0; has_draft < 2; has_draft++) {
        struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 3, 1, false);
        setting.draft_limit = has_draft;
        for (int s = 0; s < 3; s++) {
            struct loaded_rank rank;
            rank_load(&setting, s, machine.device, machine.stream, &rank);
            for (size_t i = 0; i < sizeof stage_lines / sizeof stage_lines[0]; i++) {
                const char *stages = has_draft == 1 ? stage_lines[i].draft_stages : stage_lines[i].stages;
                bool is_expected = strchr(stages, '0' + s) != NULL;
                if (is_expected != (rank.tensors[rank_find(&rank, stage_lines[i].name)].data != NULL)) {
                    fail_msg("%s, stage %d, drafts %d", stage_lines[i].name, s, has_draft);
                }
            }
            expect_bound_stage(&rank, has_draft == 1);
            rank_free(&rank, machine.device);
        }
    }
}

/* A last stage may have the head and nothing else (P-1). */
static void a_stage_without_layers_loads(void **state) {
    (void)state;
    struct loaded_rank rank;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 2, 1, false);
    setting.first_layers[1] = LAYOUT_LAYERS;
    rank_load(&setting, 1, machine.device, machine.stream, &rank);
    expect_bound_stage(&rank, false);
    assert_int_equal(rank.model->held_experts, 0);
    rank_free(&rank, machine.device);
}

/* State belongs to the stage that runs the layer; ratios of layout-v4 are 128 4 0 | 4 128 4 16 0. */
static void stages_declare_their_own_state(void **state) {
    (void)state;
    static const struct {
        int first, end, draft_limit;
        int kinds; /* 1 per window-only layer, 3 per compressed one, 5 with indexer; 1 for the draft layer */
    } lines[] = {{0, 3, 2, 9}, {3, 8, 2, 5 + 3 + 5 + 3 + 1 + 1}, {3, 8, 0, 17}, {8, 8, 1, 1}, {8, 8, 0, 0}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct loaded_rank rank;
        struct rank_setting setting = {.directory = directories.layout, .mesh = mesh_shape_single()};
        setting.mesh.pipeline = 2;
        setting.draft_limit = lines[i].draft_limit;
        setting.first_layers[1] = lines[i].first == 0 ? lines[i].end : lines[i].first;
        setting.first_layers[2] = LAYOUT_LAYERS;
        rank_prepare(&setting, lines[i].first == 0 ? 0 : 1, &rank);
        struct state_table table = {.arena = &rank.arena};
        EXPECT_OK(rank.model->family->list_states(rank.model, &table));
        assert_int_equal(table.count, lines[i].kinds);
        double rows_read[64] = {0};
        double operations = rank.model->family->describe_row_work(rank.model, 1000, rows_read);
        assert_true((operations > 0) == (lines[i].end > lines[i].first));
        for (int k = 0; k < 64; k++) {
            const struct state_kind *kind = k < table.count ? &table.kinds[k] : NULL;
            assert_true(kind == NULL || kind->is_draft ||
                        (kind->layer >= lines[i].first && kind->layer < lines[i].end));
            assert_true((kind != NULL && !kind->is_draft) == (rows_read[k] > 0));
        }
        rank_free(&rank, machine.device);
    }
}

static void expect_refused(const struct rank_setting *setting, enum status expected, const char *fragment) {
    for (int r = 0; r < mesh_rank_count(&setting->mesh); r++) {
        struct loaded_rank rank;
        rank_prepare(setting, r, &rank);
        fixture_expect_error(checkpoint_load(&rank.checkpoint, &rank.list,
                                             &(struct load_options){.layout = &rank.layout}, machine.device,
                                             machine.stream, rank.tensors, &rank.weights),
                             expected, fragment);
        assert_non_null(rank.checkpoint);
        assert_null(rank.weights.memory);
        rank_free(&rank, machine.device);
    }
}

/* B59, B63, spec parallelism 6.5: CFG-02, CFG-03 (G-12 is not implemented) and CFG-09, on every rank. */
static void cuts_that_tear_are_refused(void **state) {
    (void)state;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 1, 3, false);
    expect_refused(&setting, STATUS_UNSUPPORTED,
                   "tensor parallel size 3 cannot deal out 16 attention heads (num_attention_heads) evenly: "
                   "use 1, 2, 4, 8");
    setting.mesh.tensor = 16;
    expect_refused(&setting, STATUS_UNSUPPORTED,
                   "tensor parallel size 16 cannot deal out 8 output groups (o_groups) evenly: use 1, 2, 4, "
                   "8");
    setting = rank_setting_split(directories.tiny, TINY_LAYERS, 1, 4, false);
    expect_refused(&setting, STATUS_UNSUPPORTED,
                   "tensor parallel size 4 cannot deal out 2 output groups (o_groups) evenly: use 1, 2");
    setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 1, 8, true);
    setting.mesh.data = 2;
    expect_refused(&setting, STATUS_UNSUPPORTED,
                   "expert parallelism over 16 ranks (data 2 x tensor 8) needs an expert for each, but a "
                   "layer has 8 and 0 copies (redundant experts)");
}

/* G-23: with drafting on, every rank says that the draft layer is incomplete; without, none minds. */
static void missing_draft_tensors_are_noticed(void **state) {
    (void)state;
    char directory[FIXTURE_PATH_BYTES];
    static const char *const names[] = {"mtp.0.e_proj.weight", "mtp.0.ffn.experts.5.w3.weight",
                                        "mtp.0.hc_head_scale", "embed.weight", "head.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct checkpoint_edit edit = {.left_out = names[i]};
        fixture_make(directory);
        checkpoint_copy_edited(directories.layout, directory, &edit);
        struct rank_setting setting = rank_setting_split(directory, LAYOUT_LAYERS, 2, 2, false);
        setting.draft_limit = 1;
        expect_refused(&setting, STATUS_BAD_CHECKPOINT, names[i]);
        fixture_remove(directory);
    }
    const struct checkpoint_edit edit = {.left_out = "mtp.*"};
    fixture_make(directory);
    checkpoint_copy_edited(directories.layout, directory, &edit);
    struct rank_setting setting = rank_setting_split(directory, LAYOUT_LAYERS, 2, 2, false);
    rank_tally_expect_whole(&setting, machine.device, machine.stream);
    fixture_remove(directory);
}

/* Loads for the other of two stages than the model is for. */
static void expect_mismatch_noticed(const struct rank_setting *setting, int model_stage,
                                    const char *fragment) {
    struct loaded_rank rank;
    rank_prepare(setting, model_stage, &rank);
    rank.layout.place.pipeline = 1 - model_stage;
    EXPECT_OK(checkpoint_load(&rank.checkpoint, &rank.list, &(struct load_options){.layout = &rank.layout},
                              machine.device, machine.stream, rank.tensors, &rank.weights));
    fixture_expect_error(rank.model->family->bind(rank.model, &rank.list, rank.tensors), STATUS_INTERNAL,
                         fragment);
    rank_free(&rank, machine.device);
}

/* The engine tells model and loader of the stage apart; where they disagree, nothing is read through NULL. */
static void a_stage_that_was_not_loaded_is_noticed(void **state) {
    (void)state;
    struct rank_setting setting = rank_setting_split(directories.layout, LAYOUT_LAYERS, 2, 1, false);
    expect_mismatch_noticed(&setting, 0, "tensor layers.0.");
    expect_mismatch_noticed(&setting, 1, "tensor layers.4.");
    setting.first_layers[1] = LAYOUT_LAYERS;
    expect_mismatch_noticed(&setting, 1, "the head was not loaded");
    setting.first_layers[1] = 0;
    expect_mismatch_noticed(&setting, 0, "the embedding was not loaded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_make_up_the_checkpoint),
        cmocka_unit_test(uneven_and_quantised_parts_are_complete),
        cmocka_unit_test(parts_are_complete_on_other_devices),
        cmocka_unit_test(parts_are_where_the_specification_says),
        cmocka_unit_test(rows_are_mapped_and_columns_copied),
        cmocka_unit_test(bound_weights_have_the_numbers_of_the_whole),
        cmocka_unit_test(experts_are_dealt_out_in_order),
        cmocka_unit_test(stages_load_what_is_theirs),
        cmocka_unit_test(a_stage_without_layers_loads),
        cmocka_unit_test(stages_declare_their_own_state),
        cmocka_unit_test(cuts_that_tear_are_refused),
        cmocka_unit_test(missing_draft_tensors_are_noticed),
        cmocka_unit_test(a_stage_that_was_not_loaded_is_noticed),
    };
    return cmocka_run_group_tests(tests, make_all, drop_all);
}
