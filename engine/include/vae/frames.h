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
 * Pixel formats. The planes are those of GstVideoFrame: Y, U, V for I420, Y42B
 * and Y444; Y, V, U for YV12; Y, UV for NV12 and P010; G, B, R for the GBR
 * formats; one plane for the other RGB formats. Codes of more than 8 bits are
 * in samples of two bytes, little endian, in the low bits (P010: in the high
 * bits). A sample above the largest code is read as the largest code.
 */
typedef enum VaePixels {
    VAE_PIXELS_RGB_F32, /* 3 floats a pixel, in the network's own range, not
                           clamped; the stride is in bytes, as elsewhere */
    VAE_PIXELS_RGB,
    VAE_PIXELS_RGBA, /* also RGBx; the fourth byte is written 255, not read */
    VAE_PIXELS_BGRX, /* also BGRA; the fourth byte is written 255, not read */
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
 * One picture in memory.
 *
 * width, height  visible size. Chroma planes have ceil(width / 2) columns in
 *                4:2:0 and 4:2:2, and ceil(height / 2) rows in 4:2:0
 * limited_rgb    RGB formats of whole numbers: codes are 16..235 of 255, scaled
 *                for more bits, instead of the full range
 * matrix, full_range
 *                YUV formats
 * site_center    chroma with half the columns: samples are between two columns
 *                (JPEG). False: in the left column (MPEG-2)
 * site_top       chroma with half the rows: samples are in the upper row.
 *                False: between two rows
 * on_device      data are addresses of the stream's device, in the primary
 *                context, as the CUDA run time uses it. The picture is not
 *                copied through the host. Samples are aligned to their size
 * pinned         data are in memory that vae_stream_pin() has pinned: a device
 *                writes results there by itself, also before the call is
 *                waited for
 * data, stride   per plane; strides are in bytes and may exceed a row
 * ready          with on_device: a CUevent (or cudaEvent_t) that the device
 *                waits for before it uses the picture, or NULL. It must stay
 *                valid as long as data
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
