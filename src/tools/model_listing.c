/* The registry is asked for the family, the family for everything else. */
#include "tools/model_listing.h"

#include <stdio.h>

#include "lib/json.h"
#include "model/model_registry.h"

enum { CONFIG_BYTES_MAX = 16 << 20, ARENA_BLOCK_BYTES = 1 << 20 };

static enum status list_tensors(const struct json *config, const struct tensor_probe *probe,
                                struct model_listing *listing) {
    const struct model_family *family;
    const struct model_request request = {.draft_limit = 0};
    TRY(model_family_find(config, &family));
    TRY(family->create(&listing->arena, config, &request, &listing->model));
    TRY(family->list_tensors(listing->model, probe, &listing->list));
    return STATUS_OK;
}

enum status model_listing_read(const char *config_path, const struct tensor_probe *probe,
                               struct model_listing *out) {
    *out = (struct model_listing){0};
    arena_init(&out->arena, ARENA_BLOCK_BYTES);
    out->list.arena = &out->arena;
    struct json *config;
    TRY(json_parse_file(config_path, CONFIG_BYTES_MAX, &config));
    enum status status = list_tensors(config, probe, out);
    json_free(&config);
    if (status != STATUS_OK) {
        model_listing_deinit(out);
        /* The family knows the keys but not the file. The record is copied because raising overwrites it. */
        char message[ERROR_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", error_last()->message);
        FAIL(status, "%s: %s", config_path, message);
    }
    return STATUS_OK;
}

void model_listing_deinit(struct model_listing *listing) {
    arena_deinit(&listing->arena);
    *listing = (struct model_listing){0};
}
