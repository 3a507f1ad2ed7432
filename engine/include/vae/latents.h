/*
 * vae/latents.h: finds the latent clip in a tensor file.
 */
#ifndef VAE_LATENTS_H
#define VAE_LATENTS_H

#include "vae/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum VaeLatentLayout {
    VAE_LAYOUT_AUTO,
    VAE_LAYOUT_CTHW, /* 4-D, or 5-D with the batch first */
    VAE_LAYOUT_TCHW
} VaeLatentLayout;

typedef struct VaeLatentOptions {
    size_t struct_size; /* VAE_INIT() */
    const char *tensor; /* NULL: latent, latents, samples, latent_tensor,
                           else the only 4-D or 5-D tensor */
    VaeLatentLayout layout;
    int batch_index; /* -1: a batch of more than one is an error */
} VaeLatentOptions;

/*
 * One clip of t latents. Latent k, channel c is a contiguous plane of
 * height x width elements at byte offset + k * t_stride + c * c_stride of the
 * file (and of data, where the file is at hand: data is the plane of k = 0,
 * c = 0).
 */
typedef struct VaeLatentClip {
    size_t struct_size; /* VAE_INIT() */
    VaeType type;
    int t, channels, height, width;      /* latents and latent pixels */
    int64_t batch;                       /* clips in the tensor */
    uint64_t offset, t_stride, c_stride; /* bytes */
    const uint8_t *data;                 /* NULL where only a header is */
    const char *tensor;                  /* its name, owned by the file */

    /* What the file's metadata says; 0 or NULL where it says nothing. */
    const char *space;              /* vae.latent_space */
    VaeNormalization normalization; /* metadata, else raw for ComfyUI .latent,
                                       else normalized; npy and PyTorch files
                                       state none */
    bool normalization_stated;      /* by metadata or as ComfyUI .latent */
    int fps_n, fps_d;               /* vae.framerate, "16/1" */
    int width_px, height_px;        /* vae.width, vae.height: visible pixels */
    int64_t frames;                 /* vae.frames: true count of video frames */
} VaeLatentClip;

/*
 * Layout: what options say, else vae.layout ("cthw" or "tchw", in 5-D after the
 * batch), else 5-D is [B,C,T,H,W] and 4-D is [C,T,H,W] unless dim 0 is no known
 * channel count (16, 24, 32, 48, 128) and dim 1 is. options may be NULL: all
 * automatic, no batch.
 *
 * Errors: VAE_ERR_NOT_FOUND with the names that are there (and "looks like
 * model weights" where they do); VAE_ERR_SIZE for other than 4 or 5
 * dimensions, a batch, a dimension of 0, height or width over 16384, channels
 * over 1024, more than 2^24 latents; VAE_ERR_FORMAT for an element type that
 * is no float and for a vae.* value that cannot be read.
 */
VAE_API VaeStatus vae_latent_clip_find(const VaeTensorFile *file,
                                       const VaeLatentOptions *options,
                                       VaeLatentClip *out, VaeError *error);

/*
 * Packs latent k as [C, h, w] of clip->type into dst
 * (channels * height * width elements). Needs clip->data; k < clip->t.
 */
VAE_API void vae_latent_clip_read(const VaeLatentClip *clip, int k, void *dst);

#ifdef __cplusplus
}
#endif
#endif
