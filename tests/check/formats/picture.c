/*
 * picture.c: compares the conversion of pictures with an exact converter in
 * double.
 *
 * A code of the kernels may differ from the real number by the final rounding,
 * 0.5, and by the error that colour.h states for its fixed point: 0.02 for
 * codes of 8 bits, 0.06 for codes of 10.
 */

#include "../check.h"
#include "number.h"
#include "picture_kinds.h"

/* A picture whose planes are in separate guarded buffers. */
typedef struct Frame {
    VaePicture p;
    size_t bytes[3];
} Frame;

/* Allocates a picture with the format of `like`. extra: number of samples of a
 * row after its pixels. */
static Frame
frame_new(VaeCheck *t, VaePicture like, int extra, int fill)
{
    Frame f = {.p = like};
    const int unit = vae_kind_bytes(like.pixels);
    for (int i = 0; i < 3; i++) {
        const int size = vae_kind_row(&like, i);
        if (!size)
            continue;
        f.p.stride[i] = size + extra * unit;
        f.bytes[i] =
            (size_t) f.p.stride[i] *
                (vae_kind_rows(&like, i && vae_kind_yuv(like.pixels)) - 1) +
            size;
        f.p.data[i] = vae_check_buffer(t, f.bytes[i], unit);
        memset(f.p.data[i], fill, f.bytes[i]);
    }
    return f;
}

/* The arguments for a picture, and h x w pixels from low to 1 of the network.
 */
static VaePictureOutArgs
out_args(const VaePicture *p, const float *x, int h, int w, float low,
         bool alpha)
{
    return (VaePictureOutArgs){.picture = p,
                               .x = x,
                               .h = h,
                               .w = w,
                               .low = low,
                               .high = 1,
                               .c = alpha ? 4 : 3,
                               .alpha = alpha};
}

static VaePictureInArgs
in_args(const VaePicture *p, float *y, int h, int w, float low, bool alpha)
{
    return (VaePictureInArgs){.picture = p,
                              .y = y,
                              .h = h,
                              .w = w,
                              .low = low,
                              .high = 1,
                              .c = alpha ? 4 : 3,
                              .alpha = alpha};
}

static int
within(int i, int n)
{
    return i < 0 ? 0 : i < n ? i : n - 1;
}

/* ---------------------------------------------------------------- out */

static const float *
pixel_at(const VaePictureOutArgs *a, int x, int y)
{
    return (const float *) a->x + ((size_t) y * a->w + x) * a->c;
}

/* The code of eight bits of a value. */
static int
byte_of(float v, float low)
{
    const float u = low < 0 ? (v + 1) / 2 : v;
    return (int) lrintf((u > 0 ? fminf(u, 1) : 0) * 255);
}

static void
unit_at(const VaePictureOutArgs *a, int x, int y, double *rgb)
{
    x = within(x, a->picture->width);
    y = within(y, a->picture->height);
    for (int c = 0; c < 3; c++)
        rgb[c] = vae_exact_unit(((double) pixel_at(a, x, y)[c] - a->low) /
                                ((double) a->high - a->low));
}

static void
near(VaeCheck *t, const VaePicture *p, int c, int x, int y, double want)
{
    const int code = vae_kind_code(p, c, x, y);
    const double bound =
        vae_kind_yuv(p->pixels) && vae_kinds[p->pixels].bits > 8 ? 0.56 : 0.52;
    if (!(fabs(code - fmin(fmax(want, 0), vae_kind_most(p->pixels))) <= bound))
        vae_check_fail(t, "component %d at %d, %d: found %d, expected %.4f", c,
                       x, y, code, want);
    if (vae_kind_bytes(p->pixels) == 2) {
        uint16_t v;
        memcpy(&v, vae_kind_sample(p, c, x, y), 2);
        if (v != code << vae_kinds[p->pixels].below)
            vae_check_fail(t,
                           "component %d at %d, %d: unused bits are set in %#x",
                           c, x, y, v);
    }
}

static void
exact_luma(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeExact k = vae_exact(p);
    double rgb[3], yuv[3];
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            unit_at(a, x, y, rgb);
            vae_exact_yuv(&k, rgb, yuv);
            near(t, p, 0, x, y, yuv[0]);
        }
}

/* Returns the weights of the previous position, of this one and of the next
 * one. */
