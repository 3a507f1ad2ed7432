/*
 * check_picture.c: pictures against an exact colour converter in double.
 *
 * The kernels' codes may differ from the real number by the final rounding,
 * 0.5, and by what colour.h states for its fixed point: 0.02.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "number.h"

/* Memory of a picture; every plane in a guarded buffer of its own. */
typedef struct Frame {
    VaePicture p;
    size_t bytes[3];
} Frame;

static bool
is_yuv(VaePixels pixels)
{
    return pixels == VAE_PIXELS_I420 || pixels == VAE_PIXELS_NV12;
}

static int
pixel_bytes(VaePixels pixels)
{
    return pixels == VAE_PIXELS_RGB_F32 ? 12
           : pixels == VAE_PIXELS_RGB   ? 3
           : is_yuv(pixels)             ? 1
                                        : 4;
}

/* like: the format. extra: bytes of a row past its pixels. */
static Frame
frame_new(VaeCheck *t, VaePicture like, int extra, int fill)
{
    Frame f = {.p = like};
    const int cw = (like.width + 1) / 2, ch = (like.height + 1) / 2;
    const int unit = like.pixels == VAE_PIXELS_RGB_F32 ? 4 : 1;
    const int rows[3] = {like.height, ch, ch};
    const int size[3] = {like.width * pixel_bytes(like.pixels),
                         like.pixels == VAE_PIXELS_NV12 ? 2 * cw : cw, cw};
    const int planes = like.pixels == VAE_PIXELS_I420   ? 3
                       : like.pixels == VAE_PIXELS_NV12 ? 2
                                                        : 1;
    for (int i = 0; i < planes; i++) {
        f.p.stride[i] = size[i] + extra * unit;
        f.bytes[i] = (size_t) f.p.stride[i] * (rows[i] - 1) + size[i];
        f.p.data[i] = vae_check_buffer(t, f.bytes[i], unit);
        memset(f.p.data[i], fill, f.bytes[i]);
    }
    return f;
}

static const uint8_t *
place(const VaePicture *p, int x, int y)
{
    return p->data[0] + y * p->stride[0] + x * pixel_bytes(p->pixels);
}

/* Where colour c is in a pixel of an RGB kind. */
static int
byte_of(VaePixels pixels, int c)
{
    return pixels == VAE_PIXELS_BGRX ? 2 - c : c;
}

/* Chroma sample c (0: U, 1: V) at (x, y) of its plane. */
static int
chroma_at(const VaePicture *p, int c, int x, int y)
{
    if (p->pixels == VAE_PIXELS_NV12)
        return p->data[1][y * p->stride[1] + 2 * x + c];
    return p->data[1 + c][y * p->stride[1 + c] + x];
}

/* ------------------------------------------------ exact colour, double */

typedef struct Weights {
    double kr, kg, kb;
    double black, luma, chroma; /* of the codes */
} Weights;

static Weights
weights(const VaePicture *p)
{
    Weights k = {0.299, 0, 0.114, 0, 255, 255};
    if (p->matrix == VAE_MATRIX_BT709) {
        k.kr = 0.2126;
        k.kb = 0.0722;
    }
    k.kg = 1 - k.kr - k.kb;
    if (!p->full_range) {
        k.black = 16;
        k.luma = 219;
        k.chroma = 224;
    }
    return k;
}

static void
to_yuv(const Weights *k, const double *rgb, double *yuv)
{
    const double y = k->kr * rgb[0] + k->kg * rgb[1] + k->kb * rgb[2];
    yuv[0] = k->black + k->luma * y;
    yuv[1] = 128 + k->chroma * (rgb[2] - y) / (2 * (1 - k->kb));
    yuv[2] = 128 + k->chroma * (rgb[0] - y) / (2 * (1 - k->kr));
}

static double
clamp01(double v)
{
    return v > 0 ? fmin(v, 1) : 0; /* NaN to 0 */
}

