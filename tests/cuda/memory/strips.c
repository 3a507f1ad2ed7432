/*
 * strips.c: strips of rows on the emulated device give the bytes of whole
 * pictures with every other setting of the ladder, in the planned memory. The
 * same holds for the bands of rows into which the backend divides a large
 * convolution.
 *
 * strips MODEL STRIDE         strips
 * strips MODEL STRIDE bands   only bands
 */

#include "../clips.h"
#include "emu_rt.h"
#include "gpu.h"

typedef struct Rung {
    int slice, frames, strips;
    VaeSpill spill;
} Rung;

enum { ALL = 1000 }; /* frames at once */

static VaeStream *
open_rung(VaeModel *model, VaeDirection direction, Rung rung)
{
    VaeStreamParams params = params_of(direction);
    VaeStream *stream;
    VaeError error;
    params.slice_size = rung.slice;
    params.frames_at_once = rung.frames;
    params.strips = rung.strips;
    params.spill = rung.spill;
    params.restarts = true;
    must(vae_stream_new(model, &params, &stream, &error), &error);
    return stream;
}

static const char *
label_of(VaeDirection direction, Rung rung)
{
    static char label[100];
    snprintf(label, sizeof label, "%s, slices of %d, %d frames, %d strips, %s",
             name_of(direction), rung.slice, rung.frames, rung.strips,
             rung.spill == VAE_SPILL_HOST ? "spilled" : "not spilled");
    return label;
}

static bool
is_same(const Bed *bed, const Clips *c, VaeDirection direction)
{
    size_t bytes;
    const void *want = clip_result(bed, &c->want, direction, &bytes);
    const void *got = clip_result(bed, &c->got, direction, &bytes);
    return memcmp(want, got, bytes) == 0;
}

/* ------------------------------------------------------------------ */

static void
one_rung(const Bed *bed, VaeDirection direction, Clips *c, Rung rung)
{
    const char *label = label_of(direction, rung);
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    VaeStream *stream = open_rung(model, direction, rung);
    const VaePlan plan = *vae_stream_get_plan(stream);
    const uint64_t taken = empty - memory_left();
    clip_poison(bed, &c->got, direction);
    run_clip(bed, stream, direction, &c->got, whole);
    expect(is_same(bed, c, direction), "%s: the bytes of whole pictures",
           label);
    expect(taken == plan.total, "%s: %llu bytes taken, %llu planned", label,
           (unsigned long long) taken, (unsigned long long) plan.total);
    expect((plan.spilled > 0) == (rung.spill == VAE_SPILL_HOST),
           "%s: %llu bytes spilled", label, (unsigned long long) plan.spilled);
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(memory_left() == empty, "%s: nothing is left", label);
}

static void
all_rungs(const Bed *bed, VaeDirection direction)
{
    static const int frames[] = {ALL, 2, 1}, strips[] = {2, 5, 16};
    Clips c = open_clips(bed, direction);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            one_rung(bed, direction, &c,
                     (Rung){(i + k) % 2 ? 3 : 1, frames[i], strips[k],
                            (i + k) % 3 ? VAE_SPILL_HOST : VAE_SPILL_OFF});
    close_clips(&c);
}

/* Frees and reloads the memory between all calls. */
static void
released(const Bed *bed, VaeDirection direction, Rung rung)
{
    Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error;
    VaeStream *stream = open_rung(bed->model, direction, rung);
    for (int i = 0; i < CALLS; i++) {
        must(call(bed, stream, &at, steps[i], &error), &error);
        must(vae_stream_release(stream, &error), &error);
    }
    expect(is_same(bed, &c, direction), "%s: released between calls",
           label_of(direction, rung));
    vae_stream_free(&stream);
    close_clips(&c);
}

/* A restart after a release gives the bytes of whole pictures. */
static void
restarted(const Bed *bed, VaeDirection direction, Rung rung)
{
    const Rung rungs[] = {{2, ALL, 1, VAE_SPILL_OFF}, rung};
    Clips c = open_clips(bed, direction);
    VaeError error;
    for (int i = 0; i < 2; i++) {
        Place at = {direction, i ? &c.got : &c.want, 0, 0};
        VaeStream *stream = open_rung(bed->model, direction, rungs[i]);
        clip_poison(bed, at.clip == &c.got ? &c.got : &c.want, direction);
        must(call(bed, stream, &at, steps[0], &error), &error);
        must(call(bed, stream, &at, steps[1], &error), &error);
        must(vae_stream_release(stream, &error), &error);
        must(vae_stream_restart(stream, 3, &error), &error);
        must(call(bed, stream, &at, steps[2], &error), &error);
        must(call(bed, stream, &at, steps[3], &error), &error);
        vae_stream_free(&stream);
    }
    expect(is_same(bed, &c, direction), "%s: restarted",
           label_of(direction, rung));
    close_clips(&c);
}

