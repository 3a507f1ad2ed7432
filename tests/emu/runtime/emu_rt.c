/*
 * emu_rt.c: streams, events and graphs of the emulated device.
 */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_state.h"
#include "gpu.h"

typedef struct Event Event;

typedef struct Task {
    void (*run)(const void *args);
    void *args;
    Event *event;  /* recorded where run is NULL ... */
    int waits_for; /* ... or, not 0, waited for: its record of that number ...
                    */
    struct Stream *stream;
    int place;  /* ... which is there, whatever was recorded later */
    int branch; /* in a recording: of the event */
} Task;

typedef struct List {
    Task *tasks;
    int n, room;
} List;

/* A recording: the list of the stream that began it, and those of streams that
 * waited for an event in it. */
enum { MOST_BRANCHES = 4 };

typedef struct Graph {
    List lists[MOST_BRANCHES];
    struct Stream *streams[MOST_BRANCHES];
    bool eager[MOST_BRANCHES];
    int done[MOST_BRANCHES]; /* while it runs */
    int n;
    bool recording;
} Graph;

typedef struct Stream {
    struct Stream *next;
    List work;
    int base, done; /* tasks that work no longer holds; tasks done */
    int device;
    bool eager, running;
    Graph *capture;
    int branch; /* of it */
} Stream;

/* Came once for every record; the last record's place in its stream. */
struct Event {
    Stream *stream;
    int device, recorded, came, place;
    Graph *capture; /* that the last record is in, or NULL */
    double time;
};

static struct {
    Stream *streams;
    int n_streams; /* ever made since emu_set_eager() */
    int alive;
    unsigned eager;
    uint64_t random; /* state; 0: none */
    int captures;
    bool skips;
    double clock;
} emu;

static _Thread_local int captures; /* of this thread */

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
    emu.clock += (double) ms;
}

void
emu_skip_work(bool skip)
{
    emu.skips = skip;
}

void
emu_set_seed(unsigned seed)
{
    EMU_LOCKED;
    emu.random = seed ? 2 * (uint64_t) seed + 1 : 0;
}

static unsigned
draw(unsigned below)
{
    emu.random = emu.random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (emu.random >> 33) % below;
}

bool
emu_skips(void)
{
    return emu.skips;
}

void
emu_set_eager(unsigned streams)
{
    emu.eager = streams;
    emu.n_streams = 0;
}

bool
emu_records(void)
{
    return captures;
}

void
emu_no_capture(const char *call)
{
    if (!captures)
        return;
    fprintf(stderr, "%s while a stream records\n", call);
    abort();
}

