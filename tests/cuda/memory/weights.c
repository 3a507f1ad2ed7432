/*
 * weights.c: loads weights of real widths, of which several threads read one
 * tensor. They must be those of the file. A file that becomes shorter after it
 * was opened is an error.
 */
#include "../clips.h"
#include "emu_rt.h"

/* Writes the model's weights to a file of this type, and opens it. */
static VaeModel *
rewrite(const VaeModel *model, VaeType type, char path[32])
{
    VaeError error;
    VaeModel *own;
    strcpy(path, "/tmp/vae-weights-XXXXXX");
    close(mkstemp(path));
    must(vae_model_write(model, path, type, &error), &error);
    must(vae_model_open(path, NULL, &own, &error), &error);
    return own;
}

static VaeStatus
decode(const Bed *bed, VaeModel *model, TestClip *clip, VaeError *error)
{
    SCOPED_STREAM VaeStream *stream = NULL;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.threads = 3;
    clip_poison(bed, clip, VAE_DECODE);
    const VaeStatus status = vae_stream_new(model, &params, &stream, error);
    return status == VAE_OK
               ? try_run(bed, stream, VAE_DECODE, clip, calls, error)
               : status;
}

static void
expect_same(const Bed *bed, VaeModel *a, VaeModel *b, const char *what)
{
    SCOPED_CLIP TestClip first = new_clip(bed);
    SCOPED_CLIP TestClip second = new_clip(bed);
    VaeError error;
    size_t bytes;
    must(decode(bed, a, &first, &error), &error);
    must(decode(bed, b, &second, &error), &error);
    const void *want = clip_result(bed, &first, VAE_DECODE, &bytes);
    expect(memcmp(want, clip_result(bed, &second, VAE_DECODE, &bytes), bytes) ==
               0,
           "%s", what);
}

static void
expect_short(const Bed *bed, VaeType type)
{
    char path[32];
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeModel *model = rewrite(bed->model, type, path);
    VaeError error = {0};
    const int before = emu_alive();
    if (truncate(path, 100000) != 0)
        exit(1);
    unlink(path);
    const VaeStatus status = decode(bed, model, &clip, &error);
    vae_model_free(&model);
    expect(status == VAE_ERR_READ && strstr(error.message, "was cut short") &&
               emu_alive() == before,
           "%s: %s", vae_type_name(type), error.message);
}

/* A file of a narrow type gives the same results as a file with the same values
 * in fp32. */
static void
same_values(const Bed *bed, VaeType type)
{
    char narrow_path[32], wide_path[32];
    VaeModel *narrow = rewrite(bed->model, type, narrow_path);
    VaeModel *wide = rewrite(narrow, VAE_TYPE_F32, wide_path);
    expect_same(bed, narrow, wide, vae_type_name(type));
    vae_model_free(&narrow);
    vae_model_free(&wide);
    unlink(narrow_path);
    unlink(wide_path);
}

int
main(void)
{
    static const VaeType types[] = {VAE_TYPE_F32, VAE_TYPE_BF16, VAE_TYPE_F16};
    Bed bed;
    char path[32];
    setvbuf(stdout, NULL, _IOLBF, 0);
    bed_open(&bed, "taew2_1-full", "cuda", "fp32");
    VaeModel *file = rewrite(bed.model, VAE_TYPE_F32, path);
    unlink(path);
    expect_same(&bed, bed.model, file, "weights in memory and in a file");
    vae_model_free(&file);
    same_values(&bed, VAE_TYPE_BF16);
    same_values(&bed, VAE_TYPE_F16);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        expect_short(&bed, types[i]);
    return device_close(&bed);
}
