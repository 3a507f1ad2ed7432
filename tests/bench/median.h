/*
 * median.h: the median of measured values.
 */
#ifndef MEDIAN_H
#define MEDIAN_H

#include <stdlib.h>

static inline int
median_order(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Sorts the n >= 1 values and returns their median. */
static inline double
median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, median_order);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

#endif
