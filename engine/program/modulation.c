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

enum {
    TABLE,
    IN_WEIGHT,
    IN_BIAS,
    OUT_WEIGHT,
    OUT_BIAS,
    SCALE,
    PARTS,
    /* with proj */
    PROJ_WEIGHT = SCALE,
    PROJ_BIAS,
    NORM,
    PROJ_PARTS
};
enum { WAVES = 256, HALF = WAVES / 2, BLOCK = 256 };

typedef struct Part {
    const char *name, *suffix;
    int n_dims;
    int64_t dims[2];
} Part;

static void
add_part(VaeBuilder *b, VaeWeight *w, const Part *part, bool relative)
{
    char full[VAE_MAX_PATH];
    if (relative)
        vae_builder_full_name(b, part->name, part->suffix, full);
    else
        snprintf(full, sizeof full, "%s%s%s", part->name,
                 part->suffix ? "." : "", part->suffix ? part->suffix : "");
    vae_builder_weight_part(b, w, full, part->dims, part->n_dims);
}

static void
add_parts(VaeBuilder *b, VaeWeight *w, const VaeModulation *m, int n)
{
    const Part parts[PARTS] = {
        [TABLE] = {m->table, NULL, 2, {m->rows, n / m->rows}},
        [IN_WEIGHT] = {m->embedder, "linear_1.weight", 2, {n, WAVES}},
        [IN_BIAS] = {m->embedder, "linear_1.bias", 1, {n}},
        [OUT_WEIGHT] = {m->embedder, "linear_2.weight", 2, {n, n}},
        [OUT_BIAS] = {m->embedder, "linear_2.bias", 1, {n}},
        [SCALE] = {m->multiplier, NULL, 0, {0}},
    };
    for (int i = 0; i < PARTS; i++)
        add_part(b, w, &parts[i], i == TABLE);
}

static void
add_projected(VaeBuilder *b, VaeWeight *w, const VaeModulation *m, int n,
              const char *norm)
{
    const int width = m->width, c = n / m->rows;
    const Part parts[PROJ_PARTS] = {
        [TABLE] = {m->table, NULL, 2, {m->rows, c}},
        [IN_WEIGHT] = {m->embedder, "0.weight", 2, {width, WAVES}},
        [IN_BIAS] = {m->embedder, "0.bias", 1, {width}},
        [OUT_WEIGHT] = {m->embedder, "2.weight", 2, {width, width}},
        [OUT_BIAS] = {m->embedder, "2.bias", 1, {width}},
        [PROJ_WEIGHT] = {m->proj, "weight", 2, {n, width}},
        [PROJ_BIAS] = {m->proj, "bias", 1, {n}},
        [NORM] = {norm, "weight", 1, {c}},
    };
    for (int i = 0; i < PROJ_PARTS; i++)
        add_part(b, w, &parts[i], i == TABLE || i == NORM);
}

VaeWeight *
vae_builder_modulation_weight(VaeBuilder *b, const VaeModulation *m, int c,
                              const char *norm, bool gain)
{
    VaeWeight *w = vae_builder_new_weight(b, VAE_WEIGHT_VECTOR);
    if (!w)
        return NULL;
    if (m->proj)
        add_projected(b, w, m, m->rows * c, norm);
    else
        add_parts(b, w, m, m->rows * c);
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
    float x[VAE_MODULATION_WIDTH];
    double sum = 0;
    vae_type_to_float(
        x, (const uint8_t *) t->data + at * vae_type_size(t->type), t->type, n);
    for (size_t i = 0; i < n; i++)
        sum += (double) x[i] * (by ? by[i] : 1);
    return sum;
}

static bool
is_projected(const VaeWeight *w)
{
    return w->n_parts == PROJ_PARTS;
}

static void
waves(const VaeWeight *w, float out[WAVES])
{
    const double t =
        w->timestep * (is_projected(w) ? 1 : dot(w->part[SCALE], 0, 1, NULL));
    for (int i = 0; i < HALF; i++) {
        const double angle = t * pow(10000, -(double) i / HALF);
        out[i] = (float) cos(angle);
        out[HALF + i] = (float) sin(angle);
    }
}

/* silu(v). */
static float
silu(double v)
{
    return (float) (v / (1 + exp(-v)));
}

/* Row i of the linear layer with these parts, applied to n numbers. */
static double
linear(const VaeWeight *w, int weight, size_t i, size_t n, const float *x)
{
    return dot(w->part[weight], i * n, n, x) +
           dot(w->part[weight + 1], i, 1, NULL);
}

static void
read_projected(const VaeWeight *w, float *dst)
{
    const size_t c = (size_t) w->dims[0], first = (size_t) w->row * c;
    const size_t n = (size_t) w->part[IN_BIAS]->dims[0];
    float wave[WAVES], hidden[2][VAE_MODULATION_WIDTH];
    waves(w, wave);
    for (size_t i = 0; i < n; i++)
        hidden[0][i] = silu(linear(w, IN_WEIGHT, i, WAVES, wave));
    for (size_t i = 0; i < n; i++)
        hidden[1][i] = silu(linear(w, OUT_WEIGHT, i, n, hidden[0]));
    for (size_t i = 0; i < c; i++) {
        const double v = dot(w->part[TABLE], first + i, 1, NULL) +
                         linear(w, PROJ_WEIGHT, first + i, n, hidden[1]);
        dst[i] = w->modulation == VAE_MODULATION_GAIN
                     ? (float) ((1 + v) * dot(w->part[NORM], i, 1, NULL))
                     : (float) v;
    }
}

void
vae_modulation_read(const VaeWeight *w, float *dst)
{
    const size_t c = (size_t) w->dims[0], first = (size_t) w->row * c;
    const size_t all = (size_t) w->part[IN_BIAS]->dims[0];
    float wave[WAVES], hidden[BLOCK];
    if (is_projected(w)) {
        read_projected(w, dst);
        return;
    }
    waves(w, wave);
    for (size_t i = 0; i < c; i++)
        dst[i] = (float) (dot(w->part[TABLE], first + i, 1, NULL) +
                          dot(w->part[OUT_BIAS], first + i, 1, NULL) +
                          (w->modulation == VAE_MODULATION_GAIN));
    for (size_t from = 0; from < all; from += BLOCK) {
        const size_t n = all - from < BLOCK ? all - from : BLOCK;
        for (size_t k = 0; k < n; k++)
            hidden[k] = silu(linear(w, IN_WEIGHT, from + k, WAVES, wave));
        for (size_t i = 0; i < c; i++)
            dst[i] += (float) dot(w->part[OUT_WEIGHT], (first + i) * all + from,
                                  n, hidden);
    }
}
