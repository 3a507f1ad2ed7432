/*
 * info.c: prints the content of a file.
 */
#include <jansson.h>
#include <string.h>

#include "tool.h"
#include "vae-private/settings.h"
#include "vae-private/spaces.h"

typedef struct Info {
    const char *path;
    VaeTensorFile *file;
    VaeModel *model; /* NULL: no weights of a known model */
    char fingerprint[65];
    VaeError why_no_model;
    VaeLatentClip clip;
    bool has_clip, layout_stated;
    VaeError why_no_clip;
    long long sequences;        /* of the clip */
    const VaeTensorInfo *video; /* NULL: none, or a model or latents */
    Unfinished unfinished;      /* if is_unfinished */
    bool is_unfinished;
} Info;

static json_t *
steps_json(const VaeSteps *s)
{
    return json_pack("{s:i, s:i, s:i, s:i}", "first_in", s->first_in,
                     "first_out", s->first_out, "step_in", s->step_in,
                     "step_out", s->step_out);
}

static json_t *
floats_json(const float *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real((double) v[i]));
    return list;
}

/* The formula for the frames of n latents. */
static const char *
frame_rule(const VaeModelInfo *m, char *text, size_t size)
{
    int n = snprintf(text, size, "%d + %d (n - 1)", m->decode.first_out,
                     m->decode.step_out);
    if (m->chunk)
        snprintf(text + n, size - (size_t) n, " - %d floor((n - 1) / %d)",
                 m->decode.step_out - m->decode.first_out, m->chunk);
    return text;
}

static json_t *
model_json(const VaeModel *model, const char *hash)
{
    const VaeModelInfo *m = vae_model_info(model);
    const int c = m->latent_channels;
    char rule[64];
    return json_pack(
        "{s:s, s:s?, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:b, s:o, s:o, s:o, "
        "s:o, s:[f, f], s:[i, i], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:s, "
        "s:s}",
        "arch", m->arch, "latent_space", m->space, "names", m->names, "reason",
        m->reason, "latent_channels", c, "spatial", m->spatial, "temporal",
        m->temporal, "decoder", m->has_decoder, "encoder", m->has_encoder,
        "posterior", m->has_posterior, "decode", steps_json(&m->decode),
        "encode", steps_json(&m->encode), "mean", floats_json(m->mean, c),
        "std", floats_json(m->std, c), "pixel_range", (double) m->pixel_low,
        (double) m->pixel_high, "framerate", m->fps_n, m->fps_d, "type",
        vae_type_name(m->weights_type), "tensors", (json_int_t) m->tensor_count,
        "bytes", (json_int_t) m->weights_bytes, "decoder_tensors",
        (json_int_t) m->decoder_tensors, "decoder_bytes",
        (json_int_t) m->decoder_bytes, "encoder_tensors",
        (json_int_t) m->encoder_tensors, "encoder_bytes",
        (json_int_t) m->encoder_bytes, "chunk", m->chunk, "frames_of_n_latents",
        frame_rule(m, rule, sizeof rule), "fingerprint", hash);
}

/* The normalization; in a known space also that of files of ComfyUI. */
static const char *
normalization_of(const VaeLatentClip *c)
{
    return vae_normalization_name(
        vae_space_find(c->space)
            ? vae_space_normalization(c->space, c->normalization)
            : c->normalization);
}

static json_t *
clip_json(const Info *in)
{
    const VaeLatentClip *c = &in->clip;
    json_t *clip = json_pack(
        "{s:s, s:b, s:s, s:s, s:i, s:i, s:i, s:i, s:s?, s:s, s:b, s:I}",
        "layout", vae_layout_name(c), "layout_stated", in->layout_stated,
        "tensor", c->tensor, "type", vae_type_name(c->stored), "latents", c->t,
        "channels", c->channels, "height", c->height, "width", c->width,
        "latent_space", c->space, "normalization", normalization_of(c),
        "normalization_stated", c->normalization_stated, "batch",
        (json_int_t) c->batch);
    if (c->width_px > 0)
        json_object_update_new(clip, json_pack("{s:i, s:i}", "video_width",
                                               c->width_px, "video_height",
                                               c->height_px));
    if (c->frames > 0)
        json_object_set_new(clip, "frames",
                            json_integer((json_int_t) c->frames));
    if (c->fps_n > 0)
        json_object_set_new(clip, "framerate",
                            json_pack("[i, i]", c->fps_n, c->fps_d));
    return clip;
}

