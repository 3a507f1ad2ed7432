/*
 * vae/model.h: a VAE, opened from its weights.
 */
#ifndef VAE_MODEL_H
#define VAE_MODEL_H

#include "vae/tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct VaeModel VaeModel;

/*
 * A step is the smallest computation of a model, such as from one latent to
 * four frames. The members are the numbers of units that a step takes (in) and
 * gives (out): latents on one side, frames on the other. The first step of a
 * sequence differs from later ones.
 */
typedef struct VaeSteps {
    int first_in, first_out;
    int step_in, step_out;
} VaeSteps;

typedef struct VaeModelInfo {
    const char *arch;   /* "wan2.1", "seedvr2" */
    const char *space;  /* the latent space: "wan2.1", "gst-vae-demo". Its
                           models decode the same latents */
    const char *names;  /* naming of the tensors: "official", ... */
    const char *reason; /* for a log: how the library recognised the model */
    const char *path;   /* the file of weights */
    int latent_channels;
    int spatial;  /* video pixels per latent pixel, each way */
    int temporal; /* frames of each latent except the first */
    bool has_decoder, has_encoder, has_posterior;
    VaeSteps decode, encode;
    const float *mean, *std;     /* latent_channels each:
                                    raw = normalized * std + mean */
    bool takes_normalized;       /* true: the network takes and gives normalized
                                    latents (TAEHV family). false: raw ones */
    float pixel_low, pixel_high; /* the network's values of black and white */
    int fps_n, fps_d;            /* frame rate if the latents state none */
    VaeType weights_type;        /* the type of most tensors */
    size_t tensor_count;
    uint64_t weights_bytes;
    size_t decoder_tensors, encoder_tensors; /* they sum to tensor_count */
    uint64_t decoder_bytes, encoder_bytes;
    /*
     * These two are 0 except for a decoder that also reads later latents (it is
     * not causal). A frame depends on look_ahead later latents, so the stream
     * gives it `delay` frames later than a causal decoder would. After n
     * latents the stream has given vae_model_frames_of(n) - delay frames, or
     * none if that is at most `held`. vae_stream_drain() gives the rest.
     */
    int look_ahead; /* latents */
    int delay;      /* frames */
    /*
     * Only with a delay: the first `held` frames of a sequence come together
     * with the frame after them, as they depend on as many later frames.
     */
    int held;
    /*
     * The number of latents in a chunk: 5 for taeh3, which divides a sequence
     * into chunks, and 0 for all other models. The first latent of each chunk
     * is one frame, like the first latent of a sequence. An encoder forgets all
     * earlier frames there.
     */
    int chunk;
    /*
     * The size of the frames, each way, divided by the size of those that an
     * encoder makes such latents of: 1, or 2 for a decoder of Wan2.1's latents
     * that doubles the size. A width and a height that a file of latents or
     * its caps state are those before scaling.
     */
    int scale;
    /* The channels of the frames that an encoder takes and a decoder gives: 3,
     * or 4 with alpha. Alpha has the range of the colours. */
    int in_channels, out_channels;
    /* True: the network is exact only in tiles of latents, each of which it
     * computes as a clip of its own, see VaeStreamParams.tile_plan. look_ahead
     * and delay are those of VAE_TILE_PLAN_DIFFUSERS. */
    bool in_tiles;
} VaeModelInfo;

typedef struct VaeModelOptions {
    size_t struct_size;  /* VAE_INIT() */
    const char *variant; /* name of the network, for weights whose shapes fit
                            several networks; the name or the prefix, such as
                            "vae.", if a file holds several; or NULL */
} VaeModelOptions;

/*
 * Opens weights. Recognises the network by the names and shapes of its tensors,
 * and checks each of them. If several tiny networks have these shapes, the
 * metadata or the name of the file selects one of them. Computes nothing.
 *
 * path     as for vae_tensor_file_open(): a file, an index of shards or a
 *          folder of a model. A config.json beside the weights adds what their
 *          metadata lack, such as latents_mean and latents_std
 * options  or NULL
 * out      receives the model with one reference, or NULL after an error
 *
 * Do not change the files while the model exists: streams read them later.
 *
 * Errors: those of vae_tensor_file_open(); VAE_ERR_ARGUMENT (a wrong
 * struct_size); VAE_ERR_MODEL. The last one names the number and the first
 * names of missing, extra and wrong-shaped tensors, or the nearest known model.
 * It is also the error if the weights cannot be those of options->variant.
 */
