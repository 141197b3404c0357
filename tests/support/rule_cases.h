/*
 * Rules of every kind for requests on mini-v4, and what their answers must be, looked at from the text.
 * Asserts.
 */
#ifndef SLUICE_TESTS_SUPPORT_RULE_CASES_H
#define SLUICE_TESTS_SUPPORT_RULE_CASES_H

#include "server/service.h"
#include "support/request_fixture.h"

enum { RULE_CASES = 13 };

/* For errors. */
const char *rule_case_name(int index);

/* The rules; what they point to stays. */
struct service_rules rule_case_rules(int index);

/* Fails unless the answer keeps the rules. */
void rule_case_expect_kept(int index, const struct answer *answer);

#endif
