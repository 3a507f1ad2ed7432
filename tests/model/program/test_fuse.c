/*
 * test_fuse.c: the engine fuses neighbouring ops only if the backend supports
 * the fusion.
 */
#include <stdio.h>

#include "fuse.h"
#include "model.h"

typedef struct Counts {
    int ops, unfolds, up, winograd, heads_before_winograd, norms;
    int own, own_context; /* convolutions that read a carry; those of x */
    int normed, hidden;   /* those that compute a norm; results not written */
    int late;             /* norms' results that have no memory then */
    int heads; /* convolutions to F32 that read x through a norm, if only the
                  carry is written after them, and nothing else of the norm */
} Counts;

/* Half of the convolutions are computed by a kernel that reads carries. */
static bool
reads_carry(void *user, const VaeOp *conv)
{
    return conv->y->shape.c >= *(const int *) user;
}

static bool
makes_picture(void *user, const VaeOp *conv)
{
    return conv->y->shape.c == 3;
}

static bool
reads_all(void *user, const VaeOp *conv)
{
    return true;
}

static bool
is_head(const VaeProgram *p, int i)
{
    const VaeOp *op = &p->ops[i];
    const int norm = vae_norm_in_front(p, i);
    return norm == i + 1 && op->conv.wide && op->y->type == VAE_TYPE_F32 &&
           op->x->type == VAE_TYPE_BF16 && p->ops[norm].norm.late &&
           p->ops[norm].x == op->x && p->ops[norm].carry == op->carry &&
           p->ops[norm].y->first_op < 0 &&
           p->ops[norm].bytes == 2.0 * (double) op->carry->bytes;
}

/* relu: all norms end with it. */
static Counts
count_norms(VaeModel *model, VaeFusions fusions, bool relu)
{
    VaeCarrySet carries = {0};
    VaeProgram *p;
    VaeError error;
    Counts c = {0};
    const VaeType type = fusions.heads ? VAE_TYPE_BF16 : VAE_TYPE_F32;
    if (vae_model_build(model,
                        &(VaeBuildParams){.direction = VAE_DECODE,
                                          .steps = 1,
                                          .height = 8,
                                          .width = 8,
                                          .act = type,
                                          .sum = type,
                                          .label = "test",
                                          .carries = &carries},
                        &p, &error) != VAE_OK) {
        printf("FAIL %s\n", error.message);
        return c;
    }
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == VAE_OP_NORM)
            p->ops[i].norm.relu = relu;
    vae_program_fuse(p, p, fusions, (VaeCuts){0});
    vae_program_plan(p);
    c.ops = p->n_ops;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        const bool conv = op->kind == VAE_OP_CONV;
        c.unfolds += op->kind == VAE_OP_REARRANGE && op->rearrange.fs == 2;
        c.up += conv && op->conv.up;
        c.winograd += conv && op->conv.winograd;
        c.heads_before_winograd += conv && op->conv.winograd && i > 0 &&
                                   p->ops[i - 1].kind == VAE_OP_HEAD_CARRY;
        c.norms += op->kind == VAE_OP_NORM && op->carry;
        c.own += conv && op->carry;
        c.heads += is_head(p, i);
        c.own_context += conv && op->carry && op->x->ctx > 0;
        const int norm = vae_norm_behind(p, i);
        c.normed += norm >= 0;
        c.late += norm >= 0 && p->ops[norm].y->first_op != i;
        c.hidden += norm >= 0 && op->y->hidden && op->y->first_op < 0;
    }
    vae_program_free(&p);
    vae_carry_set_free(&carries);
    return c;
}

static Counts
count(VaeModel *model, VaeFusions fusions)
{
    return count_norms(model, fusions, false);
}

static int
check(bool ok, const char *what, const Counts *c)
{
    printf("%s %s: %d ops, %d unfoldings, %d convolutions upsample, %d by "
           "F(2x2, 3x3), %d norms keep a carry\n",
           ok ? "ok  " : "FAIL", what, c->ops, c->unfolds, c->up, c->winograd,
           c->norms);
    return !ok;
}

int
main(void)
{
    VaeModel *model;
    VaeError error;
    if (vae_model_outline("wan2.1", &model, &error) != VAE_OK) {
        printf("FAIL %s\n", error.message);
        return 1;
    }
    int failed = 0;
    const Counts none = count(model, (VaeFusions){0});
    failed += check(none.ops > 0 && none.unfolds == 3 && none.up == 0 &&
                        none.winograd == 0 && none.norms == 0,
                    "no fusion", &none);
    const Counts up = count(model, (VaeFusions){.upsample = true});
    failed += check(up.up == none.unfolds && up.unfolds == 0 &&
                        up.winograd == 0 && up.norms == 0,
                    "upsampling", &up);
    const Counts w = count(model, (VaeFusions){.winograd = true});
    /* the 3x3 convolutions after the unfoldings have no carry */
    failed += check(w.winograd > 10 && w.heads_before_winograd == 0 &&
                        w.ops == none.ops - (w.winograd - w.unfolds) &&
                        w.unfolds == 3,
                    "F(2x2, 3x3)", &w);
    const Counts n = count(model, (VaeFusions){.norm_carry = true});
    failed +=
        check(n.norms > 10 && n.ops == none.ops - 2 * n.norms, "norms", &n);
    int least = 300;
    const Counts o = count(model, (VaeFusions){.norm_carry = true,
                                               .reads_carry = reads_carry,
                                               .user = &least});
    failed += check(o.own > 5 && o.own_context == 0 && o.norms > 5 &&
                        o.norms < n.norms && o.norms + o.own >= n.norms &&
                        o.ops == none.ops - 2 * o.norms - o.own,
                    "convolutions that read carries", &o);
    const Counts f = count(model, (VaeFusions){.norm_carry = true,
                                               .reads_carry = reads_carry,
                                               .norms = reads_carry,
                                               .user = &least});
    failed += check(f.ops == o.ops && f.normed > 3 && f.late == 0 &&
                        f.hidden > 1 && f.hidden < f.normed,
                    "convolutions with norms", &f);
    const Counts h = count(model, (VaeFusions){.norm_carry = true,
                                               .reads_carry = makes_picture,
                                               .heads = makes_picture});
    failed += check(h.heads == 1 && h.own == 1 && h.own_context == 0 &&
                        h.ops == none.ops - 2 * h.norms,
                    "the norm before a picture", &h);
    /* The convolution before the norm computes it, not the one after it.
     */
    const VaeFusions both = {.norm_carry = true,
                             .reads_carry = reads_all,
                             .norms = reads_all,
                             .heads = makes_picture};
    const Counts a = count(model, both);
    failed += check(a.heads == 0 && a.normed > f.normed, "both", &a);
    const Counts r = count_norms(model, both, true);
    failed += check(r.heads == 0 && r.normed == 0, "norms with a ReLU", &r);
    vae_model_free(&model);
    return failed > 0;
}
