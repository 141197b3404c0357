/* One table of keys for reading and for refusing what is none. */
#include "engine/device_profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/json.h"

enum { PROFILE_BYTES_MAX = 1 << 20 };

/* What kernels aim at (decode at batch 1, prefill). */
static const double READ_SHARE = 0.85;
static const double COMPUTE_SHARE = 0.65;

struct device_profile device_profile_default(void) {
    return (struct device_profile){.read_share = READ_SHARE, .compute_share = COMPUTE_SHARE};
}

/* A number of the profile, if it has it. */
static enum status read_number(const struct json *profile, const char *path, const char *key, double *out) {
    const struct json *value = json_get(profile, key);
    if (value == NULL) {
        return STATUS_OK;
    }
    double number = json_number(value);
    CHECK(number > 0.0 && isfinite(number), STATUS_BAD_CONFIG, "%s: \"%s\" is not a number above 0", path,
          key);
    *out = number;
    return STATUS_OK;
}

enum status device_profile_read(const char *path, struct device_profile *out) {
    struct json *profile = NULL;
    enum status status = STATUS_OK;
    TRY(json_parse_file(path, PROFILE_BYTES_MAX, &profile));
    const struct {
        const char *key;
        double *value;
    } numbers[] = {
        {"memory_bytes", &out->memory_bytes},
        {"read_bytes_per_second", &out->read_bytes_per_second},
        {"operations_per_second", &out->operations_per_second},
        {"link_bytes_per_second", &out->link_bytes_per_second},
        {"link_latency_seconds", &out->link_latency_seconds},
        {"network_bytes_per_second", &out->network_bytes_per_second},
        {"network_latency_seconds", &out->network_latency_seconds},
        {"read_share", &out->read_share},
        {"compute_share", &out->compute_share},
    };
    CHECK_GOTO(json_kind(profile) == JSON_KIND_OBJECT, STATUS_BAD_CONFIG, "%s is not a JSON object", path);
    for (const struct json_member *member = json_first(profile); member != NULL;
         member = json_next(profile, member)) {
        const char *key = json_member_key(member, NULL);
        bool is_known = strcmp(key, "device") == 0;
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
            is_known = is_known || strcmp(key, numbers[i].key) == 0;
        }
        CHECK_GOTO(is_known, STATUS_BAD_CONFIG, "%s: \"%s\" is no number of a device profile", path, key);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        TRY_GOTO(read_number(profile, path, numbers[i].key, numbers[i].value));
    }
    const char *name = json_text(json_get(profile, "device"), NULL);
    if (name != NULL) {
        snprintf(out->name, sizeof out->name, "%s", name);
    }
fail:
    json_free(&profile);
    return status;
}

double device_profile_read_seconds(const struct device_profile *profile, double bytes) {
    return bytes / (profile->read_bytes_per_second * profile->read_share);
}

double device_profile_compute_seconds(const struct device_profile *profile, double operations) {
    return operations / (profile->operations_per_second * profile->compute_share);
}

struct sharing_rates device_profile_sharing_rates(const struct device_profile *profile, bool is_local) {
    return (struct sharing_rates){
        .link_bytes_per_second =
            is_local ? profile->link_bytes_per_second : profile->network_bytes_per_second,
        .link_latency_seconds = is_local ? profile->link_latency_seconds : profile->network_latency_seconds,
        .read_bytes_per_second = profile->read_bytes_per_second * profile->read_share,
        .operations_per_second = profile->operations_per_second * profile->compute_share};
}
