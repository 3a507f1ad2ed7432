/*
 * spill.c: a stream with spilled carries gives the same bytes and takes the
 * planned memory.
 *
 * spill MODEL STRIDE
 */

#include "../clips.h"
#include "emu_rt.h"
#include "gpu.h"
#include "stream.h"

static VaeStream *
spilling(VaeModel *model, VaeDirection direction, VaeSpill spill, size_t limit)
{
    VaeStreamParams params = params_of(direction);
    params.spill = spill;
    params.memory_limit = limit;
    return new_stream(model, &params);
}

/* Runs the clip with one stream. Returns the spilled bytes, and sets *peak to
 * the peak of the device's memory. */
static uint64_t
run_one(const Bed *bed, VaeDirection direction, Clips *c, size_t limit,
        uint64_t *peak)
{
    char what[100];
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    VaeStream *stream = spilling(
        model, direction, limit ? VAE_SPILL_AUTO : VAE_SPILL_HOST, limit);
    const VaePlan plan = *vae_stream_get_plan(stream);
    const uint64_t taken = empty - memory_left();
    clip_poison(bed, &c->got, direction);
    run_clip(bed, stream, direction, &c->got, whole);
    snprintf(what, sizeof what, "%s with %llu of %llu bytes spilled",
             name_of(direction), (unsigned long long) plan.spilled,
             (unsigned long long) plan.carries);
    same_result(bed, &c->got, &c->want, direction, what);
    expect(taken == plan.total,
           "%s: %llu bytes of the device taken, %llu planned", what,
           (unsigned long long) taken, (unsigned long long) plan.total);
    expect(!limit || plan.peak <= limit, "%s: within the limit", what);
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(memory_left() == empty, "%s: nothing is left", what);
    *peak = plan.peak;
    return plan.spilled;
}

/* With less and less memory one carry after another is spilled, until all are.
 * With still less memory the stream is refused. */
static void
every_number(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    VaeStreamParams params = params_of(direction);
    VaeError error = {0};
    uint64_t peak, before = 0;
    int rungs = 0;
    VaePlan plan = plan_of(bed->model, &params);
    const uint64_t all = run_one(bed, direction, &c, 0, &peak);
    expect(all == plan.carries && plan.spilled == 0,
           "%s: no carries are spilled by default, all on request",
           name_of(direction));
    for (peak = plan.peak; before < all; rungs++) {
        const uint64_t now =
            run_one(bed, direction, &c, (size_t) peak - 1, &peak);
        if (!expect(now > before, "%s: more is spilled than before",
                    name_of(direction)))
            break;
        before = now;
    }
    expect(rungs > 3, "%s: %d rungs", name_of(direction), rungs);
    params.memory_limit = (size_t) peak - 1;
    expect(vae_stream_plan(bed->model, &params, &plan, &error) ==
               VAE_ERR_MEMORY,
           "%s: less memory is refused: %s", name_of(direction), error.message);
    params.memory_limit = (size_t) peak;
    params.spill = VAE_SPILL_OFF;
    expect(
        vae_stream_plan(bed->model, &params, &plan, &error) == VAE_ERR_MEMORY &&
            strstr(error.message, "spill host ("),
        "%s: the error names spilling: %s", name_of(direction), error.message);
}

/* If a stream does not fit, the error names the least memory that it fits in,
 * in MiB with one digit behind the point. */
static void
names_least(const Bed *bed, VaeDirection direction)
{
    VaeStreamParams params = params_of(direction);
    VaePlan plan = plan_of(bed->model, &params);
    VaeError error = {0};
    const double digit = 0.1 * 1048576;
    uint64_t refused = 0, enough = plan.peak;
    params.spill = VAE_SPILL_AUTO;
    while (enough - refused > (uint64_t) (digit / 20)) {
        params.memory_limit = (size_t) (refused + (enough - refused) / 2);
        if (vae_stream_plan(bed->model, &params, &plan, &error) == VAE_OK)
            enough = params.memory_limit;
        else
            refused = params.memory_limit;
    }
    params.memory_limit = (size_t) refused;
    vae_stream_plan(bed->model, &params, &plan, &error);
    const double needs = strtod(error.found, NULL) * 1048576;
    expect(needs > (double) refused && needs < (double) enough + digit,
           "%s: it needs %s, and %llu bytes are enough", name_of(direction),
           error.found, (unsigned long long) enough);
}

