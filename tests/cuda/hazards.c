/*
 * hazards.c: checks that the emulated device detects missing waits and calls
 * that invalidate another thread's recording, and that it allocates memory in
 * steps.
 */
#include "../stream/streams.h"
#include "emu_state.h"

/* Copies on one stream, and copies the result on another. Returns true if the
 * bytes are right. */
static bool
two_streams(unsigned seed, bool waits)
{
    VaeRtStream first, second;
    VaeRtEvent done;
    void *a, *b;
    const float in = 7;
    float out = 0;
    emu_set_seed(seed);
    int code = vae_rt_stream_new(&first);
    code += vae_rt_stream_new(&second) + vae_rt_event_new(&done);
    code += vae_rt_alloc(&a, 4) + vae_rt_alloc(&b, 4);
    code += vae_rt_copy(a, &in, 4, first);
    code += vae_rt_event_record(done, first);
    if (waits)
        code += vae_rt_stream_wait(second, done);
    code += vae_rt_copy(b, a, 4, second);
    code += vae_rt_copy(&out, b, 4, second);
    code += vae_rt_stream_sync(second);
    vae_rt_event_free(done);
    vae_rt_free(a);
    vae_rt_free(b);
    vae_rt_stream_free(first);
    vae_rt_stream_free(second);
    emu_set_seed(0);
    return code == 0 && out == in;
}

static void
orders(void)
{
    enum { SEEDS = 40 };
    int right = 0, lucky = 0;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        right += two_streams(seed, true);
        lucky += two_streams(seed, false);
    }
    expect(right == SEEDS && lucky > 0 && lucky < SEEDS,
           "%d of %d orders give the right result with a wait, %d without",
           right, SEEDS, lucky);
}

/* Copies to a number that is 1: the first copy changes it, the second one
 * changes it back. Another stream reads it, with or without a wait. Returns
 * true if it reads 1. */
static bool
reads_one(unsigned eager, unsigned seed, bool waits)
{
    VaeRtStream first, second;
    VaeRtEvent done;
    void *a;
    const float one = 1, two = 2;
    float out = 0;
    emu_set_eager(eager);
    int code = vae_rt_stream_new(&first) + vae_rt_stream_new(&second);
    code += vae_rt_event_new(&done) + vae_rt_alloc(&a, 4);
    code += vae_rt_copy(a, &one, 4, first) + vae_rt_stream_sync(first);
    emu_set_seed(seed);
    code += vae_rt_copy(a, &two, 4, first) + vae_rt_copy(a, &one, 4, first);
    code += vae_rt_event_record(done, first);
    if (waits)
        code += vae_rt_stream_wait(second, done);
    code += vae_rt_copy(&out, a, 4, second) + vae_rt_stream_sync(second);
    vae_rt_event_free(done);
    vae_rt_free(a);
    vae_rt_stream_free(first);
    vae_rt_stream_free(second);
    emu_set_seed(0);
    emu_set_eager(0);
    return code == 0 && out == one;
}

/* A missing wait may matter only if a stream pauses between two tasks. It then
 * shows neither at the latest nor at the earliest moments, but only at random
 * ones. */
static void
in_between(void)
{
    enum { SEEDS = 40 };
    int fixed = 0, right = 0, lucky = 0;
    for (unsigned eager = 0; eager < 4; eager++)
        fixed += reads_one(eager, 0, false);
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        right += reads_one(0, seed, true);
        lucky += reads_one(0, seed, false);
    }
    expect(fixed == 4, "%d of 4 fixed orders show the missing wait", 4 - fixed);
    expect(
        right == SEEDS && lucky < SEEDS,
        "%d of %d random orders give the right result with a wait, %d without",
        right, SEEDS, lucky);
}

/* Records an event again, in the same stream or in another one. A record does
 * no work, so a missing wait still shows. A stream that already waits continues
 * to wait for the earlier record. */
