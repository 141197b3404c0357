/*
 * The engine: one loaded model on one device, and the requests that it works on.
 *
 * Opening loads the weights and plans all memory; after that nothing is allocated for a step, and nothing
 * beyond the plan. A thread of the engine's own takes requests (sluice/request.h) and runs them together,
 * step by step. All functions may be called from any thread; sluice_engine_close when no other call is under
 * way. Functions that fail return a status; sluice_last_error has the sentence.
 */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sluice/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_engine;

enum sluice_numerics {
    SLUICE_NUMERICS_IDEAL,  /* no activation rounding: for checks against golden logits */
    SLUICE_NUMERICS_NATIVE, /* the roundings the checkpoint was trained with */
};

/* Where weights are read from, on devices that read the host's memory. No choice changes a bit. */
enum sluice_weights {
    SLUICE_WEIGHTS_MAPPED, /* from the files, in the system's page cache, which processes share */
    SLUICE_WEIGHTS_COPIED, /* from a copy in huge pages: they are read faster, but take memory */
};

/* How drafts are accepted at a temperature above 0; both leave the distribution of the text as it is. */
enum sluice_draft_sampling {
    SLUICE_DRAFT_SAMPLING_COUPLED,   /* the text is the same with and without drafts */
    SLUICE_DRAFT_SAMPLING_REJECTION, /* the text depends on the drafts */
};

/* With up to `sequence_count` running requests at most `draft_limit` drafts each. */
struct sluice_draft_schedule_row {
    int32_t sequence_count;
    int32_t draft_limit;
};

/* The largest limit of drafts; counters tell as many apart. */
enum { SLUICE_DRAFT_POSITIONS_MAX = 16 };

/* As the limit of drafts: 3 if the checkpoint has a draft layer, else 0. */
enum { SLUICE_DRAFTS_IF_POSSIBLE = -1 };

/* As a context: the longest that memory has room for, and no longer than the model can do. */
enum { SLUICE_CONTEXT_THAT_FITS = -1 };

/* MTP speculative decoding. */
struct sluice_draft_options {
    int limit; /* K_max: most draft tokens that a request verifies at once; 0: no MTP, no memory for it */
    bool is_adaptive; /* the engine chooses how many, up to the limit, by what makes tokens come fastest */
    enum sluice_draft_sampling sampling;
    const struct sluice_draft_schedule_row *schedule; /* ascending; borrowed until open returns; NULL: none */
    size_t schedule_row_count;
};

/* What pipeline stages are cut for, where no partition is named. */
enum sluice_stage_objective {
    SLUICE_STAGES_FOR_DECODE,  /* decoding steps of all requests take equally long on all stages */
    SLUICE_STAGES_FOR_PREFILL, /* the largest step of a prompt does */
    SLUICE_STAGES_FOR_STATE,   /* as many tokens of state as possible fit */
};

/* Whether the ranks of a stage share the rows of a step between attentions (sequence parallelism). */
enum sluice_row_sharing {
    SLUICE_ROW_SHARING_AUTO, /* in steps of 4 rows per rank and more */
    SLUICE_ROW_SHARING_ON,   /* in every step */
    SLUICE_ROW_SHARING_OFF,
};

/* What is gathered for attention where rows are shared. */
enum sluice_row_gather {
    SLUICE_ROW_GATHER_AUTO,  /* late: on processors products cost more than what they give does to send */
    SLUICE_ROW_GATHER_EARLY, /* rows, on which every rank then runs the first projections */
    SLUICE_ROW_GATHER_LATE,  /* what the first projections give, each run on the rank that has the row */
};

/* How shared rows get to the ranks of their experts. */
enum sluice_expert_exchange {
    SLUICE_EXPERT_EXCHANGE_AUTO,     /* the one that sends fewer bytes, if they are clearly fewer */
    SLUICE_EXPERT_EXCHANGE_GATHER,   /* all rows to all ranks */
    SLUICE_EXPERT_EXCHANGE_DISPATCH, /* each row to the ranks that have some of its experts */
};

/* Where the experts that see every row are. */
enum sluice_shared_experts {
    SLUICE_SHARED_EXPERTS_AUTO,  /* whole if shared rows make up for reading all of them */
    SLUICE_SHARED_EXPERTS_CUT,   /* a part of them on each rank, and a sum */
    SLUICE_SHARED_EXPERTS_WHOLE, /* on every rank */
};

struct sluice_job;

enum { SLUICE_LAYER_PARTITION_BYTES = 256 };

/* Ranks that run one model together: threads of this process, or the processes of a job. No choice changes a
 * bit. */
