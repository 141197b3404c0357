/* openapi.json: what all paths take and give, embedded at build time. */
#ifndef SLUICE_SERVER_OPENAPI_H
#define SLUICE_SERVER_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_json[];
extern const size_t openapi_json_length;

#endif
