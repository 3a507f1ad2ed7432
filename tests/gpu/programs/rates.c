/*
 * rates.c: what a device does at most, as JSON: the floors that speeds are held
 * against, and the rates of the kernels at the sizes that count.
 *
 * rates [--tiny] [properties.json]
 *   --tiny   sizes that are over at once, to see that it works
 *   the device's properties as the convolutions' library tells them go to
 *   the file
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "device.h"

enum { RUNS = 15, CHOICES = 8 };

static bool tiny;
static const char *separator = "";

static int
small(int full, int least)
{
    return tiny ? least : full;
}

static const char *
type_name(VaeType type, bool tf32)
{
    return type == VAE_TYPE_BF16  ? "bf16"
           : type == VAE_TYPE_F16 ? "fp16"
           : tf32                 ? "tf32"
                                  : "fp32";
}

/* ------------------------------------------------------------------ */
/* Copies.                                                             */

/* Per millisecond; 0 where none has passed. */
static double
rate(double units, float ms)
{
    return ms > 0 ? units / (double) ms : 0;
}

typedef struct Copy {
    void *to, *from;
    size_t bytes;
} Copy;

static void
run_copy(Device *d, void *what)
{
    const Copy *c = what;
    device_must(vae_rt_copy(c->to, c->from, c->bytes, d->stream), "copy");
}

/* Bytes read and written within the device; bytes moved between it and the
 * host's pinned memory. */
static void
copies(Device *d)
{
    const size_t bytes = tiny ? 4096 : (size_t) 1 << 30;
    const size_t host_bytes = tiny ? 4096 : (size_t) 256 << 20;
    void *a = device_numbers(d, VAE_TYPE_F32, bytes / 4, 1, NULL);
    void *b = device_bytes(d, bytes), *host;
    device_must(vae_rt_alloc_host(&host, host_bytes), "take memory");
    memset(host, 1, host_bytes);
    const Copy within = {b, a, bytes}, up = {a, host, host_bytes},
               down = {host, a, host_bytes};
    const double n = (double) bytes * 1e-6, m = (double) host_bytes * 1e-6;
    printf("\"copy_gbytes_s\": %.2f, ",
           rate(2 * n, device_time(d, run_copy, (void *) &within, RUNS)));
    printf("\"upload_gbytes_s\": %.2f, ",
           rate(m, device_time(d, run_copy, (void *) &up, RUNS)));
    printf("\"download_gbytes_s\": %.2f,\n",
           rate(m, device_time(d, run_copy, (void *) &down, RUNS)));
    vae_rt_free_host(host);
    vae_rt_free(a);
    vae_rt_free(b);
}

/* ------------------------------------------------------------------ */
/* Convolutions.                                                       */

/* A convolution's rate by the fastest of the first choices, and the least times
 * of the library, of the own kernels, and of that for compute capability 9.0;
 * 0: it is no choice. */
static void
one_conv(Device *d, const char *name, VaeCudaConvShape shape, VaeType type,
         bool tf32)
{
    DeviceConv c = {.shape = shape};
    VaeCudaChoice choices[CHOICES], best = {""};
    VaeError error;
    int n = 0;
    float least = 0, own = 0, groups = 0, library = 0;
    c.shape.s = c.shape.st = 1;
    c.shape.pad_y = c.shape.pad_x = shape.k > 1;
    c.shape.ho = shape.h;
    c.shape.wo = shape.w;
    c.shape.x_type = c.shape.y_type = type;
    c.shape.tf32 = tf32;
    const VaeStatus status =
        vae_cuda_conv_choices(d->convs, &c.shape, choices, CHOICES, &n, &error);
    device_conv_open(d, &c, false);
    for (int i = 0; status == VAE_OK && i < n; i++) {
        if (!device_conv_make(d, &c, &choices[i]))
            continue;
        const float ms = device_time(d, device_conv_run, &c, tiny ? 1 : 5);
        float *kind = vae_cuda_choice_is_own(&choices[i]) ? &own : &library;
        if (ms > 0 && (*kind <= 0 || ms < *kind))
            *kind = ms;
        if (strstr(choices[i].text, "wgmma"))
            groups = ms;
        if (ms > 0 && (least <= 0 || ms < least)) {
            least = ms;
            best = choices[i];
        }
    }
    const double flop = 2.0 * (double) c.n_weight * shape.t * shape.h * shape.w;
    if (least > 0)
        printf("%s{\"name\": \"%s\", \"type\": \"%s\", \"ms\": %.4f, "
               "\"tflops\": %.2f, \"choice\": \"%s\", \"cudnn_ms\": %.4f, "
               "\"own_ms\": %.4f, \"wgmma_ms\": %.4f}",
               separator, name, type_name(type, tf32), (double) least,
               rate(flop * 1e-9, least), best.text, (double) library,
               (double) own, (double) groups);
    if (least > 0)
        separator = ",\n  ";
    device_conv_close(&c);
}

