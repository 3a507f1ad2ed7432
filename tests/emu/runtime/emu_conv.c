/*
 * emu_conv.c: implements cuda/conv/library.h with the reference convolution.
 * Inputs keep their type, or are rounded to TF32. Sums are in fp32 and rounded
 * once.
 *
 * Each layer has three choices, which differ in workspace and in their made-up
 * times. The second one is the fastest unless a test changes this.
 */
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "emu_state.h"
#include "library.h"
#include "plans.h"

enum { CHOICES = 3 };

struct VaeCudaLibrary {
    pthread_mutex_t lock;
    int holds;          /* number of times that the thread holds the lock */
    VaeRtStream stream; /* of the last run; cuDNN's handle also keeps it */
    VaeCudaPlan *plans;
};

typedef struct Plan {
    VaeCudaPlan shared;
    size_t workspace;
    int choice;
    float ms;
    bool loaded; /* only with emu_set_lazy_plans() */
} Plan;

struct VaeCudaLibraryConv {
    VaeCudaLibrary *convs;
    Plan *plan;
    VaeCudaConvArgs args;
};

static int conv_frames, convs_alive, plans_made, searches, runs, runs_done;
static double flop;
static float times[CHOICES] = {3, 1, 2};
static EmuWrong wrong;
static float jitter = 1;
static int flawed, disturbed;
static float disturbance;
static bool lazy_plans;
static uint64_t code_bytes;
static EmuFlaw flaw;

void
emu_set_conv_frames(int most)
{
    conv_frames = most;
}

int
emu_convs_alive(void)
{
    return convs_alive;
}

void
emu_set_conv_times(float first, float second, float third)
{
    times[0] = first;
    times[1] = second;
    times[2] = third;
}

void
emu_set_conv_code(uint64_t bytes)
{
    code_bytes = bytes;
}

void
emu_set_lazy_plans(bool lazy)
{
    lazy_plans = lazy;
}

/* The code of a choice is the same for any number of frames and rows. */
enum { KEYS = 13, MOST_CODES = 4096 };
static struct Code {
    int key[KEYS];
    bool loaded;
    int runs; /* number of runs since emu_set_conv_disturbed() */
} codes[MOST_CODES];
static int n_codes;

void
emu_unload_convs(void)
{
    for (int i = 0; i < n_codes; i++)
        codes[i].loaded = false;
}

static struct Code *
find_code(const Plan *p)
{
    const VaeCudaConvShape *s = &p->shared.shape;
    const int key[KEYS] = {
        p->choice,     s->c_in,         s->c_out,       s->k,   s->kt,
        s->s,          s->st,           s->w,           s->add, s->relu,
        (int) s->tf32, (int) s->x_type, (int) s->y_type};
    for (int i = 0; i < n_codes; i++)
        if (memcmp(codes[i].key, key, sizeof key) == 0)
            return &codes[i];
    if (n_codes == MOST_CODES)
        abort();
    memcpy(codes[n_codes].key, key, sizeof key);
    emu_take_for_good(code_bytes);
    return &codes[n_codes++];
}

/* The first run loads the code. */
static VaeStatus
load_code(Plan *p, VaeError *error)
{
    struct Code *code = find_code(p);
    if (lazy_plans && !p->loaded && emu_records())
        return vae_fail(error, VAE_ERR_BACKEND, "a first run is not recorded");
    p->loaded = true;
    if (!code->loaded && !emu_load("the first run of a convolution"))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "the library has no memory to load its code");
    code->loaded = true;
    return VAE_OK;
}

void
emu_set_conv_jitter(float factor)
{
    jitter = factor;
}

void
emu_set_conv_disturbed(int choice, float factor)
{
    disturbed = choice;
    disturbance = factor;
    for (int i = 0; i < n_codes; i++)
        codes[i].runs = 0;
}

void
emu_set_conv_flaw(int choice, EmuFlaw what)
{
    flawed = choice;
    flaw = what;
}

int
emu_conv_searches(void)
{
    const int before = searches;
    searches = 0;
    return before;
}

int
emu_plans_made(void)
{
    const int before = plans_made;
    plans_made = 0;
    return before;
}

double
emu_conv_flop(void)
{
    const double before = flop;
    flop = 0;
    return before;
}

int
emu_conv_runs(void)
{
    const int before = runs;
    runs = 0;
    return before;
}

