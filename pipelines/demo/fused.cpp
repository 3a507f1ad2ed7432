#include <torch/extension.h>
#include <omp.h>
#include <cmath>
// Group norm (one picture, channels last) followed by SiLU, bfloat16 or float
// in and out, float inside.
template <class T> struct IO;
template <> struct IO<float> {
    static inline float
    ld(const float *p)
    {
        return *p;
    }
    static inline void
    st(float *p, float v)
    {
        *p = v;
    }
};
template <> struct IO<at::BFloat16> {
    static inline float
    ld(const at::BFloat16 *p)
    {
        uint32_t u = uint32_t(*(const uint16_t *) p) << 16;
        float f;
        __builtin_memcpy(&f, &u, 4);
        return f;
    }
    static inline void
    st(at::BFloat16 *p, float v)
    {
        uint32_t u;
        __builtin_memcpy(&u, &v, 4);
        *(uint16_t *) p = uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
};
template <class T, int P, bool S>
static void
fwd1(const T *__restrict x, T *__restrict y, int64_t n, int C, int G,
     const float *w, const float *b, float eps, float *mean, float *rstd)
{
    float s[P] = {}, q[P] = {};
    int64_t m = n * C / P;
    // statistics in blocks, for float sums that stay exact enough
    double S1[P] = {}, S2[P] = {};
    for (int64_t i0 = 0; i0 < m; i0 += 512) {
        int64_t i1 = std::min(m, i0 + 512);
        for (int j = 0; j < P; j++)
            s[j] = q[j] = 0;
        for (int64_t i = i0; i < i1; i++) {
            const T *p = x + i * P;
            for (int j = 0; j < P; j++) {
                float v = IO<T>::ld(p + j);
                s[j] += v;
                q[j] += v * v;
            }
        }
        for (int j = 0; j < P; j++) {
            S1[j] += s[j];
            S2[j] += q[j];
        }
    }
    double g1[64] = {}, g2[64] = {};
    int cg = C / G;
    for (int j = 0; j < P; j++) {
        g1[(j % C) / cg] += S1[j];
        g2[(j % C) / cg] += S2[j];
    }
    float A[P], B[P];
    for (int g = 0; g < G; g++) {
        double N = double(n) * cg, mu = g1[g] / N,
               var = std::max(0., g2[g] / N - mu * mu);
        mean[g] = mu;
        rstd[g] = 1 / std::sqrt(var + eps);
    }
    for (int j = 0; j < P; j++) {
        int c = j % C, g = c / cg;
        A[j] = w[c] * rstd[g];
        B[j] = b[c] - mean[g] * A[j];
    }
    for (int64_t i = 0; i < m; i++) {
        const T *p = x + i * P;
        T *o = y + i * P;
        for (int j = 0; j < P; j++) {
            float u = IO<T>::ld(p + j) * A[j] + B[j];
            if (S)
                u = u / (1 + expf(-u));
            IO<T>::st(o + j, u);
        }
    }
}
template <class T, int P, bool S>
static void
bwd1(const T *__restrict x, const T *__restrict dy, T *__restrict dx, int64_t n,
     int C, int G, const float *w, const float *b, const float *mean,
     const float *rstd, double *dw, double *db)
{
    int cg = C / G;
    int64_t m = n * C / P;
    float R[P], M[P], W[P], B[P];
    for (int j = 0; j < P; j++) {
        int c = j % C, g = c / cg;
        R[j] = rstd[g];
        M[j] = -mean[g] * rstd[g];
        W[j] = w[c];
        B[j] = b[c];
    }
    double S1[P] = {}, S2[P] = {};
    for (int64_t i0 = 0; i0 < m; i0 += 512) {
        int64_t i1 = std::min(m, i0 + 512);
        float s[P], q[P];
        for (int j = 0; j < P; j++)
            s[j] = q[j] = 0;
        for (int64_t i = i0; i < i1; i++) {
            const T *p = x + i * P, *d = dy + i * P;
            for (int j = 0; j < P; j++) {
                float h = IO<T>::ld(p + j) * R[j] + M[j], e = IO<T>::ld(d + j);
                if (S) {
                    float u = h * W[j] + B[j], t = 1 / (1 + expf(-u));
                    e *= t * (1 + u * (1 - t));
                }
                s[j] += e;
                q[j] += e * h;
            }
        }
        for (int j = 0; j < P; j++) {
            S1[j] += s[j];
            S2[j] += q[j];
        }
    }
    double a[64] = {}, c2[64] = {};
    for (int j = 0; j < P; j++) {
        int c = j % C;
        db[c] += S1[j];
        dw[c] += S2[j];
        a[c / cg] += S1[j] * w[c];
        c2[c / cg] += S2[j] * w[c];
    }
    float K0[P], K1[P];
    double N = double(n) * cg;
    for (int j = 0; j < P; j++) {
        int g = (j % C) / cg;
        K0[j] = a[g] / N;
        K1[j] = c2[g] / N;
    }
    for (int64_t i = 0; i < m; i++) {
        const T *p = x + i * P, *d = dy + i * P;
        T *o = dx + i * P;
        for (int j = 0; j < P; j++) {
            float h = IO<T>::ld(p + j) * R[j] + M[j], e = IO<T>::ld(d + j);
            if (S) {
                float u = h * W[j] + B[j], t = 1 / (1 + expf(-u));
                e *= t * (1 + u * (1 - t));
            }
            IO<T>::st(o + j, R[j] * (e * W[j] - K0[j] - h * K1[j]));
        }
    }
}
template <class T, bool S>
static void
fwd(at::Tensor x, at::Tensor y, at::Tensor w, at::Tensor b, at::Tensor mean,
    at::Tensor rstd, int G, float eps)
{
    int64_t N = x.size(0), n = x.size(1), C = x.size(2);
    auto *X = x.data_ptr<T>();
    auto *Y = y.data_ptr<T>();
    auto *W = w.data_ptr<float>(), *B = b.data_ptr<float>(),
         *M = mean.data_ptr<float>(), *R = rstd.data_ptr<float>();
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < N; i++) {
        auto *a = X + i * n * C;
        auto *o = Y + i * n * C;
        float *m = M + i * G, *r = R + i * G;
        if (C == 8 && n % 2 == 0)
            fwd1<T, 16, S>(a, o, n, C, G, W, B, eps, m, r);
        else if (C == 16)
            fwd1<T, 16, S>(a, o, n, C, G, W, B, eps, m, r);
        else if (C == 32)
            fwd1<T, 32, S>(a, o, n, C, G, W, B, eps, m, r);
        else if (C == 64)
            fwd1<T, 64, S>(a, o, n, C, G, W, B, eps, m, r);
        else if (C == 8)
            fwd1<T, 8, S>(a, o, n, C, G, W, B, eps, m, r);
    }
}
template <class T, bool S>
static void
bwd(at::Tensor x, at::Tensor dy, at::Tensor dx, at::Tensor w, at::Tensor b,
    at::Tensor mean, at::Tensor rstd, at::Tensor dw, at::Tensor db, int G)
{
    int64_t N = x.size(0), n = x.size(1), C = x.size(2);
    auto *X = x.data_ptr<T>(), *D = dy.data_ptr<T>(), *O = dx.data_ptr<T>();
    auto *W = w.data_ptr<float>(), *B = b.data_ptr<float>(),
         *M = mean.data_ptr<float>(), *R = rstd.data_ptr<float>();
    auto *DW = dw.data_ptr<double>(), *DB = db.data_ptr<double>();
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < N; i++) {
        auto *a = X + i * n * C;
        auto *d = D + i * n * C;
        auto *o = O + i * n * C;
        float *m = M + i * G, *r = R + i * G;
        double *pw = DW + i * C, *pb = DB + i * C;
        if (C == 8 && n % 2 == 0)
            bwd1<T, 16, S>(a, d, o, n, C, G, W, B, m, r, pw, pb);
        else if (C == 16)
            bwd1<T, 16, S>(a, d, o, n, C, G, W, B, m, r, pw, pb);
        else if (C == 32)
            bwd1<T, 32, S>(a, d, o, n, C, G, W, B, m, r, pw, pb);
        else if (C == 64)
            bwd1<T, 64, S>(a, d, o, n, C, G, W, B, m, r, pw, pb);
        else if (C == 8)
            bwd1<T, 8, S>(a, d, o, n, C, G, W, B, m, r, pw, pb);
    }
}
std::vector<at::Tensor>
gn_fwd(at::Tensor x, at::Tensor w, at::Tensor b, int64_t G, double eps,
       bool silu)
{
    auto y = at::empty_like(x);
    auto o = x.options().dtype(at::kFloat);
    auto mean = at::empty({x.size(0), G}, o),
         rstd = at::empty({x.size(0), G}, o);
    if (x.scalar_type() == at::kFloat)
        silu ? fwd<float, true>(x, y, w, b, mean, rstd, G, eps)
             : fwd<float, false>(x, y, w, b, mean, rstd, G, eps);
    else
        silu ? fwd<at::BFloat16, true>(x, y, w, b, mean, rstd, G, eps)
             : fwd<at::BFloat16, false>(x, y, w, b, mean, rstd, G, eps);
    return {y, mean, rstd};
}
std::vector<at::Tensor>
gn_bwd(at::Tensor x, at::Tensor dy, at::Tensor w, at::Tensor b, at::Tensor mean,
       at::Tensor rstd, int64_t G, bool silu)
{
    auto dx = at::empty_like(x);
    auto o = x.options().dtype(at::kDouble);
    auto dw = at::zeros({x.size(0), x.size(2)}, o),
         db = at::zeros({x.size(0), x.size(2)}, o);
    if (x.scalar_type() == at::kFloat)
        silu ? bwd<float, true>(x, dy, dx, w, b, mean, rstd, dw, db, G)
             : bwd<float, false>(x, dy, dx, w, b, mean, rstd, dw, db, G);
    else
        silu ? bwd<at::BFloat16, true>(x, dy, dx, w, b, mean, rstd, dw, db, G)
             : bwd<at::BFloat16, false>(x, dy, dx, w, b, mean, rstd, dw, db, G);
    return {dx, dw.sum(0).to(at::kFloat), db.sum(0).to(at::kFloat)};
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("gn_fwd", &gn_fwd, py::call_guard<py::gil_scoped_release>());
    m.def("gn_bwd", &gn_bwd, py::call_guard<py::gil_scoped_release>());
}
