/* A cut is worked out in rows or columns of numbers; only then it becomes one of stored elements. */
#include "weights/tensor_part.h"

#include <string.h>

#include "base/string_buffer.h"
#include "parallel/expert_balance.h"
#include "tensor/leaves.h"
#include "tensor/weight.h"

enum { AXIS_NONE = -1, AXIS_ROWS = 0, AXIS_COLUMNS = 1, FP4_CODES_PER_BYTE = 2 };

/* Largest tensor parallel size that a message proposes. */
enum { PROPOSED_PARTS_MAX = 64 };

/* How the ranks of a stage share the inside of a tensor. */
struct cut {
    int axis;
    int index;
    int parts;
};

static int64_t divide_up(int64_t value, int64_t by) {
    return (value + by - 1) / by;
}

/* The numbers along an axis; FP4 has two a byte. */
static int64_t axis_length(const struct tensor_spec *spec, int axis) {
    bool is_packed = spec->role == TENSOR_FP4_MATRIX && axis == AXIS_COLUMNS;
    return is_packed ? FP4_CODES_PER_BYTE * spec->shape[axis] : spec->shape[axis];
}

/* Numbers along an axis whose scale, or the scale of what they are multiplied with, is one. */
static int64_t axis_block(const struct tensor_spec *spec, int axis) {
    bool is_cut_at_blocks =
        spec->role == TENSOR_FP8_MATRIX || (spec->role == TENSOR_FP4_MATRIX && axis == AXIS_COLUMNS);
    return is_cut_at_blocks ? WEIGHT_FP8_BLOCK : 1;
}

static struct cut cut_of(const struct tensor_spec *spec, const struct shard_layout *layout) {
    enum placement placement = spec->placement;
    if (placement == PLACEMENT_SPLIT_EXPERTS && !layout->mesh.has_expert_parallelism) {
        placement = spec->inner_placement;
    }
    bool is_whole = placement == PLACEMENT_REPLICATED || placement == PLACEMENT_SPLIT_EXPERTS ||
                    (spec->is_shared_expert && layout->has_whole_shared_experts);
    bool is_looked_up = placement == PLACEMENT_SPLIT_VOCABULARY && spec->stage != STAGE_LAST;
    struct cut cut = {.axis = AXIS_NONE, .parts = 1};
    if (is_whole || is_looked_up) {
        return cut;
    }
    cut.axis = placement == PLACEMENT_SPLIT_COLUMNS ? AXIS_COLUMNS : AXIS_ROWS;
    cut.index = layout->place.tensor;
    cut.parts = layout->mesh.tensor;
    return cut;
}

static struct shard_range cut_range(const struct tensor_spec *spec, const struct cut *cut) {
    int64_t length = axis_length(spec, cut->axis);
    if (spec->placement == PLACEMENT_SPLIT_VOCABULARY) {
        return shard_cut_vocabulary(length, cut->index, cut->parts);
    }
    return shard_cut(length, spec->placement_unit, cut->index, cut->parts);
}

static bool is_here(const struct tensor_spec *spec, const struct shard_layout *layout) {
    if (!shard_is_on_stage(layout, spec->stage, spec->layer)) {
        return false;
    }
    if (spec->placement != PLACEMENT_SPLIT_EXPERTS || !layout->mesh.has_expert_parallelism) {
        return true;
    }
    if (layout->has_movable_experts) {
        return true;
    }
    struct shard_range own = shard_cut_experts(layout->expert_count, layout->place.expert,
                                               mesh_group_size(&layout->mesh, MESH_GROUP_EXPERT));
    return spec->expert >= own.first && spec->expert < own.first + own.count;
}

bool tensor_is_held(const struct tensor_spec *spec, const struct shard_layout *layout) {
    if (layout == NULL || !layout->has_movable_experts || spec->placement != PLACEMENT_SPLIT_EXPERTS) {
        return true;
    }
    const struct expert_balance_shape shape = {.expert_count = layout->expert_count,
                                               .rank_count =
                                                   mesh_group_size(&layout->mesh, MESH_GROUP_EXPERT),
                                               .place_count = layout->expert_count + layout->expert_copies};
    return expert_balance_starts_with(&shape, layout->place.expert, spec->expert);
}

