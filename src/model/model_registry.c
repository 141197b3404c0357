/* One line per family. */
#include "model/model_registry.h"

#include <string.h>

#include "model/deepseek_v4/deepseek_v4.h"

static const struct model_family *const families[] = {&deepseek_v4_family};

enum status model_family_find(const struct json *config, const struct model_family **out) {
    const char *type = json_text(json_get(config, "model_type"), NULL);
    if (type == NULL) {
        CHECK(json_get(config, "dim") == NULL, STATUS_BAD_CONFIG,
              "this is the reference code's inference/config.json: use the config.json beside the weights");
        FAIL(STATUS_BAD_CONFIG, "the configuration has no model_type");
    }
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(type, families[i]->model_type) == 0) {
            *out = families[i];
            return STATUS_OK;
        }
    }
    FAIL(STATUS_UNSUPPORTED, "model_type \"%s\" is not implemented here (known: deepseek_v4)", type);
}
