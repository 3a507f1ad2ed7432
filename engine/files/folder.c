/*
 * Finds the weights in a model's folder, as diffusers writes them.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "alloc.h"
#include "files.h"

#define WEIGHTS "diffusion_pytorch_model"
/* The longest name below. */
#define LONGEST "/vae/" WEIGHTS ".safetensors.index.fp16.json"

VaeStatus
vae_folder_find(const char *folder, char **out, VaeError *error)
{
    static const char *const folders[] = {"", "vae/"};
    static const char *const ends[] = {
        ".safetensors",      ".safetensors.index.json",
        ".fp16.safetensors", ".safetensors.index.fp16.json",
        ".bf16.safetensors", ".safetensors.index.bf16.json"};
    const size_t n_ends = sizeof ends / sizeof ends[0];
    const size_t size = 2 * (strlen(folder) + 258) + sizeof LONGEST;
    const char *slash =
        folder[0] != '\0' && folder[strlen(folder) - 1] == '/' ? "" : "/";
    *out = vae_mem_alloc(size);
    if (*out == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(folder));
    for (size_t i = 0; i < 2 * n_ends; i++) {
        struct stat st;
        snprintf(*out, size, "%s%s%s" WEIGHTS "%s", folder, slash,
                 folders[i / n_ends], ends[i % n_ends]);
        if (stat(*out, &st) == 0 && S_ISREG(st.st_mode))
            return VAE_OK;
    }
    const int pairs = vae_pair_in_folder(folder, *out, size);
    if (pairs == 1)
        return VAE_OK;
    vae_mem_free(*out);
    *out = NULL;
    if (pairs > 1) {
        char found[48];
        snprintf(found, sizeof found, "%d pairs of files", pairs);
        return vae_fail_parts(
            error, VAE_ERR_NOT_FOUND,
            (VaeErrorParts){NULL, found, "one pair, or ENCODER,DECODER"},
            "%s: holds %d pairs of an encoder and a decoder; expected one, or "
            "the two files, joined by a comma",
            vae_file_label(folder), pairs);
    }
    return vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){NULL, "a directory",
                        "a file, or the folder of a model"},
        "%s: is a directory with neither " WEIGHTS
        ".safetensors nor its .index.json, nor their fp16 "
        "or bf16 variants, nor with one of them in vae/, nor with a pair "
        "of an encoder and a decoder; "
        "expected a file, or the folder of a model",
        vae_file_label(folder));
}
