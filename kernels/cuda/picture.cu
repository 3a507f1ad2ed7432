/*
 * picture.cu: converts pictures to and from the network's frames, see
 * colour.h.
 */
#include "colour.h"
#include "common.cuh"
#include "cuda.h"
#include "pixels.h"

/* Pictures for kernels: what they share. Arrays are read with constant indices
 * only; with others, the compiler copies them to local memory. */
typedef struct Format {
    VaeSamples part[3];
    int width, height;
    int bytes, shift, most;
    int sub_x, sub_y;
    bool yuv, floats, alpha, left, top;
    VaeColourRgb rgb, full;
} Format;

static Format
format_of(const VaePicture *p)
{
    const VaeLayout *l = vae_layout(p->pixels);
    Format f;
    for (int c = 0; c < 3; c++)
        f.part[c] = vae_picture_samples(p, c);
    f.width = p->width;
    f.height = p->height;
    f.bytes = l->bytes;
    f.shift = l->shift;
    f.most = (1 << l->depth) - 1;
    f.sub_x = l->sub_x;
    f.sub_y = l->sub_y;
    f.yuv = l->yuv;
    f.floats = vae_layout_floats(l);
    f.alpha = l->alpha;
    f.left = !p->site_center;
    f.top = p->site_top;
    f.rgb = vae_colour_rgb(f.floats ? 8 : l->depth, p->limited_rgb);
    f.full = vae_colour_rgb(8, false);
    return f;
}

/* The addresses of the parts of each picture; a block has picture blockIdx.z of
 * the launch. */
typedef struct Places {
    uint8_t *data[VAE_PICTURES_CUDA][3];
} Places;

static Places
places_of(const VaePicture *first, int n, size_t next)
{
    Places p = {};
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            p.data[i][c] =
                vae_picture_samples(
                    reinterpret_cast<const VaePicture *>(
                        reinterpret_cast<const uint8_t *>(first) + i * next),
                    c)
                    .data;
    return p;
}

VAE_DEVICE VaeSamples
part_of(const Format &f, const Places &p, int c)
{
    VaeSamples s = f.part[c];
    s.data = p.data[blockIdx.z][c];
    return s;
}

VAE_DEVICE void
put(const Format &f, const VaeSamples &s, int y, int x, int code)
{
    vae_sample_write(vae_sample_at(&s, y, x), f.bytes, f.shift, code);
}

VAE_DEVICE int
get(const Format &f, const VaeSamples &s, int y, int x)
{
    return vae_sample_read(vae_sample_at(&s, y, x), f.bytes, f.shift, f.most);
}

/* -------------------------------------------------------------- out */

typedef struct Out {
    Format to;
    VaeColourOut colour;
    bool alpha; /* the network has it */
    bool four;  /* pixels have four bytes ... */
    bool whole; /* ... which are written at once */
    int at[3];  /* of the parts in them */
    const void *x;
    size_t frame; /* elements */
    VaeType type;
    int w, c;
    float low, high;
} Out;

VAE_DEVICE float
value(const Out &o, int y, int x, int c)
{
    return vae_load(o.x, o.type,
                    blockIdx.z * o.frame + ((size_t) y * o.w + x) * o.c + c);
}

/* One thread per pixel. */
VAE_KERNEL void
/* cppcheck-suppress passedByValue ; a kernel takes no reference */
out_rgb(Out o, Places p)
{
    const Format &f = o.to;
    const int x = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int y = (int) blockIdx.y;
    if (x >= f.width)
        return;
    uint32_t word = 0;
    VAE_UNROLL
    for (int c = 0; c < 3; c++) {
        const VaeSamples s = part_of(f, p, c);
        uint8_t *at = vae_sample_at(&s, y, x);
        const float v = value(o, y, x, c);
        if (f.floats) {
            *reinterpret_cast<float *>(at) = v;
            continue;
        }
        const int code =
            vae_colour_rgb_code(&f.rgb, vae_colour_unit(v, o.low, o.high));
        if (o.whole)
            word |= (uint32_t) code << 8 * o.at[c];
        else
            vae_sample_write(at, f.bytes, f.shift, code);
    }
    const VaeSamples s = part_of(f, p, 0);
    const float v = o.alpha ? value(o, y, x, 3) : o.high;
    if (f.floats && f.alpha)
        reinterpret_cast<float *>(vae_sample_at(&s, y, x))[3] = v;
    if (!o.four)
        return;
    const uint32_t alpha = o.alpha && f.alpha
                               ? (uint32_t) vae_colour_rgb_code(
                                     &f.full, vae_colour_unit(v, o.low, o.high))
                               : 255;
    uint8_t *pixel = s.data - o.at[0] + y * s.stride + 4 * x;
    if (o.whole)
        *reinterpret_cast<uint32_t *>(pixel) = word | alpha << 24;
    else
        pixel[3] = (uint8_t) alpha;
}

