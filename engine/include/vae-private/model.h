/*
 * vae-private/model.h: generated weights, and what a model is made of.
 */
#ifndef VAE_PRIVATE_MODEL_H
#define VAE_PRIVATE_MODEL_H

#include "vae-private/tensors.h"
#include "vae/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_LATENT_CHANNELS 256

/*
 * A full-size model of arch with generated weights, for tests and timing:
 * numbers from a hash of each tensor's official name, so every machine has
 * the same. arch is one of vae_model_archs().
 */
VAE_API VaeStatus vae_model_generate(const char *arch, VaeModel **out,
                                     VaeError *error);

/* The same without numbers (VaeTensorInfo.data is NULL), which takes next to no
 * time and memory: for vae_stream_plan() and to look at. No stream can be made
 * of it, and it is not written. */
VAE_API VaeStatus vae_model_outline(const char *arch, VaeModel **out,
                                    VaeError *error);

/* NULL-terminated names that vae_model_generate() knows. */
VAE_API const char *const *vae_model_archs(void);

/* The numbers of the generator for one name, as many as dims make. A weight's
 * name and shape say what vae_model_generate() gives it; "latent" gives numbers
 * of variance 1 and "video" numbers from -1 up to 1. */
VAE_API void vae_generate(const char *name, const int64_t *dims, int n_dims,
                          float *dst);

/* Writes all tensors under the official names as type. */
VAE_API VaeStatus vae_model_write(const VaeModel *model, const char *path,
                                  VaeType type, VaeError *error);

/* Tensors of the file in canonical (official) order; i < tensor_count. Their
 * data are those of the file until a stream is opened. */
VAE_API const VaeTensorInfo *vae_model_tensor(const VaeModel *model, size_t i);

/* SHA-256, as 64 hexadecimal digits and a NUL, over the tensors in canonical
 * order: of each "NAME TYPE DIMS BYTES\n" (float32 3x8x3x3x3 972) and its
 * numbers as stored. The same weights under another naming or in another
 * kind of file have the same. Reads all of them. Of an outline the lines.
 * Errors: VAE_ERR_READ, VAE_ERR_MEMORY. */
VAE_API VaeStatus vae_model_fingerprint(const VaeModel *model, char out[65],
                                        VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
