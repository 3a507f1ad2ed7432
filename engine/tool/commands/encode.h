/*
 * encode.h: what the two files of the command encode share.
 */
#ifndef VAETOOL_ENCODE_H
#define VAETOOL_ENCODE_H

#include "tool.h"

typedef struct Encode {
    const Options *o;
    const VaeModelInfo *info;
    VaeModel *model;
    VaeTensorFile *file;
    const VaeTensorInfo *video; /* [T,H,W,3] */
    VaeTensorInfo frame;        /* the one of a file, as such */
    VaeStream *stream;
    Output out;
    OutputFormat format;
    bool tchw; /* the latents follow each other in the file */
    VaeNormalization normalization;
    VideoRange
        range; /* of floats: as given, else as stated, else the network's */
    int width, height;
    int64_t frames, latents;   /* to read and to write in all */
    int fps_n, fps_d;          /* of the frames; 0: not stated */
    int n_outputs;             /* latent, mean, logvar */
    size_t plane, latent_size; /* bytes of one channel of floats, and of the
                                  floats of one latent */
    size_t frame_size;         /* bytes of one picture in frame_data */
    bool alpha_told;           /* of floats, of which the stream sees three */
    /* Buffers for one slice. frame_data is NULL if pictures point into the
     * file. */
    uint8_t *frame_data;
    float *latent_data;
    VaeLatentOut *results;
    VaePicture *pictures;
} Encode;

/* encode_frames.c. */
/* Finds the video of the file, and checks it. */
VaeStatus encode_find_video(Encode *e, VaeError *error);
/* Sets the values of black and white of frames in floats. */
void encode_choose_range(Encode *e);
/* Makes frame k of the file picture i of a slice; after the end, the last
 * frame. */
void encode_load_frame(Encode *e, int i, int64_t k);

#endif
