/*
 * cudnn.c: convolutions with the graph interface of cuDNN 9.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "cudnn_conv.h"

/* cuDNN 9.8 to 9.10 compute bf16 convolutions over time wrong. */
#define OLDEST 91500

enum { MAX_RESULTS = 256, MAX_KNOBS = 32 };

struct VaeCudaConv {
    VaeCudaConvs *convs;
    VaeCudaConvShape shape;
    VaeCudnnBag graph, pack;
    Desc engine, plan, variant;
    size_t workspace;
    bool matrix;
};

/* ------------------------------------------------------------------ */
/* The library.                                                        */

static void
name_library(char *out, size_t size)
{
    const size_t v = cudnnGetVersion();
    snprintf(out, size, "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

/* Opens a part of cuDNN: from the folder of libcudnn or, as cuDNN does, from
 * the search path of libraries. The part stays open for cuDNN. */
static bool
open_part(const char *part)
{
    Dl_info self;
    char path[4096];
    cudnnStatus_t (*call)(cudnnHandle_t *) = cudnnCreate;
    void *address;
    memcpy(&address, &call, sizeof address);
    if (dladdr(address, &self) && self.dli_fname) {
        const char *slash = strrchr(self.dli_fname, '/');
        const int n = slash ? (int) (slash + 1 - self.dli_fname) : 0;
        snprintf(path, sizeof path, "%.*slibcudnn_%s.so.9", n, self.dli_fname,
                 part);
        if (slash && dlopen(path, RTLD_LAZY | RTLD_LOCAL))
            return true;
    }
    snprintf(path, sizeof path, "libcudnn_%s.so", part);
    if (dlopen(path, RTLD_LAZY | RTLD_LOCAL))
        return true;
    snprintf(path, sizeof path, "libcudnn_%s.so.9", part);
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

/* libcudnn forwards calls to libraries that it opens at their first use. If the
 * graph library is missing, it ends the process, so this checks first. */
static VaeStatus
check_parts(VaeError *error)
{
    static const char *const parts[] = {"graph", "heuristic",
                                        "engines_precompiled",
                                        "engines_runtime_compiled"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!open_part(parts[i])) {
            const char *words = dlerror();
            return vae_fail(error, VAE_ERR_UNSUPPORTED,
                            "cuDNN is not complete: %s",
                            words ? words : parts[i]);
        }
    return VAE_OK;
}

VaeStatus
vae_cuda_convs_check(VaeError *error)
{
    const VaeStatus whole = check_parts(error);
    if (whole != VAE_OK)
        return whole;
    const size_t v = cudnnGetVersion();
    char name[32];
    if (v >= OLDEST && v < 100000)
        return VAE_OK;
    name_library(name, sizeof name);
    return vae_fail(error, VAE_ERR_UNSUPPORTED,
                    "%s is installed; 9.15 or a later 9.x is wanted (older "
                    "ones are known to compute 16-bit convolutions wrong)",
                    name);
}

static VaeStatus
open_device(VaeCudaConvs *c, VaeError *error)
{
    const cudnnStatus_t s = cudnnCreate(&c->handle);
    return s == CUDNN_STATUS_SUCCESS
               ? VAE_OK
               : vae_cudnn_fail(s, "be opened on the device", error);
}

static VaeStatus
open_properties(VaeCudaConvs *c, const char *json, VaeError *error)
{
    VaeCudnnBag b = {.doing = "read the device's properties"};
    c->device = vae_cudnn_bag_new(&b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    vae_cudnn_bag_set(&b, c->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                      CUDNN_TYPE_CHAR, (int64_t) strlen(json), json);
    vae_cudnn_bag_finalize(&b, c->device, b.doing);
    const VaeStatus status = vae_cudnn_bag_status(&b, error);
    if (status != VAE_OK) {
        vae_cudnn_bag_free(&b);
        c->device = NULL;
    }
    return status;
}

VaeStatus
vae_cuda_convs_new(const char *properties, VaeCudaConvs **out, VaeError *error)
{
    VaeCudaConvs *c = vae_mem_alloc(sizeof *c);
    *out = NULL;
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeStatus status = vae_cuda_convs_check(error);
    if (status == VAE_OK) {
        name_library(c->name, sizeof c->name);
        status = properties ? open_properties(c, properties, error)
                            : open_device(c, error);
    }
    if (status != VAE_OK)
        vae_cuda_convs_free(&c);
    *out = c;
    return status;
}

void
vae_cuda_convs_free(VaeCudaConvs **convs)
{
    VaeCudaConvs *c = *convs;
    *convs = NULL;
    if (!c)
        return;
    if (c->device)
        cudnnBackendDestroyDescriptor(c->device);
    if (c->handle)
        cudnnDestroy(c->handle);
    vae_mem_free(c->properties);
    vae_mem_free(c);
}

const char *
vae_cuda_convs_name(const VaeCudaConvs *convs)
{
    return convs->name;
}

const char *
vae_cuda_convs_properties(VaeCudaConvs *c)
{
    int64_t n = 0;
    VaeCudnnBag b = {0};
    Desc d = c->device;
    if (!d) {
        d = vae_cudnn_bag_new(&b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        vae_cudnn_bag_set(&b, d, CUDNN_ATTR_DEVICEPROP_HANDLE,
                          CUDNN_TYPE_HANDLE, 1, &c->handle);
        vae_cudnn_bag_finalize(&b, d, NULL);
    }
    if (b.status == CUDNN_STATUS_SUCCESS)
        b.status = cudnnBackendGetAttribute(
            d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
            &n, NULL);
    vae_mem_free(c->properties);
    c->properties = vae_mem_alloc((size_t) n + 1);
    if (b.status == CUDNN_STATUS_SUCCESS && c->properties)
        cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, n, &n, c->properties);
    vae_cudnn_bag_free(&b);
    return c->properties ? c->properties : "";
}

/* ------------------------------------------------------------------ */
/* Choices: "ENGINE KNOB=VALUE KNOB=VALUE ...".                        */

static bool
read_choice(Desc config, Desc engine, VaeCudaChoice *out)
{
    VaeCudnnBag b = {0};
    Desc knobs[MAX_KNOBS];
    int64_t index = -1, n = 0, one;
    for (int i = 0; i < MAX_KNOBS; i++)
        knobs[i] = vae_cudnn_bag_new(&b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    bool good =
        b.status == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                 CUDNN_TYPE_INT64, 1, &one,
                                 &index) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, &n,
                                 knobs) == CUDNN_STATUS_SUCCESS &&
        n <= MAX_KNOBS;
    size_t at = (size_t) snprintf(out->text, sizeof out->text, "%lld",
                                  (long long) index);
    for (int i = 0; good && i < n; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        good = cudnnBackendGetAttribute(
                   knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                   CUDNN_TYPE_KNOB_TYPE, 1, &one, &type) == 0 &&
               cudnnBackendGetAttribute(knobs[i],
                                        CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                        CUDNN_TYPE_INT64, 1, &one, &value) == 0;
        at += (size_t) snprintf(out->text + at, sizeof out->text - at,
                                " %d=%lld", (int) type, (long long) value);
        good = good && at < sizeof out->text;
    }
    vae_cudnn_bag_free(&b);
    return good;
}

/* Makes the plan of a choice, with its engine and configuration, in b. */
static Desc
add_plan(VaeCudnnBag *b, const VaeCudaConvs *c, Desc graph, const char *text,
         Desc *engine)
{
    int used = 0;
    long long index = -1;
    sscanf(text, "%lld%n", &index, &used);
    const int64_t index64 = index;
    Desc e = vae_cudnn_bag_new(b, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    vae_cudnn_bag_set_ints(b, e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index64);
    if (c->device)
        vae_cudnn_bag_set_desc(b, e, CUDNN_ATTR_ENGINE_DEVICEPROP, c->device);
    vae_cudnn_bag_finalize(b, e, "use that engine");
    Desc knobs[MAX_KNOBS];
    int64_t n = 0;
    int type;
    long long value;
    text += used;
    while (n < MAX_KNOBS &&
           sscanf(text, " %d=%lld%n", &type, &value, &used) == 2) {
        const cudnnBackendKnobType_t knob = (cudnnBackendKnobType_t) type;
        const int64_t value64 = value;
        Desc k = vae_cudnn_bag_new(b, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        vae_cudnn_bag_set(b, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                          CUDNN_TYPE_KNOB_TYPE, 1, &knob);
        vae_cudnn_bag_set_ints(b, k, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1,
                               &value64);
        vae_cudnn_bag_finalize(b, k, "set the engine");
        knobs[n++] = k;
        text += used;
    }
    Desc config = vae_cudnn_bag_new(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, config, CUDNN_ATTR_ENGINECFG_ENGINE, e);
    if (n)
        vae_cudnn_bag_set(b, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                          CUDNN_TYPE_BACKEND_DESCRIPTOR, n, knobs);
    vae_cudnn_bag_finalize(b, config, "configure the engine");
    Desc plan = vae_cudnn_bag_new(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    vae_cudnn_bag_set_desc(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                           config);
    if (c->handle)
        vae_cudnn_bag_set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                          CUDNN_TYPE_HANDLE, 1, &c->handle);
    else
        vae_cudnn_bag_set_desc(b, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                               c->device);
    vae_cudnn_bag_finalize(b, plan, "make a plan of the convolution");
    *engine = e;
    return plan;
}

/* ------------------------------------------------------------------ */

static bool
has_behaviour(Desc engine, cudnnBackendBehaviorNote_t wanted)
{
    cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n = 0;
    if (cudnnBackendGetAttribute(
            engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; i++)
        if (notes[i] == wanted)
            return true;
    return false;
}

typedef struct Notes {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n;
} Notes;

/* Gets the numerical notes of the engine; false if they cannot be read. */
static bool
get_notes(Desc engine, Notes *out)
{
    out->n = 0;
    const cudnnStatus_t s = cudnnBackendGetAttribute(
        engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
        CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &out->n, out->note);
    if (out->n > CUDNN_NUMERICAL_NOTE_TYPE_COUNT)
        out->n = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
    return s == CUDNN_STATUS_SUCCESS;
}

static bool
has_note(Desc engine, cudnnBackendNumericalNote_t wanted)
{
    Notes notes;
    bool has = false;
    if (get_notes(engine, &notes))
        for (int64_t i = 0; i < notes.n; i++)
            has = has || notes.note[i] == wanted;
    return has;
}

/* True when the engine computes with the precision that the shape asks for, and
 * in the same order every time. */
static bool
is_exact(Desc engine, const VaeCudaConvShape *s)
{
    Notes notes;
    if (!get_notes(engine, &notes))
        return false;
    const bool full = s->x_type == VAE_TYPE_F32 && !s->tf32;
    for (int64_t i = 0; i < notes.n; i++)
        switch (notes.note[i]) {
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
            if (full)
                return false;
            break;
        case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
            break;
        default: /* not deterministic, transforms, or fewer bits */
            return false;
        }
    return true;
}

/*
 * True when a setting may split a sum over several thread blocks. The number of
 * blocks could then depend on the size of the convolution, and so on t.
 * Hopper's engines split sums unless they are kept from taking workspace; the
 * amount of workspace depends on the output tiles left over for the
 * multiprocessors. One slice means the whole sum: Blackwell's engines always
 * give the number of slices.
 */
static bool
splits_sums(const VaeCudaChoice *choice)
{
    static const struct {
        int type;
        long long most;
    } knobs[] = {{CUDNN_KNOB_TYPE_SPLIT_K_BUF, 0},
                 {CUDNN_KNOB_TYPE_SPLIT_K_SLC, 1},
                 {CUDNN_KNOB_TYPE_SPLIT_P_SLC, 1},
                 {CUDNN_KNOB_TYPE_STREAM_K, 0}};
    const char *text = strchr(choice->text, ' ');
    int type, used;
    long long value;
    while (text && sscanf(text, " %d=%lld%n", &type, &value, &used) == 2) {
        if (type == CUDNN_KNOB_TYPE_WORKSPACE && value == 0)
            return true;
        for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++)
            if (type == knobs[i].type && value > knobs[i].most)
                return true;
        text += used;
    }
    return false;
}

/* True when the plan of the choice can be made and fits the workspace. */
static bool
can_make(const VaeCudaConvs *c, Desc graph, const char *text, size_t workspace)
{
    VaeCudnnBag b = {0};
    Desc engine;
    int64_t one, bytes = 0;
    Desc plan = add_plan(&b, c, graph, text, &engine);
    const bool good =
        b.status == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &one, &bytes) == 0 &&
        (uint64_t) bytes <= workspace;
    vae_cudnn_bag_free(&b);
    return good;
}

typedef struct Search {
    const VaeCudaConvs *convs;
    const VaeCudaConvShape *shape;
    /* For the shape, for one frame of it, and for some rows of that. */
    Desc graph, frame, rows[VAE_CUDA_SOME_ROWS];
    size_t workspace;
    VaeCudaChoice *choices;
    int most, n;
    bool compiled; /* true: engines compiled at run time; false: others */
} Search;

static bool
can_make_rows(const Search *s, const char *choice)
{
    for (int i = 0; i < VAE_CUDA_SOME_ROWS; i++)
        if (!can_make(s->convs, s->rows[i], choice, SIZE_MAX))
            return false;
    return true;
}

static void
consider(Search *s, Desc config)
{
    VaeCudaChoice choice = {0};
    Desc engine;
    int64_t one;
    if (s->n >= s->most ||
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
                                     &engine) != CUDNN_STATUS_SUCCESS)
        return;
    const bool good =
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one,
                                 &engine) == CUDNN_STATUS_SUCCESS &&
        s->compiled ==
            has_behaviour(engine, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) &&
        is_exact(engine, s->shape) && read_choice(config, engine, &choice) &&
        !splits_sums(&choice);
    cudnnBackendDestroyDescriptor(engine);
    if (!good)
        return;
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->choices[i].text, choice.text) == 0)
            return;
    /* A choice that works for one frame can compute any number of frames, and
     * one that works for some rows any strip. */
    if (can_make(s->convs, s->graph, choice.text, s->workspace) &&
        can_make(s->convs, s->frame, choice.text, SIZE_MAX) &&
        can_make_rows(s, choice.text))
        s->choices[s->n++] = choice;
}

