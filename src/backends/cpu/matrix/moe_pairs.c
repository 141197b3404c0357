/* Counting sort; host memory of the kernel's workspace. */
#include "backends/cpu/matrix/moe_pairs.h"

#include <stdbool.h>
#include <string.h>

#include "ops/kernel_items.h"

static int64_t pair_count(const struct moe_experts_args *args) {
    return args->x.shape[0] * args->experts.shape[1];
}

static bool is_in_bank(const struct expert_weights *bank, int32_t expert) {
    return expert >= bank->first && expert < bank->first + bank->count;
}

size_t moe_pairs_bytes(const struct moe_experts_args *args) {
    size_t integers = (size_t)(3 * args->bank->count + 1 + 2 * pair_count(args));
    return kernel_workspace_bytes(integers * sizeof(int32_t));
}

struct moe_pairs moe_pairs_sort(const struct moe_experts_args *args, void *memory) {
    int64_t experts = args->bank->count;
    int64_t count = pair_count(args);
    const int32_t *chosen = args->experts.data;
    int32_t *next = memory;            /* [experts]: where the next pair of an expert goes */
    int32_t *active = next + experts;  /* [experts] */
    int32_t *first = active + experts; /* [experts + 1] */
    int32_t *pairs = first + experts + 1;
    int32_t *places = pairs + count;
    memset(next, 0, (size_t)experts * sizeof *next);
    for (int64_t i = 0; i < count; i++) {
        if (is_in_bank(args->bank, chosen[i])) {
            next[chosen[i] - args->bank->first]++;
        }
    }
    int32_t total = 0;
    int64_t active_count = 0;
    for (int64_t e = 0; e < experts; e++) {
        int32_t of_expert = next[e];
        next[e] = total;
        if (of_expert > 0) {
            active[active_count] = (int32_t)e;
            first[active_count++] = total;
        }
        total += of_expert;
    }
    first[active_count] = total;
    for (int64_t i = 0; i < count; i++) {
        places[i] = -1;
        if (is_in_bank(args->bank, chosen[i])) {
            places[i] = next[chosen[i] - args->bank->first]++;
            pairs[places[i]] = (int32_t)i;
        }
    }
    return (struct moe_pairs){active_count, active, first, pairs, places};
}
