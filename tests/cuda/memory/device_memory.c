/*
 * device_memory.c: tests the memory that streams take on the emulated device:
 * as planned, no more in later steps, and less if the device is full.
 *
 * device_memory MODEL STRIDE
 */

#include "alloc.h"
#include "../clips.h"
#include "emu_state.h"
#include "stream.h"

static void
plan_is_kept(const Bed *bed, VaeDirection direction, int tile)
{
    VaeStreamParams params = params_of(direction);
    uint64_t before, after;
    params.tiles = tile > 0;
    params.tile_width = tile;
    /* a separate model, which loads all weights */
    VaeModel *model = open_model(bed);
    VaePlan plan = plan_of(model, &params);
    vae_rt_memory_left(&before);
    VaeStream *stream = new_stream(model, &params);
    vae_rt_memory_left(&after);
    /* layers of one size share a bias of zeros */
    const uint64_t taken = before - after;
    expect(taken <= plan.total && plan.total <= taken + taken / 100,
           "%s: %llu bytes of the device taken, %llu planned (weights %llu, "
           "carries %llu, arena %llu, scratch %llu, staging %llu)",
           name_of(direction), (unsigned long long) taken,
           (unsigned long long) plan.total, (unsigned long long) plan.weights,
           (unsigned long long) plan.carries, (unsigned long long) plan.arena,
           (unsigned long long) plan.scratch,
           (unsigned long long) plan.staging);
    vae_stream_free(&stream);
    vae_model_free(&model);
    vae_rt_memory_left(&after);
    expect(before == after, "all of it is freed");
}

/* Steps of an open stream allocate nothing. */
static void
steps_take_nothing(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    emu_fail_alloc(0);
    const uint64_t host = vae_allocation_count();
    run_clip(bed, stream, direction, &clip, calls);
    const int device = emu_fail_alloc(0);
    expect(device == 0 && vae_allocation_count() == host,
           "steps take %d blocks of the device, %llu of the host", device,
           (unsigned long long) (vae_allocation_count() - host));
}

/* Runs Y'CbCr pictures one by one. */
static VaeStatus
run_yuv(const Bed *bed, VaeStream *stream, VaeDirection direction,
        VaeError *error)
{
    enum { MOST = 8 };
    static uint8_t planes[MOST][SIZE * SIZE * 2];
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, SIZE, SIZE, 0);
    const VaeLatentIn in = {.type = VAE_TYPE_F32, .data = clip.latents};
    const VaeLatentOut out = {.type = VAE_TYPE_F32, .data = clip.latents};
    VaePicture pictures[MOST];
    int n_in, n_out;
    for (int i = 0; i < MOST; i++)
        pictures[i] = (VaePicture){.pixels = VAE_PIXELS_I420,
                                   .width = SIZE,
                                   .height = SIZE,
                                   .data = {planes[i], planes[i] + SIZE * SIZE,
                                            planes[i] + SIZE * SIZE * 3 / 2},
                                   .stride = {SIZE, SIZE / 2, SIZE / 2}};
    vae_stream_reset(stream);
    vae_stream_count(stream, 1, &n_in, &n_out);
    const VaeStatus status =
        direction == VAE_DECODE
            ? vae_stream_decode(stream, &in, n_in, pictures, n_out, error)
            : vae_stream_encode(stream, pictures, n_in, &out, n_out, error);
    return status;
}

/* Steps of an open stream load no code, for any format of pictures. timed:
 * opening times layers, and results are checked. */
static void
steps_load_nothing(const Bed *bed, VaeDirection direction, bool timed)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error;
    VaeStream *stream;
    VaeStreamParams params = params_of(direction);
    params.deterministic = !timed;
    params.nan_policy = timed ? VAE_NAN_ERROR : VAE_NAN_PASS;
    for (int graphs = 0; graphs < 2; graphs++) {
        setenv("VAE_CUDA_GRAPHS", graphs ? "1" : "0", 1);
        emu_unload();
        emu_loads();
        stream = new_stream(bed->model, &params);
        const int before = emu_loads();
        run_clip(bed, stream, direction, &clip, calls);
        must(run_yuv(bed, stream, direction, &error), &error);
        const int after = emu_loads();
        expect(before > 0 && after == 0,
               "opening loads %d kernels and plans, steps load %d%s", before,
               after, timed ? ", of timed layers" : "");
        vae_stream_free(&stream);
    }
    unsetenv("VAE_CUDA_GRAPHS");
}

