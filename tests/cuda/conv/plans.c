/*
 * plans.c: checks that cuDNN has a plan for every convolution of every
 * full-size model, on devices that this machine lacks.
 *
 * plans FOLDER WIDTHxHEIGHT DEVICE [mixed|compiled|quick] [-v]
 *   FOLDER    has the properties of devices, DEVICE.json
 *   mixed     counts the layers that have a plan if sums have another type than
 *             the input of convolutions
 *   compiled  uses such types, too; fails if one layer of each kind has no plan
 *   quick     tests the types of AUTO, slices of 1, and a few choices of a
 * layer -v        also prints a line for each layer
 *
 * The test prints a line for each combination of types. It fails if
 *   - a layer has no plan in types that the backend uses,
 *   - a choice has no plan for some number of frames,
 *   - a choice needs too much workspace, or
 *   - no choice of a layer uses the matrix units of the device, except in fp32.
 *
 * The test sees only the engines that are compiled into cuDNN. Engines that are
 * compiled at run time, such as all for mixed types, need a driver, or the
 * replacement that driver.sh makes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "build.h"
#include "fuse.h"
#include "model.h"

enum { MAX_LAYERS = 1024, MAX_TIMES = 16, SKIP = 77 };
enum { EVEN_FRAMES = 6, EVEN_CHOICES = 3 }; /* see is_even() */
enum { QUICK_CHOICES = 6 };

typedef struct Layer {
    char name[VAE_CUDA_LAYER_NAME];
    VaeCudaConvShape shape;
    int times[MAX_TIMES], n_times;
} Layer;

typedef struct Types {
    const char *label;
    VaeType act, sum;
    bool tf32, mixed;
} Types;

static const Types all_types[] = {
    {"bf16", VAE_TYPE_BF16, VAE_TYPE_BF16, false, false},
    {"fp16", VAE_TYPE_F16, VAE_TYPE_F16, false, false},
    {"tf32", VAE_TYPE_F32, VAE_TYPE_F32, true, false},
    {"fp32", VAE_TYPE_F32, VAE_TYPE_F32, false, false},
    {"bf16, sums fp32", VAE_TYPE_BF16, VAE_TYPE_F32, false, true},
    {"fp16, sums fp32", VAE_TYPE_F16, VAE_TYPE_F32, false, true},
    {"fp16, sums bf16", VAE_TYPE_F16, VAE_TYPE_BF16, false, true},
};

static Layer *layers;
static int n_layers;
static bool verbose, mixed, compiled, quick;

/* The largest workspace, which is that of vae_cuda_part_limits. In TF32 an
 * engine may also copy the weights, which do not become smaller in parts. */
#define MOST_WORKSPACE ((size_t) 256 << 20)

static size_t
most_workspace(const VaeCudaConvShape *s)
{
    const size_t weights = (size_t) s->kt * s->k * s->k * s->c_in * s->c_out;
    return MOST_WORKSPACE + (s->tf32 ? 4 * weights : 0);
}

/* In fp32 no engine may use the matrix units. */
static bool
is_full(VaeType type, bool tf32)
{
    return type == VAE_TYPE_F32 && !tf32;
}

