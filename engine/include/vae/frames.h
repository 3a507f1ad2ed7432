/*
 * vae/frames.h: pictures as the engine takes and gives them.
 */
#ifndef VAE_FRAMES_H
#define VAE_FRAMES_H

#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum VaePixels {
    VAE_PIXELS_RGB_F32, /* 3 floats a pixel, the network's own range, not
                           clamped; strides in bytes like the others */
    VAE_PIXELS_RGB,
    VAE_PIXELS_RGBA, /* A written 255, not read */
    VAE_PIXELS_BGRX, /* X written 255, not read */
    VAE_PIXELS_I420,
    VAE_PIXELS_NV12
} VaePixels;

/* Luma weights Kr, Kb: 0.299, 0.114 and 0.2126, 0.0722. */
typedef enum VaeMatrix { VAE_MATRIX_BT601, VAE_MATRIX_BT709 } VaeMatrix;

/*
 * One picture in memory. Planes and strides as in GstVideoFrame: RGB kinds
 * use plane 0; I420 Y, U, V; NV12 Y, UV. width and height are the visible
 * size; chroma planes are ceil(width / 2) x ceil(height / 2). Strides are in
 * bytes and may be larger than a row.
 *
 * matrix, full_range and site apply to I420 and NV12 only. Chroma sits as in
 * MPEG-2 (left column, between rows) when site_center is false, as in JPEG
 * (centre of four) when it is true.
 */
typedef struct VaePicture {
    VaePixels pixels;
    int width, height;
    VaeMatrix matrix;
    bool full_range;
    bool site_center;
    uint8_t *data[3];
    ptrdiff_t stride[3];
} VaePicture;

#ifdef __cplusplus
}
#endif
#endif
