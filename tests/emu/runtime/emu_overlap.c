/*
 * emu_overlap.c: checks that the result of a kernel overlaps neither its input
 * nor its other results. kernels.h says which results may be in place; such a
 * result has the address and the type of the input.
 */
#include <stdio.h>
#include <stdlib.h>

#include "emu_overlap.h"
#include "pixels.h"

enum { MOST = 4 + 3 * VAE_PICTURES_CUDA };

typedef struct Span {
    const char *name;
    const uint8_t *at;
    size_t bytes;
    bool written;
} Span;

typedef struct Spans {
    const char *kernel;
    bool in_place; /* the second span may be the same as the first one */
    Span span[MOST];
    int n;
} Spans;

static void
add(Spans *s, Span span)
{
    if (span.at && span.bytes)
        s->span[s->n++] = span;
}

static void
reads(Spans *s, const char *name, const void *at, size_t n, VaeType type)
{
    add(s, (Span){name, at, n * vae_type_size(type), false});
}

static void
writes(Spans *s, const char *name, const void *at, size_t n, VaeType type)
{
    add(s, (Span){name, at, n * vae_type_size(type), true});
}

static bool
overlap(const Span *a, const Span *b)
{
    return (a->written || b->written) && a->at < b->at + b->bytes &&
           b->at < a->at + a->bytes;
}

static void
check(const Spans *s)
{
    for (int i = 0; i < s->n; i++)
        for (int k = i + 1; k < s->n; k++) {
            const Span *a = &s->span[i], *b = &s->span[k];
            const bool same = a->at == b->at && a->bytes == b->bytes;
            if (!overlap(a, b) || (s->in_place && i == 0 && k == 1 && same))
                continue;
            fprintf(stderr, "%s: %s overlaps %s\n", s->kernel, b->name,
                    a->name);
            abort();
        }
}

static size_t
product(int a, int b, int c, int d)
{
    return (size_t) a * (size_t) b * (size_t) c * (size_t) d;
}

