/* Layout: three arrays of rows, four of segments, three of snapshots. */
#include "engine/batch_upload.h"

#include <stddef.h>

enum { ROW_ARRAYS = 3, SEGMENT_ARRAYS = 4, SNAPSHOT_ARRAYS = 3 };

size_t batch_upload_count(int64_t row_count, int64_t segment_count) {
    /* No segment has two snapshots. */
    return (size_t)(ROW_ARRAYS * row_count + (SEGMENT_ARRAYS + SNAPSHOT_ARRAYS) * segment_count);
}

int64_t step_plan_row_count(const struct step_plan *plan) {
    int64_t rows = 0;
    for (int32_t s = 0; s < plan->segment_count; s++) {
        rows += plan->segments[s].row_count;
    }
    return rows;
}

static struct batch_view view_of(const int32_t *base, int64_t rows, int64_t segments, int64_t snapshots) {
    const int32_t *of_segments = base + ROW_ARRAYS * rows;
    const int32_t *of_snapshots = of_segments + SEGMENT_ARRAYS * segments;
    return (struct batch_view){
        .row_count = rows,
        .segment_count = segments,
        .token_ids = base,
        .positions = base + rows,
        .row_segment = base + 2 * rows,
        .segment_slot = of_segments,
        .segment_first_row = of_segments + segments,
        .segment_first_position = of_segments + 2 * segments,
        .segment_row_count = of_segments + 3 * segments,
        .snapshot_count = snapshots,
        .snapshot_segment = of_snapshots,
        .snapshot_rows = of_snapshots + snapshots,
        .snapshot_slot = of_snapshots + 2 * snapshots,
    };
}

static void stage_snapshots(const struct step_plan *plan, int32_t *of_snapshots) {
    for (int32_t i = 0; i < plan->snapshot_count; i++) {
        of_snapshots[i] = plan->snapshots[i].segment;
        of_snapshots[plan->snapshot_count + i] = plan->snapshots[i].row_count;
        of_snapshots[2 * plan->snapshot_count + i] = plan->snapshots[i].slot;
    }
}

static void stage(const struct step_plan *plan, int64_t rows, int32_t *staging) {
    int32_t *of_segments = staging + ROW_ARRAYS * rows;
    int32_t row = 0;
    for (int32_t s = 0; s < plan->segment_count; s++) {
        const struct step_segment *segment = &plan->segments[s];
        of_segments[s] = segment->slot;
        of_segments[plan->segment_count + s] = row;
        of_segments[2 * plan->segment_count + s] = segment->first_position;
        of_segments[3 * plan->segment_count + s] = segment->row_count;
        for (int32_t i = 0; i < segment->row_count; i++, row++) {
            staging[row] = segment->token_ids[i];
            staging[rows + row] = segment->first_position + i;
            staging[2 * rows + row] = s;
        }
    }
    stage_snapshots(plan, of_segments + (ptrdiff_t)SEGMENT_ARRAYS * plan->segment_count);
}

enum status batch_upload(const struct step_plan *plan, int32_t *staging, struct stream *stream,
                         struct device_arena *arena, struct batch_view *out) {
    int64_t rows = step_plan_row_count(plan);
    size_t bytes = batch_upload_count(rows, plan->segment_count) * sizeof *staging;
    void *memory;
    TRY(device_arena_alloc(arena, bytes, &memory));
    if (stream != NULL) {
        stage(plan, rows, staging);
        TRY(stream_copy_to_device(stream, memory, staging, bytes));
    }
    *out = view_of(memory, rows, plan->segment_count, plan->snapshot_count);
    return STATUS_OK;
}
