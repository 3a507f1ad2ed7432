/*
 * plans.h: plans of convolutions that all users of a VaeCudaConvs share. The
 * plan of a library begins with a VaeCudaPlan.
 */
#ifndef VAE_CUDA_PLANS_H
#define VAE_CUDA_PLANS_H

#include "convs.h"

typedef struct VaeCudaPlan {
    struct VaeCudaPlan *next;
    VaeCudaConvShape shape;
    VaeCudaChoice choice;
    int users;
} VaeCudaPlan;

/* The plan of that shape and choice, with one more user, or NULL. */
VaeCudaPlan *vae_cuda_plan_find(VaeCudaPlan *list,
                                const VaeCudaConvShape *shape,
                                const VaeCudaChoice *choice);
/* Adds a new plan with one user. */
void vae_cuda_plan_add(VaeCudaPlan **list, VaeCudaPlan *plan,
                       const VaeCudaConvShape *shape,
                       const VaeCudaChoice *choice);
/* One user less. True: it was the last one, the plan is out of the list, and
 * the caller frees it. */
bool vae_cuda_plan_drop(VaeCudaPlan **list, VaeCudaPlan *plan);

#endif
