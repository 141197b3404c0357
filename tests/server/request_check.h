/* One request of any kind over a scripted service, and what must hold of every reply. Functions assert. */
#ifndef SLUICE_TESTS_SERVER_REQUEST_CHECK_H
#define SLUICE_TESTS_SERVER_REQUEST_CHECK_H

#include "server/api_fixture.h"

/* Those that take a body. */
extern const char *const request_check_paths[];
extern const size_t request_check_path_count;

/*
 * Posts the body. The reply must be whole, JSON throughout, and of status 200, 400, 404 or 413; a refusal has
 * a sentence, in the shape of the path's API, and nothing reaches the service. Returns the status.
 */
int request_check(struct api_fixture *fixture, const char *path, const char *body, size_t length);

#endif
