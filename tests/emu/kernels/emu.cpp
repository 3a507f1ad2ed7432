/*
 * emu.cpp: see emu.h.
 *
 * The threads of a block run one after another, in the order of the launch. A
 * thread that waits or returns switches to the next one that can run, and after
 * the last one to the scheduler, which begins with the first again. If no
 * thread can run, the block is stuck, and the error lists what its threads wait
 * for.
 */
#include "emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define EMU_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define EMU_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define EMU_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define EMU_TSAN 0
#endif

/* The fast switch of contexts is for x86-64. Other processors and
 * ThreadSanitizer use the contexts of the C library. */
#if defined(__x86_64__) && !EMU_TSAN && !defined(VAE_EMU_UCONTEXT)
#define EMU_ASM 1
#else
#define EMU_ASM 0
#endif

namespace
{

enum { MAPPED = 256 << 10, GUARD = 64, GUARD_BYTE = 0x5a, LANES = 32 };
/* More than the stack frames of fiber_main() and its caller take. */
enum { BASE = 4 << 10 };
/* Stacks begin at different places of a page and in different pages, or they
 * would share a few sets of the caches. */
enum { COLOURS = 61, COLOUR = 1 << 10 | 64 };
enum { LIMIT_BLOCK = 1024, LIMIT_YZ = 65535 };
/* The largest shared memory of a block on sm_75, on later devices (the least of
 * them: sm_86, 89 and 120), and on sm_90. Kernels that also run on the smaller
 * ones must check their limit when they are compiled. */
enum { LIMIT_SMEM_75 = 64 << 10, LIMIT_SMEM = 99 << 10 };
enum { LIMIT_SMEM_90 = 227 << 10 };

enum State { RUNNABLE, AT_BARRIER, AT_WARP, RETURNED };

struct Context {
#if EMU_ASM
    void *sp;
#else
    ucontext_t u;
#endif
    void *fake;        /* fake stack of AddressSanitizer */
    const void *stack; /* lowest address of the stack */
    size_t size;
    void *tsan;
};

/* A copy that has not ended. Groups are numbered; the group of the latest
 * copies is open. */
struct Copy {
    void *to;
    unsigned group;
    uint8_t data[16];
};

struct Fiber {
    Context context = {};
    VaeEmuPlace place = {};
    State state = RUNNABLE;
    const char *where = nullptr;
    uint8_t *stack = nullptr;
    size_t size = 0;
    std::vector<Copy> copies = {};
    unsigned group = 0; /* number of the open group */
};

/* The state of a warp function. A warp has two, because some lanes may enter
 * the next function while others leave this one. */
struct Exchange {
    const char *where;
    unsigned arrived, bytes;
    alignas(16) uint8_t data[LANES * 64];
    alignas(16) uint8_t result[1024];
};

struct Warp {
    Exchange exchange[2];
    unsigned turn;
};

struct Block {
    const VaeEmuLaunch *launch;
    Context scheduler;
    std::vector<Fiber *> fibers;
    std::vector<Warp> warps;
    uint8_t *memory, *shared;
    unsigned at_barrier;
    const char *barrier;
    Fiber *now;
    const std::vector<unsigned> *order;
    size_t next; /* the first thread in the order that has no turn yet */
    size_t returned;
};

__thread Block *block;
VaeEmuSubmit submit_hook;
VaeEmuLook look_hook;
VaeEmuInterpreter interpreter;
int capability = 90;
std::mutex lock; /* for one launch at a time, and for their counter */
uint64_t launches;
/* Fibers are kept for later launches. The list is never destroyed, so it is no
 * leak. */
std::vector<Fiber *> &pool = *new std::vector<Fiber *>;

/* ------------------------------------------------------ switching */

#if EMU_ASM
extern "C" void vae_emu_switch(void **save, void *to);
asm(".text\n"
    ".globl vae_emu_switch\n"
    ".hidden vae_emu_switch\n"
    ".type vae_emu_switch, @function\n"
    "vae_emu_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size vae_emu_switch, .-vae_emu_switch\n");
#endif

/* last: the context `from` will not be entered again. */
void
switch_to(Context *from, Context *to, bool last)
{
    (void) last;
#if EMU_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake, to->stack,
                                   to->size);
#endif
#if EMU_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#if EMU_ASM
    vae_emu_switch(&from->sp, to->sp);
#else
    swapcontext(&from->u, &to->u);
#endif
#if EMU_ASAN
    __sanitizer_finish_switch_fiber(from->fake, nullptr, nullptr);
#endif
}

