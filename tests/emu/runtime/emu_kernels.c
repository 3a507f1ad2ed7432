/*
 * emu_kernels.c: the kernels' table as work of emulated streams.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_overlap.h"
#include "emu_state.h"

/* ------------------------------------------------------------------ */
/* Kernels are loaded by their first launch.                           */

void vae_emu_set_look(void (*look)(const void *kernel, const char *name));

enum { MOST_LOADED = 1000 };
static const void *loaded[MOST_LOADED];
static int n_loaded, loads, asked, refused_at;

bool
emu_load(const char *what)
{
    emu_no_capture(what);
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

void
emu_unload(void)
{
    EMU_LOCKED;
    n_loaded = 0;
    emu_unload_convs();
}

static void
look(const void *kernel, const char *name)
{
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

/* Finds the kernels that the table's function launches; leaves that function
 * where the launch fails. */
#define LOOK(name, q, a)                                                       \
    do {                                                                       \
        if (emu_refuses()) {                                                   \
            emu_set_failure(EMU_REFUSED);                                      \
            return;                                                            \
        }                                                                      \
        EMU_LOCKED;                                                            \
        emu_overlap_##name(a);                                                 \
        vae_emu_set_look(look);                                                \
        vae_kernels_cuda.name(q, a);                                           \
        vae_emu_set_look(NULL);                                                \
    } while (0)

/* One pair of functions per kernel: what the caller calls, and what the stream
 * does later with a copy of the arguments. */
#define DEFER(name, Args)                                                      \
    static void run_##name(const void *args)                                   \
    {                                                                          \
        const VaeQueue q = {.threads = 1};                                     \
        emu_take_time(0.1f);                                                   \
        vae_kernels_cuda.name(&q, args);                                       \
    }                                                                          \
                                                                               \
    static void name(const VaeQueue *q, const Args *a)                         \
    {                                                                          \
        LOOK(name, q, a);                                                      \
        emu_submit(q->stream, run_##name, a, sizeof *a);                       \
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
    if (emu_wrong() == kind)
        memset((uint8_t *) a->y + vae_type_size(a->y_type) * 77, 0x44,
               vae_type_size(a->y_type));
}

static void
norm(const VaeQueue *q, const VaeNormArgs *a)
{
    LOOK(norm, q, a);
    if (emu_wrong() != EMU_WRONG_IMAGE)
        emu_submit(q->stream, run_norm, a, sizeof *a);
}

DEFER(conv_matrix, VaeConvMatrixArgs)
DEFER(attention, VaeAttentionArgs)
DEFER(rearrange, VaeRearrangeArgs)
DEFER(cast, VaeCastArgs)
DEFER(shortcut, VaeShortcutArgs)
DEFER(clamp, VaeClampArgs)
DEFER(depthwise, VaeDepthwiseArgs)
DEFER(latent_in, VaeLatentInArgs)
DEFER(latent_out, VaeLatentOutArgs)
DEFER(nonfinite, VaeNonfiniteArgs)

/* The picture is read before the call returns. */
typedef struct PictureOut {
    VaePictureOutArgs args;
    VaePicture picture;
} PictureOut;

static void
run_picture_out(const void *args)
{
    const VaeQueue q = {.threads = 1};
    const PictureOut *p = args;
    VaePictureOutArgs a = p->args;
    a.picture = &p->picture;
    vae_kernels_cuda.picture_out(&q, &a);
}

static void
picture_out(const VaeQueue *q, const VaePictureOutArgs *a)
{
    const PictureOut p = {*a, *a->picture};
    LOOK(picture_out, q, a);
    emu_submit(q->stream, run_picture_out, &p, sizeof p);
}

typedef struct PictureIn {
    VaePictureInArgs args;
    VaePicture picture;
} PictureIn;

static void
run_picture_in(const void *args)
{
    const VaeQueue q = {.threads = 1};
    const PictureIn *p = args;
    VaePictureInArgs a = p->args;
    a.picture = &p->picture;
    vae_kernels_cuda.picture_in(&q, &a);
}

static void
picture_in(const VaeQueue *q, const VaePictureInArgs *a)
{
    const PictureIn p = {*a, *a->picture};
    LOOK(picture_in, q, a);
    emu_submit(q->stream, run_picture_in, &p, sizeof p);
}

static const VaeKernels table = {.name = "emulated",
                                 .conv_matrix = conv_matrix,
                                 .norm = norm,
                                 .attention = attention,
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
