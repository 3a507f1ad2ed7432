/*
 * selftest.c: see cuda/selftest.h.
 *
 * The inputs and weights of the convolutions are small whole multiples of 1/8
 * and 1/64. Every product and every sum, in any order, is therefore exact in
 * fp32. Only the rounding to the type of the result remains. A single missing
 * tap of the large convolution changes some of its results.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "selftest.h"

enum {
    LOOKS = 4096, /* most results of a convolution that are checked */
    MOST_DEVICES = 64,
    MOST_BLOCKS = 6,
    ATTENTIONS = 4
};

/* For each device, a bit set of the precisions that passed in this process. */
static atomic_uint passed[MOST_DEVICES];

typedef struct Test {
    VaeBackend *cuda;
    VaeType type;
    bool tf32;
    double eps; /* distance of neighbouring values of the type near 1 */
    void *blocks[MOST_BLOCKS];
    int n_blocks, n_convs;
    double worst; /* largest error, relative to the allowed one */
} Test;

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

/* n pseudo-random values from -8 to 8 times unit. */
static float *
numbers(size_t n, unsigned seed, float unit)
{
    float *v = vae_mem_alloc(n * sizeof *v);
    uint32_t state = 2654435761u * seed + 12345;
    for (size_t i = 0; v && i < n; i++) {
        state = state * 1664525u + 1013904223u;
        v[i] = (float) ((int) ((state >> 16) % 17) - 8) * unit;
    }
    return v;
}

/* Allocates a device block, which drop_blocks() frees. Fills it with n values
 * or, if values is NULL, with bytes 0xff, which are NaN in all types. */
static int
give(Test *t, const float *values, VaeType type, size_t n, void **out)
{
    const size_t bytes = n * vae_type_size(type);
    void *narrow = vae_mem_alloc(bytes);
    int code = -1;
    if (narrow) {
        if (values)
            vae_type_from_float(narrow, type, values, n);
        else
            memset(narrow, 0xff, bytes);
        code = vae_rt_alloc(out, bytes);
    }
    if (!code) {
        t->blocks[t->n_blocks++] = *out;
        code = vae_cuda_copy_now(t->cuda, *out, narrow, bytes);
    }
    vae_mem_free(narrow);
    return code;
}

/* Copies n values from the device. */
static int
take(const Test *t, const void *from, float *values, size_t n)
{
    const size_t bytes = n * vae_type_size(t->type);
    void *narrow = vae_mem_alloc(bytes);
    int code = -1;
    if (narrow) {
        code = vae_cuda_copy_now(t->cuda, narrow, from, bytes);
        if (!code)
            vae_type_to_float(values, narrow, t->type, n);
    }
    vae_mem_free(narrow);
    return code;
}

/* Like vae_cuda_status(); code -1: out of host memory. */
static VaeStatus
status_of(const Test *t, int code, const char *doing, VaeError *error)
{
    return code == -1 ? vae_fail(error, VAE_ERR_MEMORY, "out of memory")
                      : vae_cuda_status(t->cuda, code, doing, error);
}

/* Copies the n values that a kernel has computed. */
static VaeStatus
take_kernel(const Test *t, const void *from, float *values, size_t n,
            VaeError *error)
{
    char doing[80];
    int code = vae_rt_failure();
    if (!code)
        code = take(t, from, values, n);
    snprintf(doing, sizeof doing, "run a kernel (compute capability %d.%d)",
             t->cuda->device.capability / 10, t->cuda->device.capability % 10);
    return status_of(t, code, doing, error);
}

static void
drop_blocks(Test *t)
{
    while (t->n_blocks)
        vae_rt_free(t->blocks[--t->n_blocks]);
}

/* ------------------------------------------------------------------ */
/* Comparing.                                                          */

typedef struct Looks {
    const char *what; /* name of the check, for the error */
    int h, w, c;      /* of a frame of the results */
    int n, wrong;
    double got, want; /* of the first wrong value */
    size_t at;
} Looks;