static const double *
taps(int sub, bool first)
{
    static const double on[] = {0.25, 0.5, 0.25}, between[] = {0, 0.5, 0.5};
    static const double all[] = {0, 1, 0};
    return !sub ? all : first ? on : between;
}

static void
exact_chroma(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeKind *kind = &vae_kinds[p->pixels];
    const VaeExact k = vae_exact(p);
    const double *along = taps(kind->sub_x, !p->site_center);
    const double *down = taps(kind->sub_y, p->site_top);
    for (int y = 0; y < vae_kind_rows(p, 1); y++)
        for (int x = 0; x < vae_kind_columns(p, 1); x++) {
            double mean[3] = {0}, rgb[3], yuv[3];
            for (int i = 0; i < 9; i++) {
                unit_at(a, (x << kind->sub_x) + i % 3 - 1,
                        (y << kind->sub_y) + i / 3 - 1, rgb);
                for (int c = 0; c < 3; c++)
                    mean[c] += rgb[c] * along[i % 3] * down[i / 3];
            }
            vae_exact_yuv(&k, mean, yuv);
            near(t, p, 1, x, y, yuv[1]);
            near(t, p, 2, x, y, yuv[2]);
        }
}

/* Checks that a code is right except for rounding, and that it is exactly the
 * code that fp32 operations give. */
static void
exact_rgb(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const VaeExact k = vae_exact(p);
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            const float *v = pixel_at(a, x, y);
            double rgb[3];
            unit_at(a, x, y, rgb);
            for (int c = 0; c < 3; c++) {
                float u = a->low < 0 ? (v[c] + 1) / 2 : v[c];
                u = u > 0 ? fminf(u, 1) : 0;
                const long want = lrintf(u * (float) k.luma) + (long) k.black;
                const int code = vae_kind_code(p, c, x, y);
                near(t, p, c, x, y, k.black + k.luma * rgb[c]);
                if (code != want)
                    vae_check_fail(t, "%d, %d: found %d, expected %ld", x, y,
                                   code, want);
            }
            const uint8_t *fourth = vae_kind_sample(p, 3, x, y);
            const int alpha = a->alpha && vae_kind_alpha(p->pixels)
                                  ? byte_of(v[3], a->low)
                                  : 255;
            if (fourth && *fourth != alpha)
                vae_check_fail(t, "%d, %d: byte 3 is %d, expected %d", x, y,
                               *fourth, alpha);
        }
}

static void
exact_floats(VaeCheck *t, const VaePictureOutArgs *a)
{
    const VaePicture *p = a->picture;
    const int n = vae_kind_alpha(p->pixels) ? 4 : 3;
    for (int y = 0; y < p->height; y++)
        for (int x = 0; x < p->width; x++) {
            float want[4] = {0, 0, 0, a->high};
            memcpy(want, pixel_at(a, x, y), (size_t) a->c * sizeof *want);
            vae_check_equal(t, "floats", vae_kind_sample(p, 0, x, y), want,
                            (size_t) n * sizeof *want);
        }
}

/* Checks that bytes after the pixels of a row still have the value `fill`. */
static void
padding(VaeCheck *t, const Frame *f, int fill)
{
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < f->bytes[k]; i++)
            if (i % (size_t) f->p.stride[k] >=
                    (size_t) vae_kind_row(&f->p, k) &&
                f->p.data[k][i] != fill) {
                vae_check_fail(t, "padding byte %zu was written", i);
                return;
            }
}

/* Finds the next queue for pictures like this one. Queues of several threads
 * run only the plain settings, because threads do not depend on the settings of
 * colour. Returns false after the last queue. */
static bool
next_queue(const VaePicture *p, size_t *i, VaeQueue *q)
{
    const bool plain = p->matrix == VAE_MATRIX_BT601 && !p->full_range &&
                       !p->limited_rgb && !p->site_center;
    while (vae_check_queue((*i)++, q))
        if (q->threads == 1 || plain)
            return true;
    return false;
}

/* Runs twice, with different bytes in the output. A byte that is not written
 * then differs in one of the runs. */
