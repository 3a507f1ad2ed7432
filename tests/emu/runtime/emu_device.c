/*
 * emu_device.c: the emulated devices, and ranges for profilers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_state.h"

static struct {
    int devices, capability;
    uint64_t memory, others; /* others: the bytes that other processes use */
    const char *range;       /* the name of the watched ranges */
    int ranges, ranges_open;
    bool foreign, disturbed; /* a global recording; a call invalidated it */
} emu = {.devices = 1, .capability = 90, .memory = (uint64_t) 4 << 30};

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
    emu.others = 0;
}

void
emu_set_others(uint64_t bytes)
{
    emu.others = bytes;
}

void
emu_take_for_good(uint64_t bytes)
{
    emu.others += bytes;
}

uint64_t
emu_memory(void)
{
    return emu.memory - emu.others;
}

int
emu_alive(void)
{
    return emu_handles_alive() + emu_blocks_alive() + emu_pins();
}

static _Thread_local int current; /* 0 in a new thread, as on a real device */
static _Thread_local bool relaxed;
static char contexts[64]; /* entry i stands for the context of device i */

const char *
vae_rt_words(int code)
{
    return code == EMU_OUT_OF_MEMORY ? "out of memory"
           : code == EMU_NO_DEVICE   ? "there is no NVIDIA GPU"
           : code == EMU_NO_IMAGE    ? "there is none for the emulated device"
           : code == EMU_NO_CAPTURE  ? "it cannot be recorded"
           : code == EMU_UNSAFE      ? "another stream is being recorded"
           : code == EMU_REFUSED     ? "the emulated device refuses the call"
                                     : "the emulated device has failed";
}

bool
vae_rt_is_memory(int code)
{
    return code == EMU_OUT_OF_MEMORY;
}

static _Thread_local int failure; /* last failed launch; 0: none */

void
emu_set_failure(int code)
{
    failure = code;
}

int
vae_rt_failure(void)
{
    const int before = failure;
    failure = 0;
    return before                           ? before
           : emu_broken()                   ? EMU_BROKEN
           : emu_wrong() == EMU_WRONG_IMAGE ? EMU_NO_IMAGE
                                            : 0;
}

int
vae_rt_devices(int *count)
{
    EMU_CALL;
    *count = emu.devices;
    return emu.devices ? 0 : EMU_NO_DEVICE;
}

int
vae_rt_device(int device, VaeRtDevice *out)
{
    EMU_CALL;
    *out = (VaeRtDevice){.name = "the emulated device",
                         .capability = emu.capability,
                         .memory = emu.memory,
                         .driver = 13000,
                         .runtime = 13000};
    return 0;
}

int
vae_rt_enter(int device, VaeRtCaller *out)
{
    *out = (VaeRtCaller){.context = &contexts[current], .mode = relaxed};
    EMU_CALL;
    if (device >= emu.devices)
        return EMU_NO_DEVICE;
    relaxed = true;
    current = device;
    return 0;
}

void
vae_rt_leave(const VaeRtCaller *caller)
{
    relaxed = caller->mode;
    current = (int) ((char *) caller->context - contexts);
}

int
emu_current(void)
{
    return current;
}

void
emu_use(int device)
{
    current = device;
}

bool
emu_is_relaxed(void)
{
    return relaxed;
}

void
emu_begin_foreign(void)
{
    EMU_LOCKED;
    emu.foreign = true;
    emu.disturbed = false;
}

bool
emu_end_foreign(void)
{
    EMU_LOCKED;
    emu.foreign = false;
    return !emu.disturbed;
}

int
emu_unsafe(void)
{
    EMU_LOCKED;
    if (!emu.foreign || relaxed)
        return 0;
    emu.disturbed = true;
    return EMU_UNSAFE;
}

void
emu_same_device(int device, const char *what)
{
    if (device == current)
        return;
    fprintf(stderr, "%s of device %d while the thread uses device %d\n", what,
            device, current);
    abort();
}

int
vae_rt_memory_left(uint64_t *bytes)
{
    EMU_CALL;
    if (emu_broken())
        return EMU_BROKEN;
    const uint64_t used = emu_memory_used();
    *bytes = used < emu_memory() ? emu_memory() - used : 0;
    return 0;
}

/* ------------------------------------------------------------------ */
/* Ranges.                                                             */

void
vae_rt_range_begin(const char *name)
{
    EMU_LOCKED;
    emu.ranges_open++;
    emu.ranges += emu.range && strcmp(name, emu.range) == 0;
}

void
vae_rt_range_end(void)
{
    EMU_LOCKED;
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
