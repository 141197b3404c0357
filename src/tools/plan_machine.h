/*
 * The machine to plan for: hosts of equal devices, and the links between them.
 */
#ifndef SLUICE_TOOLS_PLAN_MACHINE_H
#define SLUICE_TOOLS_PLAN_MACHINE_H

#include <stdbool.h>

#include "base/status.h"
#include "engine/device_profile.h"
#include "parallel/mesh.h"

struct plan_machine {
    struct device_profile device;
    int host_count;
    int devices_per_host;
    double memory_share; /* of a device's memory, what may be used */
};

/* What the options say; texts are NULL where nothing was said. */
struct plan_machine_request {
    const char *gpus;    /* "8x141GB", "8xh200" */
    const char *hosts;   /* "2x128GB", "4xspark": hosts that are one device each; with gpus: "4" */
    const char *link;    /* "25Gbit", "50GB/s": between hosts */
    const char *profile; /* JSON file; its numbers go before the device's */
    double memory_share;
};

/*
 * A named device, or one that is known by its memory, with the numbers of its data sheet. Errors are USAGE
 * and name the option; BAD_CONFIG for the profile.
 */
enum status plan_machine_read(const struct plan_machine_request *request, struct plan_machine *out);

int plan_machine_rank_count(const struct plan_machine *machine);

/* The same machine with so many ranks; hosts are filled one after the other. */
struct plan_machine plan_machine_scale(const struct plan_machine *machine, int rank_count);

/* Host of a rank; ranks fill host after host. */
int plan_machine_host(const struct plan_machine *machine, int rank);

/* "12.5GB/s", "100Gbit": bytes per second, 0 if the text is neither. */
double plan_rate_parse(const char *text);

/* "141GB", "64GiB": bytes, 0 if the text is no size. */
double plan_size_parse(const char *text);

/* Names of the known devices, separated by commas. A static string. */
const char *plan_device_names(void);

#endif
