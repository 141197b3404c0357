/* Helpers that return false or NULL let a report be built as one condition and checked once. */
#include "tools/bench_report_parts.h"

#include <string.h>

#include "backends/cpu/cpu_features.h"
#include "tools/bench_machine.h"

enum { CPU_NAME_BYTES = 256 };

bool bench_set_real(struct json *object, const char *key, double value) {
    return json_set(object, key, json_new_real(value));
}

bool bench_set_integer(struct json *object, const char *key, int64_t value) {
    return json_set(object, key, json_new_integer(value));
}

bool bench_set_text(struct json *object, const char *key, const char *text) {
    return json_set(object, key, json_new_string(text, strlen(text)));
}

enum status bench_write_line(struct json *object, struct string_buffer *out) {
    CHECK_MEMORY(object);
    enum status status = json_write(object, out);
    json_free(&object);
    TRY(status);
    string_buffer_append_char(out, '\n');
    return string_buffer_check(out);
}

void bench_append_machine(unsigned thread_count, unsigned cpu_features, struct string_buffer *out) {
    char name[CPU_NAME_BYTES];
    bench_cpu_name(name, sizeof name);
    string_buffer_append_format(out, "machine  %s, %u thread%s, kernels up to %s\n", name, thread_count,
                                thread_count == 1 ? "" : "s", cpu_features_name(cpu_features));
}

struct json *bench_new_machine(unsigned thread_count, unsigned cpu_features) {
    char name[CPU_NAME_BYTES];
    bench_cpu_name(name, sizeof name);
    struct json *object = json_new_object();
    bool is_complete = object != NULL && bench_set_text(object, "cpu", name) &&
                       bench_set_integer(object, "threads", thread_count) &&
                       bench_set_text(object, "cpu_features", cpu_features_name(cpu_features));
    if (!is_complete) {
        json_free(&object);
    }
    return object;
}
