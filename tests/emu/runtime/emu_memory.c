/*
 * emu_memory.c: memory of the emulated device, pinned memory, and copies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu_state.h"
#include "interpreter.h"

enum { POISON = 0xff };

typedef struct Block {
    struct Block *next;
    size_t bytes;
    bool device;
    int number; /* number of the device */
    bool kept;  /* not freed */
    uint8_t *data;
} Block;

static Block *blocks;
static uint64_t granularity = 1;

void
emu_set_granularity(uint64_t bytes)
{
    granularity = bytes;
}

/* Returns the bytes that the device needs for a block. */
static uint64_t
rounded(uint64_t bytes)
{
    return (bytes + granularity - 1) / granularity * granularity;
}

int
emu_blocks_alive(void)
{
    EMU_LOCKED;
    int n = 0;
    for (const Block *b = blocks; b; b = b->next)
        n++;
    return n;
}

uint64_t
emu_memory_used(void)
{
    EMU_LOCKED;
    uint64_t used = 0;
    for (const Block *b = blocks; b; b = b->next)
        used += b->device ? rounded(b->bytes) : 0;
    return used;
}

/* An interpreter of PTX gets each launch as a case, because it need not run all
 * kernels of a program. */
static const char *
name_of_launch(void *user)
{
    static char name[32];
    static int launches;
    snprintf(name, sizeof name, "launch %d", ++launches);
    return name;
}

static bool
find_buffer(void *user, size_t i, const void **data, size_t *bytes)
{
    const Block *b = blocks;
    while (b && (!b->device || i--))
        b = b->next;
    if (!b)
        return false;
    *data = b->data;
    *bytes = b->bytes;
    return true;
}

/* Sets b->data to memory that an interpreter of PTX sees, if there is one. */
static void
take_data(Block *b, size_t whole)
{
    static bool asked, interpreted;
    if (!asked)
        interpreted = vae_emu_interpreter_open(
            &(VaeInterpreted){name_of_launch, find_buffer, NULL});
    asked = true;
    b->kept = interpreted && b->device;
    b->data = emu_must(b->kept ? vae_emu_interpreter_alloc(whole)
                               : aligned_alloc(256, whole));
    memset(b->data, POISON, whole);
}

static int
take(void **out, size_t bytes, bool device)
{
    EMU_LOCKED;
    *out = NULL;
    emu_no_capture("an allocation");
    EMU_CALL;
    const int unsafe = emu_unsafe();
    if (unsafe)
        return unsafe;
    if (emu_strikes(EMU_FAULT_ALLOC))
        return EMU_REFUSED;
    if (!emu_count_alloc() ||
        (device && emu_memory_used() + rounded(bytes) > emu_memory()))
        return EMU_OUT_OF_MEMORY;
    Block *b = emu_must(calloc(1, sizeof *b));
    b->bytes = bytes;
    b->device = device;
    take_data(b, (bytes + 255) / 256 * 256 + 256);
    b->number = emu_current();
    b->next = blocks;
    blocks = b;
    *out = b->data;
    return 0;
}

/* Waits for all work, as cudaFree() does. */
static void
free_block(void *data)
{
    EMU_LOCKED;
    if (!data)
        return;
    emu_no_capture("freeing memory");
    emu_unsafe();
    emu_force_all();
    Block **at = &blocks;
    while (*at && (*at)->data != data)
        at = &(*at)->next;
    Block *b = emu_must(*at);
    if (b->device)
        emu_same_device(b->number, "memory");
    *at = b->next;
    if (!b->kept)
        free(b->data);
    free(b);
}

int
vae_rt_alloc(void **out, size_t bytes)
{
    return emu_broken() ? EMU_BROKEN : take(out, bytes, true);
}

void
vae_rt_free(void *block)
{
    free_block(block);
}

int
vae_rt_alloc_host(void **out, size_t bytes)
{
    return emu_broken() ? EMU_BROKEN : take(out, bytes, false);
}

void
vae_rt_free_host(void *block)
{
    free_block(block);
}

/* Pinned memory of other allocators. */
enum { MOST_PINS = 64 };
typedef struct Pin {
    const uint8_t *data; /* NULL: a free place */
    size_t bytes;
} Pin;
static Pin pins[MOST_PINS];

/* Returns the pin that begins at data. NULL: returns a free place. */
static Pin *
pin_at(const void *data)
{
    for (int i = 0; i < MOST_PINS; i++)
        if (pins[i].data == data)
            return &pins[i];
    return NULL;
}

/* True if a pin or a block of the run time contains one of these bytes. */
static bool
is_taken(const uint8_t *data, size_t bytes)
{
    bool taken = false;
    for (int i = 0; i < MOST_PINS; i++)
        taken |= pins[i].data && data < pins[i].data + pins[i].bytes &&
                 pins[i].data < data + bytes;
    for (const Block *b = blocks; b; b = b->next)
        taken |= data < b->data + b->bytes && b->data < data + bytes;
    return taken;
}

/* As with CUDA, memory cannot be pinned twice, not even a part of it. */
int
vae_rt_pin(void *data, size_t bytes)
{
    EMU_LOCKED;
    emu_no_capture("pinning memory");
    EMU_CALL;
    const int unsafe = emu_unsafe();
    Pin *free = pin_at(NULL);
    if (unsafe || emu_broken())
        return unsafe ? unsafe : EMU_BROKEN;
    if (!free || is_taken(data, bytes))
        return EMU_REFUSED;
    *free = (Pin){data, bytes};
    return 0;
}

