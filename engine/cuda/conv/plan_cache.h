/*
 * plan_cache.h: keeps the fastest choice of each layer on disk, so that a
 * second start times nothing.
 *
 * One text file for each device, driver and library in $XDG_CACHE_HOME/gst-vae:
 *
 *   gst-vae convolutions 7
 *   KEY
 *   LAYER <tab> CHOICE <tab> NANOSECONDS <tab> DATE <tab> FREE <tab> CODE
 *   end CHECKSUM
 *
 * LAYER is the text of vae_cuda_layer_name(); it determines the graph of a
 * layer. CHOICE: the text of a VaeCudaChoice. FREE: MiB of device memory that
 * were free when it was timed. CODE: MiB that the code of its choices then
 * took. A row with -1 nanoseconds is a choice that ended a process. A damaged
 * file, or one of another format or key, is ignored and rewritten. The log
 * reports this; it is never an error.
 *
 * Beside it is a file with the ending ".trying". It has the layer and choice
 * that a process runs for the first time, and is empty otherwise. It is locked
 * as long as that process lives.
 */
#ifndef VAE_CUDA_TUNE_H
#define VAE_CUDA_TUNE_H

#include "backend.h"
#include "layers.h"

/* Length of the key, which names device, driver and library: one line, no tabs.
 */
#define VAE_CUDA_KEY 400

typedef struct VaeCudaStore VaeCudaStore;

/* Reads the file if there is one; NULL when out of memory. log: borrowed. */
VaeCudaStore *vae_cuda_store_open(const char *key, const VaeLog *log);
void vae_cuda_store_close(VaeCudaStore **store);

/* More MiB than the code of a layer has. */
#define VAE_CUDA_MOST_CODE_MIB 1024

/* A timed layer. ms: the time of one run of vae_cuda_timed_frames() frames.
 * code_mib: the device memory that its code took. */
typedef struct VaeCudaTimed {
    VaeCudaChoice choice;
    float ms;
    uint64_t free_mib, code_mib;
} VaeCudaTimed;

/* Finds the layer's choice. free_mib: device memory that is free now. A row
 * that was timed with less than half of it is not used, because other programs
 * shared the device then. Nor is a row with more than VAE_CUDA_MOST_CODE_MIB of
 * code, because another program took this memory meanwhile. */
bool vae_cuda_store_find(const VaeCudaStore *store, const char *layer,
                         uint64_t free_mib, VaeCudaTimed *out);
void vae_cuda_store_put(VaeCudaStore *store, const char *layer,
                        const VaeCudaTimed *timed);

/* Stores, before the first run of a choice, that it is tried; choice NULL: the
 * process survived it. Has no effect while another stream or process tries
 * choices of the same device. */
void vae_cuda_store_try(VaeCudaStore *store, const char *layer,
                        const VaeCudaChoice *choice);
/* True if that choice of the layer ended a process. */
bool vae_cuda_store_killed(const VaeCudaStore *store, const char *layer,
                           const VaeCudaChoice *choice);

/* Writes the file if rows were added since the last save. Keeps rows that other
 * processes wrote meanwhile. */
void vae_cuda_store_save(VaeCudaStore *store);

/* Path of the file; "" if the process has no cache folder. */
const char *vae_cuda_store_path(const VaeCudaStore *store);

#endif
