/*
 * module.c: opens the module of the CUDA backend, once in a process. Its path
 * is in the environment variable VAE_CUDA_MODULE; if that is unset or empty,
 * the module is beside the file with this code, or in the folder of libraries.
 * What it needs of NVIDIA is in wheels beside ours, or where the system looks.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "vae-private/os.h"

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
static char reason[500] =
    "this build has no cuda backend and " VAE_CUDA_FILE " is not installed";

/* The length of the folder in `self`, the path of the file with this code. */
static int
own_folder(char **self)
{
    *self = vae_os_module_of(&calls);
    return *self ? (int) (vae_os_file_name(*self) - *self) : 0;
}

/* Loads from wheels what the module needs, so that it finds these libraries by
 * their names. */
static void
open_needs(void)
{
    static const char *const needs[] = {VAE_CUDA_NEEDS NULL};
    char path[4096], ignored[380], *self;
    const int n = own_folder(&self);
    for (int i = 0; n > 0 && needs[i]; i++) {
        snprintf(path, sizeof path, "%.*s%s", n, self, needs[i]);
        vae_os_module(path, ignored, sizeof ignored);
    }
    free(self);
}

/* True if a file of that name exists, which ends the search. */
static bool
open_path(const char *path)
{
    FILE *f = vae_os_fopen(path);
    if (!f)
        return false;
    fclose(f);
    open_needs();
    char why[380];
    void *module = vae_os_module(path, why, sizeof why);
    if (!module) {
        snprintf(reason, sizeof reason,
                 "cannot load %s; it needs cuDNN 9, such as pip's "
                 "nvidia-cudnn-cu13",
                 why);
        return true;
    }
    VaeModuleOpen open;
    void *symbol = vae_os_module_symbol(module, "vae_module_open");
    memcpy(&open, &symbol, sizeof open);
    class = open ? open(&calls) : NULL;
    if (!class)
        snprintf(reason, sizeof reason, "%s is of another version of gst-vae",
                 path);
    return true;
}

/* Opens the module in the folder of the file with this code. */
static bool
open_beside(void)
{
    char path[4096], *self;
    const int n = own_folder(&self);
    if (n > 0)
        snprintf(path, sizeof path, "%.*s" VAE_CUDA_FILE, n, self);
    free(self);
    return n > 0 && open_path(path);
}

static void
open_module(void)
{
    char *named = vae_os_environment("VAE_CUDA_MODULE");
    if (named && *named) {
        if (!open_path(named))
            snprintf(reason, sizeof reason, "VAE_CUDA_MODULE: no file %s",
                     named);
    } else if (!open_beside()) {
        open_path(VAE_LIBDIR "/" VAE_CUDA_FILE);
    }
    free(named);
}

const VaeBackendClass *
vae_backend_cuda_class(char *why, size_t size)
{
    pthread_once(&once, open_module);
    if (!class)
        snprintf(why, size, "%s", reason);
    return class;
}
