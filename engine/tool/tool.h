/*
 * tool.h: shared by the commands of vaetool, which use only the library's
 * interface.
 */
#ifndef VAE_TOOL_H
#define VAE_TOOL_H

#include <jansson.h>
#include <stdio.h>

#include "vae-private/settings.h"
#include "vae-private/tensors.h"
#include "vae-private/stream.h"
#include "vae/version.h"

enum { EXIT_OK = 0, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_FAILED = 3 };

enum { MAX_DEVICES = 64 }; /* of --devices */

typedef enum Command {
    COMMAND_INFO = 1,
    COMMAND_DECODE = 2,
    COMMAND_ENCODE = 4,
    COMMAND_COMPARE = 8,
    COMMAND_PLAN = 16,
    COMMAND_WEIGHTS = 32,
    COMMAND_BENCH = 64,
    COMMAND_MODELS = 128
} Command;

/* Strings are borrowed from argv. */
typedef struct Options {
    json_t *given; /* the words of all options by their name; true: a switch */
    const char *argument[2]; /* positional */
    int n_arguments;
    const char *model, *arch, *tensor, *variant, *pixel_range;
    VaeStreamParams params; /* the settings, without the size */
    int batch_index;        /* -1: not given */
    VaeLatentLayout layout;
    const char *space;
    int fps_n, fps_d; /* fps_n 0: not given */
    bool normalization_given;
    VaeType dtype;
    int devices[MAX_DEVICES]; /* of --devices; -1: none is named */
    int n_devices;            /* 0: not given */
    VaeBackendKind devices_backend;
    int width, height, frames, every;
    double max_abs, min_psnr, min_ssim, peak; /* NaN: not given */
    bool json, tensors, spaces, csv, encode, profile, drop, help, verbose;
    bool resume, stream;
} Options;

/* options.c. Returns false after a message on stderr. The caller frees
 * out->given with json_decref(). */
bool options_parse(Command command, const char *command_name, int argc,
                   char **argv, Options *out);
/* True if the command has an option of that name, without "--". */
bool options_has(Command command, const char *name);
void options_print(Command command, FILE *to);
/* Prints text after column `left`, in lines of at most 79 columns. at: the
 * number of columns that the first line has so far. */
void options_print_words(FILE *to, int at, int left, const char *text);

/* plain.c: makes a text from a file safe for a terminal: one line of at most
 * 200 bytes, without control characters. Returns buffer->text. */
typedef struct Plain {
    char text[240];
} Plain;
const char *plain(const char *words, Plain *buffer);
/* Prints a line without control characters, of any length. */
void print_plain(const char *words);
/* Reads a count in decimal digits; -1 if it is none or has too many digits. */
int64_t plain_count(const char *words);
/* Prints "vaetool: message" and returns EXIT_FAILED. */
int fail(const VaeError *error);
int fail_text(const char *format, ...) VAE_PRINTF(1, 2);
/* Prints "vaetool: message", which is no error. */
void tell_text(const char *format, ...) VAE_PRINTF(1, 2);
/* Prints "vaetool: warning: message". */
void warn_text(const char *format, ...) VAE_PRINTF(1, 2);

/* stream.c. Warns on stderr if latents or results had values that are not
 * finite. wide: the latents were float64. */
void warn_nonfinite(const VaeStream *stream, bool wide);

/* Opens the model of --model or, if it is NULL, of --arch. */
VaeStatus open_model(const Options *o, VaeModel **out, VaeError *error);
/* Opens a file of latents or frames; `what` is one of these words. */
VaeStatus open_tensors(const char *path, const char *what, VaeTensorFile **out,
                       VaeError *error);
/* What to say of a normalization that is not stated; "" if it is. */
const char *normalization_note(const VaeLatentClip *clip);
/* Finds the clip of latents. The options of reading replace what the file
 * states. info: of the model that decodes them, or NULL. */
VaeStatus find_clip(const Options *o, const VaeTensorFile *file,
                    const VaeModelInfo *info, VaeLatentClip *out,
                    VaeError *error);
