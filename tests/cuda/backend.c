/*
 * backend.c: tests the CUDA backend on the emulated device: the order of work,
 * calls in flight, copies, and recordings.
 *
 * backend MODEL STRIDE
 */

#include "clips.h"
#include "emu_state.h"
#include "stream.h"

static void
one_order(const Bed *bed, VaeDirection direction, Clips *c, const char *what)
{
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    run_clips(bed, stream, direction, c);
    same_result(bed, &c->got, &c->want, direction, what);
}

/* The result does not depend on how early or late streams do their work, on
 * graphs, or on the number of frames of a convolution. */
static void
all_orders(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    for (unsigned eager = 0; eager < 8; eager++) {
        char what[100];
        setenv("VAE_CUDA_GRAPHS", eager & 1 ? "0" : "1", 1);
        emu_set_conv_frames(eager & 2 ? 1 : 0);
        emu_set_eager(eager);
        snprintf(what, sizeof what, "%s, eager streams %u, graphs %s%s",
                 name_of(direction), eager, eager & 1 ? "off" : "on",
                 eager & 2 ? ", convolutions in parts" : "");
        one_order(bed, direction, &c, what);
    }
    unsetenv("VAE_CUDA_GRAPHS");
    emu_set_conv_frames(0);
    emu_set_eager(0);
    for (unsigned seed = 1; seed <= 4; seed++) {
        char what[100];
        emu_set_seed(seed);
        snprintf(what, sizeof what, "%s, work at random moments, seed %u",
                 name_of(direction), seed);
        one_order(bed, direction, &c, what);
    }
    emu_set_seed(0);
}

static bool pinned_pictures;

/* Runs one step on the units from *in and *out on. */
static void
begin_step(const Bed *bed, VaeStream *stream, const TestClip *clip, int *in,
           int *out)
{
    VaeLatentIn latent;
    VaePicture pictures[8];
    VaeError error;
    int n_in, n_out;
    vae_stream_count(stream, 1, &n_in, &n_out);
    latent = (VaeLatentIn){.type = VAE_TYPE_F32,
                           .data = clip->latents +
                                   (size_t) *in * clip_latent_count(bed, clip) /
                                       (size_t) clip->t};
    for (int i = 0; i < n_out; i++)
        pictures[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB_F32,
            .width = SIZE,
            .height = SIZE,
            .pinned = pinned_pictures,
            .data = {(uint8_t *) (clip->video +
                                  (size_t) (*out + i) * SIZE * SIZE * 3)},
            .stride = {SIZE * 3 * 4}};
    must(
        vae_stream_decode_begin(stream, &latent, n_in, pictures, n_out, &error),
        &error);
    *in += n_in;
    *out += n_out;
}

/* True if frames from..to-1 still have the values of clip_poison(). */
static bool
untouched(const TestClip *clip, int from, int to)
{
    const uint8_t *p = (const uint8_t *) clip->video;
    const size_t frame = (size_t) SIZE * SIZE * 3 * sizeof(float);
    for (size_t i = (size_t) from * frame; i < (size_t) to * frame; i++)
        if (p[i] != 0xee)
            return false;
    return true;
}

static void
count_pending(void *pending)
{
    *(int *) pending = emu_pending();
}

/* A call does not wait while there is a free slot. Its results are complete
 * after a wait for this call. A check for non-finite values waits only for the
 * number of these, not for the results. */
