/*
 * cudnn_conv.h: declarations that cudnn.c, choices.c, engines.c and graph.c
 * share. Only they include cudnn.h.
 */
#ifndef VAE_CUDA_CONV_CUDNN_H
#define VAE_CUDA_CONV_CUDNN_H

#include <cudnn.h>
#include <pthread.h>

#include "library.h"
#include "plans.h"

typedef cudnnBackendDescriptor_t Desc;

enum { UID_X = 1, UID_WEIGHT, UID_Y, UID_ADD, UID_BIAS, UID_VIRTUAL };

struct VaeCudaLibrary {
    cudnnHandle_t handle; /* NULL without a device */
    Desc device;          /* NULL with a device */
    char name[32];
    char *properties;
    /* Held while the handle or the list of plans is used. */
    pthread_mutex_t lock;
    void *stream; /* stream of the handle; NULL: none that we set */
    VaeCudaPlan *plans;
    int plans_made;
};

#define VAE_CUDNN_MAX_DESCS 120

/* Descriptors that are freed together. After a call has failed, later calls do
 * nothing. */
typedef struct VaeCudnnBag {
    Desc desc[VAE_CUDNN_MAX_DESCS];
    int n;
    cudnnStatus_t status; /* of the first call that failed */
    const char *doing;
} VaeCudnnBag;

Desc vae_cudnn_bag_new(VaeCudnnBag *b, cudnnBackendDescriptorType_t type);
void vae_cudnn_bag_free(VaeCudnnBag *b);
void vae_cudnn_bag_set(VaeCudnnBag *b, Desc d, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, int64_t n,
                       const void *values);
void vae_cudnn_bag_set_ints(VaeCudnnBag *b, Desc d,
                            cudnnBackendAttributeName_t name, int64_t n,
                            const int64_t *values);
void vae_cudnn_bag_set_desc(VaeCudnnBag *b, Desc d,
                            cudnnBackendAttributeName_t name, Desc value);
/* doing: what failed, for the message "cuDNN cannot ..."; may be NULL. */
void vae_cudnn_bag_finalize(VaeCudnnBag *b, Desc d, const char *doing);
VaeStatus vae_cudnn_bag_status(const VaeCudnnBag *b, VaeError *error);
VaeStatus vae_cudnn_fail(cudnnStatus_t status, const char *doing,
                         VaeError *error);

/* The graph of a convolution, finalized; NULL on failure. All its descriptors
 * go into b. */
Desc vae_cudnn_add_graph(VaeCudnnBag *b, const VaeCudaLibrary *c,
                         const VaeCudaConvShape *s);

/* Reads the choice of a configuration. False: this failed. */
bool vae_cudnn_read_choice(Desc config, Desc engine, VaeCudaChoice *out);
/* Makes the plan of a choice, with its engine and configuration, in b. */
Desc vae_cudnn_add_plan(VaeCudnnBag *b, const VaeCudaLibrary *c, Desc graph,
                        const char *text, Desc *engine);
/* True if the engine is compiled at run time. */
bool vae_cudnn_is_compiled(Desc engine);
bool vae_cudnn_has_note(Desc engine, cudnnBackendNumericalNote_t note);
/* True if the engine computes with the precision that the shape asks for, and
 * always in the same order. */
bool vae_cudnn_is_exact(Desc engine, const VaeCudaConvShape *s);
/*
 * True if a setting may split a sum over several thread blocks. The number of
 * blocks could then depend on the size of the convolution, and so on t.
 * Hopper's engines split sums unless a knob forbids them workspace. Blackwell's
 * engines always have a number of slices; one slice is the whole sum.
 */
bool vae_cudnn_splits_sums(const VaeCudaChoice *choice);

#endif
