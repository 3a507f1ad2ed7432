/*
 * check_attention.c: attention against its definition.
 */
#include <math.h>

#include "check.h"

/* Output of one site: softmax over all sites, all in double. */
static void
definition(const float *qkv, int n, int c, int site, double *y)
{
    const float *q = qkv + (size_t) site * 3 * c;
    double sum = 0, most = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < c; i++)
            y[i] = 0;
        sum = 0;
        for (int j = 0; j < n; j++) {
            const float *k = qkv + (size_t) j * 3 * c + c, *v = k + c;
            double score = 0;
            for (int i = 0; i < c; i++)
                score += (double) q[i] * k[i];
            score /= sqrt(c);
            if (!pass) {
                most = fmax(most, score);
                continue;
            }
            const double p = exp(score - most);
            sum += p;
            for (int i = 0; i < c; i++)
                y[i] += p * v[i];
        }
    }
    for (int i = 0; i < c; i++)
        y[i] /= sum;
}

/*
 * A score is up to c / 16 + 20 roundings of its terms off, which are of
 * deviation d^2; e^score by as much relatively; then n terms are added.
 */
static void
one_case(VaeCheck *t, int frames, int n, int c, float deviation)
{
    if (!vae_check_begin(t, "attention_%dx%dx%d_d%g", frames, n, c, deviation))
        return;
    const size_t in = (size_t) frames * n * 3 * c;
    const size_t out = (size_t) frames * n * c;
    const size_t bytes = vae_attention_scratch_ref(n, c);
    const float *qkv = vae_check_random(t, in, deviation);
    float *y = vae_check_buffer(t, out * sizeof *y, sizeof *y);
    double *want = vae_check_buffer(t, c * sizeof *want, sizeof *want);
    VaeAttentionArgs a = {.y = y,
                          .qkv = qkv,
                          .scratch = vae_check_buffer(t, bytes, 4),
                          .t = frames,
                          .n = n,
                          .c = c};
    t->ref->attention(&t->queue, &a);
    const double d = deviation, terms = c / 16 + 20;
    const double bound = (terms * d * d * sqrt(c) + n) * 0x1p-24 * 4 * d;
    for (int f = 0; f < frames; f++)
        for (int i = 0; i < n; i++) {
            definition(qkv + in / frames * f, n, c, i, want);
            const float *got = y + ((size_t) f * n + i) * c;
            for (int l = 0; l < c; l++)
                if (!(fabs(got[l] - want[l]) <= bound)) {
                    vae_check_fail(t, "site %d channel %d: %.9g, not %.9g", i,
                                   l, got[l], want[l]);
                    return;
                }
        }
}

/* Scores so far apart that only one site counts, and large ones. */
static void
check_sharp(VaeCheck *t)
{
    if (!vae_check_begin(t, "attention_sharp"))
        return;
    enum { N = 9, C = 5 };
    float *qkv = vae_check_random(t, N * 3 * C, 0);
    float *y = vae_check_buffer(t, N * C * sizeof *y, sizeof *y);
    for (int i = 0; i < N; i++) {
        qkv[i * 3 * C] = 1000;
        qkv[i * 3 * C + C] = i == 4 ? 900 : 100;
        for (int l = 0; l < C; l++)
            qkv[i * 3 * C + 2 * C + l] = (float) (10 * i + l);
    }
    VaeAttentionArgs a = {.y = y, .qkv = qkv, .t = 1, .n = N, .c = C};
    a.scratch = vae_check_buffer(t, vae_attention_scratch_ref(N, C), 4);
    t->ref->attention(&t->queue, &a);
    for (int i = 0; i < N * C; i++)
        vae_check_that(t, y[i] == (float) (40 + i % C), "not V of site 4");
}

static void
check_random(VaeCheck *t)
{
    one_case(t, 1, 1, 1, 1);
    one_case(t, 1, 7, 3, 1);
    one_case(t, 2, 15, 16, 1);
    one_case(t, 3, 35, 33, 2);
    one_case(t, 1, 60, 384, 1);
    one_case(t, 1, 1001, 32, 1);
}

static void
check_speed(VaeCheck *t)
{
    if (!t->bench || !vae_check_begin(t, "attention_speed_1560x384"))
        return;
    enum { N = 1560, C = 384 };
    VaeAttentionArgs a = {.t = 1, .n = N, .c = C};
    a.qkv = vae_check_random(t, (size_t) N * 3 * C, 1);
    a.y = vae_check_buffer(t, (size_t) N * C * 4, 4);
    a.scratch = vae_check_buffer(t, vae_attention_scratch_ref(N, C), 4);
    while (vae_check_bench(t, 0, 4.0 * N * N * C))
        t->ref->attention(&t->queue, &a);
}

int
main(int argc, char **argv)
{
    static const VaeCheckFunc all[] = {check_random, check_sharp, check_speed};
    return vae_check_main(argc, argv, all, VAE_COUNT(all));
}
