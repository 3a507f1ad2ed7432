/*
 * inside.c: cancels a stream inside a slow kernel of the ref backend. The
 * kernel must end early.
 *
 * inside MODEL
 */
#include "kernels.h"
#include "streams.h"

enum { T = 2, W = 40, H = 24 };

void __real_vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a);
void __wrap_vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a);
void __real_vae_ref_conv(const VaeQueue *q, const VaeConvArgs *a);
void __wrap_vae_ref_conv(const VaeQueue *q, const VaeConvArgs *a);

typedef enum Kernel { NONE, CONV, ATTENTION } Kernel;

static VaeStream *stream;
static Kernel cancels; /* the kernel that cancels the stream as it begins */
static size_t
    written; /* number of elements that this kernel wrote after the cancel */

/* If this kernel is the one that cancels: cancels the stream, and returns a
 * copy of the n elements at y. Otherwise returns NULL. */
static float *
begin(Kernel kernel, const void *y, size_t n)
{
    float *before = cancels == kernel ? malloc(n * sizeof *before) : NULL;
    if (before) {
        vae_stream_cancel(stream);
        memcpy(before, y, n * sizeof *before);
    }
    return before;
}

static void
end(const float *before, const float *y, size_t n)
{
    for (size_t i = 0; before && i < n; i++)
        written += memcmp(&before[i], &y[i], sizeof *y) != 0;
}

void
__wrap_vae_ref_attention(const VaeQueue *q, const VaeAttentionArgs *a)
{
    const size_t n = (size_t) a->t * (size_t) a->n * (size_t) a->c;
    SCOPED_BLOCK float *before = begin(ATTENTION, a->y, n);
    __real_vae_ref_attention(q, a);
    end(before, a->y, n);
}

void
__wrap_vae_ref_conv(const VaeQueue *q, const VaeConvArgs *a)
{
    const size_t n =
        (size_t) a->t * (size_t) a->ho * (size_t) a->wo * (size_t) a->c_out;
    SCOPED_BLOCK float *before = begin(CONV, a->y, n);
    __real_vae_ref_conv(q, a);
    end(before, a->y, n);
}

static void
cancel_in(const Bed *bed, VaeDirection direction, Kernel kernel,
          const char *what)
{
    static const int plan[] = {1, 0};
    SCOPED_CLIP TestClip want = bed_clip(bed, T, W, H, 0);
    SCOPED_CLIP TestClip clip = bed_clip(bed, T, W, H, 0);
    VaeError error = {0};
    stream = bed_slices(bed, direction, W, H, 1);
    run_clip(bed, stream, direction, &want, plan);
    vae_stream_reset(stream);
    written = 0;
    cancels = kernel;
    const VaeStatus status =
        try_run(bed, stream, direction, &clip, plan, &error);
    cancels = NONE;
    expect(status == VAE_ERR_CANCELLED && written == 0,
           "%s: %s, %zu numbers written after the cancel", what,
           vae_status_name(status), written);
    vae_stream_reset(stream);
    clip_poison(bed, &clip, direction);
    run_clip(bed, stream, direction, &clip, plan);
    same_result(bed, &clip, &want, direction, what);
    vae_stream_free(&stream);
}

int
main(int argc, char **argv)
{
    Bed bed;
    if (argc != 2)
        return 2;
    bed_open(&bed, argv[1], "ref", "fp32");
    bed.threads = 1;
    for (VaeDirection d = VAE_DECODE; d <= VAE_ENCODE; d++) {
        cancel_in(&bed, d, ATTENTION, "an attention");
        cancel_in(&bed, d, CONV, "a convolution");
    }
    return bed_close(&bed);
}