/* The CUDA streams of the copies are numbered after the three of the backend.
 */
enum { LATE, EARLY = ~7 };

/* Groups of frames each fetch and store the carries. when: does the copies
 * beside the ops as late or as early as possible. */
static void
groups(const Bed *bed, VaeDirection direction, int frames, int when)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    VaeStreamParams params = params_of(direction);
    params.spill = VAE_SPILL_HOST;
    params.frames_at_once = frames;
    emu_set_eager((unsigned) when);
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    emu_set_eager(0);
    run_clip(bed, stream, direction, &c.got, whole);
    same_result(bed, &c.got, &c.want, direction, "groups of frames");
}

/* A stream that resumes with less free memory spills. A stream that spills
 * keeps its spilled carries in place. */
static void
released(const Bed *bed, VaeDirection direction, VaeSpill spill)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error = {0};
    const uint64_t all = (uint64_t) 4 << 30;
    SCOPED_MODEL VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    SCOPED_STREAM VaeStream *stream = spilling(model, direction, spill, 0);
    const VaePlan *plan = vae_stream_get_plan(stream);
    const uint64_t taken = empty - memory_left();
    uint64_t free = empty;
    for (int i = 0; i < CALLS; i++) {
        must(call(bed, stream, &at, steps[i], &error), &error);
        must(vae_stream_release(stream, &error), &error);
        expect(memory_left() == free, "%s: the device is free",
               name_of(direction));
        if (spill == VAE_SPILL_AUTO)
            free = taken - plan->carries / 2;
        emu_set_memory(all - empty + free);
    }
    must(vae_stream_resume(stream, &error), &error);
    expect(plan->spilled == plan->carries, "%s: all carries are spilled",
           name_of(direction));
    emu_set_memory(all);
    same_result(bed, &c.got, &c.want, direction, "released between calls");
}

/* Opens a stream that spills. VAE_SPILL_AUTO: with a limit, so that it spills
 * only some carries. */
static VaeStream *
spilling_so(const Bed *bed, VaeDirection direction, VaeSpill spill)
{
    const VaeStreamParams params = params_of(direction);
    const VaePlan plan = plan_of(bed->model, &params);
    const bool part = spill == VAE_SPILL_AUTO;
    VaeStream *stream =
        spilling(bed->model, direction, spill,
                 part ? (size_t) (plan.peak - plan.carries / 4) : 0);
    const VaePlan *now = vae_stream_get_plan(stream);
    expect((now->spilled > 0) == (spill != VAE_SPILL_OFF) &&
               (now->spilled < now->carries) == (spill != VAE_SPILL_HOST),
           "%s: %llu of %llu bytes spilled", name_of(direction),
           (unsigned long long) now->spilled,
           (unsigned long long) now->carries);
    return stream;
}

/* A stream that spills all, some or no carries can load a checkpoint of a
 * stream that spills others. */
static void
checkpoints(const Bed *bed, VaeDirection direction, VaeSpill from, VaeSpill to)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error = {0};
    char path[] = "/tmp/vae-spill-XXXXXX";
    const int fd = mkstemp(path);
    VaeCheckpointParams how = VAE_INIT(VaeCheckpointParams);
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    how.carries = true;
    how.path = path;
    SCOPED_STREAM VaeStream *stream = spilling_so(bed, direction, from);
    run_steps(bed, stream, &at, 0, 1);
    must(vae_stream_save(stream, &how, &error), &error);
    vae_stream_free(&stream);
    stream = spilling_so(bed, direction, to);
    must(vae_stream_load(stream, &how, &found, &error), &error);
    run_steps(bed, stream, &at, 2, 3);
    same_result(bed, &c.got, &c.want, direction, "from a checkpoint");
    close(fd);
    unlink(path);
}

/* While a stream opens, each allocation of the device and of pinned memory is
 * refused in turn, or each of the first calls and every seventh later one.
 * told: an error that the stream may return. The first call returns the number
 * of devices, so its error says that there are none. */
