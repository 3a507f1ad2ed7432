/*
 * pixels.h: the memory layout of each pixel format.
 *
 * A format has three parts, R, G, B or Y, U, V, with samples of one size. The
 * conversions work for any parts. Alpha is the fourth sample of a pixel.
 *
 * A new format is added to VaePixels (vae/frames.h), VAE_PIXELS_KINDS
 * (vae-private/frames.h), the table below, formats[] in gst/caps/video.c and
 * the pad templates in gst/caps/video.h.
 */
#ifndef VAE_PIXELS_H
#define VAE_PIXELS_H

#include <string.h>

#include "vae/frames.h"
#include "inline.h"

/* at: bytes from the start of a row to its first sample. step: bytes from one
 * sample to the next. */
typedef struct VaePart {
    uint8_t plane, at, step;
} VaePart;

typedef struct VaeLayout {
    VaePart part[3];
    uint8_t bytes; /* of a sample; 4: a float */
    uint8_t depth; /* bits of a code */
    uint8_t shift; /* bits below the code in a sample */
    bool yuv;
    uint8_t sub_x, sub_y; /* 1: U and V have half the columns, rows */
    bool alpha;
} VaeLayout;

static inline const VaeLayout *
vae_layout(VaePixels pixels)
{
    /* In the order of VaePixels. */
    static const VaeLayout all[] = {
        {{{0, 0, 12}, {0, 4, 12}, {0, 8, 12}}, 4, 0, 0, 0, 0, 0, 0}, /* RGB_F32
                                                                      */
        {{{0, 0, 3}, {0, 1, 3}, {0, 2, 3}}, 1, 8, 0, 0, 0, 0, 0},    /* RGB */
        {{{0, 0, 4}, {0, 1, 4}, {0, 2, 4}}, 1, 8, 0, 0, 0, 0, 1},    /* RGBA */
        {{{0, 2, 4}, {0, 1, 4}, {0, 0, 4}}, 1, 8, 0, 0, 0, 0, 0},    /* BGRX */
        {{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}, 1, 8, 0, 1, 1, 1, 0},    /* I420 */
        {{{0, 0, 1}, {1, 0, 2}, {1, 1, 2}}, 1, 8, 0, 1, 1, 1, 0},    /* NV12 */
        {{{0, 2, 3}, {0, 1, 3}, {0, 0, 3}}, 1, 8, 0, 0, 0, 0, 0},    /* BGR */
        {{{2, 0, 1}, {0, 0, 1}, {1, 0, 1}}, 1, 8, 0, 0, 0, 0, 0},    /* GBR */
        {{{2, 0, 2}, {0, 0, 2}, {1, 0, 2}}, 2, 10, 0, 0, 0, 0, 0}, /* GBR_10 */
        {{{2, 0, 2}, {0, 0, 2}, {1, 0, 2}}, 2, 12, 0, 0, 0, 0, 0}, /* GBR_12 */
        {{{2, 0, 2}, {0, 0, 2}, {1, 0, 2}}, 2, 16, 0, 0, 0, 0, 0}, /* GBR_16 */
        {{{0, 0, 1}, {2, 0, 1}, {1, 0, 1}}, 1, 8, 0, 1, 1, 1, 0},  /* YV12 */
        {{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}, 1, 8, 0, 1, 1, 0, 0},  /* Y42B */
        {{{0, 0, 1}, {1, 0, 1}, {2, 0, 1}}, 1, 8, 0, 1, 0, 0, 0},  /* Y444 */
        {{{0, 0, 2}, {1, 0, 2}, {2, 0, 2}}, 2, 10, 0, 1, 1, 1, 0}, /* I420_10 */
        {{{0, 0, 2}, {1, 0, 4}, {1, 2, 4}}, 2, 10, 6, 1, 1, 1, 0}, /* P010 */
        {{{0, 0, 4}, {0, 1, 4}, {0, 2, 4}}, 1, 8, 0, 0, 0, 0, 0},  /* RGBX */
        {{{0, 2, 4}, {0, 1, 4}, {0, 0, 4}}, 1, 8, 0, 0, 0, 0, 1},  /* BGRA */
        /* RGBA_F32 */
        {{{0, 0, 16}, {0, 4, 16}, {0, 8, 16}}, 4, 0, 0, 0, 0, 0, 1},
    };
    return &all[pixels];
}

VAE_INLINE bool
vae_layout_floats(const VaeLayout *l)
{
    return l->bytes == 4;
}

/* True if a pixel has a fourth byte, which is alpha or 255. */
static inline bool
vae_layout_four(const VaeLayout *l)
{
    return l->part[0].step == 4;
}