static void
look(Test *t, Looks *l, size_t at, double got, double want, double allowed)
{
    const double share = fabs(got - want) / allowed;
    l->n++;
    if (share <= 1) { /* false for NaN, too */
        t->worst = share > t->worst ? share : t->worst;
        return;
    }
    if (l->wrong++ == 0) {
        l->got = got;
        l->want = want;
        l->at = at;
    }
}

/* Returns VAE_OK or the error of the first wrong value. */
static VaeStatus
judge(const Test *t, const Looks *l, VaeError *error)
{
    if (l->wrong == 0)
        return VAE_OK;
    const int at = (int) l->at, h = l->h, w = l->w, c = l->c;
    return vae_fail(
        error, VAE_ERR_BACKEND,
        "%s is not used, because it computes wrong in %s: %s gives %.7g where "
        "%.7g is right (frame %d, row %d, column %d, channel %d), and %d of %d "
        "numbers that were looked at are wrong",
        t->cuda->device.name, vae_precision_name(t->cuda->params.precision),
        l->what, l->got, l->want, at / (h * w * c), at / (w * c) % h,
        at / c % w, at % c, l->wrong, l->n);
}

/* ------------------------------------------------------------------ */
/* Convolutions.                                                       */

typedef struct Numbers {
    float *x, *weight, *bias, *add, *y;
    size_t n_x, n_weight, n_y;
    bool up; /* y has all phases, joined */
} Numbers;

static void
free_numbers(Numbers *n)
{
    vae_mem_free(n->x);
    vae_mem_free(n->weight);
    vae_mem_free(n->bias);
    vae_mem_free(n->add);
    vae_mem_free(n->y);
}

static bool
make_numbers(const VaeCudaConvShape *s, Numbers *n)
{
    n->n_x = (size_t) (s->t + s->kt - 1) * s->h * s->w * s->c_in;
    const size_t phases = n->up ? VAE_PHASES : 1;
    n->n_weight = phases * s->kt * s->k * s->k * s->c_in * s->c_out;
    n->n_y = phases * s->t * s->ho * s->wo * s->c_out;
    n->x = numbers(n->n_x, 1, 0.125f);
    n->weight = numbers(n->n_weight, 2, 0.015625f);
    n->bias = numbers((size_t) s->c_out, 3, 0.125f);
    n->add = numbers(n->n_y, 4, 0.125f);
    n->y = vae_mem_alloc(n->n_y * sizeof *n->y);
    return n->x && n->weight && n->bias && n->add && n->y;
}

/* The right value of result `at`, with a stride of 1 in time. *size: a bound of
 * the intermediate values that an engine may round. */
static double
convolve(const VaeCudaConvShape *s, const Numbers *n, size_t at, double *size)
{
    const int by = n->up ? 2 : 1, wo = by * s->wo, ho = by * s->ho;
    const int o = (int) (at % (size_t) s->c_out);
    const int column = (int) (at / (size_t) s->c_out) % wo;
    const int row = (int) (at / (size_t) (s->c_out * wo)) % ho;
    const int frame = (int) (at / (size_t) (s->c_out * wo * ho));
    const int taps = s->kt * s->k * s->k;
    /* The padding of a phase, and its place among the weights. */
    const int pad_y = s->pad_y - row % by, pad_x = s->pad_x - column % by;
    const int phase = row % by * 2 + column % by;
    double sum = 0;
    for (int i = 0; i < taps; i++) {
        const int f = frame + i / (s->k * s->k);
        const int y = row / by * s->s + i / s->k % s->k - pad_y;
        const int x = column / by * s->s + i % s->k - pad_x;
        if (y < 0 || y >= s->h || x < 0 || x >= s->w)
            continue;
        const float *in = n->x + (((size_t) f * s->h + y) * s->w + x) * s->c_in;
        const float *weight =
            n->weight + ((size_t) (phase * s->c_out + o) * taps + i) * s->c_in;
        for (int c = 0; c < s->c_in; c++)
            sum += (double) in[c] * weight[c];
    }
    const double add = s->add ? n->add[at] : 0, bias = n->bias[o];
    *size = fabs(sum) + fabs(add) + fabs(bias);
    sum += add + bias;
    return s->relu && sum < 0 ? 0 : sum;
}

