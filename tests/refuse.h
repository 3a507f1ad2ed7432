/*
 * refuse.h: the loop of tests that refuse one call after another, until a pass
 * makes fewer calls than that.
 *
 *     Refusals r = {.refuse = emu_fail_alloc};
 *     while (refuse_next(&r)) {
 *         ...
 *         refuse_begin(&r);
 *         const VaeStatus status = ...
 *         if (refuse_end(&r)) // call number r.n was refused
 *             r.wrong += status != VAE_ERR_MEMORY;
 *     }
 */
#ifndef VAE_TEST_REFUSE_H
#define VAE_TEST_REFUSE_H

#include <stdbool.h>

typedef struct Refusals {
    /* Refuses the n-th call from now on, or none if n is 0. Returns the number
     * of calls since it was called last. */
    int (*refuse)(int n);
    int n;             /* the call of this pass, from 1 on */
    int dense, stride; /* refuses each call up to `dense`, then every stride-th;
                          stride 0: each */
    int refused;       /* passes so far in which a call was refused */
    int wrong, left;   /* for the test: passes with a wrong result, and with
                          something that was not freed */
    bool done;
} Refusals;

static inline bool
refuse_next(Refusals *r)
{
    r->n += r->n < r->dense || !r->n || !r->stride ? 1 : r->stride;
    return !r->done;
}

static inline void
refuse_begin(const Refusals *r)
{
    r->refuse(r->n);
}

/* True if a call was refused. Otherwise this pass is the last one. */
static inline bool
refuse_end(Refusals *r)
{
    r->done = r->refuse(0) < r->n;
    r->refused += !r->done;
    return !r->done;
}

#endif
