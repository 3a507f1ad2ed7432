/*
 * emu_state.h: what the files of the emulated run time share.
 */
#ifndef EMU_STATE_H
#define EMU_STATE_H

#include "emu_rt.h"

/* Codes of the run time. */
enum {
    EMU_OUT_OF_MEMORY = 2,
    EMU_NO_DEVICE = 100,
    EMU_NO_IMAGE = 209,
    EMU_BROKEN = 700,
    EMU_UNSAFE = 900,
    EMU_REFUSED = 999,
    EMU_NO_CAPTURE = 901
};

/* From there on a function is no other thread's: calls may come from several,
 * as with CUDA. */
#define EMU_LOCKED                                                             \
    __attribute__((cleanup(emu_unlock), unused)) const int emu_locked =        \
        emu_lock()
int emu_lock(void);
void emu_unlock(const int *locked);

/* p, which is not NULL, or the process ends. */
void *emu_must(void *p);

/* Ends the process where this thread uses another device: what belongs to one
 * can be made and used for it alone. */
void emu_same_device(int device, const char *what);
/* A call that a recording of another in global mode forbids to threads that are
 * not in relaxed mode: EMU_UNSAFE, and that recording is lost. Else 0. */
int emu_unsafe(void);
/* Ends the process where this thread records: CUDA allows no such call then. */
void emu_no_capture(const char *call);
/* True if this thread records. */
bool emu_records(void);
void emu_unload_convs(void);
/* Something is loaded, by its first use; ends the process where this thread
 * records. False: there is no memory for it. */
bool emu_load(const char *what);
/* Ends the process where the lock of recordings is free: another thread could
 * record, or wait for the whole device. */
void emu_needs_recording_lock(const char *call);
/* A call that waits for the whole device, and so needs that lock and ends the
 * process where any thread records. */
void emu_wait_for_device(const char *call);
/* Does all work of all streams. */
void emu_force_all(void);
/* Streams, events and graphs alive. */
int emu_handles_alive(void);

/* Blocks that are still allocated, and bytes of those on the device. */
int emu_blocks_alive(void);
uint64_t emu_memory_used(void);

/* n numbers as floats, in memory of malloc(); tf32: rounded to TF32. */
float *emu_widen(const void *src, VaeType type, size_t n, bool tf32);
/* The same of weights: [out][taps][in] -> [taps][in][out]. */
float *emu_reorder(const float *w, size_t out, size_t taps, size_t in);

/* True if a stream does this work to copy, or to fill with zeros. */
bool emu_is_copy(void (*run)(const void *args));
bool emu_is_fill(void (*run)(const void *args));

/* Code takes so much of the device's memory. */
void emu_take_for_good(uint64_t bytes);
/* The memory of the device, less that of others. */
uint64_t emu_memory(void);

bool emu_skips(void); /* see emu_skip_work() */
/* Counts a task; EMU_BROKEN once the device has failed. */
int emu_count_work(void);
/* 0, or EMU_BROKEN. */
int emu_broken(void);
/* At the beginning of a call: fails where a test wants it. */
#define EMU_CALL                                                               \
    do {                                                                       \
        if (emu_refuses())                                                     \
            return EMU_REFUSED;                                                \
    } while (0)
/* One more call; true: it is the one that fails. */
bool emu_refuses(void);
/* A launch of this thread has failed. */
void emu_set_failure(int code);
/* One more allocation; false: it is refused. */
bool emu_count_alloc(void);
/* One more of that kind; true: it is the one that goes wrong. */
bool emu_strikes(EmuFault kind);
/* The fault of a copy within the device between these addresses:
 * EMU_FAULT_NONE, NO_COPY, FROM or TO. */
EmuFault emu_copy_fault(const void *from, const void *to);
/* The fault made a difference. */
void emu_fault_struck(void);

#endif
