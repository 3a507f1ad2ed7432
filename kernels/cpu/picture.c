/*
 * picture.c: between pictures and the network's frames, as colour.h says,
 * in pairs of rows and chunks of columns that fit on the stack.
 */
#include "cpu.h"
#include "simd.h"
#include "colour.h"
#include "number.h"

enum { CHUNK = 128 }; /* even */

static uint8_t *
row(const VaePicture *p, int plane, int y)
{
    return p->data[plane] + y * p->stride[plane];
}

static int
smaller(int a, int b)
{
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- out */

static void
rgb_row(const VaePictureOutArgs *a, const VaeSimd *simd, int y)
{
    const VaePicture *p = a->picture;
    const int red = p->pixels == VAE_PIXELS_BGRX ? 2 : 0;
    const float *x = (const float *) a->x + (size_t) y * a->w * 3;
    uint8_t *to = row(p, 0, y), codes[3 * CHUNK];
    if (p->pixels == VAE_PIXELS_RGB) {
        simd->bytes(to, x, (size_t) p->width * 3, a->low, a->high);
        return;
    }
    for (int from = 0; from < p->width; from += CHUNK) {
        const int n = smaller(CHUNK, p->width - from);
        simd->bytes(codes, x + (size_t) from * 3, (size_t) n * 3, a->low,
                    a->high);
        for (int i = 0; i < n; i++, to += 4) {
            to[red] = codes[3 * i];
            to[1] = codes[3 * i + 1];
            to[2 - red] = codes[3 * i + 2];
            to[3] = 255;
        }
    }
}

/*
 * Words of n visible pixels from column `from` of one row, planar, at
 * 1..n; at 0 and n + 1 their neighbours, clamped to the picture.
 */
typedef struct Words {
    int rgb[3][CHUNK + 2];
} Words;

static void
read_words(const VaePictureOutArgs *a, const VaeSimd *simd, Words *to, int y,
           int from, int n)
{
    uint16_t words[3 * (CHUNK + 2)];
    const int last = a->picture->width - 1;
    const int begin = from ? from - 1 : 0, end = smaller(from + n, last);
    const int count = end - begin + 1, skip = from ? 0 : 1;
    const float *x = (const float *) a->x + ((size_t) y * a->w + begin) * 3;
    simd->words(words, x, (size_t) count * 3, a->low, a->high);
    for (int c = 0; c < 3; c++) {
        int *v = to->rgb[c];
        for (int i = 0; i < count; i++)
            v[i + skip] = words[3 * i + c];
        if (skip)
            v[0] = v[1];
        if (from + n > last)
            v[n + 1] = v[n];
    }
}

static void
luma(const VaeColourOut *k, const Words *x, uint8_t *y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = (uint8_t) vae_colour_code(k->y, x->rgb[0][i + 1],
                                         x->rgb[1][i + 1], x->rgb[2][i + 1]);
}

/* (n + 1) / 2 samples of two rows; an odd n has its last column twice. */
static void
chroma(const VaeColourOut *k, const Words *x, bool left, uint8_t *u, uint8_t *v,
       int step, int n)
{
    for (int i = 0; i < (n + 1) / 2; i++) {
        int m[3];
        for (int c = 0; c < 3; c++) {
            const int *a = x[0].rgb[c] + 2 * i, *b = x[1].rgb[c] + 2 * i;
            m[c] =
                left ? (a[0] + b[0] + 2 * (a[1] + b[1]) + a[2] + b[2] + 4) >> 3
                     : (a[1] + b[1] + a[2] + b[2] + 2) >> 2;
        }
        u[i * step] = (uint8_t) vae_colour_code(k->u, m[0], m[1], m[2]);
        v[i * step] = (uint8_t) vae_colour_code(k->v, m[0], m[1], m[2]);
    }
}

/* Rows 2j and 2j + 1. */
static void
yuv_rows(const VaePictureOutArgs *a, const VaeSimd *simd, const VaeColourOut *k,
         int j)
{
    const VaePicture *p = a->picture;
    const int step = p->pixels == VAE_PIXELS_NV12 ? 2 : 1;
    uint8_t *u = row(p, 1, j);
    uint8_t *v = step == 2 ? u + 1 : row(p, 2, j);
    Words words[2];
    for (int from = 0; from < p->width; from += CHUNK) {
        const int n = smaller(CHUNK, p->width - from);
        for (int r = 0; r < 2; r++) {
            const int y = smaller(2 * j + r, p->height - 1);
            read_words(a, simd, &words[r], y, from, n);
            if (y == 2 * j + r)
                luma(k, &words[r], row(p, 0, y) + from, n);
        }
        chroma(k, words, !p->site_center, u + from / 2 * step,
               v + from / 2 * step, step, n);
    }
}

void
vae_cpu_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeSimd *simd = vae_cpu_simd(q);
    const bool yuv =
        p->pixels == VAE_PIXELS_I420 || p->pixels == VAE_PIXELS_NV12;
    const VaeColourOut k = vae_colour_out(p->matrix, p->full_range);
    const int rows = yuv ? (p->height + 1) / 2 : p->height;
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int y = 0; y < rows; y++)
        if (yuv)
            yuv_rows(a, simd, &k, y);
        else if (p->pixels == VAE_PIXELS_RGB_F32)
            memcpy(row(p, 0, y), (const float *) a->x + (size_t) y * a->w * 3,
                   (size_t) p->width * 3 * sizeof(float));
        else
            rgb_row(a, simd, y);
}

