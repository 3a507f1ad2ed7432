/*
 * choices.c: finds cuDNN's choices for a convolution. conv.c adds the own
 * kernel.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_conv.h"

enum { MAX_RESULTS = 256 };

/* True if the plan of the choice can be made, and its workspace is small
 * enough. */
static bool
can_make(const VaeCudaLibrary *c, Desc graph, const char *text,
         size_t workspace)
{
    VaeCudnnBag b = {0};
    Desc engine;
    int64_t one, bytes = 0;
    Desc plan = vae_cudnn_add_plan(&b, c, graph, text, &engine);
    const bool good =
        b.status == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &one, &bytes) == 0 &&
        (uint64_t) bytes <= workspace;
    vae_cudnn_bag_free(&b);
    return good;
}

typedef struct Search {
    const VaeCudaLibrary *convs;
    const VaeCudaConvShape *shape;
    /* Graphs of the shape, of one frame of it, and of some rows of a frame. */
    Desc graph, frame, rows[VAE_CUDA_SOME_ROWS];
    size_t workspace;
    VaeCudaChoice *choices;
    int most, n;
    bool compiled; /* true: engines compiled at run time; false: others */
    bool matrix;   /* only engines that use the matrix units */
    bool fast;     /* at least one of the choices uses them */
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
        s->compiled == vae_cudnn_is_compiled(engine) &&
        vae_cudnn_is_exact(engine, s->shape) &&
        vae_cudnn_read_choice(config, engine, &choice) &&
        !vae_cudnn_splits_sums(&choice);
    const bool fast =
        good && vae_cudnn_has_note(engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    cudnnBackendDestroyDescriptor(engine);
    if (!good || (s->matrix && !fast))
        return;
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->choices[i].text, choice.text) == 0)
            return;
    /* A choice that works for one frame works for any number of frames. One
     * that works for some rows works for any strip. */
    if (can_make(s->convs, s->graph, choice.text, s->workspace) &&
        can_make(s->convs, s->frame, choice.text, SIZE_MAX) &&
        can_make_rows(s, choice.text)) {
        s->choices[s->n++] = choice;
        s->fast = s->fast || fast;
    }
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

/* Workspace limit in bytes. A larger workspace would have a copy of the input,
 * which saves time only with few channels. */
static size_t
workspace_limit(const VaeCudaConvShape *s)
{
    const size_t frames = (size_t) (s->t - 1) * s->st + s->kt;
    const size_t pixel = (size_t) s->c_in * vae_type_size(s->x_type);
    /* Matrix units need pixels of a multiple of 16 bytes. */
    const size_t copy = pixel % 16 ? (pixel + 15) / 16 * 16 : pixel / 8;
    return ((size_t) 64 << 20) + frames * s->h * s->w * copy;
}

/* Adds choices. Engines that need little workspace come first, then those that
 * are compiled at run time. */
static void
search_all(Search *s)
{
    const int before = s->n;
    for (int pass = 0; pass < 4 && s->n == before; pass++) {
        s->compiled = pass & 1;
        s->workspace = pass < 2 ? workspace_limit(s->shape) : SIZE_MAX;
        search(s, CUDNN_HEUR_MODE_A);
        search(s, CUDNN_HEUR_MODE_B);
        if (s->n == before)
            search(s, CUDNN_HEUR_MODE_FALLBACK);
    }
}

/* If no choice uses the matrix units, puts choices that copy their input for
 * these units first: by calculation they take less time. Does nothing in fp32,
 * in which no choice may use them. */
static void
search_fast(Search *s)
{
    search_all(s);
    if (s->fast || (s->shape->x_type == VAE_TYPE_F32 && !s->shape->tf32))
        return;
    s->n = 0;
    s->matrix = true;
    search_all(s);
    s->matrix = false;
    search_all(s);
}

VaeStatus
vae_cuda_library_choices(VaeCudaLibrary *convs, const VaeCudaConvShape *shape,
                         VaeCudaChoice *choices, int most, int *n,
                         VaeError *error)
{
    VaeCudnnBag b = {0};
    VaeCudaConvShape frame = *shape;
    pthread_mutex_lock(&convs->lock);
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
    if (status == VAE_OK)
        search_fast(&s);
    vae_cudnn_bag_free(&b);
    pthread_mutex_unlock(&convs->lock);
    *n = s.n;
    if (status == VAE_OK && s.n == 0)
        status = vae_fail(error, VAE_ERR_BACKEND,
                          "%s knows no way to compute it", convs->name);
    return status;
}