/* The words of a visible pixel, coordinates clamped to the picture. */
VAE_DEVICE void
words(const Out &o, int y, int x, int *rgb)
{
    x = x < 0 ? 0 : x < o.to.width ? x : o.to.width - 1;
    y = y < 0 ? 0 : y < o.to.height ? y : o.to.height - 1;
    for (int c = 0; c < 3; c++)
        rgb[c] =
            vae_colour_word(vae_colour_unit(value(o, y, x, c), o.low, o.high));
}

/* One thread per chroma sample and its pixels. */
VAE_KERNEL void
/* cppcheck-suppress passedByValue ; a kernel takes no reference */
out_yuv(Out o, Places p)
{
    const Format &f = o.to;
    const VaeColourOut &k = o.colour;
    const int i = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int j = (int) blockIdx.y;
    if (i << f.sub_x >= f.width)
        return;
    const int bits = vae_colour_tap_sum(f.sub_x, f.left) +
                     vae_colour_tap_sum(f.sub_y, f.top);
    const int half = 1 << bits >> 1;
    int mean[3] = {half, half, half};
    for (int n = 0; n < 9; n++) {
        const int dy = n / 3 - 1, dx = n % 3 - 1;
        const int y = (j << f.sub_y) + dy, x = (i << f.sub_x) + dx;
        const int weight = vae_colour_tap(dy, f.sub_y, f.top) *
                           vae_colour_tap(dx, f.sub_x, f.left);
        int rgb[3];
        if (!weight)
            continue;
        words(o, y, x, rgb);
        for (int c = 0; c < 3; c++)
            mean[c] += weight * rgb[c];
        if (dx >= 0 && dy >= 0 && x < f.width && y < f.height)
            put(f, part_of(f, p, 0), y, x,
                vae_colour_code(k.y, k.shift, rgb[0], rgb[1], rgb[2]));
    }
    for (int c = 0; c < 3; c++)
        mean[c] >>= bits;
    put(f, part_of(f, p, 1), j, i,
        vae_colour_code(k.u, k.shift, mean[0], mean[1], mean[2]));
    put(f, part_of(f, p, 2), j, i,
        vae_colour_code(k.v, k.shift, mean[0], mean[1], mean[2]));
}

/* True if the pixels of all pictures are at multiples of four bytes. */
static bool
are_aligned(const Places &p, int n, int at, ptrdiff_t stride)
{
    uintptr_t any = (uintptr_t) stride;
    for (int i = 0; i < n; i++)
        any |= (uintptr_t) (p.data[i][0] - at);
    return any % 4 == 0;
}

void
vae_cuda_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    const int w = vae_part_width(p, 1), h = vae_part_height(p, 1);
    const int n = a->n ? a->n : 1;
    const Places places = places_of(p, n, a->next);
    Out o;
    o.to = format_of(p);
    o.colour = vae_colour_out(p->matrix, p->full_range, l->yuv ? l->depth : 8);
    o.four = vae_layout_four(l);
    for (int c = 0; c < 3; c++)
        o.at[c] = l->part[c].at;
    o.whole = o.four && are_aligned(places, n, o.at[0], p->stride[0]);
    o.x = a->x;
    o.type = a->x_type;
    o.w = a->w;
    o.c = a->c ? a->c : 3;
    o.alpha = a->alpha;
    o.frame = (size_t) a->h * a->w * o.c;
    o.low = a->low;
    o.high = a->high;
    const dim3 grid(vae_blocks((size_t) w, VAE_THREADS), (unsigned) h,
                    (unsigned) n);
    if (w > 0 && h > 0)
        vae_launch(l->yuv ? out_yuv : out_rgb, grid, VAE_THREADS, 0, q->stream,
                   o, places);
}

/* --------------------------------------------------------------- in */

