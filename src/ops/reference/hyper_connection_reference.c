/* Residual streams: collapse with Sinkhorn-normalised mixing, write-back, and the head's collapse. */
#include <math.h>

#include "ops/hyper_connection_head.h"
#include "ops/hyper_connection_post.h"
#include "ops/hyper_connection_pre.h"
#include "ops/kernel_items.h"
#include "ops/reference/reference_entries.h"
#include "ops/reference/reference_math.h"
#include "ops/row_index.h"

enum { STREAMS_MAX = HYPER_CONNECTION_STREAMS_MAX, MIXES_MAX = (2 + STREAMS_MAX) * STREAMS_MAX };

/* Divides each row (or column) of a square matrix by its sum plus epsilon. */
static void normalise(double *matrix, int64_t count, double epsilon, bool by_column) {
    int64_t step = by_column ? count : 1;
    int64_t line_step = by_column ? 1 : count;
    for (int64_t line = 0; line < count; line++) {
        double sum = 0.0;
        for (int64_t i = 0; i < count; i++) {
            sum += matrix[line * line_step + i * step];
        }
        for (int64_t i = 0; i < count; i++) {
            matrix[line * line_step + i * step] /= sum + epsilon;
        }
    }
}

/* Row softmax, then alternating normalisation that ends on the columns. */
static void sinkhorn(double *matrix, int64_t count, int iterations, double epsilon) {
    for (int64_t row = 0; row < count; row++) {
        double *line = matrix + row * count;
        double largest = line[0];
        double sum = 0.0;
        for (int64_t i = 1; i < count; i++) {
            largest = fmax(largest, line[i]);
        }
        for (int64_t i = 0; i < count; i++) {
            line[i] = exp(line[i] - largest);
            sum += line[i];
        }
        for (int64_t i = 0; i < count; i++) {
            line[i] = line[i] / sum + epsilon;
        }
    }
    normalise(matrix, count, epsilon, true);
    for (int i = 1; i < iterations; i++) {
        normalise(matrix, count, epsilon, false);
        normalise(matrix, count, epsilon, true);
    }
}

/* mixes[i] = (mix row i . streams) / rms(streams), for all rows of `mix`. */
static void mix_streams(const struct weight *mix, const float *streams, float epsilon, float *mix_row,
                        double *mixes) {
    double mean = reference_dot(streams, streams, mix->columns) / (double)mix->columns;
    double factor = 1.0 / sqrt(mean + (double)epsilon);
    for (int64_t i = 0; i < mix->rows; i++) {
        weight_decode_row(mix, i, mix_row);
        mixes[i] = reference_dot(mix_row, streams, mix->columns) * factor;
    }
}

/* out = sum_j gates[j] * streams[j], in place of the first stream. */
static void collapse(const double *gates, float *streams, int64_t count, int64_t width) {
    for (int64_t i = 0; i < width; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < count; j++) {
            sum += gates[j] * (double)streams[j * width + i];
        }
        streams[i] = (float)sum;
    }
}

static void pre_row(const void *context, int64_t row, void *workspace) {
    const struct hyper_connection_pre_args *args = context;
    int64_t count = args->streams.shape[1];
    int64_t width = args->streams.shape[2];
    float *streams = workspace;
    double mixes[MIXES_MAX];
    double comb[STREAMS_MAX * STREAMS_MAX];
    double gates[STREAMS_MAX];
    float base[MIXES_MAX];
    float scale[3];
    float post[STREAMS_MAX];
    float comb_out[STREAMS_MAX * STREAMS_MAX];
    reference_read(&args->streams, row * count * width, count * width, streams);
    mix_streams(args->mix, streams, args->norm_epsilon, streams + count * width, mixes);
    weight_decode_row(args->base, 0, base);
    weight_decode_row(args->scale, 0, scale);
    for (int64_t j = 0; j < count; j++) {
        gates[j] = reference_sigmoid(mixes[j] * scale[0] + base[j]) + (double)args->gate_epsilon;
        post[j] = (float)(2.0 * reference_sigmoid(mixes[count + j] * scale[1] + base[count + j]));
    }
    for (int64_t i = 0; i < count * count; i++) {
        comb[i] = mixes[2 * count + i] * scale[2] + base[2 * count + i];
    }
    sinkhorn(comb, count, args->sinkhorn_iterations, (double)args->gate_epsilon);
    for (int64_t i = 0; i < count * count; i++) {
        comb_out[i] = (float)comb[i];
    }
    collapse(gates, streams, count, width);
    reference_write(&args->out, row * width, width, streams);
    reference_write(&args->post, row * count, count, post);
    reference_write(&args->comb, row * count * count, count * count, comb_out);
}