static void
convs(Device *d)
{
    static const struct {
        VaeType type;
        bool tf32;
    } types[] = {{VAE_TYPE_BF16, false},
                 {VAE_TYPE_F16, false},
                 {VAE_TYPE_F32, true},
                 {VAE_TYPE_F32, false}};
    static const int layers[][3] = {{96, 480, 832},  {192, 240, 416},
                                    {384, 120, 208}, {128, 240, 416},
                                    {256, 240, 416}, {512, 120, 208}};
    printf("\"convs\": [\n  ");
    separator = "";
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const int side = small(8192, 64);
        if (d->info.capability < 80 &&
            (types[i].type == VAE_TYPE_BF16 || types[i].tf32))
            continue;
        const VaeCudaConvShape product = {.t = 1,
                                          .h = small(64, 2),
                                          .w = small(128, 4),
                                          .c_in = side,
                                          .c_out = side,
                                          .k = 1,
                                          .kt = 1};
        one_conv(d, "product", product, types[i].type, types[i].tf32);
        for (size_t k = 0; k < (tiny ? 1 : sizeof layers / sizeof *layers);
             k++) {
            char name[32];
            const VaeCudaConvShape shape = {.t = VAE_CUDA_LAYER_FRAMES,
                                            .h = small(layers[k][1], 4),
                                            .w = small(layers[k][2], 6),
                                            .c_in = layers[k][0],
                                            .c_out = layers[k][0],
                                            .k = 3,
                                            .kt = 3,
                                            .add = true};
            snprintf(name, sizeof name, "conv %d %dx%d", layers[k][0], shape.w,
                     shape.h);
            one_conv(d, name, shape, types[i].type, types[i].tf32);
        }
    }
    printf("]}\n");
}

/* ------------------------------------------------------------------ */
/* Kernels.                                                            */

typedef struct Kernel {
    const char *name;
    VaeType type;
    double bytes, flop;
    void (*call)(const VaeQueue *q, const void *args);
    const void *args;
    bool tf32;
} Kernel;

static void
run_kernel(Device *d, void *what)
{
    const Kernel *k = what;
    k->call(&(VaeQueue){.threads = 1, .stream = d->stream}, k->args);
}

static void
tell(Device *d, Kernel k)
{
    const float ms = device_time(d, run_kernel, &k, tiny ? 1 : RUNS);
    printf("%s{\"name\": \"%s\", \"type\": \"%s\", \"ms\": %.4f, "
           "\"gbytes_s\": %.2f, \"gflops\": %.2f}",
           separator, k.name, type_name(k.type, k.tf32), (double) ms,
           rate(k.bytes * 1e-6, ms), rate(k.flop * 1e-6, ms));
    separator = ",\n  ";
}

static void
call_norm(const VaeQueue *q, const void *args)
{
    vae_rt_kernels()->norm(q, args);
}

static void
norm(Device *d, int c, int groups, int h, int w, VaeType type)
{
    char name[64];
    VaeNormArgs a = {.kind = groups ? VAE_NORM_GROUP : VAE_NORM_RMS,
                     .x_type = type,
                     .y_type = type,
                     .t = 4,
                     .h = small(h, 3),
                     .w = small(w, 5),
                     .c = c,
                     .groups = groups,
                     .eps = groups ? 1e-6f : 0,
                     .silu = true};
    const size_t n = (size_t) a.t * a.h * a.w * a.c;
    float *gain = device_numbers(d, VAE_TYPE_F32, (size_t) c, 5, NULL);
    a.gain = gain;
    a.offset = groups ? gain : NULL;
    void *x = device_numbers(d, type, n, 6, NULL);
    a.x = x;
    a.y = device_bytes(d, n * vae_type_size(type));
    if (groups)
        a.sums = device_bytes(
            d, 8 * vae_norm_sums_cuda(a.t, a.h, a.w, a.c, a.groups));
    snprintf(name, sizeof name, "%s and SiLU %d %dx%d",
             groups ? "group norm" : "norm", c, a.w, a.h);
    tell(d, (Kernel){name, type, (double) (2 * n * vae_type_size(type)), 0,
                     call_norm, &a});
    vae_rt_free(gain);
    vae_rt_free(x);
    vae_rt_free(a.y);
    vae_rt_free(a.sums);
}

static void
call_rearrange(const VaeQueue *q, const void *args)
{
    vae_rt_kernels()->rearrange(q, args);
}

static void
rearrange(Device *d, const char *label, VaeRearrange kind, int c, int h, int w)
{
    char name[64];
    VaeRearrangeArgs a = {.kind = kind,
                          .x_type = VAE_TYPE_BF16,
                          .y_type = VAE_TYPE_BF16,
                          .t = 4,
                          .h = small(h, 3),
                          .w = small(w, 5),
                          .c = c,
                          .ft = 1,
                          .fs = 2};
    const size_t out = (size_t) a.t * a.h * a.w * 4 * c;
    const size_t in = kind == VAE_UNFOLD_NEAREST ? out / 4 : out;
    void *x = device_numbers(d, VAE_TYPE_BF16, in, 7, NULL);
    a.x = x;
    a.y = device_bytes(d, out * 2);
    snprintf(name, sizeof name, "%s %d to %dx%d", label, c, 2 * a.w, 2 * a.h);
    tell(d, (Kernel){name, VAE_TYPE_BF16, (double) (2 * (in + out)), 0,
                     call_rearrange, &a});
    vae_rt_free(x);
    vae_rt_free(a.y);
}