static struct tensor_part whole_part(const struct tensor_spec *spec) {
    struct tensor_part part = {.is_here = true, .count = 1};
    memcpy(part.shape, spec->shape, (size_t)spec->rank * sizeof *part.shape);
    return part;
}

static struct tensor_part matrix_part(const struct tensor_spec *spec, const struct shard_layout *layout) {
    if (!is_here(spec, layout)) {
        return (struct tensor_part){.count = 1};
    }
    struct tensor_part part = whole_part(spec);
    struct cut cut = cut_of(spec, layout);
    if (cut.axis == AXIS_NONE) {
        return part;
    }
    struct shard_range range = cut_range(spec, &cut);
    int64_t numbers_per_element =
        axis_length(spec, cut.axis) == spec->shape[cut.axis] ? 1 : FP4_CODES_PER_BYTE;
    part.index = cut.index;
    part.count = cut.parts;
    part.shape[cut.axis] = range.count / numbers_per_element;
    *(cut.axis == AXIS_ROWS ? &part.first_row : &part.first_column) = range.first / numbers_per_element;
    return part;
}

/* The scales of a matrix' part: those of its blocks, or of its groups of inputs. */
static struct tensor_part scale_part(const struct tensor_spec *matrix, const struct tensor_part *of) {
    struct tensor_part part = *of;
    if (matrix->role == TENSOR_FP4_MATRIX) {
        part.shape[AXIS_COLUMNS] = FP4_CODES_PER_BYTE * of->shape[AXIS_COLUMNS] / WEIGHT_FP4_GROUP;
        part.first_column = FP4_CODES_PER_BYTE * of->first_column / WEIGHT_FP4_GROUP;
        return part;
    }
    part.shape[AXIS_ROWS] = divide_up(of->shape[AXIS_ROWS], WEIGHT_FP8_BLOCK);
    part.shape[AXIS_COLUMNS] = divide_up(of->shape[AXIS_COLUMNS], WEIGHT_FP8_BLOCK);
    part.first_row = of->first_row / WEIGHT_FP8_BLOCK;
    part.first_column = of->first_column / WEIGHT_FP8_BLOCK;
    return part;
}

struct tensor_part tensor_part_of(const struct tensor_spec_list *list, size_t index,
                                  const struct shard_layout *layout) {
    const struct tensor_spec *spec = &list->specs[index];
    if (layout == NULL) {
        return whole_part(spec);
    }
    if (spec->role != TENSOR_BLOCK_SCALE) {
        return matrix_part(spec, layout);
    }
    const struct tensor_spec *matrix = &list->specs[spec->partner];
    struct tensor_part part = matrix_part(matrix, layout);
    return scale_part(matrix, &part);
}

/* A tensor that cannot be cut as a layout says, and why. */
struct misfit {
    const struct tensor_spec *spec; /* NULL: none */
    enum { MISFIT_UNITS, MISFIT_BLOCKS, MISFIT_LEAVES } kind;
    struct cut cut;
    int64_t units;
    int64_t torn_at; /* MISFIT_BLOCKS */
};

/* First place between parts that lies inside a block; -1: none. */
static int64_t find_torn_block(const struct tensor_spec *spec, struct cut cut) {
    int64_t block = axis_block(spec, cut.axis);
    for (cut.index = 0; cut.index < cut.parts; cut.index++) {
        struct shard_range range = cut_range(spec, &cut);
        if (range.count > 0 && range.first % block != 0) {
            return range.first;
        }
    }
    return -1;
}