static VaeStatus
run_conv(Test *t, const VaeCudaConvShape *s, Numbers *n, VaeCudaConv *conv,
         VaeError *error)
{
    VaeCudaConvArgs args = {0};
    void *x, *weight, *bias, *y;
    const size_t workspace = vae_cuda_conv_workspace(conv);
    int code = give(t, n->x, t->type, n->n_x, &x);
    if (!code)
        code = give(t, n->weight, t->type, n->n_weight, &weight);
    if (!code)
        code = give(t, n->bias, t->type, (size_t) s->c_out, &bias);
    /* The residual is in the buffer of the result, as in the network. */
    if (!code)
        code = give(t, s->add ? n->add : NULL, t->type, n->n_y, &y);
    if (!code && workspace) {
        code = vae_rt_alloc(&args.workspace, workspace);
        if (!code)
            t->blocks[t->n_blocks++] = args.workspace;
    }
    if (code)
        return status_of(t, code, "allocate memory for its test", error);
    args.x = x;
    args.weight = weight;
    args.bias = bias;
    args.add = s->add ? y : NULL;
    args.y = y;
    args.joined = n->up;
    args.phase_weights = n->n_weight / VAE_PHASES;
    VaeStatus status = vae_cuda_conv_bind(conv, &args, error);
    if (status == VAE_OK)
        status = vae_cuda_conv_run(conv, t->cuda->compute, error);
    return status == VAE_OK ? status_of(t, take(t, y, n->y, n->n_y),
                                        "compute a convolution", error)
                            : status;
}

static void
look_at_conv(Test *t, const VaeCudaConvShape *s, const Numbers *n, Looks *l)
{
    for (size_t i = 0; i < LOOKS; i++) {
        /* Checks all results of a small convolution, and results spread over a
         * large one. */
        const size_t at = n->n_y <= LOOKS ? i : i * 2654435761u % n->n_y;
        if (at >= n->n_y)
            break;
        double size;
        const double want = convolve(s, n, at, &size);
        /* Most engines round once. Some round at each of three additions. */
        look(t, l, at, (double) n->y[at], want, 2 * t->eps * (size + 0.125));
    }
}

/* what: the name of the convolution. */
static VaeStatus
test_choice(Test *t, const VaeCudaConvShape *s, const char *what,
            const VaeCudaChoice *choice, VaeError *error)
{
    char name[200];
    VaeCudaConv *conv = NULL;
    Numbers n = {.up = vae_cuda_choice_has_phases(choice)};
    Looks l = {.what = name, .h = s->ho, .w = s->wo, .c = s->c_out};
    const bool own = vae_cuda_choice_is_own(choice);
    snprintf(name, sizeof name, "%.100s%s%.*s", what, own ? " by " : "",
             own ? 40 : 0, choice->text);
    VaeStatus status =
        vae_cuda_conv_new(t->cuda->convs, s, choice, &conv, error);
    if (n.up) {
        l.h *= 2;
        l.w *= 2;
    }
    if (status == VAE_OK && !make_numbers(s, &n))
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        status = run_conv(t, s, &n, conv, error);
    if (status == VAE_OK) {
        look_at_conv(t, s, &n, &l);
        status = judge(t, &l, error);
    }
    t->n_convs++;
    vae_cuda_conv_free(&conv);
    drop_blocks(t);
    free_numbers(&n);
    return status;
}

