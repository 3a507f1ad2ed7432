/*
 * emu_rt.c: streams, events, graphs and memory of the emulated device.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_rt.h"

enum {
    POISON = 0xff,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    NO_IMAGE = 209,
    BROKEN = 700
};

typedef struct Event Event;

typedef struct Task {
    void (*run)(const void *args);
    void *args;
    Event *event;  /* recorded where run is NULL ... */
    int waits_for; /* ... or, not 0, waited for: its record of that number */
} Task;

typedef struct List {
    Task *tasks;
    int n, room;
} List;

typedef struct Stream {
    struct Stream *next;
    List work;
    int base, done; /* tasks that work no longer holds; tasks done */
    bool eager, running;
    List *capture;
} Stream;

/* Came once for every record; the last record's place in its stream. */
struct Event {
    Stream *stream;
    int recorded, came, place;
    float time;
};

typedef struct Block {
    struct Block *next;
    size_t bytes;
    bool device;
    uint8_t *data;
} Block;

typedef struct Pair {
    const void *from, *to;
} Pair;

static struct {
    Stream *streams;
    Block *blocks;
    int n_streams; /* ever made since emu_set_eager() */
    int alive;
    unsigned eager;
    int devices, capability;
    uint64_t memory;
    int allocs, refused;
    int work, broken_at;
    bool broken;
    float clock;
    EmuFault fault;
    int fault_at, fault_done;
    int counts[EMU_FAULT_DOWNLOAD + 1];
    Pair pairs[4096];
    int n_pairs;
    const char *range; /* watched */
    int ranges, ranges_open;
} emu = {.devices = 1, .capability = 90, .memory = (uint64_t) 4 << 30};

static void *
must(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ------------------------------------------------------------------ */
/* What a test sets.                                                   */

void
emu_take_time(float ms)
{
    emu.clock += ms;
}

void
emu_set_eager(unsigned streams)
{
    emu.eager = streams;
    emu.n_streams = 0;
}

void
emu_set_devices(int count, int capability)
{
    emu.devices = count;
    emu.capability = capability;
}

void
emu_set_memory(uint64_t bytes)
{
    emu.memory = bytes;
}

int
emu_fail_alloc(int n)
{
    const int before = emu.allocs;
    emu.allocs = 0;
    emu.refused = n;
    return before;
}

int
emu_alive(void)
{
    int n = emu.alive;
    for (const Block *b = emu.blocks; b; b = b->next)
        n++;
    return n;
}

int
emu_fail_work(int n)
{
    const int before = emu.work;
    emu.work = 0;
    emu.broken_at = n;
    emu.broken = false;
    return before;
}

void
emu_set_fault(EmuFault kind, int n)
{
    emu.fault = kind;
    emu.fault_at = n;
    emu.fault_done = 0;
    emu.n_pairs = 0;
    memset(emu.counts, 0, sizeof emu.counts);
}

int
emu_fault_count(EmuFault kind)
{
    return kind >= EMU_FAULT_NO_COPY && kind <= EMU_FAULT_TO ? emu.n_pairs
                                                             : emu.counts[kind];
}

int
emu_fault_done(void)
{
    return emu.fault_done;
}

static bool
strikes(EmuFault kind)
{
    const bool hit = emu.fault == kind && emu.counts[kind] == emu.fault_at;
    emu.counts[kind]++;
    emu.fault_done += hit;
    return hit;
}

/* One more piece of work; BROKEN once the device has failed. */
static int
count_work(void)
{
    emu.work++;
    if (emu.broken_at && emu.work >= emu.broken_at)
        emu.broken = true;
    return emu.broken ? BROKEN : 0;
}

/* ------------------------------------------------------------------ */
/* Streams.                                                            */

static void
append(List *list, Task task)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 64;
        list->tasks =
            must(realloc(list->tasks, (size_t) list->room * sizeof(Task)));
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
        force(t.event->stream, t.event->place);
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

static void
force(Stream *s, int upto)
{
    while (s->done < upto)
        step(s, true);
}

static void
force_all(void)
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
    append(s->capture ? s->capture : &s->work, task);
    if (!s->capture)
        pump();
}

void
emu_submit(VaeRtStream stream, void (*run)(const void *args), const void *args,
           size_t size)
{
    if (count_work())
        return;
    void *copy = must(malloc(size ? size : 1));
    memcpy(copy, args, size);
    give(stream, (Task){.run = run, .args = copy});
}

int
vae_rt_stream_new(VaeRtStream *out)
{
    Stream *s = must(calloc(1, sizeof *s));
    s->eager = emu.n_streams < 32 && (emu.eager >> emu.n_streams & 1);
    emu.n_streams++;
    s->next = emu.streams;
    emu.streams = s;
    emu.alive++;
    *out = s;
    return 0;
}

void
vae_rt_stream_free(VaeRtStream stream)
{
    Stream *s = stream;
    if (!s)
        return;
    force(s, end_of(s));
    Stream **at = &emu.streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    clear(&s->work);
    free(s);
    emu.alive--;
}

