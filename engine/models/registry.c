/*
 * registry.c: the architectures that this library knows, in the order in which
 * they are tried. A new one needs two lines here and its file in
 * engine/meson.build.
 */
#include <pthread.h>

#include "arch.h"

extern const VaeArch vae_arch_magi2_turbo, vae_arch_wan21, vae_arch_wan22,
    vae_arch_qwenimage21, vae_arch_seedvr2, vae_arch_ltx2_0, vae_arch_ltx2_3,
    vae_arch_taew2_1, vae_arch_taew2_2, vae_arch_taew2_2_super, vae_arch_taehv,
    vae_arch_taehv1_5, vae_arch_taehv1_5_super, vae_arch_taecvx,
    vae_arch_taeos1_3, vae_arch_taeh3, vae_arch_taeltx_2, vae_arch_taeltx2_3,
    vae_arch_taeltx2_3_wide, vae_arch_lighttaew2_1, vae_arch_lighttaew2_2,
    vae_arch_taesd, vae_arch_taesdxl, vae_arch_taesd3, vae_arch_taef1,
    vae_arch_taef2, vae_arch_taesana, vae_arch_sd, vae_arch_sdxl, vae_arch_sd3,
    vae_arch_flux1, vae_arch_flux2, vae_arch_hunyuan10, vae_arch_hunyuan15,
    vae_arch_ltx2_5_diff;

const VaeArch *const vae_archs[] = {
    &vae_arch_sd,           &vae_arch_sdxl,         &vae_arch_sd3,
    &vae_arch_flux1,        &vae_arch_flux2,        &vae_arch_hunyuan10,
    &vae_arch_hunyuan15,    &vae_arch_wan21,        &vae_arch_wan22,
    &vae_arch_qwenimage21,  &vae_arch_seedvr2,      &vae_arch_magi2_turbo,
    &vae_arch_ltx2_5_diff,  &vae_arch_ltx2_0,       &vae_arch_ltx2_3,
    &vae_arch_taesd,        &vae_arch_taesdxl,      &vae_arch_taesd3,
    &vae_arch_taef1,        &vae_arch_taef2,        &vae_arch_taesana,
    &vae_arch_taew2_1,      &vae_arch_taew2_2,      &vae_arch_taew2_2_super,
    &vae_arch_taehv,        &vae_arch_taehv1_5,     &vae_arch_taehv1_5_super,
    &vae_arch_taecvx,       &vae_arch_taeos1_3,     &vae_arch_taeh3,
    &vae_arch_taeltx_2,     &vae_arch_taeltx2_3,    &vae_arch_taeltx2_3_wide,
    &vae_arch_lighttaew2_1, &vae_arch_lighttaew2_2, NULL};

static const char *names[sizeof vae_archs / sizeof *vae_archs];

static void
set_names(void)
{
    for (int i = 0; vae_archs[i]; i++)
        names[i] = vae_archs[i]->name;
}

const char *const *
vae_model_archs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_names);
    return names;
}
