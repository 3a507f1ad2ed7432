#include "vectors.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
must(VaeStatus status, const VaeError *error)
{
    if (status != VAE_OK) {
        fprintf(stderr, "%s\n", error->message);
        exit(1);
    }
}

void
test_skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(TEST_SKIP);
}

void *
test_alloc(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", n);
        exit(1);
    }
    return p;
}

bool
test_path(char *out, size_t size, const char *variable, const char *format, ...)
{
    const char *folder = getenv(variable);
    va_list args;
    if (!folder || !*folder)
        return false;
    const int n = snprintf(out, size, "%s/", folder);
    va_start(args, format);
    vsnprintf(out + n, size - (size_t) n, format, args);
    va_end(args);
    return access(out, R_OK) == 0;
}

VaeTensorFile *
test_open(const char *folder, const char *name)
{
    char path[512];
    VaeTensorFile *file;
    VaeError error;
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, name);
    must(vae_tensor_file_open(path, &file, &error), &error);
    return file;
}

float *
test_read(const VaeTensorFile *file, const char *name,
          const VaeTensorInfo **info)
{
    const VaeTensorInfo *t = vae_tensor_file_find(file, name);
    if (!t || !t->supported || !t->data) {
        fprintf(stderr, "%s: no tensor \"%s\"\n", vae_tensor_file_name(file),
                name);
        exit(1);
    }
    const size_t n = (size_t) t->bytes / vae_type_size(t->type);
    float *values = test_alloc(n * sizeof *values);
    vae_type_to_float(values, t->data, t->type, n);
    if (info)
        *info = t;
    return values;
}

float *
test_swap(const float *src, int64_t a, int64_t b, int64_t plane)
{
    float *dst = test_alloc((size_t) (a * b * plane) * sizeof *dst);
    for (int64_t i = 0; i < a; i++)
        for (int64_t k = 0; k < b; k++)
            memcpy(dst + (k * a + i) * plane, src + (i * b + k) * plane,
                   (size_t) plane * sizeof *dst);
    return dst;
}

TestClip
test_clip(const float *latents, const VaeTensorInfo *l,
          const VaeTensorInfo *frames)
{
    return (TestClip){.t = (int) l->dims[1],
                      .frames = (int) frames->dims[0],
                      .height = (int) frames->dims[1],
                      .width = (int) frames->dims[2],
                      .latents = test_swap(latents, l->dims[0], l->dims[1],
                                           l->dims[2] * l->dims[3]),
                      .video = test_alloc(frames->bytes)};
}

float *
test_interleave(const float *src, int64_t t, int64_t plane)
{
    float *dst = test_alloc((size_t) (3 * t * plane) * sizeof *dst);
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < t * plane; i++)
            dst[i * 3 + c] = src[c * t * plane + i];
    return dst;
}

float *
test_planes(const float *src, int64_t t, int64_t plane)
{
    float *dst = test_alloc((size_t) (3 * t * plane) * sizeof *dst);
    for (int64_t c = 0; c < 3; c++)
        for (int64_t i = 0; i < t * plane; i++)
            dst[c * t * plane + i] = src[i * 3 + c];
    return dst;
}

/* ------------------------------------------------------------------ */

void
clip_free(TestClip *clip)
{
    free(clip->latents);
    free(clip->mean);
    free(clip->logvar);
    free(clip->video);
    *clip = (TestClip){0};
}

size_t
clip_row(const TestClip *clip)
{
    return (size_t) clip->width *
           (size_t) (clip->channels ? clip->channels : 3);
}

VaePicture
clip_picture(const TestClip *clip, const uint8_t *bytes, int i)
{
    const bool alpha = clip->channels == 4;
    const size_t row = clip_row(clip);
    const size_t at = (size_t) i * row * (size_t) clip->height;
    VaePicture p = {
        .pixels = alpha ? VAE_PIXELS_RGBA_F32 : VAE_PIXELS_RGB_F32,
        .width = clip->width,
        .height = clip->height,
        .data = {(uint8_t *) (clip->video + at)},
        .stride = {(ptrdiff_t) (row * sizeof(float))},
    };
    if (bytes) {
        p.pixels = alpha ? VAE_PIXELS_RGBA : VAE_PIXELS_RGB;
        p.data[0] = (uint8_t *) bytes + at;
        p.stride[0] = (ptrdiff_t) row;
    }
    return p;
}

VaeStream *
test_stream(VaeModel *model, VaeStreamParams params)
{
    VaeStream *stream;
    VaeError error;
    params.struct_size = sizeof params;
    if (!params.slice_size)
        params.slice_size = 1;
    const VaeStatus status = vae_stream_new(model, &params, &stream, &error);
    if (status == VAE_ERR_UNSUPPORTED)
        test_skip(error.message);
    must(status, &error);
    return stream;
}

