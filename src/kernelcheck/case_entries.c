/* Page tables by a walk with a stride that visits every page once. */
#include "kernelcheck/case_entries.h"

#include "kernelcheck/case_values.h"

enum { POSITIONS_OF_A_PAGE = 128, SPARE_ENTRIES = 2 };

/* As a page number: beyond all memory, so that following it faults. */
static const int32_t NO_PAGE = INT32_MAX;

static int64_t greatest_common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A stride near the golden ratio of `count`: neighbours lie far apart. */
static int64_t page_stride(int64_t count) {
    int64_t stride = count * 5 / 8 + 1;
    while (greatest_common_divisor(stride, count) != 1) {
        stride++;
    }
    return stride;
}

static int64_t segment_entries(const struct kernel_case *kernel_case, int segment_index) {
    const struct case_segment *segment = &kernel_case->plan.segments[segment_index];
    return (segment->first_position + segment->row_count) / kernel_case->shape->ratio;
}

static int64_t segment_pages(const struct kernel_case *kernel_case, const struct state_rows *store,
                             int segment_index) {
    int64_t entries = segment_entries(kernel_case, segment_index);
    return (entries + store->rows_per_page - 1) / store->rows_per_page;
}

static int64_t count_pages(const struct kernel_case *kernel_case, const struct state_rows *store) {
    int64_t count = 1; /* nobody's */
    for (int s = 0; s < kernel_case->plan.segment_count; s++) {
        count += segment_pages(kernel_case, store, s);
    }
    return count;
}

static void fill_table(const struct kernel_case *kernel_case, const struct state_rows *store,
                       int64_t page_count, int32_t *table) {
    int64_t stride = page_stride(page_count);
    int64_t page = 0;
    for (int64_t i = 0; i < store->slot_count * store->pages_per_slot; i++) {
        table[i] = NO_PAGE;
    }
    for (int s = 0; s < kernel_case->plan.segment_count; s++) {
        int32_t *pages = table + case_slot(kernel_case, s) * store->pages_per_slot;
        int64_t count = segment_pages(kernel_case, store, s);
        for (int64_t i = 0; i < count; i++) {
            page = (page + stride) % page_count;
            pages[i] = (int32_t)page;
        }
    }
}

enum status case_add_entries(struct kernel_case *kernel_case, struct row_layout layout,
                             struct case_entries *out) {
    const struct case_shape *shape = kernel_case->shape;
    struct state_rows *store = &out->store;
    *store = (struct state_rows){.layout = layout, .row_bytes = row_layout_bytes(&layout)};
    store->slot_count = kernel_case->plan.segment_count + 1;
    store->rows_per_page = shape->page_rows > 0 ? shape->page_rows : POSITIONS_OF_A_PAGE / shape->ratio;
    store->rows_per_slot = (case_plan_last_position(&kernel_case->plan) + 1) / shape->ratio + SPARE_ENTRIES;
    store->pages_per_slot = (store->rows_per_slot + store->rows_per_page - 1) / store->rows_per_page;
    int64_t page_count = count_pages(kernel_case, store);
    int64_t table_count = store->slot_count * store->pages_per_slot;
    int32_t *table = ARENA_NEW(&kernel_case->arena, int32_t, (size_t)table_count);
    CHECK_MEMORY(table);
    fill_table(kernel_case, store, page_count, table);
    out->pages = table;
    TRY(case_add_integers(kernel_case, table, table_count, &store->page_table));
    size_t bytes = (size_t)(page_count * store->rows_per_page) * store->row_bytes;
    TRY(kernel_case_add_operand(kernel_case, bytes, CASE_ALIGNED, &out->operand));
    store->memory = case_operand_device(kernel_case, out->operand);
    return STATUS_OK;
}

enum status case_fill_entries(struct kernel_case *kernel_case, const struct case_entries *entries,
                              unsigned id) {
    for (int s = 0; s < kernel_case->plan.segment_count; s++) {
        int64_t count = segment_entries(kernel_case, s);
        for (int64_t entry = 0; entry < count; entry++) {
            TRY(case_put_row(kernel_case, &entries->store, entries->operand,
                             case_entry_row(entries, case_slot(kernel_case, s), entry), id,
                             kernel_case->plan.segments[s].sequence, (int32_t)entry));
        }
    }
    return STATUS_OK;
}

int64_t case_entry_row(const struct case_entries *entries, int64_t slot, int64_t entry) {
    const struct state_rows *store = &entries->store;
    int64_t page = entries->pages[slot * store->pages_per_slot + entry / store->rows_per_page];
    return page * store->rows_per_page + entry % store->rows_per_page;
}
