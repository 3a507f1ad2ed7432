/*
 * modulation.c: gains and offsets of a norm that depend on a timestep.
 *
 * They are constant in a stream, so they are computed when the weights are
 * loaded: two linear layers of the sines and cosines of the timestep, plus a
 * table of the file.
 */
#include <math.h>
#include <string.h>

#include "builder_state.h"
#include "files.h"

enum { TABLE, IN_WEIGHT, IN_BIAS, OUT_WEIGHT, OUT_BIAS, SCALE, PARTS };
enum { WAVES = 256, HALF = WAVES / 2, BLOCK = 256 };

VaeWeight *
vae_builder_modulation_weight(VaeBuilder *b, const VaeModulation *m, int c,
                              bool gain)
{
    VaeWeight *w = vae_builder_new_weight(b, VAE_WEIGHT_VECTOR);
    const int n = m->rows * c;
    const struct {
        const char *name, *suffix;
        int n_dims;
        int64_t dims[2];
    } parts[PARTS] = {
        [TABLE] = {NULL, m->table, 2, {m->rows, c}},
        [IN_WEIGHT] = {m->embedder, "linear_1.weight", 2, {n, WAVES}},
        [IN_BIAS] = {m->embedder, "linear_1.bias", 1, {n}},
        [OUT_WEIGHT] = {m->embedder, "linear_2.weight", 2, {n, n}},
        [OUT_BIAS] = {m->embedder, "linear_2.bias", 1, {n}},
        [SCALE] = {m->multiplier, NULL, 0, {0}},
    };
    if (!w)
        return NULL;
    for (int i = 0; i < PARTS; i++) {
        char full[VAE_MAX_PATH];
        if (i == TABLE)
            vae_builder_full_name(b, parts[i].suffix, NULL, full);
        else
            snprintf(full, sizeof full, "%s%s%s", parts[i].name,
                     parts[i].suffix ? "." : "",
                     parts[i].suffix ? parts[i].suffix : "");
        vae_builder_weight_part(b, w, full, parts[i].dims, parts[i].n_dims);
    }
    for (int i = 0; i < 5; i++)
        w->dims[i] = i ? 1 : c;
    w->modulation = gain ? VAE_MODULATION_GAIN : VAE_MODULATION_OFFSET;
    w->row = gain ? m->gain_row : m->offset_row;
    w->timestep = m->timestep;
    return w;
}

/* The sum of the values [at, at + n) of a tensor. by: a factor for each, or
 * NULL. */
static double
dot(const VaeTensorInfo *t, size_t at, size_t n, const float *by)
{
    float x[BLOCK];
    double sum = 0;
    vae_type_to_float(
        x, (const uint8_t *) t->data + at * vae_type_size(t->type), t->type, n);
    for (size_t i = 0; i < n; i++)
        sum += (double) x[i] * (by ? by[i] : 1);
    return sum;
}

static void
waves(const VaeWeight *w, float out[WAVES])
{
    const double t = w->timestep * dot(w->part[SCALE], 0, 1, NULL);
    for (int i = 0; i < HALF; i++) {
        const double angle = t * pow(10000, -(double) i / HALF);
        out[i] = (float) cos(angle);
        out[HALF + i] = (float) sin(angle);
    }
}

void
vae_modulation_read(const VaeWeight *w, float *dst)
{
    const size_t c = (size_t) w->dims[0], first = (size_t) w->row * c;
    const size_t all = (size_t) w->part[IN_BIAS]->dims[0];
    float wave[WAVES], hidden[BLOCK];
    waves(w, wave);
    for (size_t i = 0; i < c; i++)
        dst[i] = (float) (dot(w->part[TABLE], first + i, 1, NULL) +
                          dot(w->part[OUT_BIAS], first + i, 1, NULL) +
                          (w->modulation == VAE_MODULATION_GAIN));
    for (size_t from = 0; from < all; from += BLOCK) {
        const size_t n = all - from < BLOCK ? all - from : BLOCK;
        for (size_t k = 0; k < n; k++) {
            const double v =
                dot(w->part[IN_WEIGHT], (from + k) * WAVES, WAVES, wave) +
                dot(w->part[IN_BIAS], from + k, 1, NULL);
            hidden[k] = (float) (v / (1 + exp(-v)));
        }
        for (size_t i = 0; i < c; i++)
            dst[i] += (float) dot(w->part[OUT_WEIGHT], (first + i) * all + from,
                                  n, hidden);
    }
}
