/*
 * Refusals of layouts by their codes, each with what the table of spec parallelism 6.5 demands in its
 * sentence: CFG-01, CFG-04, CFG-10, CFG-14, CFG-16, CFG-17, CFG-19, CFG-20. Codes that layout_check.h says
 * are checked elsewhere have their tests beside those checks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/layout_check.h"

static const struct mesh_shape mesh = {2, 3, 1, 4, true};

/* The call is refused with a status and all of these words. */
static void expect_words(enum status actual, enum status expected, const char *const *words) {
    assert_int_equal(actual, expected);
    for (; *words != NULL; words++) {
        if (strstr(error_last()->message, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, error_last()->message);
        }
    }
}
#define REFUSED(call, status, ...) expect_words((call), (status), (const char *const[]){__VA_ARGS__, NULL})
#define ALLOWED(call) assert_int_equal((call), STATUS_OK)

static void cfg_01_rank_count(void **state) {
    (void)state;
    static const struct mesh_shape huge = {4096, 4096, 1, 4096, true}; /* more than 32 bits hold */
    ALLOWED(layout_check_rank_count(&mesh, 24, "processes"));
    REFUSED(layout_check_rank_count(&mesh, 8, "processes"), STATUS_USAGE, "2 data", "3 pipeline", "1 context",
            "4 tensor", "are 24", "8 processes");
    REFUSED(layout_check_rank_count(&huge, 0, "devices"), STATUS_USAGE, "are 68719476736", "0 devices");
}

static void cfg_04_stages(void **state) {
    (void)state;
    ALLOWED(layout_check_stages(43, 43));
    ALLOWED(layout_check_stages(44, 43));
    REFUSED(layout_check_stages(45, 43), STATUS_BAD_CONFIG, "45 pipeline stages", "43 layers", "at most 44",
            "head alone");
}

static void cfg_10_draft_tensors(void **state) {
    (void)state;
    ALLOWED(layout_check_draft_tensors(2, 0, NULL));
    ALLOWED(layout_check_draft_tensors(0, 7, "mtp.0.e_proj.weight"));
    REFUSED(layout_check_draft_tensors(2, 7, "mtp.0.e_proj.weight"), STATUS_BAD_CHECKPOINT,
            "num_speculative_tokens 2", "7 draft tensors", "mtp.0.e_proj.weight");
}

/* S-30: ranks that share a context are refused until there are such. */
static void cfg_14_reserved(void **state) {
    (void)state;
    const struct mesh_shape context = {1, 1, 2, 1, true};
    ALLOWED(layout_check_reserved(&mesh));
    REFUSED(layout_check_reserved(&context), STATUS_UNSUPPORTED, "context parallelism of 2", "-cp");
}

static void cfg_16_page_tokens(void **state) {
    (void)state;
    static const int64_t wrong[] = {-128, 0, 1, 64, 127, 129, 200, (1 << 20) + 128, INT64_MAX};
    ALLOWED(layout_check_page_tokens(128));
    ALLOWED(layout_check_page_tokens(1 << 20));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char value[32];
        snprintf(value, sizeof value, "is %lld,", (long long)wrong[i]);
        REFUSED(layout_check_page_tokens(wrong[i]), STATUS_USAGE, value, "multiple of 128");
    }
}

static void cfg_17_buffers(void **state) {
    (void)state;
    ALLOWED(layout_check_buffers(2, 1, 2));
    ALLOWED(layout_check_buffers(3, 1, 3));
    REFUSED(layout_check_buffers(3, 5, 2), STATUS_USAGE, "2 boundary buffers", "5 groups", "3 stages",
            "at least 3");
    struct string_buffer text = {0};
    assert_false(layout_append_few_groups(3, 0, 3, &text));
    assert_false(layout_append_few_groups(3, 3, 3, &text));
    assert_false(layout_append_few_groups(1, 1, 2, &text));
    assert_int_equal(text.length, 0);
    assert_true(layout_append_few_groups(3, 2, 4, &text));
    assert_string_equal(string_buffer_text(&text), "2 groups in flight cannot fill 3 stages (4 boundary "
                                                   "buffers): leave --pp-inflight at 3");
    string_buffer_deinit(&text);
}

static void cfg_19_expert_table(void **state) {
    (void)state;
    ALLOWED(layout_check_expert_table("layers.0.ffn.gate.tid2eid", 512, 512));
    REFUSED(layout_check_expert_table("layers.0.ffn.gate.tid2eid", 512, 640), STATUS_BAD_CHECKPOINT,
            "layers.0.ffn.gate.tid2eid", "512 rows", "640 entries");
}

static void cfg_20_sums(void **state) {
    (void)state;
    static const struct {
        int tensor;
        const char *nearest;
    } refused[] = {{3, "-tp 2"}, {6, "-tp 4"}, {12, "-tp 8"}, {17, "-tp 16"}, {32, "-tp 16"}};
    for (int tensor = 1; tensor <= 16; tensor *= 2) {
        ALLOWED(layout_check_sums("cpu", tensor, 16));
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        char asked[64];
        snprintf(asked, sizeof asked, "tensor parallelism of %d", refused[i].tensor);
        REFUSED(layout_check_sums("cpu", refused[i].tensor, 16), STATUS_UNSUPPORTED, "cpu backend", asked,
                refused[i].nearest);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cfg_01_rank_count),    cmocka_unit_test(cfg_04_stages),
        cmocka_unit_test(cfg_10_draft_tensors), cmocka_unit_test(cfg_14_reserved),
        cmocka_unit_test(cfg_16_page_tokens),   cmocka_unit_test(cfg_17_buffers),
        cmocka_unit_test(cfg_19_expert_table),  cmocka_unit_test(cfg_20_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
