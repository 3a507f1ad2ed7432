/*
 * emu_streams.h: the inside of streams, events and graphs, for emu_rt.c and
 * emu_graph.c.
 */
#ifndef EMU_STREAMS_H
#define EMU_STREAMS_H

#include "emu_state.h"

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

/* All streams, and what is common to them. */
extern struct EmuAll {
    Stream *streams;
    int n_streams; /* ever made since emu_set_eager() */
    int alive;
    unsigned eager;
    uint64_t random; /* state; 0: none */
    int captures;
    bool skips;
    double clock;
} emu_all;

/* Recordings of this thread. */
extern _Thread_local int emu_captures;

/* Frees the tasks of a list. */
void emu_clear(List *list);

#endif
