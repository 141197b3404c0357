/* The three classes of comparison. */
#include "kernelcheck/tolerance.h"

#include <math.h>
#include <stdio.h>

#include "tensor/number_format.h"

enum { BF16_MANTISSA_BITS = 7, F32_MANTISSA_BITS = 23, FEW_COLUMNS = 8, MEAN_ELEMENTS = 256 };

/* Squared error below which nothing is wrong: (1e-30)^2, far below what an activation can hold. */
static const double ENERGY_FLOOR = 1e-60;

static bool is_same(float got, float wanted) {
    return got == wanted || (isnan(got) && isnan(wanted));
}

static void note(struct difference *worst, int64_t row, int64_t element, const struct comparison *rows,
                 double measure) {
    if (worst->row >= 0 && !(measure > worst->measure)) {
        return;
    }
    int64_t at = row * rows->columns + element;
    *worst = (struct difference){row, element, (double)rows->got[at], (double)rows->wanted[at], measure};
}

static bool holds_exactly(bool by_value, const struct comparison *rows, struct difference *worst) {
    for (int64_t row = 0; row < rows->rows; row++) {
        for (int64_t i = 0; rows->is_present[row] && i < rows->columns; i++) {
            const float *got = &rows->got[row * rows->columns + i];
            const float *wanted = &rows->wanted[row * rows->columns + i];
            if (by_value ? !is_same(*got, *wanted) : f32_bits(*got) != f32_bits(*wanted)) {
                note(worst, row, i, rows, INFINITY);
                return false;
            }
        }
    }
    return true;
}

/* The unit in the last place of a value of that size; values near underflow count as 2^-96. */
static double unit_of(double magnitude, enum dtype dtype) {
    enum { SMALLEST_EXPONENT = -96 };
    int exponent;
    frexp(magnitude, &exponent);
    exponent = magnitude == 0.0 || exponent < SMALLEST_EXPONENT ? SMALLEST_EXPONENT : exponent;
    return ldexp(1.0, exponent - 1 - (dtype == DTYPE_BF16 ? BF16_MANTISSA_BITS : F32_MANTISSA_BITS));
}

static bool holds_by_unit(const struct tolerance *tolerance, const struct comparison *rows,
                          struct difference *worst) {
    for (int64_t row = 0; row < rows->rows; row++) {
        if (!rows->is_present[row]) {
            continue;
        }
        const float *got = rows->got + row * rows->columns;
        const float *wanted = rows->wanted + row * rows->columns;
        double largest = 0.0;
        for (int64_t i = 0; i < rows->columns; i++) {
            largest = fmax(largest, isfinite(wanted[i]) ? fabs((double)wanted[i]) : 0.0);
        }
        for (int64_t i = 0; i < rows->columns; i++) {
            if (!is_same(got[i], wanted[i])) {
                double magnitude = fmax(fabs((double)wanted[i]), largest * tolerance->floor);
                double distance = fabs((double)got[i] - (double)wanted[i]) / unit_of(magnitude, rows->dtype);
                note(worst, row, i, rows, isnan(distance) ? INFINITY : distance);
            }
        }
    }
    return !(worst->measure > tolerance->limit);
}

static double row_energy(const struct comparison *rows, int64_t row) {
    double sum = 0.0;
    for (int64_t i = 0; i < rows->columns; i++) {
        double value = rows->wanted[row * rows->columns + i];
        sum += isfinite(value) ? value * value : 0.0;
    }
    return sum;
}

/* A row of few elements can cancel by chance: it is measured against the mean row if that is larger. */
static double energy_floor(const struct comparison *rows) {
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t row = 0; row < rows->rows && rows->columns < FEW_COLUMNS; row++) {
        sum += rows->is_present[row] ? row_energy(rows, row) : 0.0;
        count += rows->is_present[row];
    }
    return fmax(count > 0 ? 0.01 * sum / (double)count : 0.0, ENERGY_FLOOR * (double)rows->columns);
}

/* The row's error over its energy; notes its worst element. */
static double row_error(const struct comparison *rows, int64_t row, double floor, int64_t *element) {
    double error = 0.0;
    double largest = -1.0;
    for (int64_t i = 0; i < rows->columns; i++) {
        int64_t at = row * rows->columns + i;
        double difference =
            is_same(rows->got[at], rows->wanted[at]) ? 0.0 : (double)rows->got[at] - (double)rows->wanted[at];
        difference = isnan(difference) ? INFINITY : fabs(difference);
        error += difference * difference;
        if (difference > largest) {
            largest = difference;
            *element = i;
        }
    }
    return error / fmax(row_energy(rows, row), floor);
}

static bool holds_by_energy(const struct tolerance *tolerance, const struct comparison *rows,
                            struct difference *worst) {
    double floor = energy_floor(rows);
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t row = 0; row < rows->rows; row++) {
        int64_t element = 0;
        if (rows->is_present[row] && rows->columns > 0) {
            double error = row_error(rows, row, floor, &element);
            sum += error;
            count++;
            note(worst, row, element, rows, error);
        }
    }
    bool is_near = !(worst->measure > tolerance->floor);
    if (count * rows->columns >= MEAN_ELEMENTS) {
        is_near = is_near && sum / (double)count <= tolerance->limit;
    }
    return is_near;
}

bool tolerance_holds(const struct tolerance *tolerance, bool by_value, const struct comparison *comparison,
                     struct difference *worst) {
    *worst = (struct difference){.row = -1};
    if (by_value || tolerance->kind == TOLERANCE_EXACT) {
        return holds_exactly(by_value, comparison, worst);
    }
    return tolerance->kind == TOLERANCE_ULP ? holds_by_unit(tolerance, comparison, worst)
                                            : holds_by_energy(tolerance, comparison, worst);
}

void tolerance_describe(const struct tolerance *tolerance, char *text, size_t bytes) {
    switch (tolerance->kind) {
    case TOLERANCE_EXACT:
        snprintf(text, bytes, "exact");
        break;
    case TOLERANCE_ULP:
        snprintf(text, bytes, "%g ULP", tolerance->limit);
        break;
    case TOLERANCE_NMSE:
        snprintf(text, bytes, "NMSE %g", tolerance->limit);
        break;
    }
}