/* Places are literals, which several objects may have. */
bool
same_place(const char *a, const char *b)
{
    return a == b || !strcmp(a, b);
}

/* Switches to the next thread that can run. Returns false if this round has no
 * more. */
bool
run_next(Block *b, Context *from, bool last)
{
    while (b->next < b->fibers.size()) {
        Fiber *f = b->fibers[(*b->order)[b->next++]];
        if (f->state == RUNNABLE) {
            b->now = f;
            vae_emu_place = &f->place;
            switch_to(from, &f->context, last);
            return true;
        }
    }
    return false;
}

/* Leaves a thread. last: it will not be entered again. */
void
leave(Context *from, bool last)
{
    if (!run_next(block, from, last))
        switch_to(from, &block->scheduler, last);
}

void
wait_here(State state, const char *where)
{
    Fiber *f = block->now;
    f->state = state;
    f->where = where;
    leave(&f->context, false);
}

void
fiber_main(void)
{
    Fiber *f = block->now;
#if EMU_ASAN
    const void *stack;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &stack, &size);
    if (!block->scheduler.stack) { /* which enters the first thread */
        block->scheduler.stack = stack;
        block->scheduler.size = size;
    }
#endif
    block->launch->kernel();
    if (!f->copies.empty())
        vae_emu_fail("returns before its copies are waited for");
    f->state = RETURNED;
    block->returned++;
    leave(&f->context, true);
    abort();
}

void
fiber_begin(Fiber *f)
{
    f->state = RUNNABLE;
    f->group = 0;
    f->context.stack = f->stack;
    f->context.size = f->size;
    f->context.fake = nullptr;
#if EMU_ASAN
    /* Only the frame of fiber_main() did not return, and is still poisoned. */
    ASAN_UNPOISON_MEMORY_REGION(f->stack + f->size - BASE, BASE);
#endif
#if EMU_TSAN
    f->context.tsan = __tsan_create_fiber(0);
#endif
#if EMU_ASM
    void **sp = reinterpret_cast<void **>(f->stack + f->size);
    *--sp = nullptr; /* as if fiber_main had been called */
    *--sp = reinterpret_cast<void *>(fiber_main);
    sp -= 6; /* the saved registers */
    std::fill(sp, sp + 6, nullptr);
    f->context.sp = sp;
#else
    getcontext(&f->context.u);
    f->context.u.uc_stack.ss_sp = f->stack;
    f->context.u.uc_stack.ss_size = f->size;
    f->context.u.uc_link = nullptr;
    makecontext(&f->context.u, fiber_main, 0);
#endif
}