/* Names the input of the streams, for warnings about it. */
void name_input(const char *file, const char *tensor);
VaeStreamParams stream_params(const Options *o, VaeDirection direction,
                              int width, int height);

/* The commands; each returns an exit code. */
int command_info(const Options *o);
int command_decode(const Options *o);
int command_encode(const Options *o);
int command_compare(const Options *o);
int compare_streams(const Options *o); /* pictures.c */
int command_plan(const Options *o);
int command_weights(const Options *o);
int command_bench(const Options *o);
int command_models(const Options *o);

/* plan.c: prints the table of one plan; writes texts such as "1.23 GiB". */
void plan_print(FILE *to, VaeDirection direction, const VaePlan *plan);
const char *bytes_text(uint64_t bytes, char *buffer, size_t size);

/* video.c. True for [T,H,W,3] of a supported type. */
bool is_video(const VaeTensorInfo *t);
/* The same, or [T,H,W,4] with alpha. */
bool is_any_video(const VaeTensorInfo *t);
/* The network's values for black and white, the bytes 0 and 255. */
typedef struct VideoRange {
    float low, high;
} VideoRange;
/* Metadata keys of a file of frames: the range, such as "-1 1", and the frame
 * rate, see vae_tensor_file_framerate(). */
#define VIDEO_RANGE "vae.pixel_range"
#define VIDEO_RATE "vae.framerate"
/* Reads "-1 1". */
bool video_range_parse(const char *text, VideoRange *out);
/* False if the file states no range or not a valid one. */
bool video_range(const VaeTensorFile *file, VideoRange *out);
/* Fails with VAE_ERR_FORMAT if the file states a range that is not valid.
 * option: overrides it, with a value; NULL: none does. If the option is given,
 * such a range is a warning. */
VaeStatus video_range_check(const VaeTensorFile *file, const char *option,
                            bool given, VaeError *error);
/* Returns these entries and what the file states of its pictures beside their
 * size and rate: the shape of pixels, and the tags. *n: their number. NULL: no
 * memory. The texts are those of the file. */
VaeMetadata *video_metadata(const VaeTensorFile *file, const VaeMetadata *own,
                            size_t *n);
/* stream.c. The options of reading for vae_latent_clip_find(), with warnings on
 * stderr. */
VaeLatentOptions latent_options(const Options *o);
/* Converts n values to float; scales U8 to range, unless range is NULL. */
void video_read(float *dst, const void *src, VaeType type, size_t n,
                const VideoRange *range);
/* Finds the tensor `name`. If name is NULL: video_u8, frames, or the file's
 * only tensor if that is video. Returns NULL if there is none. */
const VaeTensorInfo *find_video(const VaeTensorFile *file, const char *name);
/* What to do with a list of the frames of one video, or "". */
const char *video_list_advice(const VaeTensorFile *file);
/* "mp4" of "a/b.mp4"; NULL if there is no suffix. */
const char *suffix_of(const char *path);
/* True for a suffix that no video has, such as "pth" or "npz". */
bool is_tensor_suffix(const char *suffix);
/* After path could not be opened: if its suffix is not one of tensor files,
 * adds to the error how to encode a video file. Returns error->status. */
VaeStatus input_is_video(const char *path, VaeError *error);

/* interrupt.c: while armed, Ctrl-C, SIGTERM and SIGHUP cancel the running calls
 * of n streams and set interrupted(). */
bool interrupt_arm(VaeStream *const *streams, int n, VaeError *error);
void interrupt_disarm(void);
bool interrupted(void);
/* Ends the process as the signal would have, if there was one. A shell then
 * ends the loop that the command is in. */
void interrupt_end(void);

/*
 * segments.c: parts of a clip that are decoded independently. Each one begins
 * `history` latents early (vae_model_history()) and discards their frames, so
 * that the others have the bytes of a stream that ran from the start.
 */
