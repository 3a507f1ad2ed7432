/*
 * vae/frames.h: pictures in memory.
 */
#ifndef VAE_FRAMES_H
#define VAE_FRAMES_H

#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Pixel formats. The planes are those of GstVideoFrame: Y, U, V for I420,
 * I420_10, Y42B and Y444; Y, V, U for YV12; Y, UV for NV12 and P010; G, B, R
 * for the GBR formats; one plane for the other RGB formats. A value of more
 * than 8 bits is a sample of two bytes, little endian, in the low bits (P010:
 * in the high bits). A sample above the largest value is read as the largest
 * value.
 */
typedef enum VaePixels {
    VAE_PIXELS_RGB_F32, /* 3 floats a pixel, in the network's own range
                           (VaeModelInfo.pixel_low, pixel_high), not clamped;
                           the stride is in bytes */
    VAE_PIXELS_RGB,
    VAE_PIXELS_RGBA, /* the fourth byte is alpha. A decoder without alpha writes
                        255 to it, an encoder without alpha ignores it */
    VAE_PIXELS_BGRX, /* a decoder writes 255 to the fourth byte, an encoder
                        ignores it */
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
    VAE_PIXELS_P010,
    VAE_PIXELS_RGBX,    /* the fourth byte as for BGRX */
    VAE_PIXELS_BGRA,    /* the fourth byte as for RGBA */
    VAE_PIXELS_RGBA_F32 /* 4 floats a pixel, as for RGB_F32; only for a network
                           with alpha */
} VaePixels;

/* The luma weights of red and blue. */
typedef enum VaeMatrix {
    VAE_MATRIX_BT601, /* 0.299, 0.114 */
    VAE_MATRIX_BT709, /* 0.2126, 0.0722 */
    VAE_MATRIX_BT2020 /* 0.2627, 0.0593 */
} VaeMatrix;

/*
 * One picture in memory. The library reads all members, so initialize the whole
 * struct, and set those that you do not need to 0:
 *
 *     VaePicture p = {.pixels = VAE_PIXELS_RGB, .width = w, .height = h};
 *
 * width, height  visible size. Chroma planes have ceil(width / 2) columns in
 *                4:2:0 and 4:2:2, and ceil(height / 2) rows in 4:2:0
 * limited_rgb    only for RGB formats except those of floats. True: black is 16
 * and white is 235 (of 255; more bits scale both). False: full range matrix,
 * full_range only for YUV formats site_center    only for chroma with half the
 * columns. True: samples are between two columns (JPEG). False: in the left
 * column (MPEG-2) site_top       only for chroma with half the rows. True:
 * samples are in the upper row. False: between two rows on_device      data are
 * addresses in the memory of the stream's device, in its primary CUDA context.
 * The library does not copy the picture through the host. Samples are aligned
 * to their size pinned         set it to false. Only the plugin, which pins
 * memory by a private function, sets it to true. A device then writes results
 * directly to data, possibly before vae_stream_wait() data, stride   per plane,
 * from the top row down. Strides are in bytes, and are at least those of a row
 * ready          only with on_device: NULL, or a CUevent (cudaEvent_t) that the
 *                device waits for before it uses the picture. Keep it valid as
 *                long as data
 */
typedef struct VaePicture {
    VaePixels pixels;
    int width, height;
    VaeMatrix matrix;
    bool full_range;
    bool limited_rgb;
    bool site_center, site_top;
    bool on_device, pinned;
    uint8_t *data[3];
    ptrdiff_t stride[3];
    void *ready;
} VaePicture;

#ifdef __cplusplus
}
#endif
#endif