static json_t *
video_json(const VaeTensorFile *file, const VaeTensorInfo *v)
{
    VideoRange range;
    int n, d;
    json_t *video = json_pack(
        "{s:s, s:s, s:I, s:I, s:I}", "tensor", v->name, "type",
        vae_type_name(v->type), "frames", (json_int_t) v->dims[0], "width",
        (json_int_t) v->dims[2], "height", (json_int_t) v->dims[1]);
    VaeError why;
    if (video_range(file, &range))
        json_object_set_new(
            video, "pixel_range",
            json_pack("[f, f]", (double) range.low, (double) range.high));
    else if (video_range_check(file, NULL, false, &why) != VAE_OK)
        json_object_set_new(video, "pixel_range_error",
                            json_string(why.message));
    if (vae_tensor_file_framerate(file, NULL, &n, &d, &why) != VAE_OK)
        json_object_set_new(video, "framerate_error", json_string(why.message));
    else if (n > 0)
        json_object_set_new(video, "framerate", json_pack("[i, i]", n, d));
    return video;
}

static json_t *
metadata_json(const VaeTensorFile *file)
{
    json_t *all = json_object();
    VaeMetadata m;
    for (size_t i = 0; vae_tensor_file_metadata_at(file, i, &m); i++)
        json_object_set_new(all, m.key, json_string(m.value));
    return all;
}

static json_t *
tensors_json(const VaeTensorFile *file)
{
    json_t *list = json_array();
    const size_t n = vae_tensor_file_count(file);
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        json_t *shape = json_array();
        for (int k = 0; k < t->n_dims; k++)
            json_array_append_new(shape, json_integer(t->dims[k]));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:I, s:b}", "name", t->name,
                            "type", t->type_name, "shape", shape, "bytes",
                            (json_int_t) t->bytes, "contiguous", !t->strided));
    }
    return list;
}

static int
print_json(const Info *in, bool tensors)
{
    json_t *root = json_object();
    json_object_set_new(root, "file", json_string(in->path));
    if (in->is_unfinished)
        json_object_set_new(root, "unfinished",
                            unfinished_json(&in->unfinished));
    else if (in->model)
        json_object_set_new(root, "model",
                            model_json(in->model, in->fingerprint));
    else if (!in->has_clip && !in->video)
        json_object_set_new(root, "no_model",
                            json_string(in->why_no_model.message));
    if (in->has_clip) {
        json_object_set_new(root, "latents", clip_json(in));
        json_object_set_new(root, "sequences", json_integer(in->sequences));
    }
    if (in->video)
        json_object_set_new(root, "video", video_json(in->file, in->video));
    json_object_set_new(root, "metadata", metadata_json(in->file));
    json_object_set_new(
        root, "tensor_count",
        json_integer((json_int_t) vae_tensor_file_count(in->file)));
    if (tensors)
        json_object_set_new(root, "tensors", tensors_json(in->file));
    const int failed =
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_ENSURE_ASCII);
    printf("\n");
    json_decref(root);
    return failed ? fail_text("%s: cannot be written as JSON", in->path)
                  : EXIT_OK;
}

static void
print_steps(const char *direction, const char *in, const char *out,
            const VaeSteps *s)
{
    printf("  %s: %s to %s, then %d to %d", direction,
           VAE_COUNTED(s->first_in, in), VAE_COUNTED(s->first_out, out),
           s->step_in, s->step_out);
}

static void
print_weights(size_t tensors, uint64_t bytes)
{
    char text[32];
    printf("; %s, %s\n", VAE_COUNTED(tensors, "tensor"),
           bytes_text(bytes, text, sizeof text));
}

static int
history(const VaeModel *model, VaeDirection direction)
{
    int steps;
    return vae_model_history(model, direction, &steps, NULL) == VAE_OK ? steps
                                                                       : -1;
}

static void
print_reach(int steps, const char *unit, const char *to)
{
    if (steps == VAE_FROM_START)
        printf(" to the start of the sequence to %s", to);
    else if (steps >= 0)
        printf(" %d%s to %s", steps, unit, to);
}

static void
print_history(const VaeModel *model)
{
    const int decode = history(model, VAE_DECODE);
    const int encode = history(model, VAE_ENCODE);
    printf("  looks back");
    print_reach(decode, decode == 1 ? " latent" : " latents", "decode");
    if (decode >= 0 && encode >= 0)
        printf(",");
    print_reach(encode, "", "encode");
    printf("\n");
}