static void
calls_under_way(const Bed *bed, VaeNanPolicy policy)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error;
    int in = 0, out = 0, ends[LATENTS + 1] = {0}, late = 0, early = 0;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.nan_policy = policy;
    VaeStream *stream = bed_stream(bed, params);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_reset(stream);
    clip_poison(bed, &clip, VAE_DECODE);
    for (int i = 0; i < LATENTS; i++) {
        int pending = 0;
        emu_at_work(1, count_pending, &pending);
        begin_step(bed, stream, &clip, &in, &out);
        /* more than the event of this step's own beginning */
        early += i > 0 && pending < 2;
        ends[i + 1] = out;
        early += !untouched(&clip, ends[i > 0 ? i - 1 : 0], out);
        /* more than the copy of one computed slice */
        early += emu_pending() < 6;
        must(vae_stream_wait(stream, 1, &error), &error);
        early += !untouched(&clip, ends[i], out);
        late += i > 0 && untouched(&clip, ends[i - 1], ends[i]);
    }
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(early == 0 && late == 0,
           "one call in flight at a time: %d waited too long, %d results were "
           "late",
           early, late);
    same_result(bed, &clip, &want, VAE_DECODE, "calls in flight");
    clip_poison(bed, &clip, VAE_DECODE);
    in = out = 0;
    vae_stream_reset(stream);
    begin_step(bed, stream, &clip, &in, &out);
    begin_step(bed, stream, &clip, &in, &out);
    vae_stream_reset(stream);
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(untouched(&clip, 0, out),
           "a reset drops the results of calls in flight");
    in = out = 0;
    begin_step(bed, stream, &clip, &in, &out);
    vae_stream_free(&stream);
    expect(untouched(&clip, 0, out), "so does the end of the stream");
}

/* A check for non-finite values does not make an encoder wait, either. */
static void
encoding_under_way(const Bed *bed)
{
    enum { MOST = 8 };
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaePicture pictures[MOST];
    VaeError error;
    int n_in, n_out;
    VaeStreamParams params = params_of(VAE_ENCODE);
    params.nan_policy = VAE_NAN_ERROR;
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params);
    vae_stream_count(stream, 1, &n_in, &n_out);
    for (int i = 0; i < n_in; i++)
        pictures[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB_F32,
            .width = SIZE,
            .height = SIZE,
            .data = {(uint8_t *) (clip.video + (size_t) i * SIZE * SIZE * 3)},
            .stride = {SIZE * 3 * 4}};
    must(vae_stream_encode_begin(
             stream, pictures, n_in,
             &(VaeLatentOut){.type = VAE_TYPE_F32, .data = clip.latents}, n_out,
             &error),
         &error);
    expect(emu_pending() >= 6, "after an encoder's call %d tasks are pending",
           emu_pending());
    must(vae_stream_wait(stream, 0, &error), &error);
}

/* The device copies results directly to memory that the caller has pinned.
 * There is one copy for each picture, and one for the counters. */
static void
pinned_memory(const Bed *bed)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error;
    int in = 0, out = 0;
    VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    vae_stream_reset(stream);
    clip_poison(bed, &clip, VAE_DECODE);
    VaePin *pin = vae_stream_pin(stream, clip.video,
                                 clip_video_count(&clip) * sizeof(float));
    VaePin *twice = vae_stream_pin(stream, clip.video, 4);
    expect(pin && !twice && emu_pins() == 1, "memory is pinned once");
    pinned_pictures = true;
    emu_set_fault(EMU_FAULT_DOWNLOAD, -1);
    for (int i = 0; i < LATENTS; i++)
        begin_step(bed, stream, &clip, &in, &out);
    must(vae_stream_wait(stream, 0, &error), &error);
    const int copies = emu_fault_count(EMU_FAULT_DOWNLOAD);
    emu_set_fault(EMU_FAULT_NONE, 0);
    pinned_pictures = false;
    expect(copies == out + LATENTS, "%d copies of %d pictures in %d calls",
           copies, out, LATENTS);
    same_result(bed, &clip, &want, VAE_DECODE, "into pinned memory");
    vae_stream_free(&stream);
    vae_pin_free(&pin); /* exists longer than the stream */
    expect(emu_pins() == 0, "and is not pinned any more");
}

/* Checks which implementation the profile names for the first convolution. */
static void
expect_choice(const Bed *bed, bool deterministic, const char *want)
{
    VaeProfileRow row = {0};
    VaeStreamParams params = params_of(VAE_DECODE);
    params.deterministic = deterministic;
    SCOPED_STREAM VaeStream *stream = bed_stream(bed, params);
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0)
            break;
    expect(row.impl && strcmp(row.impl, want) == 0,
           "%s: convolutions by %s, expected %s",
           deterministic ? "deterministic" : "timed", row.impl, want);
}