typedef struct Segment {
    int begin; /* first latent that is computed */
    int first; /* first latent whose frames are kept */
    int end;
} Segment;

typedef struct Cut {
    int latents, workers, history;
    int cost; /* of the history: the latents that take as long */
} Cut;

/* The caller frees *out. */
VaeStatus segments_cut(const Cut *cut, Segment **out, int *n_out,
                       VaeError *error);

typedef struct SegmentJob {
    const Segment *segments;
    int n, workers;
    void *user;
    /* Runs one segment in the thread of `worker`, from 0. */
    VaeStatus (*run)(void *user, int worker, const Segment *s, VaeError *error);
    /* Called once after a failure: makes the calls that run return early. */
    void (*stop)(void *user);
} SegmentJob;

/* Each worker is a thread that takes segment after segment. Returns the first
 * failure. */
VaeStatus segments_run(const SegmentJob *job, VaeError *error);

/* sequences.c: a file may hold several sequences. */
typedef struct Sequences {
    VaeLatentSequence *list;
    int n;
} Sequences;

/* The caller frees out->list. A file without a table is one sequence. */
VaeStatus sequences_read(const VaeTensorFile *file, const VaeLatentClip *clip,
                         const VaeModel *model, Sequences *out,
                         VaeError *error);

/* progress.c: a line on stderr, only if that is a terminal. */
typedef struct Progress {
    bool shown;
    const char *unit;
    int64_t total;
    double start; /* seconds */
} Progress;
double now_seconds(void);
bool progress_is_shown(void);
void progress_begin(Progress *p, const char *unit, int64_t total);
void progress_show(const Progress *p, int64_t done);
void progress_end(const Progress *p);
/* After the first step: estimates the remaining time, if it is long. */
void progress_expect(const VaePlan *plan, double first_seconds,
                     int64_t later_steps);

/* format.c: the format of an output, by the suffix of its name. */
typedef enum OutputFormat {
    OUTPUT_SAFETENSORS,
    OUTPUT_NPY,
    OUTPUT_LATENT, /* of ComfyUI */
    OUTPUT_Y4M     /* also for "-", standard output */
} OutputFormat;
/* Refuses the suffix of a format for which `what`, "latents", "frames" or
 * "weights", has no place. */
VaeStatus output_format(const char *path, const char *what, OutputFormat *out,
                        VaeError *error);
typedef struct OutputHead {
    OutputFormat format;
    VaeTensorHeader tensors; /* npy: of the first tensor */
    const char *line;        /* Y4M: the first line */
} OutputHead;
/* Makes the bytes before the data. The caller frees *out with free(). */
VaeStatus output_head(const OutputHead *head, void **out, size_t *size,
                      VaeError *error);
/* True for "-" and a pipe, which are written in order. */
bool output_is_pipe(const char *path);

/*
 * output.c: a file that is written in parts. A regular file appears under its
 * name only when output_commit() succeeds; a device or pipe is written in
 * place.
 */
typedef struct Output {
    int fd;
    const char *path;
    bool pipe;       /* written in order */
    uint64_t at;     /* of a pipe: bytes written */
    char *temporary; /* NULL if written in place */
    char *target;    /* path with its links resolved; NULL for a new file */
    uint64_t begin;  /* offset of the data in the file */
    bool keep;       /* output_close() keeps the temporary file */
    bool foreign;    /* the temporary file has another header */
} Output;
/* vae_model_check_output() for the files that output_resume() and resume.c keep
 * next to path. */
VaeStatus output_check_resume(const char *path, const VaeTensorFile *input,
                              const VaeModel *model, VaeError *error);
/* Fails like output_open() if the folder is missing or not writable, but
 * creates nothing. why_no_pipe: why a pipe is refused, or NULL. */
VaeStatus output_check_place(const char *path, const char *why_no_pipe,
                             VaeError *error);
VaeStatus output_open(Output *out, const char *path, const OutputHead *head,
                      VaeError *error);
