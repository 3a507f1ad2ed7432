/*
 * picture.c: converts pictures to and from the network's frames, see colour.h,
 * in chunks of columns that fit on the stack.
 */
#include "cpu.h"
#include "simd/simd.h"
#include "colour.h"
#include "number.h"
#include "pixels.h"

enum { CHUNK = 128 }; /* even */

static int
smaller(int a, int b)
{
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- out */

typedef struct Writer {
    const VaePictureOutArgs *a;
    const VaeSimd *simd;
    const VaeLayout *layout;
    VaeSamples part[3];
    VaeColourOut yuv;
    VaeColourRgb rgb;
    int n; /* channels of the network */
    bool left, top;
} Writer;

/* Stores n codes in part c of row y, from column `from` of the part on. */
static void
store(const Writer *w, int c, int y, int from, const uint16_t *codes, int n)
{
    const VaeSamples *s = &w->part[c];
    const ptrdiff_t step = s->step;
    const int shift = w->layout->shift;
    uint8_t *to = vae_sample_at(s, y, from);
    if (w->layout->bytes == 2)
        for (int i = 0; i < n; i++)
            vae_sample_write(to + i * step, 2, shift, codes[i]);
    else if (step == 1)
        for (int i = 0; i < n; i++)
            to[i] = (uint8_t) codes[i];
    else
        for (int i = 0; i < n; i++)
            to[i * step] = (uint8_t) codes[i];
}

/* RGB codes of every format but full-range bytes. */
static void
rgb_codes(const Writer *w, const float *x, int y)
{
    const VaePictureOutArgs *a = w->a;
    const VaeColourRgb k = w->rgb;
    const int width = a->picture->width;
    for (int from = 0; from < width; from += CHUNK) {
        const int n = smaller(CHUNK, width - from);
        uint16_t codes[CHUNK];
        for (int c = 0; c < 3; c++) {
            for (int i = 0; i < n; i++)
                codes[i] = (uint16_t) vae_colour_rgb_code(
                    &k,
                    vae_colour_unit(x[(from + i) * w->n + c], a->low, a->high));
            store(w, c, y, from, codes, n);
        }
    }
}

static void
rgb_bytes(const Writer *w, const float *x, int y)
{
    const VaePictureOutArgs *a = w->a;
    const int width = a->picture->width;
    const ptrdiff_t step = w->part[0].step;
    uint8_t codes[4 * CHUNK];
    const int k = w->n;
    for (int from = 0; from < width; from += CHUNK) {
        const int n = smaller(CHUNK, width - from);
        uint8_t *r = vae_sample_at(&w->part[0], y, from);
        uint8_t *g = vae_sample_at(&w->part[1], y, from);
        uint8_t *b = vae_sample_at(&w->part[2], y, from);
        w->simd->bytes(codes, x + (size_t) from * (size_t) k,
                       (size_t) n * (size_t) k, a->low, a->high);
        for (int i = 0; i < n; i++) {
            r[i * step] = codes[k * i];
            g[i * step] = codes[k * i + 1];
            b[i * step] = codes[k * i + 2];
        }
    }
}

static void
float_row(const Writer *w, const float *x, int y)
{
    const VaePicture *p = w->a->picture;
    const int n = w->layout->alpha ? 4 : 3;
    float *to = (float *) (p->data[0] + y * p->stride[0]);
    if (n == w->n)
        memcpy(to, x, (size_t) (p->width * n) * sizeof *to);
    else
        for (int i = 0; i < p->width; i++) {
            const float v[4] = {x[i * w->n], x[i * w->n + 1], x[i * w->n + 2],
                                w->a->high};
            memcpy(to + i * n, v, (size_t) n * sizeof *to);
        }
}

/* Writes the fourth byte of each pixel. */
static void
fourth_bytes(const Writer *w, const float *x, uint8_t *row)
{
    const VaePictureOutArgs *a = w->a;
    const VaeColourRgb k = vae_colour_rgb(8, false);
    const bool alpha = a->alpha && w->layout->alpha;
    for (int i = 0; i < a->picture->width; i++)
        row[4 * i + 3] =
            alpha ? (uint8_t) vae_colour_rgb_code(
                        &k, vae_colour_unit(x[4 * i + 3], a->low, a->high))
                  : 255;
}

static void
rgb_row(const Writer *w, int y)
{
    const VaePictureOutArgs *a = w->a;
    const VaePicture *p = a->picture;
    const float *x = (const float *) a->x + (size_t) y * (size_t) (a->w * w->n);
    uint8_t *row = p->data[0] + y * p->stride[0];
    if (vae_layout_floats(w->layout))
        float_row(w, x, y);
    else if (w->layout->depth > 8 || p->limited_rgb)
        rgb_codes(w, x, y);
    else if (p->pixels == VAE_PIXELS_RGB && w->n == 3)
        w->simd->bytes(row, x, (size_t) p->width * 3, a->low, a->high);
    else
        rgb_bytes(w, x, y);
    if (vae_layout_four(w->layout))
        fourth_bytes(w, x, row);
}

/*
 * Words of n visible pixels from column `from` of one row, planar, at
 * 1..n; at 0 and n + 1 their neighbours, clamped to the picture.
 */
typedef struct Words {
    int rgb[3][CHUNK + 2];
} Words;

static void
read_words(const Writer *w, Words *to, int y, int from, int n)
{
    const VaePictureOutArgs *a = w->a;
    uint16_t words[4 * (CHUNK + 2)];
    const int last = a->picture->width - 1;
    const int begin = from ? from - 1 : 0, end = smaller(from + n, last);
    const int count = end - begin + 1, skip = from ? 0 : 1;
    const float *x =
        (const float *) a->x + ((size_t) y * a->w + begin) * (size_t) w->n;
    w->simd->words(words, x, (size_t) count * (size_t) w->n, a->low, a->high);
    for (int c = 0; c < 3; c++) {
        int *v = to->rgb[c];
        for (int i = 0; i < count; i++)
            v[i + skip] = words[w->n * i + c];
        if (skip)
            v[0] = v[1];
        if (from + n > last)
            v[n + 1] = v[n];
    }
}

/* The codes of n pixels of words from `first` on. */
static void
codes_of(const uint32_t *k, int shift, const Words *x, int first,
         uint16_t *codes, int n)
{
    for (int i = 0; i < n; i++)
        codes[i] = vae_colour_code(k, shift, x->rgb[0][first + i],
                                   x->rgb[1][first + i], x->rgb[2][first + i]);
}

/* Subsampled directions (0 or 1), and siting on the first pixel. */
typedef struct Chroma {
    int sub_x, sub_y;
    bool left, top;
} Chroma;

/*
 * The words of n chroma samples, from rows -1, 0 and 1 around their first row;
 * rows without weight are not read. The flags are constants after inlining.
 */
static inline __attribute__((always_inline)) void
subsample(const Words rows[3], Words *to, int n, const Chroma s)
{
    const int bits = vae_colour_tap_sum(s.sub_x, s.left) +
                     vae_colour_tap_sum(s.sub_y, s.top);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < n; i++) {
            const int x = (i << s.sub_x) + 1;
            int sum = 1 << bits >> 1;
            for (int d = 0; d < 9; d++) {
                const int weight = vae_colour_tap(d / 3 - 1, s.sub_y, s.top) *
                                   vae_colour_tap(d % 3 - 1, s.sub_x, s.left);
                if (weight)
                    sum += weight * rows[d / 3].rgb[c][x + d % 3 - 1];
            }
            to->rgb[c][i] = sum >> bits;
        }
}

