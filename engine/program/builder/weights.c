/*
 * weights.c: the parameters of ops: their names, shapes and tensors in a file.
 */
#include <string.h>

#include "builder_state.h"

void
vae_builder_weight_part(VaeBuilder *b, VaeWeight *w, const char *full,
                        const int64_t *dims, int n_dims)
{
    const VaeTensorSource *tensors = &b->params->network.tensors;
    VaeError error = {0};
    long i = -1;
    /* The programs of a model require tensors in almost the same order. */
    const VaeTensorQuery query = {full, dims, n_dims, b->next_tensor};
    const VaeStatus status = tensors->find(tensors->user, &query, &i, &error);
    if (status != VAE_OK) {
        if (b->status == VAE_OK) {
            b->error = error;
            b->status = status;
        }
        return;
    }
    b->next_tensor = i + 1;
    if (b->params->dry_run)
        return;
    if (w->n_parts == 0)
        w->id = (int) i;
    w->file = tensors->file;
    w->part[w->n_parts++] = tensors->at(tensors->user, i);
}

VaeWeight *
vae_builder_vector_weight(VaeBuilder *b, const char *name, const char *suffix,
                          int c, int n_dims)
{
    VaeWeight *w = vae_builder_new_weight(b, VAE_WEIGHT_VECTOR);
    if (!w)
        return NULL;
    char full[VAE_MAX_PATH];
    vae_builder_full_name(b, name, suffix, full);
    const int64_t dims[4] = {c, 1, 1, 1};
    vae_builder_weight_part(b, w, full, dims, n_dims);
    for (int i = 0; i < 5; i++)
        w->dims[i] = i ? 1 : c;
    return w;
}

/* Sets dims to the dimensions that one part of a convolution's weight has in
 * the file. Returns their number. */
static int
conv_dims(const VaeConv *conv, int c_out, int c_in, int64_t dims[5])
{
    const bool stacked = conv->taps != VAE_TAPS_OWN;
    dims[0] = c_out;
    dims[1] = stacked ? (int64_t) c_in * conv->kt : c_in / conv->groups;
    if (conv->linear)
        return 2;
    dims[2] = conv->kt;
    dims[3] = dims[4] = conv->k;
    if (!conv->two_d && !stacked)
        return 5;
    dims[2] = conv->k;
    return 4;
}

/* The weight of a convolution, or its bias. */
VaeWeight *
vae_builder_conv_weight(VaeBuilder *b, const char *name, const VaeConv *conv,
                        int c_in, bool bias)
{
    VaeWeight *w =
        vae_builder_new_weight(b, bias ? VAE_WEIGHT_VECTOR : VAE_WEIGHT_CONV);
    if (!w)
        return NULL;
    int n = 0;
    while (n < 3 && conv->stack[n])
        n++;
    const int parts = n ? n : 1;
    for (int i = 0; i < parts; i++) {
        char full[VAE_MAX_PATH];
        vae_builder_full_name(b, n ? conv->stack[i] : name,
                              bias ? "bias" : "weight", full);
        int64_t dims[5] = {conv->c / parts};
        const int n_dims =
            bias ? 1 : conv_dims(conv, conv->c / parts, c_in, dims);
        vae_builder_weight_part(b, w, full, dims, n_dims);
    }
    if (conv->gate) {
        char full[VAE_MAX_PATH];
        vae_builder_full_name(b, conv->gate, NULL, full);
        vae_builder_weight_part(b, w, full, (const int64_t[]){conv->c}, 1);
        w->gated = true;
    }
    const int dims[5] = {conv->c, bias ? 1 : c_in, bias ? 1 : conv->kt,
                         bias ? 1 : conv->k, bias ? 1 : conv->k};
    memcpy(w->dims, dims, sizeof dims);
    w->taps = bias ? VAE_TAPS_OWN : conv->taps;
    w->groups = bias ? 1 : conv->groups;
    return w;
}

VaeWeight *
vae_builder_depthwise_weight(VaeBuilder *b, const char *name, int c, int k)
{
    VaeWeight *w = vae_builder_new_weight(b, VAE_WEIGHT_DEPTHWISE);
    if (!w)
        return NULL;
    char full[VAE_MAX_PATH];
    vae_builder_full_name(b, name, "weight", full);
    vae_builder_weight_part(b, w, full, (const int64_t[]){c, 1, k, k}, 4);
    const int dims[5] = {c, 1, 1, k, k};
    memcpy(w->dims, dims, sizeof dims);
    return w;
}
