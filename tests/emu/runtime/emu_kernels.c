/*
 * emu_kernels.c: a table of kernels. Each function submits its call as work of
 * an emulated stream.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_overlap.h"
#include "emu_state.h"
#include "vae-private/types.h"

/* ------------------------------------------------------------------ */
/* The first launch of a kernel loads it. */

void vae_emu_set_look(void (*look)(const void *kernel, const char *name));

enum { MOST_LOADED = 1000 };
static const void *loaded[MOST_LOADED];
static int n_loaded, loads, launches, asked, refused_at;
/* Added to the kernel's address, so that each variant of a kernel counts as a
 * kernel. Otherwise a variant that is not loaded would not be noticed. */
static int look_kind;

bool
emu_load(const char *what)
{
    emu_no_capture(what);
    emu_unsafe();
    loads++;
    return ++asked != refused_at;
}

int
emu_fail_load(int n)
{
    EMU_LOCKED;
    const int before = asked;
    asked = 0;
    refused_at = n;
    return before;
}

int
emu_loads(void)
{
    EMU_LOCKED;
    const int before = loads;
    loads = 0;
    return before;
}

int
emu_launches(void)
{
    EMU_LOCKED;
    const int before = launches;
    launches = 0;
    return before;
}

void
emu_unload(void)
{
    EMU_LOCKED;
    n_loaded = 0;
    emu_unload_convs();
}

static void
look(const void *entry, const char *name)
{
    const void *kernel = (const char *) entry + look_kind;
    for (int i = 0; i < n_loaded; i++)
        if (loaded[i] == kernel)
            return;
    if (n_loaded == MOST_LOADED)
        abort();
    char what[200];
    snprintf(what, sizeof what, "the first launch of %s", name);
    if (emu_load(what))
        loaded[n_loaded++] = kernel;
    else
        emu_set_failure(EMU_OUT_OF_MEMORY);
}

/* Finds the kernels that a function of the table launches. Leaves the function
 * at a failed launch. */
#define LOOK(name, q, a, kind)                                                 \
    do {                                                                       \
        if (emu_refuses()) {                                                   \
            emu_set_failure(EMU_REFUSED);                                      \
            return;                                                            \
        }                                                                      \
        EMU_LOCKED;                                                            \
        emu_overlap_##name(a);                                                 \
        look_kind = (int) (kind);                                              \
        vae_emu_set_look(look);                                                \
        vae_kernels_cuda.name(q, a);                                           \
        vae_emu_set_look(NULL);                                                \
        launches += (q)->stream != VAE_ONLY_LOAD;                              \
    } while (0)

/* A pair of functions for each kernel: the one that the caller calls, and the
 * one that the stream runs later with a copy of the arguments. */
#define DEFER(name, Args, kind)                                                \
    static void run_##name(const void *args)                                   \
    {                                                                          \
        const VaeQueue q = {.threads = 1};                                     \
        emu_take_time(0.1f);                                                   \
        vae_kernels_cuda.name(&q, args);                                       \
    }                                                                          \
                                                                               \
    static void name(const VaeQueue *q, const Args *a)                         \
    {                                                                          \
        LOOK(name, q, a, kind);                                                \
        emu_submit(q->stream, run_##name, a, sizeof *a);                       \
    }

/* Makes one number of a result wrong, if a test requests it for this kind. */
static void
make_wrong(EmuWrong kind, void *y, VaeType type)
{
    const size_t size = vae_type_size(type);
    if (emu_wrong() == kind)
        memset((uint8_t *) y + size * 77, 0x44, size);
}

static void
run_norm(const void *args)
{
    const VaeQueue q = {.threads = 1};
    const VaeNormArgs *a = args;
    const EmuWrong kind =
        a->kind == VAE_NORM_RMS ? EMU_WRONG_RMS : EMU_WRONG_GROUP;
    emu_take_time(0.1f);
    vae_kernels_cuda.norm(&q, a);
    make_wrong(kind, a->y, a->y_type);
}

static void
norm(const VaeQueue *q, const VaeNormArgs *a)
{
    LOOK(norm, q, a, 0);
    if (emu_wrong() != EMU_WRONG_IMAGE)
        emu_submit(q->stream, run_norm, a, sizeof *a);
}

static void
run_attention(const void *args)
{
    const VaeQueue q = {.threads = 1};
    const VaeAttentionArgs *a = args;
    emu_take_time(0.1f);
    vae_kernels_cuda.attention(&q, a);
    make_wrong(a->c <= 384   ? EMU_WRONG_NARROW
               : a->c <= 640 ? EMU_WRONG_MIDDLE
                             : EMU_WRONG_WIDE,
               a->y, a->y_type);
}

static void
attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    LOOK(attention, q, a, 0);
    emu_submit(q->stream, run_attention, a, sizeof *a);
}