static void
to_rgb(const Weights *k, const double *yuv, double *rgb)
{
    const double y = (yuv[0] - k->black) / k->luma;
    const double u = (yuv[1] - 128) / k->chroma;
    const double v = (yuv[2] - 128) / k->chroma;
    rgb[0] = clamp01(y + 2 * (1 - k->kr) * v);
    rgb[2] = clamp01(y + 2 * (1 - k->kb) * u);
    rgb[1] = clamp01(
        y -
        (2 * (1 - k->kb) * k->kb * u + 2 * (1 - k->kr) * k->kr * v) / k->kg);
}

static int
within(int i, int n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* ---------------------------------------------------------------- out */

static void
unit_at(const VaePictureOutArgs *a, int x, int y, double *rgb)
{
    x = within(x, a->picture->width);
    y = within(y, a->picture->height);
    for (int c = 0; c < 3; c++)
        rgb[c] = clamp01(
            ((double) ((const float *) a->x)[((size_t) y * a->w + x) * 3 + c] -
             a->low) /
            ((double) a->high - a->low));
}

static void
near(VaeCheck *t, const char *what, int x, int y, int code, double want)
{
    if (!(fabs(code - fmin(fmax(want, 0), 255)) <= 0.52))
        vae_check_fail(t, "%s at %d, %d: found %d, wanted %.4f", what, x, y,
                       code, want);
}

static void
exact_luma(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const Weights k = weights(p);
    double rgb[3], yuv[3];
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            unit_at(a, x, y, rgb);
            to_yuv(&k, rgb, yuv);
            near(t, "Y", x, y, *place(p, x, y), yuv[0]);
        }
}

static void
exact_chroma(VaeCheck *t, const VaePictureOutArgs *a)
{
    static const double left[] = {0.25, 0.5, 0.25}, centre[] = {0, 0.5, 0.5};
    const VaePicture *p = a->picture;
    const Weights k = weights(p);
    const double *along = p->site_center ? centre : left;
    for (int y = 0; y < (p->height + 1) / 2; y++)
        for (int x = 0; x < (p->width + 1) / 2; x++) {
            double mean[3] = {0}, rgb[3], yuv[3];
            for (int i = 0; i < 6; i++) {
                unit_at(a, 2 * x + i % 3 - 1, 2 * y + i / 3, rgb);
                for (int c = 0; c < 3; c++)
                    mean[c] += rgb[c] * along[i % 3] / 2;
            }
            to_yuv(&k, mean, yuv);
            near(t, "U", x, y, chroma_at(p, 0, x, y), yuv[1]);
            near(t, "V", x, y, chroma_at(p, 1, x, y), yuv[2]);
        }
}

static void
exact_rgb(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const int size = pixel_bytes(p->pixels);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            const float *v = (const float *) a->x + ((size_t) y * a->w + x) * 3;
            const uint8_t *got = place(p, x, y);
            for (int c = 0; c < 3; c++) {
                float u = a->low < 0 ? (v[c] + 1) / 2 : v[c];
                u = u > 0 ? fminf(u, 1) : 0;
                const long want = lrintf(u * 255);
                const int code = got[byte_of(p->pixels, c)];
                if (code != want)
                    vae_check_fail(t, "%d, %d: found %d, wanted %ld", x, y,
                                   code, want);
            }
            if (size == 4 && got[3] != 255)
                vae_check_fail(t, "%d, %d: byte 3 is %d", x, y, got[3]);
        }
}

static void
exact_floats(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    for (int y = 0; y < p->height; y++)
        vae_check_equal(t, "floats", place(p, 0, y),
                        (const float *) a->x + (size_t) y * a->w * 3,
                        (size_t) p->width * 12);
}

/* Bytes past the pixels of a row must stay as they were filled. */
static void
padding(VaeCheck *t, const Frame *f, int fill)
{
    const VaePicture *p = &f->p;
    const size_t size = (size_t) p->width * pixel_bytes(p->pixels);
    for (size_t i = 0; i < f->bytes[0]; i++)
        if (i % (size_t) p->stride[0] >= size && p->data[0][i] != fill) {
            vae_check_fail(t, "padding byte %zu was written", i);
            return;
        }
}

