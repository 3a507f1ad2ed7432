/*
 * registry.c: the architectures that this library knows, in the order in which
 * they are tried. A new one needs an entry of NETWORKS and its file in
 * engine/meson.build.
 */
#include <pthread.h>

#include "arch.h"

#define NETWORKS(X)                                                            \
    X(sd), X(sdxl), X(sd3), X(flux1), X(flux2), X(hunyuan10), X(hunyuan15),    \
        X(wan21), X(wan22), X(qwenimage21), X(seedvr2), X(magi2_turbo),        \
        X(ltx2_5_diff), X(ltx2_0), X(ltx2_3), X(taesd), X(taesdxl), X(taesd3), \
        X(taef1), X(taef2), X(taesana), X(taew2_1), X(taew2_2),                \
        X(taew2_2_super), X(taehv), X(taehv1_5), X(taehv1_5_super), X(taecvx), \
        X(taeos1_3), X(taeh3), X(taeltx_2), X(taeltx2_3), X(taeltx2_3_wide),   \
        X(lighttaew2_1), X(lighttaew2_2)

#define NAME(network) vae_arch_##network
#define ADDRESS(network) &vae_arch_##network
extern const VaeArch NETWORKS(NAME);
const VaeArch *const vae_archs[] = {NETWORKS(ADDRESS), NULL};

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
