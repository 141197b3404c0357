/*
 * Sums over ranks in the adjacent tree.
 *
 * With 2^k ranks an exchange at distance 1, then 2, then 4 is that tree: each rank sums a node with its
 * neighbour's (recursive halving, or doubling where values are few and rounds count). With other sizes every
 * rank gets the contributions themselves and adds them in the tree. The lower ranks' node is always on the
 * left. All ways give the same bits; which one is taken depends on the size and the count alone.
 */
#include <assert.h>
#include <string.h>

#include "comm/comm_pass.h"

enum {
    /* Values up to this are not dealt out first: one exchange less matters more than their bytes. */
    DIRECT_COUNT_MAX = 4096,
    BLOCK_COUNT = 256, /* values that are added at once, in the first level of cache */
    TREE_DEPTH_MAX = 32,
};

static bool is_power_of_two(int size) {
    return (size & (size - 1)) == 0;
}

static void copy_floats(float *to, const float *from, int64_t count) {
    if (count > 0 && to != from) {
        memcpy(to, from, (size_t)count * sizeof *to);
    }
}

/* `sum` may be either operand. */
static void add_floats(float *sum, const float *left, const float *right, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        sum[i] = left[i] + right[i];
    }
}

/* What all ranks contribute to a sum: the own part lies apart, the others' follow each other by rank. */
struct contributions {
    int rank;
    int size;
    const float *own;
    float *others;
    int64_t count;
};

static float *other_part(const struct contributions *parts, int rank) {
    return parts->others + (rank < parts->rank ? rank : rank - 1) * parts->count;
}

/* Up to BLOCK_COUNT values from `first`. Nodes that wait for their neighbour lie on a stack. */
static void add_block(const struct contributions *parts, int64_t first, int64_t count, float *out) {
    float nodes[TREE_DEPTH_MAX][BLOCK_COUNT];
    int depth = 0;
    for (int rank = 0; rank < parts->size; rank++) {
        const float *part = rank == parts->rank ? parts->own : other_part(parts, rank);
        copy_floats(nodes[depth++], part + first, count);
        for (int closed = rank; closed % 2 == 1; closed /= 2) {
            depth--;
            add_floats(nodes[depth - 1], nodes[depth - 1], nodes[depth], count);
        }
    }
    for (; depth > 1; depth--) {
        add_floats(nodes[depth - 2], nodes[depth - 2], nodes[depth - 1], count);
    }
    copy_floats(out + first, nodes[0], count);
}

/* `out` may be the own part. */
static void add_contributions(const struct contributions *parts, float *out) {
    for (int64_t first = 0; first < parts->count; first += BLOCK_COUNT) {
        int64_t left = parts->count - first;
        add_block(parts, first, left < BLOCK_COUNT ? left : BLOCK_COUNT, out);
    }
}

static enum status exchange_floats(struct comm_pass *pass, int peer, const float *out, int64_t out_count,
                                   float *in, int64_t in_count) {
    TRY(comm_pass_send(pass, peer, out, (size_t)out_count * sizeof *out));
    TRY(comm_pass_receive(pass, peer, in, (size_t)in_count * sizeof *in));
    TRY(comm_pass_wait(pass));
    return STATUS_OK;
}

/* 2^k ranks, each with the whole sum at the end. */
static enum status sum_doubling(struct comm_pass *pass, float *values, int64_t count) {
    const struct comm *comm = pass->comm;
    float *heard;
    TRY(comm_scratch(pass->comm, count, &heard));
    for (int distance = 1; distance < comm->size; distance *= 2) {
        TRY(exchange_floats(pass, comm->rank ^ distance, values, count, heard, count));
        bool is_right = (comm->rank & distance) != 0;
        add_floats(values, is_right ? heard : values, is_right ? values : heard, count);
    }
    return STATUS_OK;
}

/* Any number of ranks: each gets all contributions. */
static enum status sum_direct(struct comm_pass *pass, float *values, int64_t count) {
    struct comm *comm = pass->comm;
    struct contributions parts = {.rank = comm->rank, .size = comm->size, .own = values, .count = count};
    TRY(comm_scratch(comm, (comm->size - 1) * count, &parts.others));
    size_t bytes = (size_t)count * sizeof *values;
    for (int distance = 1; distance < comm->size; distance++) {
        int from = (comm->rank + comm->size - distance) % comm->size;
        TRY(comm_pass_send(pass, (comm->rank + distance) % comm->size, values, bytes));
        TRY(comm_pass_receive(pass, from, other_part(&parts, from), bytes));
    }
    TRY(comm_pass_wait(pass));
    add_contributions(&parts, values);
    return STATUS_OK;
}

/* Any number of ranks: each gets the others' contributions to its own share. */
static enum status scatter_direct(struct comm_pass *pass, const float *values, const int64_t *first,
                                  int64_t width, float *out) {
    struct comm *comm = pass->comm;
    struct contributions parts = {.rank = comm->rank,
                                  .size = comm->size,
                                  .own = values + first[comm->rank] * width,
                                  .count = (first[comm->rank + 1] - first[comm->rank]) * width};
    TRY(comm_scratch(comm, (comm->size - 1) * parts.count, &parts.others));
    for (int distance = 1; distance < comm->size; distance++) {
        int from = (comm->rank + comm->size - distance) % comm->size;
        int to = (comm->rank + distance) % comm->size;
        TRY(comm_pass_send(pass, to, values + first[to] * width,
                           (size_t)((first[to + 1] - first[to]) * width) * sizeof *values));
        TRY(comm_pass_receive(pass, from, other_part(&parts, from), (size_t)parts.count * sizeof *values));
    }
    TRY(comm_pass_wait(pass));
    add_contributions(&parts, out);
    return STATUS_OK;
}

