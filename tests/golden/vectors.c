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

/* A clip in a stream. */
typedef struct Run {
    VaeStream *stream;
    const VaeModelInfo *info;
    const TestClip *clip;
    bool decodes;
    int t, frames; /* those that the stream has taken or given */
    int most;      /* frames */
} Run;

static VaeLatentOut
latent_at(const Run *r, int k)
{
    const TestClip *c = r->clip;
    const int s = r->info->spatial;
    const size_t at = (size_t) k * (size_t) r->info->latent_channels *
                      (size_t) ((c->height + s - 1) / s) *
                      (size_t) ((c->width + s - 1) / s);
    return (VaeLatentOut){.type = VAE_TYPE_F32,
                          .data = c->latents + at,
                          .mean = c->mean ? c->mean + at : NULL,
                          .logvar = c->logvar ? c->logvar + at : NULL};
}

/* Copies of the last frame follow it. */
static VaePicture
picture_at(const Run *r, int i)
{
    const TestClip *c = r->clip;
    return clip_picture(c, r->decodes ? c->rgb : c->video_u8,
                        i < c->frames ? i : c->frames - 1);
}

/* Steps of the next call: as the plan says, but no unit too many. */
static int
next_steps(const Run *r, const int **plan)
{
    const int t = r->clip->t - r->t, frames = r->most - r->frames;
    int steps = **plan, n_in, n_out;
    if ((*plan)[1] > 0)
        (*plan)++;
    for (; steps > 1; steps--) {
        vae_stream_count(r->stream, steps, &n_in, &n_out);
        if (n_in <= (r->decodes ? t : frames) &&
            n_out <= (r->decodes ? frames : t))
            break;
    }
    return steps;
}

/* Calls the stream with the next latents and frames. drained: the steps of a
 * delay that end; 0: none. */
static VaeStatus
call(Run *r, int n_in, int n_out, int drained, VaeError *error)
{
    VaeStream *s = r->stream;
    const int n = r->decodes ? n_in : n_out;
    const int n_frames = r->decodes ? n_out : n_in;
    if (n > r->clip->t - r->t || n_frames > r->most - r->frames)
        return vae_fail(error, VAE_ERR_SIZE,
                        "a step takes %d and gives %d, past the end of a clip "
                        "of %d latents and %d frames",
                        n_in, n_out, r->clip->t, r->clip->frames);
    SCOPED_BLOCK VaeLatentOut *out = test_alloc((size_t) n * sizeof *out);
    SCOPED_BLOCK VaeLatentIn *in = test_alloc((size_t) n * sizeof *in);
    SCOPED_BLOCK VaePicture *p = test_alloc((size_t) n_frames * sizeof *p);
    for (int i = 0; i < n; i++) {
        out[i] = latent_at(r, r->t++);
        in[i] = (VaeLatentIn){out[i].type, out[i].data};
    }
    for (int i = 0; i < n_frames; i++)
        p[i] = picture_at(r, r->frames++);
    if (r->decodes)
        return drained ? vae_stream_drain(s, drained, p, n_frames, error)
                       : vae_stream_decode(s, in, n, p, n_frames, error);
    return drained ? vae_stream_drain_latents(s, drained, out, n, error)
                   : vae_stream_encode(s, p, n_frames, out, n, error);
}

/* The most frames that a stream takes or gives. If an encoder begins with a
 * whole group, its last group can have copies only. With a delay, the numbers
 * of latents do not tell when the frames end. */
static int
most_frames(const Run *r)
{
    const VaeSteps *s = &r->info->encode;
    if (r->decodes)
        return r->clip->frames;
    return vae_stream_get_plan(r->stream)->delay > 0
               ? s->first_in + (r->clip->t - 1) * s->step_in
               : r->clip->frames + 2 * s->step_in;
}

VaeStatus
test_run(VaeStream *stream, const VaeModelInfo *info, VaeDirection direction,
         const TestClip *clip, const int *plan, VaeError *error)
{
    Run r = {stream, info, clip, .decodes = direction == VAE_DECODE};
    VaeStatus status = VAE_OK;
    int n_in, n_out, left;
    r.most = most_frames(&r);
    while (status == VAE_OK && r.t < clip->t &&
           (r.decodes || r.frames < r.most)) {
        vae_stream_count(stream, next_steps(&r, &plan), &n_in, &n_out);
        status = call(&r, n_in, n_out, 0, error);
    }
    while (status == VAE_OK &&
           (left = vae_stream_drain_count(stream, 0, NULL)) > 0) {
        const int steps = *plan < left ? *plan : left;
        vae_stream_drain_count(stream, steps, &n_out);
        status = call(&r, 0, n_out, steps, error);
    }
    if (status == VAE_OK &&
        (r.t != clip->t ||
         (r.decodes ? r.frames != clip->frames : r.frames < clip->frames)))
        return vae_fail(error, VAE_ERR_SIZE,
                        "the stream ended after %d latents and %d frames, "
                        "expected %d and %d",
                        r.t, r.frames, clip->t, clip->frames);
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