static void
search(Search *s, cudnnBackendHeurMode_t mode)
{
    VaeCudnnBag b = {0};
    Desc *found = calloc(MAX_RESULTS, sizeof(Desc));
    int64_t n = 0;
    Desc h = vae_cudnn_bag_new(&b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    vae_cudnn_bag_set_desc(&b, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                           s->graph);
    vae_cudnn_bag_set(&b, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                      1, &mode);
    if (s->convs->device)
        vae_cudnn_bag_set_desc(&b, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                               s->convs->device);
    vae_cudnn_bag_finalize(&b, h, NULL);
    for (int i = 0; found && i < MAX_RESULTS; i++)
        if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                         &found[i]) != CUDNN_STATUS_SUCCESS)
            b.status = CUDNN_STATUS_ALLOC_FAILED;
    if (found && b.status == CUDNN_STATUS_SUCCESS)
        b.status = cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            MAX_RESULTS, &n, found);
    for (int64_t i = 0; b.status == CUDNN_STATUS_SUCCESS && i < n; i++)
        consider(s, found[i]);
    for (int i = 0; found && i < MAX_RESULTS; i++)
        if (found[i])
            cudnnBackendDestroyDescriptor(found[i]);
    free(found);
    vae_cudnn_bag_free(&b);
}

/* Workspace limit in bytes. A larger workspace would hold a copy of the input,
 * which can pay off only with few channels. */
