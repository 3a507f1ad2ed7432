/*
 * tiles.c: tests pictures in tiles. The bytes do not depend on the slice size,
 * strips, a reset or a checkpoint. Impossible settings are refused.
 *
 * tiles MODEL BACKEND PRECISION
 */
#include "../streams.h"

enum { T = 6 }; /* latents */

typedef struct Case {
    Bed bed;
    VaeDirection direction;
    int unit, width, height;
    int warnings;
} Case;

static void
count_warning(void *user, const char *line)
{
    Case *c = user;
    c->warnings += strstr(line, "not exact") != NULL;
}

/* Sets tiles of 4x3 latent pixels that overlap by 1. The picture is some pixels
 * smaller than 9x7 latent pixels, so the tiles of the last row and column are
 * smaller. */
static VaeStreamParams
tiled(Case *c)
{
    return (VaeStreamParams){.direction = c->direction,
                             .width = c->width,
                             .height = c->height,
                             .slice_size = 1,
                             .restarts = true,
                             .tiles = VAE_TILES_BLEND,
                             .tile_width = 4 * c->unit,
                             .tile_height = 3 * c->unit,
                             .tile_overlap = c->unit,
                             .warn = count_warning,
                             .log_user = c};
}

static const int by_one[] = {1, 0};

static TestClip
compute(Case *c, const TestClip *input, VaeStreamParams params,
        const int *calls)
{
    TestClip clip = bed_clip(&c->bed, T, c->width, c->height, 7);
    SCOPED_STREAM VaeStream *s = bed_stream(&c->bed, params);
    clip_poison(&c->bed, &clip, c->direction);
    run_clip(&c->bed, s, c->direction, &clip, calls);
    return clip;
}

static void
check(Case *c, const TestClip *want, VaeStreamParams params, const int *calls,
      const char *what)
{
    SCOPED_CLIP TestClip got = compute(c, want, params, calls);
    same_result(&c->bed, &got, want, c->direction, what);
}

/* Slices, strips and frames at once do not change the bytes. */
static void
check_ways(Case *c, const TestClip *want)
{
    static const int calls[] = {1, 3, 1, 2, 0}, all[] = {T, 0};
    VaeStreamParams p = tiled(c);
    p.slice_size = 2;
    check(c, want, p, calls, "slices of 2, calls of 1, 3, 1, 2");
    p.slice_size = 4;
    check(c, want, p, all, "slices of 4, one call");
    p.slice_size = 1;
    p.strips = 2;
    p.frames_at_once = 1;
    check(c, want, p, by_one, "2 strips, 1 frame at once");
    p = tiled(c);
    p.nan_policy = VAE_NAN_ERROR;
    check(c, want, p, by_one, "nan-policy error");
}

/* With tiles the picture must differ from that without; otherwise the stream
 * used no tiles. */
static void
check_untiled(Case *c, const TestClip *want)
{
    size_t n;
    VaeStreamParams p = tiled(c);
    p.tiles = VAE_TILES_OFF;
    SCOPED_CLIP TestClip whole = compute(c, want, p, by_one);
    const void *a = clip_result(&c->bed, &whole, c->direction, &n);
    const void *b = clip_result(&c->bed, want, c->direction, &n);
    expect(memcmp(a, b, n) != 0,
           "tiles give other bytes than the whole picture");
    p.tiles = VAE_TILES_BLEND;
    p.tile_width = p.tile_height = 16 * c->unit;
    c->warnings = 0;
    check(c, &whole, p, by_one, "a picture no larger than a tile");
    p.tile_width = p.tile_height = p.tile_overlap = 0;
    check(c, &whole, p, by_one, "a picture that fits without tiles");
    expect(c->warnings == 0, "%d warnings without tiles", c->warnings);
}

/* ------------------------------------------------------------------ */

