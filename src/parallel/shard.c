/* All cuts are the same division, at different units. */
#include "parallel/shard.h"

#include <assert.h>

enum { VOCABULARY_UNIT = 64 };

static int64_t divide_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

struct shard_range shard_cut(int64_t length, int64_t unit, int index, int parts) {
    assert(length >= 0 && unit >= 1 && index >= 0 && index < parts);
    int64_t units = divide_up(length, unit);
    int64_t first = smaller(index * units / parts * unit, length);
    int64_t end = smaller((index + 1) * units / parts * unit, length);
    return (struct shard_range){.first = first, .count = end - first};
}

struct shard_range shard_cut_vocabulary(int64_t size, int index, int parts) {
    assert(size >= 0 && index >= 0 && index < parts);
    int64_t rows = divide_up(divide_up(size, parts), VOCABULARY_UNIT) * VOCABULARY_UNIT;
    int64_t first = smaller(index * rows, size);
    return (struct shard_range){.first = first, .count = smaller(rows, size - first)};
}

struct shard_range shard_cut_rows(int64_t count, int index, int parts) {
    assert(count >= 0 && index >= 0 && index < parts);
    int64_t rows = divide_up(count, parts);
    int64_t first = smaller(index * rows, count);
    return (struct shard_range){.first = first, .count = smaller(rows, count - first)};
}

struct shard_range shard_cut_experts(int64_t count, int index, int parts) {
    return shard_cut(count, 1, index, parts);
}

bool shard_is_on_stage(const struct shard_layout *layout, enum placement_stage stage, int layer) {
    int own = layout->place.pipeline;
    bool is_first = own == 0;
    bool is_last = own == layout->mesh.pipeline - 1;
    switch (stage) {
    case STAGE_OF_LAYER:
        return layer >= layout->first_layers[own] && layer < layout->first_layers[own + 1];
    case STAGE_FIRST:
        return is_first;
    case STAGE_LAST:
        return is_last;
    case STAGE_FIRST_AND_DRAFT:
        return is_first || (is_last && layout->has_draft);
    case STAGE_DRAFT:
        return is_last && layout->has_draft;
    }
    return false;
}
