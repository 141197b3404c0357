/* The page. */
#include "server/front_internal.h"
#include "server/page.h"

void front_handle_page(struct front *front, const struct api_request *request, struct reply *reply) {
    (void)front;
    (void)request;
    reply->kind->header(reply, (struct reply_header){"Content-Security-Policy", page_security_policy});
    reply->kind->header(reply, (struct reply_header){"X-Content-Type-Options", "nosniff"});
    reply->kind->header(reply, (struct reply_header){"Referrer-Policy", "no-referrer"});
    reply->kind->header(reply,
                        (struct reply_header){"Cache-Control", "no-cache"}); /* a newer server's page */
    reply->kind->whole(reply, 200, "text/html; charset=utf-8", (const char *)page_html, page_html_length);
}