/* Runs steps from .. to - 1 of the clip, and writes them to `to`. */
static void
run_part(Case *c, VaeStream *s, const TestClip *clip, int from, int to)
{
    const VaeModelInfo *info = c->bed.info;
    const VaeSteps *steps =
        c->direction == VAE_DECODE ? &info->decode : &info->encode;
    const int in = from ? steps->first_in + (from - 1) * steps->step_in : 0;
    const int out = from ? steps->first_out + (from - 1) * steps->step_out : 0;
    const size_t latent = clip_latent_count(&c->bed, clip) / (size_t) clip->t;
    const size_t frame = clip_video_count(clip) / (size_t) clip->frames;
    const bool decode = c->direction == VAE_DECODE;
    TestClip part = *clip;
    part.latents += (size_t) (decode ? in : out) * latent;
    part.video += (size_t) (decode ? out : in) * frame;
    part.mean = part.logvar = NULL;
    part.t = to - from;
    part.frames =
        (from     ? 0
         : decode ? steps->first_out
                  : steps->first_in) +
        (to - from - !from) * (decode ? steps->step_out : steps->step_in);
    if (part.frames > clip->frames - (decode ? out : in))
        part.frames = clip->frames - (decode ? out : in);
    VaeError error = {0};
    must(test_run(s, info, c->direction, &part, by_one, &error), &error);
}

static void
check_checkpoint(Case *c, const TestClip *want)
{
    char path[] = "/tmp/vae-tiles-XXXXXX";
    VaeError error = {0};
    VaeCheckpoint place = VAE_INIT(VaeCheckpoint);
    const int fd = mkstemp(path);
    VaeStreamParams p = tiled(c);
    VaeCheckpointParams params = {.struct_size = sizeof params,
                                  .path = path,
                                  .frames = 1,
                                  .carries = true};
    SCOPED_CLIP TestClip got = bed_clip(&c->bed, T, c->width, c->height, 7);
    SCOPED_STREAM VaeStream *s = bed_stream(&c->bed, p);
    clip_poison(&c->bed, &got, c->direction);
    run_part(c, s, &got, 0, 3);
    must(vae_stream_save(s, &params, &error), &error);
    vae_stream_reset(s);
    run_part(c, s, &got, 0, 3);
    vae_stream_free(&s);
    p.slice_size = 2;
    s = bed_stream(&c->bed, p);
    must(vae_stream_load(s, &params, &place, &error), &error);
    expect(place.latents == 3 && place.carries, "a checkpoint at latent %d",
           (int) place.latents);
    run_part(c, s, &got, 3, T);
    same_result(&c->bed, &got, want, c->direction, "after a checkpoint");
    vae_stream_free(&s);
    p.tile_width += c->unit;
    s = bed_stream(&c->bed, p);
    const VaeStatus status = vae_stream_load(s, &params, &place, &error);
    expect(status == VAE_ERR_ARGUMENT && strstr(error.message, "in tiles of"),
           "other tiles: %s", error.message);
    close(fd);
    unlink(path);
}

static void
check_reset(Case *c, const TestClip *want)
{
    SCOPED_CLIP TestClip got = bed_clip(&c->bed, T, c->width, c->height, 7);
    VaeError error;
    SCOPED_STREAM VaeStream *s = bed_stream(&c->bed, tiled(c));
    run_part(c, s, &got, 0, 2);
    vae_stream_reset(s);
    const uint64_t before = vae_allocation_count();
    run_clip(&c->bed, s, c->direction, &got, by_one);
    expect(vae_allocation_count() == before, "steps allocate nothing");
    same_result(&c->bed, &got, want, c->direction, "after a reset");
    vae_stream_cancel(s);
    vae_stream_reset(s);
    must(vae_stream_restart(s, 1, &error), &error);
}

/* ------------------------------------------------------------------ */

static void
refused(Case *c, VaeStreamParams p, VaeStatus status, const char *word)
{
    VaeError error = {0};
    SCOPED_STREAM VaeStream *s = NULL;
    p.struct_size = sizeof p;
    p.backend = c->bed.backend;
    p.precision = c->bed.precision;
    p.threads = c->bed.threads;
    const VaeStatus got = vae_stream_new(c->bed.model, &p, &s, &error);
    if (status == VAE_ERR_ARGUMENT)
        expect_misuse(got, status, &error, word);
    expect(got == status && strstr(error.message, word), "refused: %s",
           error.message);
}

