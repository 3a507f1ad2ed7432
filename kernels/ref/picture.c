/*
 * picture.c: converts pictures to and from the network's frames, see colour.h.
 */
#include "ref.h"
#include "colour.h"
#include "number.h"
#include "pixels.h"

static void
put(const VaePicture *p, int c, int y, int x, int code)
{
    const VaeLayout *l = vae_layout(p->pixels);
    const VaeSamples s = vae_picture_samples(p, c);
    vae_sample_write(vae_sample_at(&s, y, x), l->bytes, l->shift, code);
}

static int
get(const VaePicture *p, int c, int y, int x)
{
    const VaeLayout *l = vae_layout(p->pixels);
    const VaeSamples s = vae_picture_samples(p, c);
    return vae_sample_read(vae_sample_at(&s, y, x), l->bytes, l->shift,
                           (1 << l->depth) - 1);
}

/* The network's values of a pixel. */
static const float *
pixel(const VaePictureOutArgs *a, int y, int x)
{
    return (const float *) a->x + ((size_t) y * a->w + x) * (a->alpha ? 4 : 3);
}

static void
out_floats(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const int n = vae_layout(p->pixels)->alpha ? 4 : 3;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            float v[4] = {0, 0, 0, a->high};
            memcpy(v, pixel(a, y, x), (a->alpha ? 4 : 3) * sizeof *v);
            memcpy(p->data[0] + y * p->stride[0] + (size_t) (x * n) * sizeof *v,
                   v, (size_t) n * sizeof *v);
        }
}

static void
out_rgb(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    const VaeColourRgb k = vae_colour_rgb(l->depth, p->limited_rgb);
    const VaeColourRgb full = vae_colour_rgb(8, false);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            const float *v = pixel(a, y, x);
            for (int c = 0; c < 3; c++)
                put(p, c, y, x,
                    vae_colour_rgb_code(
                        &k, vae_colour_unit(v[c], a->low, a->high)));
            const int alpha =
                l->alpha && a->alpha
                    ? vae_colour_rgb_code(
                          &full, vae_colour_unit(v[3], a->low, a->high))
                    : 255;
            if (vae_layout_four(l))
                p->data[0][y * p->stride[0] + 4 * x + 3] = (uint8_t) alpha;
        }
}

/* Adds weight times the words of a visible pixel, coordinates clamped. */
static void
add_words(const VaePictureOutArgs *a, int x, int y, int weight, int *sum)
{
    const VaePicture *p = a->picture;
    x = x < 0 ? 0 : x < p->width ? x : p->width - 1;
    y = y < 0 ? 0 : y < p->height ? y : p->height - 1;
    const float *v = pixel(a, y, x);
    for (int i = 0; i < 3; i++)
        sum[i] +=
            weight * vae_colour_word(vae_colour_unit(v[i], a->low, a->high));
}

/* The words of chroma sample (x, y). */
static void
chroma(const VaePictureOutArgs *a, int x, int y, int *mean)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    const bool left = !p->site_center, top = p->site_top;
    const int bits =
        vae_colour_tap_sum(l->sub_x, left) + vae_colour_tap_sum(l->sub_y, top);
    mean[0] = mean[1] = mean[2] = 1 << bits >> 1;
    for (int i = -1; i <= 1; i++)
        for (int j = -1; j <= 1; j++)
            add_words(a, (x << l->sub_x) + j, (y << l->sub_y) + i,
                      vae_colour_tap(i, l->sub_y, top) *
                          vae_colour_tap(j, l->sub_x, left),
                      mean);
    for (int i = 0; i < 3; i++)
        mean[i] >>= bits;
}

static void
out_yuv(const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeColourOut k =
        vae_colour_out(p->matrix, p->full_range, vae_layout(p->pixels)->depth);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            int m[3] = {0};
            add_words(a, x, y, 1, m);
            put(p, 0, y, x, vae_colour_code(k.y, k.shift, m[0], m[1], m[2]));
        }
    for (int y = 0; y < vae_part_height(p, 1); y++)
        for (int x = 0; x < vae_part_width(p, 1); x++) {
            int m[3];
            chroma(a, x, y, m);
            put(p, 1, y, x, vae_colour_code(k.u, k.shift, m[0], m[1], m[2]));
            put(p, 2, y, x, vae_colour_code(k.v, k.shift, m[0], m[1], m[2]));
        }
}

void
vae_ref_picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    if (vae_layout_floats(vae_layout(a->picture->pixels)))
        out_floats(a);
    else if (vae_layout(a->picture->pixels)->yuv)
        out_yuv(a);
    else
        out_rgb(a);
}

/* U (part 1) or V (part 2) at a pixel, in sixteenths of a code. */
static int
upsample(const VaePicture *p, int part, int x, int y)
{
    const VaeLayout *l = vae_layout(p->pixels);
    int x0, x1, y0, y1;
    const int wx = vae_colour_between(x, vae_part_width(p, part), l->sub_x,
                                      !p->site_center, &x0, &x1);
    const int wy = vae_colour_between(y, vae_part_height(p, part), l->sub_y,
                                      p->site_top, &y0, &y1);
    return wy * (wx * get(p, part, y0, x0) + (4 - wx) * get(p, part, y0, x1)) +
           (4 - wy) *
               (wx * get(p, part, y1, x0) + (4 - wx) * get(p, part, y1, x1));
}

/* The network's values of the visible pixel (x, y). */
static void
read_pixel(const VaePictureInArgs *a, const VaeColourIn *k, int x, int y,
           float *v)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    const float mid = vae_colour_mid(a->low, a->high);
    const float step = vae_colour_step(a->low, a->high);
    if (l->yuv) {
        int rgb[3];
        vae_colour_words(k, get(p, 0, y, x), upsample(p, 1, x, y),
                         upsample(p, 2, x, y), rgb);
        for (int i = 0; i < 3; i++)
            v[i] = vae_colour_value(rgb[i], 65535.0f, mid, step);
    } else if (vae_layout_floats(l)) {
        const VaeSamples s = vae_picture_samples(p, 0);
        memcpy(v, vae_sample_at(&s, y, x), l->alpha ? 16 : 12);
    } else {
        const VaeColourRgb rgb = vae_colour_rgb(l->depth, p->limited_rgb);
        for (int i = 0; i < 3; i++)
            v[i] = vae_colour_rgb_value(&rgb, get(p, i, y, x), mid, step);
        if (l->alpha) {
            const VaeColourRgb full = vae_colour_rgb(8, false);
            const VaeSamples s = vae_picture_alpha(p);
            v[3] = vae_colour_rgb_value(&full, *vae_sample_at(&s, y, x), mid,
                                        step);
        }
    }
}

void
vae_ref_picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeLayout *l = vae_layout(p->pixels);
    VaeColourIn k = {0};
    if (l->yuv)
        k = vae_colour_in(p->matrix, p->full_range, l->depth);
    for (int y = 0; y < a->h; y++)
        for (int x = 0; x < a->w; x++) {
            float v[4] = {0, 0, 0, a->high};
            read_pixel(a, &k, x < p->width ? x : p->width - 1,
                       y < p->height ? y : p->height - 1, v);
            const int n = a->alpha ? 4 : 3;
            for (int i = 0; i < n; i++)
                vae_store(a->y, a->y_type, ((size_t) y * a->w + x) * n + i,
                          v[i]);
        }
}