/* Twice over different bytes: one that is not written differs once. */
static void
run_out(VaeCheck *t, VaePictureOutArgs a, int extra)
{
    const VaePicture like = *a.picture;
    for (int fill = 0x33; fill < 0x100; fill += 0x99) {
        Frame ref = frame_new(t, like, extra, fill);
        a.picture = &ref.p;
        t->ref->picture_out(&t->queue, &a);
        padding(t, &ref, fill);
        if (like.pixels == VAE_PIXELS_RGB_F32) {
            exact_floats(t, &a);
        } else if (is_yuv(like.pixels)) {
            exact_luma(t, &a);
            exact_chroma(t, &a);
        } else {
            exact_rgb(t, &a);
        }
        VaeQueue q;
        for (size_t i = 0; t->dut && vae_check_queue(i, &q); i++) {
            Frame dut = frame_new(t, like, extra, fill);
            a.picture = &dut.p;
            t->dut->picture_out(&q, &a);
            for (int k = 0; k < 3; k++)
                vae_check_equal(t, "plane", dut.p.data[k], ref.p.data[k],
                                ref.bytes[k]);
        }
    }
}

/* ----------------------------------------------------------------- in */

/* The chroma sample at a luma position, bilinear from its two by two. */
static double
chroma_between(const VaePicture *p, int c, int x, int y)
{
    const int cw = (p->width + 1) / 2, ch = (p->height + 1) / 2;
    const double px = p->site_center ? (x - 0.5) / 2 : x / 2.0;
    const double py = (y - 0.5) / 2;
    const int x0 = (int) floor(px), y0 = (int) floor(py);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        const int dx = i & 1, dy = i >> 1;
        const double wx = dx ? px - x0 : 1 - (px - x0);
        const double wy = dy ? py - y0 : 1 - (py - y0);
        sum +=
            wx * wy * chroma_at(p, c, within(x0 + dx, cw), within(y0 + dy, ch));
    }
    return sum;
}

static void
want_in(const VaePictureInArgs *a, int x, int y, float *v)
{
    const VaePicture *p = a->picture;
    const Weights k = weights(p);
    const uint8_t *at = place(p, x, y);
    if (p->pixels == VAE_PIXELS_RGB_F32) {
        memcpy(v, at, 12);
        return;
    }
    if (is_yuv(p->pixels)) {
        double rgb[3];
        const double yuv[3] = {*at, chroma_between(p, 0, x, y),
                               chroma_between(p, 1, x, y)};
        to_rgb(&k, yuv, rgb);
        for (int c = 0; c < 3; c++)
            v[c] = (float) (a->low + rgb[c] * (a->high - a->low));
        return;
    }
    for (int c = 0; c < 3; c++) {
        const float u = (float) at[byte_of(p->pixels, c)] / 255.0f;
        v[c] = a->low < 0 ? (u - 0.5f) / 0.5f : u;
    }
}

/* All of the network's frame, the repeated edges too. Of YUV one word of
 * rounding and fixed point, in u; nothing of the others. */
static void
exact_in(VaeCheck *t, const VaePictureInArgs *a, const float *got)
{
    const VaePicture *p = a->picture;
    const double bound =
        is_yuv(p->pixels) ? (a->high - a->low) * (1 / 65535.0 + 1e-7) : 0;
    for (int y = 0; y < a->h; y++)
        for (int x = 0; x < a->w; x++, got += 3) {
            float want[3];
            want_in(a, within(x, p->width), within(y, p->height), want);
            for (int c = 0; c < 3; c++)
                if (!(fabsf(got[c] - want[c]) <= bound) &&
                    !(isnan(got[c]) && isnan(want[c])))
                    vae_check_fail(t, "%d, %d: found %.9g, wanted %.9g", x, y,
                                   got[c], want[c]);
        }
}

