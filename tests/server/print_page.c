/* The page for test_page.py: a line with its security policy, then its bytes. */
#include <stdio.h>

#include "server/page.h"

int main(void) {
    puts(page_security_policy);
    return fwrite(page_html, 1, page_html_length, stdout) == page_html_length && fflush(stdout) == 0 ? 0 : 1;
}