static void
subsample_any(const Writer *w, const Words rows[3], Words *to, int n)
{
    const bool sub_x = w->layout->sub_x, sub_y = w->layout->sub_y;
    if (!sub_x)
        subsample(rows, to, n, (Chroma){0, 0, false, false});
    else if (!sub_y && w->left)
        subsample(rows, to, n, (Chroma){1, 0, true, false});
    else if (!sub_y)
        subsample(rows, to, n, (Chroma){1, 0, false, false});
    else if (w->left && w->top)
        subsample(rows, to, n, (Chroma){1, 1, true, true});
    else if (w->left)
        subsample(rows, to, n, (Chroma){1, 1, true, false});
    else if (w->top)
        subsample(rows, to, n, (Chroma){1, 1, false, true});
    else
        subsample(rows, to, n, (Chroma){1, 1, false, false});
}

/* Writes row j of chroma and its rows of luma. */
static void
yuv_rows(const Writer *w, int j)
{
    const VaeLayout *l = w->layout;
    const VaePicture *p = w->a->picture;
    const VaeColourOut *k = &w->yuv;
    Words rows[3], mean;
    uint16_t codes[CHUNK];
    for (int from = 0; from < p->width; from += CHUNK) {
        const int n = smaller(CHUNK, p->width - from);
        for (int d = -1; d <= 1; d++) {
            const int y = (j << l->sub_y) + d;
            if (!vae_colour_tap(d, l->sub_y, w->top))
                continue;
            read_words(w, &rows[1 + d], y < 0 ? 0 : smaller(y, p->height - 1),
                       from, n);
            if (d < 0 || y >= p->height)
                continue;
            codes_of(k->y, k->shift, &rows[1 + d], 1, codes, n);
            store(w, 0, y, from, codes, n);
        }
        /* An odd n repeats its last column. */
        const int count = l->sub_x ? (n + 1) / 2 : n;
        subsample_any(w, rows, &mean, count);
        codes_of(k->u, k->shift, &mean, 0, codes, count);
        store(w, 1, j, from >> l->sub_x, codes, count);
        codes_of(k->v, k->shift, &mean, 0, codes, count);
        store(w, 2, j, from >> l->sub_x, codes, count);
    }
}

