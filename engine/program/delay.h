/*
 * delay.h: networks whose frames come later than their input.
 *
 * A convolution that is centred in time reads the frame after its own. In a
 * stream it can therefore give frame f only when its input has frame f + 1.
 * Such a network has delay lines. Every program computes as many frames as in
 * the steady state, in slots. Slots count from the start of the sequence, and
 * slot s of a tensor holds frame s - delay. A convolution adds kt / 2 to
 * the delay of its input. An upsampling in time by two turns a delay of d into
 * 2d + 1, because frame f becomes the frames 2f - 1 and 2f.
 *
 * Slots before the first frame and after the last have no meaning. No frame
 * depends on them, with one exception: a convolution of kt taps reads kt / 2
 * copies of its input's first frame before this frame, and as many of the last
 * frame after it. The op EDGE makes these copies. The clock, the number of
 * latents so far, says where. An op is idle, and does not run, if none of its
 * slots has a meaning.
 *
 * An attention over a window of 2d + 1 frames has a delay of d, too, but its
 * first d frames read the same window as frame d. They are late: they come in
 * the run of frame d, before its slot. A tensor has `lead` frames before its
 * slot 0, of which the first `late` are computed only in that run; `held` is
 * the same number, for a part of a tensor that of the whole. At the end, a
 * window reaches up to 2d frames back, so a line has 3d frames.
 *
 * Some decoders append ghosts, which are copies of the last latent. `ghosts` is
 * the number of those that count as latents in a tensor.
 */
#ifndef VAE_DELAY_H
#define VAE_DELAY_H

#include "program.h"

/* The position of a run in its sequence. */
typedef struct VaeClock {
    int64_t begin; /* latents of the sequence before the run */
    int64_t end;   /* latents of the sequence, or -1 as long as more may come */
    int steps;     /* latents of the run */
    int64_t least; /* a shorter sequence gets copies of its last latent */
    int64_t origin;       /* latents of the video before the sequence */
    bool without_context; /* the sequence began in the middle of a video: its
                  first latent has as many frames as later ones */
} VaeClock;

/* The frame in slot 0 of t. */
int64_t vae_clock_frame(const VaeClock *clock, const VaeTensor *t);
/* Sets *first to the slot of t that has the sequence's first frame, and *end to
 * the slot after that of the last frame. Both may be far outside of t. */
void vae_clock_span(const VaeClock *clock, const VaeTensor *t, int64_t *first,
                    int64_t *end);
/* Sets *first to the slot of t before which EDGE makes a copy, and *end to the
 * slot from which on it makes copies. */
void vae_clock_edges(const VaeClock *clock, const VaeTensor *t, int64_t *first,
                     int64_t *end);
/* The number of frames of t to leave out, because they are late in another run.
 */
int vae_clock_left_out(const VaeClock *clock, const VaeTensor *t);
/* The place in the video of the slots of t. */
VaePlaceInVideo vae_clock_place(const VaeClock *clock, const VaeTensor *t);
/* True if the op is idle. */
bool vae_clock_skips(const VaeClock *clock, const VaeOp *op);
/* True if no op is idle, and no EDGE has anything to copy. */
bool vae_clock_is_steady(const VaeClock *clock, const VaeProgram *program);

#endif
