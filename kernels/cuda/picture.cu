/*
 * picture.cu: between pictures and the network's frames, as colour.h says.
 */
#include "colour.h"
#include "common.cuh"
#include "cuda.h"

/* Byte x of row y. No index into the arrays, which would be copied for it. */
VAE_DEVICE uint8_t *
place(const VaePicture &p, int plane, int y, int x)
{
    uint8_t *data = plane == 0 ? p.data[0] : plane == 1 ? p.data[1] : p.data[2];
    const ptrdiff_t stride = plane == 0   ? p.stride[0]
                             : plane == 1 ? p.stride[1]
                                          : p.stride[2];
    return data + y * stride + x;
}

/* Where colour c lies in a pixel of an RGB kind. */
VAE_DEVICE int
byte_of(VaePixels pixels, int c)
{
    return pixels == VAE_PIXELS_BGRX ? 2 - c : c;
}

static bool
is_yuv(VaePixels pixels)
{
    return pixels == VAE_PIXELS_I420 || pixels == VAE_PIXELS_NV12;
}

/* -------------------------------------------------------------- out */

typedef struct Out {
    VaePicture picture;
    VaeColourOut colour;
    const void *x;
    VaeType type;
    int w, c;
    float low, high;
} Out;

VAE_DEVICE float
value(const Out &o, int y, int x, int c)
{
    return vae_load(o.x, o.type, ((size_t) y * o.w + x) * o.c + c);
}

/* A thread for each pixel. */
VAE_KERNEL void
out_rgb(Out o)
{
    const VaePicture &p = o.picture;
    const int x = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int y = (int) blockIdx.y;
    if (x >= p.width)
        return;
    if (p.pixels == VAE_PIXELS_RGB_F32) {
        float *to = reinterpret_cast<float *>(place(p, 0, y, 12 * x));
        for (int c = 0; c < 3; c++)
            to[c] = value(o, y, x, c);
        return;
    }
    const bool four = p.pixels != VAE_PIXELS_RGB;
    uint8_t *to = place(p, 0, y, four ? 4 * x : 3 * x);
    uint32_t word = 0xff000000u;
    for (int c = 0; c < 3; c++) {
        const int code =
            vae_colour_byte(vae_colour_unit(value(o, y, x, c), o.low, o.high));
        word |= (uint32_t) code << 8 * byte_of(p.pixels, c);
    }
    if (four && (uintptr_t) to % 4 == 0) {
        *reinterpret_cast<uint32_t *>(to) = word;
        return;
    }
    for (int i = 0; i < (four ? 4 : 3); i++)
        to[i] = (uint8_t) (word >> 8 * i);
}

/* The words of a visible pixel, coordinates clamped to the picture. */
VAE_DEVICE void
words(const Out &o, int y, int x, int *rgb)
{
    const VaePicture &p = o.picture;
    x = x < 0 ? 0 : x < p.width ? x : p.width - 1;
    y = y < p.height ? y : p.height - 1;
    for (int c = 0; c < 3; c++)
        rgb[c] =
            vae_colour_word(vae_colour_unit(value(o, y, x, c), o.low, o.high));
}

/* A thread for two by two pixels and the chroma sample between them. */
VAE_KERNEL void
out_yuv(Out o)
{
    const VaePicture &p = o.picture;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int j = (int) blockIdx.y;
    const bool left = !p.site_center, nv12 = p.pixels == VAE_PIXELS_NV12;
    if (i >= (p.width + 1) / 2)
        return;
    int mean[3] = {0, 0, 0};
    for (int k = 0; k < 6; k++) {
        const int x = 2 * i + k % 3 - 1, y = 2 * j + k / 3;
        const int weight = k % 3 == 1 && left ? 2 : 1;
        int rgb[3];
        if (k % 3 == 0 && !left)
            continue;
        words(o, y, x, rgb);
        for (int c = 0; c < 3; c++)
            mean[c] += weight * rgb[c];
        if (k % 3 && x < p.width && y < p.height)
            *place(p, 0, y, x) =
                (uint8_t) vae_colour_code(o.colour.y, rgb[0], rgb[1], rgb[2]);
    }
    for (int c = 0; c < 3; c++)
        mean[c] = left ? (mean[c] + 4) >> 3 : (mean[c] + 2) >> 2;
    const int u = vae_colour_code(o.colour.u, mean[0], mean[1], mean[2]);
    const int v = vae_colour_code(o.colour.v, mean[0], mean[1], mean[2]);
    *place(p, 1, j, nv12 ? 2 * i : i) = (uint8_t) u;
    *(nv12 ? place(p, 1, j, 2 * i + 1) : place(p, 2, j, i)) = (uint8_t) v;
}

