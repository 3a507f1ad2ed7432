/*
 * stream.h: the inside of a stream.
 */
#ifndef VAE_STREAM_INTERNAL_H
#define VAE_STREAM_INTERNAL_H

#include <stdatomic.h>

#include "machine.h"
#include "vae-private/stream.h"

/* The number of calls in flight that vae_stream_wait() distinguishes. */
#define VAE_STREAM_CALLS 8

/* Units that were sent and not computed, or computed and not received. */
typedef struct VaeWaiting VaeWaiting;

/* nan.c: the last guarded run. */
typedef struct VaeGuard {
    bool pending;       /* the result is not checked yet */
    bool singly;        /* each run is checked before the next begins */
    int which;          /* its program */
    VaeSequence before; /* the place before the run */
    uint64_t bad;       /* number of non-finite values of the result */
    uint64_t nonfinite; /* value of stats.nonfinite before the run */
    /* Copies of the units of a run in flight. */
    VaeLatentIn *in;
    VaeLatentOut *out;
    VaePicture *pictures;
    uint8_t *data; /* memory of `in` and of pictures */
    size_t latent_bytes, picture_bytes;
    size_t room_latents, room_pictures;
} VaeGuard;

/* doubts.c: what is known of the input so far. */
typedef struct VaeDoubts {
    bool begun; /* the stream had input */
    bool alpha; /* warned that alpha is lost */
    /* Of the sequence: */
    uint64_t units; /* number of units so far */
    int repeated;   /* latest frames that have the address of the one before */
    bool told;      /* warned that the input looks like something else */
    bool nan;       /* warned of a NaN */
    bool varies;    /* a unit has several values, or it has warned of units of
                       one value */
    bool constant;  /* it has warned of units of one value */
} VaeDoubts;

/* windows.c: the window or the tile that is computed. Latents and frames count
 * from those of the sequence. */
enum {
    VAE_WINDOW_ROOM = 18,   /* most latents, with one on either side */
    VAE_WINDOW_PICTURES = 4 /* most pictures of a latent, in tiles */
};
typedef struct VaeWindow {
    bool begun;     /* at, index and frame are set */
    VaeSequence at; /* the place in the window, as if it were a sequence */
    int64_t index; /* number of the window; window 0 has latent 0 of the clip */
    int64_t frame; /* index in the sequence of the window's first result */
    uint8_t *data; /* of the last latents of a decoder */
    VaeLatentIn held[VAE_WINDOW_ROOM];
    /* latent_tiles.c: the n results of the tile as the network gives them, and
     * the last ones of the tile before. `results` owns the memory of both, of
     * `moments` and of copies of the pictures of the last latents. */
    float *results, *last;
    int n, n_last;
    float *moments;    /* of an encoder: a latent [h, w, 2C] */
    uint8_t *pictures; /* of an encoder */
    VaePicture held_pictures[VAE_WINDOW_ROOM][VAE_WINDOW_PICTURES];
} VaeWindow;

/* How the caller's latents become those of the network, and back. */
typedef struct VaeScaling {
    bool normalise; /* the network reads or writes v * std + mean */
    float std[VAE_MAX_LATENT_CHANNELS], mean[VAE_MAX_LATENT_CHANNELS];
    float scale[VAE_MAX_LATENT_CHANNELS], shift[VAE_MAX_LATENT_CHANNELS];
} VaeScaling;

struct VaeStream {
    VaeMachine main;
    VaeSteps steps;
    VaeScaling scaling;

    VaeSequence at;
    bool full;     /* there is no memory for the history of another step */
    uint64_t runs; /* begun */
    uint64_t ends[VAE_STREAM_CALLS]; /* value of `runs` at the end of each of
                                        the last calls */
    uint64_t calls;
    atomic_bool cancel;
    VaeStreamStats stats;
    VaeDoubts doubts;
    VaeDoubtWords words;
    uint64_t sequences;  /* begun by a reset or a restart */
    VaeWaiting *waiting; /* send_receive.c; or NULL */
    VaeGuard guard;      /* nan.c */
    VaeWindow window;    /* windows.c */

