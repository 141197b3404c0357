/* What computes, in what memory, and with what drafts. */
#include "cli/option_groups.h"

static const struct option_row engine_rows[] = {
    {.name = "numerics",
     .type = OPTION_CHOICE,
     .commands = CLI_EVAL | CLI_GENERATE | CLI_BENCH | CLI_INSPECT | CLI_CHAT | CLI_PLAN | SERVED,
     .default_value = "native",
     .choices = "ideal|native",
     .help = "native rounds activations as the model was trained; ideal does not round them.",
     FIELD(numerics)},
    {.name = "device",
     .type = OPTION_CHOICE,
     .commands = CLI_EVAL | CLI_GENERATE | CLI_BENCH | CLI_KERNELCHECK | CLI_CHAT | SERVED,
     .default_value = "cpu",
     .choices = "cpu|guard",
     .help = "Where to compute; guard is the processor with memory that only kernels can touch, for tests.",
     FIELD(device)},
    {.name = "cpu-features",
     .type = OPTION_TEXT,
     .commands = CLI_EVAL | CLI_GENERATE | CLI_BENCH | CLI_KERNELCHECK | CLI_INSPECT | CLI_CHAT | SERVED,
     .default_value = "auto",
     .value_name = "SET",
     .help =
         "Highest instruction set that kernels may use: reference, portable, avx2, avx512, avx512_bf16 or "
         "amx_bf16; auto takes what the processor has.",
     FIELD(cpu_features)},
    {.name = "weights",
     .type = OPTION_CHOICE,
     .commands = ENGINE,
     .default_value = "mapped",
     .choices = "mapped|copied",
     .help =
         "mapped reads weights from the files, in memory that the system shares and takes back; copied from "
         "a copy in huge pages, which is faster but takes memory.",
     FIELD(weights)},
    {.name = "threads",
     .type = OPTION_INT,
     .commands = CLI_EVAL | CLI_GENERATE | CLI_SYNTH | CLI_INSPECT | CLI_BENCH | CLI_KERNELCHECK | CLI_CHAT |
                 CLI_PLAN | SERVED,
     .default_value = "0",
     .minimum = 0,
     .maximum = 1024,
     .value_name = "N",
     .help = "Threads to compute with; 0 takes the cores that this process may use.",
     FIELD(threads)},
    {.name = "chunk-tokens",
     .alias = "max-num-batched-tokens",
     .type = OPTION_INT,
     .commands = CLI_EVAL | CLI_GENERATE | CLI_BENCH | CLI_CHAT | CLI_PLAN | SERVED,
     .default_value = "512",
     .minimum = 1,
     .maximum = 1 << 20,
     .value_name = "N",
     .help = "Prompt tokens per forward step.",
     FIELD(chunk_tokens)},
    {.name = "prefix-cache-dir",
     .type = OPTION_TEXT,
     .commands = CLI_GENERATE | CLI_CHAT | SERVED,
     .value_name = "DIR",
     .help = "Keep what the model has read of prompts in this folder, so that later runs need not read it "
             "again. A checkpoint that is copied is another one, unless the copy keeps the files' times. "
             "With one "
             "rank only.",
     FIELD(prefix_cache_dir)},
    {.name = "memory-limit",
     .type = OPTION_TEXT,
     .commands = ENGINE,
     .value_name = "SIZE",
     .help = "Most memory to take besides mapped weights, such as 6GB; without it what the requests can use.",
     FIELD(memory_limit)},
    {.name = "speculative",
     .type = OPTION_FLAG,
     .commands = CLI_CHAT,
     .default_value = "true",
     .help = "Draft tokens by the model's MTP layer, if it has one, as is right for a single reader.",
     FIELD(speculative)},
    {.name = "speculative-config",
     .type = OPTION_TEXT,
     .commands = ENGINE | CLI_PLAN,
     .value_name = "JSON",
     .help = "Draft tokens by the MTP layer: {\"method\":\"mtp\",\"num_speculative_tokens\":3}.",
     FIELD(speculative_config)},
    {.name = "mtp-adaptive",
     .type = OPTION_FLAG,
     .commands = ENGINE,
     .default_value = "true",
     .help = "Choose the number of drafts by what makes tokens come fastest; without it always as many as "
             "allowed.",
     FIELD(mtp_adaptive)},
    {.name = "mtp-sampling",
     .type = OPTION_CHOICE,
     .commands = ENGINE,
     .default_value = "coupled",
     .choices = "coupled|rejection",
     .help = "How drafts are accepted at a temperature above 0; with coupled the text is the same with and "
             "without drafts.",
     FIELD(mtp_sampling)},
    {.name = "mtp-schedule",
     .type = OPTION_TEXT,
     .commands = ENGINE,
     .value_name = "N=K,...",
     .help = "With up to N running requests at most K drafts each.",
     FIELD(mtp_schedule)},
};
const struct option_group cli_engine_options = OPTION_GROUP("Engine", engine_rows);

static const struct option_row chat_rows[] = {
    {.name = "history",
     .type = OPTION_TEXT,
     .commands = CLI_CHAT,
     .value_name = "FILE",
     .help = "Where lines that were typed are kept, or none; without it in sluice/chat_history below "
             "XDG_STATE_HOME or ~/.local/state.",
     FIELD(history)},
};
const struct option_group cli_conversation_options = OPTION_GROUP("Conversation", chat_rows);

static const struct option_row general_rows[] = {
    {.name = "log-level",
     .type = OPTION_CHOICE,
     .commands = ALL,
     .default_value = "warning",
     .choices = "error|warning|info|debug",
     .help = "What to report on stderr.",
     FIELD(log_level)},
};
const struct option_group cli_general_options = OPTION_GROUP("General", general_rows);