/* A profiler sees a range for each run of a program. In it there is a range for
 * each op, whose name is the path of the op's tensor. */
static void
ranges(const Bed *bed)
{
    VaeProfileRow row = {0};
    SCOPED_CLIP TestClip clip = new_clip(bed);
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    for (size_t i = 0; vae_stream_profile_row(stream, i, &row); i++)
        if (strcmp(row.op, "conv") == 0)
            break;
    emu_watch_ranges(row.name);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    const int ops = emu_ranges();
    vae_stream_reset(stream);
    emu_watch_ranges("next");
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    expect(ops >= 4 && emu_ranges() >= 2 && emu_ranges_open() == 0,
           "%d ranges %s, %d ranges next, %d not ended", ops, row.name,
           emu_ranges(), emu_ranges_open());
    emu_watch_ranges(NULL);
    vae_stream_free(&stream);
    unsetenv("VAE_CUDA_GRAPHS");
}

/* Counts the tasks of the device for a clip that the stream has run twice
 * before. A recorded program is one task. */
static int
later_work(const Bed *bed, VaeStream *stream)
{
    TestClip clip = new_clip(bed);
    for (int i = 0; i < 3; i++) {
        emu_fail_work(0);
        vae_stream_reset(stream);
        run_clip(bed, stream, VAE_DECODE, &clip, calls);
    }
    clip_free(&clip);
    return emu_fail_work(0);
}

/* Runs the clip while recordings fail with `fault`, or while plans cannot be
 * recorded before their first run. */
static void
run_unrecorded(const Bed *bed, EmuFault fault, const TestClip *want,
               int recorded)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeStreamParams params = params_of(VAE_DECODE);
    char said[SAID] = "";
    const bool lazy = fault == EMU_FAULT_NONE;
    params.log = listen;
    params.log_user = said;
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    emu_set_fault(fault, 1);
    emu_set_lazy_plans(lazy);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    const int struck = emu_fault_done();
    emu_set_fault(EMU_FAULT_NONE, 0);
    expect((lazy || struck > 0) && (fault == EMU_FAULT_CAPTURES) ==
                                       (strstr(said, "runs op by op") != NULL),
           "%s: %s",
           lazy                         ? "plans whose first run loads code"
           : fault == EMU_FAULT_CAPTURE ? "a recording that fails"
                                        : "recordings that fail",
           said);
    same_result(bed, &clip, want, VAE_DECODE, "the clip without a recording");
    const int tasks = later_work(bed, stream);
    emu_set_lazy_plans(false);
    expect((tasks > recorded) == (fault == EMU_FAULT_CAPTURES),
           "%d tasks for the clip, %d when all programs are recorded", tasks,
           recorded);
}

/* A program that cannot be recorded runs op by op. After a failed recording it
 * is recorded again. A program that loads code at its first run is recorded
 * after that run. */
static void
unrecorded(const Bed *bed)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    const int recorded = later_work(bed, stream);
    vae_stream_free(&stream);
    run_unrecorded(bed, EMU_FAULT_CAPTURE, &want, recorded);
    run_unrecorded(bed, EMU_FAULT_CAPTURES, &want, recorded);
    run_unrecorded(bed, EMU_FAULT_NONE, &want, recorded);
}

/* Opening records nothing; all programs are recorded while the device computes
 * the first pictures. */
static void
recorded_behind(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeError error;
    int in = 0, out = 0;
    emu_set_fault(EMU_FAULT_NONE, 0);
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    const int opened = emu_fault_count(EMU_FAULT_CAPTURE);
    begin_step(bed, stream, &clip, &in, &out);
    const int first = emu_fault_count(EMU_FAULT_CAPTURE);
    const int pending = emu_pending();
    begin_step(bed, stream, &clip, &in, &out);
    const int later = emu_fault_count(EMU_FAULT_CAPTURE) - first;
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(opened == 0 && first >= 3 && pending > 0 && later == 0,
           "%d recordings when a stream is opened, %d after its first step was "
           "submitted, with %d tasks pending, and %d later",
           opened, first, pending, later);
}

