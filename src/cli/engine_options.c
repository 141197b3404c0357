/* The few options that are more than a number. */
#include "cli/engine_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lib/json.h"

/* No drafts for more than `value` requests. */
static enum status read_batch_limit(const struct json *value, struct cli_engine_options *out) {
    CHECK(json_kind(value) == JSON_KIND_INTEGER && json_int64(value) >= 1 && json_int64(value) < INT32_MAX,
          STATUS_USAGE, "--speculative-config: disable_by_batch_size is not a number from 1 on");
    int32_t count = (int32_t)json_int64(value);
    out->schedule[0] = (struct sluice_draft_schedule_row){count, SLUICE_DRAFT_POSITIONS_MAX};
    out->schedule[1] = (struct sluice_draft_schedule_row){count + 1, 0};
    out->engine.draft.schedule = out->schedule;
    out->engine.draft.schedule_row_count = 2;
    return STATUS_OK;
}

static enum status read_other_speculation(const struct json_member *member, struct cli_engine_options *out) {
    /* How vLLM runs a draft model; here it is a layer of the model, and runs as that does. */
    static const char *const others[] = {
        "model",         "draft_tensor_parallel_size",
        "quantization",  "max_model_len",
        "revision",      "code_revision",
        "enforce_eager", "disable_padded_drafter_batch",
        "moe_backend",   "attention_backend",
    };
    const char *key = json_member_key(member, NULL);
    if (strcmp(key, "disable_by_batch_size") == 0) {
        return read_batch_limit(json_member_value(member), out);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(key, others[i]) == 0) {
            log_write(LOG_WARNING, "cli", "--speculative-config: %s changes nothing here", key);
            return STATUS_OK;
        }
    }
    FAIL(STATUS_USAGE,
         "--speculative-config: the key \"%s\" is unknown; method, num_speculative_tokens and "
         "disable_by_batch_size are not",
         key);
}

/* vLLM's {"method":"mtp","num_speculative_tokens":N}. */
static enum status read_speculation(const char *text, struct cli_engine_options *out) {
    struct json *config = NULL;
    enum status status = STATUS_OK;
    TRY(json_parse(text, strlen(text), "--speculative-config", &config));
    const char *method = json_text(json_get(config, "method"), NULL);
    const struct json *count = json_get(config, "num_speculative_tokens");
    CHECK_GOTO(method != NULL && (strcmp(method, "mtp") == 0 || strcmp(method, "deepseek_mtp") == 0),
               STATUS_UNSUPPORTED, "--speculative-config: the only method here is \"mtp\"");
    CHECK_GOTO(json_kind(count) == JSON_KIND_INTEGER && json_int64(count) >= 0 &&
                   json_int64(count) <= SLUICE_DRAFT_POSITIONS_MAX,
               STATUS_USAGE, "--speculative-config: num_speculative_tokens is not a number from 0 to %d",
               SLUICE_DRAFT_POSITIONS_MAX);
    out->engine.draft.limit = (int)json_int64(count);
    for (const struct json_member *member = json_first(config); member != NULL;
         member = json_next(config, member)) {
        const char *key = json_member_key(member, NULL);
        if (strcmp(key, "method") != 0 && strcmp(key, "num_speculative_tokens") != 0) {
            TRY_GOTO(read_other_speculation(member, out));
        }
    }
fail:
    json_free(&config);
    return status;
}