/* Tests the library's first suggestion, and each own kernel. */
static VaeStatus
test_conv(Test *t, int i, VaeError *error)
{
    static const char *const names[VAE_CUDA_OWN_TEST_SHAPES] = {
        "a large convolution (96 channels, 3x3x3)",
        "a small convolution (64 channels, 1x3x3)",
        "a halving convolution (96 channels, 1x3x3, stride 2)",
        "a convolution to a picture (96 channels, 3x3x3)",
        "a convolution from a picture (96 channels, 3x3x3)",
        "a convolution after an upsampling (96 channels, 1x2x2)"};
    const VaeCudaConvShape s = vae_cuda_test_shape(i, t->type, t->tf32);
    VaeCudaChoice choices[1 + VAE_CUDA_OWN_KERNELS];
    int n = 0;
    VaeStatus status =
        i < VAE_CUDA_TEST_SHAPES
            ? vae_cuda_conv_choices(t->cuda->convs, &s, choices, 1, &n, error)
            : VAE_OK;
    n += vae_cuda_conv_own_choices(t->cuda->convs, &s, choices + n,
                                   VAE_CUDA_OWN_KERNELS);
    for (int k = 0; k < n && status == VAE_OK; k++)
        status = test_choice(t, &s, names[i], &choices[k], error);
    return status;
}

/* ------------------------------------------------------------------ */
/* Norms.                                                              */

static double
silu(double v)
{
    return v / (1 + exp(-v));
}

/* Computes y in double, as kernels.h defines it. */
static void
norm_definition(const VaeNormArgs *a, double *y)
{
    const float *x = a->x, *gain = a->gain, *offset = a->offset;
    const size_t pixels = (size_t) a->h * a->w;
    const bool rms = a->kind == VAE_NORM_RMS;
    /* A norm is over the values of a pixel, or of a frame and group. */
    const int groups = rms ? 1 : a->groups, per = a->c / groups;
    const size_t together = rms ? 1 : pixels;
    for (size_t first = 0; first < a->t * pixels; first += together)
        for (int g = 0; g < groups; g++) {
            double sum = 0, squares = 0;
            const double n = (double) (together * (size_t) per);
            for (size_t p = first; p < first + together; p++)
                for (int c = g * per; c < (g + 1) * per; c++) {
                    const double v = x[p * a->c + c];
                    sum += v;
                    squares += v * v;
                }
            const double mean = rms ? 0 : sum / n;
            const double root =
                sqrt(squares / n - mean * mean + (double) a->eps);
            for (size_t p = first; p < first + together; p++)
                for (int c = g * per; c < (g + 1) * per; c++)
                    y[p * a->c + c] =
                        silu((x[p * a->c + c] - mean) / root * gain[c] +
                             (rms ? 0 : offset[c]));
        }
}

/* host: the arguments with addresses of floats in host memory. */
static VaeStatus
run_norm(Test *t, const VaeNormArgs *host, VaeError *error)
{
    VaeNormArgs a = *host;
    const size_t n = (size_t) a.t * a.h * a.w * a.c;
    void *x_block, *y_block, *gain_block, *offset_block, *sums = NULL;
    int code = give(t, host->x, t->type, n, &x_block);
    if (!code)
        code = give(t, NULL, t->type, n, &y_block);
    if (!code)
        code = give(t, host->gain, VAE_TYPE_F32, (size_t) a.c, &gain_block);
    if (!code)
        code = give(t, host->offset, VAE_TYPE_F32, (size_t) a.c, &offset_block);
    if (!code && a.kind == VAE_NORM_GROUP) {
        code = vae_rt_alloc(
            &sums,
            sizeof(double) * vae_norm_sums_cuda(a.t, a.h, a.w, a.c, a.groups));
        if (!code)
            t->blocks[t->n_blocks++] = sums;
    }
    if (code)
        return status_of(t, code, "allocate memory for its test", error);
    a.x = x_block;
    a.y = y_block;
    a.gain = gain_block;
    a.offset = a.kind == VAE_NORM_GROUP ? offset_block : NULL;
    a.sums = sums;
    vae_rt_kernels()->norm(
        &(VaeQueue){.threads = 1, .stream = t->cuda->compute}, &a);
    return take_kernel(t, y_block, host->y, n, error);
}

