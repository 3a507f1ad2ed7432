/*
 * release.c: frees the memory of the emulated device, and reloads it.
 *
 * release MODEL STRIDE
 */

#include "alloc.h"
#include "../clips.h"
#include "emu_rt.h"

/* ------------------------------------------------------------------ */

/* Releases the memory before each call and at the end. The next call reloads
 * it. */
static void
between_calls(const Bed *bed, VaeDirection direction, unsigned eager)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error;
    int kept = 0, lost = 0;
    char what[100];
    emu_set_eager(eager);
    setenv("VAE_CUDA_GRAPHS", eager & 1 ? "0" : "1", 1);
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    VaeStream *stream = open_stream(model, direction);
    const uint64_t full = memory_left();
    for (int i = 0; i <= CALLS; i++) {
        must(vae_stream_release(stream, &error), &error);
        kept += !vae_stream_stats(stream)->released || memory_left() != empty;
        must(vae_stream_release(stream, &error), &error);
        if (i % 2) {
            must(vae_stream_resume(stream, &error), &error);
            lost += vae_stream_stats(stream)->released || memory_left() != full;
        }
        if (i < CALLS)
            must(call(bed, stream, &at, steps[i], &error), &error);
        lost += i < CALLS && memory_left() != full;
    }
    snprintf(what, sizeof what, "%s, eager streams %u", name_of(direction),
             eager);
    expect(full < empty && kept == 0 && lost == 0,
           "%s: %llu bytes of the device freed, %d times not all; %d times not "
           "all reloaded",
           what, (unsigned long long) (empty - full), kept, lost);
    same_result(bed, &c.got, &c.want, direction, what);
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(memory_left() == empty, "a released stream leaves nothing");
    emu_set_eager(0);
    unsetenv("VAE_CUDA_GRAPHS");
}

/* The weights of a program share a block, and pinned blocks are not freed,
 * because a device needs time for each block, and rounds it up. Another stream
 * has run the layers before, so the new one allocates only its own blocks. */
static void
few_blocks(const Bed *bed, VaeDirection direction)
{
    VaeStream *before = open_stream(bed->model, direction);
    VaeError error;
    VaeModel *model = open_model(bed);
    emu_fail_alloc(0);
    VaeStream *stream = open_stream(model, direction);
    const int all = emu_fail_alloc(0);
    must(vae_stream_release(stream, &error), &error);
    must(vae_stream_resume(stream, &error), &error);
    const int again = emu_fail_alloc(0);
    vae_stream_free(&stream);
    vae_model_free(&model);
    vae_stream_free(&before);
    /* After a release: arena, carries and scratch, four of staging, one of the
     * first program's weights, and one of the other programs' weights. At the
     * start also four pinned blocks, and all eight of the first program, which
     * later programs outgrow. */
    expect(again <= 9 && all <= again + 4 + 8,
           "%s takes %d blocks, and %d after a release", name_of(direction),
           all, again);
}

/* Resets the stream while its memory is released. */
static void
new_sequence(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error;
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    must(call(bed, stream, &at, 1, &error), &error);
    must(call(bed, stream, &at, 2, &error), &error);
    must(vae_stream_release(stream, &error), &error);
    vae_stream_reset(stream);
    run_clip(bed, stream, direction, &c.got, whole);
    same_result(bed, &c.got, &c.want, direction,
                "a reset of a released stream");
}

/* Weights stay on the device while another stream computes with them. */
static void
shared_weights(const Bed *bed)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    Place at = {VAE_DECODE, &c.got, 0, 0};
    VaeError error;
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    VaeStream *a = open_stream(model, VAE_DECODE);
    const uint64_t one = memory_left();
    VaeStream *b = open_stream(model, VAE_DECODE);
    must(vae_stream_release(a, &error), &error);
    expect(memory_left() == one, "weights of another stream stay");
    must(call(bed, b, &at, 1, &error), &error);
    must(vae_stream_release(b, &error), &error);
    expect(memory_left() == empty, "until that stream is released, too");
    must(call(bed, b, &at, 2, &error), &error);
    expect(memory_left() == one, "and is reloaded once");
    VaeStream *third = open_stream(model, VAE_DECODE);
    must(vae_stream_release(b, &error), &error);
    vae_stream_free(&third);
    expect(memory_left() == empty, "so does freeing the last active user");
    must(call(bed, b, &at, 1, &error), &error);
    must(vae_stream_release(b, &error), &error);
    third = open_stream(model, VAE_DECODE);
    expect(memory_left() == one, "a new stream loads the weights again");
    must(vae_stream_resume(a, &error), &error);
    vae_stream_free(&a);
    vae_stream_free(&third);
    must(call(bed, b, &at, 2, &error), &error);
    same_result(bed, &c.got, &c.want, VAE_DECODE, "beside other streams");
    vae_stream_free(&b);
    vae_model_free(&model);
    expect(memory_left() == empty, "nothing is left");
}

