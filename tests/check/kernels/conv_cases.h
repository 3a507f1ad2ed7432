/*
 * conv_cases.h: convolutions with numbers and arguments, for the reference and
 * for the kernel on the matrix units.
 */
#ifndef VAE_CONV_CASES_H
#define VAE_CONV_CASES_H

#include "../check.h"

/* Input and result have h x w pixels. past: the context is in a separate
 * buffer. add: the kernel adds its result to the numbers in the buffer. */
typedef struct Case {
    int c_in, c_out, k, kt, t, h, w;
    bool past, add, relu;
    int pad_y, pad_x;
} Case;

/* The kernels: numbers of a type, multiplied in a way. */
typedef struct Kind {
    const char *name;
    VaeType type;
    bool groups, half_sums;
} Kind;
enum { BF16, F16, GROUPS_BF16, GROUPS_F16, HALF, KINDS };
static const Kind kinds[KINDS] = {{"bf16", VAE_TYPE_BF16, false, false},
                                  {"f16", VAE_TYPE_F16, false, false},
                                  {"groups_bf16", VAE_TYPE_BF16, true, false},
                                  {"groups_f16", VAE_TYPE_F16, true, false},
                                  {"half", VAE_TYPE_F16, false, true}};

/* The arguments of a convolution in F32 for the reference, and those of the
 * same convolution for the kernel. */
typedef struct Both {
    VaeConvArgs wide;
    VaeConvMatrixArgs args;
    const float *x, *add, *bias;
    size_t n_y;
} Both;

/* Returns multiples of 1/8 from -1 to 1: products and sums are exact in F32. */
static inline float *
exact_numbers(VaeCheck *t, size_t n)
{
    float *x = vae_check_buffer(t, n * sizeof *x, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float) vae_check_range(t, -8, 8) / 8;
    return x;
}

/* Returns floats that `type` represents exactly. */
static inline float *
numbers(VaeCheck *t, size_t n, VaeType type, bool exact)
{
    if (exact)
        return exact_numbers(t, n);
    const float *x = vae_check_random(t, n, 1);
    return vae_check_widen(t, vae_check_narrow(t, x, n, type, 0), n, type);
}

/* Reorders [taps][in][out] to [out][taps][in]. */
static inline float *
reorder(VaeCheck *t, const float *w, size_t rows, size_t out)
{
    float *r = vae_check_buffer(t, rows * out * sizeof *r, sizeof *r);
    for (size_t i = 0; i < rows; i++)
        for (size_t o = 0; o < out; o++)
            r[o * rows + i] = w[i * out + o];
    return r;
}

/* The sizes in the arguments of a case. */
#define SIZES(c)                                                               \
    .t = (c)->t, .h = (c)->h, .w = (c)->w, .c_in = (c)->c_in, .ho = (c)->h,    \
    .wo = (c)->w, .c_out = (c)->c_out, .k = (c)->k, .kt = (c)->kt,             \
    .pad_y = (c)->pad_y, .pad_x = (c)->pad_x, .relu = (c)->relu

static inline Both
make(VaeCheck *t, const Case *c, const Kind *kind, bool exact)
{
    const VaeType type = kind->type;
    const size_t frame = (size_t) c->h * c->w * c->c_in;
    const size_t rows = (size_t) c->kt * c->k * c->k * c->c_in;
    const size_t out = (size_t) c->c_out,
                 n_y = (size_t) c->t * c->h * c->w * out;
    const int frames = c->t + c->kt - 1;
    const float *weight = numbers(t, rows * out, type, exact);
    Both b = {.n_y = n_y,
              .x = numbers(t, (size_t) frames * frame, type, exact),
              .bias = numbers(t, out, type, exact),
              .add = c->add ? numbers(t, n_y, type, exact) : NULL};
    b.args = (VaeConvMatrixArgs){
        .x = vae_check_narrow(t, b.x, (size_t) frames * frame, type, 0),
        .weight = vae_check_narrow(t, reorder(t, weight, rows, out), rows * out,
                                   type, 0),
        .bias = vae_check_narrow(t, b.bias, out, type, 0),
        .type = type,
        .warpgroups = kind->groups,
        .half_sums = kind->half_sums,
        SIZES(c)};
    b.wide = (VaeConvArgs){.x = b.x,
                           .add = b.add,
                           .weight = weight,
                           .bias = b.bias,
                           .s = 1,
                           .st = 1,
                           SIZES(c)};
    if (c->past && c->kt > 1) { /* in separate guarded buffers */
        const size_t past = (size_t) (c->kt - 1) * frame;
        b.args.past_frames = c->kt - 1;
        b.args.past = vae_check_narrow(t, b.x, past, type, 0);
        b.args.x =
            vae_check_narrow(t, b.x + past, (size_t) c->t * frame, type, 0);
    }
    return b;
}

/* Runs the kernel. The buffer of the result first gets the numbers that are
 * added. */
static inline void *
compute(VaeCheck *t, const Both *b, VaeConvMatrixArgs a)
{
    const size_t n = (size_t) a.t * a.ho * a.wo * a.c_out;
    void *y = vae_check_buffer_at(t, n * 2, 0);
    if (b->add)
        memcpy(y, vae_check_narrow(t, b->add, n, a.type, 0), n * 2);
    a.y = y;
    a.add = b->add ? y : NULL;
    t->dut->conv_matrix(&t->queue, &a);
    return y;
}

#endif
