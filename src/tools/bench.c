/*
 * Sequences that are not prefilled themselves get a copy of the state of one that was: rows of a real prefill
 * at a fraction of the time. Each repeat of a decode measurement starts from the same position again. Rings
 * then hold rows of later positions: real rows at the right addresses, though of no meaning.
 *
 * The machine's limits are measured last. What others take of its memory bandwidth changes by the minute, so
 * that is also measured around every decode. The memory for it does not count as the model's.
 */
#include "tools/bench.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "base/clock.h"
#include "base/progress.h"
#include "engine/engine_core.h"
#include "tools/bench_machine.h"

enum { READ_ALIGNMENT = 64 };

struct bench_session {
    const struct bench_request *request;
    struct engine_core *core;
    struct bench_report *report;
    struct weight_work weights;
    int64_t slot_count;
    int32_t *tokens;               /* [step_token_limit] */
    int32_t *logit_rows;           /* [slot_count]: 0, 1, 2, ... */
    struct step_segment *segments; /* [slot_count] */
    float *logits;                 /* [slot_count, vocabulary] */
    double *rows_read;             /* [state kinds] */
    double *samples;               /* [repeats] */
    unsigned char *read_memory;    /* [ROOFLINE_READ_BYTES]; NULL where several ranks read */
    size_t resident_before;        /* peak without that memory */
    struct progress progress;
    uint64_t done_tokens;
};