/* A step copies each carry in front of a convolution's input. It copies the
 * last frames of the input to the carry, unless a norm has written them there.
 */
static void
copies_of_a_step(const Bed *bed)
{
    static const int first[] = {1, 0}, next[] = {SLICE, 0};
    TestClip clip = new_clip(bed), part = clip;
    const VaeStreamParams params = params_of(VAE_DECODE);
    int heads = 0, tails = 0, by_norms = 0, norms = 0;
    setenv("VAE_CUDA_GRAPHS", "0", 1); /* copies in a graph are not seen */
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    unsetenv("VAE_CUDA_GRAPHS");
    vae_stream_count(stream, 1, &part.t, &part.frames);
    run_clip(bed, stream, VAE_DECODE, &part, first);
    emu_set_fault(EMU_FAULT_NO_COPY, -1);
    vae_stream_count(stream, SLICE, &part.t, &part.frames);
    run_clip(bed, stream, VAE_DECODE, &part, next);
    const int copies = emu_fault_count(EMU_FAULT_NO_COPY);
    emu_set_fault(EMU_FAULT_NONE, 0);
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeProgram *p = stream->main.programs[i];
        if (!p || strcmp(p->label, "next") != 0)
            continue;
        for (int k = 0; k < p->n_ops; k++) {
            const VaeOp *op = &p->ops[k];
            const bool norm = op->kind == VAE_OP_NORM && op->carry;
            heads += op->kind == VAE_OP_HEAD_CARRY ||
                     (norm && op->norm.fills_context);
            tails += op->kind == VAE_OP_TAIL;
            by_norms += norm;
            norms += op->kind == VAE_OP_NORM;
        }
    }
    expect((by_norms > 0) == (norms > 0) && heads == tails + by_norms &&
               copies == heads + tails,
           "%d copies in a step: %d in, %d out, %d by norms", copies, heads,
           tails, by_norms);
    clip_free(&clip);
}

/* The stream was planned for narrower pictures, or for pictures on the device.
 * It takes more memory at the first other picture, and no more later. */
static void
other_pictures(const Bed *bed, bool on_device)
{
    SCOPED_CLIP TestClip want = new_clip(bed);
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaeStreamParams params = params_of(VAE_DECODE);
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    run_clip(bed, stream, VAE_DECODE, &want, calls);
    const uint64_t staging = vae_stream_get_plan(stream)->staging;
    vae_stream_free(&stream);
    params.pixels = on_device ? VAE_PIXELS_RGB_F32 : VAE_PIXELS_RGB;
    params.pictures_on_device = on_device;
    stream = bed_stream(bed, params);
    const uint64_t planned = vae_stream_get_plan(stream)->staging;
    const uint64_t before = memory_left();
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    const uint64_t after = memory_left();
    same_result(bed, &clip, &want, VAE_DECODE, "other pictures than planned");
    vae_stream_reset(stream);
    run_clip(bed, stream, VAE_DECODE, &clip, calls);
    expect(planned < staging / 2 && after < before && memory_left() == after,
           "%s: %llu bytes planned instead of %llu, %llu more at the first",
           on_device ? "on the device" : "narrow", (unsigned long long) planned,
           (unsigned long long) staging, (unsigned long long) (before - after));
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_device(&bed, argc, argv);
    all_orders(&bed, VAE_DECODE);
    all_orders(&bed, VAE_ENCODE);
    copies_of_a_step(&bed);
    calls_under_way(&bed, VAE_NAN_PASS);
    calls_under_way(&bed, VAE_NAN_ERROR);
    encoding_under_way(&bed);
    pinned_memory(&bed);
    expect_choice(&bed, true, "cudnn:1 3");
    expect_choice(&bed, false, "cudnn:2 1");
    ranges(&bed);
    unrecorded(&bed);
    recorded_behind(&bed);
    other_pictures(&bed, false);
    other_pictures(&bed, true);
    return device_close(&bed);
}
