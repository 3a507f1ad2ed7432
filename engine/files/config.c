/*
 * Reads config.json in the folder of weights, as diffusers writes it.
 */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "files.h"
#include "vae-private/os.h"

/* Usual files have a few thousand bytes. */
#define MAX_BYTES (1 << 20)

static VaeStatus
parse(const VaeTensorFile *file, json_t **out, VaeError *error)
{
    if (file->size > MAX_BYTES)
        return vae_mismatch(error, VAE_ERR_FORMAT, NULL,
                            "%s: {%zu bytes}, expected {=%d at most}",
                            file->label, file->size, MAX_BYTES);
    const VaeStatus status = vae_file_bytes(file, 0, file->size, error);
    if (status != VAE_OK)
        return status;
    /* Some editors begin UTF-8 with this mark. */
    const char *text = (const char *) file->bytes;
    const size_t mark =
        file->size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return vae_json_load(text + mark, file->size - mark, file->label, "", out,
                         error);
}

VaeStatus
vae_config_load(const char *weights, json_t **out, VaeError *error)
{
    static const char name[] = "config.json";
    const size_t folder = (size_t) (vae_os_file_name(weights) - weights);
    char *path = vae_mem_alloc(folder + sizeof name);
    VaeTensorFile file;
    *out = NULL;
    if (path == NULL)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory",
                        vae_file_label(weights));
    memcpy(path, weights, folder);
    memcpy(path + folder, name, sizeof name);
    VaeError why = {0};
    VaeStatus status = vae_file_begin(path, &file, &why);
    if (status == VAE_OK) {
        status = parse(&file, out, &why);
        vae_file_end(&file);
    } else if (status == VAE_ERR_NOT_FOUND) {
        status = VAE_OK;
    }
    if (status != VAE_OK)
        vae_pass_on(error, &why);
    vae_mem_free(path);
    return status;
}
