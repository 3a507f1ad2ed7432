/*
 * emu_rt.h: a device made of host memory, behind cuda_rt.h and
 * cuda/conv/convs.h.
 *
 * Work given to a stream is kept until something forces it: a host that waits,
 * or another stream's work that waits for an event. Memory is full of 0xff
 * (NaN in all types) until something is written there, so that whoever does
 * not wait reads poison. Streams named eager, by the order in which they were
 * made, do their work at once as far as their waits allow: what comes too
 * early shows there. With a seed, all streams do theirs at random moments.
 * Convolutions write their results and workspace from their beginning on, while
 * they read: what overlaps is read as poison. Calls may come from several
 * threads.
 */
#ifndef EMU_RT_H
#define EMU_RT_H

#include "cuda_rt.h"

/* Work of a stream; args are copied. In a capture it is recorded instead. */
void emu_submit(VaeRtStream stream, void (*run)(const void *args),
                const void *args, size_t size);
/* Whether it is a stream that has not been freed. */
bool emu_is_stream(VaeRtStream stream);
/* Adds to the clock that events read. */
void emu_take_time(float ms);

/* The device that this thread uses. */
int emu_current(void);
void emu_use(int device);
/* Whether this thread may do what another's recording forbids. */
bool emu_is_relaxed(void);
/* An application records a stream of its own, in global mode as PyTorch does;
 * whether nothing disturbed it. */
void emu_begin_foreign(void);
bool emu_end_foreign(void);

/* Before a backend is opened. */
void emu_set_eager(unsigned streams); /* bit i: the i-th stream made from now */
/* Work is done at moments that follow from the seed, in an order that the waits
 * allow; 0: late, or by eager streams. */
void emu_set_seed(unsigned seed);
/* The device gives memory in steps of so many bytes; 1 unless set. */
void emu_set_granularity(uint64_t bytes);
void emu_set_devices(int count, int capability);
void emu_set_memory(uint64_t bytes);
/* So much of it is taken by other processes. */
void emu_set_others(uint64_t bytes);
/* The n-th allocation from now is refused, of the device's and pinned memory
 * alike; 0: none. Returns how many there were since the last call. */
int emu_fail_alloc(int n);
/* At the n-th allocation from now somebody else takes so many bytes of the
 * device's memory for good; 0: nobody does. Counts as emu_fail_alloc() does. */
void emu_take_memory(int n, uint64_t bytes);
/* The n-th kernel or convolution that is loaded from now has no memory; 0:
 * none. Returns how many there were since the last call. */
int emu_fail_load(int n);
/* Blocks that are still allocated, and streams, events and graphs alive. */
int emu_alive(void);
/* Memory of callers that is pinned. */
int emu_pins(void);
/* The n-th launch or copy from now fails, and all that follow; 0: none.
 * Returns how many there were since the last call. */
int emu_fail_work(int n);
/* The n-th call of the run time or the library from now fails, and only that
 * one; 0: none. Returns how many there were since the last call. */
int emu_refuse_call(int n);
/* Before the n-th launch or copy from now (of a recorded program: its one) is
 * given to its stream, calls that; 0: nothing. Counts as emu_fail_work() does.
 */
void emu_at_work(int n, void (*call)(void *user), void *user);
/* Work is counted and left out: for what would take too long. What is copied to
 * the host is then zeros. */
void emu_skip_work(bool skip);
/* Kernels and plans loaded by their first use, since the last call. Kernels
 * stay loaded until emu_unload(). */
int emu_loads(void);
void emu_unload(void);
/* Work that streams were given and have not done. */
int emu_pending(void);

/* Faults, to see that a test finds them. The n-th one (from 0) of its kind
 * since this call is not done; of copies within the device, those between the
 * n-th pair of addresses. */
typedef enum EmuFault {
    EMU_FAULT_NONE,
    EMU_FAULT_STREAM_WAIT, /* a stream does not wait for an event */
    EMU_FAULT_HOST_WAIT,   /* the host does not wait for an event */
    EMU_FAULT_NO_COPY,     /* a copy within the device is left out */
    EMU_FAULT_FROM,        /* ... is made from what is beside its source */
    EMU_FAULT_TO,          /* ... is made to its block's beginning */
    EMU_FAULT_UPLOAD,      /* a copy to the device is left out */
    EMU_FAULT_DOWNLOAD,    /* a copy from the device is left out */
    EMU_FAULT_CAPTURE,     /* what was recorded is refused */
    EMU_FAULT_CAPTURES,    /* ... and all that is recorded later */
    EMU_FAULT_STREAM_WAITS /* as STREAM_WAIT, and all later ones */
} EmuFault;
void emu_set_fault(EmuFault kind, int n);
/* How many there were of that kind since emu_set_fault(), and how many times
 * the fault made a difference to what was done. */
int emu_fault_count(EmuFault kind);
int emu_fault_done(void);

/* Ranges of that name begun from here on, up to emu_ranges(). */
void emu_watch_ranges(const char *name);
int emu_ranges(void);
/* Ranges that have not ended. */
int emu_ranges_open(void);

/* Convolutions take at most so many frames at once; 0: any number. */
void emu_set_conv_frames(int most);
/* Convolutions made and alive. */
int emu_convs_alive(void);
/* Milliseconds of one run by each of the three choices; negative: it cannot be
 * made. */
void emu_set_conv_times(float first, float second, float third);
/* The first run of a choice for a layer takes so many bytes of the device's
 * memory, until the process ends; 0: none. */
void emu_set_conv_code(uint64_t bytes);
/* Every second run takes so many times as long; 1: none does. */
void emu_set_conv_jitter(float factor);
/* What a choice, 1 to 3, does wrong; 0: none does. */
typedef enum EmuFlaw {
    EMU_FLAW_RESULT,   /* one number is wrong */
    EMU_FLAW_IN_PLACE, /* ... where it overwrites what it adds */
    EMU_FLAW_KILLS     /* the process ends at its first run */
} EmuFlaw;
void emu_set_conv_flaw(int choice, EmuFlaw flaw);
/* How often choices were looked for, and convolutions begun, since the last
 * call. */
int emu_conv_searches(void);
int emu_conv_runs(void);

/* What computes wrong from here on. */
typedef enum EmuWrong {
    EMU_WRONG_NONE,
    EMU_WRONG_LARGE, /* convolutions over time: some rows of a frame are 0 */
    EMU_WRONG_SMALL, /* the others: one number */
    EMU_WRONG_PADS,  /* those of strides: padded above, not below */
    EMU_WRONG_RMS,   /* one number of each norm */
    EMU_WRONG_GROUP,
    EMU_WRONG_IMAGE /* kernels cannot be launched: made for other devices */
} EmuWrong;
void emu_set_wrong(EmuWrong what);
EmuWrong emu_wrong(void);

#endif