static void post_row(const void *context, int64_t row, void *workspace) {
    const struct hyper_connection_post_args *args = context;
    int64_t count = args->streams.shape[1];
    int64_t width = args->streams.shape[2];
    float *streams = workspace;
    float *branch = streams + count * width;
    float post[STREAMS_MAX];
    float comb[STREAMS_MAX * STREAMS_MAX];
    float mixed[STREAMS_MAX];
    reference_read(&args->streams, row * count * width, count * width, streams);
    reference_read(&args->branch, row * width, width, branch);
    reference_read(&args->post, row * count, count, post);
    reference_read(&args->comb, row * count * count, count * count, comb);
    for (int64_t i = 0; i < width; i++) {
        for (int64_t k = 0; k < count; k++) {
            double sum = 0.0;
            for (int64_t j = 0; j < count; j++) {
                sum += (double)comb[j * count + k] * (double)streams[j * width + i];
            }
            mixed[k] = (float)(sum + (double)post[k] * (double)branch[i]);
        }
        for (int64_t k = 0; k < count; k++) {
            streams[k * width + i] = mixed[k];
        }
    }
    reference_write(&args->streams, row * count * width, count * width, streams);
}

static void head_row(const void *context, int64_t row, void *workspace) {
    const struct hyper_connection_head_args *args = context;
    int64_t count = args->streams.shape[1];
    int64_t width = args->streams.shape[2];
    float *streams = workspace;
    double mixes[STREAMS_MAX] = {0};
    float base[STREAMS_MAX];
    float scale[1];
    int64_t source = row_index(args->rows, row);
    reference_read(&args->streams, source * count * width, count * width, streams);
    mix_streams(args->mix, streams, args->norm_epsilon, streams + count * width, mixes);
    weight_decode_row(args->base, 0, base);
    weight_decode_row(args->scale, 0, scale);
    for (int64_t j = 0; j < count; j++) {
        mixes[j] = reference_sigmoid(mixes[j] * scale[0] + base[j]) + (double)args->gate_epsilon;
    }
    collapse(mixes, streams, count, width);
    reference_write(&args->out, row * width, width, streams);
}

/* Streams of one row, twice: once as values, once for a row of the mix. */
static size_t row_workspace(const struct tensor *streams) {
    return kernel_float_bytes(2 * streams->shape[1] * streams->shape[2]);
}

static size_t pre_workspace(const void *arguments, unsigned thread_count) {
    const struct hyper_connection_pre_args *args = arguments;
    return thread_count * row_workspace(&args->streams);
}

static enum status run_pre(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_pre_args *args = arguments;
    kernel_for_each_item(env, args->streams.shape[0], pre_row, args, env->workspace,
                         row_workspace(&args->streams));
    return STATUS_OK;
}

static size_t post_workspace(const void *arguments, unsigned thread_count) {
    const struct hyper_connection_post_args *args = arguments;
    return thread_count * row_workspace(&args->streams);
}

static enum status run_post(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_post_args *args = arguments;
    kernel_for_each_item(env, args->streams.shape[0], post_row, args, env->workspace,
                         row_workspace(&args->streams));
    return STATUS_OK;
}

static size_t head_workspace(const void *arguments, unsigned thread_count) {
    const struct hyper_connection_head_args *args = arguments;
    return thread_count * row_workspace(&args->streams);
}

static enum status run_head(const struct kernel_env *env, const void *arguments) {
    const struct hyper_connection_head_args *args = arguments;
    kernel_for_each_item(env, args->out.shape[0], head_row, args, env->workspace,
                         row_workspace(&args->streams));
    return STATUS_OK;
}

const struct op_entry hyper_connection_pre_reference = {
    .op = OP_HYPER_CONNECTION_PRE,
    .name = "hyper_connection_pre_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_pre,
    .workspace_bytes = pre_workspace,
};
const struct op_entry hyper_connection_post_reference = {
    .op = OP_HYPER_CONNECTION_POST,
    .name = "hyper_connection_post_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_post,
    .workspace_bytes = post_workspace,
};
const struct op_entry hyper_connection_head_reference = {
    .op = OP_HYPER_CONNECTION_HEAD,
    .name = "hyper_connection_head_reference",
    .arithmetic = "reference",
    .modes = OP_MODE_BOTH,
    .run = run_head,
    .workspace_bytes = head_workspace,
};
