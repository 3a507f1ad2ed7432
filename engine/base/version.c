/*
 * version.c: see vae/version.h.
 */
#include "vae/version.h"

_Static_assert(VAE_VERSION_MAJOR * 10000 + VAE_VERSION_MINOR * 100 +
                       VAE_VERSION_MICRO ==
                   VAE_PROJECT_VERSION,
               "vae/version.h and meson.build state different versions");

const char *
vae_version(void)
{
    return VAE_VERSION_STRING;
}
