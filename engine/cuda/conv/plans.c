/*
 * plans.c: see cuda/conv/plans.h.
 */
#include <string.h>

#include "plans.h"

static bool
is_same(const VaeCudaConvShape *a, const VaeCudaConvShape *b)
{
    return a->t == b->t && a->h == b->h && a->w == b->w && a->c_in == b->c_in &&
           a->ho == b->ho && a->wo == b->wo && a->c_out == b->c_out &&
           a->k == b->k && a->kt == b->kt && a->s == b->s && a->st == b->st &&
           a->pad_y == b->pad_y && a->pad_x == b->pad_x && a->add == b->add &&
           a->relu == b->relu && a->tf32 == b->tf32 && a->x_type == b->x_type &&
           a->y_type == b->y_type;
}

VaeCudaPlan *
vae_cuda_plan_find(VaeCudaPlan *list, const VaeCudaConvShape *shape,
                   const VaeCudaChoice *choice)
{
    for (VaeCudaPlan *p = list; p; p = p->next)
        if (is_same(&p->shape, shape) &&
            strcmp(p->choice.text, choice->text) == 0) {
            p->users++;
            return p;
        }
    return NULL;
}

void
vae_cuda_plan_add(VaeCudaPlan **list, VaeCudaPlan *plan,
                  const VaeCudaConvShape *shape, const VaeCudaChoice *choice)
{
    plan->shape = *shape;
    plan->choice = *choice;
    plan->users = 1;
    plan->next = *list;
    *list = plan;
}

bool
vae_cuda_plan_drop(VaeCudaPlan **list, VaeCudaPlan *plan)
{
    VaeCudaPlan **at = list;
    if (--plan->users > 0)
        return false;
    while (*at != plan)
        at = &(*at)->next;
    *at = plan->next;
    return true;
}
