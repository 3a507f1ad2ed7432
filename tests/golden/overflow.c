#include "overflow.h"

#include <stdlib.h>
#include <string.h>

#include "../scoped.h"

/* In place: values of one tensor. */
static void
change(const VaeTensorInfo *t, float *v)
{
    const size_t in = (size_t) t->dims[1];
    if (strcmp(t->name, "conv2.bias") == 0)
        v[0] = 0x1.8p127f;
    for (size_t i = 0; strcmp(t->name, "conv2.weight") == 0 && i < in; i++)
        v[i] = i == 0 ? 0x1.fep125f / OVERFLOW_Z : 0;
    /* LTX-2: its statistics, and a convolution that reads no first channel. */
    if (strcmp(t->name, "per_channel_statistics.mean-of-means") == 0)
        v[0] = 0x1.8p127f;
    if (strcmp(t->name, "per_channel_statistics.std-of-means") == 0)
        v[0] = 0x1.fep125f / OVERFLOW_Z;
    if (strcmp(t->name, "decoder.conv1.weight") != 0 &&
        strcmp(t->name, "decoder.conv_in.conv.weight") != 0)
        return;
    for (size_t o = 0; o < (size_t) t->dims[0]; o++)
        memset(v + o * in * 27, 0, 27 * sizeof *v);
}

VaeStatus
overflow_write(const char *weights, const char *path, VaeError *error)
{
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeStatus status = vae_tensor_file_open(weights, &file, error);
    if (status != VAE_OK)
        return status;
    const size_t n = vae_tensor_file_count(file);
    SCOPED_BLOCK VaeTensorOut *out = calloc(n, sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        const size_t count = (size_t) t->bytes / vae_type_size(t->type);
        float *values = malloc(count * sizeof *values);
        if (!values)
            abort();
        vae_type_to_float(values, t->data, t->type, count);
        change(t, values);
        out[i] = (VaeTensorOut){.name = t->name,
                                .type = VAE_TYPE_F32,
                                .n_dims = t->n_dims,
                                .data = values};
        memcpy(out[i].dims, t->dims, sizeof t->dims);
    }
    status = vae_tensor_file_write(path, out, n, NULL, 0, error);
    for (size_t i = 0; i < n; i++)
        free((void *) out[i].data);
    return status;
}