    VaeNoiseFunc noise; /* or NULL */
    void *noise_user;

    /* delay.c. */
    VaePicture *slots; /* pictures of a run; NULL without delay and chunks */
    VaeLatentIn *no_latents; /* latents without data, for runs of the end */
};

/* send_receive.c. */
void vae_stream_free_waiting(VaeStream *s);

/* waiting.c: the numbers of units that were sent and not computed, and that
 * were computed and not received. */
void vae_stream_count_waiting(const VaeStream *s, int *sent, int *made);
/* True if the end of the sequence was sent. */
bool vae_stream_end_was_sent(const VaeStream *s);

/* calls.c: checks that the stream has that direction and is not broken. */
VaeStatus vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                                 VaeError *error);
/* The latents of a decoder, or the frames of an encoder, that the stream takes
 * for the first latents of a sequence. */
uint64_t vae_stream_units_before(const VaeStream *s, uint64_t latents);
/* The number of steps that read n_in units; -1: not a whole number of steps. */
int vae_stream_steps_of(const VaeStream *stream, int n_in);
VaeStatus vae_stream_check_pictures(const VaeStream *s,
                                    const VaePicture *pictures, int n,
                                    VaeError *error);
VaeStatus vae_stream_check_latent(VaeType type, const void *data,
                                  VaeError *error);
/* Fails if units wait that were sent, or that are to be received. */
VaeStatus vae_stream_check_waiting(const VaeStream *s, VaeError *error);

/* stream.c: opens a stream without memory. After an error, *out is NULL or can
 * only be freed. */
VaeStatus vae_stream_open(VaeModel *model, const VaeStreamParams *params,
                          const VaeTerms *terms, VaeStream **out,
                          VaeError *error);

/* offload.c: builds the programs of the main machine and of the wide one if
 * they were dropped, makes the weights and allocates all memory. If an
 * allocation is refused, tries the next rung. */
VaeStatus vae_stream_make(VaeStream *s, VaeError *error);
/* Frees the memory of a device until vae_stream_resume(). No run may be in
 * flight. */
VaeStatus vae_stream_offload(VaeStream *s, VaeError *error);
/* Allocates the memory of a machine again if it was freed. */
VaeStatus vae_stream_take_back(VaeStream *s, VaeMachine *m, VaeError *error);

/* The units of a run. One of in and out is NULL. */
typedef struct VaeUnits {
    const VaeLatentIn *in;
    const VaeLatentOut *out;
    const VaePicture *pictures;
    /* With a delay: the index of the frame of pictures[0], and the frames that
     * are due now, from..until-1. */
    int64_t base, from, until;
} VaeUnits;

/* doubts.c: looks at the units of a call, and warns if they look like something
 * else than what they are taken as, or if alpha is lost. */
void vae_stream_judge(VaeStream *s, const VaeUnits *units, int n_in, int n_out);
/* Forgets what is known of the input of a sequence. */
void vae_stream_judge_reset(VaeStream *s);

/* calls.c: checks the state, the counts and the units. */
VaeStatus vae_stream_check_call(const VaeStream *s, VaeDirection direction,
                                const VaeUnits *units, int n_in, int n_out,
                                VaeError *error);

/* calls.c: checks where the n results of a call go. */
VaeStatus vae_stream_check_results(const VaeStream *s, const VaeUnits *units,
                                   int n, VaeError *error);

static inline void
vae_units_skip(const VaeStream *s, VaeUnits *units, int n_in, int n_out)
{
    if (s->main.params.direction == VAE_ENCODE)
        units->out += n_out;
    else if (!s->at.ended)
        units->in += n_in;
    if (vae_machine_has_delay(&s->main))
        return;
    units->pictures += s->main.params.direction == VAE_DECODE ? n_out : n_in;
}

/* steps.c: adds the memory for the history of the next steps. */
VaeStatus vae_stream_grow_history(VaeStream *s, int steps, VaeError *error);
/* Runs the next steps, with latents or of the end. */
VaeStatus vae_stream_run_steps(VaeStream *s, const VaeUnits *units, int steps,
                               VaeError *error);