void
vae_cuda_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const bool yuv = is_yuv(p->pixels);
    const int w = yuv ? (p->width + 1) / 2 : p->width;
    const int h = yuv ? (p->height + 1) / 2 : p->height;
    Out o;
    o.picture = *p;
    o.colour = vae_colour_out(p->matrix, p->full_range);
    o.x = a->x;
    o.type = a->x_type;
    o.w = a->w;
    o.c = a->c ? a->c : 3;
    o.low = a->low;
    o.high = a->high;
    const dim3 grid(vae_blocks((size_t) w, VAE_THREADS), (unsigned) h);
    if (w > 0 && h > 0)
        vae_launch(yuv ? out_yuv : out_rgb, grid, VAE_THREADS, 0, q->stream, o);
}

/* --------------------------------------------------------------- in */

typedef struct In {
    VaePicture picture;
    VaeColourIn colour;
    void *y;
    VaeType type;
    int w, c;
    float mid, step;
} In;

/* U (which 0) or V (1) at a pixel, in sixteenths of a code. */
VAE_DEVICE int
upsample(const VaePicture &p, int which, int x, int y)
{
    const bool nv12 = p.pixels == VAE_PIXELS_NV12;
    const int plane = nv12 ? 1 : 1 + which, step = nv12 ? 2 : 1;
    const int skip = nv12 ? which : 0;
    int x0, x1, y0, y1;
    const int wx =
        vae_colour_between(x, (p.width + 1) / 2, !p.site_center, &x0, &x1);
    const int wy = vae_colour_between(y, (p.height + 1) / 2, false, &y0, &y1);
    const int a = wx * *place(p, plane, y0, x0 * step + skip) +
                  (4 - wx) * *place(p, plane, y0, x1 * step + skip);
    const int b = wx * *place(p, plane, y1, x0 * step + skip) +
                  (4 - wx) * *place(p, plane, y1, x1 * step + skip);
    return wy * a + (4 - wy) * b;
}

/* The network's values of the visible pixel (x, y). */
VAE_DEVICE void
read_pixel(const In &in, int y, int x, float *v)
{
    const VaePicture &p = in.picture;
    if (p.pixels == VAE_PIXELS_RGB_F32) {
        const float *from =
            reinterpret_cast<const float *>(place(p, 0, y, 12 * x));
        for (int c = 0; c < 3; c++)
            v[c] = from[c];
        return;
    }
    if (p.pixels == VAE_PIXELS_I420 || p.pixels == VAE_PIXELS_NV12) {
        int rgb[3];
        vae_colour_words(&in.colour, *place(p, 0, y, x), upsample(p, 0, x, y),
                         upsample(p, 1, x, y), rgb);
        for (int c = 0; c < 3; c++)
            v[c] = vae_colour_value(rgb[c], 65535.0f, in.mid, in.step);
        return;
    }
    const uint8_t *at =
        place(p, 0, y, p.pixels == VAE_PIXELS_RGB ? 3 * x : 4 * x);
    for (int c = 0; c < 3; c++)
        v[c] =
            vae_colour_value(at[byte_of(p.pixels, c)], 255.0f, in.mid, in.step);
}

/* A thread for each pixel of the network's frame. */
VAE_KERNEL void
picture_in(In in)
{
    const VaePicture &p = in.picture;
    const int x = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int y = (int) blockIdx.y;
    if (x >= in.w)
        return;
    float v[3];
    read_pixel(in, y < p.height ? y : p.height - 1,
               x < p.width ? x : p.width - 1, v);
    const size_t at = ((size_t) y * in.w + x) * in.c;
    for (int c = 0; c < 3; c++)
        vae_store(in.y, in.type, at + c, v[c]);
    for (int c = 3; c < in.c; c++)
        vae_store(in.y, in.type, at + c, 0);
}

void
vae_cuda_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    In in;
    in.picture = *p;
    in.colour = vae_colour_in(p->matrix, p->full_range);
    in.y = a->y;
    in.type = a->y_type;
    in.w = a->w;
    in.c = a->c ? a->c : 3;
    in.mid = vae_colour_mid(a->low, a->high);
    in.step = vae_colour_step(a->low, a->high);
    const dim3 grid(vae_blocks((size_t) a->w, VAE_THREADS), (unsigned) a->h);
    if (a->w > 0 && a->h > 0)
        vae_launch(picture_in, grid, VAE_THREADS, 0, q->stream, in);
}
