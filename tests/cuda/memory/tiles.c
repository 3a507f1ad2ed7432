/*
 * tiles.c: pictures in tiles on the emulated device: the same bytes with
 * spilled carries and when its memory is released, and what is refused.
 *
 * tiles MODEL STRIDE
 */

#include "../clips.h"
#include "emu_rt.h"

/* Four tiles, without overlap: they are one latent pixel high and wide. */
static VaeStreamParams
tiled(VaeDirection direction)
{
    VaeStreamParams p = params_of(direction);
    p.tiles = VAE_TILES_BLEND;
    p.tile_width = SIZE / 2;
    p.tile_overlap = -1;
    return p;
}

static void
check(const Bed *bed, const VaeStreamParams *params, const TestClip *want,
      bool release, const char *what)
{
    VaeError error;
    VaeStream *s;
    TestClip got = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    Place at = {params->direction, &got, 0, 0};
    clip_poison(bed, &got, params->direction);
    must(vae_stream_new(bed->model, params, &s, &error), &error);
    for (int i = 0; i < CALLS; i++) {
        const uint64_t full = memory_left();
        must(call(bed, s, &at, steps[i], &error), &error);
        expect(memory_left() == full, "a call takes nothing of the device");
        if (release)
            must(vae_stream_release(s, &error), &error);
        if (release)
            must(vae_stream_resume(s, &error), &error);
    }
    same_result(bed, &got, want, params->direction, what);
    vae_stream_free(&s);
    clip_free(&got);
}

/* A picture in device memory is refused; the stream continues with one in host
 * memory. */
static void
check_on_device(const Bed *bed)
{
    VaeError error = {0};
    VaeStream *s;
    uint8_t byte = 0;
    TestClip clip = bed_clip(bed, 1, SIZE, SIZE, 0);
    const VaeStreamParams p = tiled(VAE_DECODE);
    const VaePicture picture = {.pixels = VAE_PIXELS_RGB,
                                .width = p.width,
                                .height = p.height,
                                .on_device = true,
                                .data = {&byte},
                                .stride = {p.width * 3}};
    must(vae_stream_new(bed->model, &p, &s, &error), &error);
    const VaeStatus status = vae_stream_decode(
        s, &(VaeLatentIn){VAE_TYPE_F32, clip.latents}, 1, &picture, 1, &error);
    expect(status == VAE_ERR_ARGUMENT && strstr(error.message, "tiles"),
           "on the device: %s", error.message);
    run_clip(bed, s, VAE_DECODE, &clip, whole);
    vae_stream_free(&s);
    clip_free(&clip);
}

static void
look(const Bed *bed, VaeDirection direction)
{
    VaeError error;
    VaePlan tiles = VAE_INIT(VaePlan), picture = VAE_INIT(VaePlan);
    VaeStreamParams p = tiled(direction);
    TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStream *s;
    must(vae_stream_new(bed->model, &p, &s, &error), &error);
    run_clip(bed, s, direction, &want, whole);
    vae_stream_free(&s);
    check(bed, &p, &want, true, "memory that is released");
    p.spill = VAE_SPILL_HOST;
    check(bed, &p, &want, false, "spilled carries");
    check(bed, &p, &want, true, "spilled carries, released");
    p.slice_size = 1;
    check(bed, &p, &want, false, "slices of 1");
    must(vae_stream_plan(bed->model, &p, &tiles, &error), &error);
    p.tiles = VAE_TILES_OFF;
    must(vae_stream_plan(bed->model, &p, &picture, &error), &error);
    expect(tiles.total < picture.total && tiles.tiled > 0,
           "%s: tiles take %llu bytes of the device, the picture %llu",
           name_of(direction), (unsigned long long) tiles.total,
           (unsigned long long) picture.total);
    clip_free(&want);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_device(&bed, argc, argv);
    look(&bed, VAE_DECODE);
    look(&bed, VAE_ENCODE);
    check_on_device(&bed);
    vae_model_free(&bed.model);
    return tests_end();
}