struct sluice_parallel_options {
    int data; /* replicas, each with requests and state of its own, that share whole experts; 0 and 1: one */
    int pipeline; /* stages, each with its layers; 1: no pipeline */
    int tensor;   /* ranks of a stage, each with its part of the matrices; 1: no tensor parallelism */
    int context;  /* ranks that share a request's context: reserved, 0 and 1 are none, more is UNSUPPORTED */
    bool has_expert_parallelism; /* whole experts on the ranks of a stage, else every expert cut between them
                                  */
    int in_flight;               /* steps under way at once, each on another stage; 0: as many as stages */
    char layer_partition[SLUICE_LAYER_PARTITION_BYTES]; /* layers of each stage, "12,12,12,7"; "": those that
                                                           take equally long */
    enum sluice_stage_objective objective;
    enum sluice_row_sharing row_sharing;
    int shared_rows_min; /* AUTO: fewest rows of a step that are shared; 0: 4 per rank */
    enum sluice_row_gather row_gather;
    enum sluice_expert_exchange expert_exchange;
    enum sluice_shared_experts shared_experts;
    bool has_movable_experts; /* whole experts move between the ranks of a stage with what is asked of them */
    int expert_copies;        /* then: places of a layer beyond its experts, for those that are wanted most */
    int expert_move_interval; /* and steps from one placement to the next, at least 2; 0: 3000 */
    double deadline_seconds;  /* threads: a rank that gets nowhere for so long ends all of them; twenty times
                                 that  in the first steps, which may read weights; 0: 30 */
    struct sluice_job *job; /* sluice/job.h; as many processes as there are ranks; NULL: threads; borrowed */
};

struct sluice_engine_options {
    const char *model_directory; /* official checkpoint: config.json and safetensors; borrowed */
    const char *device;          /* "cpu"; borrowed */
    const char *cpu_features;    /* "auto", or the highest instruction set that kernels may use; borrowed */
    enum sluice_numerics numerics;
    enum sluice_weights weights;
    int thread_count;            /* host threads of kernels; 0: the cores this process may use */
    int64_t context_tokens;      /* longest request, answer included; 0: 4096 or the model's limit if less;
                                    SLUICE_CONTEXT_THAT_FITS */
    int step_token_limit;        /* most tokens of one step, prompts and answers together */
    int sequence_limit;          /* most requests that run at once; others wait */
    int page_tokens;             /* positions of one page of state; a multiple of 128 */
    uint64_t memory_limit_bytes; /* of all memory in the ledger but mapped weights; 0: what is free, and no
                                    more than all running requests can use */
    bool has_prefix_cache;       /* requests share the state of common beginnings */
    int snapshot_limit;          /* beginnings that requests can start from; 0: twice the sequence limit */
    const char *prefix_cache_directory; /* keeps beginnings over restarts; NULL: memory only; borrowed */
    uint64_t prefix_cache_disk_bytes;   /* most bytes of files there; 0: 16 GB */
    const char *device_profile; /* JSON file with numbers of the device: stages are cut by them, and ranks
                                   share rows as is fastest; NULL: by what is measured; borrowed until the
                                   engine is open */
    const char *trace_path; /* a timeline of all ranks is added here when the engine is closed; NULL: none;
                               borrowed until then */
    bool trace_continues;   /* what other engines have written there stays, else the file is begun anew */
    struct sluice_draft_options draft;
    struct sluice_parallel_options parallel;
};

/*
 * The defaults: "cpu", native, all cores, 4096 positions, steps of 512 tokens, one request at a time, pages
 * of 128 tokens, memory as needed, prefix cache in memory, no drafting (but adaptive if it is turned on).
 */
struct sluice_engine_options sluice_engine_options_default(void);

/* Bytes of memory by kind, planned when the engine was opened and never exceeded. */
struct sluice_memory_ledger {
    size_t mapped_weight_bytes; /* read in place from the files: the system's page cache */
    size_t copied_weight_bytes;
    size_t slot_state_bytes; /* what each running request keeps besides its pages */
    size_t snapshot_bytes;   /* the same of the beginnings in the prefix cache */
    size_t page_state_bytes; /* all pages and their tables */
    size_t step_bytes;       /* activations and workspace of a step */
    size_t draft_bytes;      /* all that exists because drafting is on, weights included; part of the above */
    size_t host_bytes;       /* logits, sampling, request tables */
    int32_t page_count;
    int32_t page_tokens;
    int64_t token_capacity; /* page_count * page_tokens: sessions times context */
};

/* What was loaded and planned; of all replicas together. */
struct sluice_engine_facts {
    int64_t vocabulary_size;
    int64_t context_tokens;
    int layer_count;
    int sequence_limit;
    int draft_limit;
    bool has_draft_layer; /* whether the checkpoint has one, in use or not */
    size_t tensor_count;
    double stage_imbalance; /* of what the stages take, measured or counted: largest over mean; 1 without a
                               pipeline */
    double load_seconds;    /* from the call to ready */
    struct sluice_memory_ledger memory;
};

/* Most stages of a pipeline. */
enum { SLUICE_STAGES_MAX = 64 };

/*
 * What a stage of the pipeline did while steps were under way, all of it from the start. The three times add
 * up to the time that steps took, in which stages work side by side; without a pipeline there is one stage,
 * which hardly waits. Of several ranks in a stage times are means, all else is summed up.
 */
