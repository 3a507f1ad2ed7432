/*
 * tool.h: what the commands of vaetool share. The tool is a client of the
 * public interface only.
 */
#ifndef VAE_TOOL_H
#define VAE_TOOL_H

#include <jansson.h>
#include <stdio.h>

#include "vae-private/tensors.h"
#include "vae-private/stream.h"
#include "vae/version.h"

enum { EXIT_OK = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_FAILED = 3 };

typedef enum Command {
    COMMAND_INFO = 1,
    COMMAND_DECODE = 2,
    COMMAND_ENCODE = 4,
    COMMAND_COMPARE = 8,
    COMMAND_PLAN = 16,
    COMMAND_WEIGHTS = 32,
    COMMAND_BENCH = 64
} Command;

/* Words borrowed from argv. */
typedef struct Options {
    const char *argument[2]; /* positional */
    int n_arguments;
    const char *model, *arch, *tensor, *variant;
    VaeBackendKind backend;
    VaePrecision precision;
    VaeNormalization normalization;
    VaePosterior posterior;
    VaeNanPolicy nan_policy;
    uint64_t seed;
    int batch_index; /* -1: none was given */
    bool normalization_given;
    VaeType dtype;
    int device; /* -1: not given */
    int slice, threads, width, height, frames, every;
    double max_abs, min_psnr, min_ssim, peak; /* NaN: not given */
    bool json, tensors, csv, encode, profile, deterministic, drop, help,
        verbose;
    bool resume, stream;
} Options;

/* options.c. False after a sentence on stderr. */
bool options_parse(Command command, const char *command_name, int argc,
                   char **argv, Options *out);
void options_print(Command command, FILE *to);

/* Words that a file brought, as a terminal may show them: one line of at most
 * 200 bytes, without control characters. Each returns buffer->text. */
typedef struct Plain {
    char text[240];
} Plain;
const char *plain(const char *words, Plain *buffer);
/* A count that is told in decimal digits; -1: it is none, or absurd. */
int64_t plain_count(const char *words);

/* Prints "vaetool: message" and returns EXIT_FAILED. */
int fail(const VaeError *error);
int fail_text(const char *format, ...) VAE_PRINTF(1, 2);

/* Says on stderr when latents in or out held values that are not finite. */
void warn_nonfinite(const VaeStream *stream);

/* The model of --model or, where it is NULL, of --arch. */
VaeStatus open_model(const Options *o, VaeModel **out, VaeError *error);
VaeStreamParams stream_params(const Options *o, VaeDirection direction,
                              int width, int height);

/* The commands: an exit code each. */
int command_info(const Options *o);
int command_decode(const Options *o);
int command_encode(const Options *o);
int command_compare(const Options *o);
int compare_streams(const Options *o); /* pictures.c; an exit code, too */
int command_plan(const Options *o);
int command_weights(const Options *o);
int command_bench(const Options *o);

/* plan.c: the table of one plan. "1.23 GiB" and the like go to buffer. */
void plan_print(FILE *to, VaeDirection direction, const VaePlan *plan);
const char *bytes_text(uint64_t bytes, char *buffer, size_t size);
const char *seconds_text(double seconds, char *buffer, size_t size);

/* video.c. is_video: [T,H,W,3] of a type that is read. find_video: the tensor
 * `name`, else (NULL) video_u8, frames or the file's only one where that is
 * video; NULL where there is none. */
bool is_video(const VaeTensorInfo *t);
/* What black and white, the bytes 0 and 255, are in the network's numbers. */
typedef struct VideoRange {
    float low, high;
} VideoRange;
/* A file of frames states it under VIDEO_RANGE, as "-1 1". False where it does
 * not, or in other words. */
#define VIDEO_RANGE "vae.pixel_range"
/* And how many of them are a second, as vae_tensor_file_framerate() reads it.
 */
#define VIDEO_RATE "vae.framerate"
bool video_range(const VaeTensorFile *file, VideoRange *out);
/* VAE_ERR_FORMAT where it states it in other words. */
VaeStatus video_range_check(const VaeTensorFile *file, VaeError *error);
/* n values as floats, those of U8 as numbers of the range; NULL: as they are.
 */
void video_read(float *dst, const void *src, VaeType type, size_t n,
                const VideoRange *range);
const VaeTensorInfo *find_video(const VaeTensorFile *file, const char *name);
/* Refuses a name that ends otherwise than in .safetensors; `instead` (or NULL)
 * says what to take for such files. */
VaeStatus output_suffix(const char *path, const char *what, const char *instead,
                        VaeError *error);
/* After path could not be opened: adds how video files are encoded, where its
 * name is not that of a tensor file. Returns error->status. */
VaeStatus input_is_video(const char *path, VaeError *error);

/* interrupt.c: while armed, Ctrl-C and SIGTERM cancel the stream's running
 * call and set interrupted(). */
bool interrupt_arm(VaeStream *stream, VaeError *error);
void interrupt_disarm(void);
bool interrupted(void);

