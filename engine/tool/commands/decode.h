/*
 * decode.h: what the two files of the command decode share.
 */
#ifndef VAETOOL_DECODE_H
#define VAETOOL_DECODE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tool.h"

/* The buffers of one stream, for one slice. */
typedef struct Buffers {
    uint8_t *latent_data, *frame_data;
    VaeLatentIn *latents;
    VaePicture *pictures;
} Buffers;

typedef struct Decode {
    const Options *o;
    const VaeModelInfo *info;
    VaeModel *model;
    VaeTensorFile *file;
    VaeLatentClip whole; /* all latents of the file */
    Sequences sequences;
    VaeLatentClip clip; /* the latents of the current sequence */
    int first;          /* latent of the file that begins it */
    int64_t before;     /* frames of the sequences before it */
    Output out;
    Resume resume;
    int width, height;  /* visible */
    int64_t frames;     /* to write of the current sequence */
    int64_t all;        /* to write in all */
    size_t latent_size; /* bytes of one latent */
    OutputFormat format;
    size_t frame_head; /* bytes before the pixels of a frame */
    size_t frame_size; /* bytes of one frame */
    int n_streams;
    VaeStream *streams[MAX_DEVICES];
    Buffers buffers[MAX_DEVICES];
    atomic_bool stopped; /* a segment has failed */
    /* The lock covers what follows. */
    pthread_mutex_t lock;
    Progress progress;
    int64_t written; /* frames */
} Decode;

/* The segment that one stream decodes, and its position. */
typedef struct Run {
    Decode *d;
    VaeStream *stream;
    Buffers *b;
    Segment segment;
    int done;        /* latents before this one are decoded */
    int whole;       /* the frames of the latents before this one are written */
    int64_t at;      /* the frame that the stream gives next */
    int64_t written; /* frames before this one are written */
    int64_t until;   /* frames before this one are of the segment */
} Run;

/* decode_run.c. */
/* Frames of the current sequence before latent k. */
int64_t decode_frames_before(const Decode *d, int k);
/* Decodes the segment; the stream is at r->segment.begin. The last frames may
 * need latents after the segment. */
VaeStatus decode_run(Run *r, VaeError *error);

#endif
