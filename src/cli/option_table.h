/*
 * The options of all commands: one struct of values and one table of rows (base/options.h).
 *
 * A command reads only the fields that its rows fill; the others are zero. Text is borrowed from the command
 * line.
 */
#ifndef SLUICE_CLI_OPTION_TABLE_H
#define SLUICE_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"

struct sluice_job;

/* Bits of option_row.commands. */
enum cli_command {
    CLI_GENERATE = 1 << 0,
    CLI_TOKENIZE = 1 << 1,
    CLI_INSPECT = 1 << 2,
    CLI_SYNTH = 1 << 3,
    CLI_BENCH = 1 << 4,
    CLI_KERNELCHECK = 1 << 5,
    CLI_CHAT = 1 << 6,
    CLI_PLAN = 1 << 7,
    CLI_SERVE = 1 << 8,
    CLI_WORKER = 1 << 9, /* gets what serve passes on to its engines */
    CLI_BENCH_SERVE = 1 << 10,
    CLI_EVAL = 1 << 11,
};

/* Values of options with choices, in their order. */
enum cli_reasoning_effort { CLI_EFFORT_NONE, CLI_EFFORT_LOW, CLI_EFFORT_HIGH, CLI_EFFORT_MAX };
enum cli_numerics { CLI_NUMERICS_IDEAL, CLI_NUMERICS_NATIVE };

/* Matrices that every rank has whole where rows are shared; of them V4 has shared experts only. */
enum cli_replicate {
    CLI_REPLICATE_AUTO,
    CLI_REPLICATE_NONE,
    CLI_REPLICATE_DENSE,
    CLI_REPLICATE_SHARED,
    CLI_REPLICATE_ALL,
};
enum cli_device { CLI_DEVICE_CPU, CLI_DEVICE_GUARD };
enum cli_backend { CLI_BACKEND_AUTO, CLI_BACKEND_THREADS, CLI_BACKEND_MPI, CLI_BACKEND_MP };
enum cli_mtp_sampling { CLI_MTP_COUPLED, CLI_MTP_REJECTION };

struct cli_options {
    /* Files. */
    const char *model;     /* directory of a checkpoint; NULL if not given */
    const char *tokenizer; /* tokenizer.json, instead of the model's */
    const char *config;    /* config.json of the checkpoint to write or to plan for */
    const char *out;       /* directory to write it to */
    int64_t shard_bytes;   /* 0: one file */

    /* Prompt: at most one of the four sources; the command checks. */
    const char *prompt;
    const char *prompt_file; /* "-": standard input */
    const char *messages;    /* JSON file of a conversation; "-": standard input */
    const char *token_ids;   /* "1,2,3" */
    const char *token_ids_file;
    const char *system;
    bool chat;
    bool thinking, thinking_given; /* without either flag: on with --chat */
    int reasoning_effort;          /* enum cli_reasoning_effort */
    bool reasoning_effort_given;
    bool match_added_tokens;
    const char *history; /* file of lines typed before; "none" */

    /* Length and sampling. The `_given` ones otherwise come from generation_config.json. */
    int64_t max_tokens; /* chat looks at max_tokens_given */
    bool max_tokens_given;
    int64_t max_model_len; /* 0: what the prompt and max_tokens need; OPTION_INT_WORD: what fits */
    double temperature, top_p, min_p;
    int64_t top_k; /* 0 or -1: off */
    bool temperature_given, top_p_given, top_k_given, min_p_given;
    double repetition_penalty, presence_penalty, frequency_penalty;
    bool repetition_penalty_given;
    const char *logit_bias; /* "ID=BIAS,..." */
    int64_t seed;
    bool seed_given;
    struct option_list stop;
    const char *json_schema; /* file */
    const char *regex;
    const char *grammar; /* file */
    struct option_list choice;
    const char *tool_choice; /* auto, required, none, or a function's name */
    bool ignore_eos;

    /* Output. */
    int64_t logprobs; /* alternatives per token; the command looks at logprobs_given */
    bool logprobs_given;
    bool json;
    const char *prompt_logits; /* safetensors file to write */
    bool mtp_logits;
    const char *trace; /* JSON file to write; NULL: none */
    bool decode;
    bool verify;
    bool tensors;

    /* Measuring. */
    const char *prompt_tokens; /* "128,512" */
    bool prompt_tokens_given;
    const char *context; /* the same; NULL if not given */
    const char *batch;   /* the same */
    int64_t gen_tokens;
    const char *concurrency; /* the same; NULL: no requests are measured */
    const char *drafts;      /* "0,1,adaptive"; NULL: as the checkpoint allows */
    int64_t request_tokens;
    int64_t prefix_tokens; /* 0: not measured */
    int64_t repeats;
    bool roofline;
    const char *plot; /* SVG file to write; NULL for none */
    bool bench;       /* kernelcheck: time instead of check */
    bool quick;

