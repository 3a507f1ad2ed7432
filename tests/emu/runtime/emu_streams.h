/*
 * emu_streams.h: structs of streams, events and graphs, for emu_rt.c and
 * emu_graph.c.
 */
#ifndef EMU_STREAMS_H
#define EMU_STREAMS_H

#include "emu_state.h"

typedef struct Event Event;

typedef struct Task {
    void (*run)(const void *args);
    void *args;
    Event *event;  /* run NULL, waits_for 0: the task records this event */
    int waits_for; /* not 0: the task waits for record number waits_for of the
                      event */
    struct Stream *stream;
    int place;  /* the place of this record in `stream`; later records do not
                   change it */
    int branch; /* in a recording: the branch of the event */
} Task;

typedef struct List {
    Task *tasks;
    int n, room;
} List;

/* A recorded program. It has one list for the stream that began the recording,
 * and one for each stream that waited for an event of it. */
enum { MOST_BRANCHES = 4 };

typedef struct Graph {
    List lists[MOST_BRANCHES];
    struct Stream *streams[MOST_BRANCHES];
    bool eager[MOST_BRANCHES];
    int done[MOST_BRANCHES]; /* number of tasks done, while the graph runs */
    int n;
    bool recording;
} Graph;

typedef struct Stream {
    struct Stream *next;
    List work;
    int base, done; /* base: tasks that were removed from work; done: tasks that
                       were run */
    int device;
    bool eager, running;
    Graph *capture;
    int branch; /* the branch of this stream in `capture` */
} Stream;

/* recorded: number of records; came: number of records that the stream has
 * reached; place: that of the last record in its stream. */
struct Event {
    Stream *stream;
    int device, recorded, came, place;
    Graph *capture; /* the graph of the last record, or NULL */
    double time;
};

/* All streams and their common state. */
extern struct EmuAll {
    Stream *streams;
    int n_streams; /* number of streams made since emu_set_eager() */
    int alive;
    unsigned eager;
    uint64_t random; /* state of the random numbers; 0: streams do not work at
                        random moments */
    int captures;
    bool skips;
    double clock;
} emu_all;

/* Number of recordings of this thread that have not ended. */
extern _Thread_local int emu_captures;

/* Frees the tasks of a list. */
void emu_clear(List *list);

#endif
