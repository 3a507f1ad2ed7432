/*
 * numbers.c: the differences of two tensors of one shape.
 */
#include <math.h>
#include <string.h>

#include "compare.h"
#include "ssim.h"

enum { BLOCK = 4096 };

typedef struct Peak {
    double value; /* 0: the range of A */
    bool clamp;   /* clamp both sides to range, for PSNR only */
    VideoRange range;
} Peak;

typedef struct Difference {
    double max;
    uint64_t where; /* flat index of max */
    double squares, clamped_squares;
    double low, high; /* finite values of A */
    uint64_t elements;
    uint64_t nan_a, nan_b, nan_both;
} Difference;

bool
peak_is_range(const Options *o)
{
    return o->peak == 1 || o->peak == 2;
}

/* The peak for the kind of tensor, see compare --help. */
static Peak
peak_of(const Options *o, const View *a)
{
    const VideoRange range = a->black_white;
    const bool frames = a->range || is_frames(a->tensor);
    const bool given = !isnan(o->peak);
    if (!given && a->type == VAE_TYPE_U8 && !a->range)
        return (Peak){.value = 255};
    if (!given && !frames)
        return (Peak){.value = 0};
    return (Peak){.value = given ? o->peak
                                 : (double) range.high - (double) range.low,
                  .clamp = frames && (!given || peak_is_range(o)),
                  .range = range};
}

static double
clamped(const Peak *p, double v)
{
    if (!p->clamp)
        return v;
    const double low = (double) p->range.low, high = (double) p->range.high;
    return v < low ? low : v > high ? high : v;
}

/* Zero if both are equal or NaN; infinite if only one is finite. */
static double
distance(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    const double d = fabs(a - b);
    return isnan(d) ? (double) INFINITY : d;
}

static void
add_block(Difference *d, const Peak *p, const float *a, const float *b,
          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double x = a[i], y = b[i], e = distance(x, y);
        if (e > d->max) {
            d->max = e;
            d->where = d->elements + i;
        }
        d->nan_a += isnan(x);
        d->nan_b += isnan(y);
        d->nan_both += isnan(x) && isnan(y);
        d->squares += e * e;
        const double c = isinf(e) ? e : clamped(p, x) - clamped(p, y);
        d->clamped_squares += isnan(c) ? 0 : c * c;
        if (isfinite(x)) {
            d->low = x < d->low ? x : d->low;
            d->high = x > d->high ? x : d->high;
        }
    }
    d->elements += n;
}

static Difference
measure(const View v[2], const Peak *p)
{
    Difference d = {.low = (double) INFINITY, .high = -(double) INFINITY};
    float x[BLOCK], y[BLOCK];
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t k = 0; k < v->columns; k++)
            for (uint64_t at = 0; at < v->plane; at += BLOCK) {
                const uint64_t left = v->plane - at;
                const size_t n = left < BLOCK ? (size_t) left : BLOCK;
                read_view(x, &v[0], i, k, at, n);
                read_view(y, &v[1], i, k, at, n);
                add_block(&d, p, x, y, n);
            }
    return d;
}

/* Writes a position, such as "0,3,47,79". */
static const char *
where_text(const View *t, uint64_t flat, char *buffer, size_t size)
{
    int64_t index[VAE_MAX_DIMS] = {0};
    size_t at = 0;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        index[i] = (int64_t) (flat % (uint64_t) t->dims[i]);
        flat /= (uint64_t) t->dims[i];
    }
    buffer[0] = 0;
    for (int i = 0; i < t->n_dims && at < size; i++)
        at += (size_t) snprintf(buffer + at, size - at, "%s%lld", i ? "," : "",
                                (long long) index[i]);
    return buffer;
}

/* NaN if --min-ssim is not given or the tensors are no video. */
static double
ssim_of(const Options *o, const View v[2], double peak)
{
    const VaeTensorInfo *a = v[0].tensor, *b = v[1].tensor;
    if (isnan(o->min_ssim) || !is_video(a) || !is_video(b))
        return (double) NAN;
    return ssim_video(a, b, v->range, peak);
}

/* Uses the range of A if there is no other peak; describes the peak in `kind`.
 */
static void
complete_peak(const Options *o, const Difference *d, Peak *p, char *kind,
              size_t size)
{
    if (p->value <= 0) {
        p->value = d->high > d->low ? d->high - d->low : 1;
        snprintf(kind, size, ", the range of A");
    } else if (p->clamp)
        snprintf(kind, size, ", clamped to %g..%g", (double) p->range.low,
                 (double) p->range.high);
    else
        snprintf(kind, size, "%s", isnan(o->peak) ? "" : " as given");
}

/* True if a bound is given and value misses it; NaN misses every bound. */
static bool
below(double value, double bound)
{
    return !isnan(bound) && !(value >= bound);
}

void
print_names(const View v[2])
{
    const char *a = v[0].tensor->name, *b = v[1].tensor->name;
    Plain name;
    printf("%s", plain(a, &name));
    if (strcmp(a, b) != 0)
        printf(" and %s", plain(b, &name));
}

int
compare_numbers(const Options *o, const View v[2])
{
    const View *a = &v[0];
    char shape[128], where[192], kind[64];
    vae_dims_text(a->dims, a->n_dims, shape, sizeof shape);
    if (elements_of(a->tensor) == 0) {
        print_names(v);
        printf(" %s without elements in both files\n", shape);
        return EXIT_OK;
    }
    Peak p = peak_of(o, a);
    const Difference d = measure(v, &p);
    complete_peak(o, &d, &p, kind, sizeof kind);
    const bool nan = d.nan_a || d.nan_b;
    const double n = (double) d.elements;
    const double mse = d.clamped_squares / n;
    const double psnr =
        nan ? (double) NAN : 10 * log10(p.value * p.value / mse);
    const double ssim = ssim_of(o, v, p.value);
    print_names(v);
    printf(" %s max %.9g at [%s] rms %.9g ", shape, d.max,
           where_text(a, d.where, where, sizeof where), sqrt(d.squares / n));
    if (nan)
        printf("PSNR none, NaN: %llu in A, %llu in B, %llu in both",
               (unsigned long long) d.nan_a, (unsigned long long) d.nan_b,
               (unsigned long long) d.nan_both);
    else
        printf("PSNR %.2f dB (peak %g%s)", psnr, p.value, kind);
    if (!isnan(ssim))
        printf(" SSIM %.6f", ssim);
    const bool one_sided = d.nan_a > d.nan_both || d.nan_b > d.nan_both;
    const bool past = d.max > o->max_abs || below(psnr, o->min_psnr) ||
                      (is_video(a->tensor) && below(ssim, o->min_ssim));
    if (one_sided)
        printf(" NaN IN ONE FILE ONLY");
    printf("%s\n", past ? " PAST THE BOUND" : "");
    return past || one_sided ? EXIT_DIFFERS : EXIT_OK;
}
