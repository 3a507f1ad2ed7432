/*
 * programs.c: the recorded programs of a stream, beside what they should hold.
 */
#include <stdio.h>

#include "gpu.h"
#include "graph.h"
#include "stream.h"

/* Copies between the context of t and the op's carry. */
static int
context_copies(const VaeOp *op, const VaeTensor *t)
{
    const size_t frame = vae_frame_bytes(t);
    return frame == vae_carry_frame(op->carry) && frame == vae_frame_stride(t)
               ? 1
               : op->carry->frames;
}

/* Copies that op i of a recorded program should make: those of carries, and
 * those of rows for bands. */
static int
copies_of(const VaeCudaExec *e, int i)
{
    const VaeOp *op = &e->exec.program->ops[i];
    const VaeCudaParts *p = &e->ops[i].conv;
    switch (op->kind) {
    case VAE_OP_HEAD_REPEAT:
        return op->x->ctx;
    case VAE_OP_TAIL:
    case VAE_OP_HEAD_CARRY:
        return context_copies(op, op->x);
    case VAE_OP_NORM:
        return op->norm.fills_context ? context_copies(op, op->y) : 0;
    case VAE_OP_CONV:
        return p->gathered ? p->n * p->bands * p->phases * op->conv.kt : 0;
    case VAE_OP_FETCH:
    case VAE_OP_STORE:
        return 1;
    default:
        return 0;
    }
}

void
graph_tell_programs(const VaeStream *stream)
{
    const char *before = "";
    printf("[");
    for (int i = 0; i < PROGRAMS; i++) {
        const VaeProgram *p = stream->main.programs[i];
        if (!p)
            continue;
        const VaeCudaExec *e = vae_cuda_exec(stream->main.execs[i]);
        int convs = 0, copies = 0;
        for (int k = 1; k < p->n_ops - 1; k++) {
            convs += p->ops[k].kind == VAE_OP_CONV;
            copies += copies_of(e, k);
        }
        printf("%s{\"program\": \"%s\", \"convs\": %d, \"copies\": %d, "
               "\"graph\": ",
               before, p->label, convs, copies);
        graph_tell(e->graph);
        printf("}");
        before = ",\n  ";
    }
    printf("]");
}
