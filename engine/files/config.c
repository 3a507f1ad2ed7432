/*
 * Reads config.json in the folder of weights, as diffusers writes it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc.h"
#include "files.h"

/* Usual files have a few thousand bytes. */
#define MAX_BYTES (1 << 20)

static VaeStatus
parse(const char *path, const void *text, size_t size, json_t **out,
      VaeError *error)
{
    const char *label = vae_file_label(path);
    if (size > MAX_BYTES)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: %zu bytes, wanted %d at most", label, size,
                        MAX_BYTES);
    return vae_json_load(text, size, label, "", out, error);
}

VaeStatus
vae_config_load(const char *weights, json_t **out, VaeError *error)
{
    static const char name[] = "config.json";
    const char *slash = strrchr(weights, '/');
    const size_t folder = slash != NULL ? (size_t) (slash - weights) + 1 : 0;
    char *path = vae_mem_alloc(folder + sizeof name);
    void *map;
    size_t size;
    *out = NULL;
    if (path == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(weights));
    memcpy(path, weights, folder);
    memcpy(path + folder, name, sizeof name);
    VaeError why = {0};
    VaeStatus status = vae_file_map(path, 0, &map, &size, NULL, &why);
    if (status == VAE_OK) {
        status = parse(path, map, size, out, &why);
        munmap(map, size);
    } else if (status == VAE_ERR_NOT_FOUND) {
        status = VAE_OK;
    }
    if (status != VAE_OK)
        vae_fail_parts(error, status, VAE_PARTS_OF(&why), "%s", why.message);
    vae_mem_free(path);
    return status;
}
