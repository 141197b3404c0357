/* No credentials are allowed for: clients carry keys in headers, and never cookies. */
#include "server/cross_origin.h"

#include <string.h>

/* The origin to allow; NULL if there is none. */
static const char *allowed_origin(const struct cross_origin *rules, const struct http_exchange *exchange) {
    const char *origin = http_exchange_header(exchange, "Origin");
    for (size_t i = 0; origin != NULL && i < rules->origin_count; i++) {
        if (strcmp(rules->origins[i], "*") == 0) {
            return "*";
        }
        if (strcmp(rules->origins[i], origin) == 0) {
            return origin;
        }
    }
    return NULL;
}

void cross_origin_add_headers(const struct cross_origin *rules, struct http_exchange *exchange) {
    const char *origin = allowed_origin(rules, exchange);
    if (rules->origin_count > 0) {
        http_exchange_add_header(exchange, "Vary", "Origin");
    }
    if (origin != NULL) {
        http_exchange_add_header(exchange, "Access-Control-Allow-Origin", origin);
        http_exchange_add_header(exchange, "Access-Control-Expose-Headers", "x-request-id, retry-after");
    }
}

bool cross_origin_is_preflight(const struct cross_origin *rules, const struct http_exchange *exchange) {
    return strcmp(http_exchange_method(exchange), "OPTIONS") == 0 &&
           http_exchange_header(exchange, "Access-Control-Request-Method") != NULL &&
           allowed_origin(rules, exchange) != NULL;
}

void cross_origin_add_preflight(struct http_exchange *exchange) {
    const char *wanted = http_exchange_header(exchange, "Access-Control-Request-Headers");
    http_exchange_add_header(exchange, "Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS");
    if (wanted != NULL && *wanted != '\0') {
        http_exchange_add_header(exchange, "Access-Control-Allow-Headers", wanted);
    }
    http_exchange_add_header(exchange, "Access-Control-Max-Age", "600");
}
