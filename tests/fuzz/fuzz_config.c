/*
 * config.json to a model: no crash, and what was accepted lists tensors and states with sound sizes.
 */
#include <stdint.h>

#include "engine/state_pool.h"
#include "model/model_registry.h"
#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A list of more experts takes long and shows nothing new. */
enum { LISTED_EXPERTS_MAX = 4096, POSITIONS = 1000 };

static void expect(int condition) {
    if (!condition) {
        __builtin_trap();
    }
}

static void check_tensors(struct model *model, struct arena *arena) {
    struct tensor_spec_list list = {.arena = arena};
    if (model->family->list_tensors(model, NULL, &list) != STATUS_OK) {
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct tensor_spec *spec = &list.specs[i];
        size_t bytes;
        expect(safetensors_tensor_bytes(spec->dtype, spec->rank, spec->shape, &bytes) == STATUS_OK);
        expect(bytes > 0 && spec->placement_unit >= 1);
        expect(spec->partner >= -1 && spec->partner < (int)list.count);
    }
}

/* Ratios that divide no page are refused. */
static void check_pool(const struct state_table *table, enum numerics numerics) {
    const struct state_pool_options options = {
        .sequence_slot_count = 2, .snapshot_slot_count = 1, .context_tokens = POSITIONS, .page_tokens = 128};
    struct state_pool pool;
    if (state_pool_init(&pool, NULL, table, numerics, &options) == STATUS_OK) {
        expect(pool.slot_bytes > 0 && pool.snapshot_bytes <= pool.slot_bytes);
        expect(state_pool_bytes(&pool, 16) >=
               2 * pool.slot_bytes + pool.snapshot_bytes + 16 * pool.page_bytes);
    }
    state_pool_deinit(&pool);
}

static void check_states(struct model *model, struct arena *arena) {
    struct state_table table = {.arena = arena};
    if (model->family->list_states(model, &table) != STATUS_OK) {
        return;
    }
    for (int i = 0; i < table.count; i++) {
        expect(state_kind_rows(&table.kinds[i], POSITIONS) > 0 && table.kinds[i].width > 0);
        expect(table.kinds[i].plain_width >= 0 && table.kinds[i].plain_width < table.kinds[i].width);
    }
    for (int numerics = 0; numerics < NUMERICS_COUNT; numerics++) {
        check_pool(&table, (enum numerics)numerics);
    }
}

static void check_config(const struct json *config, int draft_limit) {
    const struct model_request request = {.draft_limit = draft_limit};
    const struct model_family *family;
    struct model *model;
    struct arena arena;
    arena_init(&arena, 1 << 16);
    if (model_family_find(config, &family) == STATUS_OK &&
        family->create(&arena, config, &request, &model) == STATUS_OK) {
        int64_t experts = json_int64(json_get(config, "n_routed_experts"));
        check_states(model, &arena);
        if (model->layer_count * experts <= LISTED_EXPERTS_MAX) {
            check_tensors(model, &arena);
        }
    }
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json *config;
    if (json_parse((const char *)data, size, "config.json", &config) == STATUS_OK) {
        check_config(config, 0);
        check_config(config, 3);
        json_free(&config);
    }
    return 0;
}