static void
fill_latents(const TestClip *clip, const VaeModelInfo *info, VaeLatentOut *out,
             int from, int n)
{
    const int s = info->spatial;
    const size_t size = (size_t) info->latent_channels *
                        (size_t) ((clip->height + s - 1) / s) *
                        (size_t) ((clip->width + s - 1) / s);
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t) (from + i) * size;
        out[i] = (VaeLatentOut){
            .type = VAE_TYPE_F32,
            .data = clip->latents + at,
            .mean = clip->mean ? clip->mean + at : NULL,
            .logvar = clip->logvar ? clip->logvar + at : NULL,
        };
    }
}

static void
fill_pictures(const TestClip *clip, const uint8_t *bytes, VaePicture *out,
              int from, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = clip_picture(
            clip, bytes, from + i < clip->frames ? from + i : clip->frames - 1);
}

/* Steps of the next call: as the plan says, but no unit too many. */
static int
next_steps(const VaeStream *stream, const int **plan, int left_in, int left_out)
{
    int steps = **plan, n_in, n_out;
    if ((*plan)[1] > 0)
        (*plan)++;
    for (; steps > 1; steps--) {
        vae_stream_count(stream, steps, &n_in, &n_out);
        if (n_in <= left_in && n_out <= left_out)
            break;
    }
    return steps;
}

static VaeStatus
too_many(const TestClip *clip, int n_in, int n_out, VaeError *error)
{
    return vae_fail(error, VAE_ERR_SIZE,
                    "a step takes %d and gives %d, past the end of a clip of "
                    "%d latents and %d frames",
                    n_in, n_out, clip->t, clip->frames);
}

/* The frames that are due, with a delay: plan tells the steps of each call. */
static VaeStatus
drain(VaeStream *stream, const TestClip *clip, const int *plan, int *out,
      VaeError *error)
{
    SCOPED_BLOCK VaePicture *pictures =
        test_alloc((size_t) clip->frames * sizeof *pictures);
    VaeStatus status = VAE_OK;
    int left, n = 0;
    while (status == VAE_OK &&
           (left = vae_stream_drain_count(stream, 0, NULL)) > 0) {
        const int steps = *plan < left ? *plan : left;
        vae_stream_drain_count(stream, steps, &n);
        if (n > clip->frames - *out) {
            status = too_many(clip, 0, n, error);
            break;
        }
        fill_pictures(clip, clip->rgb, pictures, *out, n);
        status = vae_stream_drain(stream, steps, pictures, n, error);
        *out += n;
    }
    return status;
}

VaeStatus
test_decode(VaeStream *stream, const VaeModelInfo *info, const TestClip *clip,
            const int *plan, VaeError *error)
{
    VaeLatentOut *from = test_alloc((size_t) clip->t * sizeof *from);
    VaeLatentIn *latents = test_alloc((size_t) clip->t * sizeof *latents);
    VaePicture *pictures = test_alloc((size_t) clip->frames * sizeof *pictures);
    VaeStatus status = VAE_OK;
    int in = 0, out = 0, n_in, n_out;
    while (status == VAE_OK && in < clip->t) {
        const int steps =
            next_steps(stream, &plan, clip->t - in, clip->frames - out);
        vae_stream_count(stream, steps, &n_in, &n_out);
        if (n_in > clip->t - in || n_out > clip->frames - out) {
            status = too_many(clip, n_in, n_out, error);
            break;
        }
        fill_latents(clip, info, from, in, n_in);
        for (int i = 0; i < n_in; i++)
            latents[i] = (VaeLatentIn){from[i].type, from[i].data};
        fill_pictures(clip, clip->rgb, pictures, out, n_out);
        status =
            vae_stream_decode(stream, latents, n_in, pictures, n_out, error);
        in += n_in;
        out += n_out;
    }
    if (status == VAE_OK)
        status = drain(stream, clip, plan, &out, error);
    free(latents);
    free(from);
    free(pictures);
    if (status == VAE_OK && out != clip->frames)
        return vae_fail(error, VAE_ERR_SIZE,
                        "%d latents gave %d frames, "
                        "expected %d",
                        in, out, clip->frames);
    return status;
}

/* The latents that an encoder with a delay has left: plan tells the steps of
 * each call. latents: room for those of a clip. */
