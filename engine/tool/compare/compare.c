/*
 * compare.c: compares the tensors of two files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ssim.h"
#include "tool.h"
#include "vae-private/spaces.h"

enum { BLOCK = 4096, MAX_ROWS = 1024 };

typedef struct Peak {
    double value; /* 0: the range of A */
    bool clamp;   /* clamp both sides to range, for PSNR only */
    VideoRange range;
} Peak;

/* A tensor as rows x columns planes, so that tensors in different layouts are
 * read in the same order. */
typedef struct View {
    const VaeTensorInfo *tensor;
    const uint8_t *data;
    VaeType type;
    int n_dims;
    int64_t dims[VAE_MAX_DIMS]; /* for comparing and for printed positions */
    int64_t rows, columns;
    uint64_t row_stride, column_stride; /* bytes */
    uint64_t plane;                     /* elements */
    VideoRange black_white;             /* range of frames */
    const VideoRange *range;            /* U8 is scaled to it; NULL: as it is */
    bool scaled; /* (value - mean) / std of the row, which is a channel */
    float mean[MAX_ROWS], std[MAX_ROWS];
} View;

typedef struct Difference {
    double max;
    uint64_t where; /* flat index of max */
    double squares, clamped_squares;
    double low, high; /* finite values of A */
    uint64_t elements;
    uint64_t nan_a, nan_b, nan_both;
} Difference;

/* True if --peak gives the range of frames: 0..1 or -1..1. */
static bool
peak_is_range(const Options *o)
{
    return o->peak == 1 || o->peak == 2;
}

/* Finds the range of frames in both files: from --peak, else as the files
 * state, else -1..1. False if the files state different ranges. U8 has no range
 * of its own: next to float it takes that of the float tensor. */
static bool
find_range(const Options *o, const VaeTensorFile *file_a,
           const VaeTensorInfo *a, const VaeTensorFile *file_b,
           const VaeTensorInfo *b, VideoRange *out)
{
    const bool bytes_a = a->type == VAE_TYPE_U8;
    const bool bytes_b = b->type == VAE_TYPE_U8;
    VideoRange x, y;
    *out = (VideoRange){.low = o->peak == 1 ? 0 : -1, .high = 1};
    if (peak_is_range(o))
        return true;
    const bool in_a = video_range(file_a, &x), in_b = video_range(file_b, &y);
    if (in_a && (!in_b || !bytes_a))
        *out = x;
    else if (in_b)
        *out = y;
    return !isnan(o->peak) || bytes_a || bytes_b || !in_a || !in_b ||
           (x.low == y.low && x.high == y.high);
}

