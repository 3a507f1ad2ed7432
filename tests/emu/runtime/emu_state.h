/*
 * emu_state.h: functions that the files of the emulated run time share.
 */
#ifndef EMU_STATE_H
#define EMU_STATE_H

#include "emu_rt.h"

/* Error codes of the emulated run time. */
enum {
    EMU_OUT_OF_MEMORY = 2,
    EMU_NO_DEVICE = 100,
    EMU_NO_IMAGE = 209,
    EMU_BROKEN = 700,
    EMU_UNSAFE = 900,
    EMU_REFUSED = 999,
    EMU_NO_CAPTURE = 901
};

/* Holds the lock of the emulation until the function returns. Several threads
 * may call the run time, as with CUDA. */
#define EMU_LOCKED                                                             \
    __attribute__((cleanup(emu_unlock), unused)) const int emu_locked =        \
        emu_lock()
int emu_lock(void);
void emu_unlock(const int *locked);

/* Returns p. If p is NULL, ends the process. */
void *emu_must(void *p);

/* Ends the process if this thread uses another device. An object of a device is
 * made and used only while the thread uses this device. */
void emu_same_device(int device, const char *what);
/* For calls that a recording in global mode forbids to other threads. If
 * another thread has such a recording and this thread is not in relaxed mode:
 * invalidates the recording and returns EMU_UNSAFE. Otherwise returns 0. */
int emu_unsafe(void);
/* Ends the process if this thread records, because CUDA then forbids this call.
 */
void emu_no_capture(const char *call);
/* True if this thread records. */
bool emu_records(void);
void emu_unload_convs(void);
/* Loads code at its first use. Ends the process if this thread records. Returns
 * false if there is no memory for the code. */
bool emu_load(const char *what);
/* Ends the process if no thread holds the lock of recordings: another thread
 * could then record, or wait for the whole device. */
void emu_needs_recording_lock(const char *call);
/* Waits for the whole device. Ends the process if no thread holds the lock of
 * recordings, or if any thread records. */
void emu_wait_for_device(const char *call);
/* Does all work of all streams. */
void emu_force_all(void);
/* Returns the number of streams, events and graphs that are not freed. */
int emu_handles_alive(void);

/* Return the number of blocks that are not freed, and the bytes of those on the
 * device. */
int emu_blocks_alive(void);
uint64_t emu_memory_used(void);

/* Returns n numbers as floats, in a block of malloc(). tf32: rounded to TF32.
 */
float *emu_widen(const void *src, VaeType type, size_t n, bool tf32);
/* Reorders weights from [out][taps][in] to [taps][in][out]. */
float *emu_reorder(const float *w, size_t out, size_t taps, size_t in);

/* Return true if this task of a stream is a copy, or a fill with zeros. */
bool emu_is_copy(void (*run)(const void *args));
bool emu_is_fill(void (*run)(const void *args));

/* Takes this number of bytes of the device's memory for code. */
void emu_take_for_good(uint64_t bytes);
/* Returns the memory of the device without the bytes of other processes. */
uint64_t emu_memory(void);

bool emu_skips(void); /* see emu_skip_work() */
/* Counts a task. Returns EMU_BROKEN if the device has failed. */
int emu_count_work(void);
/* Returns EMU_BROKEN if the device has failed, otherwise 0. */
int emu_broken(void);
/* At the beginning of a call: returns an error if a test requests one here. */
#define EMU_CALL                                                               \
    do {                                                                       \
        if (emu_refuses())                                                     \
            return EMU_REFUSED;                                                \
    } while (0)
/* Counts a call. Returns true if this call must fail. */
bool emu_refuses(void);
/* Notes that a launch of this thread has failed. */
void emu_set_failure(int code);
/* Counts an allocation. Returns false if this one is refused. */
bool emu_count_alloc(void);
/* Counts an operation of this kind. Returns true if this one must go wrong. */
bool emu_strikes(EmuFault kind);
/* Returns the fault of a copy within the device between these addresses:
 * EMU_FAULT_NONE, NO_COPY, FROM or TO. */
EmuFault emu_copy_fault(const void *from, const void *to);
/* Notes that the fault changed the result of an operation. */
void emu_fault_struck(void);

#endif
