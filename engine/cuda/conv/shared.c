/*
 * shared.c: for each device, the library's handle with its plans, and the
 * choices of layers. All backends of the process share them. Opening a handle
 * takes device memory and waits for the device. And two streams must not
 * compute a layer in two ways, because their bytes would differ.
 */
#include <string.h>

#include "gpu.h"

typedef struct Loaded {
    struct Loaded *next;
    char name[VAE_CUDA_LAYER_NAME + VAE_CUDA_CHOICE];
} Loaded;

typedef struct Chosen {
    struct Chosen *next;
    bool deterministic; /* by a deterministic stream */
    char layer[VAE_CUDA_LAYER_NAME];
    VaeCudaChoice choice;
} Chosen;

struct VaeCudaShared {
    VaeCudaShared *next;
    VaeCudaConvs *convs;
    Loaded *loaded;
    Chosen *chosen;
    pthread_mutex_t timing; /* held by a stream that makes choices */
    int device, users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VaeCudaShared *all;

static VaeStatus
open_shared(const VaeBackend *cuda, VaeCudaShared **out, VaeError *error)
{
    VaeCudaShared *s = vae_mem_alloc(sizeof *s);
    *out = NULL;
    if (!s)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    pthread_mutex_lock(&vae_cuda_recording);
    const VaeStatus status = vae_cuda_convs_new(NULL, &s->convs, error);
    pthread_mutex_unlock(&vae_cuda_recording);
    if (status != VAE_OK) {
        vae_mem_free(s);
        return status;
    }
    vae_cuda_convs_use(s->convs, vae_rt_kernels(), cuda->device.capability);
    pthread_mutex_init(&s->timing, NULL);
    s->device = cuda->number;
    s->next = all;
    all = s;
    *out = s;
    return VAE_OK;
}

VaeStatus
vae_cuda_shared_take(VaeBackend *cuda, VaeError *error)
{
    VaeStatus status = VAE_OK;
    pthread_mutex_lock(&lock);
    VaeCudaShared *s = all;
    while (s && s->device != cuda->number)
        s = s->next;
    if (!s)
        status = open_shared(cuda, &s, error);
    if (s) {
        s->users++;
        cuda->shared = s;
        cuda->convs = s->convs;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void
close_shared(VaeCudaShared *s)
{
    VaeCudaShared **at = &all;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    pthread_mutex_lock(&vae_cuda_recording);
    vae_cuda_convs_free(&s->convs);
    pthread_mutex_unlock(&vae_cuda_recording);
    while (s->loaded) {
        Loaded *next = s->loaded->next;
        vae_mem_free(s->loaded);
        s->loaded = next;
    }
    while (s->chosen) {
        Chosen *next = s->chosen->next;
        vae_mem_free(s->chosen);
        s->chosen = next;
    }
    pthread_mutex_destroy(&s->timing);
    vae_mem_free(s);
}

void
vae_cuda_shared_drop(VaeBackend *cuda)
{
    VaeCudaShared *s = cuda->shared;
    if (!s)
        return;
    cuda->shared = NULL;
    cuda->convs = NULL;
    pthread_mutex_lock(&lock);
    vae_cuda_convs_forget(s->convs, cuda->compute);
    if (--s->users == 0)
        close_shared(s);
    pthread_mutex_unlock(&lock);
}

bool
vae_cuda_is_loaded(const VaeBackend *cuda, const char *layer,
                   const VaeCudaChoice *choice)
{
    const size_t n = strlen(layer);
    pthread_mutex_lock(&lock);
    const Loaded *l = cuda->shared->loaded;
    while (l && (strncmp(l->name, layer, n) != 0 ||
                 strcmp(l->name + n, choice->text) != 0))
        l = l->next;
    pthread_mutex_unlock(&lock);
    return l;
}

void
vae_cuda_set_loaded(VaeBackend *cuda, const char *layer,
                    const VaeCudaChoice *choice)
{
    Loaded *l = vae_mem_alloc(sizeof *l);
    if (!l) /* the code is loaded again */
        return;
    strcpy(l->name, layer);
    strcat(l->name, choice->text);
    pthread_mutex_lock(&lock);
    l->next = cuda->shared->loaded;
    cuda->shared->loaded = l;
    pthread_mutex_unlock(&lock);
}

void
vae_cuda_timing_begin(const VaeBackend *cuda)
{
    pthread_mutex_lock(&cuda->shared->timing);
}

void
vae_cuda_timing_end(const VaeBackend *cuda)
{
    pthread_mutex_unlock(&cuda->shared->timing);
}

bool
vae_cuda_get_chosen(const VaeBackend *cuda, const char *layer,
                    VaeCudaChoice *out)
{
    pthread_mutex_lock(&lock);
    const Chosen *c = cuda->shared->chosen;
    while (c && (c->deterministic != cuda->params.deterministic ||
                 strcmp(c->layer, layer) != 0))
        c = c->next;
    if (c)
        *out = c->choice;
    pthread_mutex_unlock(&lock);
    return c;
}

void
vae_cuda_set_chosen(const VaeBackend *cuda, const char *layer,
                    const VaeCudaChoice *choice)
{
    Chosen *c = vae_mem_alloc(sizeof *c);
    if (!c) /* the next stream chooses again */
        return;
    c->deterministic = cuda->params.deterministic;
    strcpy(c->layer, layer);
    c->choice = *choice;
    pthread_mutex_lock(&lock);
    c->next = cuda->shared->chosen;
    cuda->shared->chosen = c;
    pthread_mutex_unlock(&lock);
}
