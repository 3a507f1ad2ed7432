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

/* Finds the plan of that shape and choice, and adds a user. NULL: there is
 * none. */
VaeCudaPlan *vae_cuda_plan_find(VaeCudaPlan *list,
                                const VaeCudaConvShape *shape,
                                const VaeCudaChoice *choice);
/* Adds a new plan with one user. */
void vae_cuda_plan_add(VaeCudaPlan **list, VaeCudaPlan *plan,
                       const VaeCudaConvShape *shape,
                       const VaeCudaChoice *choice);
/* Removes a user. True: it was the last one; the plan is removed from the list,
 * and the caller frees it. */
bool vae_cuda_plan_drop(VaeCudaPlan **list, VaeCudaPlan *plan);

#endif
