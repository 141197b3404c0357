/* Snapshots: a list by last use, and a list of free ones. */
#include "engine/prefix_cache_internal.h"

static void unlink_snapshot(struct prefix_cache *cache, int32_t index) {
    struct prefix_snapshot *snapshot = &cache->snapshots[index];
    if (snapshot->older == PREFIX_NONE) {
        cache->oldest_snapshot = snapshot->newer;
    } else {
        cache->snapshots[snapshot->older].newer = snapshot->newer;
    }
    if (snapshot->newer == PREFIX_NONE) {
        cache->newest_snapshot = snapshot->older;
    } else {
        cache->snapshots[snapshot->newer].older = snapshot->older;
    }
}

static void append_newest(struct prefix_cache *cache, int32_t index) {
    struct prefix_snapshot *snapshot = &cache->snapshots[index];
    snapshot->older = cache->newest_snapshot;
    snapshot->newer = PREFIX_NONE;
    if (cache->newest_snapshot == PREFIX_NONE) {
        cache->oldest_snapshot = index;
    } else {
        cache->snapshots[cache->newest_snapshot].newer = index;
    }
    cache->newest_snapshot = index;
}

void prefix_cache_reset_snapshots(struct prefix_cache *cache) {
    int32_t count = cache->options.snapshot_count;
    for (int32_t i = 0; i < count; i++) {
        cache->snapshots[i] = (struct prefix_snapshot){
            .page = PREFIX_NONE, .older = PREFIX_NONE, .newer = i + 1 < count ? i + 1 : PREFIX_NONE};
    }
    cache->free_snapshot = count > 0 ? 0 : PREFIX_NONE;
    cache->oldest_snapshot = PREFIX_NONE;
    cache->newest_snapshot = PREFIX_NONE;
    cache->counters.snapshots = 0;
}

void prefix_cache_touch_snapshot(struct prefix_cache *cache, int32_t snapshot) {
    unlink_snapshot(cache, snapshot);
    append_newest(cache, snapshot);
}

void prefix_cache_free_snapshot(struct prefix_cache *cache, int32_t page) {
    int32_t index = cache->nodes[page].snapshot;
    if (index == PREFIX_NONE) {
        return;
    }
    unlink_snapshot(cache, index);
    cache->snapshots[index].page = PREFIX_NONE;
    cache->snapshots[index].newer = cache->free_snapshot;
    cache->free_snapshot = index;
    cache->nodes[page].snapshot = PREFIX_NONE;
    cache->counters.snapshots--;
}

int32_t prefix_cache_take_snapshot(struct prefix_cache *cache, int32_t page) {
    if (cache->free_snapshot == PREFIX_NONE) {
        if (cache->oldest_snapshot == PREFIX_NONE) {
            return PREFIX_NONE;
        }
        int32_t loser = cache->snapshots[cache->oldest_snapshot].page;
        prefix_cache_free_snapshot(cache, loser);
        prefix_cache_update_order(cache, loser);
        cache->counters.evicted_snapshots++;
    }
    int32_t index = cache->free_snapshot;
    cache->free_snapshot = cache->snapshots[index].newer;
    cache->snapshots[index].page = page;
    append_newest(cache, index);
    cache->nodes[page].snapshot = index;
    cache->counters.snapshots++;
    return index;
}
