/*
 * arch.h: the interface of an architecture: it recognises its files and has the
 * forward passes. Each network in engine/models implements it.
 */
#ifndef VAE_ARCH_H
#define VAE_ARCH_H

#include "builder.h"

typedef struct VaeArch VaeArch;

#define VAE_REASON 512

/* A decoder of this many latents at once, as if they and a latent on either
 * side were a clip. The first window may have another size. size 0: all latents
 * are one clip. */
typedef struct VaeWindows {
    int size, first;
} VaeWindows;

/* One of several networks whose tensors have the same names and shapes. */
typedef struct VaeVariant {
    const char *name, *space;
    const char *also; /* another name, also of its files, or NULL */
    bool family;      /* its name is also that of all variants */
} VaeVariant;

/* The networks that the tensors of a file fit. */
enum { VAE_MOST_FITTING = 12 };
typedef struct VaeFitting {
    VaeVariant list[VAE_MOST_FITTING];
    int n;
} VaeFitting;

/* Input and results of recognise() and preset(). */
typedef struct VaeRecognise {
    const VaeModel *model; /* for vae_model_find() and so on */
    const VaeArch *arch;
    int *naming; /* the naming that vae_model_find() uses from now on */
    VaeModelInfo *info;
    float *mean, *std;    /* of the latents, per channel */
    void *data;           /* the architecture's own description, zeroed */
    char *reason;         /* room for a text of info, VAE_REASON bytes */
    bool *assumed;        /* a variant was assumed */
    VaeFitting *fitting;  /* by vae_model_choose_variant() */
    const char **doubt;   /* what is not known of the normalization that the
                             network takes; NULL: nothing. A stream tells it
                             with the doubts about its input */
    const char **no_fp16; /* why the network refuses fp16; NULL: it does not */
    VaeWindows *windows;
    int *least; /* see VaeModel; 0: there is none */
} VaeRecognise;

/* The weight of a tile in its overlap with the tile before it, as the network's
 * own pipeline has it: i / n in pixel i of n, or (1 - cos(pi t)) / 2 with t
 * from 0 to 1. */
typedef enum VaeRamp { VAE_RAMP_LINEAR, VAE_RAMP_COSINE } VaeRamp;

/* A number that shapes do not show. A file may state it, in __metadata__ or
 * config.json. */
typedef struct VaeStated {
    const char *key;
    double usual, least, most; /* least = most: refuses other numbers */
    size_t at; /* where data has the number, an int or, if `real`, a
                  double; unused if least = most */
    bool real;
    const char *label; /* in the fingerprint; NULL: it has the number already,
                          or no result depends on it */
} VaeStated;

/* A field of diffusers' configuration that changes the network where shapes do
 * not show it, and the only value that the network here has. */
typedef struct VaeFixed {
    const char *key, *value; /* value: "silu", "true", "null", "2", "[2, 2]" */
} VaeFixed;

struct VaeArch {
    const char *name;
    size_t data_size;
    int other_names; /* number of namings beside the official one */
    /* Canonical names of the tensors with the mean and the deviation of each
     * latent channel; NULL: the weights have none. */
    const char *mean, *std;
    float std_eps; /* > 0: std has variances; the deviation is the root of a
                      variance and this */

    /* Writes the file's name for a canonical name to buffer, of 256 bytes.
     * Returns false if that naming has none. naming: 1 to other_names; in
     * naming 0 the file has the canonical names. NULL: there is no other. */
    bool (*rename)(int naming, const char *name, char *buffer);
    /* True for a tensor of the file that this network does not need, by its
     * name there without a prefix. NULL: it needs all. */
    bool (*ignores)(const VaeModelInfo *info, const char *name);
    /* The network to encode with, of one that only decodes here; or NULL. */
    const char *encode_by;
    /* Ends with a row without a key; NULL: none. data has the numbers before
     * recognise(), and the usual ones after preset(). */
    const VaeStated *stated;
    /* Ends with a row without a key; NULL: none. A configuration that states
     * another value is refused. */
    const VaeFixed *fixed;
    /* True if the file has this architecture's names; fills info and data.
     * info has the name of the architecture, "official" names, the prefixes of
     * the file as has_decoder and has_encoder, means of 0, deviations and a
     * scale of 1, pictures of 3 channels; the rest is zero. */
    bool (*recognise)(VaeRecognise *r, VaeError *error);
    /* Writes what decides the results beside the tensors and `stated`, for the
     * fingerprint. NULL: nothing does. */
    void (*settings)(const void *data, char *out, size_t size);
    /* Fills in the released, full-size configuration. */
    void (*preset)(VaeRecognise *r);
    VaeRamp ramp; /* of inexact tiles */
    int patch;    /* pixels of a side that have one weight there; 0: one */
    /* The forward passes; NULL where the network has none. */
    void (*decode)(VaeBuilder *b);
    void (*encode)(VaeBuilder *b);
};

