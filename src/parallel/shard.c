#include "parallel/shard.h"
static int64_t part_start(int64_t units, int index, int parts) { return units * index / parts; }
struct shard_range shard_cut(int64_t length, int64_t unit, int index, int parts) {
    int64_t units = (length + unit - 1) / unit;
    int64_t first = part_start(units, index, parts) * unit, end = part_start(units, index + 1, parts) * unit;
    first = first < length ? first : length;
    end = end < length ? end : length;
    return (struct shard_range){first, end - first};
}
struct shard_range shard_cut_vocabulary(int64_t size, int index, int parts) {
    int64_t rows = ((size + parts - 1) / parts + 63) / 64 * 64;
    int64_t first = rows * index < size ? rows * index : size;
    int64_t end = first + rows < size ? first + rows : size;
    return (struct shard_range){first, end - first};
}
struct shard_range shard_cut_experts(int64_t count, int index, int parts) { return shard_cut(count, 1, index, parts); }