/* "8=2,64=1": up to 8 requests at most 2 drafts, up to 64 at most one. */
static enum status read_schedule(const char *text, struct cli_engine_options *out) {
    size_t count = 0;
    long last = 0;
    for (const char *at = text; at != NULL;) {
        char *end = NULL;
        errno = 0;
        long sequences = strtol(at, &end, 10);
        bool is_good = end != at && *end == '=' && sequences > last && sequences <= INT32_MAX;
        const char *limit_text = is_good ? end + 1 : at;
        long limit = is_good ? strtol(limit_text, &end, 10) : -1;
        is_good = is_good && end != limit_text && errno == 0 && limit >= 0 &&
                  limit <= SLUICE_DRAFT_POSITIONS_MAX && (*end == ',' || *end == '\0');
        CHECK(is_good && count < CLI_DRAFT_SCHEDULE_MAX, STATUS_USAGE,
              "--mtp-schedule takes REQUESTS=DRAFTS,... with ascending numbers of requests, not \"%s\"",
              text);
        out->schedule[count++] = (struct sluice_draft_schedule_row){.sequence_count = (int32_t)sequences,
                                                                    .draft_limit = (int32_t)limit};
        last = sequences;
        at = *end == ',' ? end + 1 : NULL;
    }
    out->engine.draft.schedule = out->schedule;
    out->engine.draft.schedule_row_count = count;
    return STATUS_OK;
}

/* "6GB", "512MiB", "1000000": decimal and binary units. */
static enum status read_bytes(const char *text, const char *option, uint64_t *out) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1.0},
                 {"B", 1.0},
                 {"KB", 1e3},
                 {"MB", 1e6},
                 {"GB", 1e9},
                 {"TB", 1e12},
                 {"G", 1e9},
                 {"M", 1e6},
                 {"KiB", 1024.0},
                 {"MiB", 1048576.0},
                 {"T", 1e12},
                 {"K", 1e3},
                 {"GiB", 1073741824.0},
                 {"TiB", 1099511627776.0}};
    char *end = NULL;
    errno = 0;
    double number = strtod(text, &end);
    double bytes = -1.0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) == 0) {
            bytes = number * units[i].bytes;
        }
    }
    CHECK(end != text && errno == 0 && bytes >= 1.0 && bytes < 9e18, STATUS_USAGE,
          "--%s takes a size such as 6GB or 512MiB, not \"%s\"", option, text);
    *out = (uint64_t)bytes;
    return STATUS_OK;
}

static enum status read_drafts(const struct cli_options *options, int default_drafts,
                               struct cli_engine_options *out) {
    struct sluice_draft_options *draft = &out->engine.draft;
    draft->limit = default_drafts;
    draft->is_adaptive = options->mtp_adaptive;
    draft->sampling = options->mtp_sampling == CLI_MTP_REJECTION ? SLUICE_DRAFT_SAMPLING_REJECTION
                                                                 : SLUICE_DRAFT_SAMPLING_COUPLED;
    if (options->speculative_config != NULL) {
        TRY(read_speculation(options->speculative_config, out));
    }
    CHECK(options->mtp_schedule == NULL || draft->schedule_row_count == 0, STATUS_USAGE,
          "--mtp-schedule says how many drafts there are, and so does disable_by_batch_size of "
          "--speculative-config: leave one of them out");
    return options->mtp_schedule == NULL ? STATUS_OK : read_schedule(options->mtp_schedule, out);
}

/* A whole number of vLLM's configuration, at least `minimum`. */
static enum status read_eplb_number(const struct json *value, const char *key, int64_t minimum, int *out) {
    CHECK(json_kind(value) == JSON_KIND_INTEGER && json_int64(value) >= minimum &&
              json_int64(value) <= 1 << 30,
          STATUS_USAGE, "--eplb-config: %s is not a number from %lld on", key, (long long)minimum);
    *out = (int)json_int64(value);
    return STATUS_OK;
}

/* vLLM's {"num_redundant_experts":N,"step_interval":N}; its other keys say how, not what, and mean nothing
 * here.
 */
