/* Pages are what is left after everything else. */
#include "engine/memory_plan.h"

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* With a limit, no more pages than this: their indices are 32 bits, and a pool of them has tables. */
enum { PAGE_COUNT_MAX = 1 << 26 };

enum status memory_plan_pages(const struct memory_plan_input *input, int32_t *page_count) {
    uint64_t usable = input->available_bytes - input->available_bytes / 10;
    uint64_t limit = input->limit_bytes == 0 ? usable : input->limit_bytes;
    uint64_t page_bytes = input->page_bytes == 0 ? 1 : input->page_bytes;
    uint64_t left = limit > input->fixed_bytes ? limit - input->fixed_bytes : 0;
    uint64_t pages = smaller(left / page_bytes, PAGE_COUNT_MAX);
    uint64_t needed = (uint64_t)input->pages_per_sequence;
    CHECK(
        pages >= needed, STATUS_OUT_OF_MEMORY,
        "one request of %lld tokens needs %.1f MB of state besides %.1f MB of other memory, but %s %.1f MB: "
        "lower --max-model-len or --max-num-seqs%s",
        (long long)(input->pages_per_sequence * input->page_tokens), (double)(needed * page_bytes) / 1e6,
        (double)input->fixed_bytes / 1e6,
        input->limit_bytes == 0 ? "nine tenths of what is free are" : "the limit is", (double)limit / 1e6,
        input->limit_bytes == 0 ? "" : ", or raise --memory-limit");
    uint64_t wanted = needed * (uint64_t)input->sequence_limit * (input->has_prefix_cache ? 2 : 1);
    *page_count = (int32_t)(input->limit_bytes == 0 ? smaller(pages, wanted) : pages);
    return STATUS_OK;
}
