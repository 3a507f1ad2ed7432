/*
 * vae/model.h: weights of one VAE, recognised and checked.
 */
#ifndef VAE_MODEL_H
#define VAE_MODEL_H

#include "vae/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct VaeModel VaeModel;

/* What a direction takes and gives. Units are latents on the latent side and
 * frames on the video side. The first step of a sequence differs. */
typedef struct VaeSteps {
    int first_in, first_out;
    int step_in, step_out;
} VaeSteps;

typedef struct VaeModelInfo {
    const char *arch;   /* "wan2.1", "seedvr2" */
    const char *space;  /* latent space: "wan2.1", "gst-vae-demo" */
    const char *names;  /* naming of the tensors: "official", ... */
    const char *reason; /* what it was recognised by */
    const char *path;   /* the file */
    int latent_channels;
    int spatial;  /* video pixels per latent pixel, each way */
    int temporal; /* frames per latent after the first */
    bool has_decoder, has_encoder, has_posterior;
    VaeSteps decode, encode;
    const float *mean, *std; /* latent_channels each:
                                raw = normalized * std + mean */
    bool takes_normalized; /* the network itself (TAE); others take raw ones */
    float pixel_low, pixel_high; /* the network's range for black and white */
    int fps_n, fps_d;            /* video rate when nothing states one */
    VaeType weights_type;        /* of most tensors */
    size_t tensor_count;
    uint64_t weights_bytes;
    size_t decoder_tensors, encoder_tensors; /* they sum to tensor_count */
    uint64_t decoder_bytes, encoder_bytes;
    /*
     * Of a decoder that is not causal: its frames also depend on so many
     * latents after their own, and so come later. After n latents
     * vae_model_frames_of(n) - delay frames are out, or none if that is less
     * than 1; the end of the sequence gives the others (vae_stream_drain()).
     * Both are 0 where a step gives all its frames at once.
     */
    int look_ahead; /* latents */
    int delay;      /* frames */
} VaeModelInfo;

typedef struct VaeModelOptions {
    size_t struct_size;  /* VAE_INIT() */
    const char *variant; /* for files that shapes cannot tell apart; or NULL */
} VaeModelOptions;

/*
 * Opens weights, recognises the architecture from tensor names and shapes,
 * and matches every tensor by name and shape. No number is computed. path is
 * what vae_tensor_file_open() takes: a file, an index of shards or a model's
 * folder. config.json beside the weights states what their metadata does not,
 * such as latents_mean and latents_std.
 * options may be NULL. The result starts with one reference.
 *
 * Errors: those of vae_tensor_file_open(); VAE_ERR_MODEL with the names of
 * missing, extra and wrong-shaped tensors (the first few of each and their
 * count), or with the nearest known model.
 */
VAE_API VaeStatus vae_model_open(const char *path,
                                 const VaeModelOptions *options, VaeModel **out,
                                 VaeError *error);

VAE_API VaeModel *vae_model_ref(VaeModel *model);
/* Drops one reference; the last one frees. Thread-safe. Clears *model. */
VAE_API void vae_model_free(VaeModel **model);

/* Owned by the model. */
VAE_API const VaeModelInfo *vae_model_info(const VaeModel *model);

/* Latents that n frames become, so that decoding gives at least n again, and
 * frames that n latents give; n >= 1, from the start of a sequence. */
VAE_API int64_t vae_model_latents_of(const VaeModel *model, int64_t frames);
VAE_API int64_t vae_model_frames_of(const VaeModel *model, int64_t latents);

/*
 * How far back a direction looks, in steps: what step k gives depends on the
 * input of the steps k - *steps to k and on none before (where there are as
 * many; the first of a sequence counts as one). So a stream that goes on from
 * vae_stream_restart() with step k - *steps gives from step k on the very bytes
 * of one that ran from the start. After vae_stream_reset(), whose first step
 * differs from later ones, it takes one step more.
 * Errors: VAE_ERR_MODEL (no such direction), VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_model_history(const VaeModel *model,
                                    VaeDirection direction, int *steps,
                                    VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