/* windows.c: as vae_stream_run_steps(), for models with windows or tiles. The
 * frames of a window are due when all its latents are there, and then as many
 * with each latent as one step of its delay lines gives; those of a tile
 * likewise. */
VaeStatus vae_stream_run_windows(VaeStream *s, const VaeUnits *units, int steps,
                                 VaeError *error);

/* exec.c: runs a program of a machine of the stream. */
VaeStatus vae_stream_run_exec(VaeStream *s, VaeMachine *m, int which,
                              const VaeUnits *units, VaeError *error);
/* Waits for runs in flight. After a failed call no run may access the caller's
 * memory, so it also waits for those of the second machine. */
VaeStatus vae_stream_finish(VaeStream *s, int pending, VaeStatus status,
                            VaeError *error);
/* latent_tiles.c: the tile that a frame is of, or a latent of an encoder, and
 * the one after the last of its tile. */
int64_t vae_stream_tile_of(const VaeStream *s, int64_t frame, int64_t *end);
/* Copies the pictures of a latent of an encoder, n of them. */
void vae_stream_hold_pictures(VaeStream *s, const VaePicture *pictures, int n);
/* Gives the results that are due, which are of one tile. */
VaeStatus vae_stream_run_tile(VaeStream *s, const VaeUnits *units,
                              int64_t index, VaeError *error);
/* Counts the run afterwards. */
void vae_stream_count_run(VaeStream *stream, int which);

/* delay.c: the position of the next run in the sequence. */
VaeClock vae_stream_clock(const VaeStream *s);
/* The steps of the end after which all frames but the last `left` are computed,
 * if the sequence ends now. */
int vae_stream_steps_to(const VaeStream *s, int left);
/* The number of frames that the next steps give. */
int vae_stream_frames_after(const VaeStream *s, int steps);
/* The number of frames of the sequence that are before the next one. */
int64_t vae_stream_frames_so_far(const VaeStream *s);
/* Sets units->from and until for the next steps, if there is a delay. */
void vae_stream_set_frames(const VaeStream *s, VaeUnits *units, int steps);
/* Sets the pictures and the clock of a run with delay lines. */
void vae_stream_place_frames(const VaeStream *s, const VaeProgram *p,
                             const VaeUnits *units, VaeRun *run);
/* Zeroes those frames of a copy of the carries that lie outside of the
 * sequence. next: the clock of the run that would read the copy. p: the program
 * NEXT of the carries' machine. */
void vae_stream_clear_unused(const VaeProgram *p, const VaeClock *next,
                             uint8_t *carries);
/* True if the last run, of the program p, computed slots before frame 0. The
 * backend does not count their non-finite values, so a NaN may be in the
 * carries only. clock: of the next run. */
bool vae_stream_is_early(const VaeStream *s, const VaeProgram *p,
                         VaeClock clock);
/* nan.c: runs a program of the main machine as the nan-policy says, and counts
 * it. If the policy is not PASS, a run on a device may still be in flight
 * afterwards; the next call checks it. */
VaeStatus vae_stream_run_program(VaeStream *s, int which, const VaeUnits *units,
                                 VaeError *error);
/* Checks the result of the last guarded run, unless that is done, and applies
 * the policy. */
VaeStatus vae_stream_settle(VaeStream *stream, VaeError *error);
/* guard.c: allocates the memory for copies of units. */
VaeStatus vae_stream_guard_take(VaeStream *stream, VaeError *error);
/* Frees the memory for copies of units. */
void vae_stream_guard_free(VaeStream *stream);
/* Copies those units of a run that are read after it has ended. False: the run
 * must be checked before the call returns. */
bool vae_stream_copy_units(VaeStream *stream, const VaeProgram *program,
                           const VaeUnits *units);
VaeUnits vae_stream_copied_units(const VaeStream *stream);
size_t vae_stream_latent_elements(const VaeStream *stream);

#endif
