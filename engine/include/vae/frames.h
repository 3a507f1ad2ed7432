/*
 * vae/frames.h: pictures as the engine takes and gives them.
 */
#ifndef VAE_FRAMES_H
#define VAE_FRAMES_H

#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Planes as in GstVideoFrame: I420, Y42B, Y444 Y, U, V; YV12 Y, V, U; NV12 and
 * P010 Y, UV; the GBR kinds G, B, R; the other RGB kinds have one. Codes of
 * more than 8 bits are in samples of two bytes, little endian, in the low bits
 * (of P010 in the high ones); what such a sample holds beyond the largest code
 * is read as that.
 */
typedef enum VaePixels {
    VAE_PIXELS_RGB_F32, /* 3 floats a pixel, the network's own range, not
                           clamped; strides in bytes like the others */
    VAE_PIXELS_RGB,
    VAE_PIXELS_RGBA, /* A written 255, not read; so RGBx as well */
    VAE_PIXELS_BGRX, /* X written 255, not read; so BGRA as well */
    VAE_PIXELS_I420,
    VAE_PIXELS_NV12,
    VAE_PIXELS_BGR,
    VAE_PIXELS_GBR,
    VAE_PIXELS_GBR_10,
    VAE_PIXELS_GBR_12,
    VAE_PIXELS_GBR_16,
    VAE_PIXELS_YV12,
    VAE_PIXELS_Y42B, /* 4:2:2 */
    VAE_PIXELS_Y444,
    VAE_PIXELS_I420_10,
    VAE_PIXELS_P010
} VaePixels;

/* Luma weights Kr, Kb: 0.299, 0.114; 0.2126, 0.0722; 0.2627, 0.0593. */
typedef enum VaeMatrix {
    VAE_MATRIX_BT601,
    VAE_MATRIX_BT709,
    VAE_MATRIX_BT2020
} VaeMatrix;

/*
 * One picture in memory. width and height are the visible size; planes of
 * chroma have ceil(width / 2) columns where it is halved along the rows (4:2:0,
 * 4:2:2) and ceil(height / 2) rows where it is halved down the columns (4:2:0).
 * Strides are in bytes and may be larger than a row.
 *
 * limited_rgb applies to RGB kinds of whole numbers: codes are 16..235 of 255,
 * or as much of more bits, instead of all. The others apply to YUV kinds:
 * full_range; matrix; and where chroma sits. Along the rows, where it is
 * halved: in the left column (MPEG-2) or, site_center, between the two (JPEG).
 * Down the columns: between the two rows or, site_top, in the upper one.
 *
 * on_device: data are addresses of the device that the stream computes on, in
 * the context that the CUDA run time takes there (the primary one), and no copy
 * through the host is made. Whole samples begin at multiples of their size.
 * ready, of such a picture: a CUevent (or cudaEvent_t) that the device waits
 * for before it touches the picture, and that stays as long as data; or NULL.
 */
typedef struct VaePicture {
    VaePixels pixels;
    int width, height;
    VaeMatrix matrix;
    bool full_range;
    bool limited_rgb;
    bool site_center, site_top;
    bool on_device;
    uint8_t *data[3];
    ptrdiff_t stride[3];
    void *ready;
} VaePicture;

#ifdef __cplusplus
}
#endif
#endif