/* progress.c: a line on stderr, only where that is a terminal. */
typedef struct Progress {
    bool shown;
    const char *unit;
    int64_t total;
    double start; /* seconds */
} Progress;
double now_seconds(void);
bool progress_wanted(void);
void progress_begin(Progress *p, const char *unit, int64_t total);
void progress_show(const Progress *p, int64_t done);
void progress_end(const Progress *p);
/* After the first step: what the rest will take, where it is long. */
void progress_expect(const VaePlan *plan, double first_seconds,
                     int64_t later_steps);

/*
 * output.c: a safetensors file written piece by piece. A regular file appears
 * under its name only when output_commit() succeeds; a device is written in
 * place.
 */
typedef struct Output {
    int fd;
    const char *path;
    char *temporary; /* NULL when written in place */
    char *target;    /* path without links, NULL for a new file */
    uint64_t begin;  /* of the data in the file */
    bool keep;       /* what is there, also when it is not committed */
    bool foreign;    /* what was there begins otherwise */
} Output;
VaeStatus output_check(const char *path, const char *input, const char *model,
                       VaeError *error);
/* The same of the files that output_resume() keeps beside path. */
VaeStatus
output_check_beside(const char *path, const char *input, const char *model,
                    VaeError *error); /* not the same file as either */
/* The error of output_open() where the path's folder is not there or may not be
 * written, before anything is made. */
VaeStatus output_check_place(const char *path, VaeError *error);
VaeStatus output_open(Output *out, const char *path,
                      const VaeTensorOut *tensors, size_t n,
                      const VaeMetadata *metadata, size_t n_metadata,
                      VaeError *error);
/* The same, but in path.part, which stays until it is committed; where it was
 * there (go_on) with what it holds: output_cut() looks whether that begins as
 * it would have begun, so that the checkpoint can say first what differs. */
VaeStatus output_resume(Output *out, const char *path,
                        const VaeTensorOut *tensors, size_t n,
                        const VaeMetadata *metadata, size_t n_metadata,
                        bool go_on, VaeError *error);
/* Leaves so many bytes of data, which must be there, and of this output. */
VaeStatus output_cut(Output *out, uint64_t bytes, VaeError *error);
/* Brings to the disk what was written. */
VaeStatus output_sync(Output *out, VaeError *error);
/* size bytes at offset from the first tensor's first byte. */
VaeStatus output_write(Output *out, uint64_t offset, const void *data,
                       size_t size, VaeError *error);
VaeStatus output_commit(Output *out, VaeError *error);
/* Removes what was not committed; safe after a failed open. */
void output_close(Output *out);

/* resume.c */
#define RESUME_EVERY                                                           \
    8 /* latents between checkpoints, unless told otherwise                    \
       */

typedef struct Resume {
    char *path;     /* of the checkpoint; NULL: not asked for */
    int every;      /* latents between two */
    bool exists;    /* there is one */
    char clip[160]; /* which clip it is */
    int begin;      /* latent that the stream takes first */
    int latents;    /* frames of those before are there */
    int64_t frames; /* so many */
    int saved;      /* latents in the newest checkpoint */
} Resume;

/* every: 0 for the usual. */
VaeStatus resume_open(Resume *r, const char *out, int every,
                      const VaeLatentClip *clip, int64_t frames,
                      VaeError *error);
/* Puts stream and output where the checkpoint says, if there is one. */
VaeStatus resume_load(Resume *r, VaeStream *stream, Output *out,
                      uint64_t frame_size, VaeError *error);
/* Writes one where enough latents came since. */
VaeStatus resume_save(Resume *r, VaeStream *stream, Output *out, int latents,
                      int64_t frames, VaeError *error);
/* Of a run that was interrupted: how to go on, as error. latents: in all. */
void resume_told(const Resume *r, int latents, VaeError *error);
VaeStatus resume_done(Resume *r, VaeError *error);
void resume_close(Resume *r);

/* unfinished.c: OUT.part, or a checkpoint. */
typedef struct Unfinished {
    char *out;                       /* OUT; NULL: no command writes it */
    const VaeTensorFile *checkpoint; /* whole; NULL: none beside OUT.part */
    VaeError why_none;
    const VaeTensorInfo *frames; /* of OUT.part; NULL: is a checkpoint */
    uint64_t written;            /* of them */
    /* Owned. */
    VaeTensorFile *part, *beside;
    void *header;
    uint64_t size; /* of OUT.part */
} Unfinished;

/* Whether path is an OUT.part; false leaves nothing to close. */
bool unfinished_part(Unfinished *u, const char *path);
/* file, which states vae.checkpoint and is borrowed, may be damaged. */
VaeStatus unfinished_checkpoint(Unfinished *u, const VaeTensorFile *file,
                                VaeError *error);
void unfinished_close(Unfinished *u);
void unfinished_print(const Unfinished *u);
json_t *unfinished_json(const Unfinished *u); /* the caller's */

#endif