static enum status read_eplb(const char *text, struct sluice_parallel_options *out) {
    static const char *const others[] = {"window_size", "log_balancedness", "log_balancedness_interval",
                                         "use_async",   "policy",           "communicator"};
    struct json *config = NULL;
    enum status status = STATUS_OK;
    TRY(json_parse(text, strlen(text), "--eplb-config", &config));
    CHECK_GOTO(json_kind(config) == JSON_KIND_OBJECT, STATUS_USAGE, "--eplb-config is not a JSON object");
    for (const struct json_member *member = json_first(config); member != NULL;
         member = json_next(config, member)) {
        const char *key = json_member_key(member, NULL);
        const struct json *value = json_member_value(member);
        bool is_known = false;
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            is_known = is_known || strcmp(key, others[i]) == 0;
        }
        if (strcmp(key, "num_redundant_experts") == 0) {
            TRY_GOTO(read_eplb_number(value, key, 0, &out->expert_copies));
        } else if (strcmp(key, "step_interval") == 0) {
            TRY_GOTO(read_eplb_number(value, key, 2, &out->expert_move_interval));
        } else {
            CHECK_GOTO(
                is_known, STATUS_USAGE,
                "--eplb-config: the key \"%s\" is unknown; num_redundant_experts and step_interval are "
                "not",
                key);
        }
    }
fail:
    json_free(&config);
    return status;
}

static enum status read_partition(const char *text, struct sluice_parallel_options *out) {
    CHECK(strlen(text) < sizeof out->layer_partition, STATUS_USAGE,
          "--pp-layer-partition has %zu characters, expected at most %zu", strlen(text),
          sizeof out->layer_partition - 1);
    memcpy(out->layer_partition, text, strlen(text) + 1);
    return STATUS_OK;
}

/* The number at *at, and *at behind the comma that follows or NULL; 0 if there is none from 1 on. */
static long next_size(const char **at) {
    char *end = NULL;
    errno = 0;
    long size = strtol(*at, &end, 10);
    bool is_number = **at >= '0' && **at <= '9' && errno == 0 && (*end == ',' || *end == '\0');
    *at = *end == ',' ? end + 1 : NULL;
    return is_number ? size : 0;
}

/* Stages of different tensor parallelism can be asked for, and are reserved (spec parallelism G-4, CFG-14).
 */
static enum status check_stage_sizes(const char *text, int stage_count, int tensor) {
    int count = 0;
    bool are_alike = true;
    for (const char *at = text; at != NULL; count++) {
        long size = next_size(&at);
        CHECK(size > 0, STATUS_USAGE,
              "--pp-tensor-parallel-sizes takes a number of ranks for each stage, such as 4,4,2, not \"%s\"",
              text);
        are_alike = are_alike && size == tensor;
    }
    CHECK(text == NULL || count == stage_count, STATUS_USAGE,
          "--pp-tensor-parallel-sizes \"%s\" is for %d stages, but -pp is %d", text, count, stage_count);
    CHECK(are_alike, STATUS_UNSUPPORTED,
          "stages of different tensor parallelism (%s) are not supported yet: leave "
          "--pp-tensor-parallel-sizes out, and -tp is for all",
          text);
    return STATUS_OK;
}

