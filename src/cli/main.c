/*
 * The program `sluice COMMAND`: finds the command in one table, parses its options and runs it.
 *
 * The only place that prints an error record and turns a status into an exit code.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/foreign_options.h"
#include "cli/option_table.h"
#include "cli/ranks.h"
#include "server/worker_process.h"

static const char PROGRAM[] = "sluice";

enum { ARENA_BLOCK_BYTES = 1 << 16 };

enum exit_code { EXIT_CODE_OK = 0, EXIT_CODE_FAILURE = 1, EXIT_CODE_USAGE = 2 };

struct command_row {
    struct option_command description;
    enum status (*run)(const struct cli_options *options, int word_count, char **words);
};

static const struct command_row commands[] = {
    {{CLI_GENERATE, "generate", "", "Generates text from a prompt.",
      "Examples:\n"
      "  sluice generate --model models/mini-v4 --chat --prompt \"Tell me a story about a fox.\"\n"
      "  sluice generate --model models/mini-v4 --token-ids 0,5,7 --max-tokens 8 --temperature 0 --json"},
     command_generate},
    {{CLI_CHAT, "chat", "", "A conversation in the terminal; where no terminal is, one message per line.",
      "Examples:\n"
      "  sluice chat --model models/mini-v4 --system \"You are a kind teacher.\"\n"
      "  printf 'Hello\\nWhat is 37 + 48?\\n' | sluice chat --model models/mini-v4 --no-thinking\n\n"
      "Type /help for the commands within."},
     command_chat},
    {{CLI_TOKENIZE, "tokenize", "[TEXT...]",
      "Turns text into token ids, and with --decode ids into text; without words it reads standard input.",
      "Examples:\n"
      "  sluice tokenize --model models/mini-v4 \"Hello world\"\n"
      "  sluice tokenize --model models/mini-v4 --decode 17,94"},
     command_tokenize},
    {{CLI_INSPECT, "inspect", "[DIR]", "Shows what a checkpoint holds and checks it.",
      "Example:\n"
      "  sluice inspect models/mini-v4 --verify"},
     command_inspect},
    {{CLI_SYNTH, "synth", "", "Writes a checkpoint of pseudo-random weights for a config.json.",
      "Example:\n"
      "  sluice synth --config config.json --out synthetic-model --shard-bytes 4000000000"},
     command_synth},
    {{CLI_BENCH, "bench", "", "Measures how fast a checkpoint runs here, beside what the machine could do.",
      "Examples:\n"
      "  sluice bench --model models/mini-v4 --prompt-tokens 128,512 --batch 1,4 --json\n"
      "  sluice bench --model models/mini-v4 --context 128,512,2048 --plot bench.svg\n"
      "  sluice bench --model models/mini-v4 --concurrency 1,4,16 --drafts 0,2,adaptive\n"
      "  sluice bench --roofline"},
     command_bench},
    {{CLI_BENCH_SERVE, "bench serve", "[KIND:MS...]",
      "Measures how fast a server of OpenAI's API answers under load.",
      "Examples:\n"
      "  sluice bench serve --concurrency 1,4,16 --plot load.svg\n"
      "  sluice bench serve --base-url http://127.0.0.1:8000 --request-rate 2,4,8 --goodput ttft:500 tpot:50 "
      "--json\n"
      "  sluice bench serve --dataset-path prompts.jsonl --random-output-len 256\n\n"
      "Failed requests are counted and told apart, their times do not count. It fails if all failed."},
     command_bench_serve},
    {{CLI_EVAL, "eval", "TASK", "Measures how well a model answers: gsm8k or perplexity.",
      "Examples:\n"
      "  sluice eval gsm8k --data gsm8k-test.jsonl --base-url http://127.0.0.1:8000 --num-fewshot 8\n"
      "  sluice eval gsm8k --data gsm8k-test.jsonl --model models/mini-v4 --limit 100 --json\n"
      "  sluice eval perplexity --data text.txt --model models/mini-v4 --window 512 --stride 256\n\n"
      "It fails if a question got no answer; the score is then of those that did."},
     command_eval},
    {{CLI_PLAN, "plan", "", "Works out whether and how fast a model would run on a machine, without weights.",
      "Examples:\n"
      "  sluice plan --config config.json --gpus 8x141GB\n"
      "  sluice plan --config config.json --hosts 2x128GB --link 25Gbit -pp 2 --max-num-seqs 8\n"
      "  sluice plan --config config.json --gpus 8xh200 --scale 16,32,64 --max-num-seqs 256"},
     command_plan},
    {{CLI_KERNELCHECK, "kernelcheck", "[OPERATION...]",
      "Checks every kernel of this program against the reference, on this machine.",
      "Examples:\n"
      "  sluice kernelcheck\n"
      "  sluice kernelcheck linear moe_experts --cpu-features avx2 --seed 7\n"
      "  sluice kernelcheck linear --bench"},
     command_kernelcheck},
    {{CLI_SERVE, "serve", "[DIR]", "Serves the APIs of OpenAI and Anthropic over HTTP.",
      "Examples:\n"
      "  sluice serve models/mini-v4\n"
      "  sluice serve models/mini-v4 --host 0.0.0.0 --api-key-file keys --max-num-seqs 32\n"
      "  curl http://127.0.0.1:8000/v1/chat/completions --json '{\"messages\": [{\"role\": \"user\", "
      "\"content\": \"Hello\"}]}'\n\n"
      "It is ready once it says so on stderr. SIGTERM and SIGINT end it with exit code 0 once requests under "
      "way\nare finished, a second one at once. Options of vLLM that change nothing here are named and "
      "passed "
      "over."},
     command_serve},
    {{CLI_WORKER, "worker", "", "Runs the model for `sluice serve`, which starts it.", NULL}, command_worker},
};

/* Words of the longest name. */
enum { NAME_WORDS_MAX = 2, NAME_BYTES_MAX = 64 };

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

