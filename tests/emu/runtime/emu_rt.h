/*
 * emu_rt.h: an emulated device in host memory, which implements cuda_rt.h and
 * cuda/conv/convs.h.
 *
 * A stream keeps its work until something needs the result: a wait of the host,
 * or an event that another stream waits for. New memory is full of 0xff, which
 * is NaN in all types, so that a missing wait reads NaN. An eager stream does
 * its work as early as its waits allow, so that work that starts too early
 * shows. With a seed, all streams work at random moments. Convolutions write
 * their results and their workspace while they read, so that overlapping
 * buffers read NaN. Several threads may call these functions.
 */
#ifndef EMU_RT_H
#define EMU_RT_H

#include "cuda_rt.h"

/* Adds work to a stream and copies args. During a capture it is recorded. */
void emu_submit(VaeRtStream stream, void (*run)(const void *args),
                const void *args, size_t size);
/* Returns true for a stream that has not been freed. */
bool emu_is_stream(VaeRtStream stream);
/* The work that a graph does, without waits. */
typedef struct EmuWork {
    int kernels, copies, fills;
} EmuWork;
EmuWork emu_graph_work(VaeRtGraph graph);
/* Advances the clock that events read. */
void emu_take_time(float ms);

/* The current device of this thread. */
int emu_current(void);
void emu_use(int device);
/* Returns true if this thread may call functions that the capture of another
 * thread forbids. */
bool emu_is_relaxed(void);
/* An application captures its own stream in global mode, as PyTorch does. The
 * end returns true if no call invalidated the capture. */
void emu_begin_foreign(void);
bool emu_end_foreign(void);

/* Settings, to be made before a backend is opened. */
void emu_set_eager(unsigned streams); /* bit i: the i-th new stream */
/* The streams work at random moments, in an order that their waits allow. 0: as
 * late as possible, except for eager streams. */
void emu_set_seed(unsigned seed);
/* The device rounds allocations up to this number of bytes; 1 by default. */
void emu_set_granularity(uint64_t bytes);
void emu_set_devices(int count, int capability);
void emu_set_memory(uint64_t bytes);
/* The bytes of its memory that other processes use. */
void emu_set_others(uint64_t bytes);
/* Refuses the n-th allocation from now on, or none if n is 0. Device memory and
 * pinned memory count alike. Returns the number of allocations since the last
 * call. */
int emu_fail_alloc(int n);
/* At the n-th allocation from now on, another process takes this number of
 * bytes and keeps them; never if n is 0. Counts like emu_fail_alloc(). */
void emu_take_memory(int n, uint64_t bytes);
/* The n-th kernel or convolution that is loaded from now on gets no memory;
 * none if n is 0. Returns the number of loads since the last call. */
int emu_fail_load(int n);
/* Returns the number of blocks, pins, streams, events and graphs that are not
 * freed. */
int emu_alive(void);
/* Returns the number of pinned buffers of other allocators. */
int emu_pins(void);
/* The n-th launch or copy from now on fails, and so do all later ones; none if
 * n is 0. Returns the number of launches and copies since the last call. */
int emu_fail_work(int n);
/* Only the n-th call of the run time or the library from now on fails; none if
 * n is 0. Returns the number of calls since the last call. */
int emu_refuse_call(int n);
/* Calls a function before the n-th launch or copy from now on is added to its
 * stream; never if n is 0. A recorded program is one launch. Counts like
 * emu_fail_work(). */
void emu_at_work(int n, void (*call)(void *user), void *user);
/* Counts work without doing it, for tests that would take too long. Downloads
 * are then zeros. */
void emu_skip_work(bool skip);
/* Returns the number of kernels and convolutions that their first use loaded,
 * since the last call. They stay loaded until emu_unload(). */
int emu_loads(void);
void emu_unload(void);
/* Returns the number of launches of the own kernels since the last call. */
int emu_launches(void);
/* Returns the number of calls that convert pictures, since the last call. */
int emu_picture_calls(void);
/* Returns the amount of work that streams have not done yet. */
int emu_pending(void);

/* Faults that a test must find. emu_set_fault() breaks the n-th operation of
 * the kind, counted from 0. For copies within the device it breaks all copies
 * between the n-th pair of addresses. */