static void
refused(const Bed *bed, int (*refuse)(int), VaeStatus told)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeError error = {0};
    Refusals r = {.refuse = refuse,
                  .n = told != VAE_OK,
                  .dense = 320,
                  .stride = told == VAE_OK ? 1 : 7};
    params.spill = VAE_SPILL_HOST;
    while (refuse_next(&r)) {
        VaeStream *stream = NULL;
        VaeModel *model = open_model(bed);
        const int alive = emu_alive();
        refuse_begin(&r);
        const VaeStatus status =
            vae_stream_new(model, &params, &stream, &error);
        refuse_end(&r);
        vae_stream_free(&stream);
        vae_model_free(&model);
        /* a stream without windows is a separate rung */
        r.wrong += status != VAE_OK && status != told;
        r.wrong += emu_alive() != alive;
    }
    expect(r.refused > 5 && r.wrong == 0, "%d refusals, %d handled wrong",
           r.refused, r.wrong);
}

/* Returns true if the result is right although the n-th fault happens in the
 * first calls: a copy to or from the device, or a wait of a stream, is left
 * out. n < 0: no fault. eager: does copies beside the ops as early as possible.
 */
static bool
is_same_when(const Bed *bed, Clips *c, EmuFault fault, int n, int *count,
             unsigned eager)
{
    Place at = {VAE_DECODE, &c->got, 0, 0};
    VaeError error;
    clip_poison(bed, &c->got, VAE_DECODE);
    emu_set_eager(eager);
    VaeStream *stream = spilling(bed->model, VAE_DECODE, VAE_SPILL_HOST, 0);
    emu_set_eager(0);
    emu_set_fault(fault, n);
    /* in one call, so that a run begins before the previous one has ended */
    must(call(bed, stream, &at, steps[0] + steps[1], &error), &error);
    *count = emu_fault_count(fault);
    emu_set_fault(EMU_FAULT_NONE, 0);
    run_steps(bed, stream, &at, 2, 3);
    vae_stream_free(&stream);
    return same_clips(bed, c, VAE_DECODE);
}

static bool
is_same(const Bed *bed, Clips *c, EmuFault fault, int n, int *count)
{
    return is_same_when(bed, c, fault, n, count, LATE) &&
           is_same_when(bed, c, fault, n, count, (unsigned) EARLY);
}

/* CUDA streams do their work in order, so a later wait often hides a missing
 * one. Therefore the later waits are left out, too. */
static void
missing_copies(const Bed *bed, int stride)
{
    static const EmuFault faults[] = {EMU_FAULT_STREAM_WAITS,
                                      EMU_FAULT_DOWNLOAD, EMU_FAULT_UPLOAD};
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    for (int k = 0; k < 3; k++) {
        int n = 0, missed = 0, ignored;
        is_same(bed, &c, faults[k], -1, &n);
        for (int i = 0; i < n; i += stride)
            if (is_same(bed, &c, faults[k], i, &ignored)) {
                missed++;
                printf("fault %d: number %d is not noticed\n", (int) faults[k],
                       i);
            }
        expect(n > 3 && missed == 0,
               "fault %d: %d times, %d of them not noticed", (int) faults[k], n,
               missed);
    }
    unsetenv("VAE_CUDA_GRAPHS");
}

/* Runs the rest of the clip from the checkpoint, as after a kill. */
static bool
continues(const Bed *bed, Place at, VaeCheckpointParams *how)
{
    VaeError error = {0};
    VaeCheckpoint found = VAE_INIT(VaeCheckpoint);
    SCOPED_STREAM VaeStream *stream =
        spilling(bed->model, at.direction, VAE_SPILL_HOST, 0);
    must(vae_stream_load(stream, how, &found, &error), &error);
    run_steps(bed, stream, &at, 2, 3);
    return found.latents > 0;
}

/* A call of the run time, or a work of the device, fails in the middle of a
 * sequence. The stream reports this, and another stream continues from a
 * checkpoint. */
static void
fails_once(const Bed *bed, Clips *c, Refusals *r, int *told)
{
    Place at = {VAE_DECODE, &c->got, 0, 0};
    VaeError error = {0};
    char path[] = "/tmp/vae-spill-XXXXXX";
    const int fd = mkstemp(path), alive = emu_alive();
    VaeCheckpointParams how = VAE_INIT(VaeCheckpointParams);
    how.carries = true;
    how.path = path;
    clip_poison(bed, &c->got, VAE_DECODE);
    VaeStream *stream = spilling(bed->model, VAE_DECODE, VAE_SPILL_HOST, 0);
    run_steps(bed, stream, &at, 0, 1);
    must(vae_stream_save(stream, &how, &error), &error);
    Place next = at;
    refuse_begin(r);
    const VaeStatus status = call(bed, stream, &next, steps[2], &error);
    refuse_end(r);
    vae_stream_free(&stream);
    *told += status == VAE_ERR_BACKEND;
    r->wrong += status != VAE_OK && status != VAE_ERR_BACKEND;
    r->wrong += !continues(bed, at, &how);
    r->wrong += !same_clips(bed, c, VAE_DECODE);
    r->wrong += emu_alive() != alive;
    close(fd);
    unlink(path);
}