static float own_ms = 1.5f;
static bool own_flawed;

void
emu_set_own(float ms, bool flawed)
{
    own_ms = ms;
    own_flawed = flawed;
}

/* Replaces the frames of the input that are not normalized yet by their
 * norm. */
static void
norm_input(const VaeConvMatrixArgs *a, float *x)
{
    const size_t frame = (size_t) a->h * a->w * a->c_in;
    const size_t normed = (size_t) a->normed_frames * frame;
    const size_t past = (size_t) a->past_frames * frame;
    VaeNormArgs norm = a->front;
    norm.kind = VAE_NORM_RMS;
    norm.x_type = norm.y_type = a->type;
    norm.t = a->t + a->kt - 1 - a->normed_frames;
    norm.h = a->h;
    norm.w = a->w;
    norm.x = (const uint8_t *) a->x + (normed - past) * 2;
    norm.y = emu_must(malloc((size_t) norm.t * frame * 2));
    vae_kernels_cuda.norm(&(VaeQueue){.threads = 1}, &norm);
    vae_type_to_float(x + normed, norm.y, a->type, (size_t) norm.t * frame);
    free(norm.y);
}

/* Returns the input, with the frames of context, as one block of floats. */
static float *
whole_input(const VaeConvMatrixArgs *a)
{
    const size_t frame = (size_t) a->h * a->w * a->c_in;
    const size_t past = (size_t) a->past_frames * frame;
    const size_t all = (size_t) (a->t + a->kt - 1) * frame;
    float *x = emu_must(malloc(all * sizeof *x));
    if (past)
        vae_type_to_float(x, a->past, a->type, past);
    vae_type_to_float(x + past, a->x, a->type, all - past);
    if (a->front.c)
        norm_input(a, x);
    return x;
}

static void
norm_of(const VaeConvMatrixArgs *a, const void *result)
{
    VaeNormArgs norm = a->norm;
    norm.kind = VAE_NORM_RMS;
    norm.x = result;
    norm.x_type = norm.y_type = a->type;
    norm.t = a->t;
    norm.h = a->ho;
    norm.w = a->wo;
    norm.c = a->c_out;
    vae_kernels_cuda.norm(&(VaeQueue){.threads = 1}, &norm);
}

/* Copies the result to its rows and columns of y. No program joins a result
 * that has a norm. */
static void
join(const VaeConvMatrixArgs *a, const uint8_t *result)
{
    const size_t pixel = (size_t) a->c_out * 2;
    assert(!a->norm.y);
    for (int i = 0; i < a->t * a->ho; i++)
        for (int j = 0; j < a->wo; j++) {
            const size_t row = (size_t) (2 * i + a->row);
            const size_t at = row * 2 * a->wo + 2 * j + a->column;
            memcpy((uint8_t *) a->y + at * pixel, result, pixel);
            result += pixel;
        }
}

static bool
is_wrong(const VaeConvMatrixArgs *a)
{
    switch (emu_wrong()) {
    case EMU_WRONG_OWN:
        return true;
    case EMU_WRONG_WGMMA:
        return a->warpgroups;
    case EMU_WRONG_TO:
        return a->c_out == 3;
    case EMU_WRONG_FROM:
        return a->c_in == 3;
    case EMU_WRONG_UP:
        return a->up;
    default:
        return false;
    }
}

