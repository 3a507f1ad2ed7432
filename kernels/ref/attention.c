/*
 * attention.c: one query at a time against all keys of its frame, and of the
 * frames of its history.
 */
#include <math.h>
#include <string.h>

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

/* The keys of a frame: n rows of `row` numbers, which begin with K, then V. */
typedef struct Keys {
    const float *k;
    size_t row;
} Keys;

/* The sums over the keys so far, with weights relative to the largest score. */
typedef struct Sums {
    float most;
    double weight;
    float *y;
} Sums;

static void
add_keys(const VaeAttentionArgs *a, const float *q, Keys keys, Sums *s)
{
    const float scale = (float) (1 / sqrt(a->c));
    float *p = a->scratch, most = s->most;
    for (int j = 0; j < a->n; j++) {
        p[j] = dot(q, keys.k + j * keys.row, a->c) * scale;
        most = p[j] > most ? p[j] : most;
    }
    const float zero = most == -INFINITY ? 0 : most;
    const float shrink = expf(s->most - zero);
    s->most = most;
    s->weight *= shrink;
    for (int l = 0; l < a->c; l++)
        s->y[l] *= shrink;
    for (int j = 0; j < a->n; j++) {
        const float weight = expf(p[j] - zero);
        const float *v = keys.k + j * keys.row + a->c;
        s->weight += weight;
        for (int l = 0; l < a->c; l++)
            s->y[l] += weight * v[l];
    }
}

static void
query(const VaeAttentionArgs *a, const float *qkv, int i, float *y)
{
    const VaeHistory *h = &a->history;
    const size_t c = (size_t) a->c;
    const float *q = qkv + (size_t) i * 3 * c;
    Sums s = {.most = -INFINITY, .y = y};
    memset(y, 0, c * sizeof *y);
    if (!h->blocks)
        add_keys(a, q, (Keys){qkv + c, 3 * c}, &s);
    const uint64_t end = h->blocks ? vae_history_last(h) + 1 : 0;
    for (uint64_t j = h->blocks ? vae_history_first(h) : 0; j < end; j++)
        add_keys(a, q, (Keys){(float *) vae_history_rows(h, j), 2 * c}, &s);
    for (size_t l = 0; l < c; l++)
        y[l] = (float) (y[l] / s.weight);
}

/* Copies K and V of the frame to the history. */
static void
keep(const VaeAttentionArgs *a)
{
    const size_t c = (size_t) a->c;
    const float *k = (const float *) a->qkv + c;
    float *to =
        (float *) vae_history_rows(&a->history, vae_history_last(&a->history));
    for (int i = 0; i < a->n; i++, k += 3 * c, to += 2 * c)
        memcpy(to, k, 2 * c * sizeof *to);
}

void
vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const size_t n = (size_t) a->n, c = (size_t) a->c;
    if (a->history.blocks)
        keep(a);
    for (int f = 0; f < a->t; f++) {
        const float *qkv = (const float *) a->qkv + f * n * 3 * c;
        float *y = (float *) a->y + f * n * c;
        for (int i = 0; i < a->n && !vae_ref_cancelled(q); i++)
            query(a, qkv, i, y + i * c);
    }
}
