/*
 * addresses.c: the addresses that the convolutions of an op read and write.
 */
#include "gpu.h"

/* The first result of convolution i of the parts. */
static int
first_frame(const VaeCudaParts *p, int i)
{
    return i / p->phases / p->bands * p->t;
}

uint8_t *
vae_cuda_part_of(const VaeCudaOp *own, const VaeOp *op, const VaeTensor *t,
                 int i)
{
    const VaeCudaParts *p = &own->conv;
    const VaeExec *e = &own->exec->exec;
    const VaeCudaBand band = vae_cuda_band(p, i);
    const int row = op->conv.up ? 2 * band.y : band.y;
    return vae_exec_body(e, t) +
           (size_t) first_frame(p, i) * vae_frame_stride(t) +
           (size_t) row * vae_row_bytes(t);
}

/* How many frames of the input of convolution i are in op's carry. */
static int
past_of(const VaeCudaOp *own, const VaeOp *op, int i)
{
    const int frames = op->carry ? op->carry->frames : 0;
    const int before = first_frame(&own->conv, i) * op->conv.st;
    return frames > before ? frames - before : 0;
}

const uint8_t *
vae_cuda_input_of(const VaeCudaOp *own, const VaeOp *op, int i, int f)
{
    const VaeTensor *x = op->x;
    const VaeExec *e = &own->exec->exec;
    const int past = op->carry ? op->carry->frames : 0;
    const int frame = first_frame(&own->conv, i) * op->conv.st + f;
    const uint8_t *at = op->carry && frame < past
                            ? vae_exec_carry(e, op) +
                                  (size_t) frame * vae_carry_frame(op->carry)
                            : vae_exec_conv_input(e, op) +
                                  (size_t) (frame - past) * vae_frame_stride(x);
    return at + (size_t) vae_cuda_band(&own->conv, i).x * vae_row_bytes(x);
}

/* What convolutions read of norm k of the program; -1: none. */
static VaeNormArgs
norm_of(const VaeCudaExec *e, int k)
{
    if (k < 0)
        return (VaeNormArgs){0};
    const VaeOp *norm = &e->exec.program->ops[k];
    return (VaeNormArgs){.gain = e->exec.ops[k].weight,
                         .offset = e->exec.ops[k].bias,
                         .eps = norm->norm.eps,
                         .silu = norm->norm.silu,
                         .c = norm->x->shape.c};
}

VaeCudaConvArgs
vae_cuda_conv_args(const VaeCudaExec *cuda_exec, int op_index, int i)
{
    const VaeExec *e = &cuda_exec->exec;
    const VaeOp *op = &e->program->ops[op_index];
    const VaeExecOp *shared = &e->ops[op_index];
    const VaeCudaOp *own = &cuda_exec->ops[op_index];
    const VaeCudaParts *p = &own->conv;
    const int past = p->gathered ? 0 : past_of(own, op, i);
    const int after = vae_norm_behind(e->program, op_index);
    VaeCudaConvArgs args = {
        .y = op->y->hidden ? NULL : vae_cuda_part_of(own, op, op->y, i),
        .norm = norm_of(cuda_exec, after),
        .front = norm_of(cuda_exec, vae_norm_in_front(e->program, op_index)),
        .wide = op->conv.wide,
        .x = vae_cuda_input_of(own, op, i, past),
        .past = past ? vae_cuda_input_of(own, op, i, 0) : NULL,
        .past_frames = past,
        .normed_frames = past_of(own, op, i),
        .add = op->add ? vae_cuda_part_of(own, op, op->add, i) : NULL,
        .weight = shared->weight,
        .bias = shared->bias,
        .workspace = e->memory.scratch};
    const size_t phase = (size_t) (i % p->phases);
    if (after >= 0)
        args.norm.y = vae_cuda_part_of(own, op, e->program->ops[after].y, i);
    if (p->gathered)
        args.x = e->memory.scratch + own->gathered;
    if (p->phase) {
        args.y = e->memory.scratch + own->phases + phase * p->phase;
        args.add = op->add ? args.y : NULL;
    }
    if (op->conv.up) {
        args.joined = p->joined;
        args.phase_weights = vae_cuda_phase_room(op);
        args.row = vae_phase((int) phase).row;
        args.column = vae_phase((int) phase).column;
        args.weight =
            (const uint8_t *) shared->weight +
            phase * vae_cuda_phase_room(op) * vae_type_size(op->x->type);
    }
    return args;
}