static VaeStatus
test_norm(Test *t, VaeNormKind kind, VaeError *error)
{
    VaeNormArgs a = {.kind = kind,
                     .x_type = t->type,
                     .y_type = t->type,
                     .t = 2,
                     .h = 9,
                     .w = 7,
                     .c = kind == VAE_NORM_RMS ? 96 : 128,
                     .groups = 32,
                     .eps = kind == VAE_NORM_RMS ? 0 : 1e-6f,
                     .silu = true};
    const size_t n = (size_t) a.t * a.h * a.w * a.c;
    float *x = numbers(n, 5, 0.125f);
    float *gain = numbers((size_t) a.c, 6, 0.25f);
    float *offset = numbers((size_t) a.c, 7, 0.125f);
    float *y = vae_mem_alloc(n * sizeof *y);
    double *want = vae_mem_alloc(n * sizeof *want);
    Looks l = {.what = kind == VAE_NORM_RMS
                           ? "an RMS norm (96 channels)"
                           : "a group norm (128 channels, 32 groups)",
               .h = a.h,
               .w = a.w,
               .c = a.c};
    VaeStatus status = VAE_OK;
    a.x = x;
    a.gain = gain;
    a.offset = offset;
    a.y = y;
    if (!x || !gain || !offset || !y || !want)
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (status == VAE_OK)
        status = run_norm(t, &a, error);
    if (status == VAE_OK) {
        norm_definition(&a, want);
        /* 2^-14: many times the rounding errors of a norm in fp32, see
         * check_norm.c. */
        for (size_t i = 0; i < n; i++)
            look(t, &l, i, (double) y[i], want[i],
                 (t->eps + 0x1p-14) * (fabs(want[i]) + 1));
        status = judge(t, &l, error);
    }
    drop_blocks(t);
    vae_mem_free(x);
    vae_mem_free(gain);
    vae_mem_free(offset);
    vae_mem_free(y);
    vae_mem_free(want);
    return status;
}

/* ------------------------------------------------------------------ */
/* Attention.                                                          */

/* A frame; more pixels than the keys that a kernel takes at once. */
enum { ROWS = 8, COLUMNS = 9, PIXELS = ROWS * COLUMNS };

/* Computes the result of a pixel in double, as kernels.h defines it. The
 * numbers are such that exp() does not overflow. */
static void
attention_definition(const float *qkv, int pixel, int c, double *y)
{
    const float *q = qkv + (size_t) pixel * 3 * c;
    double sum = 0;
    for (int i = 0; i < c; i++)
        y[i] = 0;
    for (int j = 0; j < PIXELS; j++) {
        const float *k = qkv + ((size_t) j * 3 + 1) * c, *v = k + c;
        double score = 0;
        for (int i = 0; i < c; i++)
            score += (double) q[i] * k[i];
        const double weight = exp(score / sqrt(c));
        sum += weight;
        for (int i = 0; i < c; i++)
            y[i] += weight * v[i];
    }
    for (int i = 0; i < c; i++)
        y[i] /= sum;
}

static VaeStatus
run_attention(Test *t, const float *qkv, int c, float *y, VaeError *error)
{
    const size_t n = (size_t) PIXELS * c;
    void *x_block, *y_block;
    int code = give(t, qkv, t->type, 3 * n, &x_block);
    if (!code)
        code = give(t, NULL, t->type, n, &y_block);
    if (code)
        return status_of(t, code, "allocate memory for its test", error);
    vae_rt_kernels()->attention(
        &(VaeQueue){.threads = 1, .stream = t->cuda->compute},
        &(VaeAttentionArgs){.y = y_block,
                            .qkv = x_block,
                            .t = 1,
                            .n = PIXELS,
                            .c = c,
                            .x_type = t->type,
                            .y_type = t->type,
                            .tf32 = t->tf32});
    return take_kernel(t, y_block, y, n, error);
}

