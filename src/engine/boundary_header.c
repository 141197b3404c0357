/* Fields are compared by a table, so that a sentence can name the one that differs. */
#include "engine/boundary_header.h"

#include <stddef.h>
#include <string.h>

#include "lib/hash.h"
#include "parallel/rows.h"

struct field {
    const char *name;
    size_t offset;
    size_t bytes;
};

#define FIELD(name, member) \
    { name, offsetof(struct boundary_header, member), sizeof(((struct boundary_header *)NULL)->member) }

/* The step before its rows: what is late or too much differs in all that follows. */
static const struct field fields[] = {
    FIELD("magic number", magic),
    FIELD("version", version),
    FIELD("group's epoch", epoch),
    FIELD("step's number", step_number),
    FIELD("stage", stage),
    FIELD("tensor rank", tensor_rank),
    FIELD("number of rows in the step", step_rows),
    FIELD("number of rows", rows),
    FIELD("first row", first_row),
    FIELD("layout of rows", layout),
    FIELD("number of tensors", tensor_count),
    FIELD("size in bytes", payload_bytes),
    FIELD("list of tensors", list),
    FIELD("element type", dtype),
    FIELD("set of flags", flags),
};

static uint64_t value_of(const struct boundary_header *header, const struct field *field) {
    const char *at = (const char *)header + field->offset;
    uint16_t two = 0;
    uint32_t four = 0;
    uint64_t eight = 0;
    switch (field->bytes) {
    case sizeof two:
        memcpy(&two, at, sizeof two);
        return two;
    case sizeof four:
        memcpy(&four, at, sizeof four);
        return four;
    default:
        memcpy(&eight, at, sizeof eight);
        return eight;
    }
}

/* Names and widths, chained. */
static uint32_t list_of(const struct boundary *boundary) {
    uint64_t sum = 0;
    for (int i = 0; i < boundary->count; i++) {
        int64_t elements = tensor_row_elements(&boundary->tensors[i]);
        sum = hash_xxh3_128(boundary->names[i], strlen(boundary->names[i]), sum).low;
        sum = hash_xxh3_128(&elements, sizeof elements, sum).low;
    }
    return (uint32_t)sum;
}

struct boundary_header boundary_header_of(const struct boundary *boundary, int tensor_rank,
                                          int tensor_count) {
    int64_t rows = boundary->tensors[0].shape[0];
    const struct row_shares *shares = boundary->shares;
    struct boundary_header header = {
        .magic = BOUNDARY_MAGIC,
        .version = BOUNDARY_VERSION,
        .flags = (uint16_t)(rows == 0 ? BOUNDARY_FLAGS | BOUNDARY_IS_HEADER_ONLY : BOUNDARY_FLAGS),
        .tensor_rank = (uint16_t)tensor_rank,
        .step_rows = (uint32_t)(shares == NULL ? rows : shares->first[tensor_count]),
        .rows = (uint32_t)rows,
        .first_row = (uint32_t)(shares == NULL ? 0 : shares->first[tensor_rank]),
        .layout = (uint16_t)boundary->layout,
        .tensor_count = (uint16_t)boundary->count,
        .list = list_of(boundary),
        .dtype = (uint32_t)boundary->tensors[0].dtype};
    for (int i = 0; i < boundary->count; i++) {
        header.payload_bytes += tensor_bytes(&boundary->tensors[i]);
    }
    return header;
}

enum status boundary_header_check(const struct boundary_header *came,
                                  const struct boundary_header *expected) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        uint64_t value = value_of(came, &fields[i]);
        uint64_t wanted = value_of(expected, &fields[i]);
        CHECK(
            value == wanted, STATUS_INTERNAL,
            "rows for step %llu came from stage %d, and their %s is %llu, expected %llu: a message was lost, "
            "doubled or changed on its way, or stages run different plans",
            (unsigned long long)expected->step_number, (int)expected->stage, fields[i].name,
            (unsigned long long)value, (unsigned long long)wanted);
    }
    return STATUS_OK;
}