void
emu_overlap_conv_matrix(const VaeConvMatrixArgs *a)
{
    Spans s = {.kernel = "conv_matrix", .in_place = a->add != NULL};
    const size_t y =
        product(a->t, a->ho, a->wo, a->c_out) * (a->joined ? 4 : 1);
    const size_t frame = product(a->h, a->w, a->c_in, 1);
    const size_t past = (size_t) a->past_frames * frame;
    const size_t all = (size_t) (a->t + a->kt - 1) * frame;
    reads(&s, "add", a->add, y, a->type);
    writes(&s, "y", a->y, y, a->wide ? VAE_TYPE_F32 : a->type);
    reads(&s, "x", a->x, all - past, a->type);
    reads(&s, "past", a->past, past, a->type);
    reads(&s, "weight", a->weight,
          product(a->c_out, a->kt, a->k * a->k, a->c_in) +
              (a->up ? 3 : 0) * a->phase_weights,
          a->type);
    reads(&s, "bias", a->bias, (size_t) a->c_out, a->type);
    writes(&s, "norm", a->norm.y, y, a->type);
    reads(&s, "gain", a->norm.gain, (size_t) a->c_out, VAE_TYPE_F32);
    reads(&s, "offset", a->norm.offset, (size_t) a->c_out, VAE_TYPE_F32);
    reads(&s, "gain", a->front.gain, (size_t) a->c_in, VAE_TYPE_F32);
    reads(&s, "offset", a->front.offset, (size_t) a->c_in, VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_norm(const VaeNormArgs *a)
{
    Spans s = {.kernel = "norm", .in_place = a->x_type == a->y_type};
    const size_t n = product(a->t, a->h, a->w, a->c);
    const bool group = a->kind == VAE_NORM_GROUP;
    /* Sums are only needed if the statistics are not computed yet. */
    const bool sums = group && !(a->statistics && a->y);
    const size_t statistics = group ? product(a->t, a->groups, 2, 2) : 0;
    reads(&s, "x", a->x, n, a->x_type);
    writes(&s, "y", a->y, n, a->y_type);
    reads(&s, "gain", a->gain, (size_t) a->c, VAE_TYPE_F32);
    reads(&s, "offset", a->offset, (size_t) a->c, VAE_TYPE_F32);
    writes(&s, "tail", a->tail, product(a->tail_frames, a->h, a->w, a->c),
           a->y_type);
    if (sums)
        writes(&s, "sums", a->sums,
               2 * vae_norm_sums_cuda(a->t, a->h, a->w, a->c, a->groups),
               VAE_TYPE_F32);
    if (a->y)
        reads(&s, "statistics", a->statistics, statistics, VAE_TYPE_F32);
    else
        writes(&s, "statistics", a->statistics, statistics, VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_attention(const VaeAttentionArgs *a)
{
    Spans s = {.kernel = "attention"};
    reads(&s, "qkv", a->qkv, product(a->t, a->n, a->c, 3), a->x_type);
    writes(&s, "y", a->y, product(a->t, a->n, a->c, 1), a->y_type);
    check(&s);
}

void
emu_overlap_window(const VaeWindowArgs *a)
{
    Spans s = {.kernel = "window"};
    reads(&s, "qkv", a->qkv, product(a->tx, a->h, a->w, 3 * a->c), a->x_type);
    writes(&s, "y", a->y, product(a->t, a->h, a->w, a->c), a->y_type);
    reads(&s, "q_gain", a->q_gain, VAE_WINDOW_HEAD, VAE_TYPE_F32);
    reads(&s, "k_gain", a->k_gain, VAE_WINDOW_HEAD, VAE_TYPE_F32);
    writes(&s, "scratch", a->scratch,
           vae_kernels_cuda.window_scratch(a->tx, a->h, a->w, a->c) / 4,
           VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_glu(const VaeGluArgs *a)
{
    Spans s = {.kernel = "glu"};
    reads(&s, "x", a->x, a->rows * 2 * (size_t) a->c, a->x_type);
    writes(&s, "y", a->y, a->rows * (size_t) a->c, a->y_type);
    check(&s);
}

void
emu_overlap_noise(const VaeNoiseArgs *a)
{
    Spans s = {.kernel = "noise"};
    writes(&s, "y", a->y, product(a->t, a->h, a->w, 3 * a->side * a->side),
           a->y_type);
    check(&s);
}

void
emu_overlap_rearrange(const VaeRearrangeArgs *a)
{
    Spans s = {.kernel = "rearrange"};
    const int block = a->ft * a->fs * a->fs;
    const size_t pixels = product(a->t, a->h, a->w, a->c);
    const size_t frame = product(a->h, a->w, a->c, a->fs * a->fs);
    size_t x = pixels * (size_t) block, y = x - (size_t) a->drop * frame;
    if (a->kind == VAE_UNFOLD_NEAREST)
        x = pixels * (size_t) a->ft;
    if (a->kind == VAE_NEAREST)
        x = pixels;
    if (a->kind == VAE_JOIN_PHASES)
        x = ((size_t) (a->fs * a->fs) - 1) * a->phase + pixels;
    if (vae_rearrange_is_border(a->kind)) {
        x = pixels;
        y = product(a->t, a->rows, a->w + 2, a->c);
    }
    if (vae_rearrange_is_fold(a->kind)) {
        x = pixels / (size_t) block;
        y = product((a->t + a->ft - 1) / a->ft, a->h / a->fs, a->w / a->fs,
                    a->c);
    }
    reads(&s, "x", a->x, x, a->x_type);
    writes(&s, "y", a->y, y, a->y_type);
    check(&s);
}

void
emu_overlap_cast(const VaeCastArgs *a)
{
    Spans s = {.kernel = "cast"};
    reads(&s, "x", a->x, a->n, a->x_type);
    writes(&s, "y", a->y, a->n, a->y_type);
    check(&s);
}

void
emu_overlap_shortcut(const VaeShortcutArgs *a)
{
    Spans s = {.kernel = "shortcut"};
    const bool average = a->kind == VAE_SHORTCUT_AVERAGE;
    const size_t frames = average ? (size_t) ((a->t + a->ft - 1) / a->ft)
                                  : (size_t) (a->t * a->ft - a->drop);
    const size_t square = (size_t) (a->fs * a->fs);
    const size_t picture = product(a->h, a->w, a->cy, 1);
    reads(&s, "x", a->x, product(a->t, a->h, a->w, a->cx), a->x_type);
    writes(&s, "y", a->y,
           frames * (average ? picture / square : picture * square), a->y_type);
    check(&s);
}

void
emu_overlap_clamp(const VaeClampArgs *a)
{
    Spans s = {.kernel = "clamp", .in_place = a->x_type == a->y_type};
    reads(&s, "x", a->x, a->n, a->x_type);
    writes(&s, "y", a->y, a->n, a->y_type);
    check(&s);
}

void
emu_overlap_depthwise(const VaeDepthwiseArgs *a)
{
    Spans s = {.kernel = "depthwise"};
    reads(&s, "x", a->x, product(1 + a->t, a->h, a->w, a->n), a->x_type);
    writes(&s, "y", a->y, product(a->t, a->h, a->w, 2 * a->n), a->y_type);
    reads(&s, "weight", a->weight, product(7, 7, 2, a->n), VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_latent_in(const VaeLatentInArgs *a)
{
    Spans s = {.kernel = "latent_in"};
    const size_t n = product(a->h, a->w, a->c, 1);
    reads(&s, "src", a->src, n, a->src_type);
    writes(&s, "y", a->y, n, a->y_type);
    reads(&s, "scale", a->scale, (size_t) a->c, VAE_TYPE_F32);
    reads(&s, "shift", a->shift, (size_t) a->c, VAE_TYPE_F32);
    writes(&s, "nonfinite", a->nonfinite, 2, VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_latent_out(const VaeLatentOutArgs *a)
{
    Spans s = {.kernel = "latent_out"};
    const size_t n = product(a->h, a->w, a->c, 1);
    reads(&s, "x", a->x, product(a->h, a->w, a->cx, 1), a->x_type);
    writes(&s, "dst", a->dst, n, a->dst_type);
    writes(&s, "mean_out", a->mean_out, n, VAE_TYPE_F32);
    writes(&s, "logvar_out", a->logvar_out, n, VAE_TYPE_F32);
    reads(&s, "mean", a->mean, (size_t) a->c, VAE_TYPE_F32);
    reads(&s, "std", a->std, (size_t) a->c, VAE_TYPE_F32);
    writes(&s, "nonfinite", a->nonfinite, 2, VAE_TYPE_F32);
    check(&s);
}

void
emu_overlap_nonfinite(const VaeNonfiniteArgs *a)
{
    Spans s = {.kernel = "nonfinite"};
    reads(&s, "x", a->x, a->n, a->x_type);
    writes(&s, "counter", a->counter, 2, VAE_TYPE_F32);
    check(&s);
}

/* Planes include the bytes between two rows. */
static void
add_picture(Spans *s, const VaePicture *p, bool written)
{
    size_t row[3];
    int rows[3];
    const int n = vae_picture_planes(p, row, rows);
    for (int i = 0; i < n; i++)
        if (p->stride[i] > 0)
            add(s,
                (Span){"the picture", p->data[i],
                       (size_t) (rows[i] - 1) * (size_t) p->stride[i] + row[i],
                       written});
}

static void
add_pictures(Spans *s, const VaePicture *first, int n, size_t next,
             bool written)
{
    for (int i = 0; i < n; i++)
        add_picture(
            s,
            (const VaePicture *) ((const uint8_t *) first + (size_t) i * next),
            written);
}

void
emu_overlap_picture_out(const VaePictureOutArgs *a)
{
    Spans s = {.kernel = "picture_out"};
    const int n = a->n ? a->n : 1;
    reads(&s, "x", a->x, product(n, a->h, a->w, a->c ? a->c : 3), a->x_type);
    add_pictures(&s, a->picture, n, a->next, true);
    check(&s);
}

void
emu_overlap_picture_in(const VaePictureInArgs *a)
{
    Spans s = {.kernel = "picture_in"};
    const int n = a->n ? a->n : 1;
    writes(&s, "y", a->y, product(n, a->h, a->w, a->c ? a->c : 3), a->y_type);
    add_pictures(&s, a->picture, n, a->next, false);
    check(&s);
}