VAE_API VaeStatus vae_model_open(const char *path,
                                 const VaeModelOptions *options, VaeModel **out,
                                 VaeError *error);

/*
 * Weights in the memory of the caller, such as those that a training program
 * holds.
 *
 * name      for messages; NULL selects "tensors". As the name of a file does,
 *           it selects one of several tiny networks
 * tensor    describes tensor i, from 0 on, in *out: name, type, n_dims, dims
 *           and data, which is packed, aligned to its type and in host memory.
 *           For a type that VaeType lacks it sets supported to false and
 *           type_name to the name of the type. Returns false if there are not
 *           so many. At first supported is true, and all other members are 0.
 *           vae_model_open_tensors() calls it twice for each i, in order. The
 *           name may be freed at the next call
 * release   or NULL; called once when the model is freed, on the thread that
 *           frees it. Until then the data must stay valid and unchanged,
 *           because streams read them later. After an error the library does
 *           not call it
 * user      passed to tensor and release
 * metadata  n_metadata entries as in the __metadata__ of a file, such as
 *           vae.variant. The call copies them
 * config    the text of a config.json in UTF-8, or NULL. The call copies it
 */
typedef struct VaeTensorList {
    size_t struct_size; /* VAE_INIT() */
    const char *name;
    bool (*tensor)(void *user, size_t i, VaeTensorInfo *out);
    void (*release)(void *user);
    void *user;
    const VaeMetadata *metadata;
    size_t n_metadata;
    const char *config;
} VaeTensorList;

/*
 * Opens weights in memory, without a copy of them. Otherwise like
 * vae_model_open(). VaeModelInfo.path is the name of the source.
 *
 * Errors: VAE_ERR_ARGUMENT (a wrong struct_size; a tensor without a name or
 * data, or with more than 8 dimensions), VAE_ERR_FORMAT (a name that appears
 * twice, a negative dimension, a config that is no JSON), VAE_ERR_MODEL,
 * VAE_ERR_MEMORY.
 */
VAE_API VaeStatus vae_model_open_tensors(const VaeTensorList *source,
                                         const VaeModelOptions *options,
                                         VaeModel **out, VaeError *error);

/* Drops the caller's reference. Each stream holds one, too; the last one frees
 * the model. Thread-safe. Sets *model to NULL. *model may be NULL. */
VAE_API void vae_model_free(VaeModel **model);

/* Returns the description of the model, which the model owns. */
VAE_API const VaeModelInfo *vae_model_info(const VaeModel *model);

/* Returns the smallest number of latents that decode to at least `frames`
 * frames (at most 2^56), counted from the start of a sequence; 0 for 0 frames
 * or fewer. */
VAE_API int64_t vae_model_latents_of(const VaeModel *model, int64_t frames);
/* Returns the number of frames that `latents` latents (at most 2^56) decode to,
 * counted from the start of a sequence. */
VAE_API int64_t vae_model_frames_of(const VaeModel *model, int64_t latents);

/*
 * Writes to *steps how many steps the network looks back: the output of step k
 * depends only on the input of steps k - *steps to k. The first step of a
 * sequence counts as one step. For a decoder with look_ahead, the frames of
 * latent k depend on the latents k - *steps to k + look_ahead.
 *
 * So a stream that begins with vae_stream_restart() at step k - *steps gives
 * the same bytes from step k on as one that ran from the start. After
 * vae_stream_reset() begin one step earlier, because the first step differs.
 *
 * A network with a history looks back to the start of the sequence. *steps is
 * then VAE_FROM_START, which is more than any sequence has.
 *
 * Errors: VAE_ERR_ARGUMENT, VAE_ERR_MODEL (the file has no weights for this
 * direction), VAE_ERR_MEMORY.
 */
#define VAE_FROM_START (1 << 24)
VAE_API VaeStatus vae_model_history(const VaeModel *model,
                                    VaeDirection direction, int *steps,
                                    VaeError *error);

#ifdef __cplusplus
}
#endif
#endif
