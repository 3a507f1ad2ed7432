/*
 * module.c: opens the module of the CUDA backend, once in a process. Its path
 * is in the environment variable VAE_CUDA_MODULE; if that is unset or empty,
 * the module is beside the file with this code, or in the folder of libraries.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

#define MODULE "libvae-cuda.so"

static const VaeEngineCalls calls = {
    .version = VAE_MODULE_VERSION,
    .mem_alloc = vae_mem_alloc,
    .mem_free = vae_mem_free,
    .mem_left = vae_mem_left,
    .weight_cache_get = vae_weight_cache_get,
    .weight_cache_has = vae_weight_cache_has,
    .weight_cache_offload = vae_weight_cache_offload,
    .weight_cache_reload = vae_weight_cache_reload,
    .weight_cache_release = vae_weight_cache_release,
    .weight_count = vae_weight_count,
    .weight_read = vae_weight_read,
    .weight_is_whole = vae_weight_is_whole,
    .weight_read_some = vae_weight_read_some,
    .frame_bytes = vae_frame_bytes,
};

/* Set once by open_module(). */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const VaeBackendClass *class;
static char reason[400] =
    "this build has no cuda backend and " MODULE " is not installed";

/* True if a file of that name exists, which ends the search. */
static bool
open_path(const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    fclose(f);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module) {
        /* the message names what is missing, such as cuDNN */
        const char *words = dlerror();
        snprintf(reason, sizeof reason, "cannot load %s", words ? words : path);
        return true;
    }
    VaeModuleOpen open;
    void *symbol = dlsym(module, "vae_module_open");
    memcpy(&open, &symbol, sizeof open);
    class = open ? open(&calls) : NULL;
    if (!class)
        snprintf(reason, sizeof reason, "%s is of another version of gst-vae",
                 path);
    return true;
}

static void
open_module(void)
{
    Dl_info self;
    char path[4096];
    const char *named = secure_getenv("VAE_CUDA_MODULE");
    if (named && *named) {
        if (!open_path(named))
            snprintf(reason, sizeof reason, "VAE_CUDA_MODULE: no file %s",
                     named);
        return;
    }
    if (dladdr(&calls, &self) && self.dli_fname) {
        const char *slash = strrchr(self.dli_fname, '/');
        const int n = slash ? (int) (slash + 1 - self.dli_fname) : 0;
        snprintf(path, sizeof path, "%.*s" MODULE, n, self.dli_fname);
        if (slash && open_path(path))
            return;
    }
    open_path(VAE_LIBDIR "/" MODULE);
}

const VaeBackendClass *
vae_backend_cuda_class(char *why, size_t size)
{
    pthread_once(&once, open_module);
    if (!class)
        snprintf(why, size, "%s", reason);
    return class;
}
