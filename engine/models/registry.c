/*
 * registry.c: the architectures this library knows, in the order they are
 * tried on a file.
 */
#include "model.h"

const VaeArch *const vae_archs[] = {&vae_arch_wan21,
                                    &vae_arch_wan22,
                                    &vae_arch_seedvr2,
                                    &vae_arch_taew2_1,
                                    &vae_arch_taew2_2,
                                    &vae_arch_taew2_2_super,
                                    &vae_arch_taehv,
                                    &vae_arch_taehv1_5,
                                    &vae_arch_taehv1_5_super,
                                    &vae_arch_taeltx_2,
                                    NULL};

const char *const *
vae_model_archs(void)
{
    static const char *const names[] = {
        "wan2.1",         "wan2.2",        "seedvr2", "taew2_1",
        "taew2_2",        "taew2_2_super", "taehv",   "taehv1_5",
        "taehv1_5_super", "taeltx_2",      NULL};
    return names;
}
