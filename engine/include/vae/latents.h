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
    const char *tensor; /* NULL: the first of latent, latents, samples and
                           latent_tensor that the file has, otherwise its only
                           4-D or 5-D tensor, otherwise its only 3-D one. Two of
                           these names: a warning */
    VaeLatentLayout layout;
    int batch_index; /* the clip of a batch, from 0. VAE_INIT() therefore
                        selects the first. -1: a batch of more than one clip is
                        an error */
    /* Of the model that decodes the latents (VaeModelInfo); 0: not known. */
    int channels, temporal, chunk;
    /* The caller overrides these statements of the file, so one that cannot be
     * read is a warning. The same applies to vae.layout if layout is given. */
    bool own_normalization, own_framerate;
    void (*warn)(void *user, const char *line); /* or NULL */
    void *user;
    /* The latent space of a file that states none; NULL: not known. */
    const char *space;
} VaeLatentOptions;

/*
 * One clip of t latents. Channel c of latent k is a contiguous plane of
 * height x width elements. It begins at byte offset + k * t_stride +
 * c * c_stride of the file. The elements there have the type `stored`, which is
 * not always `type`: a program that does not use vae_latent_clip_read() must
 * convert them. The file owns all pointers of the clip and must stay open.
 */
typedef struct VaeLatentClip {
    size_t struct_size;             /* VAE_INIT() */
    VaeType type;                   /* of what vae_latent_clip_read() writes */
    int t, channels, height, width; /* latents and latent pixels */
    int64_t batch;                  /* clips in the tensor */
    uint64_t offset, t_stride, c_stride; /* bytes */
    const uint8_t *data; /* the plane of k = 0, c = 0, of the type `stored`;
                            NULL if only the header is in memory */
    const char *tensor;  /* name of the tensor */

    /* The file's metadata; 0 or NULL if it has no such entry. */
    const char *space;              /* vae.latent_space */
    VaeNormalization normalization; /* as stated. Without a statement:
                                       VAE_COMFYUI for a .latent of ComfyUI,
                                       else VAE_NORMALIZED, which is a guess */
    bool normalization_stated;      /* by vae.normalization; a tensor "mean"
                                       beside one "logvar" is raw */
    int fps_n, fps_d;               /* vae.framerate, "16/1"; fps_n is also 0 if
                                       the rate varies */
    int width_px, height_px;        /* vae.width, vae.height: visible pixels. If
                                       they are 0, multiply width and height by
                                       VaeModelInfo.spatial */
    int64_t frames;                 /* vae.frames: frames to show. The latents
                                       may decode to more: discard the rest. A
                                       value that they cannot be, by the model
                                       or their space, is 0, with a warning */
    const char *file;               /* name of the file, for messages */
    VaeType stored; /* of the elements of the file and of data: F64 if type is
                       F32 and the file has float64, else the same as type */
    /* Nothing states the layout, and the shape leaves it open: warn the user.
     */
    bool layout_guessed;       /* both orders are possible */
    bool channels_may_be_last; /* so is [T,h,w,C], which cannot be read */
    bool may_be_video; /* the model says images; only the numbers can tell if
                          they are a video, [C,T,H,W] of another space */
} VaeLatentClip;

/*
 * Finds the clip. The first of these rules that applies decides its layout:
 *
 * 1. options->layout
 * 2. the metadata vae.layout: "cthw" or "tchw", in 5-D after the batch
 * 3. the number of dimensions: 3-D is one latent, [C,H,W], whatever 1. and 2.
 *    say; 5-D is [B,C,T,H,W]. This is a guess if C and T are equal
 * 4. the channels of the model (options->channels) or else of the latent space
 *    (that of the file, or else options->space): the one of dims 0 and 1 that
 * is this number
 * 5. a .latent of ComfyUI is [T,C,H,W], and so is one whose channels are both
 *    dims, for temporal 1 (images), which is a guess
 * 6. the shape: [T,C,H,W] if dim 1 is the number of channels of a known latent
 *    space of videos and dim 0 is not, otherwise [C,T,H,W]. This is a guess if
 *    there is more than one latent, and 4. has channels or not exactly that one
 *    dim is the number of channels of a known space
 *
 * Instead of a guess in 4-D it is vae.layout_guess of the metadata, if there is
 * one: the program that wrote the file guessed the layout of its own input.
 *
 * options may be NULL. The file then decides, and a batch of more than one clip
 * is an error. After an error all members of *out except struct_size are 0.
 *
 * A file may hold several sequences, which are decoded separately. It then has
 * the tensor "latent_sequences", U8 [n, 16]. Each row has two little-endian
 * 64-bit integers for one sequence: the index of its first latent, and the
 * number of frames to show. Call vae_stream_reset() before each sequence.
 *
 * Errors: VAE_ERR_ARGUMENT (a wrong struct_size, layout or batch_index);
 * VAE_ERR_NOT_FOUND with the names of the tensors in the file (and "looks like
 * model weights" or "looks like frames"); VAE_ERR_SIZE for a number of
 * dimensions other than 3 to 5, options->channels on another axis (the message
 * says how to permute them), a batch without batch_index, a dimension of 0,
 * height or width over 16384, channels over 1024, more than 2^24 latents;
 * VAE_ERR_FORMAT for an element type that is not a float, or a vae.layout,
 * normalization, framerate, width or height that cannot be read.
 */
VAE_API VaeStatus vae_latent_clip_find(const VaeTensorFile *file,
                                       const VaeLatentOptions *options,
                                       VaeLatentClip *out, VaeError *error);

/*
 * Writes latent k, 0 to clip->t - 1, to dst, packed as [C, h, w] elements of
 * clip->type: channels * height * width * vae_type_size(type) bytes. Needs
 * clip->data.
 */
VAE_API void vae_latent_clip_read(const VaeLatentClip *clip, int k, void *dst);

#ifdef __cplusplus
}
#endif
#endif
