/* Spread numbers: those so far leave no wide gap, whatever the count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/spread.h"

enum { NUMBERS = 1000, PARTS = 16 };

static void every_part_has_its_share(void **state) {
    (void)state;
    static const uint64_t counts[] = {16, 97, 4096, 129280, (uint64_t)1 << 32};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int found[PARTS] = {0};
        for (uint32_t i = 0; i < NUMBERS; i++) {
            uint64_t number = spread_number(i, counts[c]);
            assert_true(number < counts[c]);
            found[number * PARTS / counts[c]]++;
        }
        /* The parts of 97 numbers are of six or seven. */
        for (int part = 0; part < PARTS; part++) {
            assert_in_range(found[part], NUMBERS / PARTS - 8, NUMBERS / PARTS + 14);
        }
    }
}

static void neighbours_lie_apart(void **state) {
    (void)state;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        uint32_t step = spread_number(i + 1, 1000) + 1000 - spread_number(i, 1000);
        assert_in_range(step % 1000, 617, 619); /* the golden section */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_has_its_share),
        cmocka_unit_test(neighbours_lie_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
