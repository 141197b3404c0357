/* Numbers are compared as text: 1,000.50 and $1000.5 are both "1000.5". */
#include <math.h>
#include <string.h>

#include "tools/eval_gsm8k.h"

static bool is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

/* Whether a comma at `at` separates thousands: three digits and no fourth behind it. */
static bool is_separator(const char *at, const char *end) {
    return end - at >= 4 && at[0] == ',' && is_digit(at[1]) && is_digit(at[2]) && is_digit(at[3]) &&
           (end - at == 4 || !is_digit(at[4]));
}

/* Drops needless zeros, and the sign of zero. */
static void trim(char *number) {
    char *digits = number + (number[0] == '-' ? 1 : 0);
    size_t zeros = strspn(digits, "0");
    zeros -= zeros > 0 && !is_digit(digits[zeros]) ? 1 : 0;
    memmove(digits, digits + zeros, strlen(digits + zeros) + 1);
    if (strchr(digits, '.') != NULL) {
        for (size_t length = strlen(digits); length > 0 && digits[length - 1] == '0'; length--) {
            digits[length - 1] = '\0';
        }
        size_t length = strlen(digits);
        digits[length - 1] = digits[length - 1] == '.' ? '\0' : digits[length - 1];
    }
    if (strcmp(number, "-0") == 0) {
        strcpy(number, "0");
    }
}

/* Reads the number that begins at a digit (or at a point before one), and returns where it ends. */
static const char *read_number(const char *at, const char *end, bool is_negative,
                               char out[GSM8K_NUMBER_BYTES]) {
    size_t length = 0;
    bool has_point = false;
    if (is_negative) {
        out[length++] = '-';
    }
    if (*at == '.') {
        out[length++] = '0';
    }
    for (; at < end; at++) {
        bool is_point = *at == '.' && !has_point && end - at > 1 && is_digit(at[1]);
        if (!has_point && is_separator(at, end)) {
            continue;
        }
        if (!is_digit(*at) && !is_point) {
            break;
        }
        has_point = has_point || is_point;
        if (length + 1 < GSM8K_NUMBER_BYTES) {
            out[length++] = *at;
        }
    }
    out[length] = '\0';
    trim(out);
    return at;
}

/* The first or last number of a text. A minus counts where no number or word stands before it. */
static bool find_number(const char *text, const char *end, bool wants_last, char out[GSM8K_NUMBER_BYTES]) {
    bool is_found = false;
    for (const char *at = text; at < end && !(is_found && !wants_last);) {
        bool starts = is_digit(*at) || (*at == '.' && end - at > 1 && is_digit(at[1]));
        if (!starts) {
            at++;
            continue;
        }
        const char *sign = at > text && at[-1] == '$' ? at - 2 : at - 1;
        bool is_negative =
            sign >= text && *sign == '-' && (sign == text || strchr(" \t\n$*({=:#", sign[-1]) != NULL);
        at = read_number(at, end, is_negative, out);
        is_found = true;
    }
    return is_found;
}

/* Behind the last occurrence of the mark; NULL if there is none. */
static const char *find_last(const char *text, const char *end, const char *mark) {
    size_t length = strlen(mark);
    const char *found = NULL;
    for (const char *at = text; (size_t)(end - at) >= length; at++) {
        found = memcmp(at, mark, length) == 0 ? at + length : found;
    }
    return found;
}

bool eval_gsm8k_find_number(const char *text, size_t length, char out[GSM8K_NUMBER_BYTES], bool *is_marked) {
    const char *end = text + length;
    const char *marked = find_last(text, end, "####");
    const char *boxed = find_last(text, end, "\\boxed{");
    out[0] = '\0';
    *is_marked = marked != NULL && find_number(marked, end, false, out);
    return *is_marked || (boxed != NULL && find_number(boxed, end, false, out)) ||
           find_number(text, end, true, out);
}

void eval_wilson_interval(int64_t hits, int64_t count, double *low, double *high) {
    const double z = 1.959963984540054;
    if (count == 0) {
        *low = 0.0;
        *high = 1.0;
        return;
    }
    double n = (double)count;
    double share = (double)hits / n;
    double middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    double reach = z / (1.0 + z * z / n) * sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n));
    *low = fmax(0.0, middle - reach);
    *high = fmin(1.0, middle + reach);
}