static size_t
workspace_limit(const VaeCudaConvShape *s)
{
    const size_t frames = (size_t) (s->t - 1) * s->st + s->kt;
    const size_t pixel = (size_t) s->c_in * vae_type_size(s->x_type);
    /* Matrix units need pixels of a multiple of 16 bytes. */
    const size_t copy = pixel % 16 ? (pixel + 15) / 16 * 16 : pixel / 8;
    return ((size_t) 64 << 20) + frames * s->h * s->w * copy;
}

VaeStatus
vae_cuda_conv_choices(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                      VaeCudaChoice *choices, int most, int *n, VaeError *error)
{
    static const cudnnBackendHeurMode_t modes[] = {
        CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK};
    VaeCudnnBag b = {0};
    VaeCudaConvShape frame = *shape;
    Search s = {
        .convs = convs, .shape = shape, .choices = choices, .most = most};
    frame.t = 1;
    s.graph = vae_cudnn_add_graph(&b, convs, shape);
    s.frame = vae_cudnn_add_graph(&b, convs, &frame);
    for (int i = 0; i < VAE_CUDA_SOME_ROWS; i++) {
        const VaeCudaConvShape rows = vae_cuda_some_rows(shape, i);
        s.rows[i] = vae_cudnn_add_graph(&b, convs, &rows);
    }
    VaeStatus status = vae_cudnn_bag_status(&b, error);
    for (int pass = 0; pass < 4 && status == VAE_OK && s.n == 0; pass++) {
        s.compiled = pass & 1;
        s.workspace = pass < 2 ? workspace_limit(shape) : SIZE_MAX;
        for (int i = 0; i < 3; i++)
            if (i < 2 || s.n == 0)
                search(&s, modes[i]);
    }
    vae_cudnn_bag_free(&b);
    *n = s.n;
    if (status == VAE_OK && s.n == 0)
        status = vae_fail(error, VAE_ERR_BACKEND,
                          "%s knows no way to compute it", convs->name);
    return status;
}

