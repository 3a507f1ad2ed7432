/*
 * conv.c: computes convolutions by the library or by an own kernel. The latter
 * are the choices "own 4", for compute capability 9.0 "own 4 wgmma", and for
 * devices with other rates "own 4 half". Those with "up" compute all phases of
 * an upsampling at once. The shape says which other kernel "own 4" is. Change
 * the number when you change a kernel, so that stored times of the old one are
 * not used.
 */
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "kernels.h"
#include "library.h"

/* The kernels, in the order in which they are offered. */
typedef struct Own {
    const char *text; /* of the choice */
    bool warpgroups, half_sums, up;
} Own;
static const Own owns[VAE_CUDA_OWN_KERNELS] = {
    {"own 4", false, false, false},        {"own 4 wgmma", true, false, false},
    {"own 4 half", false, true, false},    {"own 4 up", false, false, true},
    {"own 4 wgmma up", true, false, true}, {"own 4 half up", false, true, true},
};

struct VaeCudaConvs {
    VaeCudaLibrary *library;
    const VaeKernels
        *own; /* table with conv_matrix; NULL: the device cannot run it */
    bool warpgroups; /* it can also run the kernel for them */
    bool half_sums;  /* sums in F16 may be faster */
};

struct VaeCudaConv {
    VaeCudaLibraryConv *library; /* NULL: own computes args */
    const VaeKernels *own;
    VaeConvMatrixArgs args;
    bool add;
};

/* ------------------------------------------------------------------ */

static bool
is_forced_to(const char *who)
{
    const char *text = getenv("VAE_CUDA_CONV");
    return text && strcmp(text, who) == 0;
}

bool
vae_cuda_conv_is_forced(void)
{
    return is_forced_to("own") || is_forced_to("wgmma") ||
           is_forced_to("half") || is_forced_to("head") || is_forced_to("up") ||
           is_forced_to("cudnn");
}

/* NULL: the choice is the library's. */
static const Own *
own_of(const VaeCudaChoice *choice)
{
    for (int i = 0; i < VAE_CUDA_OWN_KERNELS; i++)
        if (strcmp(choice->text, owns[i].text) == 0)
            return &owns[i];
    return NULL;
}

bool
vae_cuda_choice_is_own(const VaeCudaChoice *choice)
{
    return own_of(choice) != NULL;
}

bool
vae_cuda_choice_norms(const VaeCudaChoice *choice, int c_out)
{
    const Own *own = own_of(choice);
    return own && vae_conv_matrix_can_norm(c_out, own->warpgroups);
}

bool
vae_cuda_choice_has_phases(const VaeCudaChoice *choice)
{
    const Own *own = own_of(choice);
    return own && own->up;
}

/* True for the kernel that writes three channels. It needs no alignment of y,
 * and x is aligned by its channels. */
static bool
is_head(const VaeCudaConvShape *s)
{
    return vae_conv_matrix_is_head(s->c_in, s->c_out, s->k) && !s->add &&
           !s->relu;
}

/* True if the convolution may have sums of F16. */
static bool
can_half(const VaeCudaConvs *convs, const VaeCudaConvShape *s)
{
    return s->x_type == VAE_TYPE_F16 &&
           (convs->half_sums || is_forced_to("half"));
}

/* True if the kernel can compute the convolution. */
static bool
can(const VaeCudaConvs *convs, const VaeCudaConvShape *s, const Own *own)
{
    if (!convs->own || is_forced_to("cudnn") || s->x_type != s->y_type ||
        s->x_type == VAE_TYPE_F32 || s->s != 1 || s->st != 1 ||
        (own->warpgroups && !convs->warpgroups) ||
        (own->half_sums && !can_half(convs, s)) ||
        (own->up && (s->k != 2 || s->pad_x != 1 || s->add)) ||
        (is_forced_to("up") && !own->up))
        return false;
    if (is_head(s))
        return own == owns;
    const bool inputs = vae_conv_matrix_is_picture(s->c_in, s->k)
                            ? own == owns && s->w % 8 == 0
                            : s->c_in % 8 == 0;
    return !is_forced_to("head") && s->k >= 2 && s->k <= 3 && inputs &&
           s->c_out % 4 == 0 && !s->odd;
}

/* True if it may also be fast, because every tile is full. */
static bool
fits(const VaeCudaConvShape *s, const Own *own)
{
    const bool picture = vae_conv_matrix_is_picture(s->c_in, s->k);
    const bool full = own->up ? s->c_out % 48 == 0 || s->c_out % 64 == 0
                              : s->c_out % 96 == 0 || s->c_out % 128 == 0;
    return picture ? full || s->c_out == 64
                   : s->c_in % 32 == 0 && (full || is_head(s));
}

