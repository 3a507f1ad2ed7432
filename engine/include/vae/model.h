/*
 * vae/model.h: weights of one VAE, recognised and checked.
 */
#ifndef VAE_MODEL_H
#define VAE_MODEL_H

#include "vae/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VAE_MAX_LATENT_CHANNELS 256

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
    float mean[VAE_MAX_LATENT_CHANNELS]; /* raw = normalized * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS];
    bool takes_normalized; /* the network itself (TAE); others take raw ones */
    float pixel_low, pixel_high; /* the network's range for black and white */
    int fps_n, fps_d;            /* video rate when nothing states one */
    VaeType weights_type;        /* of most tensors */
    size_t tensor_count;
    uint64_t weights_bytes;
    size_t decoder_tensors, encoder_tensors; /* they sum to tensor_count */
    uint64_t decoder_bytes, encoder_bytes;
} VaeModelInfo;

typedef struct VaeModelOptions {
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

VAE_API VaeModel *vae_model_ref(VaeModel *model);
/* Drops one reference; the last one frees. Thread-safe. Clears *model. */
VAE_API void vae_model_free(VaeModel **model);

/* Owned by the model. */
VAE_API const VaeModelInfo *vae_model_info(const VaeModel *model);
/* Tensors of the file in canonical (official) order; i < tensor_count. */
VAE_API const VaeTensorInfo *vae_model_tensor(const VaeModel *model, size_t i);

/* SHA-256, as 64 hexadecimal digits and a NUL, over the tensors in canonical
 * order: of each "NAME TYPE DIMS BYTES\n" (float32 3x8x3x3x3 972) and its
 * numbers as stored. The same weights under another naming or in another
 * kind of file have the same. Reads all of them. Of an outline the lines. */
VAE_API void vae_model_fingerprint(const VaeModel *model, char out[65]);

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
