/*
 * norm.cuh: what the norms have in common with kernels that normalise their own
 * result.
 */
#ifndef VAE_NORM_CUH
#define VAE_NORM_CUH

#include "common.cuh"

/* The factor that gives x a root mean square of 1, see kernels.h. */
VAE_DEVICE float
vae_rms_scale(const VaeNormArgs &a, float squares, float root)
{
    /* The compiler may contract a sum of a product, or not. */
    const float length = sqrtf(fmaf((float) a.c, a.eps, squares));
    return root / (length < 1e-12f ? 1e-12f : length);
}

template <int T>
VAE_DEVICE float
vae_rms_squares(float sum, const VaeOctet<T> &o)
{
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        const float v = vae_octet_get<T>(o, i);
        sum = fmaf(v, v, sum);
    }
    return sum;
}

/* The first element of y that is also written to the tail. */
static __host__ __device__ inline size_t
vae_norm_tail_from(const VaeNormArgs &a)
{
    return a.tail ? (size_t) (a.t - a.tail_frames) * a.h * a.w * a.c : SIZE_MAX;
}

/* kept: also to the tail. A kernel's a.tail begins so far before the tail that
 * both have the same indices. */
template <int Y>
VAE_DEVICE void
vae_norm_store(const VaeNormArgs &a, size_t at, const VaeOctet<Y> &y, int n,
               bool kept)
{
    vae_octet_store<Y>(a.y, a.y_type, at, y, n);
    if (kept)
        vae_octet_store<Y>(a.tail, a.y_type, at, y, n);
}

/* n channels from `first` on, at element `at` of x and y; kept: see
 * vae_norm_store(). */
struct VaeNormChannels {
    size_t at;
    int first, n;
    bool kept;
};

/* The options of an rms norm; constants where a loop is compiled for them. */
struct VaeRmsOptions {
    bool silu, gain, offset, relu;
};

/* relu: false where no norm has it, so that the loop does not test for it. */
VAE_DEVICE VaeRmsOptions
vae_rms_options(const VaeNormArgs &a, bool relu)
{
    return {a.silu, a.gain != NULL, a.offset != NULL, relu};
}

/* Computes the channels of one octet. gain and offset have the alignment of x,
 * or are NULL. */
template <int X, int Y>
VAE_DEVICE void
vae_rms_values(const VaeNormArgs &a, VaeRmsOptions has, const VaeOctet<X> &x,
               const VaeNormChannels &of, float scale, VaeOctet<Y> &y)
{
    const int G = X == VAE_ANY ? VAE_ANY : VAE_TYPE_F32;
    VaeOctet<G> gain, offset;
    float v[8];
    /* Lanes without channels load the first ones, and store nothing. */
    const int n = X == VAE_ANY ? of.n : 8;
    const size_t from = (size_t) (of.first < a.c ? of.first : 0);
    vae_octet_load<G>(gain, a.gain, VAE_TYPE_F32, from, has.gain ? n : 0);
    vae_octet_load<G>(offset, a.offset, VAE_TYPE_F32, from, has.offset ? n : 0);
    VAE_UNROLL
    for (int i = 0; i < 8; i++) {
        const float by = has.gain ? vae_octet_get<G>(gain, i) : 1;
        v[i] = vae_octet_get<X>(x, i) * scale;
        v[i] = has.offset ? fmaf(v[i], by, vae_octet_get<G>(offset, i))
                          : v[i] * by;
        if (has.silu)
            v[i] = vae_silu_for<Y>(v[i], a.y_type);
        else if (has.relu)
            v[i] = v[i] < 0 ? 0 : v[i];
    }
    vae_octet_set<Y>(y, v);
}

/* Writes them. */
template <int X, int Y>
VAE_DEVICE void
vae_rms_octet(const VaeNormArgs &a, VaeRmsOptions has, const VaeOctet<X> &x,
              const VaeNormChannels &to, float scale)
{
    VaeOctet<Y> y;
    vae_rms_values<X, Y>(a, has, x, to, scale, y);
    vae_norm_store<Y>(a, to.at, y, to.n, to.kept);
}

/* The smallest number of lanes, a power of two, for n octets with `chunks` per
 * lane. */
static inline int
vae_rms_lanes_for(int n, int chunks)
{
    int lanes = 1;
    while (lanes * chunks < n)
        lanes *= 2;
    return lanes;
}

/*
 * Octets per lane. All widths of the known models are 3, 4 or 5 times a power
 * of two octets: C = 96 is 12 octets, 4 lanes with 3, so that a warp has 8
 * pixels. 0: one is enough, or it takes more than 32 lanes.
 */
static inline int
vae_rms_chunks(int n)
{
    static const int choices[] = {3, 4, 5};
    int best = 0, most = 0;
    for (int i = 0; i < 3 && n > 2; i++) {
        const int lanes = vae_rms_lanes_for(n, choices[i]);
        if (lanes <= 32 && (!best || choices[i] * lanes < most)) {
            best = choices[i];
            most = choices[i] * lanes;
        }
    }
    return best;
}

/* The number of lanes that share a pixel of c channels. */
static inline int
vae_rms_lanes(int c)
{
    const int n = (c + 7) / 8, chunks = vae_rms_chunks(n);
    return chunks ? vae_rms_lanes_for(n, chunks) : n <= 2 ? n : 32;
}

#endif