typedef enum EmuFault {
    EMU_FAULT_NONE,
    EMU_FAULT_STREAM_WAIT, /* a stream does not wait for an event */
    EMU_FAULT_HOST_WAIT,   /* the host does not wait for an event */
    EMU_FAULT_NO_COPY,     /* a copy within the device is left out */
    EMU_FAULT_FROM,        /* ... reads beside its source */
    EMU_FAULT_TO,          /* ... writes to the beginning of its block */
    EMU_FAULT_UPLOAD,      /* a copy to the device is left out */
    EMU_FAULT_DOWNLOAD,    /* a copy from the device is left out */
    EMU_FAULT_ALLOC,       /* an allocation fails, not for want of memory */
    EMU_FAULT_CAPTURE,     /* a capture is refused */
    EMU_FAULT_CAPTURES,    /* ... and all later captures */
    EMU_FAULT_STREAM_WAITS /* like STREAM_WAIT, and all later waits */
} EmuFault;
void emu_set_fault(EmuFault kind, int n);
/* Return the number of operations of the kind since emu_set_fault(), and how
 * often the fault changed one. A copy to the device must have run, and its
 * place must lack a byte of it: the place may have had the same bytes before.
 * EMU_FAULT_NONE keeps the second number. */
int emu_fault_count(EmuFault kind);
int emu_fault_done(void);

/* Counts the profiler ranges of this name that begin from now on. emu_ranges()
 * returns the number. */
void emu_watch_ranges(const char *name);
int emu_ranges(void);
/* Returns the number of ranges that have not ended. */
int emu_ranges_open(void);

/* The most frames of a convolution; 0: any number. */
void emu_set_conv_frames(int most);
/* Returns the number of convolutions that are not freed. */
int emu_convs_alive(void);
/* The milliseconds of a run with each of the three choices. A negative value:
 * the choice cannot be created. */
void emu_set_conv_times(float first, float second, float third);
/* The milliseconds of a run of the own kernel, and if it computes wrong. */
void emu_set_own(float ms, bool flawed);
/* The first run of a choice for a layer uses this number of bytes of the
 * device's memory, until the process ends. */
void emu_set_conv_code(uint64_t bytes);
/* Multiplies the time of every second run. */
void emu_set_conv_jitter(float factor);
/* Multiplies the time of the second run, the first one that is timed, of a
 * choice from 1 to 3 for each layer. 0: of no choice. */
void emu_set_conv_disturbed(int choice, float factor);
/* The flaw of a choice from 1 to 3; 0: no choice has one. */
typedef enum EmuFlaw {
    EMU_FLAW_RESULT,   /* one number is wrong */
    EMU_FLAW_IN_PLACE, /* ... if the output is also the addend */
    EMU_FLAW_HEIGHT,   /* sums are taken in an order that depends on the rows */
    EMU_FLAW_FRAMES,   /* ... on the frames; exact sums are the same */
    EMU_FLAW_REFUSES,  /* it is offered for sums, but does not run */
    EMU_FLAW_KILLS     /* the process ends at its first run */
} EmuFlaw;
void emu_set_conv_flaw(int choice, EmuFlaw flaw);
/* A plan cannot be recorded before it ran. Otherwise the code of a choice is
 * the same for any number of frames and rows. */
void emu_set_lazy_plans(bool lazy);
/* Return the number of plans made, and of operations of the convolutions that
 * streams got, since the last call. */
int emu_plans_made(void);
double emu_conv_flop(void);
/* Return the number of searches for choices, and of convolutions that ran,
 * since the last call. */
int emu_conv_searches(void);
int emu_conv_runs(void);

/* The operations that compute wrong results from now on. */
typedef enum EmuWrong {
    EMU_WRONG_NONE,
    EMU_WRONG_LARGE, /* convolutions over time: some rows of a frame are 0 */
    EMU_WRONG_SMALL, /* the other convolutions: one number */
    EMU_WRONG_PADS,  /* strided convolutions: padded above, not below */
    EMU_WRONG_RMS,   /* one number of each norm */
    EMU_WRONG_GROUP,
    EMU_WRONG_NARROW, /* one number of each attention over up to 384 channels */
    EMU_WRONG_MIDDLE, /* ... 640 */
    EMU_WRONG_WIDE,   /* ... over more */
    EMU_WRONG_OWN,    /* some numbers of own convolutions, or only of those: */
    EMU_WRONG_WGMMA,  /* by warpgroups */
    EMU_WRONG_TO,     /* to a picture */
    EMU_WRONG_FROM,   /* from a picture */
    EMU_WRONG_UP,     /* of all phases */
    EMU_WRONG_IMAGE   /* kernels are for another device and cannot launch */
} EmuWrong;
void emu_set_wrong(EmuWrong what);
EmuWrong emu_wrong(void);

#endif