/* ------------------------------------------------------------------ */
/* Failures.                                                           */

/* Each allocation of a reload is refused in turn (with a stride, some of them).
 * The next attempt continues as if nothing had happened. */
static void
refused_back(const Bed *bed, VaeDirection direction, int stride)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error = {0};
    int kept = 0;
    Refusals r = {.refuse = emu_fail_alloc, .dense = 20, .stride = stride};
    SCOPED_MODEL VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left();
    SCOPED_STREAM VaeStream *stream = open_stream(model, direction);
    run_steps(bed, stream, &at, 0, 1);
    while (refuse_next(&r)) {
        must(vae_stream_release(stream, &error), &error);
        refuse_begin(&r);
        const VaeStatus status = vae_stream_resume(stream, &error);
        if (!refuse_end(&r)) {
            must(status, &error);
            continue;
        }
        r.wrong += status != VAE_ERR_MEMORY ||
                   !strstr(error.message, "cannot be allocated again");
        kept += memory_left() != empty || !vae_stream_stats(stream)->released;
        if (r.refused % 3 == 0)
            must(vae_stream_resume(stream, &error), &error);
    }
    expect(r.refused > 5 && r.wrong == 0 && kept == 0,
           "%s: %d allocations of a reload refused, %d without the right "
           "error, %d times something was kept",
           name_of(direction), r.refused, r.wrong, kept);
    run_steps(bed, stream, &at, 2, 3);
    same_result(bed, &c.got, &c.want, direction, "after the refusals");
}

/* Another process takes a part of the device's memory after the release. The
 * stream continues in smaller slices, with the same bytes. */
static void
less_memory(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIPS Clips c = open_clips(bed, direction);
    Place at = {direction, &c.got, 0, 0};
    VaeError error = {0};
    VaeStreamParams params = params_of(direction);
    VaeModel *model = open_model(bed);
    const uint64_t empty = memory_left(), all = (uint64_t) 4 << 30;
    params.slice_size = 1;
    VaePlan least = plan_of(model, &params);
    params.slice_size = 0;
    VaeStream *stream = new_stream(model, &params);
    const VaePlan *plan = vae_stream_get_plan(stream);
    const uint64_t taken = empty - memory_left();
    const uint64_t gain = plan->total - least.total;
    expect(plan->slice_size == 4, "%s: slices of 4", name_of(direction));
    must(call(bed, stream, &at, 1, &error), &error);
    must(call(bed, stream, &at, 4, &error), &error);
    must(vae_stream_release(stream, &error), &error);
    emu_set_memory(all - empty + taken - gain - 4096);
    expect(vae_stream_resume(stream, &error) == VAE_ERR_MEMORY &&
               strstr(error.message, "cannot be allocated again"),
           "%s: no smaller slice fits: %s", name_of(direction), error.message);
    expect(vae_stream_stats(stream)->released && memory_left() < taken,
           "%s: and no memory of the device is kept", name_of(direction));
    emu_set_memory(all - empty + taken - gain / 2);
    must(call(bed, stream, &at, 1, &error), &error);
    expect(plan->slice_size < 4, "%s: then slices of %d", name_of(direction),
           plan->slice_size);
    emu_set_memory(all);
    same_result(bed, &c.got, &c.want, direction, "in less memory");
    vae_stream_free(&stream);
    vae_model_free(&model);
    expect(memory_left() == empty, "%s: nothing is left", name_of(direction));
}

/* The host has no memory for copies of the carries or of the weights. */
static void
refused_out(const Bed *bed, int stride)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    Place at = {VAE_DECODE, &c.got, 0, 0};
    VaeError error = {0};
    Refusals r = {.refuse = vae_mem_refuse, .n = 1, .stride = stride};
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    must(call(bed, stream, &at, steps[0], &error), &error);
    vae_mem_refuse(1);
    const VaeStatus status = vae_stream_release(stream, &error);
    vae_mem_refuse(0);
    expect(status == VAE_ERR_MEMORY && !vae_stream_stats(stream)->released,
           "no memory for the carries: %s", error.message);
    must(call(bed, stream, &at, steps[1], &error), &error);
    while (refuse_next(&r)) {
        refuse_begin(&r);
        const VaeStatus one = vae_stream_release(stream, &error);
        r.wrong += one != (refuse_end(&r) ? VAE_ERR_MEMORY : VAE_OK) ||
                   !vae_stream_stats(stream)->released;
        must(vae_stream_resume(stream, &error), &error);
    }
    expect(r.refused * stride > 5 && r.wrong == 0,
           "%d allocations of a release refused, %d without the right error",
           r.refused, r.wrong);
    run_steps(bed, stream, &at, 2, 3);
    same_result(bed, &c.got, &c.want, VAE_DECODE, "after the refusals");
}