static void
print_tiles(void)
{
    const VaeWord *words = vae_setting_find("tile_plan")->words;
    printf("  exact in tiles of latents:");
    for (int i = 0; words[i].word; i++) {
        const VaeTileLatents tile = vae_tile_latents(i);
        printf("%s %d, one every %d (tile-plan %s)", i ? "," : "", tile.size,
               tile.stride, words[i].word);
    }
    printf("\n");
}

/* Of the sides that the model has. */
static void
print_alpha(const VaeModelInfo *m)
{
    const int out = m->has_decoder ? m->out_channels : 0;
    const int in = m->has_encoder ? m->in_channels : 0;
    if (out != 4 && in != 4)
        return;
    printf("  pictures have alpha:");
    if (out)
        printf(" %d channels to decode%s", out, in ? "," : "");
    if (in)
        printf(" %d channels to encode", in);
    printf("\n");
}

static void
print_model(const VaeModel *model, const char *hash)
{
    const VaeModelInfo *m = vae_model_info(model);
    char text[65];
    Plain words;
    char line[1024];
    snprintf(line, sizeof line, "model: %s (%s names; recognised by %s)",
             m->arch, m->names, m->reason);
    print_plain(line);
    printf("  latent space %s, %s, %dx%d pixels and %s per latent\n",
           m->space ? plain(m->space, &words) : "not stated",
           VAE_COUNTED(m->latent_channels, "channel"), m->spatial, m->spatial,
           VAE_COUNTED(m->temporal, "frame"));
    if (m->has_decoder) {
        print_steps("decode", "latent", "frame", &m->decode);
        print_weights(m->decoder_tensors, m->decoder_bytes);
    } else {
        printf("  no decoder\n");
    }
    if (m->has_encoder) {
        print_steps("encode", "frame", "latent", &m->encode);
        printf("; %s posterior", m->has_posterior ? "with" : "no");
        print_weights(m->encoder_tensors, m->encoder_bytes);
    } else {
        printf("  no encoder\n");
    }
    print_alpha(m);
    printf("  n latents are %s frames\n", frame_rule(m, text, sizeof text));
    if (m->chunk)
        printf(
            "  latents come in chunks of %d; the first of each is %d frame\n",
            m->chunk, m->decode.first_out);
    if (m->in_tiles)
        print_tiles();
    print_history(model);
    printf("  pixels %g..%g, %d/%d frames per second when nothing states "
           "them\n",
           (double) m->pixel_low, (double) m->pixel_high, m->fps_n, m->fps_d);
    printf("  %s, mostly %s, %s\n", VAE_COUNTED(m->tensor_count, "tensor"),
           vae_type_name(m->weights_type),
           bytes_text(m->weights_bytes, text, sizeof text));
    printf("  fingerprint %s\n", hash);
}

/* Most pixels of a latent in each direction. */
enum { MOST = 64 };

/* Prints the video's properties as stated, with a remark if impossible. */
static void
print_stated(const VaeLatentClip *c)
{
    if (c->fps_n > 0)
        printf("  %d/%d frames per second\n", c->fps_n, c->fps_d);
    if (c->width_px > 0)
        printf("  video %dx%d%s\n", c->width_px, c->height_px,
               c->width_px <= MOST * c->width &&
                       c->height_px <= MOST * c->height
                   ? ""
                   : " as stated, more than such latents can be");
    if (c->frames > 0)
        printf("  %s\n", VAE_COUNTED(c->frames, "frame"));
}

/* Without a statement, also tells the other layout. */
static void
print_layout(const Info *in)
{
    const VaeLatentClip *c = &in->clip;
    const char *layout = vae_layout_name(c);
    printf("  layout %s", layout);
    if (!in->layout_stated)
        printf(" (not stated; %s would be %s of %s)",
               *layout == 't' ? "cthw" : "tchw",
               VAE_COUNTED(c->channels, "latent"),
               VAE_COUNTED(c->t, "channel"));
    printf("\n");
}

