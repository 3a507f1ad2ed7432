/*
 * measure.c: measures the time of convolutions on the device.
 */
#include <stdlib.h>

#include "gpu.h"

/* A choice whose run takes more than this factor of the best time is not run
 * again. */
#define HOPELESS 1.2f
/* Timed runs of one choice; fewer if they take LONG ms in sum. */
#define RUNS 3
#define LONG 50.0f
/* Runs of fewer than SHORT ms are recorded MANY in a row. Otherwise the device
 * would wait for the host to launch each; in a program it does not. */
#define SHORT 0.2f
#define MANY 8
/* After this many ms of timed runs, the remaining choices of a layer are
 * skipped: the library's best guesses come first. */
#define ENOUGH 1000.0f

/* Buffers of a layer. The inputs hold pseudo-random values: with zeros a device
 * computes faster than with real data. */
typedef struct Bench {
    VaeBackend *cuda;
    const VaeCudaConvShape *shape;
    void *x, *y, *add, *weight, *bias, *workspace;
    VaeRtEvent from, to;
    float spent; /* ms of all timed runs */
} Bench;

static size_t
elements(const VaeCudaConvShape *s, char which)
{
    const size_t t_in = (size_t) (s->t - 1) * s->st + s->kt;
    const size_t taps = (size_t) s->kt * s->k * s->k;
    return which == 'x'   ? t_in * s->h * s->w * s->c_in
           : which == 'y' ? (size_t) s->t * s->ho * s->wo * s->c_out
           : which == 'w' ? taps * s->c_in * s->c_out
                          : (size_t) s->c_out;
}

/* Fills dst with n values around zero: uploads the first ones and copies them
 * on the device. */
static int
fill(Bench *b, void *dst, VaeType type, size_t n)
{
    enum { PIECE = 1 << 16 };
    const size_t size = vae_type_size(type);
    const size_t first = n < PIECE ? n : PIECE;
    float *wide = malloc(PIECE * sizeof *wide);
    uint8_t *narrow = malloc((size_t) 4 * PIECE);
    uint32_t state = 12345;
    int code = wide && narrow ? 0 : -1;
    for (size_t i = 0; !code && i < first; i++) {
        state = state * 1664525u + 1013904223u;
        wide[i] = (float) (int32_t) state / 2147483648.0f;
    }
    if (!code) {
        vae_type_from_float(narrow, type, wide, first);
        code = vae_cuda_copy_now(b->cuda, dst, narrow, first * size);
    }
    for (size_t at = first; !code && at < n;) {
        const size_t more = n - at < at ? n - at : at;
        code = vae_rt_copy((uint8_t *) dst + at * size, dst, more * size,
                           b->cuda->compute);
        at += more;
    }
    free(wide);
    free(narrow);
    return code;
}

static int
bench_open(Bench *b, size_t workspace)
{
    const VaeCudaConvShape *s = b->shape;
    const size_t y = elements(s, 'y') * vae_type_size(s->y_type);
    int code = vae_rt_alloc(&b->x, elements(s, 'x') * vae_type_size(s->x_type));
    if (!code)
        code = vae_rt_alloc(&b->weight,
                            elements(s, 'w') * vae_type_size(s->x_type));
    if (!code)
        code =
            vae_rt_alloc(&b->bias, elements(s, 'b') * vae_type_size(s->y_type));
    if (!code)
        code = vae_rt_alloc(&b->y, y);
    if (!code && s->add)
        code = vae_rt_alloc(&b->add, y);
    if (!code && workspace)
        code = vae_rt_alloc(&b->workspace, workspace);
    if (!code)
        code = vae_rt_event_new(&b->from);
    if (!code)
        code = vae_rt_event_new(&b->to);
    if (!code)
        code = fill(b, b->x, s->x_type, elements(s, 'x'));
    if (!code)
        code = fill(b, b->weight, s->x_type, elements(s, 'w'));
    if (!code)
        code = fill(b, b->bias, s->y_type, elements(s, 'b'));
    if (!code && s->add)
        code = fill(b, b->add, s->y_type, elements(s, 'y'));
    return code;
}

static void
bench_close(Bench *b)
{
    vae_rt_free(b->x);
    vae_rt_free(b->y);
    vae_rt_free(b->add);
    vae_rt_free(b->weight);
    vae_rt_free(b->bias);
    vae_rt_free(b->workspace);
    vae_rt_event_free(b->from);
    vae_rt_event_free(b->to);
}

