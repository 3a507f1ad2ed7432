/*
 * attention.c: one query at a time against all keys of its frame.
 */
#include <math.h>

#include "ref.h"

enum { LANES = 16 };

size_t
vae_attention_scratch_ref(int n, int c)
{
    return (size_t) n * sizeof(float);
}

/* Sums in separate lanes, so that the compiler can vectorise the loop. */
static float
dot(const float *a, const float *b, int n)
{
    float part[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            part[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (int j = 0; j < LANES; j++)
        sum += part[j];
    return sum;
}

static void
query(const VaeAttentionArgs *a, const float *qkv, int i, float *y)
{
    const size_t row = 3 * (size_t) a->c;
    const float *q = qkv + i * row, *k = qkv + a->c, *v = k + a->c;
    const float scale = (float) (1 / sqrt(a->c));
    float *p = a->scratch, most = -INFINITY;
    for (int j = 0; j < a->n; j++) {
        p[j] = dot(q, k + j * row, a->c) * scale;
        most = p[j] > most ? p[j] : most;
    }
    double sum = 0;
    for (int j = 0; j < a->n; j++) {
        p[j] = expf(p[j] - most);
        sum += p[j];
    }
    for (int l = 0; l < a->c; l++)
        y[l] = 0;
    for (int j = 0; j < a->n; j++) {
        const float weight = (float) (p[j] / sum);
        for (int l = 0; l < a->c; l++)
            y[l] += weight * v[j * row + l];
    }
}

void
vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const size_t n = (size_t) a->n, c = (size_t) a->c;
    for (int f = 0; f < a->t; f++) {
        const float *qkv = (const float *) a->qkv + f * n * 3 * c;
        float *y = (float *) a->y + f * n * c;
        for (int i = 0; i < a->n && !vae_ref_cancelled(q); i++)
            query(a, qkv, i, y + i * c);
    }
}
