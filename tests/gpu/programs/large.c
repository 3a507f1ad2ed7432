/*
 * large.c: does the library compute right where offsets in bytes do not fit 31
 * bits? Convolutions of 1920x1080 by as many frames as the backend gives it at
 * once, some of whose results are summed here.
 *
 * large [--tiny]    small pictures, to see that it works
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "device.h"

enum { CHOICES = 3, PIXELS = 400, CHANNELS = 16 };

typedef struct Types {
    const char *label;
    VaeType type;
    double epsilon, out; /* as in convs.c */
    bool tf32;
} Types;

/* The slowest last. */
static const Types all_types[] = {
    {"bf16", VAE_TYPE_BF16, 0, 0x1p-8, false},
    {"fp16", VAE_TYPE_F16, 0, 0x1p-11, false},
    {"tf32", VAE_TYPE_F32, 0x1p-9, 0x1p-24, true},
    {"fp32", VAE_TYPE_F32, 0, 0x1p-24, false},
};

static const int channels[] = {96, 256};
static bool tiny;
static int n_run, n_failed;

/* Numbers of the device as it has them, which repeat. */
typedef struct Numbers {
    float *value;
    size_t n;
} Numbers;

static Numbers
numbers_of(Device *d, const void *p, VaeType type, size_t n)
{
    const size_t few = n < DEVICE_PERIOD ? n : DEVICE_PERIOD;
    return (Numbers){device_floats(d, p, type, few), few};
}

typedef struct Looks {
    const DeviceConv *conv;
    const Types *types;
    Numbers x, weight, add, bias;
    double want[PIXELS][CHANNELS], bound[PIXELS][CHANNELS];
} Looks;

/* Spread over all, the last one too. */
static size_t
pixel_of(const VaeCudaConvShape *s, int i)
{
    const size_t n = (size_t) s->t * s->ho * s->wo;
    return (n - 1) * (size_t) i / (PIXELS - 1);
}

static int
channel_of(const VaeCudaConvShape *s, int i)
{
    return i * s->c_out / CHANNELS;
}

static void
look_at(Looks *l, int pixel, int channel)
{
    const VaeCudaConvShape *s = &l->conv->shape;
    const size_t at = pixel_of(s, pixel);
    const int o = channel_of(s, channel), taps = s->kt * s->k * s->k;
    const int px = (int) (at % s->wo), row = (int) (at / s->wo);
    const int py = row % s->ho, frame = row / s->ho;
    double sum = 0, size = 0;
    for (int i = 0; i < taps; i++) {
        const int f = frame + i / (s->k * s->k);
        const int y = py + i / s->k % s->k - s->pad_y;
        const int x = px + i % s->k - s->pad_x;
        if (y < 0 || y >= s->h || x < 0 || x >= s->w)
            continue;
        const size_t in = (((size_t) f * s->h + y) * s->w + x) * s->c_in;
        const size_t weight = ((size_t) o * taps + i) * s->c_in;
        for (int c = 0; c < s->c_in; c++) {
            const double product = (double) l->x.value[(in + c) % l->x.n] *
                                   l->weight.value[(weight + c) % l->weight.n];
            sum += product;
            size += fabs(product);
        }
    }
    sum += (double) l->add.value[(at * s->c_out + o) % l->add.n] +
           l->bias.value[o];
    l->want[pixel][channel] = sum;
    l->bound[pixel][channel] =
        size * (l->types->epsilon + (double) taps * s->c_in * 0x1p-24) +
        (fabs(sum) + 4) * 2 * l->types->out;
}

/* How far the worst one is off, as a share of its bound. */
static double
most_over(Device *d, const Looks *l)
{
    const VaeCudaConvShape *s = &l->conv->shape;
    const size_t pixel = (size_t) s->c_out * vae_type_size(s->y_type);
    double most = 0;
    for (int i = 0; i < PIXELS; i++) {
        float *got = device_floats(
            d, (const uint8_t *) l->conv->y + pixel_of(s, i) * pixel, s->y_type,
            (size_t) s->c_out);
        for (int k = 0; k < CHANNELS; k++) {
            const double off =
                fabs((double) got[channel_of(s, k)] - l->want[i][k]);
            most = off <= most * l->bound[i][k] ? most
                   : isnan(off)                 ? INFINITY
                                                : off / l->bound[i][k];
        }
        free(got);
    }
    return most;
}