/*
 * The same, but writes path.part, which stays until it is committed. go_on:
 * path.part must exist and keeps its content. output_cut() fails if its header
 * differs, so that the checkpoint can report first what differs. Without go_on
 * a path.part with another header is an error, because it may be the user's.
 */
VaeStatus output_resume(Output *out, const char *path, const OutputHead *head,
                        bool go_on, VaeError *error);
/* Cuts the data to that many bytes, which must exist with the same header. */
VaeStatus output_cut(Output *out, uint64_t bytes, VaeError *error);
/* Syncs the written data to disk. */
VaeStatus output_sync(Output *out, VaeError *error);
/* Writes size bytes at offset from the first tensor's first byte. */
VaeStatus output_write(Output *out, uint64_t offset, const void *data,
                       size_t size, VaeError *error);
VaeStatus output_commit(Output *out, VaeError *error);
/* Removes a file that was not committed; safe after a failed open. */
void output_close(Output *out);

/* resume.c */
enum { RESUME_EVERY = 8 }; /* default latents between checkpoints */

/* Metadata of a checkpoint: "0-33,60-70", and the options and the input of the
 * command as JSON: {"options": {"model": "a", "resume": true}, "latents": "b"}
 */
#define RESUME_DONE "done"
#define RESUME_COMMAND "command"

typedef struct Resume {
    char *path;     /* of the checkpoint; NULL without --resume */
    int every;      /* latents between two checkpoints */
    bool exists;    /* there is a checkpoint */
    char clip[160]; /* identifies the clip */
    char *command;  /* RESUME_COMMAND */
    int t;          /* latents of the file */
    bool *done;     /* of each latent: its frames are written */
    int count;      /* of those that are done */
    int saved;      /* of those in the newest checkpoint */
    bool told;      /* what is continued */
} Resume;

VaeStatus resume_open(Resume *r, const Options *o, const VaeLatentClip *clip,
                      const Sequences *sequences, VaeError *error);
/* Checks that the checkpoint is of this stream, and reads what is done. */
VaeStatus resume_load(Resume *r, VaeStream *stream, VaeError *error);
/* Reads a range of RESUME_DONE and moves *text to the end of the range. */
bool resume_next_range(const char **text, int64_t *first, int64_t *last);
void resume_mark(Resume *r, int latent);
/* Replaces a list of segments by their parts that are not done. first: the
 * latent from which the segments count. */
VaeStatus resume_parts(Resume *r, int first, int history, Segment **list,
                       int *n, VaeError *error);
/* Writes a checkpoint of a stream if enough latents came since the last one.
 * frames: those that are written. */
VaeStatus resume_save(Resume *r, VaeStream *stream, Output *out, int64_t frames,
                      VaeError *error);
/* After an interrupt: the error tells how to continue. */
void resume_interrupted(const Resume *r, VaeError *error);
VaeStatus resume_done(Resume *r, VaeError *error);
void resume_close(Resume *r);

/* unfinished.c: OUT.part of an unfinished decode, or a checkpoint. */
typedef struct Unfinished {
    char *out; /* path of the output; NULL: a checkpoint of another program */
    const VaeTensorFile *checkpoint; /* NULL: none with OUT.part */
    VaeError why_none;
    const VaeTensorInfo *frames; /* of OUT.part; NULL: it is a checkpoint */
    uint64_t written;            /* complete frames */
    /* Owned. */
    VaeTensorFile *part, *checkpoint_file;
    void *header;
    uint64_t size; /* of OUT.part */
} Unfinished;

/* Opens an OUT.part; returns false, with nothing to close, if path is none. */
bool unfinished_part(Unfinished *u, const char *path);
/* Opens a checkpoint, borrowed; fails if it is damaged. */
VaeStatus unfinished_checkpoint(Unfinished *u, const VaeTensorFile *file,
                                VaeError *error);
void unfinished_close(Unfinished *u);
void unfinished_print(const Unfinished *u);
json_t *unfinished_json(const Unfinished *u); /* the caller frees it */

#endif
