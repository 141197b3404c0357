/* Owns what it makes until rank_free. */
#include "model/rank_loading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model_registry.h"
#include "support/model_fixture.h"

enum { PATH_BYTES = 1024, CONFIG_BYTES = 1 << 20 };

struct rank_setting rank_setting_split(const char *directory, int layer_count, int stages, int tensor,
                                       bool has_expert_parallelism) {
    struct rank_setting setting = {.directory = directory, .mesh = mesh_shape_single()};
    assert_true(stages <= STAGES_MAX);
    setting.mesh.pipeline = stages;
    setting.mesh.tensor = tensor;
    setting.mesh.has_expert_parallelism = has_expert_parallelism;
    for (int s = 0; s <= stages; s++) {
        setting.first_layers[s] = s * layer_count / stages;
    }
    return setting;
}

void rank_prepare(const struct rank_setting *setting, int rank, struct loaded_rank *out) {
    char path[PATH_BYTES];
    struct json *config;
    const struct model_family *family;
    *out = (struct loaded_rank){0};
    out->layout = (struct shard_layout){.mesh = setting->mesh,
                                        .place = mesh_place_of(&setting->mesh, rank),
                                        .first_layers = setting->first_layers,
                                        .has_draft = setting->draft_limit > 0};
    int stage = out->layout.place.pipeline;
    out->stage = (struct model_stage){.first_layer = setting->first_layers[stage],
                                      .end_layer = setting->first_layers[stage + 1],
                                      .is_first = stage == 0,
                                      .is_last = stage == setting->mesh.pipeline - 1};
    arena_init(&out->arena, 1 << 20);
    out->list.arena = &out->arena;
    snprintf(path, sizeof path, "%s/config.json", setting->directory);
    EXPECT_OK(json_parse_file(path, CONFIG_BYTES, &config));
    EXPECT_OK(checkpoint_open(setting->directory, &out->checkpoint));
    struct tensor_probe probe = checkpoint_probe(out->checkpoint);
    const struct model_request request = {.draft_limit = setting->draft_limit, .stage = &out->stage};
    EXPECT_OK(model_family_find(config, &family));
    EXPECT_OK(family->create(&out->arena, config, &request, &out->model));
    EXPECT_OK(family->list_tensors(out->model, &probe, &out->list));
    json_free(&config);
    out->layout.expert_count = (int)out->model->expert_count;
    out->tensors = calloc(out->list.count, sizeof *out->tensors);
    assert_non_null(out->tensors);
}

void rank_load(const struct rank_setting *setting, int rank, struct device *device, struct stream *stream,
               struct loaded_rank *out) {
    rank_prepare(setting, rank, out);
    EXPECT_OK(checkpoint_load(&out->checkpoint, &out->list, &(struct load_options){.layout = &out->layout},
                              device, stream, out->tensors, &out->weights));
    EXPECT_OK(out->model->family->bind(out->model, &out->list, out->tensors));
}

void rank_free(struct loaded_rank *rank, struct device *device) {
    checkpoint_close(&rank->checkpoint);
    weights_release(&rank->weights, device);
    arena_deinit(&rank->arena);
    free(rank->tensors);
}

size_t rank_find(const struct loaded_rank *rank, const char *name) {
    size_t index = 0;
    while (index < rank->list.count && strcmp(rank->list.specs[index].name, name) != 0) {
        index++;
    }
    if (index == rank->list.count) {
        fail_msg("the list has no tensor %s", name);
    }
    return index;
}