/* cuDNN 9.19 has one engine for such tensors in fp32, which does not use the
 * matrix units. It takes less time for few channels of results, which change no
 * offset in the input. */
static VaeCudaConvShape
shape_of(int c, const Types *types)
{
    const bool plain = types->type == VAE_TYPE_F32 && !types->tf32;
    VaeCudaConvShape s = {.h = tiny ? 12 : 1080,
                          .w = tiny ? 20 : 1920,
                          .c_in = c,
                          .c_out = plain ? 64 : c,
                          .k = 3,
                          .kt = 3,
                          .s = 1,
                          .st = 1,
                          .pad_y = 1,
                          .pad_x = 1,
                          .add = true,
                          .tf32 = types->tf32,
                          .x_type = types->type,
                          .y_type = types->type};
    s.ho = s.h;
    s.wo = s.w;
    s.t = vae_cuda_layer_frames(&s);
    return s;
}

/* x, y, what is added, and the workspace of the widest choice. */
static bool
has_room(const VaeCudaConvShape *s)
{
    const uint64_t frame =
        (uint64_t) s->h * s->w * s->c_in * vae_type_size(s->x_type);
    uint64_t left = 0;
    device_must(vae_rt_memory_left(&left), "tell its free memory");
    return left / frame > (uint64_t) (3 * s->t + s->kt + 4);
}

static void
one_shape(Device *d, int c, const Types *types)
{
    char name[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choices[CHOICES];
    VaeError error;
    int n = 0, tried = 0, good = 0;
    DeviceConv conv = {.shape = shape_of(c, types), .in_place = true};
    const VaeCudaConvShape *s = &conv.shape;
    vae_cuda_layer_name(s, name);
    if (!has_room(s)) {
        printf("no memory for %s %s\n", types->label, name);
        return;
    }
    device_conv_open(d, &conv, false);
    Looks *l = calloc(1, sizeof *l);
    if (!l)
        exit(1);
    l->conv = &conv;
    l->types = types;
    l->x = numbers_of(d, conv.x, s->x_type, conv.n_x);
    l->weight = numbers_of(d, conv.weight, s->x_type, conv.n_weight);
    l->add = numbers_of(d, conv.add, s->y_type, conv.n_y);
    l->bias = numbers_of(d, conv.bias, s->y_type, (size_t) s->c_out);
    for (int i = 0; i < PIXELS * CHANNELS; i++)
        look_at(l, i / CHANNELS, i % CHANNELS);
    const VaeStatus status =
        vae_cuda_conv_choices(d->convs, s, choices, CHOICES, &n, &error);
    for (int i = 0; status == VAE_OK && i < n; i++) {
        device_must(vae_rt_copy(conv.y, conv.add,
                                conv.n_y * vae_type_size(s->y_type), d->stream),
                    "copy");
        if (!device_conv_make(d, &conv, &choices[i])) /* runs it, too */
            continue;
        const double over = most_over(d, l);
        tried++;
        good += over <= 1;
        if (over > 1)
            printf("FAIL choice %s: %.3g times the bound\n", choices[i].text,
                   over);
    }
    n_run++;
    n_failed += tried == 0 || good < tried;
    printf("%s %s %s, %d frames: %d of %d choices right\n",
           tried && good == tried ? "ok  " : "FAIL", types->label, name, s->t,
           good, tried);
    free(l->x.value);
    free(l->weight.value);
    free(l->add.value);
    free(l->bias.value);
    free(l);
    device_conv_close(&conv);
}

int
main(int argc, char **argv)
{
    Device d;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tiny = argc == 2 && strcmp(argv[1], "--tiny") == 0;
    if (argc > 1 && !tiny) {
        fprintf(stderr, "usage: large [--tiny]\n");
        return 2;
    }
    device_open(&d);
    for (size_t t = 0; t < sizeof all_types / sizeof *all_types; t++) {
        const bool has =
            d.info.capability >= 80 ||
            (all_types[t].type != VAE_TYPE_BF16 && !all_types[t].tf32);
        for (size_t i = 0; has && i < sizeof channels / sizeof *channels; i++)
            one_shape(&d, channels[i], &all_types[t]);
    }
    device_close(&d);
    printf("%d of %d shapes failed\n", n_failed, n_run);
    return n_failed > 0;
}
