/*
 * picture.c: between pictures and the network's frames, as colour.h says.
 */
#include "ref.h"
#include "colour.h"
#include "number.h"

/* Where R, G, B lie in a pixel of an RGB kind, and how long it is. */
static int
order(VaePixels pixels, int *at)
{
    const bool bgr = pixels == VAE_PIXELS_BGRX;
    at[0] = bgr ? 2 : 0;
    at[1] = 1;
    at[2] = bgr ? 0 : 2;
    return pixels == VAE_PIXELS_RGB ? 3 : 4;
}

static const uint8_t *
row(const VaePicture *p, int plane, int y)
{
    return p->data[plane] + y * p->stride[plane];
}

static uint8_t *
row_out(const VaePicture *p, int plane, int y)
{
    return p->data[plane] + y * p->stride[plane];
}

static void
out_floats(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    for (int y = 0; y < p->height; y++)
        memcpy(row_out(p, 0, y), (const float *) a->x + (size_t) y * a->w * 3,
               (size_t) p->width * 3 * sizeof(float));
}

static void
out_rgb(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    int at[3];
    const int size = order(p->pixels, at);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            uint8_t *to = row_out(p, 0, y) + (size_t) x * size;
            const float *v = (const float *) a->x + ((size_t) y * a->w + x) * 3;
            for (int i = 0; i < 3; i++)
                to[at[i]] = (uint8_t) vae_colour_byte(
                    vae_colour_unit(v[i], a->low, a->high));
            if (size == 4)
                to[3] = 255;
        }
}

/* Adds weight times the words of a visible pixel, coordinates clamped. */
static void
add_words(const VaePictureOutArgs *a, int x, int y, int weight, int *sum)
{
    const VaePicture *p = a->picture;
    x = x < 0 ? 0 : x < p->width ? x : p->width - 1;
    y = y < p->height ? y : p->height - 1;
    const float *v = (const float *) a->x + ((size_t) y * a->w + x) * 3;
    for (int i = 0; i < 3; i++)
        sum[i] +=
            weight * vae_colour_word(vae_colour_unit(v[i], a->low, a->high));
}

static void
chroma(const VaePictureOutArgs *a, int x, int y, int *mean)
{
    const bool left = !a->picture->site_center;
    mean[0] = mean[1] = mean[2] = 0;
    for (int r = 0; r < 2; r++) {
        if (left)
            add_words(a, 2 * x - 1, 2 * y + r, 1, mean);
        add_words(a, 2 * x, 2 * y + r, left ? 2 : 1, mean);
        add_words(a, 2 * x + 1, 2 * y + r, 1, mean);
    }
    for (int i = 0; i < 3; i++)
        mean[i] = left ? (mean[i] + 4) >> 3 : (mean[i] + 2) >> 2;
}

static void
out_yuv(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeColourOut k = vae_colour_out(p->matrix, p->full_range);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            int rgb[3] = {0};
            add_words(a, x, y, 1, rgb);
            row_out(p, 0, y)[x] =
                (uint8_t) vae_colour_code(k.y, rgb[0], rgb[1], rgb[2]);
        }
    const bool nv12 = p->pixels == VAE_PIXELS_NV12;
    for (int y = 0; y < (p->height + 1) / 2; y++)
        for (int x = 0; x < (p->width + 1) / 2; x++) {
            int m[3];
            chroma(a, x, y, m);
            uint8_t *u = row_out(p, 1, y) + (nv12 ? 2 * x : x);
            uint8_t *v = nv12 ? u + 1 : row_out(p, 2, y) + x;
            *u = (uint8_t) vae_colour_code(k.u, m[0], m[1], m[2]);
            *v = (uint8_t) vae_colour_code(k.v, m[0], m[1], m[2]);
        }
}

void
vae_ref_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    switch (a->picture->pixels) {
    case VAE_PIXELS_RGB_F32:
        out_floats(a);
        break;
    case VAE_PIXELS_RGB:
    case VAE_PIXELS_RGBA:
    case VAE_PIXELS_BGRX:
        out_rgb(a);
        break;
    case VAE_PIXELS_I420:
    case VAE_PIXELS_NV12:
        out_yuv(a);
        break;
    }
}

/* U (which 0) or V (1) at a pixel, in sixteenths of a code. */
static int
upsample(const VaePicture *p, int which, int x, int y)
{
    const bool nv12 = p->pixels == VAE_PIXELS_NV12;
    const int step = nv12 ? 2 : 1, plane = nv12 ? 1 : 1 + which;
    const int skip = nv12 ? which : 0;
    int x0, x1, y0, y1;
    const int wx =
        vae_colour_between(x, (p->width + 1) / 2, !p->site_center, &x0, &x1);
    const int wy = vae_colour_between(y, (p->height + 1) / 2, false, &y0, &y1);
    const uint8_t *a = row(p, plane, y0) + skip;
    const uint8_t *b = row(p, plane, y1) + skip;
    return wy * (wx * a[x0 * step] + (4 - wx) * a[x1 * step]) +
           (4 - wy) * (wx * b[x0 * step] + (4 - wx) * b[x1 * step]);
}

/* The network's values of the visible pixel (x, y). */
static void
read_pixel(const VaePictureInArgs *a, const VaeColourIn *k, int x, int y,
           float *v)
{
    const VaePicture *p = a->picture;
    const float mid = vae_colour_mid(a->low, a->high);
    const float step = vae_colour_step(a->low, a->high);
    int rgb[3], at[3];
    if (p->pixels == VAE_PIXELS_RGB_F32) {
        memcpy(v, row(p, 0, y) + (size_t) x * 12, 12);
    } else if (p->pixels >= VAE_PIXELS_I420) {
        vae_colour_words(k, row(p, 0, y)[x], upsample(p, 0, x, y),
                         upsample(p, 1, x, y), rgb);
        for (int i = 0; i < 3; i++)
            v[i] = vae_colour_value(rgb[i], 65535.0f, mid, step);
    } else {
        const int size = order(p->pixels, at);
        for (int i = 0; i < 3; i++)
            v[i] = vae_colour_value(row(p, 0, y)[(size_t) x * size + at[i]],
                                    255.0f, mid, step);
    }
}

void
vae_ref_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeColourIn k = vae_colour_in(p->matrix, p->full_range);
    for (int y = 0; y < a->h; y++)
        for (int x = 0; x < a->w; x++) {
            float v[3];
            read_pixel(a, &k, x < p->width ? x : p->width - 1,
                       y < p->height ? y : p->height - 1, v);
            for (int i = 0; i < 3; i++)
                vae_store(a->y, a->y_type, ((size_t) y * a->w + x) * 3 + i,
                          v[i]);
        }
}
