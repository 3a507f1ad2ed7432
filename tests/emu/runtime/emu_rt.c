/*
 * emu_rt.c: streams and events of the emulated device.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_streams.h"
#include "gpu.h"

struct EmuAll emu_all;
_Thread_local int emu_captures;

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int
emu_lock(void)
{
    return pthread_mutex_lock(&mutex);
}

void
emu_unlock(const int *locked)
{
    pthread_mutex_unlock(&mutex);
}

void *
emu_must(void *p)
{
    if (!p)
        abort();
    return p;
}

void
emu_take_time(float ms)
{
    EMU_LOCKED;
    emu_all.clock += (double) ms;
}

void
emu_skip_work(bool skip)
{
    emu_all.skips = skip;
}

void
emu_set_seed(unsigned seed)
{
    EMU_LOCKED;
    emu_all.random = seed ? 2 * (uint64_t) seed + 1 : 0;
}

static unsigned
draw(unsigned below)
{
    emu_all.random =
        emu_all.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (emu_all.random >> 33) % below;
}

bool
emu_skips(void)
{
    return emu_all.skips;
}

void
emu_set_eager(unsigned streams)
{
    emu_all.eager = streams;
    emu_all.n_streams = 0;
}

bool
emu_records(void)
{
    return emu_captures;
}

void
emu_no_capture(const char *call)
{
    if (!emu_captures)
        return;
    fprintf(stderr, "%s while a stream records\n", call);
    abort();
}

void
emu_needs_recording_lock(const char *call)
{
    if (pthread_mutex_trylock(&vae_cuda_recording))
        return;
    fprintf(stderr, "%s without the lock of recordings\n", call);
    abort();
}

void
emu_wait_for_device(const char *call)
{
    emu_needs_recording_lock(call);
    EMU_LOCKED;
    if (emu_all.captures) {
        fprintf(stderr, "%s while a thread records\n", call);
        abort();
    }
    emu_unsafe();
    emu_force_all();
}

int
emu_handles_alive(void)
{
    EMU_LOCKED;
    return emu_all.alive;
}

/* ------------------------------------------------------------------ */
/* Streams.                                                            */

static void
append(List *list, Task task)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->tasks =
            emu_must(realloc(list->tasks, (size_t) list->room * sizeof(Task)));
    }
    list->tasks[list->n++] = task;
}

void
emu_clear(List *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->tasks[i].args);
    free(list->tasks);
    *list = (List){0};
}

static void force(Stream *s, int upto);

/* Runs the next task. Returns false if it would have to run another stream
 * first and may not. */
static bool
step(Stream *s, bool forced)
{
    const Task t = s->work.tasks[s->done - s->base];
    if (!t.run && t.waits_for && t.event->came < t.waits_for) {
        if (!forced)
            return false;
        s->running = true; /* do_some() must not run this stream now */
        force(t.stream, t.place);
        s->running = false;
        assert(t.event->came >= t.waits_for);
    }
    s->done++;
    if (t.run)
        t.run(t.args);
    if (!t.run && !t.waits_for) {
        t.event->came++;
        t.event->time = emu_all.clock;
    }
    return true;
}

static int
end_of(const Stream *s)
{
    return s->base + s->work.n;
}

int
emu_pending(void)
{
    EMU_LOCKED;
    int n = 0;
    for (const Stream *s = emu_all.streams; s; s = s->next)
        n += end_of(s) - s->done;
    return n;
}

/* Runs some work of random streams, as far as their waits allow. */
static void
do_some(void)
{
    static bool busy; /* prevents recursion: a task of a stream must not start
                         it again */
    if (!emu_all.random || busy)
        return;
    busy = true;
    for (unsigned n = draw(4); n > 0; n--) {
        int streams = 0;
        for (const Stream *s = emu_all.streams; s; s = s->next)
            streams++;
        Stream *s = emu_all.streams;
        for (unsigned i = streams ? draw((unsigned) streams) : 0; i > 0; i--)
            s = s->next;
        if (s && !s->running && s->done < end_of(s))
            step(s, false);
    }
    busy = false;
}

static void
force(Stream *s, int upto)
{
    while (s->done < upto) {
        do_some();
        if (s->done < upto)
            step(s, true);
    }
}

void
emu_force_all(void)
{
    for (Stream *s = emu_all.streams; s; s = s->next)
        force(s, end_of(s));
}

/* Runs eager streams until each of them is blocked or finished. */
static void
pump(void)
{
    static bool pumping;
    if (pumping)
        return;
    pumping = true;
    do_some();
    for (bool moved = true; moved;) {
        moved = false;
        for (Stream *s = emu_all.streams; s; s = s->next)
            while (s->eager && s->done < end_of(s) && step(s, false))
                moved = true;
    }
    for (Stream *s = emu_all.streams; s; s = s->next)
        if (s->done == end_of(s)) {
            for (int i = 0; i < s->work.n; i++)
                free(s->work.tasks[i].args);
            s->base += s->work.n;
            s->work.n = 0;
        }
    pumping = false;
}

static void
give(Stream *s, Task task)
{
    append(s->capture ? &s->capture->lists[s->branch] : &s->work, task);
    if (!s->capture)
        pump();
}