static void
run_in(VaeCheck *t, VaePictureInArgs a)
{
    const size_t n = (size_t) a.h * a.w * 3;
    float *ref = vae_check_buffer(t, n * 4, 4);
    a.y = ref;
    t->ref->picture_in(&t->queue, &a);
    exact_in(t, &a, ref);
    const uint16_t *ref16 = vae_check_bf16(t, ref, n);
    VaeQueue q;
    for (size_t i = 0; t->dut && vae_check_queue(i, &q); i++) {
        float *dut = vae_check_buffer(t, n * 4, 4);
        uint16_t *dut16 = vae_check_buffer(t, n * 2, 2);
        a.y = dut;
        a.y_type = VAE_TYPE_F32;
        t->dut->picture_in(&q, &a);
        vae_check_equal(t, "frame", dut, ref, n * 4);
        a.y = dut16;
        a.y_type = VAE_TYPE_BF16;
        t->dut->picture_in(&q, &a);
        vae_check_equal(t, "BF16 frame", dut16, ref16, n * 2);
    }
}

/* -------------------------------------------------------------- cases */

typedef struct Case {
    VaePicture like;
    float low;
    int extra, pad_w, pad_h;
} Case;

static bool
begin(VaeCheck *t, const char *what, const Case *c)
{
    static const char *const names[] = {"floats", "rgb",  "rgba",
                                        "bgrx",   "i420", "nv12"};
    const VaePicture *p = &c->like;
    return vae_check_begin(t, "picture_%s_%s_%dx%d%s%s%s_low%g_s%d_p%dx%d",
                           what, names[p->pixels], p->width, p->height,
                           !is_yuv(p->pixels)              ? ""
                           : p->matrix == VAE_MATRIX_BT709 ? "_709"
                                                           : "_601",
                           p->full_range ? "_full" : "",
                           p->site_center ? "_centre" : "", c->low, c->extra,
                           c->pad_w, c->pad_h);
}

static void
case_out(VaeCheck *t, const Case *c)
{
    if (!begin(t, "out", c))
        return;
    const int h = c->like.height + c->pad_h, w = c->like.width + c->pad_w;
    const size_t n = (size_t) h * w * 3;
    float *x = vae_check_random(t, n, c->low < 0 ? 0.7f : 0.35f);
    static const float special[] = {NAN, INFINITY, -INFINITY, 1e30f,
                                    -1,  1,        0,         -0.0f};
    for (size_t i = 0; i < n; i++)
        x[i] += c->low < 0 ? 0 : 0.5f;
    for (size_t i = 0; i < VAE_COUNT(special); i++)
        x[vae_check_bits(t) % n] = special[i];
    run_out(t,
            (VaePictureOutArgs){.picture = &c->like,
                                .x = x,
                                .h = h,
                                .w = w,
                                .low = c->low,
                                .high = 1},
            c->extra);
}

static void
case_in(VaeCheck *t, const Case *c)
{
    if (!begin(t, "in", c))
        return;
    Frame f = frame_new(t, c->like, c->extra, 0);
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < f.bytes[k]; i++)
            f.p.data[k][i] = (uint8_t) vae_check_bits(t);
    if (c->like.pixels == VAE_PIXELS_RGB_F32)
        for (size_t i = 0; i < f.bytes[0] / 4; i++)
            ((float *) f.p.data[0])[i] = (float) vae_check_range(t, -99, 99);
    run_in(t, (VaePictureInArgs){.picture = &f.p,
                                 .h = c->like.height + c->pad_h,
                                 .w = c->like.width + c->pad_w,
                                 .low = c->low,
                                 .high = 1});
}

static void
each(VaeCheck *t, void (*run)(VaeCheck *t, const Case *c))
{
    /* width, height, padding of the network's size, bytes past a row */
    static const int sizes[][5] = {
        {1, 1, 7, 7, 0},   {2, 2, 0, 0, 3},   {7, 5, 1, 3, 1},
        {16, 8, 0, 0, 16}, {129, 3, 7, 5, 2}, {258, 6, 0, 2, 5},
        {301, 7, 3, 1, 0},
    };
    for (size_t i = 0; i < VAE_COUNT(sizes); i++)
        for (int pixels = 0; pixels <= VAE_PIXELS_NV12; pixels++)
            for (int bits = 0; bits < 16; bits++) {
                const int *s = sizes[i];
                const Case c = {.like = {.pixels = (VaePixels) pixels,
                                         .width = s[0],
                                         .height = s[1],
                                         .matrix = bits & 2 ? VAE_MATRIX_BT709
                                                            : VAE_MATRIX_BT601,
                                         .full_range = bits & 4,
                                         .site_center = bits & 8},
                                .low = bits & 1 ? 0 : -1,
                                .pad_w = s[2],
                                .pad_h = s[3],
                                .extra = s[4]};
                if (bits < 2 || is_yuv(c.like.pixels))
                    run(t, &c);
            }
}

