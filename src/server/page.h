/*
 * The page at `/`: chat and a live view, one file of HTML that asks for nothing but this server's paths.
 *
 * Made at build time of src/server/page/ by cmake/embed_page.cmake.
 */
#ifndef SLUICE_SERVER_PAGE_H
#define SLUICE_SERVER_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[];
extern const size_t page_html_length;

/* The value of Content-Security-Policy that it must be sent with. */
extern const char page_security_policy[];

#endif
