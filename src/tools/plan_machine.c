/* Data sheets in one table; what options and profiles say goes before them. */
#include "tools/plan_machine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 4096 };

/*
 * Memory, how fast it is read, dense 8-bit (else bf16) matrix operations, and one way of the fabric between
 * the devices of a host. A device with one number of bytes is found by it.
 */
struct device_row {
    const char *name;
    double memory_bytes;
    double read_bytes_per_second;
    double operations_per_second;
    double link_bytes_per_second;
};

static const struct device_row gpus[] = {
    {"h100", 80e9, 3.35e12, 1979e12, 450e9},   {"h200", 141e9, 4.8e12, 1979e12, 450e9},
    {"h20", 96e9, 4.0e12, 296e12, 450e9},      {"b200", 180e9, 8.0e12, 4500e12, 900e9},
    {"a100", 40e9, 1.555e12, 312e12, 300e9},   {"mi300x", 192e9, 5.3e12, 2615e12, 448e9},
    {"mi355x", 288e9, 8.0e12, 5033e12, 538e9},
};

/* Hosts that are one device: a small machine with unified memory, and plain processors. */
static const struct device_row hosts[] = {
    {"spark", 128e9, 273e9, 250e12, 25e9},
    {"cpu", 0, 100e9, 2e12, 1.25e9},
};

static const double LINK_LATENCY = 5e-6;
static const double NETWORK_LATENCY = 20e-6;
static const double NETWORK_OF_GPUS = 50e9;    /* 400 Gbit for each */
static const double NETWORK_OF_HOSTS = 1.25e9; /* 10 Gbit */

const char *plan_device_names(void) {
    return "h100, h200, h20, b200, a100, mi300x, mi355x for --gpus; spark, cpu for --hosts";
}

struct unit_row {
    const char *name;
    double factor;
};

/* A number with a unit of the table, 0 if it is none. */
static double parse_quantity(const char *text, const struct unit_row *units, size_t count) {
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    for (size_t i = 0; i < count && end != text && errno == 0; i++) {
        if (strcmp(end, units[i].name) == 0 && number > 0.0 && number < 1e18) {
            return number * units[i].factor;
        }
    }
    return 0.0;
}

double plan_size_parse(const char *text) {
    static const struct unit_row units[] = {
        {"GB", 1e9}, {"GiB", 1073741824.0}, {"MB", 1e6}, {"MiB", 1048576.0}, {"TB", 1e12}, {"G", 1e9},
    };
    return parse_quantity(text, units, sizeof units / sizeof units[0]);
}

double plan_rate_parse(const char *text) {
    static const struct unit_row units[] = {
        {"Gbit", 1e9 / 8},   {"Gbit/s", 1e9 / 8}, {"Gbps", 1e9 / 8}, {"Mbit", 1e6 / 8},
        {"Mbit/s", 1e6 / 8}, {"GB/s", 1e9},       {"MB/s", 1e6},     {"TB/s", 1e12},
    };
    return parse_quantity(text, units, sizeof units / sizeof units[0]);
}

