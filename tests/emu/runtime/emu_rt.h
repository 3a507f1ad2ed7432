/*
 * emu_rt.h: an emulated device in host memory. It implements cuda_rt.h and
 * cuda/conv/convs.h.
 *
 * A stream does its work as late as possible: when the host waits for it, or
 * when another stream waits for an event after it. New memory is filled with
 * 0xff, which is NaN in all types, so that a missing wait reads NaN. An eager
 * stream does its work as early as its waits allow, so that work that starts
 * too early shows. With a seed, all streams work at random moments.
 * Convolutions write their results and their workspace while they read, so that
 * overlapping buffers read NaN. Several threads may call these functions.
 */
#ifndef EMU_RT_H
#define EMU_RT_H

#include "cuda_rt.h"

/* Adds work to a stream and copies args. During a capture it is recorded. */
void emu_submit(VaeRtStream stream, void (*run)(const void *args),
                const void *args, size_t size);
/* Returns true for a stream that has not been freed. */
bool emu_is_stream(VaeRtStream stream);
/* The number of operations of a graph, without waits. */
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

/* Call these settings before a backend is opened. */
void emu_set_eager(unsigned streams); /* bit i: the i-th new stream */
/* The streams work at random moments, in an order that their waits allow. 0: as
 * late as possible, except for eager streams. */
void emu_set_seed(unsigned seed);
/* The device rounds allocations up to this number of bytes; 1 by default. */
void emu_set_granularity(uint64_t bytes);
void emu_set_devices(int count, int capability);
void emu_set_memory(uint64_t bytes);
/* Sets the number of bytes of the device's memory that other processes use. */
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
/* Calls a function once, before the n-th launch or copy from now on is added to
 * its stream; never if n is 0. A recorded program is one launch. Counts like
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
    EMU_FAULT_FROM,   /* a copy within the device reads beside its source */
    EMU_FAULT_TO,     /* a copy within the device writes to the beginning of its
                         block */
    EMU_FAULT_UPLOAD, /* a copy to the device is left out */
    EMU_FAULT_DOWNLOAD, /* a copy from the device is left out */
    EMU_FAULT_ALLOC,    /* an allocation fails for another reason than missing
                           memory */
    EMU_FAULT_CAPTURE,  /* a capture is refused */
    EMU_FAULT_CAPTURES, /* this capture and all later ones are refused */
    EMU_FAULT_STREAM_WAITS /* a stream does not wait for this event and all
                              later ones */
} EmuFault;
void emu_set_fault(EmuFault kind, int n);
/* Return the number of operations of the kind since emu_set_fault(), and how
 * often the fault changed a result. A fault of a copy to the device counts only
 * if the copy has run and the target lacks a byte of it, because the target may
 * have had the same bytes before. EMU_FAULT_NONE keeps the second number. */
int emu_fault_count(EmuFault kind);
int emu_fault_done(void);

/* Counts the profiler ranges of this name that begin from now on. emu_ranges()
 * returns the number. */
void emu_watch_ranges(const char *name);
int emu_ranges(void);
/* Returns the number of ranges that have not ended. */
int emu_ranges_open(void);

/* Sets the largest number of frames of a convolution; 0: any number. */
void emu_set_conv_frames(int most);
/* Returns the number of convolutions that are not freed. */
int emu_convs_alive(void);
/* Sets the milliseconds of a run with each of the three choices. A negative
 * value: the choice cannot be created. */
void emu_set_conv_times(float first, float second, float third);
/* Sets the milliseconds of a run of the own kernel, and whether its results are
 * wrong. */
void emu_set_own(float ms, bool flawed);
/* The first run of a choice for a layer uses this number of bytes of the
 * device's memory, until the process ends. */
void emu_set_conv_code(uint64_t bytes);
/* Multiplies the time of every second run. */
void emu_set_conv_jitter(float factor);
/* Multiplies the time of the second run of this choice (1 to 3) for each layer.
 * The second run is the first one that is timed. 0: of no choice. */
void emu_set_conv_disturbed(int choice, float factor);
/* The flaw of a choice from 1 to 3; 0: no choice has one. */
typedef enum EmuFlaw {
    EMU_FLAW_RESULT,   /* one number is wrong */
    EMU_FLAW_IN_PLACE, /* one number is wrong if y is also the addend */
    EMU_FLAW_HEIGHT,   /* the order of sums depends on the rows */
    EMU_FLAW_FRAMES,  /* the order of sums depends on the frames; exact sums are
                         the same */
    EMU_FLAW_REFUSES, /* the choice is offered for sums, but does not run */
    EMU_FLAW_KILLS    /* the process ends at its first run */
} EmuFlaw;
void emu_set_conv_flaw(int choice, EmuFlaw flaw);
/* lazy: a plan cannot be recorded before its first run. Otherwise the code of a
 * choice is the same for any number of frames and rows. */
void emu_set_lazy_plans(bool lazy);
/* Return the number of plans made since the last call, and the number of
 * operations of the convolutions that were submitted to streams since the last
 * call. */
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
    EMU_WRONG_SMALL, /* other convolutions: one number is wrong */
    EMU_WRONG_PADS,  /* strided convolutions: padded above instead of below */
    EMU_WRONG_RMS,   /* one number of each norm is wrong */
    EMU_WRONG_GROUP,
    EMU_WRONG_NARROW, /* one number of each attention over up to 384 channels is
                         wrong */
    EMU_WRONG_MIDDLE, /* the same for 385 to 640 channels */
    EMU_WRONG_WIDE,   /* the same for more than 640 channels */
    EMU_WRONG_OWN, /* some numbers of all own convolutions are wrong, or only */
    EMU_WRONG_WGMMA, /* those by warpgroups */
    EMU_WRONG_TO,    /* those to a picture */
    EMU_WRONG_FROM,  /* those from a picture */
    EMU_WRONG_UP,    /* those of all phases */
    EMU_WRONG_IMAGE  /* kernels are for another device and cannot launch */
} EmuWrong;
void emu_set_wrong(EmuWrong what);
EmuWrong emu_wrong(void);

#endif
