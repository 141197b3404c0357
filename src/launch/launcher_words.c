/* The settings were measured: without yielding, a message between more ranks than cores takes milliseconds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launcher.h"
#include "launch/rank_environment.h"

enum { WORDS_MAX = sizeof((struct launcher_words *)0)->words / sizeof(char *) };

static void add(struct launcher_words *out, const char *word) {
    if (out->count + 1 < WORDS_MAX) {
        out->words[out->count] = strdup(word);
        out->count += out->words[out->count] != NULL;
    }
}

static void add_setting(struct launcher_words *out, const char *name, const char *value) {
    add(out, "--mca");
    add(out, name);
    add(out, value);
}

static int count_hosts(const char *hosts) {
    int count = 1;
    for (const char *at = hosts; *at != '\0'; at++) {
        count += *at == ',';
    }
    return count;
}

/* "a,b" as "a:2,b:2": ranks side by side on a host, so that tensor groups stay inside. */
static enum status add_hosts(struct launcher_words *out, const struct launcher_options *options) {
    struct string_buffer list = {0};
    int host_count = count_hosts(options->hosts);
    int per_host = options->rank_count / host_count;
    CHECK(options->rank_count % host_count == 0, STATUS_USAGE,
          "%d ranks cannot be dealt out evenly over the %d hosts of --hosts: change -tp, -pp or --hosts",
          options->rank_count, host_count);
    for (const char *at = options->hosts; *at != '\0';) {
        size_t length = strcspn(at, ",");
        if (length == 0) {
            string_buffer_deinit(&list);
            FAIL(STATUS_USAGE, "--hosts takes names separated by commas, not \"%s\"", options->hosts);
        }
        string_buffer_append_format(&list, "%s%.*s:%d", list.length == 0 ? "" : ",", (int)length, at,
                                    per_host);
        at += length + (at[length] == ',');
    }
    add(out, "--host");
    add(out, string_buffer_text(&list));
    string_buffer_deinit(&list);
    return STATUS_OK;
}

enum status launcher_write_words(const struct launcher_options *options, struct launcher_words *out) {
    char number[16];
    snprintf(number, sizeof number, "%d", options->rank_count);
    *out = (struct launcher_words){.count = 0};
    add(out, "mpirun");
    add(out, "-n");
    add(out, number);
    add(out, "--oversubscribe");
    add(out, "--bind-to");
    add(out, "none");
    /* The supervisor decides what a lost rank means, and says so. */
    add(out, "--enable-recovery");
    if (geteuid() == 0) {
        add(out, "--allow-run-as-root");
    }
    add_setting(out, "mpi_yield_when_idle", "1");
    add_setting(out, "btl", options->hosts == NULL ? "self,vader" : "self,vader,tcp");
    const char *network = options->hosts == NULL ? "lo" : options->network;
    add_setting(out, "oob_tcp_if_include", network);
    if (options->hosts != NULL) {
        add_setting(out, "btl_tcp_if_include", network);
        /* A host that is cut off ends its ranks soon, not after minutes. */
        add_setting(out, "oob_tcp_keepalive_time", "5");
        add_setting(out, "oob_tcp_keepalive_intvl", "2");
        add_setting(out, "oob_tcp_keepalive_probes", "3");
        enum status status = add_hosts(out, options);
        if (status != STATUS_OK) {
            launcher_words_free(out);
            return error_forward(status, ERROR_HERE);
        }
    }
    add(out, "-x");
    add(out, RANK_ENVIRONMENT_CONTROL);
    add(out, "-x");
    add(out, RANK_ENVIRONMENT_KEY);
    return STATUS_OK;
}

void launcher_words_free(struct launcher_words *words) {
    for (int i = 0; i < words->count; i++) {
        free(words->words[i]);
    }
    *words = (struct launcher_words){.count = 0};
}