static void
faults(const Bed *bed, int stride)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    for (int i = 0; i < 2; i++) {
        int told = 0;
        Refusals r = {.refuse = i ? emu_fail_work : emu_refuse_call,
                      .dense = 12,
                      .stride = stride};
        while (refuse_next(&r))
            fails_once(bed, &c, &r, &told);
        expect(r.refused > 3 && told > 3 && r.wrong == 0,
               "%s, %d times: %d errors, %d handled wrong",
               i ? "the device fails" : "a call fails", r.refused, told,
               r.wrong);
    }
}

/* The spilled carries are a large block. The run time does not allocate it: it
 * is a mapping that is pinned. */
static void
mapped(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    uint64_t peak;
    vae_cuda_map_from(1);
    VaeStream *stream = spilling(bed->model, direction, VAE_SPILL_HOST, 0);
    expect(emu_pins() == 1, "%s: a pinned mapping", name_of(direction));
    vae_stream_free(&stream);
    expect(emu_pins() == 0, "%s: it is unpinned", name_of(direction));
    run_one(bed, direction, &c, 0, &peak);
    groups(bed, direction, 3, EARLY);
    released(bed, direction, VAE_SPILL_AUTO);
    checkpoints(bed, direction, VAE_SPILL_HOST, VAE_SPILL_AUTO);
    if (direction == VAE_DECODE)
        refused(bed, emu_refuse_call, VAE_ERR_BACKEND);
    vae_cuda_map_from((size_t) 64 << 20);
}

/* The executor copies spilled carries for a backend that does not do it
 * itself. */
static void
by_executor(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    VaeStream *stream = spilling(bed->model, direction, VAE_SPILL_HOST, 0);
    int copies = 0;
    for (int i = 0; i < PROGRAMS; i++)
        for (int k = 0;
             stream->main.execs[i] && k < stream->main.programs[i]->n_ops; k++)
            if (stream->main.programs[i]->ops[k].kind >= VAE_OP_FETCH &&
                stream->main.programs[i]->ops[k].kind <= VAE_OP_STORED) {
                stream->main.execs[i]->ops[k].run = NULL;
                copies++;
            }
    expect(copies > 0, "%s: ops for copies", name_of(direction));
    clip_poison(bed, &c.got, direction);
    run_clip(bed, stream, direction, &c.got, whole);
    same_result(bed, &c.got, &c.want, direction, "by the executor");
    vae_stream_free(&stream);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    for (int i = 0; i < 2; i++) {
        const VaeDirection direction = i ? VAE_ENCODE : VAE_DECODE;
        every_number(&bed, direction);
        emu_set_eager(7);
        setenv("VAE_CUDA_GRAPHS", "0", 1);
        every_number(&bed, direction);
        emu_set_eager(0);
        unsetenv("VAE_CUDA_GRAPHS");
        groups(&bed, direction, 1, LATE);
        groups(&bed, direction, 1, EARLY);
        groups(&bed, direction, 3, LATE);
        groups(&bed, direction, 3, EARLY);
        released(&bed, direction, VAE_SPILL_AUTO);
        released(&bed, direction, VAE_SPILL_HOST);
        checkpoints(&bed, direction, VAE_SPILL_HOST, VAE_SPILL_OFF);
        checkpoints(&bed, direction, VAE_SPILL_OFF, VAE_SPILL_HOST);
        checkpoints(&bed, direction, VAE_SPILL_AUTO, VAE_SPILL_OFF);
        checkpoints(&bed, direction, VAE_SPILL_HOST, VAE_SPILL_AUTO);
        mapped(&bed, direction);
        names_least(&bed, direction);
        by_executor(&bed, direction);
    }
    refused(&bed, emu_fail_alloc, VAE_OK);
    faults(&bed, stride);
    missing_copies(&bed, stride);
    return device_close(&bed);
}
