/*
 * check_tiles.c: what surrounds the products of Winograd's F(2x2, 3x3), for
 * every vector code to the byte: each is sums in a fixed order. Whole
 * convolutions are in check_dnnl.c.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "cpu/simd.h"

static const int lengths[] = {1, 3, 8, 15, 16, 17, 31, 33, 96};

static float *
floats(VaeCheck *t, size_t n)
{
    return vae_check_buffer(t, n * sizeof(float), sizeof(float));
}

static void
check_in(VaeCheck *t)
{
    for (size_t i = 0; i < 2 * VAE_COUNT(lengths); i++) {
        const int n = lengths[i / 2];
        const bool minus = i % 2 != 0;
        if (!vae_check_begin(t, "tile_in_%d%s", n, minus ? "_minus" : ""))
            continue;
        float *want[4];
        VaeTileIn a = {.minus = minus, .n = n};
        for (int k = 0; k < 4; k++) {
            a.a[k] = vae_check_random(t, (size_t) n, 1);
            a.b[k] = vae_check_random(t, (size_t) n, 1);
            want[k] = floats(t, (size_t) n);
        }
        for (int c = 0; c < n; c++) {
            float e[4];
            for (int k = 0; k < 4; k++)
                e[k] = minus ? a.a[k][c] - a.b[k][c] : a.a[k][c] + a.b[k][c];
            want[0][c] = e[0] - e[2];
            want[1][c] = e[1] + e[2];
            want[2][c] = e[2] - e[1];
            want[3][c] = e[3] - e[1];
        }
        VaeQueue q;
        for (size_t set = 0; vae_check_queue(set, &q); set++) {
            for (int k = 0; k < 4; k++)
                a.y[k] = floats(t, (size_t) n);
            vae_cpu_simd(&q)->tile_in(&a);
            for (int k = 0; k < 4; k++)
                vae_check_equal(t, "y", a.y[k], want[k], (size_t) n * 4);
        }
    }
}

/* What the flags of a case are, bit by bit. */
enum { MINUS = 1, RELU = 2, BIAS = 4, FROM = 8, ONE = 16, FLAGS = 32 };

static void
check_one_out(VaeCheck *t, int n, int flags)
{
    if (!vae_check_begin(t, "tile_out_%d_%d", n, flags))
        return;
    const float *const none = NULL;
    const float *bias = vae_check_random(t, (size_t) n, 1);
    float *want[2];
    const float *from[2];
    VaeTileOut a = {.bias = flags & BIAS ? bias : none,
                    .minus = flags & MINUS,
                    .relu = flags & RELU,
                    .n = n};
    for (int k = 0; k < 4; k++)
        a.m[k] = vae_check_random(t, (size_t) n, 1);
    for (int k = 0; k < 2; k++) {
        from[k] = flags & FROM ? vae_check_random(t, (size_t) n, 1) : none;
        want[k] = floats(t, (size_t) n);
    }
    ((float *) a.m[1])[n / 2] = NAN; /* stays one */
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < n; c++) {
            const float m1 = a.m[1][c], m2 = a.m[2][c];
            const float z = k ? m1 - m2 + a.m[3][c] : a.m[0][c] + m1 + m2;
            float y = from[k] ? from[k][c] : 0;
            if (flags & BIAS)
                y += bias[c];
            y = flags & MINUS ? y - z : y + z;
            want[k][c] = flags & RELU && y < 0 ? 0 : y;
        }
    VaeQueue q;
    for (size_t set = 0; vae_check_queue(set, &q); set++)
        for (int over = 0; over < (flags & FROM ? 2 : 1); over++) {
            for (int k = 0; k < (flags & ONE ? 1 : 2); k++) {
                a.y[k] = floats(t, (size_t) n);
                a.from[k] = from[k];
                if (over) {
                    memcpy(a.y[k], from[k], (size_t) n * sizeof(float));
                    a.from[k] = a.y[k];
                }
            }
            vae_cpu_simd(&q)->tile_out(&a);
            for (int k = 0; k < (flags & ONE ? 1 : 2); k++)
                vae_check_close(t, over ? "y over itself" : "y", a.y[k],
                                want[k], (size_t) n, 0, 0);
        }
}

static void
check_out(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++)
        for (int flags = 0; flags < FLAGS; flags++)
            check_one_out(t, lengths[i], flags);
}

/* One of three, or of three rows or columns at `stride`. */
static float
tap(const float *g, size_t stride, int which)
{
    const float ends = 0.5f * (g[0] + g[2 * stride]);
    return which == 0   ? g[0]
           : which == 3 ? g[2 * stride]
           : which == 1 ? ends + 0.5f * g[stride]
                        : ends - 0.5f * g[stride];
}

static void
check_taps(VaeCheck *t)
{
    for (size_t i = 0; i < VAE_COUNT(lengths); i++) {
        const size_t n = (size_t) lengths[i], stride = n + i % 2 * 5;
        if (!vae_check_begin(t, "tile_taps_%zu", n))
            continue;
        const float *taps = vae_check_random(t, 9 * n, 1);
        float *want = floats(t, 16 * stride);
        for (size_t k = 0; k < n; k++)
            for (int part = 0; part < 16; part++) {
                float row[3];
                for (size_t c = 0; c < 3; c++)
                    row[c] = tap(taps + 9 * k + c, 3, part / 4);
                want[(size_t) part * stride + k] = tap(row, 1, part % 4);
            }
        VaeQueue q;
        for (size_t set = 0; vae_check_queue(set, &q); set++) {
            float *y = floats(t, 16 * stride);
            vae_cpu_simd(&q)->tile_taps(y, stride, taps, n);
            vae_check_equal(t, "taps", y, want, 16 * stride * sizeof *y);
        }
    }
}

int
main(int argc, char **argv)
{
    static const VaeCheckFunc all[] = {check_in, check_out, check_taps};
    return vae_check_main(argc, argv, all, VAE_COUNT(all));
}
