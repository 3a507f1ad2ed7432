/*
 * emu_faults.c: faults of the emulated device that a test sets.
 */
#include <assert.h>
#include <string.h>

#include "emu_state.h"

typedef struct Pair {
    const void *from, *to;
} Pair;

static struct {
    int allocs, refused;
    int taken_at;
    uint64_t taken;
    int work, broken_at;
    bool broken;
    int asked, refused_at;
    int called_at;
    void (*call)(void *user);
    void *user;
    EmuFault fault;
    int at, done;
    int counts[EMU_FAULT_STREAM_WAITS + 1];
    Pair pairs[4096];
    int n_pairs;
} state;

int
emu_fail_alloc(int n)
{
    const int before = state.allocs;
    state.allocs = 0;
    state.refused = n;
    return before;
}

void
emu_take_memory(int n, uint64_t bytes)
{
    state.allocs = 0;
    state.taken_at = n;
    state.taken = bytes;
}

bool
emu_count_alloc(void)
{
    if (state.taken_at && state.allocs + 1 == state.taken_at)
        emu_set_others(state.taken);
    return ++state.allocs != state.refused;
}

int
emu_fail_work(int n)
{
    const int before = state.work;
    state.work = 0;
    state.broken_at = n;
    state.broken = false;
    return before;
}

void
emu_at_work(int n, void (*call)(void *user), void *user)
{
    state.work = 0;
    state.called_at = n;
    state.call = call;
    state.user = user;
}

int
emu_refuse_call(int n)
{
    const int before = state.asked;
    state.asked = 0;
    state.refused_at = n;
    return before;
}

bool
emu_refuses(void)
{
    EMU_LOCKED;
    return ++state.asked == state.refused_at;
}

int
emu_count_work(void)
{
    if (++state.work == state.called_at) {
        state.called_at = 0;
        state.call(state.user);
    }
    if (state.broken_at && state.work >= state.broken_at)
        state.broken = true;
    return emu_broken();
}

int
emu_broken(void)
{
    return state.broken ? EMU_BROKEN : 0;
}

void
emu_set_fault(EmuFault kind, int n)
{
    state.fault = kind;
    state.at = n;
    state.done = kind == EMU_FAULT_NONE ? state.done : 0;
    state.n_pairs = 0;
    memset(state.counts, 0, sizeof state.counts);
}

/* True if it is a copy within the device. */
static bool
is_copy(EmuFault kind)
{
    return kind >= EMU_FAULT_NO_COPY && kind <= EMU_FAULT_TO;
}

int
emu_fault_count(EmuFault kind)
{
    return is_copy(kind) ? state.n_pairs : state.counts[kind];
}

int
emu_fault_done(void)
{
    return state.done;
}

void
emu_fault_struck(void)
{
    state.done++;
}

bool
emu_strikes(EmuFault kind)
{
    const int n = state.counts[kind];
    const bool hit =
        state.fault == kind &&
        (n == state.at || (n > state.at && kind >= EMU_FAULT_CAPTURES));
    state.counts[kind]++;
    state.done += hit && kind != EMU_FAULT_UPLOAD; /* an upload counts later */
    return hit;
}

static int
find_pair(const void *from, const void *to)
{
    for (int i = 0; i < state.n_pairs; i++)
        if (state.pairs[i].from == from && state.pairs[i].to == to)
            return i;
    assert(state.n_pairs < 4096);
    state.pairs[state.n_pairs] = (Pair){from, to};
    return state.n_pairs++;
}

EmuFault
emu_copy_fault(const void *from, const void *to)
{
    return is_copy(state.fault) && find_pair(from, to) == state.at
               ? state.fault
               : EMU_FAULT_NONE;
}
