/*
 * mpirun's own output is kept apart from the ranks': where a rank is to blame it only repeats that in a page
 * of text. Lines that ranks of other hosts write come through it and are passed on.
 */
#include "launch/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/build_id.h"
#include "base/clock.h"
#include "base/log.h"
#include "launch/control_socket.h"
#include "launch/rank_environment.h"
#include "lib/secret_file.h"

static const double START_FACTOR = 20; /* of the deadline */
static const double SILENCE_SECONDS = 5;
static const double END_SECONDS = 0.75; /* for ranks, and then for mpirun, to end by themselves */
static const double TERM_SECONDS = 1.5; /* for mpirun, which cannot reach a lost host, to end when told to */
static const double KILL_SECONDS = 10;

enum { POLL_MILLISECONDS = 100, OUTPUT_KEPT_BYTES = 16384, EXIT_SIGNAL_BASE = 128, EXIT_NO_PROGRAM = 127 };

struct launcher {
    const struct launcher_options *options;
    struct job_supervisor *supervisor;
    struct string_buffer key;
    struct string_buffer output; /* of mpirun */
    struct string_buffer line;   /* the beginning of its next line */
    pid_t mpirun;                /* 0: not running */
    int mpirun_status;
    int pipe;
    int signals; /* signalfd */
    bool has_terminal;
};

static enum status make_key(struct launcher *launcher) {
    unsigned char bytes[32];
    if (launcher->options->secret_file != NULL) {
        return secret_file_read(launcher->options->secret_file, &launcher->key);
    }
    TRY(hash_random_bytes(bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++) {
        string_buffer_append_format(&launcher->key, "%02x", bytes[i]);
    }
    return string_buffer_check(&launcher->key);
}

static enum status open_supervisor(struct launcher *launcher) {
    static char build[BUILD_ID_TEXT_BYTES]; /* one launcher per process */
    char address[64];
    const struct launcher_options *options = launcher->options;
    build_id_read(build);
    CHECK(options->hosts == NULL || options->network != NULL, STATUS_USAGE,
          "--hosts needs --rank-network, the network that connects them, such as 10.0.0.0/24");
    if (options->hosts != NULL) {
        TRY(control_socket_own_address(options->network, address));
    }
    struct job_supervisor_options supervisor = {.rank_count = options->rank_count,
                                                .key = &launcher->key,
                                                .build = build,
                                                .network_address = options->hosts == NULL ? NULL : address,
                                                .start_seconds = START_FACTOR * options->deadline_seconds,
                                                .silence_seconds = SILENCE_SECONDS,
                                                .gives_streams = true};
    return job_supervisor_create(&supervisor, &launcher->supervisor);
}

/* The program's own file and the words it was called with. */
static enum status read_command_line(struct string_buffer *out) {
    char bytes[4096];
    ssize_t length;
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, STATUS_IO, "the command line cannot be read: %s", strerror(errno));
    while ((length = read(file, bytes, sizeof bytes)) > 0) {
        string_buffer_append(out, bytes, (size_t)length);
    }
    close(file);
    return string_buffer_check(out);
}

static void set_environment(const struct launcher *launcher) {
    setenv(RANK_ENVIRONMENT_CONTROL, job_supervisor_address(launcher->supervisor), 1);
    setenv(RANK_ENVIRONMENT_KEY,
           launcher->options->secret_file == NULL ? string_buffer_text(&launcher->key) : "", 1);
}

/* In the child, which has one thread and the launcher's memory. */
static void become_mpirun(const struct launcher *launcher, char **words, int output) {
    sigset_t none;
    int nothing = open("/dev/null", O_RDONLY);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    set_environment(launcher);
    dup2(nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execvp(words[0], words);
    fprintf(stderr, "mpirun cannot be started: %s; install openmpi-bin\n", strerror(errno));
    _exit(EXIT_NO_PROGRAM);
}

static enum status fork_mpirun(struct launcher *launcher, char **words) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, STATUS_IO, "a pipe cannot be made: %s", strerror(errno));
    fflush(NULL);
    launcher->mpirun = fork();
    if (launcher->mpirun == 0) {
        become_mpirun(launcher, words, ends[1]);
    }
    close(ends[1]);
    launcher->pipe = ends[0];
    CHECK(launcher->mpirun > 0, STATUS_OUT_OF_MEMORY, "mpirun cannot be started: %s", strerror(errno));
    fcntl(launcher->pipe, F_SETFL, O_NONBLOCK);
    return STATUS_OK;
}

