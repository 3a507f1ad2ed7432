/*
 * vae-private/spaces.h: the table of the known latent spaces.
 */
#ifndef VAE_PRIVATE_SPACES_H
#define VAE_PRIVATE_SPACES_H

#include "vae-private/counts.h"
#include "vae/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Normalized numbers are those of the diffusion model. Raw numbers are those of
 * the original VAE: raw = normalized * std + mean. */
typedef struct VaeSpace {
    const char *name;
    int channels, spatial; /* as in VaeModelInfo */
    VaeCounts counts;
    int fps; /* usual frame rate of its videos */
    /* One number for each channel. If they are NULL, all channels have the std
     * 1 / factor and the mean shift. With a factor of 0, only the weights of
     * the full VAEs have the statistics. */
    const float *mean, *std;
    float factor, shift;
    /* The numbers in a .latent file of ComfyUI. */
    VaeNormalization comfyui;
} VaeSpace;

/* Returns row i, or NULL after the last one. Of the spaces that have the same
 * number of channels, the usual one is first. */
VAE_API const VaeSpace *vae_space_at(size_t i);
/* Returns the space of that name, or NULL if it is not known. name may be NULL.
 */
VAE_API const VaeSpace *vae_space_find(const char *name);
/* Returns the known space whose name is most like this one, or NULL if none is
 * like it. */
VAE_API const VaeSpace *vae_space_nearest(const char *name);
/* Returns the usual space with this number of channels, or NULL. */
VAE_API const VaeSpace *vae_space_usual(int channels);

/* Fills mean and std per channel. They are 0 and 1 for an unknown space, or if
 * its statistics are those of another number of channels. */
VAE_API void vae_space_statistics(const char *name, int channels, float *mean,
                                  float *std);

/* Returns the meaning of VAE_COMFYUI in this space: VAE_NORMALIZED or VAE_RAW.
 * Returns other values as they are. ComfyUI does not know a space that is not
 * in the table; its usual conversion then gives raw numbers. */
VAE_API VaeNormalization vae_space_normalization(const char *name,
                                                 VaeNormalization n);

/* Returns true, and writes a sentence, if a setting differs from what `who`,
 * such as a file, states of it. stated: NULL if it states nothing. */
VAE_API bool vae_overrides(const char *who, const char *setting,
                           const char *stated, const char *set, char *text,
                           size_t size);
/* The same for a normalization that is stated of latents of this space. */
VAE_API bool vae_normalization_overrides(const char *space, const char *who,
                                         VaeNormalization stated,
                                         VaeNormalization set, char *text,
                                         size_t size);
/* The notice for a file or another input whose normalization nothing states. */
#define VAE_NO_NORMALIZATION                                                   \
    "%s states no normalization: the latents are taken as normalized, unless " \
    "normalization is set"
/* The name of the tensor in a file of ComfyUI. */
#define VAE_COMFYUI_TENSOR "latent_tensor"

#ifdef __cplusplus
}
#endif
#endif