void
emu_set_wrong(EmuWrong what)
{
    wrong = what;
}

EmuWrong
emu_wrong(void)
{
    return wrong;
}

/* ------------------------------------------------------------------ */

/* A library that allocates memory finds out that the device has failed. */
static VaeStatus
refused(VaeError *error)
{
    if (emu_broken())
        return vae_fail(error, VAE_ERR_MEMORY, "device allocation failed");
    return vae_fail(error, VAE_ERR_BACKEND, "the library refuses the call");
}

VaeStatus
vae_cuda_library_check(VaeError *error)
{
    return VAE_OK;
}

VaeStatus
vae_cuda_library_new(const char *properties, VaeCudaLibrary **out,
                     VaeError *error)
{
    emu_wait_for_device("opening the library");
    *out = NULL;
    if (emu_refuses() || emu_broken())
        return refused(error);
    *out = vae_mem_alloc(sizeof **out);
    if (!*out)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&(*out)->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    return VAE_OK;
}

/* Checks that the stream still exists, because the handle keeps it. */
static void
check_stream(const VaeCudaLibrary *convs)
{
    if (!convs->stream || emu_is_stream(convs->stream))
        return;
    fprintf(stderr, "the library outlives the stream that it ran in\n");
    abort();
}

void
vae_cuda_library_free(VaeCudaLibrary **convs)
{
    VaeCudaLibrary *c = *convs;
    *convs = NULL;
    if (!c)
        return;
    check_stream(c);
    emu_wait_for_device("closing the library");
    pthread_mutex_destroy(&c->lock);
    vae_mem_free(c);
}

void
vae_cuda_library_lock(VaeCudaLibrary *convs)
{
    pthread_mutex_lock(&convs->lock);
    convs->holds++;
}

void
vae_cuda_library_unlock(VaeCudaLibrary *convs)
{
    convs->holds--;
    pthread_mutex_unlock(&convs->lock);
}

void
vae_cuda_library_forget(VaeCudaLibrary *convs, void *stream)
{
    EMU_LOCKED;
    if (convs->stream == stream)
        convs->stream = NULL;
}

int
vae_cuda_library_plans(const VaeCudaLibrary *convs)
{
    return plans_made;
}

const char *
vae_cuda_library_name(const VaeCudaLibrary *convs)
{
    return "emulated";
}

const char *
vae_cuda_library_properties(VaeCudaLibrary *convs)
{
    return "";
}

VaeStatus
vae_cuda_library_choices(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
                         VaeCudaChoice *choices, int most, int *n,
                         VaeError *error)
{
    EMU_LOCKED;
    static const char *const texts[] = {"1 3", "2 1", "3 2"};
    searches++;
    *n = 0;
    if (emu_refuses() || emu_broken())
        return refused(error);
    for (int i = 0; i < CHOICES && *n < most; i++) {
        /* The first suggestion depends on the number of frames, as it may with
         * cuDNN. */
        const int k = shape->t == 4 ? i : CHOICES - 1 - i;
        if (times[k] >= 0)
            strcpy(choices[(*n)++].text, texts[k]);
    }
    return VAE_OK;
}

/* Finds or makes the plan of a shape and choice. NULL: no memory. */
static Plan *
get_plan(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
         const VaeCudaChoice *choice, int index)
{
    Plan *p = (Plan *) vae_cuda_plan_find(convs->plans, shape, choice);
    if (p)
        return p;
    p = vae_mem_alloc(sizeof *p);
    if (!p)
        return NULL;
    p->choice = index;
    p->ms = times[index - 1];
    /* The third choice needs no workspace. All layers of a program need
     * workspaces of different sizes, and so do bands that read different
     * numbers of rows. */
    p->workspace = index == 3 ? 0
                              : 4 * (size_t) (100 * index + 37 * shape->t +
                                              64 * shape->h + shape->c_out);
    plans_made++;
    vae_cuda_plan_add(&convs->plans, &p->shared, shape, choice);
    return p;
}