static enum status start_mpirun(struct launcher *launcher) {
    struct launcher_words before;
    struct string_buffer line = {0};
    char program[4096] = "";
    enum status status = STATUS_OK;
    size_t count = 0;
    TRY(launcher_write_words(launcher->options, &before));
    char **words = NULL;
    TRY_GOTO(read_command_line(&line));
    CHECK_GOTO(readlink("/proc/self/exe", program, sizeof program - 1) > 0, STATUS_IO,
               "the program's own file cannot be found: %s", strerror(errno));
    words = calloc(line.length + (size_t)before.count + 2, sizeof *words);
    CHECK_MEMORY_GOTO(words);
    for (int i = 0; i < before.count; i++) {
        words[count++] = before.words[i];
    }
    words[count++] = program;
    for (char *at = line.data + strlen(line.data) + 1; at < line.data + line.length; at += strlen(at) + 1) {
        words[count++] = at;
    }
    TRY_GOTO(fork_mpirun(launcher, words));
fail:
    free(words);
    launcher_words_free(&before);
    string_buffer_deinit(&line);
    return status;
}

/* Ends of this process, and mpirun's, come as something to read. */
static enum status catch_signals(struct launcher *launcher) {
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGHUP);
    sigaddset(&caught, SIGCHLD);
    sigaddset(&caught, SIGTTOU);
    sigprocmask(SIG_BLOCK, &caught, NULL);
    sigdelset(&caught, SIGTTOU);
    launcher->signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(launcher->signals >= 0, STATUS_IO, "signals cannot be caught: %s", strerror(errno));
    return STATUS_OK;
}

static void take_line(struct launcher *launcher) {
    const char *line = string_buffer_text(&launcher->line);
    if (strncmp(line, "rank ", 5) == 0) {
        log_say("%.*s", (int)strcspn(line, "\n"), line);
    } else if (launcher->output.length < OUTPUT_KEPT_BYTES) {
        string_buffer_append_text(&launcher->output, line);
    }
    string_buffer_clear(&launcher->line);
}

static void read_output(struct launcher *launcher) {
    char bytes[4096];
    ssize_t length;
    while ((length = read(launcher->pipe, bytes, sizeof bytes)) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            string_buffer_append_char(&launcher->line, bytes[i]);
            if (bytes[i] == '\n') {
                take_line(launcher);
            }
        }
    }
}

static void look_for_mpirun(struct launcher *launcher) {
    if (launcher->mpirun > 0 && waitpid(launcher->mpirun, &launcher->mpirun_status, WNOHANG) != 0) {
        launcher->mpirun = 0;
    }
}

static void take_signals(struct launcher *launcher) {
    struct signalfd_siginfo signal;
    while (read(launcher->signals, &signal, sizeof signal) == (ssize_t)sizeof signal) {
        if (signal.ssi_signo != SIGCHLD) {
            job_supervisor_give_up(launcher->supervisor, EXIT_SIGNAL_BASE + (int)signal.ssi_signo, "");
        }
    }
    look_for_mpirun(launcher);
}

/* Rank 0 reads from the terminal and gets its signals, as the foreground program does. */
static void hand_over_terminal(struct launcher *launcher) {
    int leader = job_supervisor_leader_process(launcher->supervisor);
    if (!launcher->has_terminal && leader > 0 && isatty(STDIN_FILENO) &&
        tcgetpgrp(STDIN_FILENO) == getpgrp()) {
        launcher->has_terminal = tcsetpgrp(STDIN_FILENO, getpgid(leader)) == 0;
    }
}