/* Checks every seventh pixel: places in all parts of a kernel's blocks. */
static void
look_at_attention(Test *t, Looks *l, const float *qkv, const float *y,
                  double *want)
{
    /* Weights are rounded, by half of eps at most, and so is the result. V is
     * at most 1, and the weights add up to 1. 2^-14: as for norms. */
    const double eps = (t->tf32 ? 0x1p-10 : t->eps) + 0x1p-14;
    for (int pixel = 0; pixel < PIXELS; pixel += 7) {
        attention_definition(qkv, pixel, l->c, want);
        for (int i = 0; i < l->c; i++) {
            const size_t at = (size_t) pixel * l->c + i;
            look(t, l, at, (double) y[at], want[i], eps * (fabs(want[i]) + 1));
        }
    }
}

static VaeStatus
test_attention(Test *t, int c, VaeError *error)
{
    char name[60];
    const size_t n = (size_t) PIXELS * c;
    float *qkv = numbers(3 * n, 8, 0.125f);
    float *y = vae_mem_alloc(n * sizeof *y);
    double *want = vae_mem_alloc(c * sizeof *want);
    Looks l = {.what = name, .h = ROWS, .w = COLUMNS, .c = c};
    VaeStatus status = VAE_OK;
    snprintf(name, sizeof name, "an attention (%d channels)", c);
    if (!qkv || !y || !want)
        status = vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    /* Queries of -8 to 8: scores of different keys differ by several units. */
    for (size_t at = 0; qkv && at < 3 * n; at += 3 * (size_t) c)
        for (int i = 0; i < c; i++)
            qkv[at + i] *= 8;
    if (status == VAE_OK)
        status = run_attention(t, qkv, c, y, error);
    if (status == VAE_OK) {
        look_at_attention(t, &l, qkv, y, want);
        status = judge(t, &l, error);
    }
    drop_blocks(t);
    vae_mem_free(qkv);
    vae_mem_free(y);
    vae_mem_free(want);
    return status;
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_cuda_selftest(VaeBackend *cuda, VaeError *error)
{
    const VaePrecision precision = cuda->params.precision;
    const unsigned bit = 1u << precision;
    const bool counted = cuda->number < MOST_DEVICES;
    /* Widths that use other kernels, or other variants of one. */
    static const int channels[ATTENTIONS] = {384, 512, 1024, 1152};
    Test t = {.cuda = cuda,
              .type = vae_act_type(precision),
              .tf32 = precision == VAE_PRECISION_TF32};
    t.eps = t.type == VAE_TYPE_BF16  ? 0x1p-7
            : t.type == VAE_TYPE_F16 ? 0x1p-10
                                     : 0x1p-20; /* allows for TF32 */
    if (counted && (atomic_load(&passed[cuda->number]) & bit))
        return VAE_OK;
    const uint64_t begin = vae_now_ns();
    vae_rt_failure(); /* clears failures of other users of the run time */
    VaeStatus status = test_norm(&t, VAE_NORM_RMS, error);
    if (status == VAE_OK)
        status = test_norm(&t, VAE_NORM_GROUP, error);
    for (int i = 0; i < ATTENTIONS && status == VAE_OK; i++)
        status = test_attention(&t, channels[i], error);
    for (int i = 0; i < VAE_CUDA_OWN_TEST_SHAPES && status == VAE_OK; i++)
        status = test_conv(&t, i, error);
    if (status != VAE_OK)
        return status;
    if (counted)
        atomic_fetch_or(&passed[cuda->number], bit);
    vae_log(&cuda->params.log,
            "%s computes correctly in %s: %d convolutions, 2 norms and %d "
            "attentions, largest error %.2f of what is allowed, in %.3f s",
            cuda->device.name, vae_precision_name(precision), t.n_convs,
            ATTENTIONS, t.worst, 1e-9 * (double) (vae_now_ns() - begin));
    return VAE_OK;
}
