#include "odd.h"

#include <stdlib.h>
#include <string.h>

#include "vectors.h"

/* The channels of a tiny decoder, each width less by one. */
static int64_t
narrower(const char *name, int dim, int64_t c)
{
    const bool doubled = dim ? strstr(name, "conv.0.weight") != NULL
                             : !strncmp(name, "decoder.13.", 11) ||
                                   !strncmp(name, "decoder.19.", 11);
    const bool fixed = dim ? !strncmp(name, "decoder.1.", 10)
                           : !strncmp(name, "decoder.22.", 11);
    return c - (fixed ? 0 : doubled ? 2 : 1);
}

VaeStatus
odd_write(const char *weights, const char *path, VaeError *error)
{
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeStatus status = vae_tensor_file_open(weights, &file, error);
    if (status != VAE_OK)
        return status;
    const size_t all = vae_tensor_file_count(file);
    SCOPED_BLOCK VaeTensorOut *out = test_alloc(all * sizeof *out);
    size_t n = 0;
    for (size_t i = 0; i < all; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        if (strncmp(t->name, "decoder.", 8) != 0)
            continue;
        VaeTensorOut *o = &out[n++];
        *o = (VaeTensorOut){.name = t->name,
                            .type = t->type,
                            .n_dims = t->n_dims,
                            .data = t->data};
        memcpy(o->dims, t->dims, sizeof t->dims);
        for (int k = 0; k < 2 && k < t->n_dims; k++)
            o->dims[k] = narrower(t->name, k, t->dims[k]);
    }
    status = vae_tensor_file_write(path, out, n, NULL, 0, error);
    return status;
}
