/*
 * measure.c: times convolutions on the device, and compares the results of the
 * fastest choice with those of the library's first suggestion.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

/* Timed runs of one choice. There are only LEAST if these take LONG ms
 * together, or if all take more than HOPELESS times the best time. One run is
 * not enough, because other work on the device may disturb it. */
#define RUNS 3
#define LEAST 2
#define LONG 50.0f
#define HOPELESS 1.2f
/* Runs of fewer than SHORT ms are recorded MANY in a row. Otherwise the device
 * would wait for the host to launch each; in a program it does not. */
#define SHORT 0.2f
#define MANY 8
/* After this many ms of timed runs, the remaining choices of a layer are
 * skipped. The library's best suggestions come first. */
#define ENOUGH 1000.0f
/* If the times of one choice differ by more than this factor, other work on the
 * device or a change of its clocks disturbed them. */
#define STEADY 1.25f
/* At most this many bytes of results are compared, in blocks. */
#define COMPARED ((size_t) 256 << 20)
#define COMPARED_BLOCK ((size_t) 1 << 20)

/*
 * Buffers of a layer. The inputs have pseudo-random values, because a device
 * computes faster with zeros than with real data. The values are multiples of
 * 1/8 from -1 to 1. So all sums are exact, in any order: those of 32 products
 * in fp16, and all others in fp32. All choices must therefore give the same
 * results.
 */
