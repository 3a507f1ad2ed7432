/*
 * models.c: the architectures this library knows, in the order they are
 * tried on a file.
 */
#include "model_internal.h"

const VaeArch *const vae_archs[] = {&vae_arch_wan21, &vae_arch_seedvr2, NULL};

const char *const *
vae_model_archs(void)
{
    static const char *const names[] = {"wan2.1", "seedvr2", NULL};
    return names;
}