/* The device fails during a reload, and works again. */
static void
failing_device(const Bed *bed)
{
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    Place at = {VAE_DECODE, &c.got, 0, 0};
    VaeError error = {0};
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, VAE_DECODE);
    must(call(bed, stream, &at, steps[0], &error), &error);
    must(vae_stream_release(stream, &error), &error);
    emu_fail_work(3);
    const VaeStatus status = call(bed, stream, &at, steps[1], &error);
    emu_fail_work(0);
    expect(status == VAE_ERR_BACKEND && vae_stream_stats(stream)->released,
           "the device fails: %s", error.message);
    run_steps(bed, stream, &at, 1, CALLS - 1);
    same_result(bed, &c.got, &c.want, VAE_DECODE, "after the failure");
}

/* Each allocation of a reload fails once for another reason than missing
 * memory. The error says so, and no smaller slice is tried. */
static void
refused_for_another_reason(const Bed *bed)
{
    VaeError error = {0};
    int n = 0, wrong = 0;
    for (bool struck = true; struck; n += struck) {
        SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
        Place at = {VAE_DECODE, &c.got, 0, 0};
        SCOPED_MODEL VaeModel *model = open_model(bed);
        SCOPED_STREAM VaeStream *stream = open_stream(model, VAE_DECODE);
        must(call(bed, stream, &at, steps[0], &error), &error);
        must(vae_stream_release(stream, &error), &error);
        emu_set_fault(EMU_FAULT_ALLOC, n);
        const VaeStatus status = call(bed, stream, &at, steps[1], &error);
        struck = emu_fault_done();
        emu_set_fault(EMU_FAULT_NONE, 0);
        wrong += struck && (status != VAE_ERR_BACKEND ||
                            !strstr(error.message,
                                    "the emulated device refuses the call"));
    }
    expect(n > 3 && wrong == 0,
           "%d allocations refused, %d without the right error", n, wrong);
}

/* ------------------------------------------------------------------ */
/* Checks that this test notices errors. */

/* Runs the clip with a release in the middle, and leaves out the n-th copy of a
 * kind. Returns true if the result is right nevertheless. n < 0: leaves out
 * nothing and counts the copies. */
static bool
is_same(const Bed *bed, Clips *c, EmuFault fault, int n, int *count)
{
    Place at = {VAE_DECODE, &c->got, 0, 0};
    VaeError error;
    VaeModel *model = open_model(bed);
    VaeStream *stream = open_stream(model, VAE_DECODE);
    run_steps(bed, stream, &at, 0, 1);
    emu_set_fault(fault, n);
    must(vae_stream_release(stream, &error), &error);
    must(vae_stream_resume(stream, &error), &error);
    *count = emu_fault_count(fault);
    emu_set_fault(EMU_FAULT_NONE, 0);
    run_steps(bed, stream, &at, 2, 3);
    vae_stream_free(&stream);
    vae_model_free(&model);
    return same_clips(bed, c, VAE_DECODE);
}

static void
missing_copies(const Bed *bed, int stride)
{
    static const EmuFault faults[] = {EMU_FAULT_DOWNLOAD, EMU_FAULT_UPLOAD};
    SCOPED_CLIPS Clips c = open_clips(bed, VAE_DECODE);
    for (int k = 0; k < 2; k++) {
        int n = 0, missed = 0, ignored;
        is_same(bed, &c, faults[k], -1, &n);
        /* Carries are the first copies to the host, and the last ones back. */
        for (int i = 0; i < n - 1; i += stride)
            missed += is_same(bed, &c, faults[k], i, &ignored);
        missed += is_same(bed, &c, faults[k], n - 1, &ignored);
        expect(n > 5 && missed == 0, "%d copies %s, %d of them not noticed", n,
               k ? "back" : "out", missed);
    }
}

/* A stream on the host keeps its memory. */
static void
on_the_host(const Bed *bed)
{
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeError error;
    params.backend = VAE_BACKEND_REF;
    SCOPED_STREAM VaeStream *stream = new_stream(bed->model, &params);
    must(vae_stream_release(stream, &error), &error);
    expect(!vae_stream_stats(stream)->released,
           "a stream on the host keeps its memory");
    must(vae_stream_resume(stream, &error), &error);
}

int
main(int argc, char **argv)
{
    Bed bed;
    const int stride = bed_open_device(&bed, argc, argv);
    for (unsigned eager = 0; eager < 8; eager += 7)
        for (int i = 0; i < 2; i++)
            between_calls(&bed, i ? VAE_ENCODE : VAE_DECODE, eager);
    for (int i = 0; i < 2; i++) {
        few_blocks(&bed, i ? VAE_ENCODE : VAE_DECODE);
        new_sequence(&bed, i ? VAE_ENCODE : VAE_DECODE);
        refused_back(&bed, i ? VAE_ENCODE : VAE_DECODE, stride);
        less_memory(&bed, i ? VAE_ENCODE : VAE_DECODE);
    }
    shared_weights(&bed);
    refused_out(&bed, stride);
    failing_device(&bed);
    refused_for_another_reason(&bed);
    missing_copies(&bed, stride);
    on_the_host(&bed);
    return device_close(&bed);
}
