/*
 * picture_kinds.h: the pixel formats and the meaning of their codes, defined
 * once more for the checks, independently of the code that they check.
 */
#ifndef VAE_PICTURE_KINDS_H
#define VAE_PICTURE_KINDS_H

#include "vae-private/frames.h"

/* The samples of each plane, as letters; bits of a code, and below it. */
typedef struct VaeKind {
    const char *name, *plane[3];
    int bits, below;
    int sub_x, sub_y;
} VaeKind;

extern const VaeKind vae_kinds[VAE_PIXELS_KINDS];

bool vae_kind_yuv(VaePixels pixels);
int vae_kind_bytes(VaePixels pixels); /* of a sample */
int vae_kind_most(VaePixels pixels);  /* the largest code */

/* Part c (0..2) is R, G, B or Y, U, V; 3 is the fourth of a pixel. */
int vae_kind_columns(const VaePicture *p, int c);
int vae_kind_rows(const VaePicture *p, int c);
/* Sample (x, y) of part c; NULL: there is none. */
uint8_t *vae_kind_sample(const VaePicture *p, int c, int x, int y);
int vae_kind_code(const VaePicture *p, int c, int x, int y);
/* Bytes that plane i uses of a row; 0: there is none. */
int vae_kind_row(const VaePicture *p, int i);

typedef struct VaeExact {
    double kr, kg, kb;
    double black, luma, zero, chroma; /* of the codes */
} VaeExact;

VaeExact vae_exact(const VaePicture *p);
/* Between R, G, B of 0..1 and codes that are not rounded. */
void vae_exact_yuv(const VaeExact *k, const double *rgb, double *yuv);
void vae_exact_rgb(const VaeExact *k, const double *yuv, double *rgb);
double vae_exact_unit(double v); /* clamped to 0..1, NaN as 0 */

#endif
