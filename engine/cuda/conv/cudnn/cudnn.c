/*
 * cudnn.c: cuDNN 9, and convolutions with its graph interface. engines.c makes
 * their plans, and choices.c finds the ways to compute them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "cudnn_conv.h"
#include "vae-private/os.h"

/* cuDNN 9.8 to 9.10 give wrong results for bf16 convolutions over time. */
#define OLDEST 91500

/* Shared by the convolutions of one shape and choice. */
typedef struct Plan {
    VaeCudaPlan shared;
    VaeCudnnBag graph;
    Desc engine, plan;
    size_t workspace;
    bool matrix;
} Plan;

struct VaeCudaLibraryConv {
    VaeCudaLibrary *convs;
    Plan *plan;
    VaeCudnnBag pack;
    Desc variant;
};

/* ------------------------------------------------------------------ */
/* The library.                                                        */

static void
name_library(char *out, size_t size)
{
    const size_t v = cudnnGetVersion();
    snprintf(out, size, "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

/* Writes the path of a library of cuDNN beside the one that the module uses. */
static bool
place_part(const char *part, char *path, size_t size)
{
    char ignored[8];
    void *library = vae_os_module(VAE_CUDNN_FILE, ignored, sizeof ignored);
    char *self =
        library ? vae_os_module_of(vae_os_module_symbol(library, "cudnnCreate"))
                : NULL;
    const int n = self ? (int) (vae_os_file_name(self) - self) : 0;
    const int at = snprintf(path, size, "%.*s", n, self ? self : "");
    snprintf(path + at, size - (size_t) at, VAE_CUDNN_PART, part);
    free(self);
    return n > 0;
}

/* Opens a library of cuDNN from its folder, else, as cuDNN does, from the
 * search path. It stays open for cuDNN. */
static bool
open_part(const char *part, char *why, size_t size)
{
    char path[4096];
    if (place_part(part, path, sizeof path) &&
        vae_os_module_lazily(path, why, size))
        return true;
    snprintf(path, sizeof path, "libcudnn_%s.so", part);
    if (vae_os_module_lazily(path, why, size))
        return true;
    snprintf(path, sizeof path, VAE_CUDNN_PART, part);
    return vae_os_module_lazily(path, why, size);
}

/* libcudnn opens its other libraries at their first use. If the graph library
 * is missing, it ends the process, so this checks first. */
static VaeStatus
check_parts(VaeError *error)
{
    static const char *const parts[] = {"graph", "heuristic",
                                        "engines_precompiled",
                                        "engines_runtime_compiled"};
    char why[300];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!open_part(parts[i], why, sizeof why))
            return vae_fail(error, VAE_ERR_UNSUPPORTED,
                            "cuDNN is not complete: %s", why);
    return VAE_OK;
}

VaeStatus
vae_cuda_library_check(VaeError *error)
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
                    "%s is installed; expected 9.15 or a later 9.x (older "
                    "ones are known to compute 16-bit convolutions wrong)",
                    name);
}

static VaeStatus
open_device(VaeCudaLibrary *c, VaeError *error)
{
    const cudnnStatus_t s = cudnnCreate(&c->handle);
    return s == CUDNN_STATUS_SUCCESS
               ? VAE_OK
               : vae_cudnn_fail(s, "be opened on the device", error);
}

static VaeStatus
open_properties(VaeCudaLibrary *c, const char *json, VaeError *error)
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
vae_cuda_library_new(const char *properties, VaeCudaLibrary **out,
                     VaeError *error)
{
    VaeCudaLibrary *c = vae_mem_alloc(sizeof *c);
    *out = NULL;
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    VaeStatus status = vae_cuda_library_check(error);
    if (status == VAE_OK) {
        name_library(c->name, sizeof c->name);
        status = properties ? open_properties(c, properties, error)
                            : open_device(c, error);
    }
    if (status != VAE_OK)
        vae_cuda_library_free(&c);
    *out = c;
    return status;
}

void
vae_cuda_library_free(VaeCudaLibrary **convs)
{
    VaeCudaLibrary *c = *convs;
    *convs = NULL;
    if (!c)
        return;
    if (c->device)
        cudnnBackendDestroyDescriptor(c->device);
    if (c->handle)
        cudnnDestroy(c->handle);
    pthread_mutex_destroy(&c->lock);
    vae_mem_free(c->properties);
    vae_mem_free(c);
}

void
vae_cuda_library_lock(VaeCudaLibrary *convs)
{
    pthread_mutex_lock(&convs->lock);
}

void
vae_cuda_library_unlock(VaeCudaLibrary *convs)
{
    pthread_mutex_unlock(&convs->lock);
}

void
vae_cuda_library_forget(VaeCudaLibrary *convs, void *stream)
{
    pthread_mutex_lock(&convs->lock);
    if (convs->stream == stream) {
        cudnnSetStream(convs->handle, NULL);
        convs->stream = NULL;
    }
    pthread_mutex_unlock(&convs->lock);
}

