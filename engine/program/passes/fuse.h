/*
 * fuse.h: neighbouring ops that a backend computes as one.
 *
 * A recorded program has one op for each operation of the network. It is fused
 * before it is planned, so that the plan has no memory for tensors that are
 * never written.
 */
#ifndef VAE_FUSE_H
#define VAE_FUSE_H

#include "program.h"

/* The fusions that a backend's kernels can compute. */
typedef struct VaeFusions {
    /* A nearest upsampling by two and the 3x3 convolution after it: the
     * convolution reads the small picture (conv.up). If the upsampling also
     * doubles frames, an op for this remains. */
    bool upsample;
    /* A 3x3 or 3x3x3 convolution in F32, and the op that copies the carry to
     * the context of its input. The convolution is computed in Winograd tiles
     * (conv.winograd) and reads its carry in place. Of those of 3x3x3, only the
     * ones that compute two frames or more in a later step, because the others
     * have few operations and most of the weights. */
    bool winograd;
    /* A norm, the op that copies the carry to the context of its result, and
     * the op that copies the result's last frames to the carry: the norm does
     * all. */
    bool norm_carry;
    /* True for a convolution that reads its carry in place, so that no op
     * copies the carry to the context of its input. NULL: only convolutions in
     * Winograd tiles do. */
    bool (*reads_carry)(void *user, const VaeOp *conv);
    /* True for a convolution that can also compute the norm of its result
     * (conv.normed, norm.done). The norm stays an op, without work. NULL: none
     * can. */
    bool (*norms)(void *user, const VaeOp *conv);
    /* True for a convolution to a picture that can also read its input through
     * an rms norm, if it reads its carry in place (conv.fronted), and that can
     * write a picture in F32 whatever the type of its input is (conv.wide). The
     * norm comes after it and writes only the carry (norm.late). NULL: none
     * can. */
    bool (*heads)(void *user, const VaeOp *conv);
    /* True if the backend computes a convolution of one strip of rows with the
     * bytes of the whole picture. Otherwise that slab stays whole (strips.h).
     * NULL: always true. */
    bool (*can_strip)(void *user, const VaeOp *conv);
    void *user; /* the open backend, set by the stream */
} VaeFusions;

/* How many frames and rows a program computes at once. */
typedef struct VaeCuts {
    int group;  /* frames, see split.h; 0: all */
    int strips; /* of rows, see strips.h; 0 and 1: none */
} VaeCuts;

/* Fuses p. next: the program of later steps, which may be p. Its sizes decide
 * for all programs of a stream, so that an op uses the same kernels in all.
 * False: out of memory; then p can only be freed. */
bool vae_program_fuse(VaeProgram *p, const VaeProgram *next, VaeFusions fusions,
                      VaeCuts cuts);

#endif