static bool
is_wanted(const Own *own)
{
    return !own->up && ((own->warpgroups && is_forced_to("wgmma")) ||
                        (own->half_sums && is_forced_to("half")));
}

/* The kernel that is forced; NULL: none, or it cannot compute it. */
static const Own *
forced(const VaeCudaConvs *convs, const VaeCudaConvShape *s)
{
    const Own *own = NULL;
    for (int i = 0; i < VAE_CUDA_OWN_KERNELS && vae_cuda_conv_is_forced(); i++)
        if (can(convs, s, &owns[i]) && (!own || is_wanted(&owns[i])))
            own = &owns[i];
    return own;
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_cuda_convs_check(VaeError *error)
{
    return vae_cuda_library_check(error);
}

VaeStatus
vae_cuda_convs_new(const char *properties, VaeCudaConvs **out, VaeError *error)
{
    const char *text = getenv("VAE_CUDA_CONV");
    *out = NULL;
    if (text && *text && !vae_cuda_conv_is_forced())
        return vae_fail(error, VAE_ERR_ARGUMENT,
                        "VAE_CUDA_CONV is \"%s\"; expected cudnn, own, wgmma, "
                        "half, head or up",
                        text);
    VaeCudaConvs *c = vae_mem_alloc(sizeof *c);
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    const VaeStatus status =
        vae_cuda_library_new(properties, &c->library, error);
    if (status != VAE_OK)
        vae_cuda_convs_free(&c);
    *out = c;
    return status;
}

void
vae_cuda_convs_use(VaeCudaConvs *convs, const VaeKernels *kernels,
                   int capability)
{
    convs->own = capability >= 80 ? kernels : NULL;
    convs->warpgroups = capability == 90;
    /* GeForce devices have these, and halve the rate of F32 sums. Others have
     * them, too, and the same rate for both. */
    convs->half_sums =
        capability == 86 || capability == 89 || capability == 120;
}

void
vae_cuda_convs_free(VaeCudaConvs **convs)
{
    VaeCudaConvs *c = *convs;
    *convs = NULL;
    if (!c)
        return;
    vae_cuda_library_free(&c->library);
    vae_mem_free(c);
}

void
vae_cuda_convs_lock(VaeCudaConvs *convs)
{
    vae_cuda_library_lock(convs->library);
}

void
vae_cuda_convs_unlock(VaeCudaConvs *convs)
{
    vae_cuda_library_unlock(convs->library);
}

void
vae_cuda_convs_forget(VaeCudaConvs *convs, void *stream)
{
    vae_cuda_library_forget(convs->library, stream);
}

int
vae_cuda_convs_plans(const VaeCudaConvs *convs)
{
    return vae_cuda_library_plans(convs->library);
}

const char *
vae_cuda_convs_name(const VaeCudaConvs *convs)
{
    return vae_cuda_library_name(convs->library);
}

const char *
vae_cuda_convs_properties(VaeCudaConvs *convs)
{
    return vae_cuda_library_properties(convs->library);
}

/* ------------------------------------------------------------------ */

int
vae_cuda_conv_own_choices(const VaeCudaConvs *convs,
                          const VaeCudaConvShape *shape, VaeCudaChoice *choices,
                          int most)
{
    int n = 0;
    for (int i = 0; i < VAE_CUDA_OWN_KERNELS && n < most; i++)
        if (can(convs, shape, &owns[i]) && fits(shape, &owns[i]))
            strcpy(choices[n++].text, owns[i].text);
    return n;
}

VaeStatus
vae_cuda_conv_choices(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                      VaeCudaChoice *choices, int most, int *n, VaeError *error)
{
    const Own *only = forced(convs, shape);
    VaeCudaChoice own[VAE_CUDA_OWN_KERNELS] = {{""}};
    if (only) {
        strcpy(choices[0].text, only->text);
        *n = 1;
        return VAE_OK;
    }
    const int some = vae_cuda_conv_own_choices(convs, shape, own, most - 1);
    const VaeStatus status = vae_cuda_library_choices(
        convs->library, shape, choices, most - some, n, error);
    if (status != VAE_OK)
        return status;
    /* The library's first suggestion stays in front. The own kernels
     * follow, because the last ones may not be timed. */
    const int at = *n < 1 ? *n : 1;
    memmove(choices + at + some, choices + at,
            (size_t) (*n - at) * sizeof *choices);
    memcpy(choices + at, own, (size_t) some * sizeof *own);
    *n += some;
    return VAE_OK;
}

static VaeStatus
make_own(const VaeCudaConvs *convs, const VaeCudaConvShape *s, const Own *own,
         VaeCudaConv *c, VaeError *error)
{
    if (!can(convs, s, own))
        return vae_fail(error, VAE_ERR_BACKEND,
                        "the own kernel does not compute it");
    c->own = convs->own;
    c->add = s->add;
    c->args = (VaeConvMatrixArgs){.type = s->x_type,
                                  .t = s->t,
                                  .h = s->h,
                                  .w = s->w,
                                  .c_in = s->c_in,
                                  .ho = s->ho,
                                  .wo = s->wo,
                                  .c_out = s->c_out,
                                  .k = s->k,
                                  .kt = s->kt,
                                  .pad_y = s->pad_y,
                                  .pad_x = s->pad_x,
                                  .relu = s->relu,
                                  .up = own->up,
                                  .warpgroups = own->warpgroups,
                                  .half_sums = own->half_sums};
    return VAE_OK;
}

VaeStatus
vae_cuda_conv_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                  const VaeCudaChoice *choice, VaeCudaConv **out,
                  VaeError *error)
{
    VaeCudaConv *c = vae_mem_alloc(sizeof *c);
    *out = NULL;
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    const VaeStatus status =
        own_of(choice) ? make_own(convs, shape, own_of(choice), c, error)
                       : vae_cuda_library_conv_new(convs->library, shape,
                                                   choice, &c->library, error);
    if (status != VAE_OK)
        vae_cuda_conv_free(&c);
    *out = c;
    return status;
}