typedef struct Bench {
    VaeBackend *cuda;
    const VaeCudaConvShape *shape;
    void *x, *y, *add, *weight, *bias, *workspace;
    size_t workspace_bytes;
    int room;   /* y and add have room for so many results: for the phases of an
                   upsampling, which all have the same weights */
    int phases; /* of the choice that was opened last */
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
 * on the device. Different seeds give independent values; odd seeds values with
 * all bits of the type, whose sums depend on their order. */
static int
fill(Bench *b, void *dst, VaeType type, size_t n, uint32_t seed)
{
    enum { PART = 1 << 16 };
    const size_t size = vae_type_size(type);
    const size_t first = n < PART ? n : PART;
    float *wide = malloc(PART * sizeof *wide);
    uint8_t *narrow = malloc((size_t) 4 * PART);
    uint32_t state = seed;
    int code = wide && narrow ? 0 : -1;
    for (size_t i = 0; !code && i < first; i++) {
        state = state * 1664525u + 1013904223u;
        wide[i] = seed % 2 ? (float) (int32_t) state * 0x1p-31f
                           : (float) ((int) ((state >> 16) % 17) - 8) / 8;
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
    const size_t y =
        (size_t) b->room * elements(s, 'y') * vae_type_size(s->y_type);
    b->workspace_bytes = workspace;
    int code = vae_rt_alloc(&b->x, elements(s, 'x') * vae_type_size(s->x_type));
    if (!code)
        code = vae_rt_alloc(&b->weight,
                            elements(s, 'w') * vae_type_size(s->x_type));
    if (!code)
        code =
            vae_rt_alloc(&b->bias, elements(s, 'b') * vae_type_size(s->y_type));
    if (!code)
        code = vae_rt_alloc(&b->y, y);
    if (!code)
        code = vae_rt_alloc(&b->add, y);
    if (!code && workspace)
        code = vae_rt_alloc(&b->workspace, workspace);
    if (!code)
        code = vae_rt_event_new(&b->from);
    if (!code)
        code = vae_rt_event_new(&b->to);
    if (!code)
        code = fill(b, b->x, s->x_type, elements(s, 'x'), 2);
    if (!code)
        code = fill(b, b->weight, s->x_type, elements(s, 'w'), 4);
    if (!code)
        code = fill(b, b->bias, s->y_type, elements(s, 'b'), 6);
    if (!code)
        code = fill(b, b->add, s->y_type, elements(s, 'y'), 8);
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
    vae_cuda_convs_lock(b->cuda->convs);
    bool good = vae_rt_capture_begin(b->cuda->compute) == 0;
    if (good) {
        for (int i = 0; i < MANY && good; i++)
            good = vae_cuda_conv_run(conv, b->cuda->compute, &error) == VAE_OK;
        good = vae_rt_capture_end(b->cuda->compute, &many) == 0 && good;
    }
    vae_cuda_convs_unlock(b->cuda->convs);
    pthread_mutex_unlock(&vae_cuda_recording);
    if (good)
        return many;
    vae_rt_graph_free(many);
    vae_rt_failure(); /* clears the failure of the recording */
    return NULL;
}

/* Milliseconds of one run, or of a phase of it, by running `many` if it is not
 * NULL; negative on failure. */
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
    ms /= (float) b->phases;
    return many ? ms / MANY : ms;
}

/* Runs it once, because the first run loads code. Fails if a kernel cannot be
 * launched, which would otherwise look fastest. */
static VaeStatus
load(const Bench *b, VaeCudaConv *conv, VaeError *error)
{
    const VaeStatus status = vae_cuda_conv_run(conv, b->cuda->compute, error);
    if (status != VAE_OK)
        return status;
    const int code = vae_rt_stream_sync(b->cuda->compute);
    return vae_cuda_status(b->cuda, code ? code : vae_rt_failure(),
                           "run a convolution", error);
}

/* Adds a time to those of a choice. */
static void
add_time(VaeCudaTiming *t, float ms)
{
    const float most = ms > t->most ? ms : t->most;
    t->ms = t->ms < 0 || ms < t->ms ? ms : t->ms;
    t->most = most;
}

/* Times one choice, with fewer runs if it is much slower than `best` (negative:
 * none yet). There are no times if it cannot run. */
static VaeCudaTiming
take_times(Bench *b, VaeCudaConv *conv, float best)
{
    VaeRtGraph many = NULL;
    VaeCudaTiming t = {.ms = -1};
    float sum = 0;
    for (int i = 0; i < RUNS; i++) {
        float ms = time_run(b, conv, many);
        if (!many && ms >= 0 && ms < SHORT) {
            many = record_many(b, conv);
            ms = many ? time_run(b, conv, many) : ms;
        }
        if (ms < 0)
            break;
        add_time(&t, ms);
        sum += ms;
        if (i + 1 >= LEAST &&
            (sum >= LONG || (best >= 0 && t.ms > HOPELESS * best)))
            break;
    }
    vae_rt_graph_free(many);
    return t;
}

/* Makes the convolution of a choice and runs it once. y: the result, which may
 * be b->add. *conv is NULL on failure. */
static VaeStatus
open_choice(Bench *b, const VaeCudaChoice *choice, void *y, VaeCudaConv **conv,
            VaeError *error)
{
    const VaeCudaConvArgs args = {.y = y,
                                  .x = b->x,
                                  .add = b->shape->add ? b->add : NULL,
                                  .weight = b->weight,
                                  .bias = b->bias,
                                  .joined = vae_cuda_choice_has_phases(choice),
                                  .workspace = b->workspace};
    b->phases = args.joined ? VAE_PHASES : 1;
    VaeStatus status =
        vae_cuda_conv_new(b->cuda->convs, b->shape, choice, conv, error);
    /* largest_workspace() skips a choice that it cannot make. */
    if (status == VAE_OK && vae_cuda_conv_workspace(*conv) > b->workspace_bytes)
        status = vae_fail(error, VAE_ERR_BACKEND,
                          "the workspace of a convolution was not known");
    if (status == VAE_OK)
        status = vae_cuda_conv_bind(*conv, &args, error);
    if (status == VAE_OK)
        status = load(b, *conv, error);
    if (status != VAE_OK)
        vae_cuda_conv_free(conv);
    return status;
}

static VaeCudaTiming
time_choice(Bench *b, const VaeCudaChoice *choice, float best)
{
    VaeCudaTiming t = {.ms = -1};
    VaeCudaConv *conv = NULL;
    VaeError error;
    if (open_choice(b, choice, b->y, &conv, &error) == VAE_OK)
        t = take_times(b, conv, best);
    vae_cuda_conv_free(&conv);
    return t;
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

/* ------------------------------------------------------------------ */
/* Comparing.                                                          */

/* True if n values are equal; zeros of both signs are. */
static bool
equal(const void *a, const void *b, VaeType type, size_t n)
{
    enum { SOME = 256 };
    float x[SOME], y[SOME];
    const size_t size = vae_type_size(type);
    if (memcmp(a, b, n * size) == 0)
        return true;
    for (size_t at = 0; at < n; at += SOME) {
        const size_t some = n - at < SOME ? n - at : SOME;
        vae_type_to_float(x, (const uint8_t *) a + at * size, type, some);
        vae_type_to_float(y, (const uint8_t *) b + at * size, type, some);
        for (size_t i = 0; i < some; i++)
            if (x[i] != y[i])
                return false;
    }
    return true;
}

/* Compares b->y with b->add on the host: all blocks, or blocks that are spread
 * evenly. */
static bool
compare(const Bench *b)
{
    const VaeType type = b->shape->y_type;
    const size_t n = elements(b->shape, 'y');
    const size_t block = COMPARED_BLOCK / vae_type_size(type);
    const size_t blocks = (n + block - 1) / block;
    const size_t step = (blocks * COMPARED_BLOCK + COMPARED - 1) / COMPARED;
    uint8_t *host = malloc(2 * COMPARED_BLOCK);
    bool same = host != NULL;
    for (size_t i = 0; i < blocks && same; i += step) {
        const size_t first = i * block;
        const size_t some = n - first < block ? n - first : block;
        const size_t at = first * vae_type_size(type);
        const size_t bytes = some * vae_type_size(type);
        same = vae_cuda_copy_now(b->cuda, host, (uint8_t *) b->y + at, bytes) ==
                   0 &&
               vae_cuda_copy_now(b->cuda, host + COMPARED_BLOCK,
                                 (uint8_t *) b->add + at, bytes) == 0 &&
               equal(host, host + COMPARED_BLOCK, type, some);
    }
    free(host);
    return same;
}

/* Compares b->y with the joined phases in b->add. These have the same weights,
 * so phases 1 to 3 have the results of phase 0, but one column, one row or both
 * further on. Their last ones are not in b->y. */
static bool
compare_joined(const Bench *b)
{
    const VaeCudaConvShape *s = b->shape;
    const size_t pixel = (size_t) s->c_out * vae_type_size(s->y_type);
    const size_t wide = (size_t) (2 * s->wo - 1) * pixel;
    const size_t narrow = (size_t) s->wo * pixel;
    const size_t rows = (size_t) s->t * 2 * s->ho;
    const size_t step = 1 | (rows * wide / COMPARED); /* odd */
    uint8_t *got = malloc(2 * wide + narrow);
    uint8_t *want = got + wide, *row = want + wide;
    bool same = got != NULL;
    for (size_t i = 0; i < rows && same; i += step) {
        const size_t at = i / (2 * s->ho) * s->ho + (i % (2 * s->ho) + 1) / 2;
        if (i % (2 * s->ho) == (size_t) (2 * s->ho - 1))
            continue;
        same =
            vae_cuda_copy_now(b->cuda, got, (uint8_t *) b->add + i * 2 * narrow,
                              wide) == 0 &&
            vae_cuda_copy_now(b->cuda, row, (uint8_t *) b->y + at * narrow,
                              narrow) == 0;
        for (int k = 0; k < 2 * s->wo - 1 && same; k++)
            memcpy(want + k * pixel, row + (k + 1) / 2 * pixel, pixel);
        same = same && equal(got, want, s->y_type, wide / pixel * s->c_out);
    }
    free(got);
    return same;
}

/* True if the choice gives the results of the first suggestion, also if the
 * result overwrites the residual, as in programs. Times the choice once more.
 */
static bool
agrees(Bench *b, const VaeCudaChoice *guess, const VaeCudaChoice *choice,
       VaeCudaTiming *t)
{
    const VaeCudaConvShape *s = b->shape;
    VaeCudaConv *conv = NULL;
    VaeError error;
    bool same = fill(b, b->add, s->y_type, elements(s, 'y'), 8) == 0 &&
                open_choice(b, guess, b->y, &conv, &error) == VAE_OK;
    vae_cuda_conv_free(&conv);
    same = same && open_choice(b, choice, b->add, &conv, &error) == VAE_OK &&
           (b->phases > 1 ? compare_joined(b) : compare(b));
    const float ms = same && t->ms >= SHORT ? time_run(b, conv, NULL) : t->ms;
    if (ms >= 0)
        add_time(t, ms);
    vae_cuda_conv_free(&conv);
    return same;
}

/* True if the first frames have the same bytes whatever the number of frames
 * that the choice computes. The own kernels know no such number. */
static bool
is_even(Bench *b, const VaeCudaChoice *choice)
{
    const VaeCudaConvShape *s = b->shape;
    VaeCudaConvShape few = *s;
    VaeCudaConv *conv = NULL;
    VaeError error;
    if (s->t == 1 || vae_cuda_choice_is_own(choice))
        return true;
    bool same = fill(b, b->x, s->x_type, elements(s, 'x'), 1) == 0 &&
                fill(b, b->add, s->y_type, elements(s, 'y'), 8) == 0 &&
                open_choice(b, choice, b->y, &conv, &error) == VAE_OK;
    b->shape = &few;
    for (few.t = 1; few.t < s->t && same; few.t += 2) {
        vae_cuda_conv_free(&conv);
        same = fill(b, b->add, s->y_type, elements(&few, 'y'), 8) == 0 &&
               open_choice(b, choice, b->add, &conv, &error) == VAE_OK &&
               compare(b);
    }
    vae_cuda_conv_free(&conv);
    b->shape = s;
    fill(b, b->x, s->x_type, elements(s, 'x'), 2);
    return same;
}

/* ------------------------------------------------------------------ */

/* Stores that a choice of the layer is tried, in case it ends the process. */
static void
note(const VaeBackend *cuda, const char *layer, const VaeCudaChoice *choice)
{
    if (cuda->store)
        vae_cuda_store_try(cuda->store, layer, choice);
}

/* Stores that the process survived. False: the device has failed. */
static bool
survived(const VaeBackend *cuda)
{
    if (vae_rt_stream_sync(cuda->compute))
        return false;
    note(cuda, NULL, NULL);
    return true;
}

/* The index of the shortest time of n; -1: there is none. */
static int
least(const VaeCudaTiming *times, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (times[i].ms >= 0 && (best < 0 || times[i].ms < times[best].ms))
            best = i;
    return best;
}

/* The index of the fastest choice that agrees with the first one that runs. */
static int
choose_agreeing(Bench *b, const char *layer, const VaeCudaChoice *choices,
                VaeCudaTiming *times, int n)
{
    int guess = 0, i;
    const VaeLog *log = &b->cuda->params.log;
    while (guess < n && times[guess].ms < 0)
        guess++;
    while ((i = least(times, n)) >= 0) {
        if (!agrees(b, &choices[guess], &choices[i], &times[i]))
            vae_log(log,
                    "%s: %s is not used: it does not compute the same as %s",
                    layer, choices[i].text, choices[guess].text);
        else if (!is_even(b, &choices[i]))
            vae_log(log,
                    "%s: %s is not used: its bytes depend on the number of "
                    "frames",
                    layer, choices[i].text);
        else
            break;
        times[i].ms = -1;
    }
    return i;
}

/* Bench.room for these choices. */
static int
room_of(const VaeCudaChoice *choices, int n)
{
    for (int i = 0; i < n; i++)
        if (vae_cuda_choice_has_phases(&choices[i]))
            return VAE_PHASES;
    return 1;
}

int
vae_cuda_fastest(VaeBackend *cuda, const char *layer,
                 const VaeCudaConvShape *shape, const VaeCudaChoice *choices,
                 int n, VaeCudaTiming *out)
{
    Bench b = {.cuda = cuda, .shape = shape, .room = room_of(choices, n)};
    VaeCudaTiming *times = vae_mem_alloc((size_t) n * sizeof *times);
    float best = -1;
    int fastest = -1;
    for (int i = 0; times && i < n; i++)
        times[i].ms = -1;
    if (times &&
        bench_open(&b, largest_workspace(cuda, shape, choices, n)) == 0) {
        for (int i = 0; i < n && (best < 0 || b.spent < ENOUGH); i++) {
            note(cuda, layer, &choices[i]);
            times[i] = time_choice(&b, &choices[i], best);
            if (times[i].ms >= 0 && (best < 0 || times[i].ms < best))
                best = times[i].ms;
            if (!survived(cuda))
                break;
        }
        fastest = choose_agreeing(&b, layer, choices, times, n);
    }
    bench_close(&b);
    if (fastest >= 0) {
        *out = times[fastest];
        out->steady = out->most <= STEADY * out->ms;
    }
    vae_mem_free(times);
    vae_rt_failure(); /* choices that cannot be launched are only skipped */
    return fastest;
}

VaeStatus
vae_cuda_first_that_runs(VaeBackend *cuda, const VaeCudaConvShape *shape,
                         const VaeCudaChoice *choices, int n, int *first,
                         VaeError *error)
{
    Bench b = {.cuda = cuda, .shape = shape, .room = room_of(choices, n)};
    const int code = bench_open(&b, largest_workspace(cuda, shape, choices, n));
    VaeStatus status =
        code == -1 ? vae_fail(error, VAE_ERR_MEMORY, "out of memory")
                   : vae_cuda_status(cuda, code, "try a convolution", error);
    *first = -1;
    for (int i = 0; i < n && status == VAE_OK && *first < 0; i++) {
        VaeCudaConv *conv = NULL;
        const VaeStatus one = open_choice(&b, &choices[i], b.y, &conv, error);
        if (one == VAE_ERR_MEMORY)
            status = one; /* it might run with more memory */
        else if (one == VAE_OK)
            *first = i;
        vae_cuda_conv_free(&conv);
    }
    bench_close(&b);
    vae_rt_failure(); /* choices that cannot be launched are only skipped */
    return status;
}