static const struct device_row *find_named(const struct device_row *rows, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The device whose memory is nearest; a host of a given size is a plain processor. */
static const struct device_row *find_by_memory(const struct device_row *rows, size_t count, double bytes) {
    const struct device_row *best = &rows[count - 1];
    for (size_t i = 0; i < count && rows == gpus; i++) {
        double distance = fabs(log(rows[i].memory_bytes / bytes));
        best = distance < fabs(log(best->memory_bytes / bytes)) ? &rows[i] : best;
    }
    return best;
}

/* "8x141GB": a count (1 without one) and the rest. */
static enum status split_count(const char *option, const char *text, int *count, const char **rest) {
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    *count = 1;
    *rest = text;
    if (end != text && (*end == 'x' || *end == '\0')) {
        CHECK(number >= 1 && number <= COUNT_MAX && errno == 0, STATUS_USAGE,
              "--%s \"%s\" has a count of %ld, expected 1 to %d", option, text, number, COUNT_MAX);
        *count = (int)number;
        *rest = *end == 'x' ? end + 1 : end;
    }
    return STATUS_OK;
}

static enum status describe_device(const char *option, const struct device_row *rows, size_t count,
                                   const char *text, struct plan_machine *out) {
    double memory = plan_size_parse(text);
    const struct device_row *row =
        memory > 0.0 ? find_by_memory(rows, count, memory) : find_named(rows, count, text);
    CHECK(row != NULL, STATUS_USAGE,
          "--%s: \"%s\" is neither a size such as 141GB nor a known device (%s); other devices are described "
          "by "
          "--profile",
          option, text, plan_device_names());
    memory = memory > 0.0 ? memory : row->memory_bytes;
    CHECK(memory > 0.0, STATUS_USAGE, "--%s: %s comes with any memory, so name its size, such as 128GB",
          option, text);
    snprintf(out->device.name, sizeof out->device.name, "%s", row->name);
    out->device.memory_bytes = memory;
    out->device.read_bytes_per_second = row->read_bytes_per_second;
    out->device.operations_per_second = row->operations_per_second;
    out->device.link_bytes_per_second = row->link_bytes_per_second;
    return STATUS_OK;
}

/* Stages on devices of different kinds are reserved (spec parallelism G-4, CFG-14). */
static enum status check_one_kind(const char *option, const char *text) {
    CHECK(text == NULL || strchr(text, ',') == NULL, STATUS_UNSUPPORTED,
          "--%s \"%s\": stages on devices of different kinds are not supported yet, so name one kind", option,
          text);
    return STATUS_OK;
}

static enum status read_devices(const struct plan_machine_request *request, struct plan_machine *out) {
    const char *rest = NULL;
    CHECK(request->gpus != NULL || request->hosts != NULL, STATUS_USAGE,
          "describe the machine by --gpus, such as 8x141GB, or by --hosts, such as 2x128GB");
    TRY(check_one_kind("gpus", request->gpus));
    TRY(check_one_kind("hosts", request->hosts));
    out->host_count = 1;
    out->devices_per_host = 1;
    out->device.network_bytes_per_second = NETWORK_OF_HOSTS;
    if (request->hosts != NULL) {
        TRY(split_count("hosts", request->hosts, &out->host_count, &rest));
        CHECK((request->gpus != NULL) == (*rest == '\0'), STATUS_USAGE,
              "--hosts \"%s\": with --gpus it is the number of hosts, such as 4, and without it their number "
              "and "
              "memory, such as 2x128GB",
              request->hosts);
    }
    if (request->gpus == NULL) {
        return describe_device("hosts", hosts, sizeof hosts / sizeof hosts[0], rest, out);
    }
    out->device.network_bytes_per_second = NETWORK_OF_GPUS;
    TRY(split_count("gpus", request->gpus, &out->devices_per_host, &rest));
    return describe_device("gpus", gpus, sizeof gpus / sizeof gpus[0], rest, out);
}

enum status plan_machine_read(const struct plan_machine_request *request, struct plan_machine *out) {
    *out = (struct plan_machine){.device = device_profile_default(), .memory_share = request->memory_share};
    out->device.link_latency_seconds = LINK_LATENCY;
    out->device.network_latency_seconds = NETWORK_LATENCY;
    TRY(read_devices(request, out));
    if (request->profile != NULL) {
        TRY(device_profile_read(request->profile, &out->device));
    }
    if (request->link != NULL) {
        out->device.network_bytes_per_second = plan_rate_parse(request->link);
        CHECK(out->device.network_bytes_per_second > 0.0, STATUS_USAGE,
              "--link takes a rate such as 25Gbit or 12.5GB/s, not \"%s\"", request->link);
    }
    return STATUS_OK;
}

int plan_machine_rank_count(const struct plan_machine *machine) {
    return machine->host_count * machine->devices_per_host;
}

struct plan_machine plan_machine_scale(const struct plan_machine *machine, int rank_count) {
    struct plan_machine scaled = *machine;
    if (rank_count < scaled.devices_per_host) {
        scaled.devices_per_host = rank_count;
    }
    scaled.host_count = (rank_count + scaled.devices_per_host - 1) / scaled.devices_per_host;
    return scaled;
}

int plan_machine_host(const struct plan_machine *machine, int rank) {
    return rank / machine->devices_per_host;
}