static void
check_out(VaeCheck *t)
{
    each(t, case_out);
}

static void
check_in(VaeCheck *t)
{
    each(t, case_in);
}

/* Pictures of one colour each, the corners of RGB, where codes end. */
static void
check_corners(VaeCheck *t)
{
    for (int bits = 0; bits < 8; bits++) {
        if (!vae_check_begin(t, "picture_corners_%d", bits))
            continue;
        const VaePicture like = {.pixels = VAE_PIXELS_NV12,
                                 .width = 5,
                                 .height = 3,
                                 .matrix = bits & 1 ? VAE_MATRIX_BT709
                                                    : VAE_MATRIX_BT601,
                                 .full_range = bits & 2,
                                 .site_center = bits & 4};
        float *x = vae_check_buffer(t, 45 * 4, 4);
        for (int corner = 0; corner < 8; corner++) {
            for (int i = 0; i < 45; i++)
                x[i] = corner >> i % 3 & 1 ? 1 : -1;
            run_out(t,
                    (VaePictureOutArgs){.picture = &like,
                                        .x = x,
                                        .h = 3,
                                        .w = 5,
                                        .low = -1,
                                        .high = 1},
                    0);
        }
    }
}

/* Every code of RGB, in and out again, is itself; both ranges. */
static void
check_round_trip_rgb(VaeCheck *t)
{
    for (int low = -1; low <= 0; low++) {
        if (!vae_check_begin(t, "picture_round_trip_rgb_low%d", low))
            continue;
        const VaePicture like = {
            .pixels = VAE_PIXELS_RGB, .width = 256, .height = 1};
        Frame in = frame_new(t, like, 0, 0), out = frame_new(t, like, 0, 0);
        float *x = vae_check_buffer(t, 768 * 4, 4);
        for (int i = 0; i < 768; i++)
            in.p.data[0][i] = (uint8_t) (i / 3);
        const VaePictureInArgs a = {.y = x,
                                    .picture = &in.p,
                                    .h = 1,
                                    .w = 256,
                                    .low = (float) low,
                                    .high = 1};
        const VaePictureOutArgs b = {.picture = &out.p,
                                     .x = x,
                                     .h = 1,
                                     .w = 256,
                                     .low = (float) low,
                                     .high = 1};
        t->ref->picture_in(&t->queue, &a);
        t->ref->picture_out(&t->queue, &b);
        vae_check_equal(t, "codes", out.p.data[0], in.p.data[0], 768);
    }
}

/* A picture of one colour, from YUV and back, is itself where the colour is
 * inside RGB: words are fine enough that nothing is lost. */
