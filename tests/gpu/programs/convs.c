/*
 * convs.c: what the convolutions' library computes on a device against the
 * reference, by every choice that it offers; and whether a frame has the same
 * bytes whatever the number of frames.
 *
 * convs [CHOICES]    at most so many choices for each shape; all unless given
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "device.h"

static int n_run, n_failed;

typedef struct Types {
    const char *label;
    VaeType type;
    bool tf32;
    double epsilon; /* of a product, relative */
    double out;     /* of a result: half its last place */
} Types;

/* Inputs are rounded before; TF32 cuts both factors to 10 bits. Sums are in
 * fp32. */
static const Types all_types[] = {
    {"fp32", VAE_TYPE_F32, false, 0, 0x1p-24},
    {"tf32", VAE_TYPE_F32, true, 0x1p-9, 0x1p-24},
    {"fp16", VAE_TYPE_F16, false, 0, 0x1p-11},
    {"bf16", VAE_TYPE_BF16, false, 0, 0x1p-8},
};

/* Kinds of convolutions of the models, small; t is set by the test. */
static const VaeCudaConvShape shapes[] = {
    {.h = 13, .w = 21, .c_in = 96, .c_out = 96, .k = 3, .kt = 3, .add = true},
    {.h = 13, .w = 21, .c_in = 192, .c_out = 96, .k = 3, .kt = 3},
    {.h = 9, .w = 11, .c_in = 96, .c_out = 192, .k = 1, .kt = 1},
    {.h = 9, .w = 11, .c_in = 64, .c_out = 128, .k = 1, .kt = 3},
    {.h = 16, .w = 24, .c_in = 64, .c_out = 64, .k = 3, .kt = 1, .s = 2},
    {.h = 9, .w = 11, .c_in = 64, .c_out = 64, .k = 1, .kt = 3, .st = 2},
    {.h = 9, .w = 11, .c_in = 64, .c_out = 64, .k = 3, .kt = 1, .relu = true},
    {.h = 9, .w = 11, .c_in = 64, .c_out = 64, .k = 2, .kt = 1, .pad_y = 1},
    {.h = 9, .w = 11, .c_in = 64, .c_out = 64, .k = 2, .kt = 1, .pad_x = 1},
    /* so many pixels that an engine may split sums */
    {.h = 60, .w = 104, .c_in = 192, .c_out = 384, .k = 1, .kt = 1},
    /* rows that are no multiples of 16 bytes */
    {.h = 2, .w = 3, .c_in = 8, .c_out = 6, .k = 2, .kt = 1, .pad_y = 1},
    {.h = 4, .w = 6, .c_in = 6, .c_out = 6, .k = 3, .kt = 1, .add = true},
    {.h = 1, .w = 1, .c_in = 12, .c_out = 24, .k = 1, .kt = 1},
    /* from a picture */
    {.h = 18, .w = 24, .c_in = 3, .c_out = 96, .k = 3, .kt = 3},
    {.h = 18, .w = 24, .c_in = 3, .c_out = 64, .k = 3, .kt = 1, .relu = true},
};

static VaeCudaConvShape
shape_of(int i, int t, const Types *types)
{
    VaeCudaConvShape s = shapes[i];
    s.t = t;
    s.s = s.s ? s.s : 1;
    s.st = s.st ? s.st : 1;
    if (s.k != 2)
        s.pad_y = s.pad_x = s.k == 3 && s.s == 1;
    /* With a stride of 2, zeros follow the last row and column. */
    s.ho = s.h / s.s;
    s.wo = s.w / s.s;
    s.x_type = s.y_type = types->type;
    s.tf32 = types->tf32;
    return s;
}

static void *
room(size_t n)
{
    void *p = malloc(n);
    if (!p)
        exit(1);
    return p;
}

/* [out][taps][in] -> [taps][in][out], of absolute values on request. */
static float *
reorder(const VaeCudaConvShape *s, const float *w, bool absolute)
{
    const size_t row = (size_t) s->kt * s->k * s->k * s->c_in;
    const size_t n_out = (size_t) s->c_out;
    float *r = room(row * n_out * sizeof *r);
    for (size_t o = 0; o < n_out; o++)
        for (size_t i = 0; i < row; i++)
            r[i * n_out + o] =
                absolute ? fabsf(w[o * row + i]) : w[o * row + i];
    return r;
}

static float *
reference(const DeviceConv *c, bool absolute)
{
    const VaeCudaConvShape *s = &c->shape;
    float *y = room(c->n_y * sizeof *y), *x = room(c->n_x * sizeof *x);
    float *w = reorder(s, c->weight_host, absolute);
    for (size_t i = 0; i < c->n_x; i++)
        x[i] = absolute ? fabsf(c->x_host[i]) : c->x_host[i];
    vae_kernels_ref.conv(&(VaeQueue){.threads = 1},
                         &(VaeConvArgs){.y = y,
                                        .x = x,
                                        .add = absolute ? NULL : c->add_host,
                                        .weight = w,
                                        .bias = absolute ? NULL : c->bias_host,
                                        .t = s->t,
                                        .h = s->h,
                                        .w = s->w,
                                        .c_in = s->c_in,
                                        .ho = s->ho,
                                        .wo = s->wo,
                                        .c_out = s->c_out,
                                        .k = s->k,
                                        .kt = s->kt,
                                        .s = s->s,
                                        .st = s->st,
                                        .pad_y = s->pad_y,
                                        .pad_x = s->pad_x,
                                        .relu = !absolute && s->relu});
    free(x);
    free(w);
    return y;
}

