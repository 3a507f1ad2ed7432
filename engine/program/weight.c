/*
 * weight.c: reads the parameters of ops from the file.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "files.h"
#include "program.h"

size_t
vae_weight_count(const VaeWeight *w)
{
    size_t n = 1;
    for (int i = 0; i < 5; i++)
        n *= (size_t) w->dims[i];
    return n;
}

/* Reads one part whose frames are stacked along the input channels. */
static void
read_stacked(const VaeWeight *w, const VaeTensorInfo *t, float *dst)
{
    const size_t in = (size_t) w->dims[1], kt = (size_t) w->dims[2];
    const size_t area = (size_t) w->dims[3] * w->dims[4];
    const size_t size = vae_type_size(t->type);
    const size_t rows = (size_t) t->bytes / size / area;
    for (size_t row = 0; row < rows; row++) {
        const size_t out = row / (kt * in), block = row / in % kt;
        const size_t a =
            w->taps == VAE_TAPS_NEWEST_FIRST ? kt - 1 - block : block;
        vae_type_to_float(dst + ((out * in + row % in) * kt + a) * area,
                          (const uint8_t *) t->data + row * area * size,
                          t->type, area);
    }
}

/* Writes zeros for the input channels of the other groups. */
static void
read_groups(const VaeWeight *w, const VaeTensorInfo *t, float *dst)
{
    const size_t out = (size_t) w->dims[0], groups = (size_t) w->groups;
    const size_t row = vae_weight_count(w) / out, part = row / groups;
    const size_t size = vae_type_size(t->type);
    memset(dst, 0, vae_weight_count(w) * sizeof *dst);
    for (size_t o = 0; o < out; o++)
        vae_type_to_float(dst + o * row + o / (out / groups) * part,
                          (const uint8_t *) t->data + o * part * size, t->type,
                          part);
}

/* Multiplies the values of each output channel by its factor. */
static void
apply_gate(const VaeWeight *w, const VaeTensorInfo *gate, float *dst)
{
    const size_t out = (size_t) w->dims[0], row = vae_weight_count(w) / out;
    const size_t size = vae_type_size(gate->type);
    for (size_t o = 0; o < out; o++) {
        float factor;
        vae_type_to_float(&factor, (const uint8_t *) gate->data + o * size,
                          gate->type, 1);
        for (size_t i = 0; i < row; i++)
            *dst++ *= factor;
    }
}

void
vae_weight_read(const VaeWeight *w, float *dst)
{
    float *const first = dst;
    if (w->modulation) {
        vae_modulation_read(w, dst);
        return;
    }
    for (int i = 0; i < w->n_parts - w->gated; i++) {
        const VaeTensorInfo *t = w->part[i];
        const size_t n = (size_t) t->bytes / vae_type_size(t->type);
        if (w->groups > 1)
            read_groups(w, t, dst);
        else if (w->taps == VAE_TAPS_OWN)
            vae_type_to_float(dst, t->data, t->type, n);
        else
            read_stacked(w, t, dst);
        dst += n;
    }
    if (w->gated)
        apply_gate(w, w->part[w->n_parts - 1], first);
}

bool
vae_weight_is_whole(const VaeWeight *w)
{
    return w->n_parts == 1 && w->taps == VAE_TAPS_OWN && w->groups <= 1 &&
           w->part[0]->type != VAE_TYPE_F64;
}

bool
vae_weight_is_direct(const VaeWeight *w)
{
    const VaeTensorInfo *t = w->part[0];
    return vae_weight_is_whole(w) &&
           (t->type == VAE_TYPE_F32 || t->type == VAE_TYPE_BF16) &&
           (uintptr_t) t->data % vae_type_size(t->type) == 0;
}

/* Refuses values that are NaN or infinite as floats: each spreads to whole
 * frames, or a ReLU hides it. */
static VaeStatus
check_finite(const VaeWeight *w, const VaeTensorInfo *t, const void *data,
             size_t n, VaeError *error)
{
    enum { BLOCK = 512 };
    const uint8_t *at = data;
    float block[BLOCK];
    for (size_t i = 0; i < n;
         i += BLOCK, at += BLOCK * vae_type_size(t->type)) {
        const size_t m = n - i < BLOCK ? n - i : BLOCK;
        int bad = 0;
        vae_type_to_float(block, at, t->type, m);
        for (size_t k = 0; k < m; k++)
            bad += !(fabsf(block[k]) <= FLT_MAX);
        if (bad)
            return vae_fail_parts(
                error, VAE_ERR_MODEL,
                (VaeErrorParts){t->name, "NaN or infinite", "finite values"},
                "%s%sthe weights have NaN or infinite values%s: the first is "
                "in tensor \"%.*s\"",
                w->file ? vae_tensor_file_name(w->file) : "",
                w->file ? ": " : "",
                t->type == VAE_TYPE_F64 ? ", or values too large for float32"
                                        : "",
                VAE_NAME_SHOWN, t->name);
    }
    return VAE_OK;
}

VaeStatus
vae_weight_read_some(const VaeWeight *w, size_t first, size_t n, float *dst,
                     void *room, VaeError *error)
{
    const VaeTensorInfo *t = w->part[0];
    const size_t size = vae_type_size(t->type);
    void *raw = t->type == VAE_TYPE_F32 ? (void *) dst : room;
    const void *src = raw;
    VaeStatus status = VAE_OK;
    if (w->file)
        status = vae_tensor_file_read(w->file, t, first * size, raw, n * size,
                                      error);
    else
        src = (const uint8_t *) t->data + first * size;
    if (status == VAE_OK)
        status = check_finite(w, t, src, n, error);
    if (status == VAE_OK && src != dst)
        vae_type_to_float(dst, src, t->type, n);
    return status;
}

VaeStatus
vae_weight_fetch(const VaeWeight *w, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; w->file && i < w->n_parts && status == VAE_OK; i++)
        status = vae_tensor_file_fetch(w->file, w->part[i], error);
    for (int i = 0; i < w->n_parts && status == VAE_OK; i++) {
        const VaeTensorInfo *t = w->part[i];
        status = check_finite(
            w, t, t->data, (size_t) t->bytes / vae_type_size(t->type), error);
    }
    if (status != VAE_OK)
        vae_weight_drop(w);
    return status;
}

void
vae_weight_drop(const VaeWeight *w)
{
    for (int i = 0; w->file && i < w->n_parts; i++)
        vae_tensor_file_drop(w->file, w->part[i]);
}