/* Not for people: the program starts it itself. */
static bool is_internal(const struct command_row *row) {
    return row->description.bit == CLI_WORKER;
}

static const char EXIT_CODE_HELP[] = "Exit codes: 0 success, 1 failure, 2 wrong use of the command line.";

static void print_program_help(FILE *out) {
    fprintf(out, "Usage: %s COMMAND [OPTIONS]\n\nInference engine for DeepSeek-V4.\n\nCommands:\n", PROGRAM);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct option_command *command = &commands[i].description;
        if (!is_internal(&commands[i])) {
            fprintf(out, "  %-12s %s\n", command->name, command->summary);
        }
    }
    fprintf(out, "  %-12s %s\n", "help", "Shows this help, or with a command's name that command's options.");
    fprintf(out, "\nOptions:\n  -h, --help     Show this help.\n  --version      Show the version.\n\n%s\n",
            EXIT_CODE_HELP);
}

static void print_command_help(const struct command_row *row) {
    options_print_help(cli_option_table(), &row->description, PROGRAM, stdout);
    printf("\n%s\n", EXIT_CODE_HELP);
}

/* The row whose name the words begin with, the longest such name; NULL if there is none. */
static const struct command_row *match_command(int argc, char **argv, int *word_count) {
    for (int words = NAME_WORDS_MAX; words > 0; words--) {
        char name[NAME_BYTES_MAX] = "";
        for (int i = 0; i < words && words <= argc; i++) {
            size_t length = strlen(name);
            snprintf(name + length, sizeof name - length, "%s%s", i == 0 ? "" : " ", argv[i]);
        }
        for (size_t i = 0; i < COMMAND_COUNT; i++) {
            if (strcmp(name, commands[i].description.name) == 0) {
                *word_count = words;
                return &commands[i];
            }
        }
    }
    return NULL;
}

/* The row that the words name, and how many do; or a USAGE error that names the nearest. */
static enum status find_command(int argc, char **argv, const struct command_row **out, int *word_count) {
    const char *name = argv[0];
    *out = match_command(argc, argv, word_count);
    if (*out != NULL) {
        return STATUS_OK;
    }
    const char *names[COMMAND_COUNT + 1];
    size_t name_count = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!is_internal(&commands[i])) {
            names[name_count++] = commands[i].description.name;
        }
    }
    names[name_count++] = "help";
    const char *nearest = options_nearest_name(name, names, name_count);
    const char *kind = name[0] == '-' ? "option" : "command";
    if (nearest == NULL) {
        FAIL(STATUS_USAGE, "unknown %s %s; `%s --help` lists the commands", kind, name, PROGRAM);
    }
    FAIL(STATUS_USAGE, "unknown %s %s; did you mean %s?", kind, name, nearest);
}

/* Of a file and of the arguments; what serve takes of other engines is passed over. */
static enum status read_options(const struct command_row *row, int argc, char **argv, struct arena *arena,
                                struct cli_options *out, int *word_count, int *wants_help) {
    bool is_server = row->description.bit == CLI_SERVE;
    /* Their --config is a model's. */
    bool has_file = (row->description.bit & (CLI_SYNTH | CLI_PLAN | CLI_WORKER)) == 0;
    struct option_settings settings = {0};
    if (is_server) {
        TRY(foreign_options_drop(&argc, argv));
    }
    if (has_file) {
        TRY(config_file_read(argc, argv, is_server, arena, &settings));
    }
    return options_parse(cli_option_table(), &row->description, &settings, argc, argv, out, word_count,
                         wants_help);
}