static enum status read_parallel(const struct cli_options *options, struct sluice_parallel_options *out) {
    static const enum sluice_shared_experts shared_experts[] = {
        [CLI_REPLICATE_AUTO] = SLUICE_SHARED_EXPERTS_AUTO,
        [CLI_REPLICATE_NONE] = SLUICE_SHARED_EXPERTS_CUT,
        [CLI_REPLICATE_DENSE] = SLUICE_SHARED_EXPERTS_CUT,
        [CLI_REPLICATE_SHARED] = SLUICE_SHARED_EXPERTS_WHOLE,
        [CLI_REPLICATE_ALL] = SLUICE_SHARED_EXPERTS_WHOLE,
    };
    *out = (struct sluice_parallel_options){
        .job = options->job,
        .data = cli_replicas_share_experts(options) ? (int)options->data_parallel_size : 1,
        .deadline_seconds = options->deadline_seconds,
        .pipeline = (int)options->pipeline_parallel_size,
        .tensor = (int)options->tensor_parallel_size,
        .context = (int)options->context_parallel_size,
        .has_expert_parallelism = !options->enable_expert_parallel_given || options->enable_expert_parallel,
        .row_sharing = (enum sluice_row_sharing)options->sp,
        .shared_rows_min = (int)options->sp_min_rows,
        .row_gather = (enum sluice_row_gather)options->sp_gather,
        .expert_exchange = (enum sluice_expert_exchange)options->moe_comm,
        .shared_experts = shared_experts[options->sp_replicate],
        .in_flight = (int)options->pp_inflight,
        .objective = (enum sluice_stage_objective)options->pp_objective,
        .has_movable_experts = options->enable_eplb,
    };
    TRY(check_stage_sizes(options->pp_tensor_parallel_sizes, out->pipeline, out->tensor));
    if (options->pp_layer_partition != NULL) {
        TRY(read_partition(options->pp_layer_partition, out));
    }
    CHECK(options->eplb_config == NULL || options->enable_eplb, STATUS_USAGE,
          "--eplb-config says how experts move: say that they do by --enable-eplb");
    return options->eplb_config == NULL ? STATUS_OK : read_eplb(options->eplb_config, out);
}

static enum status read_prefix_cache(const struct cli_options *options,
                                     struct sluice_engine_options *engine) {
    CHECK(options->prefix_cache_dir != NULL || !options->prefix_cache_disk_limit_given, STATUS_USAGE,
          "--prefix-cache-disk-limit limits a folder that --prefix-cache-dir names: add that, or leave both "
          "out");
    engine->prefix_cache_directory = options->prefix_cache_dir;
    if (options->max_num_seqs > 0) { /* a command that takes requests from others */
        CHECK(options->enable_prefix_caching || options->prefix_cache_dir == NULL, STATUS_USAGE,
              "--prefix-cache-dir keeps what the prefix cache knows, and --no-enable-prefix-caching turns "
              "that off: leave one of them out");
        engine->has_prefix_cache = options->enable_prefix_caching;
    }
    return options->prefix_cache_dir == NULL
               ? STATUS_OK
               : read_bytes(options->prefix_cache_disk_limit, "prefix-cache-disk-limit",
                            &engine->prefix_cache_disk_bytes);
}

enum status cli_engine_options_read(const struct cli_options *options, int default_drafts,
                                    struct cli_engine_options *out) {
    static const char *const devices[] = {"cpu", "guard"};
    *out = (struct cli_engine_options){.engine = sluice_engine_options_default()};
    struct sluice_engine_options *engine = &out->engine;
    engine->model_directory = options->model;
    engine->device = devices[options->device];
    engine->cpu_features = options->cpu_features;
    engine->numerics =
        options->numerics == CLI_NUMERICS_IDEAL ? SLUICE_NUMERICS_IDEAL : SLUICE_NUMERICS_NATIVE;
    engine->weights = (enum sluice_weights)options->weights;
    engine->thread_count = (int)options->threads;
    engine->step_token_limit = (int)options->chunk_tokens;
    engine->context_tokens =
        options->max_model_len == OPTION_INT_WORD ? SLUICE_CONTEXT_THAT_FITS : options->max_model_len;
    engine->trace_path = options->trace;
    engine->device_profile = options->profile;
    TRY(read_prefix_cache(options, engine));
    if (options->max_num_seqs > 0) { /* a command that takes requests from others */
        engine->sequence_limit = (int)options->max_num_seqs;
        engine->page_tokens = (int)options->block_size;
    }
    if (options->tensor_parallel_size > 0) { /* a command that may run on several ranks */
        TRY(read_parallel(options, &engine->parallel));
    }
    if (options->memory_limit != NULL) {
        TRY(read_bytes(options->memory_limit, "memory-limit", &engine->memory_limit_bytes));
    }
    return read_drafts(options, default_drafts, out);
}
