/*
 * receptive_field.c: how many earlier steps a result depends on, and how many
 * later steps depend on an op.
 *
 * The age of a frame of an activation is the oldest step on whose input the
 * frame depends. The current step is 0, the step before is -1. The carry before
 * a tensor has that tensor's frames of earlier steps.
 */
#include <assert.h>

#include "alloc.h"
#include "delay.h"

/* The age of each frame of each tensor, by the tensor's id. */
typedef struct Ages {
    int **oldest;
    int n;
} Ages;

static void
ages_free(Ages *a)
{
    for (int i = 0; a->oldest && i < a->n; i++)
        vae_mem_free(a->oldest[i]);
    vae_mem_free(a->oldest);
}

static bool
ages_make(Ages *a, const VaeProgram *p)
{
    a->n = p->n_tensors;
    a->oldest = vae_mem_alloc((size_t) a->n * sizeof *a->oldest);
    for (int i = 0; a->oldest && i < a->n; i++) {
        const int t = p->tensors[i]->shape.t;
        a->oldest[i] = vae_mem_alloc((size_t) t * sizeof **a->oldest);
        if (!a->oldest[i])
            return false;
    }
    return a->oldest != NULL;
}

/* The age of frame i of x. A negative i is a frame of an earlier step. */
static int
oldest(const Ages *a, const VaeTensor *x, int i)
{
    int steps = 0;
    if (x->view) {
        i += x->from;
        x = x->view;
    }
    while (i < 0) {
        i += x->shape.t - x->lead;
        steps++;
    }
    assert(i < x->shape.t);
    return a->oldest[x->id][i] - steps;
}

/* The number of frames of op->x that frame j of op->y depends on; *first is the
 * first of them. */
static int
span(const VaeOp *op, int j, int *first)
{
    const VaeTensor *x = op->x, *y = op->y;
    switch (op->kind) {
    case VAE_OP_CONV:
        /* The last result reads the last frame of x. */
        *first = x->shape.t - op->conv.kt - (y->shape.t - 1 - j) * op->conv.st;
        return op->conv.kt;
    case VAE_OP_DEPTHWISE:
        *first = j - 1;
        return 2;
    case VAE_OP_ATTENTION:
        if (!op->carry || !op->attention.window)
            break;
        *first = j - op->attention.window + 1;
        return op->attention.window;
    case VAE_OP_WINDOW:
        *first = j;
        return op->window_of.kt;
    case VAE_OP_REARRANGE:
        if (op->rearrange.ft > x->shape.t) /* copies of frame 0 */
            return 1;
        if (vae_rearrange_is_fold(op->rearrange.kind)) {
            *first = j * op->rearrange.ft;
            return op->rearrange.ft;
        }
        *first = (j + op->rearrange.drop) / op->rearrange.ft;
        return 1;
    case VAE_OP_SHORTCUT:
        if (op->shortcut.single) {
            *first = j;
            return 1;
        }
        if (op->shortcut.kind != VAE_SHORTCUT_AVERAGE) {
            *first = (j + op->shortcut.drop) / op->shortcut.ft;
            return 1;
        }
        *first = x->shape.t - (y->shape.t - j) * op->shortcut.ft;
        return op->shortcut.ft;
    default:
        break;
    }
    *first = j;
    return 1;
}

/* True if the op reads all frames of x since the start of the sequence. */
static bool
reads_all(const VaeOp *op)
{
    return op->kind == VAE_OP_ATTENTION && op->carry && !op->attention.window;
}

static void
age_op(Ages *a, const VaeOp *op)
{
    const VaeTensor *y = op->y->view ? op->y->view : op->y;
    const int from = op->y->view ? op->y->from : 0;
    for (int j = 0; j < op->y->shape.t; j++) {
        int age = 0, first = 0;
        const int n = op->x ? span(op, j, &first) : 0;
        if (op->add)
            age = oldest(a, op->add, j);
        for (int i = first; i < first + n; i++) {
            const int one = oldest(a, op->x, i);
            age = one < age ? one : age;
        }
        if (reads_all(op))
            age = -VAE_FROM_START;
        a->oldest[y->id][from + j] = age;
    }
}

/* The number of earlier steps that a result depends on, counted from the step
 * of its own latent. */
static int
age_program(Ages *a, const VaeProgram *p)
{
    int age = 0;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        if (op->y)
            age_op(a, op);
        if (op->kind != VAE_OP_PICTURE_OUT && op->kind != VAE_OP_LATENT_OUT)
            continue;
        for (int j = op->trim; j < op->x->shape.t; j++) {
            int one = oldest(a, op->x, j);
            if (p->delayed) /* a frame is computed later than its latent arrives
                             */
                one += (op->x->delay + op->x->lead - j) / op->x->rate;
            age = one < age ? one : age;
        }
    }
    return -age < VAE_FROM_START ? -age : VAE_FROM_START;
}

/* ------------------------------------------------------------------ */
/* Ranges. `oldest` has the number of later steps that depend on a frame. */

/* The frame i of x, which may be one of an earlier step. */
static int *
later(const Ages *a, const VaeTensor *x, int i, int *steps)
{
    if (x->view) {
        i += x->from;
        x = x->view;
    }
    for (; i < 0; i += x->shape.t)
        ++*steps;
    return &a->oldest[x->id][i];
}

static void
reach(const Ages *a, const VaeTensor *x, int i, int steps)
{
    int *most = later(a, x, i, &steps);
    if (steps > *most)
        *most = steps;
}

/* The later steps that depend on any frame of x. */
static int
reach_of(const Ages *a, const VaeTensor *x)
{
    int most = 0, none = 0;
    for (int i = 0; i < x->shape.t; i++) {
        const int one = *later(a, x, i, &none);
        most = one > most ? one : most;
    }
    return most;
}

/* An op that depends on the result of op depends on its inputs. */
static void
reach_back(const Ages *a, const VaeOp *op)
{
    for (int j = 0; j < op->y->shape.t; j++) {
        int none = 0, first = 0;
        const int steps =
            reads_all(op) ? VAE_FROM_START : *later(a, op->y, j, &none);
        const int n = op->x ? span(op, j, &first) : 0;
        for (int i = first; i < first + n; i++)
            reach(a, op->x, i, steps);
        if (op->add)
            reach(a, op->add, j, steps);
    }
}

bool
vae_program_set_ranges(VaeProgram *p)
{
    Ages a = {0};
    if (p->delayed)
        return true;
    const bool made = ages_make(&a, p);
    for (int i = p->n_ops - 1; made && i >= 0; i--)
        if (p->ops[i].y)
            reach_back(&a, &p->ops[i]);
    for (int i = 0; made && i < p->n_ops; i++) {
        VaeOp *op = &p->ops[i];
        /* attention keeps keys and values of x for later steps */
        const bool keeps = op->kind == VAE_OP_ATTENTION && op->carry;
        const VaeTensor *t = op->y && !keeps ? op->y : op->x;
        if (op->kind == VAE_OP_PICTURE_OUT || op->kind == VAE_OP_LATENT_OUT)
            op->range = 1;
        else if (t)
            op->range = 1 + reach_of(&a, t);
    }
    ages_free(&a);
    return made;
}

bool
vae_program_receptive_field(const VaeProgram *program, int *steps)
{
    Ages ages = {0};
    const bool made = ages_make(&ages, program);
    if (made)
        *steps = age_program(&ages, program);
    ages_free(&ages);
    return made;
}
