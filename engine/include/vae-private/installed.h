/*
 * vae-private/installed.h: the installed models: in gst-vae/models of the
 * data folders of the user and the system, the file SPACE.safetensors, else
 * SPACE.pth, .pt, .ckpt or .bin, else the folder SPACE, else SPACE.gguf. A link
 * without a target and a .gguf count as models: opening them says what is
 * wrong. free() frees the strings.
 */
#ifndef VAE_PRIVATE_INSTALLED_H
#define VAE_PRIVATE_INSTALLED_H

#include "vae/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The folder of models in data folder i, that of the user first; NULL after the
 * last one. It need not exist. */
VAE_API char *vae_installed_folder(int i);
/* The path of the space's file in the first folder; it need not exist. */
VAE_API char *vae_installed_place(const char *space);
/* The path of the model that is installed for the space, that of the user
 * before those of the system; NULL if there is none. */
VAE_API char *vae_installed_find(const char *space);
/* Calls see() for each installed model, also of a space that is not known. Of
 * the models of a space, the one that vae_installed_find() returns comes first.
 */
VAE_API void vae_installed_list(void (*see)(void *user, const char *space,
                                            const char *path),
                                void *user);

#ifdef __cplusplus
}
#endif
#endif
