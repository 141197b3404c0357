/* Where requests go: to who knows their beginning, unless that one is too busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "engine/replica_router.h"

enum { REPLICAS = 3, MARGIN = 4, TOKENS = 1000 };

struct fixture {
    struct replica_router *router;
    struct replica_load loads[REPLICAS];
    int32_t tokens[TOKENS];
};

static int set_up(void **state) {
    static struct fixture fixture;
    fixture = (struct fixture){.loads = {{true, 0}, {true, 0}, {true, 0}}};
    for (int i = 0; i < TOKENS; i++) {
        fixture.tokens[i] = i * 7 % 1009;
    }
    assert_int_equal(replica_router_create(REPLICAS, MARGIN, &fixture.router), STATUS_OK);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    replica_router_destroy(&fixture->router);
    return 0;
}

static int choose(const struct fixture *fixture, size_t count) {
    return replica_router_choose(fixture->router, fixture->tokens, count, fixture->loads);
}

static void test_the_least_busy_gets_what_is_new(void **state) {
    struct fixture *fixture = *state;
    assert_int_equal(choose(fixture, TOKENS), 0);
    fixture->loads[0].requests = 2;
    fixture->loads[1].requests = 1;
    fixture->loads[2].requests = 1;
    assert_int_equal(choose(fixture, TOKENS), 1);
    fixture->loads[1].is_usable = false;
    assert_int_equal(choose(fixture, TOKENS), 2);
    fixture->loads[0].is_usable = false;
    fixture->loads[2].is_usable = false;
    assert_int_equal(choose(fixture, TOKENS), -1);
}

static void test_the_longest_beginning_wins(void **state) {
    struct fixture *fixture = *state;
    replica_router_learn(fixture->router, 1, fixture->tokens, 300);
    replica_router_learn(fixture->router, 2, fixture->tokens, 600);
    assert_int_equal(choose(fixture, TOKENS), 2);
    /* 300 tokens are two blocks, as much as replica 1 knows: equal, so the lower number. */
    assert_int_equal(choose(fixture, 300), 1);
    assert_int_equal(choose(fixture, 127), 0);
    /* A block counts only behind the same blocks. */
    fixture->tokens[5]++;
    assert_int_equal(choose(fixture, TOKENS), 0);
    fixture->tokens[5]--;
    replica_router_forget(fixture->router, 2);
    assert_int_equal(choose(fixture, TOKENS), 1);
}

static void test_not_beyond_the_margin(void **state) {
    struct fixture *fixture = *state;
    replica_router_learn(fixture->router, 2, fixture->tokens, TOKENS);
    fixture->loads[0].requests = 10;
    fixture->loads[1].requests = 8;
    fixture->loads[2].requests = 8 + MARGIN;
    assert_int_equal(choose(fixture, TOKENS), 2);
    fixture->loads[2].requests++;
    assert_int_equal(choose(fixture, TOKENS), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_least_busy_gets_what_is_new, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_longest_beginning_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_beyond_the_margin, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