/*
 * The bound of an element: its terms' absolute sum times the rounding of each
 * product's factors and of a fp32 sum of as many terms, and the result's own
 * rounding, which cuDNN may make twice: before and after it adds.
 */
static double
most_over(const DeviceConv *c, const Types *types, const float *got,
          const float *want, const float *terms)
{
    const VaeCudaConvShape *s = &c->shape;
    const double n = (double) s->kt * s->k * s->k * s->c_in;
    double most = 0;
    for (size_t i = 0; i < c->n_y; i++) {
        const double bound =
            terms[i] * (types->epsilon + n * 0x1p-24) +
            (fabs((double) want[i]) + (s->add ? 2 : 0) + 2) * 2 * types->out;
        const double over = fabs((double) got[i] - (double) want[i]) / bound;
        most =
            over > most || isnan(over) ? (isnan(over) ? INFINITY : over) : most;
    }
    return most;
}

/* As the networks do: what is added lies where the result goes. */
static float *
computed(Device *d, DeviceConv *c)
{
    const VaeType type = c->shape.y_type;
    float *nothing = room(c->n_y * sizeof *nothing);
    memset(nothing, 0xff, c->n_y * sizeof *nothing);
    device_must(vae_rt_copy(c->y, c->in_place ? c->add : nothing,
                            c->n_y * vae_type_size(type), d->stream),
                "copy");
    device_conv_run(d, c);
    float *got = device_floats(d, c->y, type, c->n_y);
    free(nothing);
    return got;
}

/* One choice at 1 and 4 frames; -1: it cannot be made for both. */
static int
one_choice(Device *d, DeviceConv pair[2], float *const want[2],
           const float *const terms[2], const Types *types,
           const VaeCudaChoice *choice)
{
    float *got[2] = {NULL, NULL};
    bool made = true;
    double over = 0;
    for (int i = 0; i < 2 && made; i++) {
        made = device_conv_make(d, &pair[i], choice);
        if (!made)
            break;
        got[i] = computed(d, &pair[i]);
        const double one =
            most_over(&pair[i], types, got[i], want[i], terms[i]);
        over = one > over ? one : over;
    }
    int good = -1;
    if (made) {
        const bool same =
            memcmp(got[0], got[1], pair[0].n_y * sizeof(float)) == 0;
        good = over <= 1 && same;
        if (!good)
            printf("FAIL choice %s: %.3g times the bound%s\n", choice->text,
                   over, same ? "" : ", other bytes with 4 frames than with 1");
    }
    free(got[0]);
    free(got[1]);
    return good;
}

/* Frames that both see are the first ones of the longer. */
static void
one_shape(Device *d, int i, const Types *types, int most)
{
    static const int times[] = {1, VAE_CUDA_LAYER_FRAMES};
    char name[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choices[VAE_CUDA_MAX_CHOICES];
    DeviceConv pair[2];
    float *want[2], *terms[2];
    VaeError error;
    int n = 0, tried = 0, good = 0;
    for (int k = 0; k < 2; k++) {
        pair[k] = (DeviceConv){.shape = shape_of(i, times[k], types)};
        device_conv_open(d, &pair[k], true);
        pair[k].in_place = pair[k].shape.add;
        want[k] = reference(&pair[k], false);
        terms[k] = reference(&pair[k], true);
    }
    vae_cuda_layer_name(&pair[0].shape, name);
    const VaeStatus status = vae_cuda_conv_choices(d->convs, &pair[1].shape,
                                                   choices, most, &n, &error);
    for (int k = 0; status == VAE_OK && k < n; k++) {
        const int one = one_choice(d, pair, want, (const float *const *) terms,
                                   types, &choices[k]);
        tried += one >= 0;
        good += one > 0;
    }
    n_run++;
    n_failed += tried == 0 || good < tried;
    printf("%s %s %s: %d of %d choices right (%d offered)%s%s\n",
           tried && good == tried ? "ok  " : "FAIL", types->label, name, good,
           tried, n, status == VAE_OK ? "" : ", ",
           status == VAE_OK ? "" : error.message);
    for (int k = 0; k < 2; k++) {
        free(want[k]);
        free(terms[k]);
        device_conv_close(&pair[k]);
    }
}

int
main(int argc, char **argv)
{
    Device d;
    int most = argc > 1 ? atoi(argv[1]) : VAE_CUDA_MAX_CHOICES;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2 || most < 1) {
        fprintf(stderr, "usage: convs [CHOICES]\n");
        return 2;
    }
    most = most < VAE_CUDA_MAX_CHOICES ? most : VAE_CUDA_MAX_CHOICES;
    device_open(&d);
    for (size_t t = 0; t < sizeof all_types / sizeof *all_types; t++) {
        const bool has =
            d.info.capability >= 80 ||
            (all_types[t].type != VAE_TYPE_BF16 && !all_types[t].tf32);
        for (size_t i = 0; has && i < sizeof shapes / sizeof *shapes; i++)
            one_shape(&d, (int) i, &all_types[t], most);
    }
    device_close(&d);
    printf("%d of %d shapes failed\n", n_failed, n_run);
    return n_failed || !n_run;
}
