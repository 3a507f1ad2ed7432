/*
 * Finds the weights in a model's folder, as diffusers writes them.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc.h"
#include "files.h"

#define WEIGHTS "diffusion_pytorch_model.safetensors"

VaeStatus
vae_folder_find(const char *folder, char **out, VaeError *error)
{
    static const char *const usual[] = {WEIGHTS, WEIGHTS ".index.json",
                                        "vae/" WEIGHTS,
                                        "vae/" WEIGHTS ".index.json"};
    const size_t size = strlen(folder) + sizeof "/vae/" WEIGHTS ".index.json";
    const char *slash =
        folder[0] != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    *out = vae_mem_alloc(size);
    if (*out == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(folder));
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        struct stat st;
        snprintf(*out, size, "%s%s%s", folder, slash, usual[i]);
        if (stat(*out, &st) == 0 && S_ISREG(st.st_mode))
            return VAE_OK;
    }
    vae_mem_free(*out);
    *out = NULL;
    return vae_fail_parts(error, VAE_ERR_NOT_FOUND,
                          (VaeErrorParts){NULL, "a directory",
                                          "a file, or the folder of a model"},
                          "%s: is a directory with neither " WEIGHTS
                          " nor its .index.json, nor with one of them in vae/; "
                          "expected a file, or the folder of a model",
                          vae_file_label(folder));
}
