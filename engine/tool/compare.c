/*
 * compare.c: how far the tensors of two files are apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ssim.h"
#include "tool.h"

enum { BLOCK = 4096 };

typedef struct Peak {
    double value; /* 0: the range of A */
    bool clamp;   /* both sides, for PSNR only */
    double low, high;
} Peak;

typedef struct Difference {
    double max;
    uint64_t where; /* flat index of max */
    double squares, clamped_squares;
    double low, high; /* of the finite values of A */
    uint64_t elements;
} Difference;

/* By the kind of the tensor, as --help tells. */
static Peak
peak_of(const Options *o, const VaeTensorInfo *a)
{
    const bool frames = strncmp(a->name, "frames", 6) == 0;
    if (!isnan(o->peak)) {
        const bool unit = o->peak == 1;
        return (Peak){.value = o->peak,
                      .clamp = frames && (unit || o->peak == 2),
                      .low = unit ? 0 : -1,
                      .high = 1};
    }
    if (a->type == VAE_TYPE_U8)
        return (Peak){.value = 255};
    if (frames)
        return (Peak){.value = 2, .clamp = true, .low = -1, .high = 1};
    return (Peak){.value = 0};
}

static double
clamped(const Peak *p, double v)
{
    if (!p->clamp)
        return v;
    return v < p->low ? p->low : v > p->high ? p->high : v;
}

/* Infinite where only one is a number, zero where both are the same. */
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

static uint64_t
elements_of(const VaeTensorInfo *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (uint64_t) t->dims[i];
    return n;
}

static Difference
measure(const VaeTensorInfo *a, const VaeTensorInfo *b, const Peak *p)
{
    float x[BLOCK], y[BLOCK];
    Difference d = {.low = (double) INFINITY, .high = -(double) INFINITY};
    const uint8_t *pa = a->data, *pb = b->data;
    uint64_t left = elements_of(a);
    while (left > 0) {
        const size_t n = left < BLOCK ? (size_t) left : BLOCK;
        vae_type_to_float(x, pa, a->type, n);
        vae_type_to_float(y, pb, b->type, n);
        add_block(&d, p, x, y, n);
        pa += n * vae_type_size(a->type);
        pb += n * vae_type_size(b->type);
        left -= n;
    }
    return d;
}

/* "[0,3,47,79]" */
static const char *
where_text(const VaeTensorInfo *t, uint64_t flat, char *buffer, size_t size)
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

static bool
is_video(const VaeTensorInfo *t)
{
    return t->n_dims == 4 && t->dims[3] == 3;
}

/* NaN where it is not asked for. */
static double
ssim_of(const Options *o, const VaeTensorInfo *a, const VaeTensorInfo *b,
        double peak)
{
    if (isnan(o->min_ssim) || !is_video(a))
        return (double) NAN;
    return ssim_video(a, b, peak);
}

static int
compare_pair(const Options *o, const VaeTensorInfo *a, const VaeTensorInfo *b)
{
    char shape[128], where[192];
    Peak p = peak_of(o, a);
    const Difference d = measure(a, b, &p);
    const char *kind = isnan(o->peak) ? "" : " as given";
    if (p.value <= 0) {
        p.value = d.high > d.low ? d.high - d.low : 1;
        kind = ", the range of A";
    } else if (p.clamp) {
        kind = p.low < 0 ? ", clamped to -1..1" : ", clamped to 0..1";
    }
    const double n = (double) d.elements;
    const double mse = n > 0 ? d.clamped_squares / n : 0;
    const double psnr = 10 * log10(p.value * p.value / mse);
    const double ssim = ssim_of(o, a, b, p.value);
    printf("%s %s max %.9g at [%s] rms %.9g PSNR %.2f dB (peak %g%s)", a->name,
           vae_dims_text(a->dims, a->n_dims, shape, sizeof shape), d.max,
           where_text(a, d.where, where, sizeof where),
           n > 0 ? sqrt(d.squares / n) : 0, psnr, p.value, kind);
    if (!isnan(ssim))
        printf(" SSIM %.6f", ssim);
    const bool past =
        d.max > o->max_abs || psnr < o->min_psnr || ssim < o->min_ssim;
    printf("%s\n", past ? " PAST THE BOUND" : "");
    return past ? EXIT_DIFFERS : EXIT_OK;
}

static bool
same_shape(const VaeTensorInfo *a, const VaeTensorInfo *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++) {
        if (a->dims[i] != b->dims[i])
            return false;
    }
    return true;
}

static int
compare_named(const Options *o, const VaeTensorInfo *a, const VaeTensorInfo *b)
{
    char left[128], right[128];
    if (!same_shape(a, b)) {
        printf("%s DIFFERENT SHAPES: %s in %s, %s in %s\n", a->name,
               vae_dims_text(a->dims, a->n_dims, left, sizeof left),
               o->argument[0],
               vae_dims_text(b->dims, b->n_dims, right, sizeof right),
               o->argument[1]);
        return EXIT_DIFFERS;
    }
    if (!a->supported || !b->supported)
        return fail_text("tensor \"%s\": cannot compare %s with %s", a->name,
                         a->type_name, b->type_name);
    return compare_pair(o, a, b);
}

static void
list_names(const VaeTensorFile *f, char *buffer, size_t size)
{
    const size_t n = vae_tensor_file_count(f);
    size_t at = 0;
    buffer[0] = 0;
    for (size_t i = 0; i < n && at < size; i++) {
        if (i == 8) {
            snprintf(buffer + at, size - at, ", ...");
            break;
        }
        at += (size_t) snprintf(buffer + at, size - at, "%s%s", i ? ", " : "",
                                vae_tensor_file_at(f, i)->name);
    }
}

static int
none_in_common(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    char left[400], right[400];
    if (o->tensor)
        return fail_text("tensor \"%s\" is not in both files", o->tensor);
    list_names(a, left, sizeof left);
    list_names(b, right, sizeof right);
    return fail_text("no tensor in common: %s has %s; %s has %s",
                     o->argument[0], left, o->argument[1], right);
}

static int
compare_files(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    const size_t n = vae_tensor_file_count(a);
    size_t common = 0;
    int code = EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *x = vae_tensor_file_at(a, i);
        const VaeTensorInfo *y = vae_tensor_file_find(b, x->name);
        if (o->tensor && strcmp(x->name, o->tensor) != 0)
            continue;
        if (!y)
            continue;
        common++;
        const int one = compare_named(o, x, y);
        code = one > code ? one : code;
    }
    return common ? code : none_in_common(o, a, b);
}

int
command_compare(const Options *o)
{
    VaeTensorFile *a = NULL, *b = NULL;
    VaeError error;
    int code;
    if (vae_tensor_file_open(o->argument[0], &a, &error) != VAE_OK ||
        vae_tensor_file_open(o->argument[1], &b, &error) != VAE_OK)
        code = fail(&error);
    else
        code = compare_files(o, a, b);
    vae_tensor_file_free(&a);
    vae_tensor_file_free(&b);
    return code;
}