/* Sets the folder of stored times, and returns the previous one. */
static char *
set_cache(const char *folder)
{
    const char *before = getenv("XDG_CACHE_HOME");
    char *kept = before ? strdup(before) : NULL;
    if (folder)
        setenv("XDG_CACHE_HOME", folder, 1);
    else
        unsetenv("XDG_CACHE_HOME");
    return kept;
}

/* Without a folder for stored times, each start times its layers. */
static void
steps_load_nothing_timed(const Bed *bed, VaeDirection direction)
{
    SCOPED_BLOCK char *kept = set_cache("/dev/null");
    steps_load_nothing(bed, direction, true);
    free(set_cache(kept));
}

/* Refuses one allocation in each attempt: each of the first, then every
 * stride-th. */
static void
refused_memory(const Bed *bed, VaeDirection direction, int stride)
{
    VaeStream *stream = NULL;
    VaeError error;
    const VaeStreamParams params = params_of(direction);
    Refusals r = {.refuse = emu_fail_alloc, .dense = 21, .stride = stride};
    while (refuse_next(&r)) {
        VaeModel *model = open_model(bed);
        const int before = emu_alive();
        refuse_begin(&r);
        const VaeStatus status =
            vae_stream_new(model, &params, &stream, &error);
        r.wrong += status != (refuse_end(&r) ? VAE_ERR_MEMORY : VAE_OK);
        vae_stream_free(&stream);
        vae_model_free(&model);
        r.left += emu_alive() != before || emu_convs_alive();
    }
    expect(r.refused > 5 && r.wrong == 0 && r.left == 0,
           "%s, %d allocations refused: %d without an error about memory, %d "
           "left something",
           name_of(direction), r.refused, r.wrong, r.left);
}

/* Leaves this many bytes of the device free. */
static void
leave(uint64_t bytes)
{
    uint64_t left;
    emu_set_memory((uint64_t) 4 << 30);
    vae_rt_memory_left(&left);
    emu_set_memory(((uint64_t) 4 << 30) - left + ((uint64_t) 128 << 20) +
                   bytes);
}

static void
count_warning(void *user, const char *line)
{
    printf("warning: %s\n", line);
    *(int *) user += strstr(line, "the cpu backend computes, not") != NULL;
}

/* AUTO on a full device. */
static void
full_device(const Bed *bed)
{
    VaeError error = {0};
    int warnings = 0;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.backend = VAE_BACKEND_AUTO;
    params.warn = count_warning;
    params.log_user = &warnings;
    VaeStream *stream = new_stream(bed->model, &params);
    expect(vae_stream_get_plan(stream)->backend == VAE_BACKEND_CUDA &&
               warnings == 0,
           "auto takes the device");
    vae_stream_free(&stream);
    leave(4096);
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    if (vae_backend_available(VAE_BACKEND_CPU, NULL, 0))
        expect(status == VAE_OK && warnings == 1 &&
                   vae_stream_get_plan(stream)->backend == VAE_BACKEND_CPU,
               "auto takes the processor, with one warning, if the device is "
               "full");
    else
        expect(status == VAE_ERR_MEMORY, "full: %s", error.message);
    vae_stream_free(&stream);
    warnings = 0;
    params.memory_limit = 4096;
    expect(vae_stream_new(bed->model, &params, &stream, &error) ==
                   VAE_ERR_MEMORY &&
               warnings == 0,
           "auto warns of nothing if the processor has no memory, either: %s",
           error.message);
    emu_set_memory((uint64_t) 4 << 30);
}