static void
print_clip(const Info *in)
{
    const VaeLatentClip *c = &in->clip;
    Plain words;
    printf("latents: tensor \"%s\", %s, %s of %s, %dx%d\n",
           plain(c->tensor, &words), vae_type_name(c->stored),
           VAE_COUNTED(c->t, "latent"), VAE_COUNTED(c->channels, "channel"),
           c->width, c->height);
    if (c->batch > 1)
        printf("  a batch of %lld clips, each of that size\n",
               (long long) c->batch);
    print_layout(in);
    const bool unknown = c->space && !vae_space_find(c->space);
    const VaeSpace *like = unknown ? vae_space_nearest(c->space) : NULL;
    printf("  latent space %s%s%s%s, %s%s\n",
           c->space ? plain(c->space, &words) : "not stated",
           !unknown ? ""
           : like   ? ", which is not known (the nearest is "
                    : ", which is not known (vaetool info --spaces lists all",
           like ? like->name : "", unknown ? ")" : "", normalization_of(c),
           normalization_note(c));
    const char *recording = vae_tensor_file_metadata(in->file, "vae.recording");
    if (recording && strcmp(recording, "open") == 0)
        printf("  the recording did not end, so its complete latents count\n");
    print_stated(c);
}

static void
print_metadata(const VaeTensorFile *file)
{
    VaeMetadata m;
    Plain key, value;
    for (size_t i = 0; vae_tensor_file_metadata_at(file, i, &m); i++)
        printf("%s  %s = %s\n", i ? "" : "metadata:\n", plain(m.key, &key),
               plain(m.value, &value));
}

static void
print_tensors(const VaeTensorFile *file)
{
    const size_t n = vae_tensor_file_count(file);
    char text[128];
    Plain name, type;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        printf("  %-48s %-5s %s%s\n", plain(t->name, &name),
               plain(t->type_name, &type),
               t->n_dims ? vae_dims_text(t->dims, t->n_dims, text, sizeof text)
                         : "scalar",
               t->supported ? ""
               : t->strided ? " (not contiguous)"
                            : " (type not supported)");
    }
}

static void
print_video(const VaeTensorFile *file, const VaeTensorInfo *v)
{
    VideoRange range;
    VaeError why;
    Plain name;
    int n, d;
    printf("video: tensor \"%s\", %s, %s of %lldx%lld\n", plain(v->name, &name),
           vae_type_name(v->type), VAE_COUNTED(v->dims[0], "frame"),
           (long long) v->dims[2], (long long) v->dims[1]);
    if (video_range(file, &range))
        printf("  pixels %g..%g\n", (double) range.low, (double) range.high);
    else if (video_range_check(file, NULL, false, &why) != VAE_OK)
        printf("  not valid: %s\n", plain(why.message, &name));
    if (vae_tensor_file_framerate(file, NULL, &n, &d, &why) != VAE_OK)
        printf("  not valid: %s\n", plain(why.message, &name));
    else if (n > 0)
        printf("  %d/%d frames per second\n", n, d);
}

/* True for weights that do not open as a model. */
static bool
is_weights(const Info *in)
{
    return strstr(vae_tensor_file_looks_like(in->file), "weights");
}

static void
print_text(const Info *in, bool tensors)
{
    const VaeTensorInfo *v = in->video;
    print_plain(in->path);
    if (in->is_unfinished)
        unfinished_print(&in->unfinished);
    else if (in->model)
        print_model(in->model, in->fingerprint);
    else if (in->has_clip) {
        print_clip(in);
        if (in->sequences > 1)
            printf("  %lld sequences, each decoded without those before it\n",
                   in->sequences);
    } else if (v)
        print_video(in->file, v);
    else if (is_weights(in))
        printf("no model: %s\n", in->why_no_model.message);
    else
        printf("no model: %s\nno latents: %s\n", in->why_no_model.message,
               in->why_no_clip.message);
    if (in->file != in->unfinished.checkpoint) /* whose entries were told */
        print_metadata(in->file);
    const size_t n = vae_tensor_file_count(in->file);
    printf("tensors: %zu%s\n", n,
           tensors || n == 0 ? "" : " (--tensors lists them)");
    if (tensors)
        print_tensors(in->file);
}