const char *
vae_cuda_library_name(const VaeCudaLibrary *convs)
{
    return convs->name;
}

const char *
vae_cuda_library_properties(VaeCudaLibrary *c)
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

static VaeStatus
fill_plan(Plan *p, const VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
          const VaeCudaChoice *choice, VaeError *error)
{
    int64_t one, bytes = 0;
    VaeCudnnBag *b = &p->graph;
    if (vae_cudnn_splits_sums(choice))
        return vae_fail(error, VAE_ERR_BACKEND,
                        "engine %s splits sums, by the number of frames",
                        choice->text);
    Desc graph = vae_cudnn_add_graph(b, convs, shape);
    p->plan = vae_cudnn_add_plan(b, convs, graph, choice->text, &p->engine);
    if (b->status == CUDNN_STATUS_SUCCESS)
        b->status = cudnnBackendGetAttribute(
            p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
            1, &one, &bytes);
    p->workspace = (size_t) bytes;
    if (b->status == CUDNN_STATUS_SUCCESS)
        p->matrix =
            vae_cudnn_has_note(p->engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    const VaeStatus status = vae_cudnn_bag_status(b, error);
    /* A choice may come from a file. */
    if (status == VAE_OK && !vae_cudnn_is_exact(p->engine, shape))
        return vae_fail(error, VAE_ERR_BACKEND,
                        "the sums of engine %s depend on chance, or are less "
                        "precise than required",
                        choice->text);
    return status;
}

/* Finds the plan of that shape and choice, or makes it. */
static VaeStatus
get_plan(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
         const VaeCudaChoice *choice, Plan **out, VaeError *error)
{
    *out = (Plan *) vae_cuda_plan_find(convs->plans, shape, choice);
    if (*out)
        return VAE_OK;
    Plan *p = vae_mem_alloc(sizeof *p);
    if (!p)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    const VaeStatus status = fill_plan(p, convs, shape, choice, error);
    if (status != VAE_OK) {
        vae_cudnn_bag_free(&p->graph);
        vae_mem_free(p);
        return status;
    }
    convs->plans_made++;
    vae_cuda_plan_add(&convs->plans, &p->shared, shape, choice);
    *out = p;
    return VAE_OK;
}

VaeStatus
vae_cuda_library_conv_new(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
                          const VaeCudaChoice *choice, VaeCudaLibraryConv **out,
                          VaeError *error)
{
    VaeCudaLibraryConv *c = vae_mem_alloc(sizeof *c);
    *out = NULL;
    if (!c)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    c->convs = convs;
    pthread_mutex_lock(&convs->lock);
    const VaeStatus status = get_plan(convs, shape, choice, &c->plan, error);
    pthread_mutex_unlock(&convs->lock);
    if (status != VAE_OK)
        vae_cuda_library_conv_free(&c);
    *out = c;
    return status;
}

void
vae_cuda_library_conv_free(VaeCudaLibraryConv **conv)
{
    VaeCudaLibraryConv *c = *conv;
    *conv = NULL;
    if (!c)
        return;
    pthread_mutex_lock(&c->convs->lock);
    if (c->plan && vae_cuda_plan_drop(&c->convs->plans, &c->plan->shared)) {
        vae_cudnn_bag_free(&c->plan->graph);
        vae_mem_free(c->plan);
    }
    pthread_mutex_unlock(&c->convs->lock);
    vae_cudnn_bag_free(&c->pack);
    vae_mem_free(c);
}

int
vae_cuda_library_plans(const VaeCudaLibrary *convs)
{
    return convs->plans_made;
}

size_t
vae_cuda_library_conv_workspace(const VaeCudaLibraryConv *conv)
{
    return conv->plan->workspace;
}

bool
vae_cuda_library_conv_matrix(const VaeCudaLibraryConv *conv)
{
    return conv->plan->matrix;
}

VaeStatus
vae_cuda_library_conv_bind(VaeCudaLibraryConv *c, const VaeCudaConvArgs *a,
                           VaeError *error)
{
    const int64_t uids[] = {UID_X, UID_WEIGHT, UID_Y, UID_BIAS, UID_ADD};
    const void *pointers[] = {a->x, a->weight, a->y, a->bias, a->add};
    const int64_t n = c->plan->shared.shape.add ? 5 : 4;
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
vae_cuda_library_conv_run(VaeCudaLibraryConv *c, void *stream, VaeError *error)
{
    VaeCudaLibrary *convs = c->convs;
    pthread_mutex_lock(&convs->lock);
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    if (convs->stream != stream)
        s = cudnnSetStream(convs->handle, stream);
    convs->stream = s == CUDNN_STATUS_SUCCESS ? stream : NULL;
    if (s == CUDNN_STATUS_SUCCESS)
        s = cudnnBackendExecute(convs->handle, c->plan->plan, c->variant);
    pthread_mutex_unlock(&convs->lock);
    return s == CUDNN_STATUS_SUCCESS
               ? VAE_OK
               : vae_cudnn_fail(s, "run the convolution", error);
}