static void
call_attention(const VaeQueue *q, const void *args)
{
    vae_rt_kernels()->attention(q, args);
}

static void
attention(Device *d, int c, int sites, VaeType type, bool tf32)
{
    char name[64];
    VaeAttentionArgs a = {.x_type = type,
                          .y_type = type,
                          .t = 1,
                          .n = small(sites, 40),
                          .c = c,
                          .tf32 = tf32};
    const size_t n = (size_t) a.n * c;
    void *qkv = device_numbers(d, type, 3 * n, 8, NULL);
    a.qkv = qkv;
    a.y = device_bytes(d, n * vae_type_size(type));
    snprintf(name, sizeof name, "attention %d over %d", c, a.n);
    tell(d, (Kernel){name, type, (double) (4 * n * vae_type_size(type)),
                     4.0 * a.n * a.n * c, call_attention, &a, tf32});
    vae_rt_free(qkv);
    vae_rt_free(a.y);
}

static void
call_picture(const VaeQueue *q, const void *args)
{
    vae_rt_kernels()->picture_out(q, args);
}

static void
picture(Device *d)
{
    VaePicture p = {.pixels = VAE_PIXELS_RGB,
                    .width = small(1280, 16),
                    .height = small(720, 8)};
    const size_t n = (size_t) p.width * (size_t) p.height * 3;
    p.stride[0] = (ptrdiff_t) p.width * 3;
    p.data[0] = device_bytes(d, n);
    void *x = device_numbers(d, VAE_TYPE_BF16, n, 9, NULL);
    const VaePictureOutArgs a = {.picture = &p,
                                 .x = x,
                                 .h = p.height,
                                 .w = p.width,
                                 .low = -1,
                                 .high = 1,
                                 .x_type = VAE_TYPE_BF16};
    tell(d, (Kernel){"picture out 1280x720", VAE_TYPE_BF16, (double) n * 3, 0,
                     call_picture, &a});
    vae_rt_free(p.data[0]);
    vae_rt_free(x);
}

static void
kernels(Device *d)
{
    printf("\"kernels\": [\n  ");
    separator = "";
    norm(d, 96, 0, 480, 832, VAE_TYPE_BF16);
    norm(d, 192, 0, 240, 416, VAE_TYPE_BF16);
    norm(d, 384, 0, 120, 208, VAE_TYPE_BF16);
    norm(d, 96, 0, 480, 832, VAE_TYPE_F16);
    norm(d, 96, 0, 480, 832, VAE_TYPE_F32);
    norm(d, 128, 32, 480, 832, VAE_TYPE_BF16);
    norm(d, 512, 32, 120, 208, VAE_TYPE_BF16);
    rearrange(d, "nearest", VAE_UNFOLD_NEAREST, 192, 240, 416);
    rearrange(d, "shuffle", VAE_SHUFFLE_RQTC, 256, 240, 416);
    rearrange(d, "unfold", VAE_UNFOLD_CRQ, 64, 240, 416);
    rearrange(d, "unfold", VAE_UNFOLD_CRQ, 3, 360, 640);
    attention(d, 384, 60 * 104, VAE_TYPE_BF16, false);
    attention(d, 384, 90 * 160, VAE_TYPE_BF16, false);
    attention(d, 512, 60 * 104, VAE_TYPE_BF16, false);
    attention(d, 1024, 30 * 52, VAE_TYPE_BF16, false);
    attention(d, 384, 60 * 104, VAE_TYPE_F32, false);
    attention(d, 384, 60 * 104, VAE_TYPE_F32, true);
    picture(d);
    printf("],\n");
}

/* ------------------------------------------------------------------ */

static void
properties(Device *d, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "%s\n", vae_cuda_convs_properties(d->convs)) < 0 ||
        fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    Device d;
    setvbuf(stdout, NULL, _IOLBF, 0); /* what is told before a crash counts */
    tiny = argc > 1 && strcmp(argv[1], "--tiny") == 0;
    if (argc > 2 + tiny) {
        fprintf(stderr, "usage: rates [--tiny] [PROPERTIES]\n");
        return 2;
    }
    device_open(&d);
    if (argc == 2 + tiny)
        properties(&d, argv[1 + tiny]);
    printf("{\"device\": \"%s\", \"capability\": %d, \"memory\": %llu, "
           "\"driver\": %d, \"runtime\": %d, \"library\": \"%s\",\n",
           d.info.name, d.info.capability, (unsigned long long) d.info.memory,
           d.info.driver, d.info.runtime, vae_cuda_convs_name(d.convs));
    copies(&d);
    kernels(&d);
    convs(&d); /* last, as a failure of the library may end it */
    device_close(&d);
    return 0;
}
