/*
 * vae-private/model.h: generated weights, and the tensors of a model.
 */
#ifndef VAE_PRIVATE_MODEL_H
#define VAE_PRIVATE_MODEL_H

#include "vae-private/tensors.h"
#include "vae/latents.h"
#include "vae/model.h"
#include "vae/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_LATENT_CHANNELS 256

static inline VaeCounts
vae_model_counts(const VaeModelInfo *info)
{
    return (VaeCounts){info->temporal, info->chunk};
}

/* Tiles of `size` latents. A tile begins `stride` latents after the one before.
 */
typedef struct VaeTileLatents {
    int size, stride;
} VaeTileLatents;
VAE_API VaeTileLatents vae_tile_latents(int64_t plan);

/* VaeModelInfo.look_ahead and delay of a stream in this direction and with this
 * tile_plan. Both are 0 if no result waits. An encoder's delay is in latents.
 */
typedef struct VaeReach {
    int look_ahead, delay;
} VaeReach;
VAE_API VaeReach vae_model_reach(const VaeModelInfo *info,
                                 VaeDirection direction, int64_t tile_plan);

/* Fails because the network lacks the direction, and names the network to use
 * instead, if there is one. */
VAE_API VaeStatus vae_model_lacks(const VaeModelInfo *info,
                                  VaeDirection direction, VaeError *error);

/* vae_model_history() with the direction, history and tile_plan of params. */
VAE_API VaeStatus vae_model_looks_back(const VaeModel *model,
                                       const VaeStreamParams *params,
                                       int *steps, VaeError *error);

/*
 * Creates a full-size model with generated weights, for tests and timing. The
 * numbers come from a hash of each tensor's official name, so they are the same
 * on every machine. arch is one of vae_model_archs().
 */
VAE_API VaeStatus vae_model_generate(const char *arch, VaeModel **out,
                                     VaeError *error);

/* The same without numbers (VaeTensorInfo.data is NULL), which takes almost no
 * time and memory. Use it for vae_stream_plan() and to list tensors. It cannot
 * be opened as a stream or written. */
VAE_API VaeStatus vae_model_outline(const char *arch, VaeModel **out,
                                    VaeError *error);

/* Adds a reference and returns model. Thread-safe. */
VAE_API VaeModel *vae_model_ref(VaeModel *model);

/* NULL-terminated names that vae_model_generate() knows. */
VAE_API const char *const *vae_model_archs(void);

/* Writes the generator's numbers for a tensor of that name and shape to dst.
 * The names of weights give the numbers of vae_model_generate(), except for the
 * deviations of latents. "latent" gives numbers of variance 1, and "video"
 * numbers from -1 to 1. */
VAE_API void vae_generate(const char *name, const int64_t *dims, int n_dims,
                          float *dst);

/* Writes all tensors under the official names as type. */
VAE_API VaeStatus vae_model_write(const VaeModel *model, const char *path,
                                  VaeType type, VaeError *error);

/* Tensor i < tensor_count of the file, in canonical (official) order. Its data
 * are valid until a stream of the model is opened. */
VAE_API const VaeTensorInfo *vae_model_tensor(const VaeModel *model, size_t i);

/* Bytes for the sentence of vae_model_choice(). */
#define VAE_CHOICE 1000

/* True if the file has several networks, or fits several, and the user named
 * none of them. Then writes a sentence for the user, without the file's name:
 * which network is taken, and why. */
VAE_API bool vae_model_choice(const VaeModel *model, char text[VAE_CHOICE]);

/* Returns the number of latents in a window of the decoder, or from one tile of
 * latents to the next, or 0 if it has neither. A decode that begins so many
 * latents before another one has its bytes only if it begins at a multiple of
 * this number. */
VAE_API int vae_model_window(const VaeModel *model, int64_t tile_plan);

/* Fails with VAE_ERR_ARGUMENT if path leads to a file that the model or the
 * input (or NULL) was opened from. */
VAE_API VaeStatus vae_model_check_output(const VaeModel *model,
                                         const VaeTensorFile *input,
                                         const char *path, VaeError *error);

/* Checks that a decoder of the model can decode the clip to pictures of this
 * size. The error names both files. */
VAE_API VaeStatus vae_model_check_clip(const VaeModel *model,
                                       const VaeLatentClip *clip, int width,
                                       int height, VaeError *error);

/* Writes the SHA-256 of the weights, as 64 hexadecimal digits and a NUL. It is
 * computed over the tensors in canonical order: for each "NAME TYPE DIMS
 * BYTES\n" (float32 3x8x3x3x3 972), then its numbers as stored. Then come "MEAN
 * STD\n" of each latent channel, and what VaeArch.settings writes: the groups
 * of the norms of SeedVR2 and hunyuan1.0; an LTX-2 decoder's padding, shortcuts
 * and timestep. Another naming or file format does not change it. Reads all
 * weights; an outline has only the lines. Errors: VAE_ERR_READ, VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_model_fingerprint(const VaeModel *model, char out[65],
                                        VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
