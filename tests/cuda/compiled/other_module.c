/*
 * other_module.c: a module for another version of the engine.
 */
#include "module.h"

VAE_API const VaeBackendClass *vae_module_open(const VaeEngineCalls *calls);

const VaeBackendClass *
vae_module_open(const VaeEngineCalls *calls)
{
    return NULL;
}