/* Records MANY runs; NULL if they cannot be recorded. */
static VaeRtGraph
record_many(const Bench *b, VaeCudaConv *conv)
{
    VaeRtGraph many = NULL;
    VaeError error;
    pthread_mutex_lock(&vae_cuda_recording);
    bool good = vae_rt_capture_begin(b->cuda->compute) == 0;
    if (good) {
        for (int i = 0; i < MANY && good; i++)
            good = vae_cuda_conv_run(conv, b->cuda->compute, &error) == VAE_OK;
        good = vae_rt_capture_end(b->cuda->compute, &many) == 0 && good;
    }
    pthread_mutex_unlock(&vae_cuda_recording);
    if (good)
        return many;
    vae_rt_graph_free(many);
    vae_rt_failure(); /* no error: a program is then not recorded, either */
    return NULL;
}

/* Milliseconds of one run, by running `many` if it is not NULL; negative on
 * failure. */
static float
time_run(Bench *b, VaeCudaConv *conv, VaeRtGraph many)
{
    VaeRtStream stream = b->cuda->compute;
    VaeError error;
    float ms = -1;
    /* An untimed graph first keeps the device busy while the timed one is
     * launched. */
    if ((many && vae_rt_graph_run(many, stream)) ||
        vae_rt_event_record(b->from, stream) ||
        (many ? vae_rt_graph_run(many, stream) != 0
              : vae_cuda_conv_run(conv, stream, &error) != VAE_OK) ||
        vae_rt_event_record(b->to, stream) || vae_rt_event_sync(b->to) ||
        vae_rt_event_span(b->from, b->to, &ms))
        return -1;
    b->spent += ms;
    return many ? ms / MANY : ms;
}

/* Runs it once, because the first run loads code. */
static bool
load(const Bench *b, VaeCudaConv *conv)
{
    VaeError error;
    return vae_cuda_conv_run(conv, b->cuda->compute, &error) == VAE_OK &&
           vae_rt_stream_sync(b->cuda->compute) == 0;
}

/* The shortest of some times; negative if it cannot run or is much slower than
 * `best` (negative: none yet). */
static float
least_time(Bench *b, VaeCudaConv *conv, float best)
{
    VaeRtGraph many = NULL;
    float least = -1, sum = 0;
    for (int i = 0; i < RUNS && sum < LONG; i++) {
        float ms = time_run(b, conv, many);
        if (i == 0 && ms >= 0 && ms < SHORT) {
            many = record_many(b, conv);
            ms = many ? time_run(b, conv, many) : ms;
        }
        if (ms < 0 || (best >= 0 && ms > HOPELESS * best))
            break;
        least = least < 0 || ms < least ? ms : least;
        sum += ms;
    }
    vae_rt_graph_free(many);
    return least;
}

static float
time_choice(Bench *b, const VaeCudaChoice *choice, float best)
{
    VaeCudaConv *conv = NULL;
    VaeError error;
    float least = -1;
    const VaeCudaConvArgs args = {.y = b->y,
                                  .x = b->x,
                                  .add = b->add,
                                  .weight = b->weight,
                                  .bias = b->bias,
                                  .workspace = b->workspace};
    if (vae_cuda_conv_new(b->cuda->convs, b->shape, choice, &conv, &error) ==
            VAE_OK &&
        vae_cuda_conv_bind(conv, &args, &error) == VAE_OK && load(b, conv))
        least = least_time(b, conv, best);
    vae_cuda_conv_free(&conv);
    return least;
}

static size_t
largest_workspace(VaeBackend *cuda, const VaeCudaConvShape *shape,
                  const VaeCudaChoice *choices, int n)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        VaeCudaConv *conv;
        VaeError error;
        if (vae_cuda_conv_new(cuda->convs, shape, &choices[i], &conv, &error) !=
            VAE_OK)
            continue;
        const size_t bytes = vae_cuda_conv_workspace(conv);
        most = bytes > most ? bytes : most;
        vae_cuda_conv_free(&conv);
    }
    return most;
}

int
vae_cuda_fastest(VaeBackend *cuda, const VaeCudaConvShape *shape,
                 const VaeCudaChoice *choices, int n, float *best)
{
    Bench b = {.cuda = cuda, .shape = shape};
    int fastest = -1;
    *best = -1;
    if (bench_open(&b, largest_workspace(cuda, shape, choices, n)) == 0)
        for (int i = 0; i < n && (fastest < 0 || b.spent < ENOUGH); i++) {
            const float ms = time_choice(&b, &choices[i], *best);
            if (ms >= 0 && (*best < 0 || ms < *best)) {
                *best = ms;
                fastest = i;
            }
        }
    bench_close(&b);
    vae_rt_failure(); /* choices that cannot be launched are only skipped */
    return fastest;
}