/* A token of the sequence in a slot: the splitmix64 finaliser over all that identifies it. */
static int32_t random_token(const struct bench_session *session, int64_t slot, int64_t position) {
    uint64_t z = session->request->seed + ((uint64_t)slot << 32) + (uint64_t)position;
    z = (z + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (int32_t)((z ^ (z >> 31)) % (uint64_t)session->core->model->vocabulary_size);
}

static void count_tokens(struct bench_session *session, int64_t count) {
    session->done_tokens += (uint64_t)count;
    progress_update(&session->progress, session->done_tokens);
}

/* Takes `length` tokens into a slot, in steps of step_token_limit; logits of the last one. */
static enum status prefill(struct bench_session *session, int64_t slot, int64_t length, double *seconds) {
    int64_t chunk = session->core->options.step_token_limit;
    double started = clock_seconds();
    for (int64_t first = 0; first < length; first += chunk) {
        int64_t rows = length - first < chunk ? length - first : chunk;
        for (int64_t i = 0; i < rows; i++) {
            session->tokens[i] = random_token(session, slot, first + i);
        }
        const int32_t last_row = (int32_t)rows - 1;
        struct step_segment segment = {(int32_t)slot, (int32_t)first, (int32_t)rows, session->tokens};
        struct step_plan plan = {.segments = &segment, .segment_count = 1, .logit_rows = &last_row};
        plan.logit_row_count = first + rows == length;
        TRY(executor_run(session->core->executor, &plan, session->logits));
        count_tokens(session, rows);
    }
    *seconds = clock_seconds() - started;
    return STATUS_OK;
}

/* Decodes one token in each of the first `batch` slots, `count` times; seconds of one step. */
static enum status decode(struct bench_session *session, int64_t batch, int64_t position, int64_t count,
                          double *seconds) {
    struct step_plan plan = {.segments = session->segments, .segment_count = (int32_t)batch};
    plan.logit_rows = session->logit_rows;
    plan.logit_row_count = (int32_t)batch;
    double started = clock_seconds();
    for (int64_t i = 0; i < count; i++) {
        for (int64_t slot = 0; slot < batch; slot++) {
            session->tokens[slot] = random_token(session, slot, position + i);
            session->segments[slot] =
                (struct step_segment){(int32_t)slot, (int32_t)(position + i), 1, &session->tokens[slot]};
        }
        TRY(executor_run(session->core->executor, &plan, session->logits));
        count_tokens(session, batch);
    }
    *seconds = (clock_seconds() - started) / (double)count;
    return STATUS_OK;
}

/* Pages of every slot's own, on all ranks. */
static enum status map_own_pages(struct bench_session *session) {
    const struct state_pool *states = &session->core->states;
    int64_t entries = session->slot_count * states->pages_per_slot;
    struct step_page_update *updates = calloc((size_t)entries, sizeof *updates);
    CHECK_MEMORY(updates);
    for (int64_t i = 0; i < entries; i++) {
        updates[i] = (struct step_page_update){.slot = (int32_t)(i / states->pages_per_slot),
                                               .index = (int32_t)(i % states->pages_per_slot),
                                               .page = (int32_t)i};
    }
    const struct step_plan plan = {.page_updates = updates, .page_update_count = (int32_t)entries};
    enum status status = executor_change_state(session->core->executor, &plan);
    if (status == STATUS_OK) {
        status = stream_synchronize(session->core->stream);
    }
    free(updates);
    return status == STATUS_OK ? STATUS_OK : error_forward(status, ERROR_HERE);
}

static enum status copy_slot(struct bench_session *session, int64_t from, int64_t to) {
    struct state_pool *states = &session->core->states;
    struct stream *stream = session->core->stream;
    const int32_t *from_pages = states->page_table + from * states->pages_per_slot;
    const int32_t *to_pages = states->page_table + to * states->pages_per_slot;
    TRY(state_pool_copy_slot(states, stream, (int32_t)from, (int32_t)to));
    for (int64_t i = 0; i < states->pages_per_slot; i++) {
        TRY(state_pool_copy_page(states, stream, from_pages[i], to_pages[i]));
    }
    return stream_synchronize(stream);
}

/* State for the slots that were not prefilled when prefill was measured. */
static enum status fill_other_slots(struct bench_session *session, int64_t length) {
    int64_t filled = session->request->repeats;
    double seconds;
    for (int64_t slot = filled; slot < session->slot_count; slot++) {
        TRY(session->report->tensor == 1 ? copy_slot(session, slot % filled, slot)
                                         : prefill(session, slot, length, &seconds));
    }
    return STATUS_OK;
}

/* What was sent since `before`, per run of so many. */
static struct bench_sent sent_since(const struct bench_session *session,
                                    const struct executor_sent_bytes *before, int64_t runs) {
    struct executor_sent_bytes now = executor_sent_bytes(session->core->executor);
    return (struct bench_sent){.sums = (double)(now.sums - before->sums) / (double)runs,
                               .gathers = (double)(now.gathers - before->gathers) / (double)runs,
                               .exchanges = (double)(now.exchanges - before->exchanges) / (double)runs};
}

static void add_floor(const struct bench_report *report, struct bench_measure *measure) {
    double rate = measure->read_bytes_per_second;
    rate = rate > 0.0 ? rate : report->limits.read_bytes_per_second;
    if (rate > 0.0) {
        measure->bandwidth_floor_seconds = measure->work.bytes / rate;
    }
    if (report->peak_flops > 0.0) {
        measure->flop_floor_seconds = measure->work.operations / report->peak_flops;
    }
}

static void add_work(struct bench_session *session, const struct step_shape *shape, struct step_work *sum) {
    const struct engine_core *core = session->core;
    step_work_add(core->model, &session->weights, core->states.rows, core->states.count, shape,
                  session->rows_read, sum);
}

static enum status measure_prefill(struct bench_session *session, int64_t length, struct bench_measure *out) {
    int repeats = session->request->repeats;
    struct executor_sent_bytes before = executor_sent_bytes(session->core->executor);
    *out = (struct bench_measure){0};
    for (int r = 0; r < repeats; r++) {
        TRY(prefill(session, r % session->slot_count, length, &session->samples[r]));
    }
    out->sent = sent_since(session, &before, repeats);
    TRY(fill_other_slots(session, length));
    out->seconds = bench_spread_of(session->samples, repeats);
    int64_t chunk = session->core->options.step_token_limit;
    for (int64_t first = 0; first < length; first += chunk) {
        int64_t rows = length - first < chunk ? length - first : chunk;
        const struct step_shape shape = {.segment_count = 1,
                                         .segment_rows = rows,
                                         .first_position = first,
                                         .logit_rows = first + rows == length};
        add_work(session, &shape, &out->work);
    }
    return STATUS_OK;
}

/* The first rank's threads are only a part of those that read: with several ranks it says nothing. */
static enum status alloc_read_memory(struct bench_session *session) {
    session->resident_before = bench_peak_resident_bytes();
    if (session->report->tensor == 1) {
        session->read_memory = aligned_alloc(READ_ALIGNMENT, ROOFLINE_READ_BYTES);
        CHECK_MEMORY(session->read_memory);
        memset(session->read_memory, 1, ROOFLINE_READ_BYTES);
    }
    return STATUS_OK;
}

static double read_rate_now(const struct bench_session *session) {
    return session->read_memory == NULL
               ? 0.0
               : roofline_read_rate(session->core->pool, session->report->cpu_features, session->read_memory);
}

/* Of the process without the memory that bandwidth is measured with. */
static size_t peak_resident_bytes(const struct bench_session *session) {
    size_t now = bench_peak_resident_bytes();
    size_t own = session->read_memory == NULL ? 0 : ROOFLINE_READ_BYTES;
    size_t rest = now > own ? now - own : 0;
    return rest > session->resident_before ? rest : session->resident_before;
}

static enum status measure_decode(struct bench_session *session, int64_t length, int64_t batch,
                                  struct bench_measure *out) {
    int64_t count = session->request->gen_tokens;
    double warm_up;
    *out = (struct bench_measure){0};
    TRY(decode(session, batch, length, 1, &warm_up));
    struct executor_sent_bytes before = executor_sent_bytes(session->core->executor);
    double rate_before = read_rate_now(session);
    for (int r = 0; r < session->request->repeats; r++) {
        TRY(decode(session, batch, length, count, &session->samples[r]));
    }
    out->read_bytes_per_second = (rate_before + read_rate_now(session)) / 2.0;
    out->seconds = bench_spread_of(session->samples, session->request->repeats);
    out->sent = sent_since(session, &before, count * session->request->repeats);
    const struct step_shape middle = {
        .segment_count = batch, .segment_rows = 1, .first_position = length + count / 2, .logit_rows = batch};
    add_work(session, &middle, &out->work);
    return STATUS_OK;
}

/* Touches every page that matters: a chunk of tokens goes to nearly all experts. */
static enum status warm_up(struct bench_session *session) {
    const struct sluice_engine_options *options = &session->core->options;
    double seconds;
    int64_t length = options->step_token_limit < options->context_tokens ? options->step_token_limit
                                                                         : options->context_tokens;
    TRY(prefill(session, 0, length, &seconds));
    return STATUS_OK;
}

static enum status measure_rows(struct bench_session *session) {
    const struct bench_request *request = session->request;
    struct bench_report *report = session->report;
    TRY(warm_up(session));
    TRY(alloc_read_memory(session));
    for (int p = 0; p < request->prompt_tokens.count; p++) {
        struct bench_measure of_prompt;
        int64_t length = request->prompt_tokens.values[p];
        TRY(measure_prefill(session, length, &of_prompt));
        for (int b = 0; b < request->batches.count; b++) {
            struct bench_row row = {.prompt_tokens = length, .batch = request->batches.values[b]};
            row.prefill = of_prompt;
            TRY(measure_decode(session, length, row.batch, &row.decode));
            row.peak_resident_bytes = peak_resident_bytes(session);
            report->rows[report->row_count++] = row;
        }
    }
    report->large_page_fraction = bench_large_page_fraction();
    return STATUS_OK;
}

static enum status check_request(const struct bench_request *request) {
    CHECK(request->gen_tokens >= 1 && request->repeats >= 1, STATUS_BAD_ARGUMENT,
          "a benchmark needs at least one repeat and one token to generate");
    CHECK(request->prompt_tokens.count > 0 && request->batches.count > 0, STATUS_BAD_ARGUMENT,
          "a benchmark needs a prompt length and a batch size");
    CHECK(request->engine.parallel.pipeline == 1, STATUS_UNSUPPORTED,
          "steps are measured on one stage only: measure requests on several with --concurrency");
    return STATUS_OK;
}

static enum status open_core(struct bench_session *session) {
    struct sluice_engine_options options = session->request->engine;
    int64_t slots = bench_numbers_largest(&session->request->batches);
    options.context_tokens =
        bench_numbers_largest(&session->request->prompt_tokens) + session->request->gen_tokens;
    options.sequence_limit = (int)slots;
    options.has_prefix_cache = false;
    options.step_token_limit = options.step_token_limit < slots ? (int)slots : options.step_token_limit;
    TRY(engine_core_open(&options, &session->core));
    session->slot_count = slots;
    return map_own_pages(session);
}

static enum status alloc_buffers(struct bench_session *session) {
    const struct engine_core *core = session->core;
    size_t slots = (size_t)session->slot_count;
    session->tokens = calloc((size_t)core->options.step_token_limit, sizeof *session->tokens);
    session->logit_rows = calloc(slots, sizeof *session->logit_rows);
    session->segments = calloc(slots, sizeof *session->segments);
    session->logits = calloc(slots * (size_t)core->model->vocabulary_size, sizeof *session->logits);
    session->rows_read = calloc((size_t)core->states.count, sizeof *session->rows_read);
    session->samples = calloc((size_t)session->request->repeats, sizeof *session->samples);
    size_t rows = (size_t)session->request->prompt_tokens.count * (size_t)session->request->batches.count;
    session->report->rows = calloc(rows, sizeof *session->report->rows);
    CHECK_MEMORY(session->tokens);
    CHECK_MEMORY(session->logit_rows);
    CHECK_MEMORY(session->segments);
    CHECK_MEMORY(session->logits);
    CHECK_MEMORY(session->rows_read);
    CHECK_MEMORY(session->samples);
    CHECK_MEMORY(session->report->rows);
    for (size_t i = 0; i < slots; i++) {
        session->logit_rows[i] = (int32_t)i;
    }
    return STATUS_OK;
}

static void close_session(struct bench_session *session) {
    free(session->tokens);
    free(session->logit_rows);
    free(session->segments);
    free(session->logits);
    free(session->rows_read);
    free(session->samples);
    free(session->read_memory);
    engine_core_close(&session->core);
}

/* Native activations are bf16 wherever it counts, and may be widened; ideal ones are f32. */
static double peak_flops(const struct roofline *limits, enum sluice_numerics numerics) {
    bool may_use_bf16 = numerics == SLUICE_NUMERICS_NATIVE;
    bool is_faster = limits->bf16_flops_per_second > limits->f32_flops_per_second;
    return may_use_bf16 && is_faster ? limits->bf16_flops_per_second : limits->f32_flops_per_second;
}

static enum status add_limits(struct bench_session *session) {
    struct bench_report *report = session->report;
    const struct engine_core *core = session->core;
    if (report->tensor == 1) {
        TRY(roofline_measure(core->pool, report->cpu_features, &report->limits));
    } else { /* the first rank's threads are a part of those that ran */
        unsigned features;
        unsigned threads;
        TRY(bench_measure_limits(report->thread_count, core->options.cpu_features, &features, &threads,
                                 &report->limits));
    }
    report->peak_flops = peak_flops(&report->limits, core->options.numerics);
    for (int i = 0; i < report->row_count; i++) {
        add_floor(report, &report->rows[i].prefill);
        add_floor(report, &report->rows[i].decode);
    }
    return STATUS_OK;
}

static enum status fill_report(struct bench_session *session) {
    struct bench_report *report = session->report;
    const struct engine_core *core = session->core;
    report->facts = core->facts;
    report->tensor = core->options.parallel.tensor;
    report->thread_count = worker_pool_thread_count(core->pool) * (unsigned)report->tensor;
    report->chunk_tokens = core->options.step_token_limit;
    report->gen_tokens = session->request->gen_tokens;
    report->repeats = session->request->repeats;
    TRY(cpu_features_parse(core->options.cpu_features, &report->cpu_features));
    string_buffer_append_text(&report->model_directory, core->options.model_directory);
    core->model->family->describe(core->model, &report->model_description);
    TRY(string_buffer_check(&report->model_directory));
    return string_buffer_check(&report->model_description);
}

/* Tokens of all steps, for the progress line. */
static uint64_t planned_tokens(const struct bench_session *session) {
    const struct bench_request *request = session->request;
    int64_t tokens = session->core->options.step_token_limit;
    for (int p = 0; p < request->prompt_tokens.count; p++) {
        int64_t others = session->slot_count - request->repeats;
        bool fills_others = session->report->tensor > 1 && others > 0;
        tokens += (request->repeats + (fills_others ? others : 0)) * request->prompt_tokens.values[p];
        for (int b = 0; b < request->batches.count; b++) {
            tokens += (1 + request->repeats * request->gen_tokens) * request->batches.values[b];
        }
    }
    return (uint64_t)tokens;
}

enum status bench_measure_limits(unsigned thread_count, const char *cpu_features, unsigned *used_features,
                                 unsigned *used_threads, struct roofline *out) {
    struct worker_pool *pool;
    TRY(cpu_features_parse(cpu_features, used_features));
    TRY(worker_pool_create(thread_count == 0 ? worker_pool_cores_allowed() : thread_count, &pool));
    *used_threads = worker_pool_thread_count(pool);
    enum status status = roofline_measure(pool, *used_features, out);
    worker_pool_destroy(&pool);
    TRY(status);
    return STATUS_OK;
}

enum status bench_run(const struct bench_request *request, struct bench_report *out) {
    enum status status = STATUS_OK;
    *out = (struct bench_report){0};
    struct bench_session session = {.request = request, .report = out};
    TRY(check_request(request));
    TRY_GOTO(open_core(&session));
    TRY_GOTO(alloc_buffers(&session));
    TRY_GOTO(fill_report(&session));
    weight_work_sum(session.core->model, &session.core->tensors, &session.weights);
    progress_start(&session.progress, "measuring", "tokens", planned_tokens(&session));
    status = measure_rows(&session);
    progress_finish(&session.progress);
    TRY_GOTO(status);
    TRY_GOTO(add_limits(&session));
fail:
    close_session(&session);
    if (status != STATUS_OK) {
        bench_report_deinit(out);
    }
    return status;
}

void bench_report_deinit(struct bench_report *report) {
    string_buffer_deinit(&report->model_directory);
    string_buffer_deinit(&report->model_description);
    free(report->rows);
    *report = (struct bench_report){0};
}

double bench_fraction(double floor_seconds, double seconds) {
    return seconds > 0.0 ? floor_seconds / seconds : 0.0;
}