static void
check_round_trip_yuv(VaeCheck *t)
{
    for (int bits = 0; bits < 8; bits++) {
        if (!vae_check_begin(t, "picture_round_trip_yuv_%d", bits))
            continue;
        const VaePicture like = {.pixels = VAE_PIXELS_I420,
                                 .width = 3,
                                 .height = 3,
                                 .matrix = bits & 1 ? VAE_MATRIX_BT709
                                                    : VAE_MATRIX_BT601,
                                 .full_range = bits & 2,
                                 .site_center = bits & 4};
        Frame in = frame_new(t, like, 0, 0), out = frame_new(t, like, 0, 0);
        float *x = vae_check_buffer(t, 27 * 4, 4);
        const Weights k = weights(&like);
        for (int i = 0; i < 1000; i++) {
            double rgb[3], yuv[3];
            for (int c = 0; c < 3; c++)
                rgb[c] = 0.02 + 0.96 * vae_check_range(t, 0, 1000) / 1000;
            to_yuv(&k, rgb, yuv);
            for (int c = 0; c < 3; c++)
                memset(in.p.data[c], (int) lrint(yuv[c]), in.bytes[c]);
            t->ref->picture_in(&t->queue, &(VaePictureInArgs){.y = x,
                                                              .picture = &in.p,
                                                              .h = 3,
                                                              .w = 3,
                                                              .low = -1,
                                                              .high = 1});
            t->ref->picture_out(&t->queue,
                                &(VaePictureOutArgs){.picture = &out.p,
                                                     .x = x,
                                                     .h = 3,
                                                     .w = 3,
                                                     .low = -1,
                                                     .high = 1});
            for (int c = 0; c < 3; c++)
                vae_check_equal(t, "codes", out.p.data[c], in.p.data[c],
                                in.bytes[c]);
        }
    }
}

/* Greys have chroma 128 exactly, black and white the ends of the range. */
static void
check_greys(VaeCheck *t)
{
    for (int bits = 0; bits < 4; bits++) {
        if (!vae_check_begin(t, "picture_greys_%d", bits))
            continue;
        const bool full = bits & 2;
        const VaePicture like = {.pixels = VAE_PIXELS_I420,
                                 .width = 1001,
                                 .height = 1,
                                 .matrix = bits & 1 ? VAE_MATRIX_BT709
                                                    : VAE_MATRIX_BT601,
                                 .full_range = full};
        Frame f = frame_new(t, like, 0, 0);
        float *x = vae_check_buffer(t, 3003 * 4, 4);
        for (int i = 0; i < 3003; i++)
            x[i] = (float) (i / 3) / 1000;
        t->ref->picture_out(&t->queue, &(VaePictureOutArgs){.picture = &f.p,
                                                            .x = x,
                                                            .h = 1,
                                                            .w = 1001,
                                                            .low = 0,
                                                            .high = 1});
        vae_check_that(t, f.p.data[0][0] == (full ? 0 : 16), "black");
        vae_check_that(t, f.p.data[0][1000] == (full ? 255 : 235), "white");
        for (int i = 0; i < 501; i++)
            vae_check_that(t, f.p.data[1][i] == 128 && f.p.data[2][i] == 128,
                           "a grey has colour");
    }
}

static void
check_speed(VaeCheck *t)
{
    if (!t->bench || !t->dut)
        return;
    for (int pixels = 0; pixels <= VAE_PIXELS_NV12; pixels++)
        for (int in = 0; in < 2; in++) {
            if (!vae_check_begin(t, "picture_speed_%s_%d", in ? "in" : "out",
                                 pixels))
                continue;
            const VaePicture like = {
                .pixels = (VaePixels) pixels, .width = 1920, .height = 1080};
            Frame f = frame_new(t, like, 0, 0);
            const size_t n = (size_t) 1920 * 1080 * 3;
            float *x = vae_check_random(t, n, 0.5f);
            const VaePictureInArgs a = {.y = x,
                                        .picture = &f.p,
                                        .h = 1080,
                                        .w = 1920,
                                        .low = -1,
                                        .high = 1};
            const VaePictureOutArgs b = {.picture = &f.p,
                                         .x = x,
                                         .h = 1080,
                                         .w = 1920,
                                         .low = -1,
                                         .high = 1};
            const double bytes =
                (double) (n * 4 + f.bytes[0] + f.bytes[1] + f.bytes[2]);
            while (vae_check_bench(t, bytes, 0))
                if (in)
                    t->dut->picture_in(&t->queue, &a);
                else
                    t->dut->picture_out(&t->queue, &b);
        }
}

int
main(int argc, char **argv)
{
    static const VaeCheckFunc all[] = {check_out,
                                       check_in,
                                       check_corners,
                                       check_round_trip_rgb,
                                       check_round_trip_yuv,
                                       check_greys,
                                       check_speed};
    return vae_check_main(argc, argv, all, VAE_COUNT(all));
}