VaeStatus
vae_cuda_library_conv_new(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
                          const VaeCudaChoice *choice, VaeCudaLibraryConv **out,
                          VaeError *error)
{
    EMU_LOCKED;
    int index;
    *out = NULL;
    if (emu_refuses() || emu_broken())
        return refused(error);
    if (sscanf(choice->text, "%d", &index) != 1 || index < 1 ||
        index > CHOICES || times[index - 1] < 0)
        return vae_fail(error, VAE_ERR_BACKEND, "no such choice");
    /* 4 frames are always accepted, because choices are searched with 4 frames.
     */
    if (conv_frames && shape->t > conv_frames && shape->t != 4)
        return vae_fail(error, VAE_ERR_BACKEND, "too many frames");
    *out = vae_mem_alloc(sizeof **out);
    Plan *p = *out ? get_plan(convs, shape, choice, index) : NULL;
    if (!p) {
        vae_mem_free(*out);
        *out = NULL;
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    }
    (*out)->convs = convs;
    (*out)->plan = p;
    convs_alive++;
    return VAE_OK;
}

void
vae_cuda_library_conv_free(VaeCudaLibraryConv **conv)
{
    EMU_LOCKED;
    VaeCudaLibraryConv *c = *conv;
    *conv = NULL;
    if (!c)
        return;
    convs_alive--;
    if (vae_cuda_plan_drop(&c->convs->plans, &c->plan->shared))
        vae_mem_free(c->plan);
    vae_mem_free(c);
}

size_t
vae_cuda_library_conv_workspace(const VaeCudaLibraryConv *conv)
{
    return conv->plan->workspace;
}

bool
vae_cuda_library_conv_matrix(const VaeCudaLibraryConv *conv)
{
    return false;
}

VaeStatus
vae_cuda_library_conv_bind(VaeCudaLibraryConv *conv,
                           const VaeCudaConvArgs *args, VaeError *error)
{
    if (emu_refuses() || emu_broken())
        return refused(error);
    /* many engines of cuDNN also refuse such addresses, whatever alignment is
     * stated */
    const uintptr_t all = (uintptr_t) args->x | (uintptr_t) args->y |
                          (uintptr_t) args->add | (uintptr_t) args->weight |
                          (uintptr_t) args->bias;
    if (all % 16)
        return vae_fail(error, VAE_ERR_BACKEND,
                        "addresses are no multiples of 16");
    conv->args = *args;
    return VAE_OK;
}

/* ------------------------------------------------------------------ */

static void *
room(size_t n, size_t size)
{
    void *p = malloc(n * size);
    if (!p)
        abort();
    return p;
}

/* Rounds to the nearest value with 10 bits of mantissa, ties to even. */
static void
round_tf32(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        if ((bits >> 23 & 255) != 255)
            bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
        memcpy(&v[i], &bits, sizeof bits);
    }
}

float *
emu_widen(const void *src, VaeType type, size_t n, bool tf32)
{
    float *wide = room(n, sizeof *wide);
    vae_type_to_float(wide, src, type, n);
    if (tf32)
        round_tf32(wide, n);
    return wide;
}

/* [out][taps][in] -> [taps][in][out] */
float *
emu_reorder(const float *w, size_t out, size_t taps, size_t in)
{
    float *r = room(out * taps * in, sizeof *r);
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < taps * in; i++)
            r[i * out + o] = w[o * taps * in + i];
    return r;
}

/* A run of a convolution as the task of a stream. The plan may already be
 * freed, so this is a copy. */
typedef struct Run {
    Plan plan;
    VaeCudaConvArgs args;
} Run;

/* Makes the result wrong as a test requests. */
static void
make_wrong(const Run *c, float *y, size_t n_y)
{
    const VaeCudaConvShape *s = &c->plan.shared.shape;
    if (wrong == EMU_WRONG_SMALL && s->kt == 1)
        y[n_y / 7] += 0.25f;
    if (wrong == EMU_WRONG_LARGE && s->kt > 1) /* some rows are 0 */
        memset(y, 0, n_y / (size_t) s->t / 8 * sizeof *y);
    if (c->plan.choice == flawed &&
        (flaw == EMU_FLAW_RESULT ||
         (flaw == EMU_FLAW_IN_PLACE && c->args.add == c->args.y)))
        y[n_y / 3] += 1;
    /* adds 2^-14, because the values of timed layers are multiples of 2^-7 */
    const bool by_frames = c->plan.choice == flawed && flaw == EMU_FLAW_FRAMES;
    for (size_t i = 0; by_frames && i < n_y; i++)
        if (ldexpf(y[i], 14) != rintf(ldexpf(y[i], 14)))
            y[i] += y[i] * (float) s->t * 0x1p-20f;
    const bool by_rows = c->plan.choice == flawed && flaw == EMU_FLAW_HEIGHT;
    for (size_t i = 0; by_rows && i < n_y; i++)
        y[i] += y[i] * (float) s->ho * 0x1p-20f;
}