static void
check_errors(Case *c)
{
    VaeStreamParams p = tiled(c);
    p.tile_width++;
    refused(c, p, VAE_ERR_ARGUMENT, "a tile width of");
    p = tiled(c);
    p.tile_height = -c->unit;
    refused(c, p, VAE_ERR_ARGUMENT, "tile_height -");
    p = tiled(c);
    p.tile_overlap++;
    refused(c, p, VAE_ERR_ARGUMENT, "a tile overlap of");
    p.tile_overlap = 2 * c->unit;
    refused(c, p, VAE_ERR_ARGUMENT, "at most half");
    p = tiled(c);
    p.tiles = 2;
    refused(c, p, VAE_ERR_ARGUMENT, "tiles 2");
    p = tiled(c);
    p.nan_policy = VAE_NAN_FALLBACK;
    refused(c, p, VAE_ERR_UNSUPPORTED, "nan-policy");
}

/* A decoder that looks ahead refuses every setting with tiles. */
static void
check_delay(Case *c)
{
    VaeStreamParams p = tiled(c);
    refused(c, p, VAE_ERR_UNSUPPORTED, "looks ahead");
    p.tile_width = p.tile_height = p.tile_overlap = 0;
    refused(c, p, VAE_ERR_UNSUPPORTED, "looks ahead");
}

/* The picture does not fit in the limit, and is computed in tiles that fit.
 * Without tiles, the error suggests them. */
static void
check_limit(Case *c)
{
    VaeStreamParams p = tiled(c);
    VaePlan plan = VAE_INIT(VaePlan), small = VAE_INIT(VaePlan);
    VaeError error = {0};
    p.struct_size = sizeof p;
    p.backend = c->bed.backend;
    p.precision = c->bed.precision;
    p.threads = c->bed.threads;
    p.width = p.height = 512;
    p.tile_overlap = -1;
    p.tile_width = p.tile_height = 0;
    p.strips = 1;
    p.frames_at_once = 9;
    plan = plan_of(c->bed.model, &p);
    expect(plan.tiles == 0, "without a limit there are no tiles");
    const uint64_t whole = plan.peak;
    p.tile_width = 256;
    small = plan_of(c->bed.model, &p);
    expect(small.tiles > 1 && small.peak < plan.peak,
           "tiles of 256 take %.1f MiB, the picture %.1f",
           (double) small.peak / 1048576, (double) plan.peak / 1048576);
    p.memory_limit = (size_t) small.peak / 2;
    expect(vae_stream_plan(c->bed.model, &p, &plan, &error) == VAE_ERR_MEMORY &&
               strstr(error.message, " tiles "),
           "with less memory: %s", error.message);
    p.tile_width = 0;
    p.memory_limit = (size_t) small.peak;
    plan = plan_of(c->bed.model, &p);
    expect(plan.tiles > 1 && plan.peak <= small.peak &&
               plan.tile_width >= small.tile_width,
           "a limit gives %d tiles of %dx%d", plan.tiles, plan.tile_width,
           plan.tile_height);
    p.tile_overlap = 0;
    p.memory_limit = 0;
    p.tile_width = 256;
    plan = plan_of(c->bed.model, &p);
    if (plan.peak >= whole) /* the carries of the overlaps need more memory than
                               tiles save */
        return;
    p.memory_limit = (size_t) plan.peak;
    p.tiles = VAE_TILES_OFF;
    const VaeStatus status = vae_stream_plan(c->bed.model, &p, &plan, &error);
    expect(status == VAE_ERR_MEMORY && strstr(error.message, "tiles blend"),
           "without tiles: %s", error.message);
}

static VaePlan
planned(Case *c, VaeStreamParams p)
{
    p.struct_size = sizeof p;
    p.backend = c->bed.backend;
    p.precision = c->bed.precision;
    p.threads = c->bed.threads;
    VaePlan plan = plan_of(c->bed.model, &p);
    return plan;
}

/* Returns the number of MiB that an error says are needed. */
static double
needed(Case *c, VaeStreamParams p)
{
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error = {0};
    p.struct_size = sizeof p;
    p.backend = c->bed.backend;
    p.precision = c->bed.precision;
    p.threads = c->bed.threads;
    p.memory_limit = 1;
    expect(vae_stream_plan(c->bed.model, &p, &plan, &error) == VAE_ERR_MEMORY,
           "refused: %s", error.message);
    const char *at = strstr(error.message, " needs ");
    return at ? strtod(at + strcspn(at, "0123456789"), NULL) : 0;
}

