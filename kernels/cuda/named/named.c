/*
 * named.c: see named.h.
 */
#include <pthread.h>

#include "named.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const void *
vae_named_entry(void *kernel)
{
    VaeNamedKernel *k = kernel;
    pthread_mutex_lock(&lock);
    VaeFatbin *const f = k->fatbin;
    int code = 0;
    if (!f->library)
        code = cudaLibraryLoadData(&f->library, f->data, NULL, NULL, 0, NULL,
                                   NULL, 0);
    if (!code && !k->kernel)
        (void) cudaLibraryGetKernel(&k->kernel, f->library, k->name);
    const void *const entry = (const void *) k->kernel;
    pthread_mutex_unlock(&lock);
    return entry;
}