static void
small_memory(const Bed *bed)
{
    VaeStream *stream = NULL;
    VaeError error = {0};
    VaeStreamParams params = params_of(VAE_DECODE);
    leave(4096);
    VaeStatus status = vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_MEMORY &&
               strstr(error.message, "decode of 16x16 in fp32 with ") &&
               strstr(error.message, "on the device"),
           "4 KiB left: %s", error.message);
    expect(!strstr(error.message, "settings that would fit: backend cpu (") ==
               !vae_backend_available(VAE_BACKEND_CPU, NULL, 0),
           "the error suggests the cpu backend, if there is one");
    emu_set_memory((uint64_t) 4 << 30);
    params.direction = VAE_ENCODE;
    params.precision = VAE_PRECISION_BF16;
    VaePlan plan = plan_of(bed->model, &params);
    leave(plan.peak);
    params.precision = VAE_PRECISION_TF32;
    status = vae_stream_new(bed->model, &params, &stream, &error);
    expect(status == VAE_ERR_MEMORY &&
               strstr(error.message, "encode of 16x16 in tf32 with ") &&
               strstr(error.message, "precision bf16 ("),
           "memory is enough for bf16: %s", error.message);
    emu_set_memory((uint64_t) 4 << 30);
}

/* Memory that was free during planning is no longer free during allocation. The
 * stream takes fewer steps per slice, if it may choose their number. */
static void
lost_memory(const Bed *bed, bool asked)
{
    enum { WIDE = 512 };
    VaeStream *stream = NULL;
    VaeError error = {0};
    VaeStreamParams params = params_of(VAE_DECODE);
    params.width = params.height = WIDE;
    params.slice_size = 1;
    VaePlan least = plan_of(bed->model, &params);
    params.slice_size = 4;
    VaePlan most = plan_of(bed->model, &params);
    const uint64_t beside = (uint64_t) 128 << 20;
    const uint64_t gain = most.total - least.total;
    if (!expect(gain > beside, "slices of 4 take %.1f MiB more",
                (double) gain / 1048576))
        return;
    uint64_t left;
    vae_rt_memory_left(&left);
    /* AUTO uses nine tenths of the free memory. */
    const uint64_t free = most.peak / 9 * 10 + beside;
    emu_set_memory(((uint64_t) 4 << 30) - left + beside + free);
    params.slice_size = asked ? 4 : 0;
    emu_skip_work(true);
    emu_take_memory(1, gain + free - most.peak);
    const VaeStatus status =
        vae_stream_new(bed->model, &params, &stream, &error);
    emu_take_memory(0, 0);
    if (asked)
        expect(status == VAE_ERR_MEMORY, "requested slices do not fit: %s",
               vae_status_name(status));
    else if (expect(status == VAE_OK, "memory was lost: %s", error.message)) {
        const int slice = vae_stream_get_plan(stream)->slice_size;
        expect(slice < 4, "slices of %d", slice);
    }
    vae_stream_free(&stream);
    emu_skip_work(false);
    emu_set_memory((uint64_t) 4 << 30);
}

/* A device allocates in steps of 2 MiB, so a stream must have few blocks. */
static void
few_blocks(const Bed *bed)
{
    enum { STEP = 2 << 20, MOST = 12 };
    uint64_t before, after;
    VaeModel *model = open_model(bed);
    vae_rt_memory_left(&before);
    emu_set_granularity(STEP);
    VaeStream *stream = open_stream(model, VAE_DECODE);
    vae_rt_memory_left(&after);
    const uint64_t plan = vae_stream_get_plan(stream)->total;
    expect(before - after <= plan + MOST * (uint64_t) STEP,
           "%.1f MiB of a device are used, %.1f are planned",
           (double) (before - after) / 1048576, (double) plan / 1048576);
    vae_stream_free(&stream);
    vae_model_free(&model);
    emu_set_granularity(1);
}

static double
flop_of(const VaeStream *stream)
{
    double sum = 0;
    for (int i = 0; i < PROGRAMS; i++)
        sum += stream->main.programs[i] ? stream->main.programs[i]->flop : 0;
    return sum;
}

/* Opening a stream computes almost nothing, and launches no own kernel. A
 * second stream makes no plans and loads no code. */