static bool
is_frames(const VaeTensorInfo *t)
{
    return strncmp(t->name, "frames", 6) == 0;
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

static uint64_t
elements_of(const VaeTensorInfo *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        n *= (uint64_t) t->dims[i];
    return n;
}

static View
whole_view(const VaeTensorInfo *t)
{
    View v = {.tensor = t,
              .data = t->data,
              .type = t->type,
              .n_dims = t->n_dims,
              .rows = 1,
              .columns = 1,
              .plane = elements_of(t)};
    memcpy(v.dims, t->dims, sizeof v.dims);
    return v;
}

/* A view of latents as [C,T,h,w] in any layout; fails if they are none.
 * --layout is for files that state none. batch_index: as in the options. */
static VaeStatus
latent_view(const Options *o, const VaeTensorFile *file, const VaeTensorInfo *t,
            int batch_index, View *out, VaeError *error)
{
    const bool stated = vae_tensor_file_metadata(file, "vae.layout");
    VaeLatentOptions options = latent_options(o);
    VaeLatentClip c = VAE_INIT(VaeLatentClip);
    options.tensor = t->name;
    options.batch_index = batch_index;
    options.layout = stated ? VAE_LAYOUT_AUTO : o->layout;
    VaeStatus status = vae_latent_clip_find(file, &options, &c, error);
    options.layout = o->layout;
    if (status == VAE_ERR_FORMAT && stated)
        status = vae_latent_clip_find(file, &options, &c, error);
    if (status != VAE_OK)
        return status;
    *out = (View){.tensor = t,
                  .data = c.data,
                  .type = t->type,
                  .n_dims = 4,
                  .dims = {c.channels, c.t, c.height, c.width},
                  .rows = c.channels,
                  .columns = c.t,
                  .row_stride = c.c_stride,
                  .column_stride = c.t_stride,
                  .plane = (uint64_t) c.height * (uint64_t) c.width};
    return VAE_OK;
}

/* Views both as [C,T,h,w]. --batch-index is for files with a batch. */
static VaeStatus
latent_views(const Options *o, const VaeTensorFile *file_a,
             const VaeTensorInfo *a, const VaeTensorFile *file_b,
             const VaeTensorInfo *b, View *x, View *y, VaeError *error)
{
    const int most = a->n_dims > b->n_dims ? a->n_dims : b->n_dims;
    const VaeStatus status = latent_view(
        o, file_a, a, a->n_dims == most ? o->batch_index : -1, x, error);
    if (status != VAE_OK)
        return status;
    return latent_view(o, file_b, b, b->n_dims == most ? o->batch_index : -1, y,
                       error);
}

/* Views both as latents if a layout is known, only one of them has a batch or
 * --batch-index is given, else as they are. Fails if there is no such clip. */
static VaeStatus
make_views(const Options *o, const VaeTensorFile *file_a,
           const VaeTensorInfo *a, const VaeTensorFile *file_b,
           const VaeTensorInfo *b, View *x, View *y, VaeError *error)
{
    const bool clip = o->batch_index >= 0;
    const bool differ = clip || a->n_dims != b->n_dims ||
                        o->layout != VAE_LAYOUT_AUTO ||
                        vae_tensor_file_metadata(file_a, "vae.layout") ||
                        vae_tensor_file_metadata(file_b, "vae.layout");
    const bool video = is_frames(a) || strncmp(a->name, "video", 5) == 0;
    const VaeStatus status =
        differ && !video ? latent_views(o, file_a, a, file_b, b, x, y, error)
                         : VAE_ERR_NOT_FOUND;
    if (status == VAE_OK || (clip && !video && a->n_dims > 3))
        return status;
    *x = whole_view(a);
    *y = whole_view(b);
    return VAE_OK;
}

/* Reads n elements of a plane, from element `first` on. */
static void
read_view(float *out, const View *v, int64_t row, int64_t column,
          uint64_t first, size_t n)
{
    const uint8_t *from = v->data + (uint64_t) row * v->row_stride +
                          (uint64_t) column * v->column_stride +
                          first * vae_type_size(v->type);
    video_read(out, from, v->type, n, v->range);
    for (size_t i = 0; v->scaled && i < n; i++)
        out[i] = (out[i] - v->mean[row]) / v->std[row];
}

static Difference
measure(const View *a, const View *b, const Peak *p)
{
    Difference d = {.low = (double) INFINITY, .high = -(double) INFINITY};
    float x[BLOCK], y[BLOCK];
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t k = 0; k < a->columns; k++)
            for (uint64_t at = 0; at < a->plane; at += BLOCK) {
                const uint64_t left = a->plane - at;
                const size_t n = left < BLOCK ? (size_t) left : BLOCK;
                read_view(x, a, i, k, at, n);
                read_view(y, b, i, k, at, n);
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
ssim_of(const Options *o, const View *a, const View *b, double peak)
{
    if (isnan(o->min_ssim) || !is_video(a->tensor) || !is_video(b->tensor))
        return (double) NAN;
    return ssim_video(a->tensor, b->tensor, a->range, peak);
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

static void
print_names(const View *a, const View *b)
{
    Plain name;
    printf("%s", plain(a->tensor->name, &name));
    if (strcmp(a->tensor->name, b->tensor->name) != 0)
        printf(" and %s", plain(b->tensor->name, &name));
}

static int
compare_pair(const Options *o, const View *a, const View *b)
{
    char shape[128], where[192], kind[64];
    vae_dims_text(a->dims, a->n_dims, shape, sizeof shape);
    if (elements_of(a->tensor) == 0) {
        print_names(a, b);
        printf(" %s without elements in both files\n", shape);
        return EXIT_OK;
    }
    Peak p = peak_of(o, a);
    const Difference d = measure(a, b, &p);
    complete_peak(o, &d, &p, kind, sizeof kind);
    const bool nan = d.nan_a || d.nan_b;
    const double n = (double) d.elements;
    const double mse = d.clamped_squares / n;
    const double psnr =
        nan ? (double) NAN : 10 * log10(p.value * p.value / mse);
    const double ssim = ssim_of(o, a, b, p.value);
    print_names(a, b);
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

static bool
same_shape(const View *a, const View *b)
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
ranges_differ(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    VideoRange x, y;
    video_range(a, &x);
    video_range(b, &y);
    printf(" DIFFERENT RANGES: black and white are %g and %g in %s, %g and %g "
           "in %s; --peak 2 compares the numbers as they are; to compare the "
           "pictures, scale the frames of one file, and its "
           "vae.pixel_range\n",
           (double) x.low, (double) x.high, o->argument[0], (double) y.low,
           (double) y.high, o->argument[1]);
    return EXIT_DIFFERS;
}

/* The normalization of the latents in both files, as decode reads them. The
 * options are for files that do not state it. */
typedef struct Scales {
    VaeNormalization n[2];
    bool assumed[2];   /* the file does not state it */
    const char *space; /* of both; NULL: not known, or not the same */
    bool differ;
} Scales;

static Scales
find_scales(const Options *o, const VaeTensorFile *file_a,
            const VaeTensorInfo *a, const VaeTensorFile *file_b,
            const VaeTensorInfo *b)
{
    const VaeTensorFile *const files[] = {file_a, file_b};
    const VaeTensorInfo *const tensors[] = {a, b};
    const char *spaces[2];
    Scales s = {.differ = false};
    for (int i = 0; i < 2; i++) {
        VaeLatentClip c = VAE_INIT(VaeLatentClip);
        VaeLatentOptions first = latent_options(o);
        first.batch_index = 0;
        if (vae_latent_clip_find(files[i], &first, &c, NULL) != VAE_OK ||
            strcmp(c.tensor, tensors[i]->name) != 0)
            return s;
        const bool stated =
            c.normalization_stated || c.normalization == VAE_COMFYUI;
        s.assumed[i] = !stated && !o->normalization_given;
        spaces[i] = c.space ? c.space : o->space;
        s.n[i] =
            stated || s.assumed[i] ? c.normalization : o->params.normalization;
    }
    s.space = spaces[0] ? spaces[0] : spaces[1];
    if (spaces[1] && strcmp(s.space, spaces[1]) != 0)
        s.space = NULL;
    for (int i = 0; i < 2 && vae_space_find(s.space); i++)
        s.n[i] = vae_space_normalization(s.space, s.n[i]);
    s.differ = s.n[0] != s.n[1];
    return s;
}

/* Makes the raw side normalized. False if the statistics are not known: those
 * of some spaces are in the weights. */
static bool
same_scale(const Options *o, const VaeTensorFile *file_a,
           const VaeTensorFile *file_b, const Scales *s, View *x, View *y)
{
    const VaeSpace *space = vae_space_find(s->space);
    if (!space || (!space->std && space->factor <= 0) ||
        latent_views(o, file_a, x->tensor, file_b, y->tensor, x, y, NULL) !=
            VAE_OK ||
        !same_shape(x, y) || x->rows > MAX_ROWS ||
        (space->std && x->rows != space->channels))
        return false;
    View *raw = s->n[0] == VAE_RAW ? x : y;
    raw->scaled = true;
    vae_space_statistics(s->space, (int) raw->rows, raw->mean, raw->std);
    return true;
}

static void
print_scales(const Options *o, const Scales *s, const char *rest)
{
    static const char *const words[] = {"", " (not stated)"};
    printf("the latents are %s in %s%s and %s in %s%s, %s\n",
           vae_normalization_name(s->n[0]), o->argument[0],
           words[s->assumed[0]], vae_normalization_name(s->n[1]),
           o->argument[1], words[s->assumed[1]], rest);
}

static int
compare_named(const Options *o, const VaeTensorFile *file_a,
              const VaeTensorInfo *a, const VaeTensorFile *file_b,
              const VaeTensorInfo *b)
{
    char left[128], right[128];
    VideoRange range;
    View x, y;
    const bool same_range = find_range(o, file_a, a, file_b, b, &range);
    const Scales scales = find_scales(o, file_a, a, file_b, b);
    VaeError error;
    if (make_views(o, file_a, a, file_b, b, &x, &y, &error) != VAE_OK)
        return fail(&error);
    x.black_white = y.black_white = range;
    /* U8 is scaled to the range next to a float tensor, or if --peak gives the
     * range. */
    const int bytes = (a->type == VAE_TYPE_U8) + (b->type == VAE_TYPE_U8);
    if (is_video(a) && is_video(b) &&
        (bytes == 1 || (bytes == 2 && peak_is_range(o))))
        x.range = y.range = &range;
    if (!same_shape(&x, &y)) {
        print_names(&x, &y);
        printf(" DIFFERENT SHAPES: %s in %s, %s in %s\n",
               vae_dims_text(x.dims, x.n_dims, left, sizeof left),
               o->argument[0],
               vae_dims_text(y.dims, y.n_dims, right, sizeof right),
               o->argument[1]);
        return EXIT_DIFFERS;
    }
    if (a->strided || b->strided) {
        vae_tensor_refuse(a->strided ? file_a : file_b, a->strided ? a : b, "",
                          "", &error);
        return fail(&error);
    }
    if (!a->supported || !b->supported)
        return fail_text("tensor \"%s\": cannot compare %s with %s", a->name,
                         vae_type_words(a->type_name, left, sizeof left),
                         vae_type_words(b->type_name, right, sizeof right));
    if (!same_range && is_frames(a) && is_frames(b)) {
        print_names(&x, &y);
        return ranges_differ(o, file_a, file_b);
    }
    const bool converted =
        scales.differ && same_scale(o, file_a, file_b, &scales, &x, &y);
    if (scales.differ && !converted && !scales.assumed[0] &&
        !scales.assumed[1]) {
        print_names(&x, &y);
        printf(" DIFFERENT SCALES: ");
        print_scales(o, &scales,
                     "and the statistics that convert them are not known: "
                     "decode both to compare them");
        return EXIT_DIFFERS;
    }
    const int code = compare_pair(o, &x, &y);
    if (a->type == VAE_TYPE_F64 || b->type == VAE_TYPE_F64)
        printf("  float64 is compared as float32\n");
    if (scales.differ) {
        printf("  ");
        print_scales(o, &scales,
                     converted ? "and are compared as normalized ones"
                               : "and are compared as they are: the statistics "
                                 "that convert them are not known");
    }
    return code;
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

/* The video of b under the other of its two names, if a has only one of them.
 */
static const VaeTensorInfo *
other_video(const VaeTensorFile *a, const VaeTensorInfo *x,
            const VaeTensorFile *b)
{
    static const char *const names[] = {"video_u8", "frames"};
    for (int i = 0; i < 2; i++) {
        const VaeTensorInfo *y = vae_tensor_file_find(b, names[1 - i]);
        if (strcmp(x->name, names[i]) == 0 && is_video(x) && y && is_video(y) &&
            !vae_tensor_file_find(a, names[1 - i]))
            return y;
    }
    return NULL;
}

/* True for the tensor of an npy file, which has no name. */
static bool
is_nameless(const VaeTensorInfo *t)
{
    return strcmp(t->name, "npy") == 0;
}

/* True if only one of the tensors has the name of latents in files of ComfyUI.
 */
static bool
one_is_comfyui(const VaeTensorInfo *x, const VaeTensorInfo *y)
{
    static const char name[] = "latent_tensor";
    return (strcmp(x->name, name) == 0) != (strcmp(y->name, name) == 0);
}

/* The latents of the file, or its only tensor; NULL if there are several. */
static const VaeTensorInfo *
main_tensor(const VaeTensorFile *f)
{
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    if (vae_tensor_file_count(f) == 1)
        return vae_tensor_file_at(f, 0);
    return vae_latent_clip_find(f, NULL, &clip, NULL) == VAE_OK
               ? vae_tensor_file_find(f, clip.tensor)
               : NULL;
}

/* The tensor of b to compare with x of a; NULL: none. */
static const VaeTensorInfo *
partner(const VaeTensorFile *a, const VaeTensorInfo *x, const VaeTensorFile *b)
{
    const VaeTensorInfo *y = vae_tensor_file_find(b, x->name);
    const VaeTensorInfo *other = main_tensor(b);
    if (!y)
        y = other_video(a, x, b);
    if (!y && other &&
        (is_nameless(x) || (x == main_tensor(a) &&
                            (is_nameless(other) || one_is_comfyui(x, other)))))
        y = other;
    return y;
}

static int
compare_files(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    const size_t n = vae_tensor_file_count(a);
    size_t common = 0;
    int code = EXIT_OK;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *x = vae_tensor_file_at(a, i);
        if (o->tensor && strcmp(x->name, o->tensor) != 0)
            continue;
        const VaeTensorInfo *y = partner(a, x, b);
        if (!y)
            continue;
        common++;
        const int one = compare_named(o, a, x, b, y);
        code = one > code ? one : code;
    }
    return common ? code : none_in_common(o, a, b);
}

/* Prints the frame rates if they differ. --framerate is for files that state
 * none. */
static void
print_rates(const Options *o, const VaeTensorFile *a, const VaeTensorFile *b)
{
    const VaeTensorFile *const files[] = {a, b};
    int n[2], d[2];
    for (int i = 0; i < 2; i++) {
        if (vae_tensor_file_framerate(files[i], NULL, &n[i], &d[i], NULL) !=
            VAE_OK)
            return;
        if (n[i] == 0 && o->fps_n > 0) {
            n[i] = o->fps_n;
            d[i] = o->fps_d;
        }
    }
    if (n[0] > 0 && n[1] > 0 && (int64_t) n[0] * d[1] != (int64_t) n[1] * d[0])
        printf("different frame rates: %d/%d in %s, %d/%d in %s\n", n[0], d[0],
               o->argument[0], n[1], d[1], o->argument[1]);
}

int
command_compare(const Options *o)
{
    static const char peak[] = "--peak 1 (0..1) or 2 (-1..1)";
    VaeTensorFile *a = NULL, *b = NULL;
    VaeError error;
    int code;
    if (o->stream)
        return compare_streams(o);
    if (vae_tensor_file_open(o->argument[0], &a, &error) != VAE_OK ||
        vae_tensor_file_open(o->argument[1], &b, &error) != VAE_OK ||
        video_range_check(a, peak, peak_is_range(o), &error) != VAE_OK ||
        video_range_check(b, peak, peak_is_range(o), &error) != VAE_OK)
        code = fail(&error);
    else {
        code = compare_files(o, a, b);
        print_rates(o, a, b);
    }
    vae_tensor_file_free(&a);
    vae_tensor_file_free(&b);
    return code;
}