extern const VaeArch *const vae_archs[]; /* NULL-terminated */

/* ------------------------------------------------------------------ */
/* For recognise(): properties of a file.                              */

/* Finds a tensor of the file by canonical name; NULL if there is none. */
const VaeTensorInfo *vae_model_find(const VaeModel *model, const char *name);
/* dims[dim] of the tensor of that name; 0 if there is none. */
int vae_model_dim(const VaeModel *model, int dim, const char *format, ...)
    VAE_PRINTF(3, 4);
/* Fails, and returns false, if the file does not have the tensor of that name.
 */
bool vae_model_needs(const VaeModel *model, const char *name, VaeError *error);
/* The one of two widths that more tensors of the file have, so that one tensor
 * of the wrong length does not make its neighbours look wrong; 0: unknown. */
int vae_model_likelier(const VaeModel *model, int a, int b);
/* Output channels of a conv, from name.bias and name.weight; 0 if there is
 * neither. */
int vae_model_width(const VaeModel *model, const char *format, ...)
    VAE_PRINTF(2, 3);
/* True if the file has a tensor whose name begins with prefix. */
bool vae_model_has_prefix(const VaeModel *model, const char *prefix);
/* The same with a canonical prefix, which must end with a dot. */
bool vae_model_has_block(const VaeModel *model, const char *format, ...)
    VAE_PRINTF(2, 3);
/* Reads a number, or true as 1 and false as 0, from __metadata__, or as
 * vae_model_config() finds it. Returns false if neither states it. *out is NaN
 * if the value is not a number. */
bool vae_model_meta_number(const VaeModel *model, const char *key, double *out);
/* The JSON under "config" in __metadata__, else config.json, else NULL; give it
 * to json_decref(). False on an error: text that is no JSON. */
struct json_t;
bool vae_model_config(const VaeModel *model, struct json_t **out,
                      VaeError *error);
/* Reads per-channel statistics stated as vae.latents_mean or latents_mean, and
 * _std. False on an error, such as a wrong count. */
bool vae_model_meta_statistics(const VaeModel *model, int channels, float *mean,
                               float *std, VaeError *error);

/* The variant that the caller gave, else the one in the metadata (vae.variant
 * or variant), else NULL. */
const char *vae_model_variant(const VaeModel *model);

/*
 * Chooses one of n: the variant stated; else that whose name is part of the
 * name of the file (if it is that of the family, a latent space in the name
 * says more); else the first of those whose latent space the file is named
 * after; else the first. Writes r->info->reason. Returns its index; -1 on an
 * error: n is 0, or the variant stated is another. what: these networks, for
 * the message.
 */
int vae_model_choose_variant(VaeRecognise *r, const VaeVariant *v, int n,
                             const char *what, VaeError *error);

/* Collects names for one message; counts all, writes out the first `most`. */
#define VAE_LISTED 6
typedef struct VaeListing {
    int count, most; /* most 0: VAE_LISTED */
    char text[400];
} VaeListing;
void vae_listing_add(VaeListing *list, const char *format, ...)
    VAE_PRINTF(2, 3);

/* describe.c: parts of VaeModelInfo that several networks fill in the same way.
 */

/*
 * Fills info for a causal video VAE: the first latent is one frame, each later
 * one `temporal` frames; a latent pixel is spatial x spatial pixels of -1..1;
 * the network takes raw latents of z channels. space: a name of the table,
 * whose mean, std and frame rate are filled, too.
 */
void vae_describe_causal(VaeRecognise *r, const char *space, int z, int spatial,
                         int temporal);

/* Takes the factor and the shift of latents that a file states, in place of
 * those of the space. factor 0: it states none. */
void vae_describe_factor(VaeRecognise *r, double factor, double shift);

/* The channels of latents: the inputs of conv_in, the decoder's first layer;
 * else half the outputs of conv_out, the encoder's last, or NULL. Fails, and
 * returns 0, if these are not 1 to VAE_MAX_LATENT_CHANNELS. */
int vae_read_latent_channels(const VaeModel *m, const char *conv_in,
                             const char *conv_out, VaeError *error);

/* The side of the square patches of three colours that fold into so many
 * channels, up to 8; 0: there is none. */
int vae_patch_side(int channels);

#endif