/* What mpirun says is long; the first line that says something is the best one. */
static void explain_end(struct launcher *launcher) {
    const char *text = string_buffer_text(&launcher->output);
    char reason[512] = "it said nothing";
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        if (length > 0 && strncmp(line, "-----", 5) != 0) {
            snprintf(reason, sizeof reason, "%.*s", (int)length, line);
            break;
        }
    }
    int code = WIFEXITED(launcher->mpirun_status) ? WEXITSTATUS(launcher->mpirun_status)
                                                  : EXIT_SIGNAL_BASE + WTERMSIG(launcher->mpirun_status);
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "mpirun ended with code %d before the ranks did: %s", code, reason);
    job_supervisor_give_up(launcher->supervisor, EXIT_FAILURE, sentence);
}

static void wait_for_something(struct launcher *launcher) {
    struct pollfd files[JOB_SUPERVISOR_CONNECTIONS_MAX + 4];
    int count = job_supervisor_poll_files(launcher->supervisor, files);
    files[count++] = (struct pollfd){.fd = launcher->signals, .events = POLLIN};
    if (launcher->mpirun > 0) {
        files[count++] = (struct pollfd){.fd = launcher->pipe, .events = POLLIN};
    }
    poll(files, (nfds_t)count, POLL_MILLISECONDS);
}

static void watch(struct launcher *launcher, struct job_supervisor_verdict *verdict) {
    bool has_ended = false;
    job_supervisor_advance(launcher->supervisor, verdict);
    while (!verdict->is_over) {
        wait_for_something(launcher);
        read_output(launcher);
        take_signals(launcher);
        job_supervisor_advance(launcher->supervisor, verdict);
        hand_over_terminal(launcher);
        if (!verdict->is_over && launcher->mpirun == 0 && has_ended) {
            explain_end(launcher); /* and the ranks' last words have been read */
        }
        has_ended = launcher->mpirun == 0;
    }
}

static void wait_for_mpirun(struct launcher *launcher, double seconds) {
    double until = clock_seconds() + seconds;
    while (launcher->mpirun > 0 && clock_seconds() < until) {
        struct pollfd files[] = {{.fd = launcher->signals, .events = POLLIN},
                                 {.fd = launcher->pipe, .events = POLLIN}};
        poll(files, 2, POLL_MILLISECONDS);
        read_output(launcher);
        take_signals(launcher);
    }
}

/* The ranks have been told; mpirun ends with the last of them. */
static void end_mpirun(struct launcher *launcher) {
    wait_for_mpirun(launcher, END_SECONDS);
    if (launcher->mpirun > 0) {
        struct job_supervisor_verdict unused;
        job_supervisor_advance(launcher->supervisor, &unused);
        job_supervisor_kill_rest(launcher->supervisor);
        wait_for_mpirun(launcher, END_SECONDS);
    }
    if (launcher->mpirun > 0) {
        kill(launcher->mpirun, SIGTERM);
        wait_for_mpirun(launcher, TERM_SECONDS);
    }
    if (launcher->mpirun > 0) {
        kill(launcher->mpirun, SIGKILL);
        wait_for_mpirun(launcher, KILL_SECONDS);
    }
    if (launcher->has_terminal) {
        tcsetpgrp(STDIN_FILENO, getpgrp());
    }
}

static enum status run(struct launcher *launcher, struct job_supervisor_verdict *verdict) {
    TRY(make_key(launcher));
    TRY(open_supervisor(launcher));
    TRY(catch_signals(launcher));
    TRY(start_mpirun(launcher));
    watch(launcher, verdict);
    end_mpirun(launcher);
    return STATUS_OK;
}

enum status launcher_run(const struct launcher_options *options, struct job_supervisor_verdict *verdict) {
    struct launcher launcher = {.options = options, .pipe = -1, .signals = -1};
    *verdict = (struct job_supervisor_verdict){.is_over = false};
    enum status status = run(&launcher, verdict);
    job_supervisor_destroy(&launcher.supervisor);
    string_buffer_deinit(&launcher.key);
    string_buffer_deinit(&launcher.output);
    string_buffer_deinit(&launcher.line);
    if (launcher.pipe >= 0) {
        close(launcher.pipe);
    }
    if (launcher.signals >= 0) {
        close(launcher.signals);
    }
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}
