/*
 * tiles.c: tests pictures in tiles on the emulated device. The bytes are the
 * same with spilled carries and when the memory is released. Also tests what is
 * refused, and a stream that takes tiles because memory is refused.
 *
 * tiles MODEL STRIDE
 */

#include "../clips.h"
#include "emu_rt.h"

/* Sets four tiles without overlap, each one latent pixel high and wide. */
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
    SCOPED_CLIP TestClip got = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    Place at = {params->direction, &got, 0, 0};
    clip_poison(bed, &got, params->direction);
    SCOPED_STREAM VaeStream *s = new_stream(bed->model, params);
    for (int i = 0; i < CALLS; i++) {
        const uint64_t full = memory_left();
        must(call(bed, s, &at, steps[i], &error), &error);
        expect(memory_left() == full,
               "a call allocates no memory of the device");
        if (release)
            must(vae_stream_release(s, &error), &error);
        if (release)
            must(vae_stream_resume(s, &error), &error);
    }
    same_result(bed, &got, want, params->direction, what);
}

/* The error for tiles that do not fit names them. */
static void
check_no_memory(const Bed *bed)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    VaeStreamParams p = tiled(VAE_DECODE);
    p.memory_limit = 1;
    expect(vae_stream_plan(bed->model, &p, &plan, &error) == VAE_ERR_MEMORY &&
               strstr(error.message, "4 tiles in host memory"),
           "%s", error.message);
}

/* A picture in device memory is refused; the stream continues with one in host
 * memory. */
static void
check_on_device(const Bed *bed)
{
    VaeError error = {0};
    uint8_t byte = 0;
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, SIZE, SIZE, 0);
    const VaeStreamParams p = tiled(VAE_DECODE);
    const VaePicture picture = {.pixels = VAE_PIXELS_RGB,
                                .width = p.width,
                                .height = p.height,
                                .on_device = true,
                                .data = {&byte},
                                .stride = {p.width * 3}};
    SCOPED_STREAM VaeStream *s = new_stream(bed->model, &p);
    const VaeStatus status = vae_stream_decode(
        s, &(VaeLatentIn){VAE_TYPE_F32, clip.latents}, 1, &picture, 1, &error);
    expect(status == VAE_ERR_ARGUMENT && strstr(error.message, "tiles"),
           "on the device: %s", error.message);
    run_clip(bed, s, VAE_DECODE, &clip, whole);
}

/* ------------------------------------------------------------------ */

enum { WIDE = 1024 };
#define MEMORY ((uint64_t) 4 << 30)
/* The backend leaves this many bytes free for the driver. */
#define BESIDE ((uint64_t) 128 << 20)

static void
count_warning(void *user, const char *line)
{
    int *n = user;
    *n += strstr(line, "not exact") != NULL;
}

/* Returns parameters with which a stream may choose tiles. *less receives the
 * bytes of a device with memory for tiles, but not for the picture. */
static VaeStreamParams
choosing(const Bed *bed, int *warnings, uint64_t *less)
{
    VaePlan tiles = VAE_INIT(VaePlan), picture = VAE_INIT(VaePlan);
    VaeStreamParams p = tiled(VAE_DECODE);
    p.width = p.height = WIDE;
    p.tile_width = WIDE / 4;
    p.slice_size = 1;
    tiles = plan_of(bed->model, &p);
    p.tile_width = 0;
    picture = plan_of(bed->model, &p);
    *less = tiles.peak + BESIDE + (BESIDE >> 2);
    expect(picture.tiles == 0 && picture.total > *less,
           "the picture takes %.1f MiB, more than %.1f",
           (double) picture.total / 1048576, (double) *less / 1048576);
    *warnings = 0;
    p.warn = count_warning;
    p.log_user = warnings;
    return p;
}

/* Another process takes memory after the stream was planned. The stream changes
 * to tiles if no sequence has begun. A new sequence changes back when there is
 * memory. */
static void
check_taken(const Bed *bed, bool opening)
{
    uint64_t less;
    int warnings;
    VaeError error = {0};
    const VaeStreamParams p = choosing(bed, &warnings, &less);
    SCOPED_MODEL VaeModel *model = open_model(bed);
    SCOPED_CLIP TestClip clip = bed_clip(bed, 2, WIDE, WIDE, 0);
    const int two[] = {1, 1, 0};
    emu_skip_work(true);
    const uint64_t others = MEMORY - memory_left();
    emu_take_memory(1, opening ? memory_left() - less : 0);
    SCOPED_STREAM VaeStream *s = new_stream(model, &p);
    const VaePlan *plan = vae_stream_get_plan(s);
    if (!opening) {
        expect(plan->tiles == 0 && warnings == 0, "no tiles");
        must(vae_stream_release(s, &error), &error);
        emu_set_memory(others + less);
        must(vae_stream_resume(s, &error), &error);
    }
    expect(plan->tiles > 1 && warnings == 1,
           "memory is lost when the stream %s: %d tiles, %d warning",
           opening ? "opens" : "resumes", plan->tiles, warnings);
    run_clip(bed, s, VAE_DECODE, &clip, two);
    emu_take_memory(1, 0);
    emu_set_memory(MEMORY);
    vae_stream_reset(s);
    run_clip(bed, s, VAE_DECODE, &clip, two);
    expect(plan->tiles == 0, "after there is memory again: %d tiles",
           plan->tiles);
    must(vae_stream_release(s, &error), &error);
    emu_set_memory(others + less);
    expect(vae_stream_resume(s, &error) == VAE_ERR_MEMORY && warnings == 1,
           "memory is lost within a sequence: %s", error.message);
    emu_set_memory(MEMORY);
    must(vae_stream_resume(s, &error), &error);
    expect(plan->tiles == 0, "the carries are kept");
    emu_take_memory(0, 0);
    emu_skip_work(false);
}

static void
look(const Bed *bed, VaeDirection direction)
{
    VaePlan tiles = VAE_INIT(VaePlan), picture = VAE_INIT(VaePlan);
    VaeStreamParams p = tiled(direction);
    SCOPED_CLIP TestClip want = bed_clip(bed, LATENTS, SIZE, SIZE, 0);
    VaeStream *s = new_stream(bed->model, &p);
    run_clip(bed, s, direction, &want, whole);
    vae_stream_free(&s);
    check(bed, &p, &want, true, "memory that is released");
    p.spill = VAE_SPILL_HOST;
    check(bed, &p, &want, false, "spilled carries");
    check(bed, &p, &want, true, "spilled carries, released");
    p.slice_size = 1;
    check(bed, &p, &want, false, "slices of 1");
    tiles = plan_of(bed->model, &p);
    p.tiles = VAE_TILES_OFF;
    picture = plan_of(bed->model, &p);
    expect(tiles.total < picture.total && tiles.tiled > 0,
           "%s: tiles take %llu bytes of the device, the picture %llu",
           name_of(direction), (unsigned long long) tiles.total,
           (unsigned long long) picture.total);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_device(&bed, argc, argv);
    look(&bed, VAE_DECODE);
    look(&bed, VAE_ENCODE);
    check_no_memory(&bed);
    check_on_device(&bed);
    check_taken(&bed, true);
    check_taken(&bed, false);
    vae_model_free(&bed.model);
    return tests_end();
}