void
vae_cpu_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    Writer w = {.a = a,
                .simd = vae_cpu_simd(q),
                .layout = l,
                .n = a->alpha ? 4 : 3,
                .left = !p->site_center,
                .top = p->site_top};
    for (int c = 0; c < 3; c++)
        w.part[c] = vae_picture_samples(p, c);
    if (l->yuv)
        w.yuv = vae_colour_out(p->matrix, p->full_range, l->depth);
    else if (l->depth)
        w.rgb = vae_colour_rgb(l->depth, p->limited_rgb);
    const int rows = vae_part_height(p, 1);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int y = 0; y < rows; y++)
        if (l->yuv)
            yuv_rows(&w, y);
        else
            rgb_row(&w, y);
}

/* ----------------------------------------------------------------- in */

typedef struct Reader {
    const VaePictureInArgs *a;
    const VaeSimd *simd;
    const VaeLayout *layout;
    VaeSamples part[3];
    VaeColourIn yuv;
    VaeColourRgb rgb;
    float value[4096]; /* for each RGB code of up to 12 bits */
    float mid, step;
    bool left, top;
} Reader;

/* Loads n codes of part c of row y, from column `from` of the part on. */
static void
load(const Reader *r, int c, int y, int from, int *codes, int n)
{
    const VaeSamples *s = &r->part[c];
    const ptrdiff_t step = s->step;
    const int shift = r->layout->shift, most = (1 << r->layout->depth) - 1;
    const uint8_t *at = vae_sample_at(s, y, from);
    if (r->layout->bytes == 2)
        for (int i = 0; i < n; i++)
            codes[i] = vae_sample_read(at + i * step, 2, shift, most);
    else if (step == 1)
        for (int i = 0; i < n; i++)
            codes[i] = at[i];
    else
        for (int i = 0; i < n; i++)
            codes[i] = at[i * step];
}

static void
read_bytes(const Reader *r, float *v, int y, int from, int n)
{
    const ptrdiff_t step = r->part[0].step;
    const uint8_t *red = vae_sample_at(&r->part[0], y, from);
    const uint8_t *green = vae_sample_at(&r->part[1], y, from);
    const uint8_t *blue = vae_sample_at(&r->part[2], y, from);
    for (int i = 0; i < n; i++, v += 3) {
        v[0] = r->value[red[i * step]];
        v[1] = r->value[green[i * step]];
        v[2] = r->value[blue[i * step]];
    }
}

static void
read_codes(const Reader *r, float *v, int y, int from, int n)
{
    const VaeColourRgb k = r->rgb;
    int codes[CHUNK];
    for (int c = 0; c < 3; c++) {
        load(r, c, y, from, codes, n);
        if (r->layout->depth <= 12)
            for (int i = 0; i < n; i++)
                v[3 * i + c] = r->value[codes[i]];
        else
            for (int i = 0; i < n; i++)
                v[3 * i + c] =
                    vae_colour_rgb_value(&k, codes[i], r->mid, r->step);
    }
}

/* Chroma part c at columns from..from+n-1, in sixteenths of a code. */
static void
upsample(const Reader *r, int c, int y, int from, int n, int *to)
{
    const VaePicture *p = r->a->picture;
    const int sub = r->layout->sub_x, last = vae_part_width(p, c) - 1;
    /* Samples first - 1..first + count are needed, at 0..count + 1. */
    const int first = from >> sub, count = sub ? (n + 1) / 2 : n;
    const int begin = first ? first - 1 : 0, end = smaller(first + count, last);
    const int loaded = end - begin + 1, skip = first ? 0 : 1;
    int above[CHUNK + 2], below[CHUNK + 2], y0, y1;
    const int down = vae_colour_between(y, vae_part_height(p, c),
                                        r->layout->sub_y, r->top, &y0, &y1);
    load(r, c, y0, begin, above + skip, loaded);
    load(r, c, y1, begin, below + skip, loaded);
    for (int i = skip; i < skip + loaded; i++)
        above[i] = down * above[i] + (4 - down) * below[i];
    if (skip)
        above[0] = above[1];
    if (first + count > last)
        above[count + 1] = above[count];
    const int *x = above + 1;
    if (!sub)
        for (int i = 0; i < n; i++)
            to[i] = 4 * x[i];
    else if (r->left)
        for (int i = 0; i < count; i++) {
            to[2 * i] = 4 * x[i];
            to[2 * i + 1] = 2 * (x[i] + x[i + 1]);
        }
    else
        for (int i = 0; i < count; i++) {
            to[2 * i] = 3 * x[i] + x[i - 1];
            to[2 * i + 1] = 3 * x[i] + x[i + 1];
        }
}