static void
run(const void *args)
{
    const Run *c = args;
    const VaeCudaConvShape *s = &c->plan.shared.shape;
    const size_t taps = (size_t) s->kt * s->k * s->k;
    const size_t t_in = (size_t) (s->t - 1) * s->st + s->kt;
    const size_t n_y = (size_t) s->t * s->ho * s->wo * s->c_out;
    /* A sum in place reads each number before it writes it. */
    const bool in_place = s->add && c->args.add == c->args.y;
    float *add =
        in_place ? emu_widen(c->args.add, s->y_type, n_y, false) : NULL;
    if (c->plan.workspace)
        memset(c->args.workspace, 0xff, c->plan.workspace);
    memset(c->args.y, 0xff, n_y * vae_type_size(s->y_type));
    if (s->add && !in_place)
        add = emu_widen(c->args.add, s->y_type, n_y, false);
    float *x =
        emu_widen(c->args.x, s->x_type, t_in * s->h * s->w * s->c_in, s->tf32);
    float *w = emu_widen(c->args.weight, s->x_type, taps * s->c_in * s->c_out,
                         s->tf32);
    float *bias = emu_widen(c->args.bias, s->y_type, (size_t) s->c_out, false);
    float *ordered = emu_reorder(w, (size_t) s->c_out, taps, (size_t) s->c_in);
    float *y = room(n_y, sizeof *y);
    const int pad = wrong == EMU_WRONG_PADS && s->s > 1;
    vae_kernels_ref.conv(&(VaeQueue){.threads = 1},
                         &(VaeConvArgs){.y = y,
                                        .x = x,
                                        .weight = ordered,
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
                                        .pad_y = s->pad_y + pad,
                                        .pad_x = s->pad_x});
    for (size_t i = 0; i < n_y; i++) {
        float v = y[i];
        if (add)
            v += add[i];
        v += bias[i % (size_t) s->c_out];
        y[i] = s->relu && v < 0 ? 0 : v;
    }
    make_wrong(c, y, n_y);
    vae_type_from_float(c->args.y, s->y_type, y, n_y);
    emu_take_time(runs_done++ % 2 ? jitter * c->plan.ms : c->plan.ms);
    free(x);
    free(w);
    free(bias);
    free(add);
    free(ordered);
    free(y);
}

static Run
run_of(const VaeCudaLibraryConv *conv)
{
    Run r = {*conv->plan, conv->args};
    if (find_code(conv->plan)->runs++ == 1 && r.plan.choice == disturbed)
        r.plan.ms *= disturbance;
    return r;
}

static double
flop_of(const VaeCudaConvShape *s)
{
    return 2.0 * s->t * s->ho * s->wo * s->c_out * s->kt * s->k * s->k *
           s->c_in;
}

/* Checks that a thread that records holds the lock twice: once for the
 * recording and once for the run. */
static void
check_hold(const VaeCudaLibrary *convs)
{
    if (!emu_records() || convs->holds > 1)
        return;
    fprintf(stderr, "a convolution is recorded while another may run\n");
    abort();
}

VaeStatus
vae_cuda_library_conv_run(VaeCudaLibraryConv *conv, void *stream,
                          VaeError *error)
{
    VaeCudaLibrary *convs = conv->convs;
    Plan *p = conv->plan;
    vae_cuda_library_lock(convs);
    check_hold(convs);
    EMU_LOCKED;
    VaeStatus status =
        emu_refuses() || emu_broken() ? refused(error) : load_code(p, error);
    runs++;
    if (status == VAE_OK) {
        check_stream(convs);
        if (p->choice == flawed && flaw == EMU_FLAW_KILLS)
            abort();
        if (p->choice == flawed && flaw == EMU_FLAW_REFUSES &&
            p->shared.shape.add)
            status = vae_fail(error, VAE_ERR_BACKEND, "it does not add");
    }
    if (status == VAE_OK) {
        convs->stream = stream;
        flop += flop_of(&p->shared.shape);
        const Run r = run_of(conv);
        emu_submit(stream, run, &r, sizeof r);
        status = emu_broken() ? refused(error) : VAE_OK;
    }
    vae_cuda_library_unlock(convs);
    return status;
}
