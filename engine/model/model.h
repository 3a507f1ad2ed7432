/*
 * model.h: a model's internals, for the engine only.
 */
#ifndef VAE_MODEL_INTERNAL_H
#define VAE_MODEL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "arch.h"
#include "build.h"
#include "weight_cache.h"
#include "vae/stream.h"

/* One tensor that the network requires, under its canonical name. */
typedef struct VaeRequiredTensor {
    char *name;
    int n_dims;
    int64_t dims[VAE_MAX_DIMS];
    VaeTensorInfo found; /* data and type; name is the canonical one */
} VaeRequiredTensor;

struct VaeModel {
    atomic_int refs;
    VaeModelInfo info;
    float mean[VAE_MAX_LATENT_CHANNELS], std[VAE_MAX_LATENT_CHANNELS];
    const VaeArch *arch;
    void *arch_data;
    char *path, *variant; /* as the caller gave them; variant may be NULL */
    char reason[VAE_REASON + 200]; /* info.reason, if it is no constant */
    bool assumed;        /* one of several variants, without a statement */
    VaeFitting fitting;  /* the variants that its tensors fit */
    bool several;        /* other networks of the file fit as well */
    int naming;          /* index of the architecture's naming; 0: official */
    const char *no_fp16; /* why it refuses fp16, or NULL */
    const char *doubt;   /* as VaeRecognise has it */
    /* info.delay is that of the windows, line_delay that of the delay lines of
     * one. */
    VaeWindows windows;
    int line_delay;
    bool noisy; /* its decoder begins from noise */
    int least;  /* a shorter sequence gets copies of its last latent */
    VaeTensorFile *file;
    void *config;      /* json_t of config.json beside the file, or NULL */
    void *own_config;  /* json_t of "config" in __metadata__; NULL: the file has
                          none, or text that is no JSON */
    float **generated; /* one block per required tensor, or NULL */
    bool outline;      /* no tensor has data */
    void (*release)(void *user); /* of a VaeTensorList, or NULL */
    void *release_user;

    VaeRequiredTensor *required; /* the decoder's, then the encoder's */
    size_t n_required, n_decoder, required_room;
    size_t *by_name; /* indices into required, sorted by name */

    VaeWeightCache weights;
    pthread_mutex_t lock; /* guards fingerprint */
    char fingerprint[65]; /* empty until first requested */
};

/* A model of no architecture; NULL: out of memory. Its path is NULL if there is
 * no memory for that. */
VaeModel *vae_model_new(const char *path);
/* Prepares recognise() or preset() of an architecture; false: out of memory. */
bool vae_model_set_arch(VaeModel *m, const VaeArch *arch, bool decoder,
                        bool encoder);
VaeRecognise vae_recognise_params(VaeModel *m);
/* Writes the numbers of arch->stated to arch_data, the usual ones for a model
 * without a file. Fails for one that is out of its range, and takes the usual
 * one. */
void vae_model_read_stated(VaeModel *model, VaeError *error);
/* Fails for a value of the configuration that arch->fixed does not have. */
VaeStatus vae_model_check_fixed(const VaeModel *model, VaeError *error);
/* Makes the released configuration: required tensors without weights. */
VaeStatus vae_model_preset(const VaeArch *arch, bool decoder, bool encoder,
                           VaeModel **out, VaeError *error);
/* The same with generated weights, as vae_model_generate(). */
VaeStatus vae_model_generate_arch(const VaeArch *arch, VaeModel **out,
                                  VaeError *error);
/* The file's name for a canonical one, in a buffer of 256 bytes; false if the
 * model's naming has none. */
bool vae_model_rename(const VaeModel *model, const char *name, char *buffer);
/* Counts the found tensors in info: numbers, bytes and type. */
void vae_model_summarise(VaeModel *model);
/* Fails; the message names the nearest known model and the differences. */
VaeStatus vae_model_unknown(const VaeModel *model, VaeError *error);

/* Index of a required tensor, or -1. likely: the index to try first. */
long vae_model_find_required(const VaeModel *model, const char *name,
                             long likely);
/* The same, but adds a new name to the list; -1: out of memory. */
long vae_model_require(VaeModel *model, const VaeTensorQuery *query);
/* Finds the network that the tensors of model->file are of, under which prefix,
 * and makes model->file these tensors. Of several, the variant selects one. */
VaeStatus vae_model_recognise(VaeModel *model, VaeError *error);
/* Lists the required tensors by a dry run of the forward passes. */
VaeStatus vae_model_dry_run(VaeModel *model, VaeError *error);
/* Finds each required tensor in the file. An error lists tensors that are
 * missing, have another shape, or are not part of the network. */
VaeStatus vae_model_match(VaeModel *model, VaeError *error);
/* The same for those that are missing of the ones listed so far. */
VaeStatus vae_model_find_missing(VaeModel *model, VaeError *error);

/* Sets the statistics of the latents from their tensors, if there are some. */
VaeStatus vae_model_read_statistics(VaeModel *model, VaeError *error);

/* Builds a program of one direction; fills in params->network. Errors:
 * VAE_ERR_MODEL, VAE_ERR_MEMORY. */
VaeStatus vae_model_build(const VaeModel *model, const VaeBuildParams *params,
                          VaeProgram **out, VaeError *error);

#endif
