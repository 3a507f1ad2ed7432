/*
 * library_memory.c: an estimate of the memory that oneDNN keeps for itself:
 * code and tables of each primitive. oneDNN does not report it. Equal
 * primitives exist once, also across programs.
 */
#include <string.h>

#include "conv.h"

/* The largest result in pixels for each column; the last column has no limit.
 */
static const int columns[] = {256, 4096, 65536};
enum { COLUMNS = sizeof columns / sizeof *columns + 1 };

/*
 * Mean growth of the process in KiB when a primitive is created: generated code
 * and blocks of malloc(), as build/tests/bench/bench-library reports it.
 * Measured over all convolutions and attentions (with their products, softmax
 * and reorders) of Wan2.1, Wan2.2, SeedVR2, taew2_1 and taew2_2, both
 * directions and precisions, at 48x32, 208x128, 416x240, 832x480 and 1280x720,
 * and some with a lower DNNL_MAX_CPU_ISA; oneDNN 2.6.3 on an Intel Xeon with
 * AMX. A single convolution of brgconv on AMX takes between 45 KiB and 17 MiB.
 * The primitives of the four phases of an upsampled picture are smaller; they
 * were measured when decoding with Wan2.1, Wan2.2, taew2_1 and taew2_2.
 */
static const struct Kind {
    const char *impl; /* name prefix; the first match counts */
    int kib[COLUMNS];
    bool phase;
} kinds[] = {
    {"brgconv:avx512_core_amx", {170, 975, 1480, 600}, .phase = true},
    {"brgconv:avx512_core_amx", {270, 1380, 2820, 650}},
    {"brgconv:", {100, 160, 325, 730}},
    {"brg:avx512_core_amx", {180, 550, 3030, 3030}},
    {"brg:", {200, 200, 200, 200}},
    {"", {50, 50, 50, 50}},
};

/* Bytes of the library's own file that making and running primitives touch. */
#define PAGES ((size_t) 4 << 20)

static size_t
bytes_of(const VaeExec *exec, int i)
{
    const VaeOp *op = &exec->program->ops[i];
    const bool up = op->kind == VAE_OP_CONV && op->conv.up;
    /* Upsampling has a primitive for each phase, over the small picture.
     * Winograd has one for a chunk of tiles. */
    VaeShape y = up ? op->x->shape : op->y->shape;
    const struct Kind *kind = kinds;
    int column = 0;
    if (op->kind == VAE_OP_CONV && op->conv.winograd) {
        const VaeCpuChunk chunk = vae_cpu_chunk(op);
        y.h = chunk.h;
        y.w = chunk.w;
    }
    while ((kind->phase && !up) ||
           strncmp(exec->ops[i].impl, kind->impl, strlen(kind->impl)) != 0)
        kind++;
    while (column < COLUMNS - 1 && y.h * y.w > columns[column])
        column++;
    return ((size_t) kind->kib[column] << 10) * (up ? 4 : 1);
}

/* Compares all but the frames: a primitive does not know their number. */
static bool
same_tensor(const VaeTensor *a, const VaeTensor *b)
{
    if (!a || !b)
        return a == b;
    return a->type == b->type && a->shape.h == b->shape.h &&
           a->shape.w == b->shape.w && a->shape.c == b->shape.c;
}

/* Frames of one primitive: those of a step for Winograd, else one. */
static int
frames(const VaeExec *exec, const VaeOp *op)
{
    return op->kind == VAE_OP_CONV && op->conv.winograd
               ? op->y->shape.t / exec->program->steps
               : 1;
}

/* True when the same primitives compute both. */
static bool
same(const VaeOp *a, const VaeOp *b)
{
    if (a->kind != b->kind || !same_tensor(a->x, b->x) ||
        !same_tensor(a->y, b->y))
        return false;
    if (a->kind != VAE_OP_CONV)
        return true;
    return a->conv.k == b->conv.k && a->conv.kt == b->conv.kt &&
           a->conv.s == b->conv.s && a->conv.pad == b->conv.pad &&
           a->conv.relu == b->conv.relu && a->conv.up == b->conv.up &&
           a->conv.winograd == b->conv.winograd && !a->bias == !b->bias &&
           same_tensor(a->add, b->add) &&
           (!a->add ||
            (a->add->root == a->y->root) == (b->add->root == b->y->root));
}

static bool
is_first(VaeExec *const *execs, int e, int i)
{
    const VaeOp *op = &execs[e]->program->ops[i];
    for (int d = 0; d <= e; d++) {
        const int n = !execs[d] ? 0 : d < e ? execs[d]->program->n_ops : i;
        for (int j = 0; j < n; j++) {
            const VaeOp *other = &execs[d]->program->ops[j];
            if (same(other, op) &&
                frames(execs[d], other) == frames(execs[e], op))
                return false;
        }
    }
    return true;
}

size_t
vae_cpu_library(VaeExec *const *execs, int n)
{
    size_t bytes = 0;
    for (int e = 0; e < n; e++)
        for (int i = 0; execs[e] && i < execs[e]->program->n_ops; i++) {
            const VaeOpKind kind = execs[e]->program->ops[i].kind;
            if ((kind == VAE_OP_CONV || kind == VAE_OP_ATTENTION) &&
                is_first(execs, e, i))
                bytes += bytes_of(execs[e], i);
        }
    return bytes ? PAGES + bytes : 0;
}
