/*
 * picture_kinds.h: the pixel formats and the meaning of their codes, defined
 * once more for the checks, independently of the code that they check.
 */
#ifndef VAE_PICTURE_KINDS_H
#define VAE_PICTURE_KINDS_H

#include "vae-private/frames.h"

/* plane: the samples of each plane, as letters. bits: those of a code. below:
 * the unused bits below the code. */
typedef struct VaeKind {
    const char *name, *plane[3];
    int bits, below;
    int sub_x, sub_y;
} VaeKind;

extern const VaeKind vae_kinds[VAE_PIXELS_KINDS];

bool vae_kind_yuv(VaePixels pixels);
bool vae_kind_alpha(VaePixels pixels);
int vae_kind_bytes(VaePixels pixels); /* bytes of a sample */
int vae_kind_most(VaePixels pixels);  /* the largest code */

/* Component c (0..2) is R, G, B or Y, U, V. Component 3 is the fourth byte of a
 * pixel. */
int vae_kind_columns(const VaePicture *p, int c);
int vae_kind_rows(const VaePicture *p, int c);
/* Returns sample (x, y) of component c, or NULL if there is none. */
uint8_t *vae_kind_sample(const VaePicture *p, int c, int x, int y);
int vae_kind_code(const VaePicture *p, int c, int x, int y);
/* Returns the number of bytes of a row that plane i uses; 0: there is no such
 * plane. */
int vae_kind_row(const VaePicture *p, int i);

typedef struct VaeExact {
    double kr, kg, kb;
    /* black, zero: the codes of black and of no chroma. luma, chroma: the
     * ranges of codes. */
    double black, luma, zero, chroma;
} VaeExact;

VaeExact vae_exact(const VaePicture *p);
/* Convert between R, G, B from 0 to 1 and codes that are not rounded. */
void vae_exact_yuv(const VaeExact *k, const double *rgb, double *yuv);
void vae_exact_rgb(const VaeExact *k, const double *yuv, double *rgb);
double vae_exact_unit(double v); /* clamped to 0..1; NaN gives 0 */

#endif