/* Smaller slices are tried before tiles, because tiles are not exact. */
static void
check_last_resort(Case *c, const TestClip *want)
{
    VaeStreamParams p = tiled(c);
    p.tile_width = p.tile_height = p.tile_overlap = 0;
    p.strips = 1;
    p.frames_at_once = 9;
    const VaePlan one = planned(c, p);
    p.slice_size = 4;
    const VaePlan four = planned(c, p);
    if (!expect(one.peak < four.peak && four.slice_size == 4,
                "slices of 4 take more"))
        return;
    p.memory_limit = (size_t) one.peak;
    const VaePlan plan = planned(c, p);
    expect(plan.tiles == 0 && plan.slice_size == 1,
           "in the memory of slices of 1: %d tiles, slices of %d", plan.tiles,
           plan.slice_size);
    c->warnings = 0;
    p.tiles = VAE_TILES_OFF;
    p.slice_size = 1;
    TestClip exact = compute(c, want, p, by_one);
    expect(c->warnings == 0, "with slices of 1, as requested: %d warnings",
           c->warnings);
    p.tiles = VAE_TILES_BLEND;
    p.slice_size = 4;
    check(c, &exact, p, by_one,
          "smaller slices than requested, instead of tiles");
    expect(c->warnings == 1, "%d warning about smaller slices", c->warnings);
    clip_free(&exact);
    /* If only tiles fit, the slice size does not change their size. */
    p.width = p.height = 512;
    p.tile_width = 256;
    p.slice_size = 1;
    p.memory_limit = 0;
    p.memory_limit = (size_t) planned(c, p).peak;
    p.tile_width = 0;
    const int width = planned(c, p).tile_width;
    p.slice_size = 4;
    expect(planned(c, p).tile_width == width, "tiles of %d and of %d",
           planned(c, p).tile_width, width);
    const double with = needed(c, p);
    p.slice_size = 1;
    p.tiles = VAE_TILES_OFF;
    const double without = needed(c, p);
    expect(with > 0 && with <= without,
           "a refusal names %.1f MiB with tiles, %.1f without", with, without);
}

/* A non-finite latent counts once, also where tiles overlap. */
static void
check_nonfinite(Case *c, const TestClip *want)
{
    SCOPED_CLIP TestClip clip = bed_clip(&c->bed, 1, c->width, c->height, 7);
    SCOPED_STREAM VaeStream *s = bed_stream(&c->bed, tiled(c));
    const size_t wide = (size_t) (c->width / c->unit + 1);
    clip.latents[3 * wide + 3] = NAN; /* a pixel of 4 tiles, or of 2 */
    run_clip(&c->bed, s, VAE_DECODE, &clip, by_one);
    expect(vae_stream_stats(s)->nonfinite == 1, "%d value is not finite",
           (int) vae_stream_stats(s)->nonfinite);
}

static void
look(Case *c)
{
    printf("-- %s\n", c->direction == VAE_DECODE ? "decode" : "encode");
    const TestClip none = {0};
    c->warnings = 0;
    SCOPED_CLIP TestClip want = compute(c, &none, tiled(c), by_one);
    expect(c->warnings == 1, "%d warning that it is not exact", c->warnings);
    check_ways(c, &want);
    check_untiled(c, &want);
    check_checkpoint(c, &want);
    check_reset(c, &want);
    check_errors(c);
    check_limit(c);
    check_last_resort(c, &want);
    if (c->direction == VAE_DECODE)
        check_nonfinite(c, &want);
}

int
main(int argc, char **argv)
{
    Case c = {0};
    bed_open_main(&c.bed, argc, argv);
    c.unit = c.bed.info->spatial;
    c.width = 9 * c.unit - 3;
    c.height = 7 * c.unit - 1;
    for (int d = 0; d < 2; d++) {
        c.direction = d ? VAE_ENCODE : VAE_DECODE;
        if (c.bed.info->delay && c.direction == VAE_DECODE)
            check_delay(&c);
        else
            look(&c);
    }
    return bed_close(&c.bed);
}