static enum status run_with_arena(const struct command_row *row, int argc, char **argv, struct arena *arena,
                                  enum log_level *level, struct cli_ranks *ranks) {
    struct cli_options options = {0};
    int word_count = 0;
    int wants_help = 0;
    TRY(read_options(row, argc, argv, arena, &options, &word_count, &wants_help));
    if (wants_help) {
        print_command_help(row);
        return STATUS_OK;
    }
    CHECK(word_count == 0 || row->description.arguments[0] != '\0', STATUS_USAGE,
          "it takes options only, so \"%s\" has no meaning here; see %s %s --help", argv[0], PROGRAM,
          row->description.name);
    *level = (enum log_level)options.log_level;
    log_set_level(*level);
    if ((row->description.bit & (CLI_SERVE | CLI_WORKER)) != 0) {
        log_never_wait();
    }
    if (row->description.bit == CLI_WORKER) {
        worker_process_settle();
    }
    /* serve's workers do, and plan only counts ranks. */
    if (row->description.bit != CLI_SERVE && row->description.bit != CLI_PLAN) {
        TRY(cli_ranks_enter(&options, ranks));
    }
    options.job = ranks->job;
    switch (ranks->role) {
    case CLI_ROLE_ALONE:
    case CLI_ROLE_LEADER:
        TRY(row->run(&options, word_count, argv));
        break;
    case CLI_ROLE_FOLLOWER:
        TRY(cli_ranks_follow(ranks, &options));
        break;
    case CLI_ROLE_LAUNCHER:
        break;
    }
    return STATUS_OK;
}

static enum status run_command(const struct command_row *row, int argc, char **argv, enum log_level *level,
                               struct cli_ranks *ranks) {
    struct arena arena; /* what a file of options says */
    arena_init(&arena, ARENA_BLOCK_BYTES);
    enum status status = run_with_arena(row, argc, argv, &arena, level, ranks);
    arena_deinit(&arena);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

/* Output may sit in stdout's buffer until here, so a full disk shows up here. */
static enum status finish_output(void) {
    CHECK(fflush(stdout) == 0 && !ferror(stdout), STATUS_IO,
          "the output could not be written completely; is the disk full?");
    return STATUS_OK;
}

static enum exit_code exit_code_of(enum status status) {
    return status == STATUS_OK ? EXIT_CODE_OK : status == STATUS_USAGE ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
}

static enum exit_code report(const char *command_name, enum status status, enum log_level level) {
    if (status == STATUS_OK) {
        return EXIT_CODE_OK;
    }
    const struct error_record *error = error_last();
    log_say("%s%s%s: %s", PROGRAM, command_name == NULL ? "" : " ", command_name == NULL ? "" : command_name,
            error->message);
    if (level == LOG_DEBUG) {
        for (int i = 0; i < error->frame_count; i++) {
            const struct error_frame *frame = &error->frames[i];
            log_say("  at %s (%s:%d)", frame->function, frame->file, frame->line);
        }
    }
    return exit_code_of(status);
}

/* `sluice help`, `sluice help COMMAND`. */
static enum status show_help(int argc, char **argv) {
    if (argc == 0) {
        print_program_help(stdout);
        return STATUS_OK;
    }
    const struct command_row *row = NULL;
    int word_count;
    TRY(find_command(argc, argv, &row, &word_count));
    print_command_help(row);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        print_program_help(stderr);
        return EXIT_CODE_USAGE;
    }
    const char *name = argv[1];
    const struct command_row *row = NULL;
    int name_words = 1;
    enum log_level level = LOG_WARNING;
    enum status status = STATUS_OK;
    struct cli_ranks ranks = {.role = CLI_ROLE_ALONE};
    if (strcmp(name, "--version") == 0) {
        printf("%s %s\n", PROGRAM, SLUICE_VERSION);
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_program_help(stdout);
    } else if (strcmp(name, "help") == 0) {
        status = show_help(argc - 2, argv + 2);
    } else {
        status = find_command(argc - 1, argv + 1, &row, &name_words);
    }
    if (status == STATUS_OK && row != NULL) {
        status = run_command(row, argc - 1 - name_words, argv + 1 + name_words, &level, &ranks);
    }
    if (status == STATUS_OK) {
        status = finish_output();
    }
    cli_ranks_leave(&ranks, status, (int)exit_code_of(status));
    int code = (int)report(row == NULL ? NULL : row->description.name, status, level);
    return ranks.role == CLI_ROLE_LAUNCHER && ranks.exit_code != 0 ? ranks.exit_code : code;
}