Fiber *
fiber_new(void)
{
    Fiber *f = new Fiber();
    void *p = mmap(nullptr, MAPPED, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        vae_emu_fail("no memory for stacks");
    f->stack = static_cast<uint8_t *>(p);
    f->size = MAPPED - pool.size() % COLOURS * COLOUR;
    return f;
}

/* ----------------------------------------------------- one block */

void
describe(const Fiber *f)
{
    static const char *const words[] = {"runs", "waits at the barrier",
                                        "waits for its warp", "has returned"};
    fprintf(stderr, "  thread %u %s%s%s\n", f->place.thread.x, words[f->state],
            f->state == RETURNED ? "" : " at ",
            f->state == RETURNED ? "" : f->where);
}

/* No thread can continue. Prints what the threads wait for, one line for each
 * kind. */
[[noreturn]] void
stuck(Block *b)
{
    std::vector<const Fiber *> said;
    for (const Fiber *f : b->fibers) {
        const auto same = [f](const Fiber *o) {
            return o->state == f->state &&
                   (f->state == RETURNED || o->where == f->where);
        };
        if (std::none_of(said.begin(), said.end(), same)) {
            said.push_back(f);
            describe(f);
        }
    }
    b->now = b->fibers[0];
    vae_emu_fail("threads wait for others that do not come");
}

void
run_fibers(Block *b, const std::vector<unsigned> &order)
{
    b->order = &order;
    b->returned = 0;
    while (b->returned < b->fibers.size()) {
        b->next = 0;
        if (!run_next(b, &b->scheduler, false))
            stuck(b);
    }
#if EMU_TSAN
    for (const Fiber *f : b->fibers)
        __tsan_destroy_fiber(f->context.tsan);
#endif
}

/* Allocates the block's shared memory between two guards. */
void
take_memory(Block *b)
{
    const size_t smem = b->launch->smem;
    b->memory = static_cast<uint8_t *>(malloc(smem + 2 * GUARD));
    if (!b->memory)
        vae_emu_fail("no memory");
    b->shared = b->memory + GUARD;
    memset(b->memory, GUARD_BYTE, smem + 2 * GUARD);
#if EMU_ASAN
    ASAN_POISON_MEMORY_REGION(b->memory, GUARD);
    ASAN_POISON_MEMORY_REGION(b->shared + smem, GUARD);
#endif
}

void
check_guards(const Block *b)
{
    const size_t smem = b->launch->smem;
    for (size_t i = 0; !EMU_ASAN && i < GUARD; i++)
        if (b->memory[i] != GUARD_BYTE || b->shared[smem + i] != GUARD_BYTE)
            vae_emu_fail("shared memory was written outside its %zu bytes",
                         smem);
}

void
run_block(Block *b, dim3 at, const std::vector<unsigned> &order)
{
    const VaeEmuLaunch *l = b->launch;
    memset(b->shared, 0xff, l->smem);
    for (unsigned i = 0; i < l->block; i++) {
        Fiber *f = b->fibers[i];
        f->place = VaeEmuPlace{l->grid, dim3(l->block), at, dim3(i, 0, 0)};
        fiber_begin(f);
    }
    run_fibers(b, order);
    check_guards(b);
}

/* Returns 0..n-1 in ascending, descending or random order. */
std::vector<unsigned>
make_order(size_t n, uint64_t turn)
{
    std::vector<unsigned> order(n);
    std::iota(order.begin(), order.end(), 0u);
    if (turn % 3 == 1)
        std::reverse(order.begin(), order.end());
    uint64_t state = turn;
    for (size_t i = n; turn % 3 == 2 && i > 1; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::swap(order[i - 1], order[(state >> 33) % i]);
    }
    return order;
}

void
check_limits(const VaeEmuLaunch &l)
{
    const uint64_t blocks = (uint64_t) l.grid.x * l.grid.y * l.grid.z;
    const size_t most = capability < 80    ? (size_t) LIMIT_SMEM_75
                        : capability == 90 ? (size_t) LIMIT_SMEM_90
                                           : (size_t) LIMIT_SMEM;
    if (!blocks || l.grid.x > 0x7fffffffu || l.grid.y > LIMIT_YZ ||
        l.grid.z > LIMIT_YZ || !l.block || l.block > LIMIT_BLOCK ||
        l.block % LANES || l.smem > most) {
        fprintf(stderr,
                "emu: %s: a grid of %u x %u x %u blocks of %u threads "
                "with %zu bytes\n",
                l.name, l.grid.x, l.grid.y, l.grid.z, l.block, l.smem);
        abort();
    }
}

void
run_launch(const VaeEmuLaunch &l)
{
    const std::lock_guard<std::mutex> guard(lock);
    check_limits(l);
    if (interpreter && interpreter(l))
        return;
    Block b = {};
    block = &b;
    b.launch = &l;
#if EMU_TSAN
    b.scheduler.tsan = __tsan_get_current_fiber();
#endif
    take_memory(&b);
    while (pool.size() < l.block)
        pool.push_back(fiber_new());
    b.fibers.assign(pool.begin(), pool.begin() + l.block);
    b.warps.resize(l.block / LANES);
    const uint64_t turn = launches++;
    const std::vector<unsigned> order = make_order(l.block, turn);
    const size_t plane = (size_t) l.grid.x * l.grid.y;
    for (const unsigned i : make_order(plane * l.grid.z, turn))
        run_block(
            &b,
            dim3(i % l.grid.x, i / l.grid.x % l.grid.y, (unsigned) (i / plane)),
            order);
#if EMU_ASAN
    ASAN_UNPOISON_MEMORY_REGION(b.memory, l.smem + 2 * GUARD);
#endif
    free(b.memory);
    block = nullptr;
    vae_emu_place = nullptr;
}

void
run_task(void *task)
{
    VaeEmuLaunch *l = static_cast<VaeEmuLaunch *>(task);
    run_launch(*l);
    delete l;
}

} // namespace

/* ------------------------------------------------------- outside */

__thread const VaeEmuPlace *vae_emu_place;

void
vae_emu_set_submit(VaeEmuSubmit submit)
{
    submit_hook = submit;
}

void
vae_emu_set_capability(int c)
{
    capability = c;
}