static void
cheap_start(const Bed *bed)
{
    enum { WIDE = 512 };
    VaeStream *stream, *second;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.width = params.height = WIDE;
    params.slice_size = 4;
    emu_skip_work(true);
    emu_unload();
    emu_loads();
    emu_launches();
    emu_plans_made();
    emu_conv_flop();
    stream = new_stream(bed->model, &params);
    const double all = flop_of(stream), flop = emu_conv_flop();
    const int plans = emu_plans_made(), loads = emu_loads();
    second = new_stream(bed->model, &params);
    const double more = emu_conv_flop();
    const int more_plans = emu_plans_made(), more_loads = emu_loads();
    const int launches = emu_launches();
    vae_stream_free(&stream);
    vae_stream_free(&second);
    emu_skip_work(false);
    expect(flop > 0 && flop < all / 20 && launches == 0,
           "opening computes %.2f GFLOP and launches %d kernels; its programs "
           "take %.2f",
           flop / 1e9, launches, all / 1e9);
    expect(plans > 0 && loads > 0 && more == 0 && more_plans == 0 &&
               more_loads == 0,
           "a second stream makes %d plans (the first %d), loads %d times (the "
           "first %d), and computes %.2f GFLOP",
           more_plans, plans, more_loads, loads, more / 1e9);
}

/* Returns the number of operations when a large stream opens, divided by that
 * of its programs. */
static double
part_of_programs(const Bed *bed, bool deterministic)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    params.width = params.height = 512;
    params.slice_size = 4;
    params.deterministic = deterministic;
    emu_unload();
    emu_conv_searches();
    emu_conv_flop();
    VaeStream *stream = new_stream(bed->model, &params);
    const double part = emu_conv_flop() / flop_of(stream);
    vae_stream_free(&stream);
    return part;
}

/* A start with stored times searches nothing, and runs only a few rows of each
 * layer, as a deterministic start does. */
static void
stored_start(const Bed *bed)
{
    char folder[] = "/tmp/vae-start-XXXXXX", command[64];
    if (!expect(mkdtemp(folder) != NULL, "a folder"))
        return;
    SCOPED_BLOCK char *kept = set_cache(folder);
    emu_skip_work(true);
    const double timed = part_of_programs(bed, false);
    const double stored = part_of_programs(bed, false);
    const int searches = emu_conv_searches();
    const double never = part_of_programs(bed, true);
    emu_skip_work(false);
    expect(timed > 1 && stored > 0 && stored < 0.05 && searches == 0,
           "a first start computes %.2f times the programs, the next one %.4f "
           "(%d searches), a deterministic one %.4f",
           timed, stored, searches, never);
    free(set_cache(kept));
    snprintf(command, sizeof command, "rm -rf %s", folder);
    expect(system(command) == 0, "%s", command);
}

/* One of two streams is freed. They share cuDNN's handle, which uses the CUDA
 * stream of the last run. */
static void
one_ends(const Bed *bed)
{
    SCOPED_CLIP TestClip want = new_clip(bed), clip = new_clip(bed);
    VaeStream *first = open_stream(bed->model, VAE_DECODE);
    SCOPED_STREAM VaeStream *second = open_stream(bed->model, VAE_DECODE);
    run_clip(bed, first, VAE_DECODE, &want, calls);
    vae_stream_free(&first);
    run_clip(bed, second, VAE_DECODE, &clip, calls);
    same_result(bed, &clip, &want, VAE_DECODE,
                "a stream after another one is freed");
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    for (int i = 0; i < 2; i++) {
        const VaeDirection direction = i ? VAE_ENCODE : VAE_DECODE;
        plan_is_kept(&bed, direction, 0);
        plan_is_kept(&bed, direction, SIZE / 2);
        steps_take_nothing(&bed, direction);
        steps_load_nothing(&bed, direction, false);
        steps_load_nothing_timed(&bed, direction);
        refused_memory(&bed, direction, stride);
    }
    small_memory(&bed);
    full_device(&bed);
    lost_memory(&bed, true);
    lost_memory(&bed, false);
    few_blocks(&bed);
    cheap_start(&bed);
    stored_start(&bed);
    one_ends(&bed);
    return device_close(&bed);
}