int
vae_rt_stream_sync(VaeRtStream stream)
{
    Stream *s = stream;
    if (emu.broken)
        return BROKEN;
    force(s, end_of(s));
    pump();
    return 0;
}

int
vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event)
{
    Event *e = event;
    if (strikes(EMU_FAULT_STREAM_WAIT))
        return 0;
    if (e->recorded)
        give(stream, (Task){.event = e, .waits_for = e->recorded});
    return 0;
}

/* ------------------------------------------------------------------ */
/* Events.                                                             */

int
vae_rt_event_new(VaeRtEvent *out)
{
    *out = must(calloc(1, sizeof(Event)));
    emu.alive++;
    return 0;
}

void
vae_rt_event_free(VaeRtEvent event)
{
    Event *e = event;
    if (!e)
        return;
    if (e->came < e->recorded)
        force(e->stream, e->place);
    free(e);
    emu.alive--;
}

int
vae_rt_event_record(VaeRtEvent event, VaeRtStream stream)
{
    Event *e = event;
    Stream *s = stream;
    if (e->came < e->recorded)
        force(e->stream, e->place); /* one record at a time is enough here */
    e->stream = s;
    e->recorded++;
    e->place = end_of(s) + 1;
    give(s, (Task){.event = e});
    return emu.broken ? BROKEN : 0;
}

int
vae_rt_event_sync(VaeRtEvent event)
{
    Event *e = event;
    if (emu.broken)
        return BROKEN;
    if (strikes(EMU_FAULT_HOST_WAIT))
        return 0;
    if (e->came < e->recorded)
        force(e->stream, e->place);
    pump();
    return 0;
}

int
vae_rt_event_span(VaeRtEvent from, VaeRtEvent to, float *ms)
{
    const Event *a = from, *b = to;
    if (a->came < a->recorded || b->came < b->recorded)
        return BROKEN;
    *ms = b->time - a->time;
    return 0;
}

/* ------------------------------------------------------------------ */
/* Graphs: tasks without events.                                       */

int
vae_rt_capture_begin(VaeRtStream stream)
{
    Stream *s = stream;
    s->capture = must(calloc(1, sizeof(List)));
    return 0;
}

int
vae_rt_capture_end(VaeRtStream stream, VaeRtGraph *out)
{
    Stream *s = stream;
    *out = s->capture;
    s->capture = NULL;
    emu.alive++;
    return emu.broken ? BROKEN : 0;
}

static void
run_list(const void *args)
{
    const List *list = *(const List *const *) args;
    for (int i = 0; i < list->n; i++)
        list->tasks[i].run(list->tasks[i].args);
}

int
vae_rt_graph_run(VaeRtGraph graph, VaeRtStream stream)
{
    emu_submit(stream, run_list, &graph, sizeof graph);
    return emu.broken ? BROKEN : 0;
}

