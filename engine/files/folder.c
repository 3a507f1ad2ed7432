/*
 * Finds the weights in a model's folder, as diffusers writes them.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "vae-private/os.h"

#define WEIGHTS "diffusion_pytorch_model"
/* The longest name below. */
#define LONGEST "/vae/" WEIGHTS ".safetensors.index.fp16.json"

static VaeStatus
fail_link(const char *path, VaeError *error)
{
    char *target = vae_os_broken_link(path);
    const VaeStatus status = vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){NULL, "a link without a target", "a file"},
        "%s: is a symbolic link to %s, which does not exist; expected a file",
        vae_file_label(path), target ? target : "a file");
    free(target);
    return status;
}

/* True for a symbolic link whose target does not exist. */
static bool
is_broken_link(const char *path)
{
    char *target = vae_os_broken_link(path);
    free(target);
    return target != NULL;
}

/* The cache of Hugging Face has a folder of each repository. */
static bool
has_snapshots(const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/snapshots", folder);
    return vae_os_is_kind(path, VAE_FILE_FOLDER);
}

static VaeStatus
fail_pairs(const char *folder, int pairs, VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_NOT_FOUND, NULL,
        "%s: holds {%d pairs} of an encoder and a decoder; expected {=one, or "
        "the two files, joined by a comma}",
        vae_file_label(folder), pairs);
}

static VaeStatus
fail_without_weights(const char *folder, VaeError *error)
{
    return vae_fail_parts(
        error, VAE_ERR_NOT_FOUND,
        (VaeErrorParts){NULL, "a directory",
                        "a file, or the folder of a model"},
        "%s: is a directory with neither " WEIGHTS
        ".safetensors nor its .index.json, nor their fp16 "
        "or bf16 variants, nor with one of them in vae/, nor with a pair "
        "of an encoder and a decoder; "
        "expected a file, or the folder of a model%s",
        vae_file_label(folder),
        has_snapshots(folder) ? "; models in a cache of Hugging Face are in "
                                "its folders snapshots/HASH"
                              : "");
}

/* Writes to `path` which file of the folder has the weights; false if none
 * does. Then `path` is a link without a target, or "". */
static bool
find_file(const char *folder, char *path, size_t size)
{
    static const char *const folders[] = {"", "vae/"};
    static const char *const ends[] = {
        ".safetensors",      ".safetensors.index.json",
        ".fp16.safetensors", ".safetensors.index.fp16.json",
        ".bf16.safetensors", ".safetensors.index.bf16.json"};
    const size_t n = sizeof ends / sizeof ends[0];
    const char *slash =
        folder[0] != '\0' && *vae_os_file_name(folder) == '\0' ? "" : "/";
    for (int links = 0; links < 2; links++)
        for (size_t i = 0; i < 2 * n; i++) {
            snprintf(path, size, "%s%s%s" WEIGHTS "%s", folder, slash,
                     folders[i / n], ends[i % n]);
            if (links && is_broken_link(path))
                return false;
            if (!links && vae_os_is_kind(path, VAE_FILE_REGULAR))
                return true;
        }
    path[0] = '\0';
    return false;
}

VaeStatus
vae_folder_find(const char *folder, char **out, VaeError *error)
{
    const size_t size = 2 * (strlen(folder) + 258) + sizeof LONGEST;
    *out = vae_mem_alloc(size);
    if (*out == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(folder));
    if (find_file(folder, *out, size))
        return VAE_OK;
    /* Without a pair, this leaves *out as it is. */
    const int pairs = vae_pair_in_folder(folder, *out, size);
    if (pairs == 1)
        return VAE_OK;
    const VaeStatus status = pairs > 1   ? fail_pairs(folder, pairs, error)
                             : (*out)[0] ? fail_link(*out, error)
                                         : fail_without_weights(folder, error);
    vae_mem_free(*out);
    *out = NULL;
    return status;
}