static bool fits(const struct tensor_spec *spec, const struct shard_layout *layout, struct misfit *out) {
    struct cut cut = cut_of(spec, layout);
    if (cut.parts == 1 || !spec->is_used || spec->role == TENSOR_BLOCK_SCALE) {
        return true;
    }
    *out = (struct misfit){.spec = spec, .cut = cut};
    out->units = axis_length(spec, cut.axis) / spec->placement_unit;
    if (spec->even_units != NULL && out->units % cut.parts != 0) {
        out->kind = MISFIT_UNITS;
        return false;
    }
    out->kind = MISFIT_BLOCKS;
    out->torn_at = find_torn_block(spec, cut);
    if (out->torn_at >= 0) {
        return false;
    }
    out->kind = MISFIT_LEAVES;
    return cut.axis != AXIS_COLUMNS || spec->leaf_count % cut.parts == 0;
}

static bool all_fit(const struct tensor_spec_list *list, const struct shard_layout *layout,
                    struct misfit *out) {
    for (size_t i = 0; i < list->count; i++) {
        if (!fits(&list->specs[i], layout, out)) {
            return false;
        }
    }
    return true;
}

/* "1, 2, 4": the tensor parallel sizes that all tensors can be cut for. */
static void append_sizes_that_fit(const struct tensor_spec_list *list, const struct shard_layout *layout,
                                  struct string_buffer *text) {
    struct shard_layout other = *layout;
    struct misfit misfit;
    for (int parts = 1; parts <= PROPOSED_PARTS_MAX; parts++) {
        other.mesh.tensor = parts;
        if (all_fit(list, &other, &misfit)) {
            string_buffer_append_format(text, "%s%d", parts == 1 ? "" : ", ", parts);
        }
    }
}

static void describe_misfit(const struct misfit *misfit, struct string_buffer *text) {
    const struct tensor_spec *spec = misfit->spec;
    int parts = misfit->cut.parts;
    const char *axis = misfit->cut.axis == AXIS_ROWS ? "row" : "column";
    string_buffer_append_format(text, "tensor parallel size %d ", parts);
    switch (misfit->kind) {
    case MISFIT_UNITS:
        string_buffer_append_format(text, "cannot deal out %lld %s evenly", (long long)misfit->units,
                                    spec->even_units);
        break;
    case MISFIT_BLOCKS:
        string_buffer_append_format(
            text, "would cut %s at %s %lld, inside one of its %lld blocks of %d", spec->name, axis,
            (long long)misfit->torn_at,
            (long long)divide_up(axis_length(spec, misfit->cut.axis), WEIGHT_FP8_BLOCK), WEIGHT_FP8_BLOCK);
        if (spec->even_units != NULL) {
            string_buffer_append_format(text, " (%lld of %lld %s per rank)", (long long)misfit->units / parts,
                                        (long long)misfit->units, spec->even_units);
        }
        break;
    case MISFIT_LEAVES:
        string_buffer_append_format(text, "would tear the %d leaves that %s sums in", spec->leaf_count,
                                    spec->name);
        break;
    }
}

enum status tensor_parts_check(const struct tensor_spec_list *list, const struct shard_layout *layout) {
    struct misfit misfit;
    struct string_buffer text = {0};
    enum status status = STATUS_OK;
    int expert_ranks = mesh_group_size(&layout->mesh, MESH_GROUP_EXPERT);
    CHECK(!layout->mesh.has_expert_parallelism ||
              layout->expert_count + layout->expert_copies >= expert_ranks,
          STATUS_UNSUPPORTED,
          "expert parallelism over %d ranks (data %d x tensor %d) needs an expert for each, but a layer has "
          "%d and %d copies (redundant experts): use fewer ranks, more copies (num_redundant_experts of "
          "--eplb-config), or leave expert parallelism off",
          expert_ranks, layout->mesh.data, layout->mesh.tensor, layout->expert_count, layout->expert_copies);
    if (!all_fit(list, layout, &misfit)) {
        describe_misfit(&misfit, &text);
        string_buffer_append_text(&text, ": use ");
        append_sizes_that_fit(list, layout, &text);
        TRY_GOTO(string_buffer_check(&text));
        CHECK_GOTO(false, STATUS_UNSUPPORTED, "%s", string_buffer_text(&text));
    }
fail:
    string_buffer_deinit(&text);
    return status;
}
