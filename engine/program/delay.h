/*
 * delay.h: networks whose frames come later than their input.
 *
 * A convolution that is centred in time reads the frame after its own. In a
 * stream it therefore gives frame f when its input has frame f + 1. Such a
 * network has delay lines: every program computes as many frames as in a steady
 * state, in slots that are counted from the start of the sequence. Slot s of a
 * tensor has frame s - delay of the sequence. A convolution adds 1 to the delay
 * of its input. An upsampling in time by two makes d to 2d + 1, because frame f
 * becomes the frames 2f - 1 and 2f.
 *
 * Slots before the first frame and behind the last have no meaning, and no
 * frame depends on them, except that each convolution reads a copy of its
 * input's first frame in front of it and one of its last behind it. The op EDGE
 * makes these copies. Where they are depends on the latents so far, the clock.
 * An op whose slots are all without meaning is idle and not run.
 */
#ifndef VAE_DELAY_H
#define VAE_DELAY_H

#include "program.h"

/* Frames of the run before that a delay line has. */
enum { VAE_LINE = 2 };

/* The place of a run in its sequence. */
typedef struct VaeClock {
    int64_t begin; /* latents of the sequence before the run */
    int64_t end;   /* latents of the sequence, or -1 as long as more may come */
    bool cold;     /* it began in the middle of a video: its first latent has as
                      many frames as each later one */
} VaeClock;

/* The number of the frame at index 0 of t. */
int64_t vae_clock_frame(const VaeClock *clock, const VaeTensor *t);
/* Indices in t of the sequence's first frame, and of the end behind the last
 * one, which may be far outside of t. */
void vae_clock_span(const VaeClock *clock, const VaeTensor *t, int64_t *first,
                    int64_t *end);
/* True if the op is idle. */
bool vae_clock_skips(const VaeClock *clock, const VaeOp *op);
/* True if no op is idle, and no EDGE has anything to copy. */
bool vae_clock_is_steady(const VaeClock *clock, const VaeProgram *program);

#endif