void
vae_emu_set_look(VaeEmuLook look)
{
    look_hook = look;
}

void
vae_emu_set_interpreter(VaeEmuInterpreter run)
{
    interpreter = run;
}

int
vae_launch_capability(void)
{
    return capability;
}

void
vae_emu_submit(void *stream, const VaeEmuLaunch &launch)
{
    if (look_hook)
        look_hook(launch.entry, launch.name);
    else if (submit_hook)
        submit_hook(stream, run_task, new VaeEmuLaunch(launch));
    else
        run_launch(launch);
}

void
vae_emu_fail(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "emu: ");
    if (block && block->now) {
        const VaeEmuPlace &p = block->now->place;
        fprintf(stderr, "launch at %s, block %u %u %u, thread %u: ",
                block->launch->name, p.block_at.x, p.block_at.y, p.block_at.z,
                p.thread.x);
    }
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void *
vae_emu_shared(void)
{
    return block->shared;
}

unsigned
vae_emu_lane(void)
{
    return vae_emu_place->thread.x % LANES;
}

void
vae_emu_barrier(const char *where)
{
    Block *b = block;
    if (!b->at_barrier)
        b->barrier = where;
    else if (!same_place(b->barrier, where))
        vae_emu_fail("is at the barrier %s while others are at %s", where,
                     b->barrier);
    if (++b->at_barrier < b->fibers.size()) {
        wait_here(AT_BARRIER, where);
        return;
    }
    b->at_barrier = 0;
    for (Fiber *f : b->fibers)
        f->state = RUNNABLE;
    wait_here(RUNNABLE, where); /* the last thread also waits for its turn */
}

/* Passes on the data of one lane. The last lane to arrive runs combine, if
 * there is one. */
static const Exchange &
exchange(const char *where, unsigned mask, const void *mine, size_t bytes,
         VaeEmuCombine combine)
{
    Block *b = block;
    const unsigned lane = vae_emu_lane();
    const unsigned first = vae_emu_place->thread.x - lane;
    Warp &w = b->warps[first / LANES];
    Exchange &e = w.exchange[w.turn % 2];
    if (mask != ~0u || bytes > 64)
        vae_emu_fail("%s: mask %08x, %zu bytes", where, mask, bytes);
    if (!e.arrived) {
        e.where = where;
        e.bytes = (unsigned) bytes;
    } else if (!same_place(e.where, where) || e.bytes != bytes) {
        vae_emu_fail("is at %s while its warp is at %s", where, e.where);
    }
    memcpy(e.data + lane * bytes, mine, bytes);
    if (++e.arrived < LANES) {
        wait_here(AT_WARP, where);
        return e;
    }
    if (combine)
        combine(e.data, e.result);
    e.arrived = 0;
    w.turn++;
    for (unsigned i = first; i < first + LANES; i++)
        b->fibers[i]->state = RUNNABLE;
    wait_here(RUNNABLE, where);
    return e;
}

const void *
vae_emu_exchange(const char *where, unsigned mask, const void *mine,
                 size_t bytes)
{
    return exchange(where, mask, mine, bytes, nullptr).data;
}

const void *
vae_emu_combine(const char *where, const void *mine, size_t bytes,
                VaeEmuCombine combine)
{
    return exchange(where, ~0u, mine, bytes, combine).result;
}

/* --------------------------------------------------------- memory */

static void
aligned(const void *p)
{
    if ((uintptr_t) p % 16)
        vae_emu_fail("16 bytes at %p", p);
}

void
vae_emu_load16(void *to, const void *p)
{
    aligned(p);
    memcpy(to, p, 16);
}

void
vae_emu_store16(void *p, const void *from)
{
    aligned(p);
    memcpy(p, from, 16);
}

void
vae_emu_copy_async(void *to, const void *from, bool zero)
{
    Fiber *f = block->now;
    Copy c = {to, f->group, {0}};
    aligned(to);
    if (!zero)
        vae_emu_load16(c.data, from);
    memset(to, 0xff, 16);
    f->copies.push_back(c);
}

void
vae_emu_copy_commit(void)
{
    block->now->group++;
}

void
vae_emu_copy_wait(unsigned groups_left)
{
    Fiber *f = block->now;
    size_t later = 0;
    for (const Copy &c : f->copies)
        if (c.group + groups_left < f->group)
            memcpy(c.to, c.data, 16);
        else
            f->copies[later++] = c;
    f->copies.resize(later);
}