void
vae_rt_graph_free(VaeRtGraph graph)
{
    if (!graph)
        return;
    force_all();
    clear(graph);
    free(graph);
    emu.alive--;
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

static int
take(void **out, size_t bytes, bool device)
{
    uint64_t used = 0;
    *out = NULL;
    emu.allocs++;
    for (const Block *b = emu.blocks; b; b = b->next)
        used += b->device ? b->bytes : 0;
    if (emu.allocs == emu.refused || (device && used + bytes > emu.memory))
        return OUT_OF_MEMORY;
    Block *b = must(calloc(1, sizeof *b));
    const size_t whole = (bytes + 255) / 256 * 256 + 256;
    b->data = must(aligned_alloc(256, whole));
    memset(b->data, POISON, whole);
    b->bytes = bytes;
    b->device = device;
    b->next = emu.blocks;
    emu.blocks = b;
    *out = b->data;
    return 0;
}

/* As cudaFree(), waits for all work. */
static void
give_back(void *data)
{
    if (!data)
        return;
    force_all();
    Block **at = &emu.blocks;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    Block *b = must(*at);
    *at = b->next;
    free(b->data);
    free(b);
}

int
vae_rt_alloc(void **out, size_t bytes)
{
    return emu.broken ? BROKEN : take(out, bytes, true);
}

void
vae_rt_free(void *block)
{
    give_back(block);
}

int
vae_rt_alloc_host(void **out, size_t bytes)
{
    return emu.broken ? BROKEN : take(out, bytes, false);
}

void
vae_rt_free_host(void *block)
{
    give_back(block);
}

static const Block *
block_of(const void *p)
{
    const uint8_t *at = p;
    for (const Block *b = emu.blocks; b; b = b->next)
        if (at >= b->data && at < b->data + b->bytes)
            return b;
    return NULL;
}

typedef struct Copy {
    void *to;
    const void *from;
    size_t bytes;
} Copy;

static void
run_copy(const void *args)
{
    const Copy *c = args;
    memmove(c->to, c->from, c->bytes);
}

static int
find_pair(const Copy *c)
{
    for (int i = 0; i < emu.n_pairs; i++)
        if (emu.pairs[i].from == c->from && emu.pairs[i].to == c->to)
            return i;
    assert(emu.n_pairs < 4096);
    emu.pairs[emu.n_pairs] = (Pair){c->from, c->to};
    return emu.n_pairs++;
}

/* What follows the bytes at p, or what is before them. Not the beginning of
 * the block: in a first slice the frames there are all the same. */
static const void *
beside(const Block *b, const void *p, size_t bytes)
{
    const uint8_t *at = p;
    const size_t start = (size_t) (at - b->data);
    return start + 2 * bytes <= b->bytes ? at + bytes
           : start >= bytes              ? at - bytes
                                         : b->data;
}

/* The fault that was set, where it strikes; false: the copy is left out. */
static bool
spoil(Copy *c, const Block *from, const Block *to)
{
    const Copy before = *c;
    if (!from || !from->device)
        return !to || !to->device || !strikes(EMU_FAULT_UPLOAD);
    if (!to || !to->device)
        return !strikes(EMU_FAULT_DOWNLOAD);
    if (emu.fault < EMU_FAULT_NO_COPY || emu.fault > EMU_FAULT_TO ||
        find_pair(c) != emu.fault_at)
        return true;
    if (emu.fault == EMU_FAULT_NO_COPY) {
        emu.fault_done++;
        return false;
    }
    if (emu.fault == EMU_FAULT_FROM)
        c->from = beside(from, c->from, c->bytes);
    if (emu.fault == EMU_FAULT_TO)
        c->to = to->data;
    emu.fault_done += before.from != c->from || before.to != c->to;
    return true;
}

/* What begins in a block must end in it. */
static bool
inside(const Block *b, const void *p, size_t bytes)
{
    return !b || (const uint8_t *) p + bytes <= b->data + b->bytes;
}

int
vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream)
{
    Copy c = {dst, src, bytes};
    const Block *from = block_of(src), *to = block_of(dst);
    if (!inside(from, src, bytes) || !inside(to, dst, bytes)) {
        fprintf(stderr, "a copy of %zu bytes leaves its block\n", bytes);
        abort();
    }
    if (spoil(&c, from, to))
        emu_submit(stream, run_copy, &c, sizeof c);
    return emu.broken ? BROKEN : 0;
}

static void
run_zero(const void *args)
{
    const Copy *c = args;
    memset(c->to, 0, c->bytes);
}

int
vae_rt_zero(void *dst, size_t bytes, VaeRtStream stream)
{
    const Copy c = {dst, NULL, bytes};
    if (!inside(block_of(dst), dst, bytes)) {
        fprintf(stderr, "a fill of %zu bytes leaves its block\n", bytes);
        abort();
    }
    emu_submit(stream, run_zero, &c, sizeof c);
    return emu.broken ? BROKEN : 0;
}

/* ------------------------------------------------------------------ */
/* Devices.                                                            */

const char *
vae_rt_words(int code)
{
    return code == OUT_OF_MEMORY ? "out of memory"
           : code == NO_DEVICE   ? "there is no NVIDIA GPU"
           : code == NO_IMAGE    ? "there is none for the emulated device"
                                 : "the emulated device has failed";
}

bool
vae_rt_is_memory(int code)
{
    return code == OUT_OF_MEMORY;
}

int
vae_rt_failure(void)
{
    return emu.broken ? BROKEN : emu_wrong() == EMU_WRONG_IMAGE ? NO_IMAGE : 0;
}

int
vae_rt_devices(int *count)
{
    *count = emu.devices;
    return emu.devices ? 0 : NO_DEVICE;
}

int
vae_rt_device(int device, VaeRtDevice *out)
{
    *out = (VaeRtDevice){.name = "the emulated device",
                         .capability = emu.capability,
                         .memory = emu.memory,
                         .driver = 13000,
                         .runtime = 13000};
    return 0;
}

int
vae_rt_use(int device)
{
    return device < emu.devices ? 0 : NO_DEVICE;
}

int
vae_rt_memory_left(uint64_t *bytes)
{
    uint64_t used = 0;
    for (const Block *b = emu.blocks; b; b = b->next)
        used += b->device ? b->bytes : 0;
    *bytes = used < emu.memory ? emu.memory - used : 0;
    return 0;
}

/* ------------------------------------------------------------------ */
/* Ranges.                                                             */

void
vae_rt_range_begin(const char *name)
{
    emu.ranges_open++;
    emu.ranges += emu.range && strcmp(name, emu.range) == 0;
}

void
vae_rt_range_end(void)
{
    emu.ranges_open--;
}

void
emu_watch_ranges(const char *name)
{
    emu.range = name;
    emu.ranges = 0;
}

int
emu_ranges(void)
{
    return emu.ranges;
}

int
emu_ranges_open(void)
{
    return emu.ranges_open;
}
