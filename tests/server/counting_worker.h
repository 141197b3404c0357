/* What a text that begins with one of these makes of a counting worker. */
#ifndef SLUICE_TESTS_SERVER_COUNTING_WORKER_H
#define SLUICE_TESTS_SERVER_COUNTING_WORKER_H

enum {
    COUNTING_DIES = 1001,  /* at every position that ends in 9, once the tokens before it have left */
    COUNTING_HANGS = 1002, /* its first step never ends */
    COUNTING_IDLES = 1003, /* no token ever comes */
    COUNTING_LOSES = 1004, /* at every position that ends in 9 a rank is lost, which ends all with an error */
    COUNTING_IS_LATE =
        1005, /* a long time passes before its first token, as with a form that is slow to compile */
    COUNTING_STOPS = 1006, /* there a rank is lost, and nobody can say so to any request */
};

#endif