/* A checkpoint of one rung continues on another. */
static void
moved(const Bed *bed, VaeDirection direction, Rung from, Rung to)
{
    Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error;
    char path[] = "/tmp/vae-strips-XXXXXX";
    const int fd = mkstemp(path);
    VaeCheckpointParams how = VAE_INIT(VaeCheckpointParams);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    how.carries = true;
    how.path = path;
    VaeStream *stream = open_rung(bed->model, direction, from);
    must(call(bed, stream, &at, steps[0], &error), &error);
    must(call(bed, stream, &at, steps[1], &error), &error);
    must(vae_stream_save(stream, &how, &error), &error);
    vae_stream_free(&stream);
    stream = open_rung(bed->model, direction, to);
    must(vae_stream_load(stream, &how, &found, &error), &error);
    must(call(bed, stream, &at, steps[2], &error), &error);
    must(call(bed, stream, &at, steps[3], &error), &error);
    expect(is_same(bed, &c, direction), "%s: from a checkpoint with %d strips",
           label_of(direction, to), from.strips);
    vae_stream_free(&stream);
    close(fd);
    unlink(path);
    close_clips(&c);
}

static void
checkpoints(const Bed *bed, VaeDirection direction)
{
    static const Rung rungs[] = {
        {2, ALL, 1, VAE_SPILL_OFF},
        {1, ALL, 4, VAE_SPILL_OFF},
        {1, 2, 8, VAE_SPILL_OFF},
        {1, 1, 16, VAE_SPILL_HOST},
    };
    enum { RUNGS = sizeof rungs / sizeof *rungs };
    for (int i = 0; i < RUNGS; i++)
        for (int k = 0; k < RUNGS; k++)
            moved(bed, direction, rungs[i], rungs[k]);
}

/* ------------------------------------------------------------------ */

/* Returns true if the result is right although the n-th copy of the second call
 * is wrong. n < 0: all are right. */
static bool
is_same_when(const Bed *bed, Clips *c, Rung rung, EmuFault fault, int n,
             int *count)
{
    Place at = {VAE_DECODE, &c->got, 0, 0};
    VaeError error;
    clip_poison(bed, &c->got, VAE_DECODE);
    VaeStream *stream = open_rung(bed->model, VAE_DECODE, rung);
    must(call(bed, stream, &at, steps[0], &error), &error);
    emu_set_fault(fault, n);
    must(call(bed, stream, &at, steps[1], &error), &error);
    *count = emu_fault_count(fault);
    emu_set_fault(EMU_FAULT_NONE, 0);
    must(call(bed, stream, &at, steps[2], &error), &error);
    must(call(bed, stream, &at, steps[3], &error), &error);
    vae_stream_free(&stream);
    return is_same(bed, c, VAE_DECODE);
}

static void
missing_copies(const Bed *bed, const char *label, Rung rung, int stride)
{
    static const EmuFault faults[] = {EMU_FAULT_NO_COPY, EMU_FAULT_FROM,
                                      EMU_FAULT_TO, EMU_FAULT_UPLOAD,
                                      EMU_FAULT_DOWNLOAD};
    Clips c = open_clips(bed, VAE_DECODE);
    setenv("VAE_CUDA_GRAPHS", "0", 1); /* copies in a graph are not seen */
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        int n = 0, missed = 0, idle = 0, ignored;
        expect(is_same_when(bed, &c, rung, faults[k], -1, &n), "%s: no fault",
               label);
        for (int i = 0; i < n; i += stride) {
            const bool same =
                is_same_when(bed, &c, rung, faults[k], i, &ignored);
            idle += !emu_fault_done();
            if (same && emu_fault_done()) {
                missed++;
                printf("fault %d: number %d is not noticed\n", (int) faults[k],
                       i);
            }
        }
        /* Some faults change nothing: the target already has these bytes, or is
         * the beginning of its block. */
        const bool often =
            faults[k] != EMU_FAULT_TO && 2 * idle > n / stride + 2;
        expect(n > 0 && missed == 0 && !often,
               "%s: fault %d: %d times, %d of them not noticed, %d without an "
               "effect",
               label, (int) faults[k], n, missed, idle);
    }
    unsetenv("VAE_CUDA_GRAPHS");
    close_clips(&c);
}

/* If a library sums the rows of a strip in another order, the result is wrong,
 * so the tests notice this. */