/*
 * Shares in the order of their numbers' reversed bits: those that a rank still sums after some exchanges,
 * which agree with its own number in as many low bits, then lie side by side.
 */
struct share_order {
    const int64_t *first;
    int64_t width;
    int size;
};

static int share_at(const struct share_order *order, int position) {
    int share = 0;
    for (int bit = 1; bit < order->size; bit *= 2) {
        share = share * 2 + (position & bit ? 1 : 0);
    }
    return share;
}

/* Values of the shares at positions `begin` to `end` - 1. */
static int64_t values_between(const struct share_order *order, int begin, int end) {
    int64_t rows = 0;
    for (int position = begin; position < end; position++) {
        int share = share_at(order, position);
        rows += order->first[share + 1] - order->first[share];
    }
    return rows * order->width;
}

/* Copies the shares at these positions from where they lie in `values` side by side. */
static void pack_shares(const struct share_order *order, const float *values, int begin, int end,
                        float *packed) {
    for (int position = begin; position < end; position++) {
        int64_t count = values_between(order, position, position + 1);
        copy_floats(packed, values + order->first[share_at(order, position)] * order->width, count);
        packed += count;
    }
}

/* 2^k ranks: each exchange halves the shares that a rank sums. */
static enum status scatter_halving(struct comm_pass *pass, const float *values, const int64_t *first,
                                   int64_t width, float *out) {
    struct comm *comm = pass->comm;
    const struct share_order order = {.first = first, .width = width, .size = comm->size};
    int64_t total = first[comm->size] * width - first[0] * width;
    float *node; /* the shares that this rank sums, side by side */
    TRY(comm_scratch(comm, 2 * total, &node));
    float *heard = node + total;
    pack_shares(&order, values, 0, comm->size, node);
    int begin = 0;
    int end = comm->size;
    for (int distance = 1; distance < comm->size; distance *= 2) {
        int middle = begin + (end - begin) / 2;
        int64_t low_count = values_between(&order, begin, middle);
        int64_t high_count = values_between(&order, middle, end);
        bool is_right = (comm->rank & distance) != 0;
        int64_t kept_count = is_right ? high_count : low_count;
        float *kept = is_right ? node + low_count : node;
        const float *given = is_right ? node : node + low_count;
        TRY(exchange_floats(pass, comm->rank ^ distance, given, low_count + high_count - kept_count, heard,
                            kept_count));
        add_floats(kept, is_right ? heard : kept, is_right ? kept : heard, kept_count);
        node = kept;
        begin = is_right ? middle : begin;
        end = is_right ? end : middle;
    }
    copy_floats(out, node, values_between(&order, begin, end));
    return STATUS_OK;
}

static enum status pass_sum_scatter(struct comm_pass *pass, const float *values, const int64_t *first,
                                    int64_t width, float *out) {
    const struct comm *comm = pass->comm;
    if (comm->size == 1) {
        copy_floats(out, values + first[0] * width, (first[1] - first[0]) * width);
    } else if (is_power_of_two(comm->size)) {
        TRY(scatter_halving(pass, values, first, width, out));
    } else {
        TRY(scatter_direct(pass, values, first, width, out));
    }
    return STATUS_OK;
}

enum status comm_sum_scatter_host(struct comm *comm, struct stream *stream, const float *values,
                                  const int64_t *first, int64_t width, float *out) {
    struct comm_pass pass;
    TRY(comm_pass_begin(comm, stream, "comm_sum_scatter", &pass));
    enum status status = pass_sum_scatter(&pass, values, first, width, out);
    comm_pass_end(&pass);
    TRY(status);
    return STATUS_OK;
}

/* Values dealt out evenly, summed, and gathered: fewer bytes than all of them everywhere. */
static enum status sum_shares(struct comm_pass *pass, float *values, int64_t count) {
    struct comm *comm = pass->comm;
    for (int rank = 0; rank <= comm->size; rank++) {
        comm->shares[rank] = rank * count / comm->size;
        comm->offsets[rank] = (size_t)comm->shares[rank] * sizeof *values;
    }
    float *own = values + comm->shares[comm->rank];
    TRY(pass_sum_scatter(pass, values, comm->shares, 1, own));
    TRY(comm_pass_gather(pass, own, comm->offsets, values));
    return STATUS_OK;
}

static enum status pass_sum(struct comm_pass *pass, float *values, int64_t count) {
    if (pass->comm->size == 1) {
        return STATUS_OK;
    }
    if (count > DIRECT_COUNT_MAX) {
        TRY(sum_shares(pass, values, count));
    } else if (is_power_of_two(pass->comm->size)) {
        TRY(sum_doubling(pass, values, count));
    } else {
        TRY(sum_direct(pass, values, count));
    }
    return STATUS_OK;
}

enum status comm_sum_host(struct comm *comm, struct stream *stream, float *values, int64_t count) {
    struct comm_pass pass;
    TRY(comm_pass_begin(comm, stream, "comm_sum", &pass));
    enum status status = pass_sum(&pass, values, count);
    comm_pass_end(&pass);
    TRY(status);
    return STATUS_OK;
}

size_t comm_sum_scratch_bytes(int size, int64_t count, int64_t share) {
    int64_t floats = 0;
    if (size > 1 && is_power_of_two(size)) {
        floats = 2 * count;
    } else if (size > 1) {
        int64_t direct = count < DIRECT_COUNT_MAX ? count : DIRECT_COUNT_MAX;
        floats = (size - 1) * (share > direct ? share : direct);
    }
    return (size_t)floats * sizeof(float);
}
