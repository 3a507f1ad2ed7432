/*
 * odd.c: runs a decoder whose convolutions all have odd numbers of channels on
 * the emulated device. Its tensors are not aligned for vectors, and the library
 * refuses such addresses. Also tests what kernels cannot compute: too many
 * channels of attention, and too many rows of a frame.
 */

#include "../golden/odd.h"
#include "../stream/streams.h"
#include "gpu.h"

enum { LATENTS = 5, WIDTH = 24, HEIGHT = 16 };

static TestClip
decode(const Bed *bed, VaeBackendKind backend, VaePrecision precision,
       int slice)
{
    const int plan[] = {slice, 0};
    Bed own = *bed;
    own.backend = backend;
    own.precision = precision;
    TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    clip_poison(bed, &clip, VAE_DECODE);
    SCOPED_STREAM VaeStream *stream =
        bed_stream(&own, (VaeStreamParams){.direction = VAE_DECODE,
                                           .width = WIDTH,
                                           .height = HEIGHT,
                                           .threads = 1,
                                           .slice_size = slice});
    run_clip(&own, stream, VAE_DECODE, &clip, plan);
    return clip;
}

static void
one_precision(const Bed *bed, VaePrecision precision, const TestClip *want)
{
    const int64_t dims[] = {want->frames, HEIGHT, WIDTH, 3};
    const char *name = vae_precision_name(precision);
    SCOPED_CLIP TestClip one = decode(bed, VAE_BACKEND_CUDA, precision, 1);
    SCOPED_CLIP TestClip more = decode(bed, VAE_BACKEND_CUDA, precision, 3);
    const VaeCudaPartLimits usual = vae_cuda_part_limits;
    vae_cuda_part_limits.bytes = vae_cuda_part_limits.band = 4000;
    SCOPED_CLIP TestClip parts = decode(bed, VAE_BACKEND_CUDA, precision, 3);
    vae_cuda_part_limits.numbers = 3000;
    SCOPED_CLIP TestClip bands = decode(bed, VAE_BACKEND_CUDA, precision, 3);
    vae_cuda_part_limits = usual;
    /* fp32: the bound of the original networks. In 16 bits, about 40 layers
     * round to 2^-9 each: 2 / (sqrt(40) 2^-9) is 44 dB. */
    const bool full = precision == VAE_PRECISION_FP32;
    const TestBound bound = {.max_abs = full ? 1e-4 : 0,
                             .min_psnr = full ? 0 : 44};
    expect(test_compare(name, one.video, want->video, dims, 4, bound),
           "%s: the result of ref", name);
    same_result(bed, &more, &one, VAE_DECODE, name);
    same_result(bed, &parts, &one, VAE_DECODE, "parts");
    same_result(bed, &bands, &one, VAE_DECODE, "bands");
}

/* Prepares a program of one op, which must end with status `want`. */
static void
one_op(VaePrecision precision, VaeOp op, VaeStatus want, const char *what,
       int n)
{
    const VaeProgram program = {.label = "test", .ops = &op, .n_ops = 1};
    const VaeBackendParams params = {.precision = precision, .device = -1};
    VaeBackend *backend;
    VaeDevice device;
    VaeExec *exec;
    VaeError error = {.message = "no error"};
    must(vae_backend_cuda.open(&params, &backend, &device, &error), &error);
    const VaeStatus status =
        vae_backend_cuda.prepare(backend, NULL, &program, &exec, &error);
    expect(status == want, "%d %s in %s: %s", n, what,
           vae_precision_name(precision), error.message);
    if (exec)
        vae_backend_cuda.exec_free(backend, &exec);
    vae_backend_cuda.close(&backend);
}

static void
attention(VaePrecision precision, int c, VaeStatus want)
{
    VaeTensor x = {.shape = {1, 1, 1, 3 * c}};
    VaeTensor y = {.shape = {1, 1, 1, c}};
    one_op(
        precision,
        (VaeOp){.kind = VAE_OP_ATTENTION, .name = "middle", .x = &x, .y = &y},
        want, "channels of attention", c);
}

static void
rows(VaePrecision precision, int h, VaeStatus want)
{
    VaeTensor x = {.shape = {1, h, 8, 3}};
    VaeTensor y = {.shape = {1, h, 8, 3}};
    one_op(precision,
           (VaeOp){.kind = VAE_OP_REARRANGE, .name = "up", .x = &x, .y = &y},
           want, "rows of a frame", h);
}

int
main(void)
{
    static const VaePrecision precisions[] = {
        VAE_PRECISION_FP32, VAE_PRECISION_BF16, VAE_PRECISION_FP16};
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_open(&bed, "taehv/taew2_1", "cuda", "fp32");
    bed_rewrite(&bed, odd_write);
    TestClip want = decode(&bed, VAE_BACKEND_REF, VAE_PRECISION_FP32, 1);
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        one_precision(&bed, precisions[i], &want);
        attention(precisions[i], VAE_ATTENTION_CHANNELS_CUDA, VAE_OK);
        attention(precisions[i], VAE_ATTENTION_CHANNELS_CUDA + 1,
                  VAE_ERR_UNSUPPORTED);
        /* the second dimension of a grid has at most 65535 blocks */
        rows(precisions[i], 65535, VAE_OK);
        rows(precisions[i], 65536, VAE_ERR_UNSUPPORTED);
    }
    clip_free(&want);
    return bed_close(&bed);
}