/* ----------------------------------------------------------------- in */

typedef struct Reader {
    const VaePictureInArgs *a;
    const VaeSimd *simd;
    VaeColourIn colour;
    float value[256]; /* of a code of the RGB kinds */
    float mid, step;
} Reader;

static void
read_rgb(const Reader *r, float *v, int y, int from, int n)
{
    const VaePicture *p = r->a->picture;
    const int red = p->pixels == VAE_PIXELS_BGRX ? 2 : 0;
    const int size = p->pixels == VAE_PIXELS_RGB ? 3 : 4;
    const uint8_t *x = row(p, 0, y) + (size_t) from * size;
    for (int i = 0; i < n; i++, x += size, v += 3) {
        v[0] = r->value[x[red]];
        v[1] = r->value[x[1]];
        v[2] = r->value[x[2 - red]];
    }
}

/* One chroma plane at columns from..from+n-1, in sixteenths of a code. */
static void
upsample(const VaePicture *p, int plane, int skip, int y, int from, int n,
         int *to)
{
    const int step = p->pixels == VAE_PIXELS_NV12 ? 2 : 1;
    const int width = (p->width + 1) / 2, height = (p->height + 1) / 2;
    int y0, y1;
    const int down = vae_colour_between(y, height, false, &y0, &y1);
    const uint8_t *a = row(p, plane, y0) + skip;
    const uint8_t *b = row(p, plane, y1) + skip;
    for (int i = 0; i < n; i++) {
        int x0, x1;
        const int along =
            vae_colour_between(from + i, width, !p->site_center, &x0, &x1);
        const int one = down * a[x0 * step] + (4 - down) * b[x0 * step];
        const int two = down * a[x1 * step] + (4 - down) * b[x1 * step];
        to[i] = along * one + (4 - along) * two;
    }
}

static void
read_yuv(const Reader *r, float *v, int y, int from, int n)
{
    const VaePicture *p = r->a->picture;
    const bool nv12 = p->pixels == VAE_PIXELS_NV12;
    const uint8_t *luma_row = row(p, 0, y) + from;
    int cb[CHUNK], cr[CHUNK], rgb[3 * CHUNK];
    upsample(p, 1, 0, y, from, n, cb);
    upsample(p, nv12 ? 1 : 2, nv12 ? 1 : 0, y, from, n, cr);
    for (int i = 0; i < n; i++)
        vae_colour_words(&r->colour, luma_row[i], cb[i], cr[i], rgb + 3 * i);
    for (int i = 0; i < 3 * n; i++)
        v[i] = vae_colour_value(rgb[i], 65535.0f, r->mid, r->step);
}

static void
read_row(const Reader *r, int y)
{
    const VaePictureInArgs *a = r->a;
    const VaePicture *p = a->picture;
    const size_t size = a->y_type == VAE_TYPE_F32 ? 4 : 2;
    const int line = smaller(y, p->height - 1);
    uint8_t *to = (uint8_t *) a->y + (size_t) y * a->w * 3 * size;
    float v[3 * CHUNK];
    for (int from = 0; from < p->width; from += CHUNK) {
        const int n = smaller(CHUNK, p->width - from);
        if (p->pixels == VAE_PIXELS_RGB_F32)
            memcpy(v, row(p, 0, line) + (size_t) from * 12, (size_t) n * 12);
        else if (p->pixels >= VAE_PIXELS_I420)
            read_yuv(r, v, line, from, n);
        else
            read_rgb(r, v, line, from, n);
        r->simd->convert(to + (size_t) from * 3 * size, a->y_type, v,
                         VAE_TYPE_F32, (size_t) n * 3);
    }
    const uint8_t *last = to + (size_t) (p->width - 1) * 3 * size;
    for (int x = p->width; x < a->w; x++)
        memcpy(to + (size_t) x * 3 * size, last, 3 * size);
}

void
vae_cpu_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    Reader r = {.a = a,
                .simd = vae_cpu_simd(q),
                .colour = vae_colour_in(p->matrix, p->full_range),
                .mid = vae_colour_mid(a->low, a->high),
                .step = vae_colour_step(a->low, a->high)};
    for (int i = 0; i < 256; i++)
        r.value[i] = vae_colour_value(i, 255.0f, r.mid, r.step);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int y = 0; y < a->h; y++)
        read_row(&r, y);
}