/* Columns and rows of part c of a picture. */
static inline int
vae_part_width(const VaePicture *p, int c)
{
    return c && vae_layout(p->pixels)->sub_x ? (p->width + 1) / 2 : p->width;
}

static inline int
vae_part_height(const VaePicture *p, int c)
{
    return c && vae_layout(p->pixels)->sub_y ? (p->height + 1) / 2 : p->height;
}

/* Returns the number of planes; fills the bytes of a row and the rows of each,
 * and zeros after the last plane. */
static inline int
vae_picture_planes(const VaePicture *p, size_t row[3], int rows[3])
{
    const VaeLayout *l = vae_layout(p->pixels);
    int planes = 0;
    for (int i = 0; i < 3; i++) {
        row[i] = 0;
        rows[i] = 0;
    }
    for (int c = 0; c < 3; c++) {
        const int plane = l->part[c].plane;
        row[plane] = (size_t) vae_part_width(p, c) * l->part[c].step;
        rows[plane] = vae_part_height(p, c);
        planes = plane < planes ? planes : plane + 1;
    }
    return planes;
}

/* Sets *out to p at that address, without gaps between rows and planes. Returns
 * its bytes. */
static inline size_t
vae_picture_pack(const VaePicture *p, uintptr_t at, VaePicture *out)
{
    size_t row[3], bytes = 0;
    int rows[3];
    const int n = vae_picture_planes(p, row, rows);
    *out = *p;
    for (int i = 0; i < n; i++) {
        out->data[i] = (uint8_t *) (at + bytes);
        out->stride[i] = (ptrdiff_t) row[i];
        bytes += row[i] * (size_t) rows[i];
    }
    return bytes;
}

/* Copies between pictures of one format and size. */
static inline void
vae_picture_copy(const VaePicture *to, const VaePicture *from)
{
    size_t row[3];
    int rows[3];
    const int n = vae_picture_planes(to, row, rows);
    for (int i = 0; i < n; i++)
        for (int y = 0; y < rows[i]; y++)
            memcpy(to->data[i] + y * to->stride[i],
                   from->data[i] + y * from->stride[i], row[i]);
}

static inline bool
vae_picture_same_format(const VaePicture *a, const VaePicture *b)
{
    return a->pixels == b->pixels && a->matrix == b->matrix &&
           a->full_range == b->full_range && a->limited_rgb == b->limited_rgb &&
           a->site_center == b->site_center && a->site_top == b->site_top;
}

/* True if both are converted by the same numbers, and both have memory or
 * neither does. */
static inline bool
vae_pictures_alike(const VaePicture *a, const VaePicture *b)
{
    size_t row[3];
    int rows[3];
    const int n = vae_picture_planes(a, row, rows);
    bool same = vae_picture_same_format(a, b) && a->width == b->width &&
                a->height == b->height && !a->data[0] == !b->data[0];
    for (int i = 0; i < n; i++)
        same = same && a->stride[i] == b->stride[i];
    return same;
}

/* A part in memory: sample x of row y is at data + y * stride + x * step. */
typedef struct VaeSamples {
    uint8_t *data;
    ptrdiff_t stride, step;
} VaeSamples;

static inline VaeSamples
vae_picture_samples(const VaePicture *p, int c)
{
    const VaePart part = vae_layout(p->pixels)->part[c];
    const VaeSamples s = {p->data[part.plane] + part.at, p->stride[part.plane],
                          part.step};
    return s;
}

/* The alpha of a format that has it. */
static inline VaeSamples
vae_picture_alpha(const VaePicture *p)
{
    const VaeLayout *l = vae_layout(p->pixels);
    const VaeSamples s = {p->data[0] + 3 * l->bytes, p->stride[0],
                          l->part[0].step};
    return s;
}

VAE_INLINE uint8_t *
vae_sample_at(const VaeSamples *s, int y, int x)
{
    return s->data + y * s->stride + x * s->step;
}

/* The code in a sample of one or two bytes, at most `most`. */
VAE_INLINE int
vae_sample_read(const uint8_t *at, int bytes, int shift, int most)
{
    uint16_t v = *at;
    if (bytes == 2) {
#ifdef __CUDA_ARCH__
        v = *(const uint16_t *) at;
#else
        memcpy(&v, at, sizeof v);
#endif
    }
    const int code = v >> shift;
    return code < most ? code : most;
}

VAE_INLINE void
vae_sample_write(uint8_t *at, int bytes, int shift, int code)
{
    const uint16_t v = (uint16_t) (code << shift);
    if (bytes == 1) {
        *at = (uint8_t) v;
        return;
    }
#ifdef __CUDA_ARCH__
    *(uint16_t *) at = v;
#else
    memcpy(at, &v, sizeof v);
#endif
}

#endif
