/*
 * One case of one operation: its operands in device memory, its arguments, its outputs.
 *
 * Every operand is an allocation of its own with canaries around the data, built as an image in host memory
 * and copied to the device before each run. After a run everything is copied back: whatever lies outside the
 * rows that the operation may write must be as it was. On the guard device operands end where the memory
 * ends, so that reading past them faults.
 *
 * A case belongs to one thread; the device outlives it.
 */
#ifndef SLUICE_KERNELCHECK_KERNEL_CASE_H
#define SLUICE_KERNELCHECK_KERNEL_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernelcheck/case_args.h"
#include "kernelcheck/case_plan.h"
#include "kernelcheck/tolerance.h"
#include "ops/numerics.h"

/* What the numbers look like. */
enum case_style {
    CASE_NORMAL,
    CASE_INTEGERS, /* small whole numbers: every sum of products is exact in fp32, in any order */
    CASE_EXTREME,  /* zeros of both signs, subnormals, rows of very different size, tiny and odd scales */
    CASE_ZERO,     /* all inputs zero */
    CASE_LARGE,    /* block scales of 2^127, with codes and inputs that keep the result finite */
    CASE_STYLE_COUNT
};

#define CASE_STYLE_BIT(style) (1u << (unsigned)(style))

/* Sizes and kinds of a case; each generator says which ones it uses. */
struct case_shape {
    const char *label; /* of a benchmark: "q_b"; NULL otherwise */
    int64_t width;     /* channels of a row, columns of a weight */
    int64_t outer;     /* heads, streams, copies, groups */
    int64_t inner;     /* output channels, rank, rows of a table */
    int64_t picks;
    int64_t experts;
    int64_t limit; /* entries that a selection holds; 0: no selection */
    int64_t window;
    int64_t ratio;
    int64_t page_rows; /* of a paged store: entries of a page */
    int64_t plain;     /* trailing channels that are never quantised; rotary channels */
    enum weight_format format;
    enum dtype weight_dtype;
    enum dtype scale_dtype;
    bool is_variant;  /* what it varies, the generator says */
    bool is_in_place; /* the output takes an input's memory, where the contract allows it */
    bool is_f32;      /* linear: the input is F32 whatever the numerics */
};

struct case_operand {
    unsigned char *image;  /* host: canary, data, canary */
    unsigned char *result; /* the same after the last run; NULL before */
    void *memory;          /* device */
    size_t offset;         /* of the data in all three */
    size_t bytes;          /* of the data */
    size_t total;
    bool is_current; /* the device holds the image */
};

/* An output: the rows of one operand that the operation writes. */
struct case_output {
    size_t operand;
    bool is_rows;             /* elements are state rows of `layout`, not of `dtype` */
    enum dtype dtype;         /* F32, BF16, I32 or U8 (raw bytes) */
    struct row_layout layout; /* of is_rows */
    size_t row_bytes;
    int64_t *offsets; /* [plan rows]: where in the operand, -1 where the row writes nothing */
    const struct tolerance *tolerance;
};

enum { CASE_OUTPUTS_MAX = 3, CASE_WEIGHTS_MAX = 4 };

struct case_family;

/* Where cases live. */
struct case_place {
    struct device *device;
    struct stream *stream;
};

struct kernel_case {
    const struct case_family *family;
    const struct case_shape *shape;
    struct case_plan plan;
    enum numerics numerics;
    enum case_style style;
    uint64_t seed;
    struct case_place place;

    struct arena arena; /* what the arguments point to */
    union case_args args;
    struct batch_view batch;
    struct case_operand *operands;
    size_t operand_count;
    size_t operand_capacity;
    struct case_output outputs[CASE_OUTPUTS_MAX];
    int output_count;
    size_t used_bytes; /* benchmark: bytes a launch has to touch; 0: all operands */
    double operation_count;
};

/* How the cases of one operation are made. */
struct case_family {
    /* Adds operands and outputs and fills the arguments. */
    enum status (*build)(struct kernel_case *kernel_case);
    const struct case_shape *shapes;
    int shape_count;
    unsigned styles;
    bool is_stateful;       /* plans with long segments */
    bool is_exact_by_value; /* of CASE_INTEGERS: any order of summation gives the same value */
    const struct case_shape *bench_shapes;
    int bench_shape_count;
};

/* Names of styles, for reports. */
const char *case_style_name(enum case_style style);

/* What the caller chose is in the arguments; the rest is built. Owned: kernel_case_deinit, also on failure.
 */
enum status kernel_case_init(struct kernel_case *out, struct case_place place,
                             const struct case_family *family, enum op_id op, const struct case_shape *shape,
                             enum numerics numerics, enum case_style style, uint64_t seed,
                             const struct case_plan *plan);
void kernel_case_deinit(struct kernel_case *kernel_case);

/* "width 300, 5 rows, extreme": writes to text. */
void kernel_case_describe(const struct kernel_case *kernel_case, char *text, size_t bytes);

/* For generators: `bytes` of memory. Weights are put at odd addresses, as in files. Index of the operand. */
enum case_alignment { CASE_ALIGNED, CASE_ODD };
enum status kernel_case_add_operand(struct kernel_case *kernel_case, size_t bytes,
                                    enum case_alignment alignment, size_t *index);

/* The operand's bytes in its image, and its device address. */
void *case_operand_image(const struct kernel_case *kernel_case, size_t index);
void *case_operand_device(const struct kernel_case *kernel_case, size_t index);

/* For generators: rows of `row_bytes` one after the other, one per row of the plan. */
enum status kernel_case_add_output(struct kernel_case *kernel_case, size_t operand, enum dtype dtype,
                                   size_t row_bytes, const struct tolerance *tolerance);

/* The same for rows in a state store; the caller fills `offsets`, which start as -1. */
enum status kernel_case_add_state_output(struct kernel_case *kernel_case, size_t operand,
                                         const struct row_layout *layout, const struct tolerance *tolerance,
                                         int64_t **offsets);

/* Copies to the device the images of operands that a run has changed, and results back. */
enum status kernel_case_upload(struct kernel_case *kernel_case);
enum status kernel_case_download(struct kernel_case *kernel_case);

/* Bytes of one row of the plan in the packing of kernel_case_pack. */
size_t kernel_case_packed_bytes(const struct kernel_case *kernel_case);

/* The outputs of the last run: per plan row and output one byte (is written), then the row's bytes. */
void kernel_case_pack(const struct kernel_case *kernel_case, unsigned char *packed);

/* The first changed byte that the operation may not write: false if there is none. Uses up the results. */
bool kernel_case_find_damage(const struct kernel_case *kernel_case, size_t *operand, int64_t *offset);

#endif