static VaeStatus
drain_latents(VaeStream *stream, const VaeModelInfo *info, const TestClip *clip,
              const int *plan, VaeLatentOut *latents, int *out, VaeError *error)
{
    VaeStatus status = VAE_OK;
    int left, n = 0;
    while (status == VAE_OK &&
           (left = vae_stream_drain_count(stream, 0, NULL)) > 0) {
        const int steps = *plan < left ? *plan : left;
        vae_stream_drain_count(stream, steps, &n);
        if (n > clip->t - *out)
            return too_many(clip, 0, n, error);
        fill_latents(clip, info, latents, *out, n);
        status = vae_stream_drain_latents(stream, steps, latents, n, error);
        *out += n;
    }
    return status;
}

VaeStatus
test_encode(VaeStream *stream, const VaeModelInfo *info, const TestClip *clip,
            const int *plan, VaeError *error)
{
    VaeLatentOut *latents = test_alloc((size_t) clip->t * sizeof *latents);
    /* Copies of the last frame fill the last group. If an encoder begins with a
     * whole group, its last group can have copies only. With a delay, the
     * numbers of latents do not tell when the frames end. */
    const bool late = vae_stream_get_plan(stream)->delay > 0;
    const int all =
        info->encode.first_in + (clip->t - 1) * info->encode.step_in;
    const int most = late ? all : clip->frames + 2 * info->encode.step_in;
    VaePicture *pictures = test_alloc((size_t) most * sizeof *pictures);
    VaeStatus status = VAE_OK;
    int in = 0, out = 0, n_in, n_out;
    while (status == VAE_OK && out < clip->t && (!late || in < all)) {
        const int steps = next_steps(stream, &plan, most - in, clip->t - out);
        vae_stream_count(stream, steps, &n_in, &n_out);
        if (in + n_in > most || n_out > clip->t - out) {
            status = too_many(clip, n_in, n_out, error);
            break;
        }
        fill_pictures(clip, clip->video_u8, pictures, in, n_in);
        fill_latents(clip, info, latents, out, n_out);
        status =
            vae_stream_encode(stream, pictures, n_in, latents, n_out, error);
        in += n_in;
        out += n_out;
    }
    if (status == VAE_OK)
        status = drain_latents(stream, info, clip, plan, latents, &out, error);
    free(latents);
    free(pictures);
    if (status == VAE_OK && out != clip->t)
        return vae_fail(error, VAE_ERR_SIZE,
                        "%d frames gave %d latents, expected %d", in, out,
                        clip->t);
    if (status == VAE_OK && in < clip->frames)
        return vae_fail(error, VAE_ERR_SIZE,
                        "%d latents took %d frames, "
                        "expected %d",
                        out, in, clip->frames);
    return status;
}

/* ------------------------------------------------------------------ */

static double
clamped(double v, const TestBound *b)
{
    if (b->low >= b->high)
        return v;
    return v < b->low ? b->low : v > b->high ? b->high : v;
}

static void
print_place(size_t at, const int64_t *dims, int n_dims)
{
    int64_t index[VAE_MAX_DIMS] = {0};
    for (int i = n_dims - 1; i >= 0; i--) {
        index[i] = (int64_t) at % dims[i];
        at /= (size_t) dims[i];
    }
    for (int i = 0; i < n_dims; i++)
        printf("%s%lld of %lld", i ? ", " : " at [", (long long) index[i],
               (long long) dims[i]);
    printf("]");
}

bool
test_compare(const char *what, const float *got, const float *want,
             const int64_t *dims, int n_dims, TestBound bound)
{
    size_t n = 1, at = 0;
    double worst = 0, squares = 0;
    for (int i = 0; i < n_dims; i++)
        n *= (size_t) dims[i];
    for (size_t i = 0; i < n; i++) {
        const double g = got[i], w = want[i];
        const double e = isfinite(g) ? fabs(g - w) : (double) INFINITY;
        const double c = clamped(g, &bound) - clamped(w, &bound);
        squares += isfinite(g) ? c * c : 4;
        if (e > worst) {
            worst = e;
            at = i;
        }
    }
    const double peak = bound.low < bound.high ? bound.high - bound.low : 2;
    const double psnr = 10 * log10(peak * peak / (squares / (double) n));
    const bool good = (bound.max_abs <= 0 || worst <= bound.max_abs) &&
                      (bound.min_psnr <= 0 || psnr >= bound.min_psnr);
    printf("%s %s: max %.3g", good ? "ok  " : "FAIL", what, worst);
    print_place(at, dims, n_dims);
    printf(" (got %.7g, want %.7g), PSNR %.1f dB", (double) got[at],
           (double) want[at], psnr);
    if (bound.max_abs > 0)
        printf("; bound %.3g", bound.max_abs);
    if (bound.min_psnr > 0)
        printf("; bound %.1f dB", bound.min_psnr);
    printf("\n");
    return good;
}