/* Finds weights, latents or frames in the file. */
static void
recognise(const Options *o, Info *in)
{
    const VaeModelOptions options = {.struct_size = sizeof(VaeModelOptions),
                                     .variant = o->variant};
    Options reading = *o;
    const VaeTensorInfo *table = NULL;
    VaeError *why = &in->why_no_clip;
    if (vae_model_open(in->path, &options, &in->model, &in->why_no_model) !=
        VAE_OK)
        in->model = NULL;
    /* the clips of a batch have the same properties */
    if (o->batch_index < 0)
        reading.batch_index = 0;
    in->has_clip =
        !in->model &&
        find_clip(&reading, in->file, NULL, &in->clip, why) == VAE_OK &&
        vae_latent_sequences_find(in->file, &in->clip, &table, why) == VAE_OK;
    in->layout_stated =
        o->layout != VAE_LAYOUT_AUTO ||
        vae_tensor_file_metadata(in->file, "vae.layout") ||
        (in->has_clip &&
         vae_tensor_file_find(in->file, in->clip.tensor)->n_dims == 3);
    in->sequences = in->has_clip && table ? (long long) table->dims[0] : 1;
    if (!in->model)
        in->video = find_video(in->file, o->tensor);
    if (in->video && !is_any_video(in->video))
        in->video = NULL;
    /* A tensor can fit both. Without a stated layout it is video, because few
     * latents are three pixels wide. */
    if (in->has_clip && in->video) {
        in->has_clip = vae_tensor_file_metadata(in->file, "vae.layout") ||
                       strcmp(in->clip.tensor, in->video->name) != 0;
        in->video = in->has_clip ? NULL : in->video;
    }
}

/* Opens the file, which may be an incomplete OUT.part. */
static VaeStatus
open_file(Info *in, VaeError *error)
{
    in->is_unfinished = unfinished_part(&in->unfinished, in->path);
    if (in->is_unfinished) {
        in->file = in->unfinished.part;
        return VAE_OK;
    }
    const VaeStatus status = vae_tensor_file_open(in->path, &in->file, error);
    if (status != VAE_OK ||
        !vae_tensor_file_metadata(in->file, "vae.checkpoint"))
        return status;
    in->is_unfinished = true;
    return unfinished_checkpoint(&in->unfinished, in->file, error);
}

static json_t *
space_json(const VaeSpace *s)
{
    json_t *row =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s}", "name", s->name,
                  "channels", s->channels, "spatial", s->spatial, "temporal",
                  s->counts.temporal, "chunk", s->counts.chunk, "framerate",
                  s->fps, "comfyui", vae_normalization_name(s->comfyui));
    if (s->std) {
        json_object_set_new(row, "mean", floats_json(s->mean, s->channels));
        json_object_set_new(row, "std", floats_json(s->std, s->channels));
    } else if (s->factor > 0) {
        json_object_set_new(row, "factor", json_real((double) s->factor));
        json_object_set_new(row, "shift", json_real((double) s->shift));
    }
    return row;
}

/* Prints the table of latent spaces, one row a line. */
static int
print_spaces(bool json)
{
    const VaeSpace *s;
    for (size_t i = 0; (s = vae_space_at(i)); i++) {
        json_t *row = json ? space_json(s) : NULL;
        if (row) {
            fputs(i ? ",\n" : "[\n", stdout);
            json_dumpf(row, stdout, JSON_REAL_PRECISION(7));
            json_decref(row);
            continue;
        }
        printf("%s: %d channels, %dx%d pixels and %s per latent, usually %d "
               "frames per second; %s in files of ComfyUI\n",
               s->name, s->channels, s->spatial, s->spatial,
               VAE_COUNTED(s->counts.temporal, "frame"), s->fps,
               vae_normalization_name(s->comfyui));
    }
    fputs(json ? "\n]\n" : "", stdout);
    return EXIT_OK;
}

int
command_info(const Options *o)
{
    if (o->spaces)
        return print_spaces(o->json);
    Info in = {.path = o->argument[0]};
    VaeError error;
    int code = EXIT_OK;
    VaeStatus status = open_file(&in, &error);
    if (status == VAE_OK && !in.is_unfinished)
        recognise(o, &in);
    if (status == VAE_OK && in.model)
        status = vae_model_fingerprint(in.model, in.fingerprint, &error);
    if (status != VAE_OK)
        code = fail(&error);
    else if (o->json)
        code = print_json(&in, o->tensors);
    else
        print_text(&in, o->tensors);
    if (code == EXIT_OK && !in.model && !in.has_clip && !in.video &&
        !in.is_unfinished)
        code = o->variant || is_weights(&in) ? fail(&in.why_no_model)
               : in.why_no_clip.status == VAE_ERR_FORMAT
                   ? fail(&in.why_no_clip)
                   : fail_text("%s: has no weights, latents or frames that are "
                               "known",
                               in.path);
    if (in.file == in.unfinished.part)
        in.file = NULL;
    unfinished_close(&in.unfinished);
    vae_model_free(&in.model);
    vae_tensor_file_free(&in.file);
    return code;
}