typedef struct In {
    Format from;
    VaeColourIn colour;
    void *y;
    size_t frame; /* elements */
    VaeType type;
    int w, c;
    int first; /* bytes of a pixel before its first part */
    int chroma_w, chroma_h;
    float mid, step, high;
    bool alpha; /* the network has it */
} In;

/* U or V at a pixel, in sixteenths of a code. */
VAE_DEVICE int
upsample(const In &in, const VaeSamples &s, int y, int x)
{
    const Format &f = in.from;
    int x0, x1, y0, y1;
    const int wx =
        vae_colour_between(x, in.chroma_w, f.sub_x, f.left, &x0, &x1);
    const int wy = vae_colour_between(y, in.chroma_h, f.sub_y, f.top, &y0, &y1);
    const int a = wx * get(f, s, y0, x0) + (4 - wx) * get(f, s, y0, x1);
    const int b = wx * get(f, s, y1, x0) + (4 - wx) * get(f, s, y1, x1);
    return wy * a + (4 - wy) * b;
}

/* The network's values of the visible pixel (x, y). */
VAE_DEVICE void
read_pixel(const In &in, const Places &p, int y, int x, float *v)
{
    const Format &f = in.from;
    if (f.yuv) {
        int rgb[3];
        vae_colour_words(&in.colour, get(f, part_of(f, p, 0), y, x),
                         upsample(in, part_of(f, p, 1), y, x),
                         upsample(in, part_of(f, p, 2), y, x), rgb);
        VAE_UNROLL
        for (int c = 0; c < 3; c++)
            v[c] = vae_colour_value(rgb[c], 65535.0f, in.mid, in.step);
        return;
    }
    VAE_UNROLL
    for (int c = 0; c < 3; c++) {
        const VaeSamples s = part_of(f, p, c);
        v[c] = f.floats
                   ? *reinterpret_cast<const float *>(vae_sample_at(&s, y, x))
                   : vae_colour_rgb_value(&f.rgb, get(f, s, y, x), in.mid,
                                          in.step);
    }
    if (!f.alpha)
        return;
    VaeSamples s = part_of(f, p, 0);
    if (f.floats) {
        v[3] = reinterpret_cast<const float *>(vae_sample_at(&s, y, x))[3];
    } else {
        s.data += 3 - in.first;
        v[3] = vae_colour_rgb_value(&f.full, *vae_sample_at(&s, y, x), in.mid,
                                    in.step);
    }
}

/* One thread per pixel of the network's frame. */
VAE_KERNEL void
/* cppcheck-suppress passedByValue ; a kernel takes no reference */
picture_in(In in, Places p)
{
    const Format &f = in.from;
    const int x = (int) (blockIdx.x * VAE_THREADS + threadIdx.x);
    const int y = (int) blockIdx.y;
    if (x >= in.w)
        return;
    float v[4] = {0, 0, 0, in.high};
    read_pixel(in, p, y < f.height ? y : f.height - 1,
               x < f.width ? x : f.width - 1, v);
    const size_t at = blockIdx.z * in.frame + ((size_t) y * in.w + x) * in.c;
    VAE_UNROLL
    for (int c = 0; c < 3; c++)
        vae_store(in.y, in.type, at + c, v[c]);
    for (int c = 3; c < in.c; c++)
        vae_store(in.y, in.type, at + c, c == 3 && in.alpha ? v[3] : 0);
}

void
vae_cuda_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    const int n = a->n ? a->n : 1;
    In in;
    in.from = format_of(p);
    in.colour = vae_colour_in(p->matrix, p->full_range, l->yuv ? l->depth : 8);
    in.chroma_w = vae_part_width(p, 1);
    in.chroma_h = vae_part_height(p, 1);
    in.y = a->y;
    in.type = a->y_type;
    in.w = a->w;
    in.c = a->c ? a->c : 3;
    in.alpha = a->alpha;
    in.high = a->high;
    in.first = l->part[0].at;
    in.frame = (size_t) a->h * a->w * in.c;
    in.mid = vae_colour_mid(a->low, a->high);
    in.step = vae_colour_step(a->low, a->high);
    const dim3 grid(vae_blocks((size_t) a->w, VAE_THREADS), (unsigned) a->h,
                    (unsigned) n);
    if (a->w > 0 && a->h > 0)
        vae_launch(picture_in, grid, VAE_THREADS, 0, q->stream, in,
                   places_of(p, n, a->next));
}
