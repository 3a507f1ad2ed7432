/*
 * plan_cache.h: keeps the fastest choice of each layer on disk, so that a
 * second start times nothing.
 *
 * One text file for each device and library in $XDG_CACHE_HOME/gst-vae:
 *
 *   gst-vae convolutions 4
 *   KEY
 *   LAYER <tab> CHOICE <tab> NANOSECONDS      for each layer
 *   end CHECKSUM
 *
 * LAYER is the text of vae_cuda_layer_name(); it determines the graph of a
 * layer. A damaged file, or one of another format or key, is ignored and
 * rewritten. The log reports this; it is never an error.
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

/* The layer's choice, or NULL; valid until the next put. */
const VaeCudaChoice *vae_cuda_store_find(const VaeCudaStore *store,
                                         const char *layer);
/* ms: time of one run of vae_cuda_timed_frames() frames. */
void vae_cuda_store_put(VaeCudaStore *store, const char *layer,
                        const VaeCudaChoice *choice, float ms);
/* Writes the file if rows were put since the last save. Keeps the rows that
 * other processes wrote meanwhile. */
void vae_cuda_store_save(VaeCudaStore *store);

/* Path of the file; "" if the process has no cache folder. */
const char *vae_cuda_store_path(const VaeCudaStore *store);

#endif