/* Computes the result with the reference, because the fibers of the emulation
 * take minutes for a network. */
static void
convolve(const VaeConvMatrixArgs *a)
{
    const size_t c_out = (size_t) a->c_out, c_in = (size_t) a->c_in;
    const size_t taps = (size_t) a->kt * a->k * a->k;
    const size_t n_y = (size_t) a->t * a->ho * a->wo * c_out;
    float *x = whole_input(a), *y = emu_must(malloc(n_y * sizeof *y));
    float *weight = emu_widen(a->weight, a->type, taps * c_in * c_out, false);
    float *ordered = emu_reorder(weight, c_out, taps, c_in);
    float *bias = emu_widen(a->bias, a->type, c_out, false);
    float *add = a->add ? emu_widen(a->add, a->type, n_y, false) : NULL;
    vae_kernels_ref.conv(&(VaeQueue){.threads = 1},
                         &(VaeConvArgs){.y = y,
                                        .x = x,
                                        .weight = ordered,
                                        .t = a->t,
                                        .h = a->h,
                                        .w = a->w,
                                        .c_in = a->c_in,
                                        .ho = a->ho,
                                        .wo = a->wo,
                                        .c_out = a->c_out,
                                        .k = a->k,
                                        .kt = a->kt,
                                        .s = 1,
                                        .st = 1,
                                        .pad_y = a->pad_y,
                                        .pad_x = a->pad_x});
    for (size_t i = 0; i < n_y; i++) {
        y[i] += (add ? add[i] : 0) + bias[i % c_out];
        y[i] = a->relu && y[i] < 0 ? 0 : y[i];
    }
    if (own_flawed)
        y[n_y / 3] += 1;
    for (size_t i = 0; i < n_y / 16 && is_wrong(a); i++)
        y[n_y / 3 + i] += 1;
    const bool apart = !a->y || a->joined;
    void *result = apart ? emu_must(malloc(n_y * 2)) : a->y;
    vae_type_from_float(result, a->wide ? VAE_TYPE_F32 : a->type, y, n_y);
    if (a->joined)
        join(a, result);
    if (a->norm.y)
        norm_of(a, result);
    if (apart)
        free(result);
    free(x);
    free(y);
    free(weight);
    free(ordered);
    free(bias);
    free(add);
}

/* All phases together take three times as long as one, sums of F16 half of the
 * time. The environment variable VAE_EMU_CONV=kernel runs the kernel itself. */
static void
run_conv_matrix(const void *args)
{
    const VaeConvMatrixArgs *a = args;
    const char *text = getenv("VAE_EMU_CONV");
    const bool kernel = text && strcmp(text, "kernel") == 0;
    if (kernel)
        vae_kernels_cuda.conv_matrix(&(VaeQueue){.threads = 1}, a);
    for (int i = 0; i < (a->up ? 4 : 1) && !kernel; i++) {
        VaeConvMatrixArgs one = *a;
        if (a->up) {
            one.row = i / 2;
            one.column = i % 2;
            one.pad_y -= one.row;
            one.pad_x -= one.column;
            one.weight = (const uint8_t *) a->weight + i * a->phase_weights * 2;
        }
        convolve(&one);
    }
    emu_take_time(own_ms * (a->up ? 3 : 1) /
                  (a->warpgroups  ? 4
                   : a->half_sums ? 2
                                  : 1));
}

static void
conv_matrix(const VaeQueue *q, const VaeConvMatrixArgs *a)
{
    LOOK(conv_matrix, q, a, 0);
    emu_submit(q->stream, run_conv_matrix, a, sizeof *a);
}

DEFER(glu, VaeGluArgs, 0)
DEFER(rearrange, VaeRearrangeArgs, a->kind)
DEFER(cast, VaeCastArgs, 0)
DEFER(shortcut, VaeShortcutArgs, 0)
DEFER(clamp, VaeClampArgs, 0)
DEFER(depthwise, VaeDepthwiseArgs, 0)
DEFER(latent_in, VaeLatentInArgs, 0)
DEFER(latent_out, VaeLatentOutArgs, 0)
DEFER(nonfinite, VaeNonfiniteArgs, 0)