/* Waits for all work, because the memory may be freed next. */
void
vae_rt_unpin(void *data)
{
    EMU_LOCKED;
    Pin *pin = pin_at(data);
    emu_no_capture("unpinning memory");
    emu_unsafe();
    emu_force_all();
    if (!data || !pin) {
        fprintf(stderr, "memory that is not pinned is unpinned\n");
        abort();
    }
    *pin = (Pin){0};
}

int
emu_pins(void)
{
    EMU_LOCKED;
    int n = 0;
    for (int i = 0; i < MOST_PINS; i++)
        n += pins[i].data != NULL;
    return n;
}

static const Block *
block_of(const void *p)
{
    const uint8_t *at = p;
    for (const Block *b = blocks; b; b = b->next)
        if (at >= b->data && at < b->data + b->bytes)
            return b;
    return NULL;
}

typedef struct Copy {
    void *to;
    const void *from;
    size_t bytes;
    float ms;
} Copy;

/* Copies within the device have a made-up rate of 100 GB/s, as convolutions
 * have made-up times. Input and output take no time: with one clock for all
 * streams, their time could not be hidden. */
#define MS_PER_BYTE 1e-8f

static void
run_copy(const void *args)
{
    const Copy *c = args;
    memcpy(c->to, c->from, c->bytes);
    emu_take_time(c->ms);
}

/* Returns bytes after those at p, or before them. They are not at the beginning
 * of the block, because there the frames of a first slice are all the same. */
static const void *
beside(const Block *b, const void *p, size_t bytes)
{
    const uint8_t *at = p;
    const size_t start = (size_t) (at - b->data);
    return start + 2 * bytes <= b->bytes ? at + bytes
           : start >= bytes              ? at - bytes
                                         : b->data;
}

/* A copy with a fault. wrong.to NULL: the copy is omitted. */
typedef struct FaultyCopy {
    Copy right, wrong;
} FaultyCopy;

static void
run_faulty(const void *args)
{
    const Copy *right = &((const FaultyCopy *) args)->right;
    const Copy *wrong = &((const FaultyCopy *) args)->wrong;
    /* The bytes that the target gets or keeps instead of the right ones. If
     * they are equal, the fault has no effect here. Bytes that a misplaced copy
     * overwrites do not count, because nothing may read them. */
    const void *instead = wrong->to == right->to ? wrong->from : right->to;
    if (memcmp(instead, right->from, right->bytes) != 0)
        emu_fault_struck();
    if (wrong->to)
        run_copy(wrong);
}

/* Submits the copy with a fault, if a test requests one for this copy.
 * Otherwise returns false. */
static bool
submit_faulty(const Copy *c, const Block *from, const Block *to,
              VaeRtStream stream)
{
    FaultyCopy s = {*c, *c};
    if (!from || !from->device) {
        if (!to || !to->device || !emu_strikes(EMU_FAULT_UPLOAD))
            return false;
        s.wrong.to = NULL;
        emu_submit(stream, run_faulty, &s, sizeof s);
        return true;
    }
    if (!to || !to->device) {
        const bool strikes = emu_strikes(EMU_FAULT_DOWNLOAD);
        if (strikes) /* any contents; not zeros */
            memset(c->to, 0xff, c->bytes);
        return strikes;
    }
    const EmuFault fault = emu_copy_fault(c->from, c->to);
    if (fault == EMU_FAULT_NONE)
        return false;
    if (fault == EMU_FAULT_FROM)
        s.wrong.from = beside(from, c->from, c->bytes);
    else
        s.wrong.to = fault == EMU_FAULT_TO ? to->data : NULL;
    emu_submit(stream, run_faulty, &s, sizeof s);
    return true;
}

/* Ends the process if the target of a copy overlaps its source, which CUDA does
 * not define. */
static void
check_overlap(const Copy *c)
{
    const uint8_t *to = c->to, *from = c->from;
    if (to >= from + c->bytes || from >= to + c->bytes)
        return;
    fprintf(stderr, "a copy of %zu bytes overlaps its source\n", c->bytes);
    abort();
}

/* Returns false if an access begins in the block, or in pinned memory, and ends
 * outside of it. */
static bool
inside(const Block *b, const void *p, size_t bytes)
{
    const uint8_t *at = p;
    bool good = !b || at + bytes <= b->data + b->bytes;
    for (int i = 0; i < MOST_PINS; i++)
        if (pins[i].data && at >= pins[i].data &&
            at < pins[i].data + pins[i].bytes)
            good = at + bytes <= pins[i].data + pins[i].bytes;
    return good;
}

int
vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream)
{
    EMU_LOCKED;
    EMU_CALL;
    Copy c = {dst, src, bytes, 0};
    const Block *from = block_of(src), *to = block_of(dst);
    if (!inside(from, src, bytes) || !inside(to, dst, bytes)) {
        fprintf(stderr, "a copy of %zu bytes leaves its block\n", bytes);
        abort();
    }
    check_overlap(&c);
    if (from && from->device && to && to->device)
        c.ms = (float) bytes * MS_PER_BYTE;
    if (emu_skips() && (!to || !to->device))
        memset(dst, 0, bytes);
    if (!submit_faulty(&c, from, to, stream))
        emu_submit(stream, run_copy, &c, sizeof c);
    return emu_broken();
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
    EMU_LOCKED;
    EMU_CALL;
    const Copy c = {dst, NULL, bytes, 0};
    if (!inside(block_of(dst), dst, bytes)) {
        fprintf(stderr, "a fill of %zu bytes leaves its block\n", bytes);
        abort();
    }
    emu_submit(stream, run_zero, &c, sizeof c);
    return emu_broken();
}

bool
emu_is_copy(void (*run)(const void *args))
{
    return run == run_copy;
}

bool
emu_is_fill(void (*run)(const void *args))
{
    return run == run_zero;
}