void
vae_cuda_conv_free(VaeCudaConv **conv)
{
    VaeCudaConv *c = *conv;
    *conv = NULL;
    if (!c)
        return;
    vae_cuda_library_conv_free(&c->library);
    vae_mem_free(c);
}

size_t
vae_cuda_conv_workspace(const VaeCudaConv *conv)
{
    return conv->own ? 0 : vae_cuda_library_conv_workspace(conv->library);
}

bool
vae_cuda_conv_matrix(const VaeCudaConv *conv)
{
    return conv->own || vae_cuda_library_conv_matrix(conv->library);
}

VaeStatus
vae_cuda_conv_bind(VaeCudaConv *conv, const VaeCudaConvArgs *args,
                   VaeError *error)
{
    if (!conv->own && (args->past_frames || args->norm.y || args->joined ||
                       args->front.c || args->wide))
        return vae_fail(error, VAE_ERR_BACKEND,
                        "the library reads no carry, computes no norm, joins "
                        "no phases, and has one type");
    if (!conv->own)
        return vae_cuda_library_conv_bind(conv->library, args, error);
    if (conv->args.up && !args->joined)
        return vae_fail(error, VAE_ERR_BACKEND,
                        "the kernel writes all phases, joined");
    const void *add = conv->add ? args->add : NULL;
    const bool head = conv->args.c_out == 3;
    if (((uintptr_t) args->x | (uintptr_t) args->past |
         (uintptr_t) args->weight | (uintptr_t) (head ? NULL : args->y) |
         (uintptr_t) args->bias | (uintptr_t) args->norm.y |
         (uintptr_t) args->norm.gain | (uintptr_t) args->norm.offset |
         (uintptr_t) args->front.gain | (uintptr_t) args->front.offset |
         (uintptr_t) add) %
        16)
        return vae_fail(error, VAE_ERR_BACKEND,
                        "addresses are no multiples of 16");
    conv->args.y = args->y;
    conv->args.x = args->x;
    conv->args.past = args->past;
    conv->args.past_frames = args->past_frames;
    conv->args.normed_frames = args->normed_frames;
    conv->args.norm = args->norm;
    conv->args.front = args->front;
    conv->args.wide = args->wide;
    conv->args.joined = args->joined;
    conv->args.row = args->row;
    conv->args.column = args->column;
    conv->args.phase_weights = args->phase_weights;
    conv->args.add = add;
    conv->args.weight = args->weight;
    conv->args.bias = args->bias;
    return VAE_OK;
}

VaeStatus
vae_cuda_conv_run(VaeCudaConv *conv, void *stream, VaeError *error)
{
    if (!conv->own)
        return vae_cuda_library_conv_run(conv->library, stream, error);
    /* A launch that fails is in the run time's error state. */
    conv->own->conv_matrix(&(VaeQueue){.threads = 1, .stream = stream},
                           &conv->args);
    return VAE_OK;
}
