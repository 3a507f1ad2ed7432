/*
 * vae/vae.h: includes all public headers of libvae.
 */
#ifndef VAE_VAE_H
#define VAE_VAE_H

#include "vae/checkpoint.h"
#include "vae/doubts.h"
#include "vae/frames.h"
#include "vae/latents.h"
#include "vae/model.h"
#include "vae/status.h"
#include "vae/stream.h"
#include "vae/tensors.h"
#include "vae/types.h"
#include "vae/version.h"

#endif
