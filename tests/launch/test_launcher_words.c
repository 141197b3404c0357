/* How mpirun is called: settings that a slow or an open job would show too late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "launch/control_socket.h"
#include "launch/launcher.h"

/* All words with a blank after each. */
static const char *join(const struct launcher_options *options) {
    static char text[4096];
    struct launcher_words words;
    assert_int_equal(launcher_write_words(options, &words), STATUS_OK);
    text[0] = '\0';
    for (int i = 0; i < words.count; i++) {
        strcat(text, words.words[i]);
        strcat(text, " ");
    }
    launcher_words_free(&words);
    return text;
}

static void expect_words(const char *text, const char *const *words) {
    for (; *words != NULL; words++) {
        if (strstr(text, *words) == NULL) {
            fail_msg("\"%s\" is not in: %s", *words, text);
        }
    }
}

/* Nothing listens beyond this host, ranks yield and are not bound to cores. */
static void one_host(void **state) {
    (void)state;
    const char *text = join(&(struct launcher_options){.rank_count = 4});
    expect_words(text, (const char *const[]){"mpirun -n 4 --oversubscribe --bind-to none --enable-recovery",
                                             "--mca mpi_yield_when_idle 1", "--mca btl self,vader ",
                                             "--mca oob_tcp_if_include lo ", "-x SLUICE_JOB_CONTROL",
                                             "-x SLUICE_JOB_KEY", NULL});
    assert_null(strstr(text, "--host"));
}

static void several_hosts(void **state) {
    (void)state;
    struct launcher_options options = {.rank_count = 4, .hosts = "a,b", .network = "10.1.0.0/16"};
    struct launcher_words words;
    expect_words(join(&options), (const char *const[]){"--host a:2,b:2 ", "--mca btl self,vader,tcp ",
                                                       "--mca oob_tcp_if_include 10.1.0.0/16 ",
                                                       "--mca btl_tcp_if_include 10.1.0.0/16 ",
                                                       "--mca oob_tcp_keepalive_time 5 ", NULL});
    options.hosts = "a,b,c";
    assert_int_equal(launcher_write_words(&options, &words), STATUS_USAGE);
    expect_words(error_last()->message, (const char *const[]){"4 ranks", "3 hosts", NULL});
    options.hosts = "a,,b,c";
    assert_int_equal(launcher_write_words(&options, &words), STATUS_USAGE);
    expect_words(error_last()->message, (const char *const[]){"a,,b,c", NULL});
}

static void networks(void **state) {
    (void)state;
    char address[64];
    assert_int_equal(control_socket_own_address("127.0.0.0/8", address), STATUS_OK);
    assert_string_equal(address, "127.0.0.1");
    static const char *const bad[] = {"", "lo", "127.0.0.1", "127.0.0.0/0", "127.0.0.0/33", "300.0.0.0/8"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(control_socket_own_address(bad[i], address), STATUS_USAGE);
    }
    assert_int_equal(control_socket_own_address("203.0.113.0/24", address), STATUS_USAGE);
    expect_words(error_last()->message, (const char *const[]){"203.0.113.0/24", NULL});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host),
        cmocka_unit_test(several_hosts),
        cmocka_unit_test(networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