static void
read_yuv(const Reader *r, float *v, int y, int from, int n)
{
    const VaeColourIn k = r->yuv;
    int luma[CHUNK], cb[CHUNK], cr[CHUNK], rgb[3 * CHUNK];
    load(r, 0, y, from, luma, n);
    upsample(r, 1, y, from, n, cb);
    upsample(r, 2, y, from, n, cr);
    for (int i = 0; i < n; i++)
        vae_colour_words(&k, luma[i], cb[i], cr[i], rgb + 3 * i);
    for (int i = 0; i < 3 * n; i++)
        v[i] = vae_colour_value(rgb[i], 65535.0f, r->mid, r->step);
}

/* The first three floats of each pixel. */
static void
read_floats(const Reader *r, float *v, int y, int from, int n)
{
    const VaeSamples *s = &r->part[0];
    const uint8_t *at = vae_sample_at(s, y, from);
    if (s->step == 12)
        memcpy(v, at, (size_t) n * 12);
    else
        for (int i = 0; i < n; i++)
            memcpy(v + 3 * i, at + i * s->step, 12);
}

/* Adds alpha to n pixels of three values, in place. */
static void
add_alpha(const Reader *r, float *v, int y, int from, int n)
{
    const VaeLayout *l = r->layout;
    const VaeSamples s = vae_picture_alpha(r->a->picture);
    const VaeColourRgb k = vae_colour_rgb(8, false);
    for (int i = n - 1; i >= 0; i--) {
        const uint8_t *at = l->alpha ? vae_sample_at(&s, y, from + i) : NULL;
        float alpha = r->a->high;
        if (at && l->bytes == 4)
            memcpy(&alpha, at, sizeof alpha);
        else if (at)
            alpha = vae_colour_rgb_value(&k, *at, r->mid, r->step);
        memmove(v + 4 * i, v + 3 * i, 12);
        v[4 * i + 3] = alpha;
    }
}

static void
read_row(const Reader *r, int y)
{
    const VaePictureInArgs *a = r->a;
    const VaePicture *p = a->picture;
    const size_t size = a->y_type == VAE_TYPE_F32 ? 4 : 2;
    const int line = smaller(y, p->height - 1);
    const size_t k = a->alpha ? 4 : 3;
    uint8_t *to = (uint8_t *) a->y + (size_t) y * a->w * k * size;
    float v[4 * CHUNK];
    for (int from = 0; from < p->width; from += CHUNK) {
        const int n = smaller(CHUNK, p->width - from);
        if (vae_layout_floats(r->layout))
            read_floats(r, v, line, from, n);
        else if (r->layout->yuv)
            read_yuv(r, v, line, from, n);
        else if (r->layout->depth == 8)
            read_bytes(r, v, line, from, n);
        else
            read_codes(r, v, line, from, n);
        if (a->alpha)
            add_alpha(r, v, line, from, n);
        r->simd->convert(to + (size_t) from * k * size, a->y_type, v,
                         VAE_TYPE_F32, (size_t) n * k);
    }
    const uint8_t *last = to + (size_t) (p->width - 1) * k * size;
    for (int x = p->width; x < a->w; x++)
        memcpy(to + (size_t) x * k * size, last, k * size);
}

void
vae_cpu_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    Reader r = {.a = a,
                .simd = vae_cpu_simd(q),
                .layout = l,
                .mid = vae_colour_mid(a->low, a->high),
                .step = vae_colour_step(a->low, a->high),
                .left = !p->site_center,
                .top = p->site_top};
    for (int c = 0; c < 3; c++)
        r.part[c] = vae_picture_samples(p, c);
    if (l->yuv)
        r.yuv = vae_colour_in(p->matrix, p->full_range, l->depth);
    else if (l->depth)
        r.rgb = vae_colour_rgb(l->depth, p->limited_rgb);
    const bool few = !l->yuv && l->depth >= 8 && l->depth <= 12;
    for (int i = 0; few && i < 1 << l->depth; i++)
        r.value[i] = vae_colour_rgb_value(&r.rgb, i, r.mid, r.step);
#pragma omp parallel for num_threads(q->threads) schedule(static)
    for (int y = 0; y < a->h; y++)
        read_row(&r, y);
}
