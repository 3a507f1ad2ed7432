/*
 * compare.h: shared by the files of compare. A pair is v[2]: a tensor of A, and
 * that of B.
 */
#ifndef VAE_COMPARE_H
#define VAE_COMPARE_H

#include "tool.h"

enum { COMPARE_ROWS = 1024 };

/* A tensor as rows x columns planes, so that tensors in different layouts are
 * read in the same order. */
typedef struct View {
    const VaeTensorFile *file;
    const VaeTensorInfo *tensor;
    const char *path; /* of the file */
    const uint8_t *data;
    VaeType type;
    int n_dims;
    int64_t dims[VAE_MAX_DIMS]; /* for comparing and for printed positions */
    int64_t rows, columns;
    uint64_t row_stride, column_stride; /* bytes */
    uint64_t plane;                     /* elements */
    VideoRange black_white;             /* range of frames; that of A */
    const VideoRange *range;            /* U8 is scaled to it; NULL: as it is */
    bool scaled; /* (value - mean) / std of the row, which is a channel */
    float mean[COMPARE_ROWS], std[COMPARE_ROWS];
} View;

/* views.c */

bool is_frames(const VaeTensorInfo *t);
uint64_t elements_of(const VaeTensorInfo *t);
bool same_shape(const View v[2]);
/* Views both as [C,T,h,w]. --batch-index is for files with a batch. */
VaeStatus view_latents(const Options *o, View v[2], VaeError *error);
/* Views both as latents if a layout is known, only one of them has a batch or
 * --batch-index is given, else as they are. Fails if there is no such clip. */
VaeStatus view_pair(const Options *o, View v[2], VaeError *error);
/* Reads n elements of a plane, from element `first` on. */
void read_view(float *out, const View *v, int64_t row, int64_t column,
               uint64_t first, size_t n);

/* scales.c */

/* Compares latents as normalized ones if only one side is raw. */
int compare_scaled(const Options *o, View v[2]);

/* numbers.c */

/* True if --peak gives the range of frames: 0..1 or -1..1. */
bool peak_is_range(const Options *o);
void print_names(const View v[2]);
/* Compares the numbers of two tensors of one shape; prints a line. */
int compare_numbers(const Options *o, const View v[2]);

#endif