/* Defines a kernel that reads a place before the call returns. */
#define PLACE_KERNEL(kernel, Args)                                             \
    struct kernel {                                                            \
        Args args;                                                             \
        VaePlaceInVideo place;                                                 \
    };                                                                         \
                                                                               \
    static void run_##kernel(const void *args)                                 \
    {                                                                          \
        const VaeQueue q = {.threads = 1};                                     \
        const struct kernel *k = args;                                         \
        Args a = k->args;                                                      \
        a.place = &k->place;                                                   \
        emu_take_time(0.1f);                                                   \
        vae_kernels_cuda.kernel(&q, &a);                                       \
    }                                                                          \
                                                                               \
    static void kernel(const VaeQueue *q, const Args *a)                       \
    {                                                                          \
        const struct kernel k = {*a, *a->place};                               \
        LOOK(kernel, q, a, 0);                                                 \
        emu_submit(q->stream, run_##kernel, &k, sizeof k);                     \
    }

PLACE_KERNEL(window, VaeWindowArgs)
PLACE_KERNEL(noise, VaeNoiseArgs)

static size_t
window_scratch(int tx, int h, int w, int c)
{
    return vae_kernels_cuda.window_scratch(tx, h, w, c);
}

/* The pictures are read before the call returns. */
typedef struct Pictures {
    VaePicture picture[VAE_PICTURES_CUDA];
} Pictures;

static int picture_calls;

int
emu_picture_calls(void)
{
    EMU_LOCKED;
    const int before = picture_calls;
    picture_calls = 0;
    return before;
}

static Pictures
copy_pictures(const VaePicture *first, int n, size_t next)
{
    EMU_LOCKED;
    Pictures p = {0};
    if (n > VAE_PICTURES_CUDA)
        abort();
    for (int i = 0; i < (n ? n : 1); i++)
        p.picture[i] =
            *(const VaePicture *) ((const uint8_t *) first + (size_t) i * next);
    picture_calls++;
    return p;
}

/* Defines a kernel that converts pictures. */
#define PICTURE_KERNEL(kernel, Args)                                           \
    struct kernel {                                                            \
        Args args;                                                             \
        Pictures pictures;                                                     \
    };                                                                         \
                                                                               \
    static void run_##kernel(const void *args)                                 \
    {                                                                          \
        const VaeQueue q = {.threads = 1};                                     \
        const struct kernel *p = args;                                         \
        Args a = p->args;                                                      \
        a.picture = p->pictures.picture;                                       \
        a.next = sizeof(VaePicture);                                           \
        vae_kernels_cuda.kernel(&q, &a);                                       \
    }                                                                          \
                                                                               \
    static void kernel(const VaeQueue *q, const Args *a)                       \
    {                                                                          \
        const struct kernel p = {*a,                                           \
                                 copy_pictures(a->picture, a->n, a->next)};    \
        LOOK(kernel, q, a, 0);                                                 \
        emu_submit(q->stream, run_##kernel, &p, sizeof p);                     \
    }

PICTURE_KERNEL(picture_out, VaePictureOutArgs)
PICTURE_KERNEL(picture_in, VaePictureInArgs)

static const VaeKernels table = {.name = "emulated",
                                 .pictures = VAE_PICTURES_CUDA,
                                 .conv_matrix = conv_matrix,
                                 .norm = norm,
                                 .attention = attention,
                                 .window = window,
                                 .window_scratch = window_scratch,
                                 .glu = glu,
                                 .noise = noise,
                                 .rearrange = rearrange,
                                 .cast = cast,
                                 .shortcut = shortcut,
                                 .clamp = clamp,
                                 .depthwise = depthwise,
                                 .latent_in = latent_in,
                                 .latent_out = latent_out,
                                 .nonfinite = nonfinite,
                                 .picture_out = picture_out,
                                 .picture_in = picture_in};

const VaeKernels *
vae_rt_kernels(void)
{
    return &table;
}