static void
other_sums(const Bed *bed, VaeDirection direction, Rung rung)
{
    Clips c = open_clips(bed, direction);
    VaeStream *stream;
    emu_set_conv_flaw(1, EMU_FLAW_HEIGHT);
    stream = open_rung(bed->model, direction, (Rung){2, ALL, 1, VAE_SPILL_OFF});
    run_clip(bed, stream, direction, &c.want, whole);
    vae_stream_free(&stream);
    stream = open_rung(bed->model, direction, rung);
    run_clip(bed, stream, direction, &c.got, whole);
    const bool cut = vae_stream_get_plan(stream)->strips > 0;
    vae_stream_free(&stream);
    emu_set_conv_flaw(0, EMU_FLAW_HEIGHT);
    expect(is_same(bed, &c, direction) != cut, "%s: sums that depend on rows",
           label_of(direction, rung));
    close_clips(&c);
}

/* ------------------------------------------------------------------ */

/* small: sets a limit of a few elements, so that every frame is too large for
 * one call. */
static void
set_bands(bool small)
{
    static VaeCudaPartLimits usual;
    if (small) {
        usual = vae_cuda_part_limits;
        vae_cuda_part_limits.numbers = 3000;
        vae_cuda_part_limits.bytes = vae_cuda_part_limits.band = 4000;
    } else {
        vae_cuda_part_limits = usual;
    }
}

static void
bands(const Bed *bed, VaeDirection direction, int stride)
{
    static const Rung rungs[] = {
        {1, ALL, 1, VAE_SPILL_OFF},
        {3, ALL, 1, VAE_SPILL_OFF},
        {1, 1, 3, VAE_SPILL_HOST},
    };
    Clips c = open_clips(bed, direction);
    emu_conv_runs();
    one_rung(bed, direction, &c, rungs[0]);
    const int before = emu_conv_runs();
    set_bands(true);
    for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++)
        one_rung(bed, direction, &c, rungs[i]);
    const int runs = emu_conv_runs();
    expect(runs > 6 * before, "%s: %d convolutions instead of 3 x %d",
           name_of(direction), runs, before);
    if (direction == VAE_DECODE)
        missing_copies(bed, "bands", rungs[0], stride);
    set_bands(false);
    close_clips(&c);
}

/* The first band reads fewer rows than the others, because zeros are above it.
 * So another band needs the most workspace, and this is planned. */
static void
workspace_of_bands(void)
{
    const VaeCudaConvShape s = {.t = 1,
                                .h = 12,
                                .w = 12,
                                .c_in = 8,
                                .ho = 12,
                                .wo = 12,
                                .c_out = 8,
                                .k = 3,
                                .kt = 3,
                                .s = 1,
                                .st = 1,
                                .pad_y = 1,
                                .pad_x = 1};
    const VaeBackendParams params = {.precision = VAE_PRECISION_FP32,
                                     .device = -1};
    const VaeCudaRows rows = {s.h, s.ho, s.pad_y, false};
    VaeBackend *backend;
    VaeDevice device;
    VaeCudaParts parts;
    VaeError error;
    size_t most = 0;
    must(vae_backend_cuda.open(&params, &backend, &device, &error), &error);
    set_bands(true);
    must(vae_cuda_parts_new(backend->convs, &s, &rows, &(VaeCudaChoice){"1 3"},
                            &parts, &error),
         &error);
    set_bands(false);
    for (int i = 0; i < parts.bands; i++) {
        const size_t bytes = vae_cuda_conv_workspace(parts.conv[i]);
        most = bytes > most ? bytes : most;
    }
    const size_t first = vae_cuda_conv_workspace(parts.conv[0]);
    const size_t planned = vae_cuda_parts_workspace(&parts);
    expect(parts.bands > 2 && most >= first + 256 && planned >= most &&
               planned < most + 256,
           "%d bands need %zu bytes of workspace, the first %zu; %zu planned",
           parts.bands, most, first, planned);
    vae_cuda_parts_free(&parts);
    vae_backend_cuda.close(&backend);
}

static void
all_strips(const Bed *bed, VaeDirection direction)
{
    static const Rung some = {2, ALL, 4, VAE_SPILL_OFF};
    static const Rung last = {1, 1, 16, VAE_SPILL_HOST};
    all_rungs(bed, direction);
    released(bed, direction, last);
    restarted(bed, direction, some);
    checkpoints(bed, direction);
    other_sums(bed, direction, some);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const bool only_bands = argc == 4 && strcmp(argv[3], "bands") == 0;
    const int stride = bed_open_device(&bed, only_bands ? 3 : argc, argv);
    for (int i = 0; i < 2; i++)
        if (only_bands)
            bands(&bed, i ? VAE_ENCODE : VAE_DECODE, stride);
        else
            all_strips(&bed, i ? VAE_ENCODE : VAE_DECODE);
    if (only_bands)
        workspace_of_bands();
    if (!only_bands)
        missing_copies(&bed, "strips", (Rung){2, ALL, 4, VAE_SPILL_OFF},
                       stride);
    if (!only_bands)
        missing_copies(&bed, "spilled", (Rung){1, 1, 16, VAE_SPILL_HOST},
                       8 * stride);
    return device_close(&bed);
}