static void
run_out(VaeCheck *t, VaePictureOutArgs a, int extra)
{
    const VaePicture like = *a.picture;
    for (int fill = 0x33; fill < 0x100; fill += 0x99) {
        Frame ref = frame_new(t, like, extra, fill);
        a.picture = &ref.p;
        t->ref->picture_out(&t->queue, &a);
        padding(t, &ref, fill);
        if (vae_kinds[like.pixels].bits == 32) {
            exact_floats(t, &a);
        } else if (vae_kind_yuv(like.pixels)) {
            exact_luma(t, &a);
            exact_chroma(t, &a);
        } else {
            exact_rgb(t, &a);
        }
        VaeQueue q;
        for (size_t i = 0; t->dut && next_queue(&like, &i, &q);) {
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

/* Converts a position in the picture to one among the chroma samples. */
static double
among(int i, int sub, bool first)
{
    return !sub ? i : first ? i / 2.0 : (i - 0.5) / 2;
}

/* Returns the chroma at a luma position, interpolated from the four nearest
 * samples. */
static double
chroma_between(const VaePicture *p, int c, int x, int y)
{
    const VaeKind *k = &vae_kinds[p->pixels];
    const double px = among(x, k->sub_x, !p->site_center);
    const double py = among(y, k->sub_y, p->site_top);
    const int x0 = (int) floor(px), y0 = (int) floor(py);
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        const int dx = i & 1, dy = i >> 1;
        const double wx = dx ? px - x0 : 1 - (px - x0);
        const double wy = dy ? py - y0 : 1 - (py - y0);
        sum += wx * wy *
               vae_kind_code(p, c, within(x0 + dx, vae_kind_columns(p, c)),
                             within(y0 + dy, vae_kind_rows(p, c)));
    }
    return sum;
}

static void
want_in(const VaePictureInArgs *a, int x, int y, float *v)
{
    const VaePicture *p = a->picture;
    const bool alpha = vae_kind_alpha(p->pixels);
    v[3] = a->high;
    if (vae_kinds[p->pixels].bits == 32) {
        memcpy(v, vae_kind_sample(p, 0, x, y), alpha ? 16 : 12);
        return;
    }
    if (alpha) {
        const float u = (float) *vae_kind_sample(p, 3, x, y) / 255;
        v[3] = a->low < 0 ? (u - 0.5f) / 0.5f : u;
    }
    const VaeExact k = vae_exact(p);
    if (vae_kind_yuv(p->pixels)) {
        double rgb[3];
        const double yuv[3] = {vae_kind_code(p, 0, x, y),
                               chroma_between(p, 1, x, y),
                               chroma_between(p, 2, x, y)};
        vae_exact_rgb(&k, yuv, rgb);
        for (int c = 0; c < 3; c++)
            v[c] = (float) (a->low + rgb[c] * (a->high - a->low));
        return;
    }
    for (int c = 0; c < 3; c++) {
        const float code = (float) (vae_kind_code(p, c, x, y) - k.black);
        const float u = fminf(fmaxf(code, 0) / (float) k.luma, 1);
        v[c] = a->low < 0 ? (u - 0.5f) / 0.5f : u;
    }
}

/* Checks the whole frame of the network, also the repeated edges. From YUV, u
 * may differ by one unit of 16 bits for codes of 8 bits, for rounding and fixed
 * point, and by two for wider codes. From other formats the result is exact. */
static void
exact_in(VaeCheck *t, const VaePictureInArgs *a, const float *got)
{
    const VaePicture *p = a->picture;
    const int words = !vae_kind_yuv(p->pixels) ? 0 : vae_kind_bytes(p->pixels);
    const double bound = words * (a->high - a->low) * (1 / 65535.0 + 1e-7);
    for (int y = 0; y < a->h; y++)
        for (int x = 0; x < a->w; x++, got += a->c) {
            float want[4];
            want_in(a, within(x, p->width), within(y, p->height), want);
            for (int c = 0; c < a->c; c++)
                if (!(fabsf(got[c] - want[c]) <= bound) &&
                    !(isnan(got[c]) && isnan(want[c])))
                    vae_check_fail(t, "%d, %d: found %.9g, expected %.9g", x, y,
                                   got[c], want[c]);
        }
}

static void
run_in(VaeCheck *t, VaePictureInArgs a)
{
    const size_t n = (size_t) a.h * a.w * a.c;
    float *ref = vae_check_buffer(t, n * 4, 4);
    a.y = ref;
    t->ref->picture_in(&t->queue, &a);
    exact_in(t, &a, ref);
    const uint16_t *ref16 = vae_check_bf16(t, ref, n);
    VaeQueue q;
    for (size_t i = 0; t->dut && next_queue(a.picture, &i, &q);) {
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
    bool alpha; /* the network has it */
} Case;

static bool
begin(VaeCheck *t, const char *what, const Case *c)
{
    static const char *const matrices[] = {"_601", "_709", "_2020"};
    const VaePicture *p = &c->like;
    return vae_check_begin(
        t, "picture_%s_%s_%dx%d%s%s%s%s%s_low%g_s%d_p%dx%d%s", what,
        vae_kinds[p->pixels].name, p->width, p->height,
        vae_kind_yuv(p->pixels) ? matrices[p->matrix] : "",
        p->full_range ? "_full" : "", p->limited_rgb ? "_limited" : "",
        p->site_center ? "_centre" : "", p->site_top ? "_top" : "", c->low,
        c->extra, c->pad_w, c->pad_h, c->alpha ? "_alpha" : "");
}

static void
case_out(VaeCheck *t, const Case *c)
{
    if (!begin(t, "out", c))
        return;
    const int h = c->like.height + c->pad_h, w = c->like.width + c->pad_w;
    const size_t n = (size_t) h * w * (c->alpha ? 4 : 3);
    float *x = vae_check_random(t, n, c->low < 0 ? 0.7f : 0.35f);
    static const float special[] = {NAN, INFINITY, -INFINITY, 1e30f,
                                    -1,  1,        0,         -0.0f};
    for (size_t i = 0; i < n; i++)
        x[i] += c->low < 0 ? 0 : 0.5f;
    for (size_t i = 0; i < VAE_COUNT(special); i++)
        x[vae_check_bits(t) % n] = special[i];
    run_out(t, out_args(&c->like, x, h, w, c->low, c->alpha), c->extra);
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
    if (vae_kinds[c->like.pixels].bits == 32)
        for (size_t i = 0; i < f.bytes[0] / 4; i++)
            ((float *) f.p.data[0])[i] = (float) vae_check_range(t, -99, 99);
    run_in(t, in_args(&f.p, NULL, c->like.height + c->pad_h,
                      c->like.width + c->pad_w, c->low, c->alpha));
}

/* Runs every setting that this format has; for large pictures only some of
 * them. */
static void
each_setting(VaeCheck *t, Case c, void (*run)(VaeCheck *t, const Case *c))
{
    const VaeKind *k = &vae_kinds[c.like.pixels];
    const bool yuv = vae_kind_yuv(c.like.pixels);
    for (int bits = 0; bits < 48; bits++) {
        c.low = bits & 1 ? 0 : -1;
        c.like.full_range = yuv && bits & 2;
        c.like.limited_rgb = !yuv && bits & 2;
        c.like.site_center = bits & 4;
        c.like.site_top = bits & 8;
        c.like.matrix = (VaeMatrix) (bits >> 4);
        if ((bits & 2 && k->bits > 16) || (bits & 4 && !k->sub_x) ||
            (bits & 8 && !k->sub_y) || (bits >> 4 && !yuv) ||
            (c.like.width > 100 && (bits & 1 || bits >> 4 > 1)))
            continue;
        for (int alpha = 0; alpha < (bits < 4 ? 2 : 1); alpha++) {
            c.alpha = alpha;
            run(t, &c);
        }
    }
}

static void
each(VaeCheck *t, void (*run)(VaeCheck *t, const Case *c))
{
    /* width, height, padding of the network's width and height, samples after a
     * row */
    static const int sizes[][5] = {
        {1, 1, 7, 7, 0},   {2, 2, 0, 0, 3},   {7, 5, 1, 3, 1},
        {16, 8, 0, 0, 16}, {129, 3, 7, 5, 2}, {258, 6, 0, 2, 5},
        {301, 7, 3, 1, 0},
    };
    for (size_t i = 0; i < VAE_COUNT(sizes); i++)
        for (int pixels = 0; pixels < VAE_PIXELS_KINDS; pixels++) {
            const int *s = sizes[i];
            each_setting(t,
                         (Case){.like = {.pixels = (VaePixels) pixels,
                                         .width = s[0],
                                         .height = s[1]},
                                .pad_w = s[2],
                                .pad_h = s[3],
                                .extra = s[4]},
                         run);
        }
}

/* Several pictures in one call give the same results as single ones. */
static void
case_many(VaeCheck *t, VaePixels pixels, int n)
{
    enum { W = 21, H = 6, HIGH = 7, FRAME = W * HIGH * 3 };
    const VaePicture like = {.pixels = pixels, .width = W, .height = H};
    Frame many[VAE_PICTURES_CUDA] = {0};
    float *x = vae_check_random(t, (size_t) n * FRAME, 0.5f);
    float *y = vae_check_buffer(t, (size_t) n * FRAME * 4, 4);
    float *alone = vae_check_buffer(t, FRAME * 4, 4);
    VaePictureOutArgs out = out_args(&many[0].p, x, HIGH, W, -1, false);
    VaePictureInArgs in = in_args(&many[0].p, y, HIGH, W, -1, false);
    for (int i = 0; i < n; i++)
        many[i] = frame_new(t, like, 3, 0x33);
    in.next = out.next = sizeof(Frame);
    in.n = out.n = n;
    t->dut->picture_out(&t->queue, &out);
    t->dut->picture_in(&t->queue, &in);
    in.n = out.n = 1;
    in.y = alone;
    for (int i = 0; i < n; i++) {
        Frame one = frame_new(t, like, 3, 0x33);
        out.picture = &one.p;
        out.x = x + (size_t) i * FRAME;
        t->ref->picture_out(&t->queue, &out);
        for (int k = 0; k < 3; k++)
            vae_check_equal(t, "plane", many[i].p.data[k], one.p.data[k],
                            one.bytes[k]);
        in.picture = &one.p;
        t->dut->picture_in(&t->queue, &in);
        vae_check_equal(t, "frame", y + (size_t) i * FRAME, alone, FRAME * 4);
    }
}

static void
check_many(VaeCheck *t)
{
    const int n = t->dut ? t->dut->pictures : 0;
    for (int pixels = 0; pixels < VAE_PIXELS_KINDS && n > 1; pixels++)
        if (vae_check_begin(t, "picture_many_%s", vae_kinds[pixels].name))
            case_many(t, (VaePixels) pixels, n);
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

/* Each picture has one of the colours at the corners of RGB, where codes have
 * their extremes. */
static void
case_corners(VaeCheck *t, const Case *c)
{
    if (!begin(t, "corners", c))
        return;
    float *x = vae_check_buffer(t, 45 * 4, 4);
    for (int corner = 0; corner < 8; corner++) {
        for (int i = 0; i < 45; i++)
            x[i] = corner >> i % 3 & 1 ? 1 : c->low;
        run_out(t, out_args(&c->like, x, 3, 5, c->low, false), 0);
    }
}

/* Every code of RGB is unchanged after a conversion in and out. */
static void
case_round_trip_rgb(VaeCheck *t, const Case *c)
{
    if (!begin(t, "round_trip", c))
        return;
    const VaePixels pixels = c->like.pixels;
    const VaeExact k = vae_exact(&c->like);
    const int n = (int) k.luma + 1;
    VaePicture like = c->like;
    like.width = n;
    like.height = 1;
    Frame in = frame_new(t, like, 0, 0), out = frame_new(t, like, 0, 0);
    float *x = vae_check_buffer(t, (size_t) n * 12, 4);
    for (int i = 0; i < 3 * n; i++) {
        const uint16_t code = (uint16_t) (i / 3 + (int) k.black);
        memcpy(vae_kind_sample(&in.p, i % 3, i / 3, 0), &code,
               (size_t) vae_kind_bytes(pixels));
    }
    const VaePictureInArgs there = in_args(&in.p, x, 1, n, c->low, false);
    const VaePictureOutArgs back = out_args(&out.p, x, 1, n, c->low, false);
    t->ref->picture_in(&t->queue, &there);
    t->ref->picture_out(&t->queue, &back);
    for (int i = 0; i < 3 * n; i++)
        vae_check_that(t,
                       vae_kind_code(&in.p, i % 3, i / 3, 0) ==
                           vae_kind_code(&out.p, i % 3, i / 3, 0),
                       "a code differs after a round trip");
}

/* A picture of one colour is unchanged after a conversion from YUV and back, if
 * RGB has the colour. The 16 bits in between are exact enough for this. */
static void
case_round_trip_yuv(VaeCheck *t, const Case *c)
{
    if (!begin(t, "round_trip", c))
        return;
    const VaePicture like = c->like;
    const VaeExact k = vae_exact(&like);
    const int size = vae_kind_bytes(like.pixels);
    Frame in = frame_new(t, like, 0, 0), out = frame_new(t, like, 0, 0);
    float *x = vae_check_buffer(t, 45 * 4, 4);
    const VaePictureInArgs there = in_args(&in.p, x, 3, 5, c->low, false);
    const VaePictureOutArgs back = out_args(&out.p, x, 3, 5, c->low, false);
    for (int n = 0; n < 100; n++) {
        double rgb[3], yuv[3];
        for (int i = 0; i < 3; i++)
            rgb[i] = 0.02 + 0.96 * vae_check_range(t, 0, 1000) / 1000;
        vae_exact_yuv(&k, rgb, yuv);
        for (int i = 0; i < 3; i++)
            for (int j = 0;
                 j < vae_kind_columns(&like, i) * vae_kind_rows(&like, i);
                 j++) {
                const uint16_t v =
                    (uint16_t) (lrint(yuv[i]) << vae_kinds[like.pixels].below);
                memcpy(vae_kind_sample(&in.p, i, j % vae_kind_columns(&like, i),
                                       j / vae_kind_columns(&like, i)),
                       &v, (size_t) size);
            }
        t->ref->picture_in(&t->queue, &there);
        t->ref->picture_out(&t->queue, &back);
        for (int i = 0; i < 3; i++)
            vae_check_equal(t, "codes", out.p.data[i], in.p.data[i],
                            in.bytes[i]);
    }
}

/* Greys have no chroma. Black and white are the ends of the range. */
static void
case_greys(VaeCheck *t, const Case *c)
{
    if (!begin(t, "greys", c))
        return;
    VaePicture like = c->like;
    like.width = 1001;
    like.height = 1;
    const VaeExact k = vae_exact(&like);
    Frame f = frame_new(t, like, 0, 0);
    float *x = vae_check_buffer(t, 3003 * 4, 4);
    for (int i = 0; i < 3003; i++)
        x[i] = (float) (i / 3) / 1000;
    const VaePictureOutArgs a = out_args(&f.p, x, 1, 1001, 0, false);
    t->ref->picture_out(&t->queue, &a);
    vae_check_that(t, vae_kind_code(&f.p, 0, 0, 0) == k.black, "black");
    vae_check_that(t, vae_kind_code(&f.p, 0, 1000, 0) == k.black + k.luma,
                   "white");
    for (int i = 0; i < vae_kind_columns(&like, 1); i++)
        vae_check_that(t,
                       vae_kind_code(&f.p, 1, i, 0) == k.zero &&
                           vae_kind_code(&f.p, 2, i, 0) == k.zero,
                       "a grey has colour");
}

static void
check_colours(VaeCheck *t)
{
    for (int pixels = VAE_PIXELS_RGB; pixels < VAE_PIXELS_KINDS; pixels++) {
        if (vae_kinds[pixels].bits == 32) /* floats have no codes */
            continue;
        const bool yuv = vae_kind_yuv((VaePixels) pixels);
        const Case c = {
            .like = {.pixels = (VaePixels) pixels, .width = 5, .height = 3}};
        each_setting(t, c, case_corners);
        each_setting(t, c, yuv ? case_round_trip_yuv : case_round_trip_rgb);
        if (yuv)
            each_setting(t, c, case_greys);
    }
}

static void
check_speed(VaeCheck *t)
{
    if (!t->bench || !t->dut)
        return;
    for (int pixels = 0; pixels < VAE_PIXELS_KINDS; pixels++)
        for (int in = 0; in < 2; in++) {
            if (!vae_check_begin(t, "picture_speed_%s_%s", in ? "in" : "out",
                                 vae_kinds[pixels].name))
                continue;
            const VaePicture like = {
                .pixels = (VaePixels) pixels, .width = 1920, .height = 1080};
            Frame f = frame_new(t, like, 0, 0);
            const size_t n = (size_t) 1920 * 1080 * 3;
            float *x = vae_check_random(t, n, 0.5f);
            const VaePictureInArgs a = in_args(&f.p, x, 1080, 1920, -1, false);
            const VaePictureOutArgs b =
                out_args(&f.p, x, 1080, 1920, -1, false);
            const double bytes =
                (double) (n * 4 + f.bytes[0] + f.bytes[1] + f.bytes[2]);
            while (vae_check_bench(t, bytes, 0))
                if (in)
                    t->dut->picture_in(&t->queue, &a);
                else
                    t->dut->picture_out(&t->queue, &b);
        }
}

VAE_CHECK_MAIN(check_many, check_out, check_in, check_colours, check_speed)
