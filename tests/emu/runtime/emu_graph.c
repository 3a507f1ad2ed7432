/*
 * emu_graph.c: recordings of the emulated device, and graphs.
 */
#include <stdlib.h>
#include <string.h>

#include "emu_streams.h"

int
vae_rt_capture_begin(VaeRtStream stream)
{
    emu_needs_recording_lock("recording");
    EMU_LOCKED;
    EMU_CALL;
    Stream *s = stream;
    Graph *g = emu_must(calloc(1, sizeof *g));
    g->streams[0] = s;
    g->n = 1;
    g->recording = true;
    s->capture = g;
    s->branch = 0;
    emu_all.captures++;
    emu_captures++;
    return 0;
}

static void
clear_graph(Graph *g)
{
    for (int i = 0; i < g->n; i++)
        emu_clear(&g->lists[i]);
    free(g);
}

/* True if the first list waits for the ends of all others. */
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
    emu_needs_recording_lock("ending a recording");
    EMU_LOCKED;
    Stream *s = stream;
    Graph *g = s->capture;
    g->recording = false;
    for (int i = 0; i < g->n; i++)
        g->streams[i]->capture = NULL;
    emu_all.captures--;
    emu_captures--;
    *out = NULL;
    if (emu_refuses() || emu_strikes(EMU_FAULT_CAPTURE) ||
        emu_strikes(EMU_FAULT_CAPTURES) || !is_joined(g)) {
        clear_graph(g);
        return EMU_NO_CAPTURE;
    }
    *out = g;
    emu_all.alive++;
    return emu_broken();
}

static void run_branch(Graph *g, int branch, int upto);

/* Runs the next task of a branch. Returns false if it would have to run another
 * branch first and may not. */
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

/* Runs the eager branches as far as their waits allow. */
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
    emu_all.alive--;
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
