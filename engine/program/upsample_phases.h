/*
 * upsample_phases.h: a 3x3 convolution after a nearest upsampling by two, as
 * four 2x2 convolutions over the small picture. See upsample_phases.c.
 */
#ifndef VAE_UPSAMPLE_PHASES_H
#define VAE_UPSAMPLE_PHASES_H

#include <stddef.h>

/* One of the four convolutions. It computes the pixels of rows 2i + row and
 * columns 2j + column. */
typedef struct VaePhase {
    int row, column; /* 0 or 1 each */
} VaePhase;
enum { VAE_PHASES = 4 };
/* Phase i: columns before rows. */
VaePhase vae_phase(int i);
/* Sums n kernels of 3x3 taps to the 2x2 taps of a phase. dst may be src. */
void vae_phase_taps(float *dst, const float *src, size_t n, VaePhase phase);

#endif