static void
must(VaeStatus status, const VaeError *error)
{
    if (status == VAE_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

/* ------------------------------------------------------------------ */
/* Layers.                                                             */

static bool
same_kind(const VaeCudaConvShape *a, const VaeCudaConvShape *b)
{
    return a->k == b->k && a->kt == b->kt && a->s == b->s && a->st == b->st &&
           a->add == b->add && a->relu == b->relu;
}

static void
add_layer(const VaeCudaConvShape *shape)
{
    char name[VAE_CUDA_LAYER_NAME];
    for (int i = 0; compiled && i < n_layers; i++)
        if (same_kind(&layers[i].shape, shape))
            return;
    vae_cuda_layer_name(shape, name);
    int i = 0;
    while (i < n_layers && strcmp(layers[i].name, name) != 0)
        i++;
    Layer *l = &layers[i];
    if (i == n_layers) {
        if (n_layers == MAX_LAYERS)
            abort();
        n_layers++;
        strcpy(l->name, name);
        l->shape = *shape;
    }
    for (i = 0; i < l->n_times; i++)
        if (l->times[i] == shape->t)
            return;
    if (l->n_times == MAX_TIMES)
        abort();
    l->times[l->n_times++] = shape->t;
}

static void
add_program(VaeModel *model, VaeDirection direction, int width, int height,
            int steps, const Types *types)
{
    VaeCarrySet carries = {0};
    VaeProgram *program;
    VaeError error;
    const int unit = model->info.spatial;
    const int down = direction == VAE_DECODE ? unit : 1;
    must(vae_model_build(model,
                         &(VaeBuildParams){
                             .direction = direction,
                             .first = steps == 0,
                             .steps = steps ? steps : 1,
                             .height = (height + unit - 1) / unit * unit / down,
                             .width = (width + unit - 1) / unit * unit / down,
                             .act = types->act,
                             .sum = types->sum,
                             .label = "test",
                             .carries = &carries},
                         &program, &error),
         &error);
    vae_program_fuse(program, program, (VaeFusions){.upsample = true},
                     (VaeCuts){0});
    for (int i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == VAE_OP_CONV) {
            const VaeCudaConvShape shape =
                vae_cuda_shape(&program->ops[i], types->tf32);
            /* with mixed types, only layers of two types */
            if (!types->mixed || shape.x_type != shape.y_type)
                add_layer(&shape);
        }
    vae_program_free(&program);
    vae_carry_set_free(&carries);
}

/* Collects the layers of all models, directions and automatic slice sizes. */
static void
collect(int width, int height, const Types *types)
{
    static const int steps[] = {0, 1, 2, 4};
    n_layers = 0;
    memset(layers, 0, MAX_LAYERS * sizeof *layers);
    for (int i = 0; vae_archs[i]; i++) {
        VaeModel *model;
        VaeError error;
        must(vae_model_preset(vae_archs[i], true, true, &model, &error),
             &error);
        for (int k = 0; k < (quick ? 2 : 4); k++) {
            if (model->info.has_decoder)
                add_program(model, VAE_DECODE, width, height, steps[k], types);
            if (model->info.has_encoder)
                add_program(model, VAE_ENCODE, width, height, steps[k], types);
        }
        vae_model_free(&model);
    }
}

/* ------------------------------------------------------------------ */
/* Plans.                                                              */

typedef struct Tally {
    int planned, split, slow, large, least, most;
    size_t workspace;
    long sum;
} Tally;

/* A few rows, which load the code of a choice, need no more workspace than the
 * layer. A second convolution of the same shape and choice makes no new plan.
 */
static bool
is_small(VaeCudaConvs *convs, const VaeCudaParts *p,
         const VaeCudaConvShape *shape, VaeError *error)
{
    for (int i = 0; i < p->phases; i++) {
        VaeCudaConv *conv, *again;
        const VaeCudaConvShape small = vae_cuda_small_part(p, shape, i);
        if (vae_cuda_conv_new(convs, &small, &p->choice, &conv, error) !=
            VAE_OK)
            return false;
        const bool fits =
            vae_cuda_conv_workspace(conv) <= vae_cuda_parts_workspace(p);
        const int plans = vae_cuda_convs_plans(convs);
        must(vae_cuda_conv_new(convs, &small, &p->choice, &again, error),
             error);
        const bool shared = vae_cuda_convs_plans(convs) == plans;
        vae_cuda_conv_free(&conv);
        vae_cuda_conv_free(&again);
        if (fits && shared)
            continue;
        vae_fail(error, VAE_ERR_BACKEND, "%s: %s", p->choice.text,
                 fits ? "a plan is made twice"
                      : "a few rows need more workspace");
        return false;
    }
    return true;
}

/* Makes the plans of the layer with this choice for every number of frames. */
static bool
make_all(VaeCudaConvs *convs, const Layer *l, const VaeCudaChoice *choice,
         size_t *most, int *most_parts, VaeError *error)
{
    size_t workspace = 0;
    int parts = 0;
    for (int i = 0; i < l->n_times; i++) {
        VaeCudaParts p;
        VaeCudaConvShape shape = l->shape;
        shape.t = l->times[i];
        const VaeCudaRows rows = {shape.h, shape.ho, shape.pad_y, false};
        if (vae_cuda_parts_new(convs, &shape, &rows, choice, &p, error) !=
            VAE_OK)
            return false;
        const size_t bytes = vae_cuda_parts_workspace(&p);
        workspace = bytes > workspace ? bytes : workspace;
        parts = p.n * p.bands > parts ? p.n * p.bands : parts;
        const bool small = is_small(convs, &p, &shape, error);
        vae_cuda_parts_free(&p);
        if (!small)
            return false;
    }
    *most = workspace;
    *most_parts = parts;
    return true;
}

/* Returns false if the workspace does not grow evenly with the number of
 * frames. Such an engine computes sums in parts that depend on the number of
 * tiles, and so gives other bytes for other slices. */
static bool
is_even(VaeCudaConvs *convs, const Layer *l, const VaeCudaChoice *choice,
        VaeError *error)
{
    size_t before = 0;
    for (int t = 1; t <= EVEN_FRAMES; t++) {
        VaeCudaConv *conv;
        VaeCudaConvShape shape = vae_cuda_layer_shape(&l->shape);
        shape.t = t;
        if (vae_cuda_conv_new(convs, &shape, choice, &conv, error) != VAE_OK)
            return t > 1; /* more frames than this are computed in parts */
        const size_t bytes = vae_cuda_conv_workspace(conv);
        vae_cuda_conv_free(&conv);
        const size_t most = before * (size_t) t / (size_t) (t > 1 ? t - 1 : 1);
        if (t > 1 && (bytes < before || bytes > most + 4096)) {
            vae_fail(error, VAE_ERR_BACKEND,
                     "%s takes %zu bytes of workspace for %d frames and %zu "
                     "for %d",
                     choice->text, before, t - 1, bytes, t);
            return false;
        }
        before = bytes;
    }
    return true;
}

/* True if one of the choices multiplies by matrix units; without them a layer
 * takes many times as long. */
static bool
is_fast(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
        const VaeCudaChoice *choices, int n)
{
    bool fast = false;
    for (int i = 0; i < n && !fast; i++) {
        VaeCudaConv *conv;
        VaeError error;
        if (vae_cuda_conv_new(convs, shape, &choices[i], &conv, &error) ==
            VAE_OK)
            fast = vae_cuda_conv_matrix(conv);
        vae_cuda_conv_free(&conv);
    }
    return fast;
}

/* Makes all choices, because any of them may be the fastest on a device. */
static bool
make_choices(VaeCudaConvs *convs, const Layer *l, const VaeCudaChoice *choices,
             int n, Tally *tally, VaeError *error)
{
    size_t workspace, other;
    int parts, other_parts;
    if (!make_all(convs, l, choices, &workspace, &parts, error))
        return false;
    for (int i = 0; i < n && i < EVEN_CHOICES; i++)
        if (!is_even(convs, l, &choices[i], error))
            return false;
    for (int i = 1; i < n; i++)
        if (!make_all(convs, l, &choices[i], &other, &other_parts, error))
            return false;
    tally->split += parts > 1;
    tally->large += workspace > most_workspace(&l->shape);
    if (workspace > tally->workspace)
        tally->workspace = workspace;
    if (verbose)
        printf("    %-64s %d parts, %.1f MiB, engine %s\n", l->name, parts,
               (double) workspace / 1048576, choices->text);
    return true;
}

static void
plan_layer(VaeCudaConvs *convs, const Layer *l, const Types *types,
           Tally *tally)
{
    static VaeCudaChoice choices[VAE_CUDA_MAX_CHOICES];
    VaeError error;
    int n = 0;
    VaeCudaConvShape shape = l->shape;
    shape = vae_cuda_layer_shape(&shape);
    if (vae_cuda_conv_choices(convs, &shape, choices,
                              compiled ? 1
                              : quick  ? QUICK_CHOICES
                                       : VAE_CUDA_MAX_CHOICES,
                              &n, &error) == VAE_OK &&
        make_choices(convs, l, choices, n, tally, &error)) {
        tally->least = n < tally->least ? n : tally->least;
        tally->most = n > tally->most ? n : tally->most;
        tally->sum += n;
        tally->planned++;
        if (!is_fast(convs, &shape, choices, n)) {
            tally->slow++;
            if (verbose || !is_full(shape.x_type, shape.tf32))
                printf("    %-64s only slow ones, engine %s\n", l->name,
                       choices->text);
        }
    } else if (verbose || !types->mixed) {
        printf("    %-64s NONE: %s\n", l->name, error.message);
    }
}

static bool
plan_types(VaeCudaConvs *convs, const char *device, const Types *types)
{
    Tally t = {.least = VAE_CUDA_MAX_CHOICES};
    for (int i = 0; i < n_layers; i++)
        plan_layer(convs, &layers[i], types, &t);
    printf("%-7s %-16s %4d of %4d layers", device, types->label, t.planned,
           n_layers);
    if (t.planned)
        printf(", choices %3d to %3d, mean %5.1f, workspace %6.1f MiB, %d in "
               "parts, %d without matrix units",
               t.least, t.most, (double) t.sum / t.planned,
               (double) t.workspace / 1048576, t.split, t.slow);
    printf("\n");
    if (t.large)
        printf("    %d layers need more than %zu MiB and their weights\n",
               t.large, MOST_WORKSPACE >> 20);
    return (t.planned == n_layers || (types->mixed && !compiled)) &&
           (t.slow == 0 || is_full(types->act, types->tf32) || compiled) &&
           t.large == 0;
}

/* The convolutions by which a device is tested before its first use. */
static bool
plan_self_test(VaeCudaConvs *convs, const Types *types)
{
    bool good = true;
    for (int i = 0; i < VAE_CUDA_TEST_SHAPES; i++) {
        VaeCudaChoice choice;
        VaeError error;
        int n;
        const VaeCudaConvShape s =
            vae_cuda_test_shape(i, types->act, types->tf32);
        if (vae_cuda_conv_choices(convs, &s, &choice, 1, &n, &error) == VAE_OK)
            continue;
        printf("    self-test, convolution %d: NONE: %s\n", i, error.message);
        good = false;
    }
    return good;
}

static bool
is_refused(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
           const VaeCudaChoice *choice, const char *why)
{
    VaeCudaConv *conv;
    VaeError error = {0};
    const VaeStatus status =
        vae_cuda_conv_new(convs, shape, choice, &conv, &error);
    vae_cuda_conv_free(&conv);
    if (status == VAE_ERR_BACKEND && strstr(error.message, why))
        return true;
    printf("    \"%s\" is made, or refused for another reason: %s\n",
           choice->text, error.message);
    return false;
}

/* A choice from the file of timed layers may come from another build, so it may
 * be unfit. */
static bool
refuse_unfit(VaeCudaConvs *convs)
{
    enum { SPLIT_K_SLC = 17 }; /* CUDNN_KNOB_TYPE_SPLIT_K_SLC */
    VaeCudaConvShape s = vae_cuda_test_shape(0, VAE_TYPE_F32, true);
    VaeCudaChoice choice, split;
    VaeError error;
    int n;
    must(vae_cuda_conv_choices(convs, &s, &choice, 1, &n, &error), &error);
    snprintf(split.text, sizeof split.text, "%.80s %d=2", choice.text,
             SPLIT_K_SLC);
    bool good = is_refused(convs, &s, &split, "splits sums");
    good = is_refused(convs, &s, &(VaeCudaChoice){"39 25=1"}, "splits sums") &&
           good;
    s.tf32 = false;
    return is_refused(convs, &s, &choice, "less precise") && good;
}

static char *
read_text(const char *folder, const char *device)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.json", folder, device);
    FILE *f = fopen(path, "re");
    char *text = calloc(1, 1 << 16);
    if (!f || !text || fread(text, 1, (1 << 16) - 1, f) == 0) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

static bool
plan_device(const char *folder, const char *device, int width, int height)
{
    bool good = true;
    VaeCudaConvs *convs;
    VaeError error;
    char *text = read_text(folder, device);
    const VaeStatus status = vae_cuda_convs_new(text, &convs, &error);
    free(text);
    if (status == VAE_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", error.message);
        exit(SKIP);
    }
    must(status, &error);
    for (size_t i = 0; i < sizeof all_types / sizeof *all_types; i++) {
        const bool of_auto =
            all_types[i].act == VAE_TYPE_BF16 || all_types[i].tf32;
        if (all_types[i].mixed != mixed || (quick && !of_auto) ||
            (compiled && all_types[i].sum != VAE_TYPE_F32))
            continue;
        collect(width, height, &all_types[i]);
        good = plan_types(convs, device, &all_types[i]) && good;
        good = (mixed || plan_self_test(convs, &all_types[i])) && good;
    }
    good = (mixed || refuse_unfit(convs)) && good;
    vae_cuda_convs_free(&convs);
    return good;
}

int
main(int argc, char **argv)
{
    int width, height;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4 || sscanf(argv[2], "%dx%d", &width, &height) != 2) {
        fprintf(stderr, "usage: plans FOLDER WIDTHxHEIGHT DEVICE "
                        "[mixed|compiled|quick] [-v]\n");
        return 2;
    }
    for (int i = 4; i < argc; i++) {
        verbose = verbose || strcmp(argv[i], "-v") == 0;
        compiled = compiled || strcmp(argv[i], "compiled") == 0;
        quick = quick || strcmp(argv[i], "quick") == 0;
        mixed = mixed || compiled || strcmp(argv[i], "mixed") == 0;
    }
    layers = calloc(MAX_LAYERS, sizeof *layers);
    if (!layers)
        return 1;
    printf("pictures of %dx%d, slices of 1%s\n", width, height,
           quick ? "" : ", 2 and 4 steps");
    const bool good = plan_device(argv[1], argv[3], width, height);
    free(layers);
    return good ? 0 : 1;
}