    /* Asking a server. */
    const char *base_url;     /* NULL: bench serve asks the default port of serve, eval no server */
    int endpoint;             /* enum bench_serve_endpoint */
    const char *dataset_path; /* NULL: random prompts */
    const char *request_rate; /* "1,2.5"; NULL: a closed loop */
    int64_t num_prompts;      /* 0: as many as the level needs */
    int64_t random_input_len, random_output_len;
    int64_t vocab_size;
    int64_t warmup;
    struct option_list goodput; /* "ttft:500" */
    double request_timeout;

    /* Evaluating. */
    const char *data;
    int64_t limit; /* 0: all */
    int64_t num_fewshot;
    int64_t window, stride; /* 0: the default */

    /* Planning: the machine and the layout. */
    const char *gpus;    /* "8x141GB" */
    const char *hosts;   /* "2x128GB"; of a job: "a,b" */
    const char *link;    /* "25Gbit" */
    const char *profile; /* JSON file */
    const char *scale;   /* "16,32,64" */
    int64_t tensor_parallel_size, pipeline_parallel_size, data_parallel_size;
    bool tensor_parallel_size_given, pipeline_parallel_size_given, data_parallel_size_given;
    int64_t context_parallel_size;
    bool enable_expert_parallel,
        enable_expert_parallel_given; /* without either flag: where there are ranks */
    int sp;                           /* enum sluice_row_sharing */
    bool sp_given;
    int64_t sp_min_rows; /* 0: 4 per rank */
    int sp_gather;       /* enum sluice_row_gather */
    int sp_replicate;    /* enum cli_replicate */
    int moe_comm;        /* enum sluice_expert_exchange */
    int pp_objective;    /* enum sluice_stage_objective */
    bool enable_eplb;
    const char *eplb_config;              /* JSON */
    const char *pp_tensor_parallel_sizes; /* "4,4,2" */
    const char *pp_layer_partition;       /* "12,12,12,7" */
    int64_t pp_inflight;                  /* 0: one group per stage */
    int64_t pp_buffers;
    int64_t block_size;
    int64_t max_num_seqs;
    bool enable_prefix_caching;
    double gpu_memory_utilization;

    /* Ranks as processes. */
    int distributed_executor_backend; /* enum cli_backend */
    const char *rank_network;         /* "10.0.0.0/24"; NULL: this host only */
    const char *peer_secret_file;     /* NULL: none */
    double deadline_seconds;
    struct sluice_job *job; /* no option: the job that this process leads; NULL: none */

    /* Serving. */
    const char *host;
    int64_t port;
    const char *uds; /* a socket in the file system; NULL: host and port */
    const char *ssl_certfile, *ssl_keyfile;
    const char *root_path;
    struct option_list served_model_name;
    struct option_list api_key;
    const char *api_key_file;
    struct option_list allowed_origins;
    const char *default_chat_template_kwargs; /* JSON */
    const char *generation_config;            /* "auto", "vllm" or a folder */
    const char *override_generation_config;   /* JSON */
    int64_t max_logprobs;
    bool enable_prompt_tokens_details;
    bool enable_force_include_usage;
    bool enable_tokenizer_info_endpoint;
    bool disable_uvicorn_access_log;
    int64_t max_requests;
    int64_t max_connections;
    int64_t max_connections_per_address; /* 0: no limit of their own */
    int64_t max_body_bytes;
    double drain_seconds;

    /* Execution. */
    int numerics;             /* enum cli_numerics */
    int device;               /* enum cli_device */
    const char *cpu_features; /* "auto" or a set's name */
    int weights;              /* enum sluice_weights */
    int64_t threads;          /* 0: the allowed cores */
    int64_t chunk_tokens;
    const char *prefix_cache_dir;        /* NULL: beginnings are kept in memory only */
    const char *prefix_cache_disk_limit; /* "100GB" */
    bool prefix_cache_disk_limit_given;
    const char *memory_limit;       /* "6GB"; NULL: none */
    bool speculative;               /* chat: draft without being asked */
    const char *speculative_config; /* JSON */
    bool mtp_adaptive;
    int mtp_sampling;         /* enum cli_mtp_sampling */
    const char *mtp_schedule; /* "8=2,64=1"; NULL: none */
    int log_level;            /* enum log_level */
};

/* The table of all commands. */
const struct option_table *cli_option_table(void);

/* Whether the replicas that the options ask for are one engine, because they share experts. */
bool cli_replicas_share_experts(const struct cli_options *options);

#endif
