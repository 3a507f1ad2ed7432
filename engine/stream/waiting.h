/*
 * waiting.h: the units that send_receive.c keeps.
 */
#ifndef VAE_WAITING_H
#define VAE_WAITING_H

#include "stream.h"

/* A latent or a picture, depending on direction and side. */
typedef struct Unit {
    bool is_picture;
    VaeLatentOut latent;
    VaePicture picture;
} Unit;

/* Copies of units of one kind. */
typedef struct Side {
    bool known;
    Unit kind; /* type and format of a unit; its addresses have no meaning */
    VaeRoom room;
    size_t slot; /* bytes of a copy */
} Side;

struct VaeWaiting {
    uint64_t sequence; /* value of stream->sequences; if they differ, all
                          members are out of date */
    Side in, out;
    int sent;        /* copies in `in` */
    int last;        /* the copy that was made last */
    int made, given; /* results of the last slice: computed, and received. The
                        others wait in `out` */
    bool ended;
    int repeated;  /* copies of the last frame by which an encoder filled its
                      last steps */
    int64_t place; /* of the next result to receive, in a decoder: the number
                      of frames of the sequence before it */
    int64_t most;  /* VaeLatentClip.frames, the number of frames in all. 0:
                      not stated */
    /* Arguments of a call, for one slice. */
    size_t room;
    VaeLatentIn *latents_in;
    VaeLatentOut *latents_out;
    VaePicture *pictures;
};

#endif