struct sluice_stage_stats {
    double compute_seconds;  /* all but what follows; sums over the stage's ranks and planning included */
    double wait_seconds;     /* for plans, boundaries and what was chosen, and for buffers on their way */
    double send_seconds;     /* handing boundaries on */
    int64_t boundary_bytes;  /* sent to the next stage */
    int64_t plan_bytes;      /* got from the first stage */
    int64_t feedback_bytes;  /* sent to the first stage: what was chosen, and these counters */
    int64_t sum_bytes;       /* sent between the stage's ranks: sums, */
    int64_t gather_bytes;    /* rows and parts of logits, */
    int64_t exchange_bytes;  /* rows to the ranks of their experts, */
    int64_t relay_bytes;     /* and plans */
    int64_t expert_moves;    /* experts that a rank of the stage got of another */
    double expert_imbalance; /* rows that the fullest rank computed over the mean, at the last look; 0: none
                                yet */
};

/* What the draft layer does in a step. */
enum sluice_draft_regime {
    SLUICE_DRAFT_REGIME_COLD,  /* nothing */
    SLUICE_DRAFT_REGIME_WARM,  /* its state is kept up to date */
    SLUICE_DRAFT_REGIME_DRAFT, /* it drafts */
};

/*
 * What the engine has done and is doing; a consistent picture between two steps. What other ranks did comes a
 * few times a second and when nothing is left to do.
 * Of several replicas it is the sum, seconds included; of stages' times the mean, of the last step's drafts
 * and of draft_probe_gain the most.
 */
struct sluice_engine_stats {
    int32_t running_requests;
    int32_t waiting_requests;
    int32_t free_pages;
    int32_t cached_pages; /* kept for later requests and used by none: given up when pages are needed */
    int64_t steps;
    int64_t step_rows;
    double step_seconds;     /* in steps, planning and sampling included */
    double planning_seconds; /* of them: planning and bookkeeping */
    double draft_seconds;    /* of them: draft layer */
    int64_t finished_requests;
    int64_t preemptions;
    int64_t prompt_tokens;
    int64_t cached_prompt_tokens; /* of them, taken from the prefix cache */
    int64_t output_tokens;
    int64_t disk_queried_tokens; /* of prompts, looked for on disk because memory did not know them */
    int64_t disk_found_tokens;   /* of them, those that were there; part of cached_prompt_tokens */
    int64_t disk_read_bytes;
    int64_t disk_written_bytes;
    int64_t disk_damaged_entries; /* that did not pass the check, and were deleted */
    int64_t disk_failed_writes;
    int64_t disk_dropped_entries;                        /* not written because the disk did not keep up */
    int64_t disk_evicted_entries;                        /* deleted to stay below the limit */
    int64_t draft_tokens;                                /* made */
    int64_t verified_drafts[SLUICE_DRAFT_POSITIONS_MAX]; /* by draft position */
    int64_t accepted_drafts[SLUICE_DRAFT_POSITIONS_MAX]; /* the same */
    int64_t ticks_by_draft_length[SLUICE_DRAFT_POSITIONS_MAX + 1];
    int64_t cold_ticks; /* steps in which nothing of the draft layer ran */
    int64_t warm_ticks; /* steps that kept its state up to date and drafted nothing */
    int64_t draft_switches;
    int64_t draft_guard_trips;
    double draft_probe_gain; /* tokens per second over those of the last probe without drafts; 0: none yet */
    int32_t draft_length;    /* in the last step: drafts of the sequence with most */
    enum sluice_draft_regime draft_regime; /* the same: what the draft layer did */
    int32_t stage_count;
    struct sluice_stage_stats stages[SLUICE_STAGES_MAX];
};

/*
 * Loads a checkpoint. The whole of it is checked first: BAD_CONFIG, BAD_CHECKPOINT, UNSUPPORTED name what
 * does not fit; OUT_OF_MEMORY what a limit leaves no room for. Owned by the caller: sluice_engine_close.
 */
enum sluice_status sluice_engine_open(const struct sluice_engine_options *options,
                                      struct sluice_engine **out);

/*
 * Cancels what runs, ends the engine's thread and frees everything; requests must have been released. Nulls
 * the pointer; NULL inside is allowed. With a job the other processes have freed their parts too, and written
 * what they keep on disk, unless a rank was lost.
 */
void sluice_engine_close(struct sluice_engine **engine);

struct sluice_engine_facts sluice_engine_facts(const struct sluice_engine *engine);

struct sluice_engine_stats sluice_engine_stats(struct sluice_engine *engine);

/*
 * Whether one of several ranks is lost: it failed, or did not answer in time. All requests end with an error
 * from then on; only another engine answers. Whoever sees such an error sees this. Any thread.
 */
bool sluice_engine_is_lost(const struct sluice_engine *engine);

/* Forgets all cached beginnings in memory; running requests keep what they use, and files stay. */
enum sluice_status sluice_engine_clear_prefix_cache(struct sluice_engine *engine);

#ifdef __cplusplus
}
#endif

#endif