void
emu_submit(VaeRtStream stream, void (*run)(const void *args), const void *args,
           size_t size)
{
    EMU_LOCKED;
    if (stream == VAE_ONLY_LOAD)
        return;
    emu_same_device(((const Stream *) stream)->device, "work");
    if (emu_count_work() || emu_all.skips)
        return;
    void *copy = emu_must(malloc(size ? size : 1));
    memcpy(copy, args, size);
    give(stream, (Task){.run = run, .args = copy});
}

int
vae_rt_stream_new(VaeRtStream *out)
{
    EMU_LOCKED;
    EMU_CALL;
    if (emu_unsafe())
        return EMU_UNSAFE;
    Stream *s = emu_must(calloc(1, sizeof *s));
    s->eager =
        emu_all.n_streams < 32 && (emu_all.eager >> emu_all.n_streams & 1);
    emu_all.n_streams++;
    s->device = emu_current();
    s->next = emu_all.streams;
    emu_all.streams = s;
    emu_all.alive++;
    *out = s;
    return 0;
}

void
vae_rt_stream_free(VaeRtStream stream)
{
    EMU_LOCKED;
    Stream *s = stream;
    if (!s)
        return;
    emu_unsafe();
    force(s, end_of(s));
    Stream **at = &emu_all.streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    emu_clear(&s->work);
    free(s);
    emu_all.alive--;
}

bool
emu_is_stream(VaeRtStream stream)
{
    EMU_LOCKED;
    const Stream *s = emu_all.streams;
    while (s && s != stream)
        s = s->next;
    return s;
}

int
vae_rt_stream_sync(VaeRtStream stream)
{
    EMU_LOCKED;
    EMU_CALL;
    Stream *s = stream;
    if (s->capture)
        emu_no_capture("waiting for a stream");
    if (emu_unsafe())
        return EMU_UNSAFE;
    if (emu_broken())
        return EMU_BROKEN;
    force(s, end_of(s));
    pump();
    return 0;
}

/* The stream joins the recording of the event. */
static int
wait_in_capture(Stream *s, const Event *e)
{
    Graph *g = e->capture;
    if (!g->recording || (s->capture && s->capture != g))
        return EMU_NO_CAPTURE;
    if (!s->capture) {
        assert(g->n < MOST_BRANCHES);
        s->capture = g;
        s->branch = g->n;
        g->streams[g->n] = s;
        g->eager[g->n++] = s->eager;
    }
    give(s, (Task){.event = (Event *) e,
                   .waits_for = 1,
                   .branch = e->stream->branch,
                   .place = e->place});
    return 0;
}

int
vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event)
{
    EMU_LOCKED;
    EMU_CALL;
    Event *e = event;
    if (emu_strikes(EMU_FAULT_STREAM_WAIT) ||
        emu_strikes(EMU_FAULT_STREAM_WAITS))
        return 0;
    if (e->capture)
        return wait_in_capture(stream, e);
    if (e->recorded)
        give(stream, (Task){.event = e,
                            .waits_for = e->recorded,
                            .stream = e->stream,
                            .place = e->place});
    return 0;
}

/* ------------------------------------------------------------------ */
/* Events.                                                             */

int
vae_rt_event_new(VaeRtEvent *out)
{
    EMU_LOCKED;
    EMU_CALL;
    if (emu_unsafe())
        return EMU_UNSAFE;
    Event *e = emu_must(calloc(1, sizeof *e));
    e->device = emu_current();
    *out = e;
    emu_all.alive++;
    return 0;
}

void
vae_rt_event_free(VaeRtEvent event)
{
    EMU_LOCKED;
    Event *e = event;
    if (!e)
        return;
    emu_unsafe();
    emu_same_device(e->device, "an event");
    if (e->came < e->recorded)
        emu_force_all();
    free(e);
    emu_all.alive--;
}

int
vae_rt_event_record(VaeRtEvent event, VaeRtStream stream)
{
    EMU_LOCKED;
    EMU_CALL;
    Event *e = event;
    Stream *s = stream;
    emu_same_device(s->device, "a stream");
    emu_same_device(e->device, "an event");
    e->stream = s;
    e->capture = s->capture;
    if (s->capture) {
        e->place = s->capture->lists[s->branch].n + 1;
    } else {
        e->recorded++;
        e->place = end_of(s) + 1;
    }
    give(s, (Task){.event = e});
    return emu_broken();
}

int
vae_rt_event_sync(VaeRtEvent event)
{
    EMU_LOCKED;
    EMU_CALL;
    Event *e = event;
    if (emu_broken())
        return EMU_BROKEN;
    if (emu_unsafe())
        return EMU_UNSAFE;
    if (emu_strikes(EMU_FAULT_HOST_WAIT))
        return 0;
    if (e->came < e->recorded)
        force(e->stream, e->place);
    pump();
    return 0;
}

int
vae_rt_event_span(VaeRtEvent from, VaeRtEvent to, float *ms)
{
    EMU_LOCKED;
    EMU_CALL;
    const Event *a = from, *b = to;
    if (a->came < a->recorded || b->came < b->recorded)
        return EMU_BROKEN;
    *ms = (float) (b->time - a->time);
    return 0;
}
