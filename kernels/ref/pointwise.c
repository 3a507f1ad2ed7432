/*
 * pointwise.c: the soft clamp, the gated unit, noise, and the depthwise
 * convolution.
 */
#include <math.h>

#include "number.h"
#include "ref.h"
#include "sample.h"

void
vae_ref_clamp(const VaeQueue *q, const VaeClampArgs *a)
{
    for (size_t i = 0; i < a->n; i++)
        vae_store(a->y, a->y_type, i,
                  (float) (3 * tanh(vae_load(a->x, a->x_type, i) / 3.0)));
}

void
vae_ref_glu(const VaeQueue *q, const VaeGluArgs *a)
{
    const size_t c = (size_t) a->c;
    for (size_t i = 0; i < a->rows; i++)
        for (size_t l = 0; l < c; l++) {
            const float g = vae_load(a->x, a->x_type, i * 2 * c + l);
            const float v = vae_load(a->x, a->x_type, i * 2 * c + c + l);
            vae_store(a->y, a->y_type, i * c + l, g / (1 + expf(-g)) * v);
        }
}

void
vae_ref_noise(const VaeQueue *q, const VaeNoiseArgs *a)
{
    const int side = a->side, c = 3 * side * side;
    size_t at = 0;
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->h; y++)
            for (int x = 0; x < a->w; x++)
                for (int l = 0; l < c; l++, at++)
                    vae_store(a->y, a->y_type, at,
                              vae_normal_in_patch(a->seed, a->place->frame + f,
                                                  side, l, y, x));
}

static float
depthwise_one(const VaeDepthwiseArgs *a, int f, int py, int px, int c)
{
    const int frame = c < a->n ? f + 1 : f;
    float sum = 0;
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            const int y = py + i - 3, x = px + j - 3;
            if (y < 0 || y >= a->h || x < 0 || x >= a->w)
                continue;
            const size_t at = ((size_t) frame * a->h + y) * a->w + x;
            sum += a->weight[(size_t) (i * 7 + j) * 2 * a->n + c] *
                   vae_load(a->x, a->x_type, at * a->n + c % a->n);
        }
    return sum;
}

void
vae_ref_depthwise(const VaeQueue *q, const VaeDepthwiseArgs *a)
{
    size_t at = 0;
    for (int f = 0; f < a->t; f++)
        for (int y = 0; y < a->h; y++)
            for (int x = 0; x < a->w; x++)
                for (int c = 0; c < 2 * a->n; c++)
                    vae_store(a->y, a->y_type, at++,
                              depthwise_one(a, f, y, x, c));
}
