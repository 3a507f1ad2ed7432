/*
 * rates.c: measures the device's peak rates: a large matrix product by the
 * library that computes convolutions, and a copy of memory.
 */
#include "gpu.h"

/* Sizes grow until one takes this many ms, is the largest, or does not fit. */
#define LONG_PRODUCT 1.0f
#define LONG_COPY 0.1f
enum { LEAST_SIDE = 512, MOST_SIDE = 8192 };
enum { LEAST_COPY = 4 << 20, MOST_COPY = 256 << 20 };
enum { CHOICES = 8, RUNS = 7 };

/* A product of two square matrices, as a convolution with one tap; its pixels
 * are the rows. */
static VaeCudaConvShape
product(const VaeBackend *cuda, int side)
{
    const VaePrecision precision = cuda->params.precision;
    const VaeType type = vae_backend_cuda.act_type(precision);
    return (VaeCudaConvShape){.t = 1,
                              .h = side / 64,
                              .w = 64,
                              .c_in = side,
                              .ho = side / 64,
                              .wo = 64,
                              .c_out = side,
                              .k = 1,
                              .kt = 1,
                              .s = 1,
                              .st = 1,
                              .tf32 = precision == VAE_PRECISION_TF32,
                              .x_type = type,
                              .y_type = type,
                              .align = 16};
}

/* Shortest time in ms of a product, over the library's first choices; negative
 * if it cannot be timed. */
static float
time_product(VaeBackend *cuda, int side)
{
    VaeCudaChoice choices[CHOICES];
    VaeError error;
    float ms = -1;
    int n = 0;
    const VaeCudaConvShape shape = product(cuda, side);
    if (vae_cuda_conv_choices(cuda->convs, &shape,
                              vae_cuda_layer_workspace(&shape), choices,
                              CHOICES, &n, &error) == VAE_OK)
        vae_cuda_fastest(cuda, &shape, choices, n, &ms);
    return ms;
}

static void
find_flops(VaeBackend *cuda, VaeRates *out)
{
    float ms = 0;
    for (int side = LEAST_SIDE; side <= MOST_SIDE && ms < LONG_PRODUCT;
         side *= 4) {
        const double n = side;
        ms = time_product(cuda, side);
        if (ms <= 0) /* no memory, or too short to measure */
            break;
        out->flops = 2e3 * n * n * n / (double) ms;
    }
}

/* Shortest time in ms of a copy within the device; negative on failure. */
static float
time_copy(VaeBackend *cuda, size_t bytes)
{
    void *from = NULL, *to = NULL;
    VaeRtEvent begin = NULL, end = NULL;
    float least = -1;
    int code = vae_rt_alloc(&from, bytes);
    if (!code)
        code = vae_rt_alloc(&to, bytes);
    if (!code)
        code = vae_rt_event_new(&begin);
    if (!code)
        code = vae_rt_event_new(&end);
    if (!code)
        code = vae_rt_zero(from, bytes, cuda->compute);
    for (int i = 0; !code && i < RUNS; i++) {
        float ms = 0;
        code = vae_rt_event_record(begin, cuda->compute);
        if (!code)
            code = vae_rt_copy(to, from, bytes, cuda->compute);
        if (!code)
            code = vae_rt_event_record(end, cuda->compute);
        if (!code)
            code = vae_rt_event_sync(end);
        if (!code)
            code = vae_rt_event_span(begin, end, &ms);
        if (!code && (least < 0 || ms < least))
            least = ms;
    }
    vae_rt_event_free(begin);
    vae_rt_event_free(end);
    vae_rt_free(from);
    vae_rt_free(to);
    return code ? -1 : least;
}

static void
find_bytes(VaeBackend *cuda, VaeRates *out)
{
    float ms = 0;
    for (size_t n = LEAST_COPY; n <= MOST_COPY && ms < LONG_COPY; n *= 8) {
        ms = time_copy(cuda, n);
        if (ms <= 0)
            break;
        out->bytes = 2e3 * (double) n / (double) ms;
    }
}

VaeStatus
vae_cuda_rates(VaeBackend *cuda, VaePrecision precision, VaeRates *out,
               VaeError *error)
{
    *out = (VaeRates){0};
    find_flops(cuda, out);
    find_bytes(cuda, out);
    /* Clears failures of sizes that did not fit or could not be launched, so
     * that the next call does not report them. */
    const int code = vae_rt_failure();
    if (out->flops > 0 && out->bytes > 0)
        return VAE_OK;
    return vae_fail(error, VAE_ERR_BACKEND, "%s cannot tell how fast it is: %s",
                    cuda->device.name,
                    code ? vae_rt_words(code) : "nothing could be timed");
}
