/*
 * plan_cache.h: how layers were found to be computed fastest, kept on disk, so
 * that a second start times nothing.
 *
 * One file for each device and library in $XDG_CACHE_HOME/gst-vae, text:
 *
 *   gst-vae convolutions 4
 *   KEY
 *   LAYER <tab> CHOICE <tab> NANOSECONDS      for each layer
 *   end CHECKSUM
 *
 * LAYER is what vae_cuda_layer_name() gives: all that the graph of a layer is
 * made of. A file that is not exactly so, or is of another key, is not used and
 * is written anew; that is told in the log and is never an error.
 */
#ifndef VAE_CUDA_TUNE_H
#define VAE_CUDA_TUNE_H

#include "backend.h"
#include "layers.h"

/* What the choices hold for: device, driver, library; one line, no tabs. */
#define VAE_CUDA_KEY 400

typedef struct VaeCudaStore VaeCudaStore;

/* Reads what there is; NULL when out of memory. log: borrowed. */
VaeCudaStore *vae_cuda_store_open(const char *key, const VaeLog *log);
void vae_cuda_store_close(VaeCudaStore **store);

/* The layer's choice, or NULL; valid until the next put. */
const VaeCudaChoice *vae_cuda_store_find(const VaeCudaStore *store,
                                         const char *layer);
/* ms: of one run of vae_cuda_timed_frames() frames. */
void vae_cuda_store_put(VaeCudaStore *store, const char *layer,
                        const VaeCudaChoice *choice, float ms);
/* Writes what was put since, with what others wrote meanwhile. */
void vae_cuda_store_save(VaeCudaStore *store);

/* Where it lies; "" where the process has no folder for it. */
const char *vae_cuda_store_path(const VaeCudaStore *store);

#endif