void
emu_wait_for_device(const char *call)
{
    if (pthread_mutex_trylock(&vae_cuda_recording) == 0) {
        fprintf(stderr, "%s while another thread may record\n", call);
        abort();
    }
    EMU_LOCKED;
    if (emu.captures) {
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
    return emu.alive;
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

static void
clear(List *list)
{
    for (int i = 0; i < list->n; i++)
        free(list->tasks[i].args);
    free(list->tasks);
    *list = (List){0};
}

static void force(Stream *s, int upto);

/* Does the next task; false where it would have to force another stream and
 * may not. */
static bool
step(Stream *s, bool forced)
{
    const Task t = s->work.tasks[s->done - s->base];
    if (!t.run && t.waits_for && t.event->came < t.waits_for) {
        if (!forced)
            return false;
        s->running = true; /* this task */
        force(t.stream, t.place);
        s->running = false;
        assert(t.event->came >= t.waits_for);
    }
    s->done++;
    if (t.run)
        t.run(t.args);
    if (!t.run && !t.waits_for) {
        t.event->came++;
        t.event->time = emu.clock;
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
    for (const Stream *s = emu.streams; s; s = s->next)
        n += end_of(s) - s->done;
    return n;
}

/* Some work of streams that are drawn, as far as their waits allow. */
static void
do_some(void)
{
    static bool busy; /* a task of it must not begin it again */
    if (!emu.random || busy)
        return;
    busy = true;
    for (unsigned n = draw(4); n > 0; n--) {
        int streams = 0;
        for (const Stream *s = emu.streams; s; s = s->next)
            streams++;
        Stream *s = emu.streams;
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
    for (Stream *s = emu.streams; s; s = s->next)
        force(s, end_of(s));
}

/* Eager streams, until all of them are stuck or done. */
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
        for (Stream *s = emu.streams; s; s = s->next)
            while (s->eager && s->done < end_of(s) && step(s, false))
                moved = true;
    }
    for (Stream *s = emu.streams; s; s = s->next)
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
    emu_same_device(((const Stream *) stream)->device, "work");
    if (emu_count_work() || emu.skips)
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
    s->eager = emu.n_streams < 32 && (emu.eager >> emu.n_streams & 1);
    emu.n_streams++;
    s->device = emu_current();
    s->next = emu.streams;
    emu.streams = s;
    emu.alive++;
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
    Stream **at = &emu.streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    clear(&s->work);
    free(s);
    emu.alive--;
}

bool
emu_is_stream(VaeRtStream stream)
{
    EMU_LOCKED;
    const Stream *s = emu.streams;
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

/* The stream takes part in the recording of the event. */
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
    emu.alive++;
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
    emu.alive--;
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

/* ------------------------------------------------------------------ */
/* Graphs.                                                             */

int
vae_rt_capture_begin(VaeRtStream stream)
{
    EMU_LOCKED;
    EMU_CALL;
    Stream *s = stream;
    Graph *g = emu_must(calloc(1, sizeof *g));
    g->streams[0] = s;
    g->n = 1;
    g->recording = true;
    s->capture = g;
    s->branch = 0;
    emu.captures++;
    captures++;
    return 0;
}

static void
clear_graph(Graph *g)
{
    for (int i = 0; i < g->n; i++)
        clear(&g->lists[i]);
    free(g);
}

/* Whether the first list waits for the end of all others. */
static bool
is_joined(const Graph *g)
{
    for (int b = 1; b < g->n; b++) {
        bool joined = false;
        for (int i = 0; i < g->lists[0].n; i++) {
            const Task *t = &g->lists[0].tasks[i];
            joined = joined || (t->waits_for && t->branch == b &&
                                t->place == g->lists[b].n);
        }
        if (!joined)
            return false;
    }
    return true;
}

int
vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out)
{
    EMU_LOCKED;
    Stream *s = stream;
    Graph *g = s->capture;
    g->recording = false;
    for (int i = 0; i < g->n; i++)
        g->streams[i]->capture = NULL;
    emu.captures--;
    captures--;
    *out = NULL;
    if (emu_refuses() || emu_strikes(EMU_FAULT_CAPTURE) ||
        emu_strikes(EMU_FAULT_CAPTURES) || !is_joined(g)) {
        clear_graph(g);
        return EMU_NO_CAPTURE;
    }
    *out = g;
    emu.alive++;
    return emu_broken();
}

static void run_branch(Graph *g, int branch, int upto);

/* Does the next task of a branch; false where it would have to force another
 * one and may not. */
static bool
run_next(Graph *g, int branch, bool forced)
{
    const Task *t = &g->lists[branch].tasks[g->done[branch]];
    if (t->waits_for && g->done[t->branch] < t->place) {
        if (!forced)
            return false;
        run_branch(g, t->branch, t->place);
    }
    g->done[branch]++;
    if (t->run)
        t->run(t->args);
    return true;
}

/* The eager branches, as far as their waits allow. */
static void
run_eager(Graph *g)
{
    for (int b = 1; b < g->n; b++)
        while (g->eager[b] && g->done[b] < g->lists[b].n &&
               run_next(g, b, false))
            ;
}

static void
run_branch(Graph *g, int branch, int upto)
{
    while (g->done[branch] < upto) {
        run_next(g, branch, true);
        run_eager(g);
    }
}

static void
run_graph(const void *args)
{
    Graph *g = *(Graph *const *) args;
    memset(g->done, 0, sizeof g->done);
    run_eager(g);
    run_branch(g, 0, g->lists[0].n);
}

int
vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream)
{
    EMU_CALL;
    emu_submit(stream, run_graph, &graph, sizeof graph);
    return emu_broken();
}

void
vae_rt_graph_free(VaeRtGraph graph)
{
    EMU_LOCKED;
    if (!graph)
        return;
    emu_unsafe();
    emu_force_all();
    clear_graph(graph);
    emu.alive--;
}

EmuWork
emu_graph_work(VaeRtGraph graph)
{
    EMU_LOCKED;
    const Graph *g = graph;
    EmuWork work = {0};
    for (int b = 0; b < g->n; b++)
        for (int i = 0; i < g->lists[b].n; i++) {
            void (*run)(const void *args) = g->lists[b].tasks[i].run;
            if (run && emu_is_copy(run))
                work.copies++;
            else if (run && emu_is_fill(run))
                work.fills++;
            else
                work.kernels += run != NULL;
        }
    return work;
}