static void
recorded_again(bool elsewhere)
{
    VaeRtStream first, second, third;
    VaeRtEvent done;
    void *a, *b;
    const float in[2] = {7, 8};
    float late = 0, out = 0;
    int code = vae_rt_stream_new(&first) + vae_rt_stream_new(&second);
    code += vae_rt_stream_new(&third) + vae_rt_event_new(&done);
    code += vae_rt_alloc(&a, 4) + vae_rt_alloc(&b, 4);
    VaeRtStream again = elsewhere ? third : first;
    code += vae_rt_copy(a, in, 4, first) + vae_rt_event_record(done, first);
    code += vae_rt_stream_wait(second, done);
    code += vae_rt_copy(b, in + 1, 4, again) + vae_rt_event_record(done, again);
    expect(code == 0 && emu_pending() == 5,
           "an event is recorded again: %d of 5 tasks are pending",
           emu_pending());
    code = vae_rt_copy(&out, a, 4, second) + vae_rt_stream_sync(second);
    expect(code == 0 && out == in[0] && emu_pending() == 2,
           "a wait for the earlier record: %g, %d of 2 tasks are pending",
           (double) out, emu_pending());
    code = vae_rt_copy(&late, b, 4, second) + vae_rt_stream_sync(second);
    expect(code == 0 && isnan(late), "no wait for the last record: %g",
           (double) late);
    vae_rt_event_free(done);
    vae_rt_free(a);
    vae_rt_free(b);
    vae_rt_stream_free(first);
    vae_rt_stream_free(second);
    vae_rt_stream_free(third);
}

/* Makes a call of this kind, which the recording of another thread forbids.
 * Returns its code. */
static int
call_of(int kind, VaeRtStream work, VaeRtEvent event)
{
    void *out = NULL;
    float word;
    int code;
    switch (kind) {
    case 0:
        code = vae_rt_alloc(&out, 1);
        vae_rt_free(out);
        return code;
    case 1:
        code = vae_rt_alloc_host(&out, 1);
        vae_rt_free_host(out);
        return code;
    case 2:
        code = vae_rt_pin(&word, sizeof word);
        if (!code)
            vae_rt_unpin(&word);
        return code;
    case 3:
        code = vae_rt_stream_new(&out);
        vae_rt_stream_free(out);
        return code;
    case 4:
        return vae_rt_stream_sync(work);
    case 5:
        return vae_rt_event_sync(event);
    default:
        code = vae_rt_event_new(&out);
        vae_rt_event_free(out);
        return code;
    }
}

/* Another thread records in global mode. A call fails and invalidates this
 * recording, except between vae_rt_enter() and vae_rt_leave(). */
static void
another_records(void)
{
    VaeRtStream work;
    VaeRtEvent event;
    VaeRtCaller caller;
    enum { KINDS = 7 };
    int refused = 0, invalid = 0, allowed = 0, kept = 0;
    if (vae_rt_stream_new(&work) || vae_rt_event_new(&event))
        return;
    for (int kind = 0; kind < KINDS; kind++) {
        emu_begin_foreign();
        refused += call_of(kind, work, event) == EMU_UNSAFE;
        invalid += !emu_end_foreign();
        emu_begin_foreign();
        allowed +=
            vae_rt_enter(0, &caller) == 0 && call_of(kind, work, event) == 0;
        vae_rt_leave(&caller);
        kept += emu_end_foreign();
    }
    expect(refused == KINDS && invalid == KINDS,
           "%d of %d calls fail while another thread records, %d invalidate "
           "its recording",
           refused, KINDS, invalid);
    expect(allowed == KINDS && kept == KINDS,
           "in relaxed mode %d calls succeed, %d keep the recording valid",
           allowed, kept);
    vae_rt_event_free(event);
    vae_rt_stream_free(work);
}

static void
steps_of_memory(void)
{
    void *a, *b;
    uint64_t before, after;
    vae_rt_memory_left(&before);
    emu_set_granularity(2 << 20);
    int code = vae_rt_alloc(&a, 1) + vae_rt_alloc(&b, (2 << 20) + 1);
    vae_rt_memory_left(&after);
    expect(code == 0 && before - after == 3 * (uint64_t) (2 << 20),
           "two blocks take %.1f MiB", (double) (before - after) / 1048576);
    vae_rt_free(a);
    vae_rt_free(b);
    emu_set_granularity(1);
}

int
main(void)
{
    orders();
    in_between();
    recorded_again(false);
    recorded_again(true);
    another_records();
    steps_of_memory();
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
