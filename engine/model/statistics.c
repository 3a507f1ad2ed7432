/*
 * statistics.c: the statistics of latents that are tensors of the file.
 */
#include <math.h>
#include <string.h>

#include "files.h"
#include "model.h"

/* Reads the required tensor of that name, of one number for each channel. */
static VaeStatus
read_vector(const VaeModel *m, const char *name, float *dst, VaeError *error)
{
    const VaeTensorInfo *t =
        &m->required[vae_model_find_required(m, name, -1)].found;
    const size_t size = vae_type_size(t->type);
    uint8_t raw[VAE_MAX_LATENT_CHANNELS * sizeof(float)];
    VaeStatus status = VAE_OK;
    if (m->file)
        status = vae_tensor_file_read(m->file, t, 0, raw, t->bytes, error);
    else
        memcpy(raw, t->data, t->bytes);
    if (status == VAE_OK)
        vae_type_to_float(dst, raw, t->type, t->bytes / size);
    return status;
}

VaeStatus
vae_model_read_statistics(VaeModel *m, VaeError *error)
{
    const VaeArch *arch = m->arch;
    VaeStatus status = VAE_OK;
    if (arch->mean)
        status = read_vector(m, arch->mean, m->mean, error);
    if (arch->std && status == VAE_OK)
        status = read_vector(m, arch->std, m->std, error);
    for (int i = 0; i < m->info.latent_channels && status == VAE_OK; i++)
        if (!isfinite(m->mean[i]) || !isfinite(m->std[i]) || !(m->std[i] > 0))
            status = vae_fail(error, VAE_ERR_MODEL,
                              "%s: channel %d has a mean of %g and a deviation "
                              "of %g, expected finite numbers and a positive "
                              "deviation",
                              m->path, i, m->mean[i], m->std[i]);
    return status;
}