/* ------------------------------------------------------------------ */

VaeStatus
vae_cuda_conv_new(VaeCudaConvs *convs, const VaeCudaConvShape *shape,
                  const VaeCudaChoice *choice, VaeCudaConv **out,
                  VaeError *error)
{
    int64_t one, bytes = 0;
    VaeCudaConv *c = vae_mem_alloc(sizeof *c);
    *out = NULL;
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    if (splits_sums(choice)) {
        vae_mem_free(c);
        return vae_fail(error, VAE_ERR_BACKEND,
                        "engine %s splits sums, by the number of frames",
                        choice->text);
    }
    c->convs = convs;
    c->shape = *shape;
    VaeCudnnBag *b = &c->graph;
    Desc graph = vae_cudnn_add_graph(b, convs, shape);
    c->plan = add_plan(b, convs, graph, choice->text, &c->engine);
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendGetAttribute(
            c->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
            1, &one, &bytes);
    c->workspace = (size_t) bytes;
    if (b->status == CUDNN_STATUS_SUCCESS)
        c->matrix = has_note(c->engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    VaeStatus status = vae_cudnn_bag_status(b, error);
    /* A choice may come from a file. */
    if (status == VAE_OK && !is_exact(c->engine, shape))
        status = vae_fail(error, VAE_ERR_BACKEND,
                          "the sums of engine %s depend on chance, or are less "
                          "precise than wanted",
                          choice->text);
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
    vae_cudnn_bag_free(&c->pack);
    vae_cudnn_bag_free(&c->graph);
    vae_mem_free(c);
}

size_t
vae_cuda_conv_workspace(const VaeCudaConv *conv)
{
    return conv->workspace;
}

bool
vae_cuda_conv_matrix(const VaeCudaConv *conv)
{
    return conv->matrix;
}

VaeStatus
vae_cuda_conv_bind(VaeCudaConv *c, const VaeCudaConvArgs *a, VaeError *error)
{
    const int64_t uids[] = {UID_X, UID_WEIGHT, UID_Y, UID_BIAS, UID_ADD};
    const void *pointers[] = {a->x, a->weight, a->y, a->bias, a->add};
    const int64_t n = c->shape.add ? 5 : 4;
    VaeCudnnBag *b = &c->pack;
    vae_cudnn_bag_free(b);
    *b = (VaeCudnnBag){0};
    c->variant = vae_cudnn_bag_new(b, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    vae_cudnn_bag_set_ints(b, c->variant, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, n,
                           uids);
    vae_cudnn_bag_set(b, c->variant, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                      CUDNN_TYPE_VOID_PTR, n, pointers);
    vae_cudnn_bag_set(b, c->variant, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                      CUDNN_TYPE_VOID_PTR, 1, &a->workspace);
    vae_cudnn_bag_finalize(b, c->variant, "take the addresses");
    return vae_cudnn_bag_status(b, error);
}

VaeStatus
vae_cuda_conv_run(VaeCudaConv *c, void *stream, VaeError *error)
{
    cudnnStatus_t s = cudnnSetStream(c->convs->handle, stream);
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendExecute(c->convs->handle, c->plan, c->variant);
    return s == CUDNN_STATUS_SUCCESS
               ? VAE_OK
               : vae_cudnn_fail(s, "run the convolution", error);
}
