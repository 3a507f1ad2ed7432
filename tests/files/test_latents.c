/*
 * Finds the latent clip among a file's tensors, the order of its axes, and the
 * metadata that describes it.
 */
#include "test.h"

typedef struct Case {
    const char *what;
    const char *tensors; /* "name DTYPE d,d,d", with "; " between them */
    const char *words;   /* in the message, or the result of describe() */
    VaeStatus status;
    const char *metadata;   /* the inside of __metadata__, or NULL */
    const char *name;       /* of the tensor that the caller asks for */
    VaeLatentLayout layout; /* 0: automatic */
    int item;               /* of the batch, from 1; 0: the caller names none */
    int channels, temporal, chunk; /* of the model, or 0 */
    const char *space;             /* that the caller names */
    const char *warning; /* words of the warning; NULL: there is none */
} Case;

#define MARK "latent_format_version_0 F16 0"
#define ROWS "latent_sequences U8 3,16"

static const Case good[] = {
    {"5-D", "x F16 1,16,3,4,5", "x t3 c16 4x5 at 0 by 20 60"},
    {"4-D", "x F16 16,3,4,5", "x t3 c16 4x5 at 0 by 20 60"},
    {"4-D, time first", "x F16 3,16,4,5", "x t3 c16 4x5 at 0 by 320 20"},
    {"both known", "x F16 16,48,4,5", "x t48 c16 4x5 at 0 by 20 960 guessed"},
    {"four latents of a video", "x F16 4,16,4,5",
     "x t4 c16 4x5 at 0 by 320 20 guessed"},
    {"five images or four latents", "x F16 5,4,6,7",
     "x t4 c5 6x7 at 0 by 42 168 guessed"},
    {"a video or four channels", "x F16 16,4,6,7",
     "x t4 c16 6x7 at 0 by 42 168 guessed"},
    {"the named space has the second", "x F16 16,4,4,5",
     "x t16 c4 4x5 at 0 by 80 20", .space = "sd"},
    {"the named space has both, images", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 320 20 guessed", .space = "flux1"},
    {"the named space has both, video", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 20 320 guessed", .space = "wan2.1"},
    {"the named space has none", "x F16 16,3,4,5",
     "x t3 c16 4x5 at 0 by 20 60 guessed", .space = "sd"},
    {"the space of the file over the named one", "x F16 16,4,4,5",
     "x t16 c4 4x5 at 0 by 80 20", .metadata = "\"vae.latent_space\":\"sd\"",
     .space = "wan2.1"},
    {"the model over the space", "x F16 16,4,4,5", "x t4 c16 4x5 at 0 by 20 80",
     .space = "sd", .channels = 16, .temporal = 4},
    {"more images than channels can be", "x F16 1025,4,2,2",
     "x t1025 c4 2x2 at 0 by 16 4"},
    {"the model has the second", "x F16 16,4,4,5", "x t16 c4 4x5 at 0 by 80 20",
     .channels = 4, .temporal = 1},
    {"the model has the first", "x F16 4,16,4,5", "x t16 c4 4x5 at 0 by 20 320",
     .channels = 4, .temporal = 1},
    {"the model has both, images", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 320 20 guessed", .channels = 16, .temporal = 1},
    {"the model has both, video", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 20 320 guessed", .channels = 16, .temporal = 4},
    {"both known, and a guess of who wrote it", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 320 20 guessed", .space = "wan2.1",
     .metadata = "\"vae.layout_guess\":\"tchw\""},
    {"the model over a guess", "x F16 16,4,4,5", "x t4 c16 4x5 at 0 by 20 80",
     .metadata = "\"vae.layout_guess\":\"tchw\"", .channels = 16,
     .temporal = 4},
    {"a guess that cannot be read", "x F16 16,16,4,5",
     "x t16 c16 4x5 at 0 by 20 320 guessed", .space = "wan2.1",
     .metadata = "\"vae.layout_guess\":\"maybe\"",
     .warning = "vae.layout_guess is \"maybe\", expected cthw or tchw; it is"},
    {"the caller over a guess", "x F16 16,3,4,5", "x t3 c16 4x5 at 0 by 20 60",
     .layout = VAE_LAYOUT_CTHW, .metadata = "\"vae.layout_guess\":\"tchw\""},
    {"none known", "x F16 5,7,4,5", "x t7 c5 4x5 at 0 by 20 140 guessed"},
    {"another space, the channels of the model last", "x F16 16,3,4,4",
     "x t3 c16 4x4 at 0 by 16 48", .channels = 4, .temporal = 1},
    {"the model has none", "x F16 3,8,10,7", "x t8 c3 10x7 at 0 by 70 560",
     .channels = 16, .temporal = 4},
    {"metadata over the guess", "x F16 16,48,4,5",
     "x t16 c48 4x5 at 0 by 960 20", .metadata = "\"vae.layout\":\"tchw\""},
    {"metadata over the other guess", "x F16 3,16,4,5",
     "x t16 c3 4x5 at 0 by 20 320", .metadata = "\"vae.layout\":\"cthw\""},
    {"5-D, time before channels", "x F16 1,3,16,4,5",
     "x t3 c16 4x5 at 0 by 320 20", .metadata = "\"vae.layout\":\"tchw\""},
    {"5-D keeps its order", "x F16 1,3,16,4,5", "x t16 c3 4x5 at 0 by 20 320"},
    {"the caller over the metadata", "x F16 16,48,4,5",
     "x t48 c16 4x5 at 0 by 20 960", .metadata = "\"vae.layout\":\"tchw\"",
     .layout = VAE_LAYOUT_CTHW,
     .warning = "f states layout tchw; layout cthw overrides it"},
    {"second of a batch", "x F16 2,16,3,4,5", "x t3 c16 4x5 at 960 by 20 60",
     .item = 2},
    {"first of a batch", "x F16 2,16,3,4,5", "x t3 c16 4x5 at 0 by 20 60",
     .item = 1},
    {"the only 4-D or 5-D one", "a F16 2,2,2; x F16 16,1,1,1; b F32 4",
     "x t1 c16 1x1 at 8 by 1 1"},
    {"latent goes first",
     "samples F16 16,1,1,1; latents F16 16,1,1,1; latent F16 16,1,1,1",
     "latent t1 c16 1x1 at 32 by 1 1",
     .warning = "\"latent\" is taken, but \"latents\" and \"samples\" may "
                "also be latents: to choose another one, set tensor"},
    {"then latents",
     "latent_tensor F16 16,1,1,1; samples F16 16,1,1,1; latents F16 16,1,1,1",
     "latents t1 c16 1x1 at 32 by 1 1",
     .warning = "\"latents\" is taken, but \"samples\" and \"latent_tensor\""},
    {"then samples", "latent_tensor F16 16,1,1,1; samples F16 16,1,1,1",
     "samples t1 c16 1x1 at 16 by 1 1",
     .warning = "\"samples\" is taken, but \"latent_tensor\" may"},
    {"a name of latents among others",
     "mask F16 1,1,8,8; samples F16 16,1,1,1; latents F16 2",
     "samples t1 c16 1x1 at 64 by 1 1"},
    {"a named one", "latent F16 16,1,1,1; b F16 16,2,1,1",
     "b t2 c16 1x1 at 16 by 1 2", .name = "b"},
    {"a file of ComfyUI", "latent_tensor F16 1,16,1,1,1; " MARK,
     "latent_tensor t1 c16 1x1 at 0 by 1 1 comfyui"},
    {"an image of ComfyUI", "latent_tensor F16 1,16,2,3; " MARK,
     "latent_tensor t1 c16 2x3 at 0 by 96 6 comfyui"},
    {"images of ComfyUI", "latent_tensor F16 16,16,2,3; " MARK,
     "latent_tensor t16 c16 2x3 at 0 by 96 6 comfyui"},
    {"images of ComfyUI, a model of video",
     "latent_tensor F16 16,16,2,3; " MARK,
     "latent_tensor t16 c16 2x3 at 0 by 96 6 comfyui guessed", .channels = 16,
     .temporal = 4},
    {"three images of ComfyUI, a model of video",
     "latent_tensor F16 3,16,2,3; " MARK,
     "latent_tensor t3 c16 2x3 at 0 by 96 6 comfyui guessed",
     .space = "wan2.1"},
    {"their layout", "latent_tensor F16 3,16,2,3; " MARK,
     "latent_tensor t3 c16 2x3 at 0 by 96 6 comfyui", .space = "wan2.1",
     .layout = VAE_LAYOUT_TCHW},
    {"latents of width 3 for the model", "x F16 1,4,8,3",
     "x t1 c4 8x3 at 0 by 96 24", .channels = 4, .temporal = 1},
    {"latents of width 3 of the named space", "x F16 4,1,2,3",
     "x t1 c4 2x3 at 0 by 6 6", .space = "sd"},
    {"latents of width 3 in a layout", "x F16 5,7,2,3",
     "x t7 c5 2x3 at 0 by 6 42", .layout = VAE_LAYOUT_CTHW},
    {"without its mark it is not", "latent_tensor F16 16,1,1,1",
     "latent_tensor t1 c16 1x1 at 0 by 1 1",
     .warning = "no latent_format_version_0: it is taken as normalized"},
    {"fewer frames than any latents have", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.frames\":\"2\"",
     .warning = "expected 3 to 129 for 3 latents of any network; it is"},
    {"more frames than any latents have", "x F16 16,1,1,1",
     "x t1 c16 1x1 at 0 by 1 1", .metadata = "\"vae.frames\":\"5000000000\"",
     .warning = "\"5000000000\", expected 1 for 1 latent of any network"},
    {"frames past 63 bits", "x F16 16,1,1,1", "x t1 c16 1x1 at 0 by 1 1",
     .metadata = "\"vae.frames\":\"9223372036854775808\"",
     .warning = "\"9223372036854775808\", expected 1 for 1 latent of any"},
    {"frames that are no number", "x F16 16,3,1,1", "x t3 c16 1x1 at 0 by 1 3",
     .metadata = "\"vae.frames\":\"abc\"", .space = "wan2.1",
     .warning = "vae.frames is \"abc\", expected 6 to 9 for 3 latents of "
                "wan2.1; it is ignored"},
    {"as many frames as some latents have", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3 frames 99", .metadata = "\"vae.frames\":\"99\""},
    {"too many frames for the named space", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.frames\":\"99\"",
     .space = "wan2.1", .warning = "expected 6 to 9 for 3 latents of wan2.1"},
    {"too many frames for the model", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.frames\":\"10\"",
     .channels = 16, .temporal = 4,
     .warning = "expected 6 to 9 for 3 latents of the model"},
    {"too few frames for the model", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.frames\":\"5\"",
     .channels = 16, .temporal = 4, .warning = "expected 6 to 9"},
    {"frames of a model with chunks", "x F16 16,6,1,1",
     "x t6 c16 1x1 at 0 by 1 6 frames 18", .metadata = "\"vae.frames\":\"18\"",
     .channels = 16, .temporal = 4, .chunk = 5},
    {"frames that the temporal factor allows", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3 frames 17",
     .metadata = "\"vae.frames\":\"17\",\"vae.temporal_factor\":\"8\""},
    {"frames that it does not allow", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3",
     .metadata = "\"vae.frames\":\"18\",\"vae.temporal_factor\":\"8\"",
     .warning = "10 to 17 for 3 latents of the stated vae.temporal_factor"},
    {"a temporal factor of another model", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.temporal_factor\":\"8\"",
     .channels = 16, .temporal = 4,
     .warning =
         "vae.temporal_factor is \"8\", expected 4, as the model has; it"},
    {"the temporal factor of the model", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.temporal_factor\":\"4\"",
     .channels = 16, .temporal = 4},
    {"a temporal factor that cannot be read", "x F16 16,3,1,1",
     "x t3 c16 1x1 at 0 by 1 3", .metadata = "\"vae.temporal_factor\":\"x\"",
     .warning = "vae.temporal_factor is \"x\", expected a number from 1 to 64"},
    {"frames of sequences of one latent", "x F16 16,3,1,1; " ROWS,
     "x t3 c16 1x1 at 0 by 1 3 frames 3", .metadata = "\"vae.frames\":\"3\"",
     .channels = 16, .temporal = 4},
    {"the mark means its own tensor", "latent F16 16,1,1,1; " MARK,
     "latent t1 c16 1x1 at 0 by 1 1"},
    {"metadata over ComfyUI", "latent_tensor F16 16,1,1,1; " MARK,
     "latent_tensor t1 c16 1x1 at 0 by 1 1 stated",
     .metadata = "\"vae.normalization\":\"normalized\""},
    {"metadata says raw", "x F16 16,1,1,1",
     "x t1 c16 1x1 at 0 by 1 1 raw stated",
     .metadata = "\"vae.normalization\":\"raw\""},
    {"metadata, and the mean of a posterior",
     "latent F16 16,1,1,1; mean F16 16,1,1,1; logvar F16 16,1,1,1",
     "mean t1 c16 1x1 at 16 by 1 1 raw stated", .name = "mean",
     .metadata = "\"vae.normalization\":\"normalized\""},
    {"metadata says comfyui", "x F16 16,1,1,1",
     "x t1 c16 1x1 at 0 by 1 1 comfyui stated",
     .metadata = "\"vae.normalization\":\"comfyui\""},
    {"float64", "x F64 16,2,1,1", "x t2 c16 1x1 at 0 by 4 8"},
    {"one latent", "x F16 16,4,5; y F16 16", "x t1 c16 4x5 at 0 by 20 20"},
    {"one latent of a model, whatever the layout", "x F16 16,4,5",
     "x t1 c16 4x5 at 0 by 20 20", .layout = VAE_LAYOUT_TCHW, .channels = 16,
     .temporal = 4},
    {"4-D before 3-D", "x F16 16,4,5; y F16 16,1,4,5",
     "y t1 c16 4x5 at 320 by 20 20"},
    {"a named one among weights", "a.weight F16 4,4,3,3; z F16 16,1,1,1",
     "z t1 c16 1x1 at 144 by 1 1", .name = "z"},
};

static const Case bad[] = {
    {"batch", "x F16 2,16,3,4,5", "\"x\"|batch of 2", VAE_ERR_SIZE},
    {"batch index too large", "x F16 2,16,3,4,5",
     "batch of 2|batch index is 2, expected 0 to 1", VAE_ERR_SIZE, .item = 3},
    {"batch index without a batch", "x F16 16,3,4,5",
     "4 dimensions, which are the latents of one clip or of several pictures",
     VAE_ERR_SIZE, .item = 2},
    {"batch index past a batch of 1", "x F16 1,16,3,4,5",
     "batch of 1|batch index is 1, expected 0 to 0", VAE_ERR_SIZE, .item = 2},
    {"batch of none", "x F16 0,16,3,4,5", "batch of 0", VAE_ERR_SIZE},
    {"several", "x F16 16,1,1,1; y F16 16,1,1,1",
     "several|\"x\" 16x1x1x1, \"y\"", VAE_ERR_NOT_FOUND},
    {"none", "x F16 16; y F16 2,2",
     "no latent tensor; found \"x\" 16, \"y\" 2x2", VAE_ERR_NOT_FOUND},
    {"an empty file", "", "has no tensors, expected one with latents",
     VAE_ERR_NOT_FOUND},
    {"a name that is not there", "x F16 16,1,1,1",
     "no tensor named y; found \"x\"", VAE_ERR_NOT_FOUND, .name = "y"},
    {"weights", "conv.weight F16 16,16,3,3; conv.bias F16 16",
     "looks like model weights|\"conv.weight\"", VAE_ERR_NOT_FOUND},
    {"one large weight", "conv.weight F16 16,16,3,3",
     "looks like model weights", VAE_ERR_NOT_FOUND},
    {"a weight of as many channels as the model", "conv.weight F16 16,4,3,3",
     "looks like model weights", VAE_ERR_NOT_FOUND, .channels = 4,
     .temporal = 1},
    {"frames", "frames F32 5,32,48,3", "looks like frames|\"frames\" 5x32x48x3",
     VAE_ERR_NOT_FOUND},
    {"8-bit frames", "video_u8 U8 5,32,48,3; x F16 2", "looks like frames",
     VAE_ERR_NOT_FOUND},
    {"frames without a name", "x F16 5,40,50,3", "looks like frames",
     VAE_ERR_NOT_FOUND},
    {"2-D", "x F16 16,4",
     "2 dimensions (16x4), expected [C, h, w] of one latent, or 4 or 5",
     VAE_ERR_SIZE},
    {"tokens", "x F16 1,1560,64",
     "[1, N, C] are tokens of a transformer, which its pipeline unpacks",
     VAE_ERR_SIZE},
    {"3-D of other channels", "x F16 8,4,5",
     "has 8 channels as cthw, the model expects 16; if it is [B, N, C]",
     VAE_ERR_SIZE, .channels = 16, .temporal = 4},
    {"3-D, channels last", "x F16 8,10,4",
     "permute the tensor to [C, h, w], by moveaxis(x, -1, 0)", VAE_ERR_SIZE,
     .channels = 4, .temporal = 1},
    {"a batch index of 3-D", "x F16 16,4,5",
     "3 dimensions, which are the latents of one clip or of several pictures",
     VAE_ERR_SIZE, .item = 2},
    {"several of 3-D", "x F16 16,4,5; y F16 16,4,5",
     "no latent tensor|these are latents [C, h, w] of one clip",
     VAE_ERR_NOT_FOUND},
    {"channels last", "x F16 3,8,10,16",
     "\"x\" (3x8x10x16) has 3 channels as cthw, the model expects 16; the last "
     "dimension has 16: if these are the channels, permute the tensor to [C, "
     "T, h, w], by moveaxis(x, -1, "
     "0) of",
     VAE_ERR_SIZE, .channels = 16, .temporal = 4},
    {"channels last of a batch", "x F16 1,3,8,10,16",
     "permute the tensor to [B, C, T, h, w], by moveaxis(x, -1, 1)",
     VAE_ERR_SIZE, .channels = 16, .temporal = 4},
    {"one latent, channels last", "x F16 1,8,10,4",
     "permute the tensor to [C, T, h, w]", VAE_ERR_SIZE, .channels = 4,
     .temporal = 1},
    {"channels last, a wrong layout of the caller", "x F16 3,8,10,16",
     "has 8 channels as tchw|permute the tensor", VAE_ERR_SIZE,
     .layout = VAE_LAYOUT_TCHW, .channels = 16, .temporal = 4},
    {"the other layout of the caller", "x F16 16,3,8,10",
     "has 3 channels as tchw|has 16: if these are the channels, set layout to "
     "cthw",
     VAE_ERR_SIZE, .layout = VAE_LAYOUT_TCHW, .channels = 16, .temporal = 4},
    {"the other layout of the file", "x F16 16,3,8,10",
     "has 3 channels as tchw|has 16: if these are the channels, set layout to "
     "cthw",
     VAE_ERR_SIZE, .metadata = "\"vae.layout\":\"tchw\"", .channels = 16,
     .temporal = 4},
    {"5-D in the other order", "x F16 1,3,16,4,5",
     "has 3 channels as cthw|has 16: if these are the channels, set layout to "
     "tchw",
     VAE_ERR_SIZE, .channels = 16, .temporal = 4},
    {"a list of latents with a batch", "0 F16 1,16,4,5; 1 F16 1,16,4,5",
     "select one with tensor; found|if these are latents [1, C, h, w] of one "
     "clip, save them as one tensor [1, C, T, h, w], by stack(list, 2)",
     VAE_ERR_NOT_FOUND},
    {"a list of clips", "0 F16 1,16,1,4,5; 1 F16 1,16,3,4,5",
     "if these are parts [1, C, T, h, w] of one clip, save them as one tensor "
     "[1, C, T, h, w], by cat(list, 2)",
     VAE_ERR_NOT_FOUND},
    {"a list of latents", "0 F16 16,4,5; 1 F16 16,4,5",
     "\"1\" 16x4x5; if these are latents [C, h, w] of one clip, save them as "
     "one tensor [C, T, h, w], by stack(list, 1)",
     VAE_ERR_NOT_FOUND},
    {"latent of 6 dimensions", "latent F16 1,1,1,1,1,1; x F16 16,1,1,1",
     "\"latent\"|6 dimensions", VAE_ERR_SIZE},
    {"no float", "x U8 16,1,1,1", "type uint8, expected float32|x.float()",
     VAE_ERR_FORMAT},
    {"no type of ours", "x I64 16,1,1,1",
     "type int64|: convert it, by x.float()", VAE_ERR_FORMAT},
    {"height 0", "x F16 16,1,0,1", "16x1x0x1|height 0, expected 1 to 16384",
     VAE_ERR_SIZE},
    {"width too large", "x F16 16,1,1,16385", "width 16385", VAE_ERR_SIZE},
    {"channels too many", "x F16 1025,1,1,1", "channels 1025", VAE_ERR_SIZE},
    {"no latents", "x F16 16,0,1,1", "latents 0", VAE_ERR_SIZE},
    {"no such layout of the caller", "x F16 16,1,1,1",
     "layout 3, expected 0 to 2", VAE_ERR_ARGUMENT,
     .layout = (VaeLatentLayout) 3},
    {"no such clip of the caller", "x F16 16,1,1,1",
     "batch index -2, expected -1 or more", VAE_ERR_ARGUMENT, .item = -1},
    {"layout unknown", "x F16 16,1,1,1",
     "vae.layout is \"thwc\", expected cthw or tchw", VAE_ERR_FORMAT,
     .metadata = "\"vae.layout\":\"thwc\""},
    {"normalization unknown", "x F16 16,1,1,1", "\"maybe\"", VAE_ERR_FORMAT,
     .metadata = "\"vae.normalization\":\"maybe\""},
    {"rate without denominator", "x F16 16,1,1,1", "\"16\"", VAE_ERR_FORMAT,
     .metadata = "\"vae.framerate\":\"16\""},
    {"rate over 0", "x F16 16,1,1,1", "\"16/0\"", VAE_ERR_FORMAT,
     .metadata = "\"vae.framerate\":\"16/0\""},
    {"rate negative", "x F16 16,1,1,1", "\"-16/1\"", VAE_ERR_FORMAT,
     .metadata = "\"vae.framerate\":\"-16/1\""},
    {"width with a unit", "x F16 16,1,1,1", "vae.width|\"64px\"",
     VAE_ERR_FORMAT, .metadata = "\"vae.width\":\"64px\""},
    {"a width of too many pixels", "latent F32 1,16,3,8,8",
     "vae.width|\"1048577\"|expected a number from 1 to 1048576",
     VAE_ERR_FORMAT, .metadata = "\"vae.width\":\"1048577\""},
    {"height 0 in pixels", "x F16 16,1,1,1", "vae.height", VAE_ERR_FORMAT,
     .metadata = "\"vae.height\":\"0\""},
};

/* "name tT cC HxW at offset by t_stride c_stride", in elements of 2 bytes. */
static const char *
describe(const VaeLatentClip *clip, uint64_t start)
{
    static const char *const normalizations[] = {"", " raw", " comfyui"};
    static char text[200];
    char frames[40] = "";
    if (clip->frames)
        snprintf(frames, sizeof frames, " frames %d", (int) clip->frames);
    snprintf(text, sizeof text, "%s t%d c%d %dx%d at %d by %d %d%s%s%s%s",
             clip->tensor, clip->t, clip->channels, clip->height, clip->width,
             (int) (clip->offset - start) / 2, (int) clip->t_stride / 2,
             (int) clip->c_stride / 2, normalizations[clip->normalization],
             clip->normalization_stated ? " stated" : "",
             clip->layout_guessed ? " guessed" : "", frames);
    return text;
}

/* Appends one tensor's entry; its data follow at *offset. */
static size_t
entry(char *json, size_t room, const char *text, size_t *offset)
{
    char name[40], dtype[8], dims[40];
    if (sscanf(text, "%39s %7s %39[0-9,]", name, dtype, dims) != 3)
        abort();
    size_t bytes = strcmp(dtype, "U8") == 0    ? 1
                   : strcmp(dtype, "F16") == 0 ? 2
                   : strcmp(dtype, "F32") == 0 ? 4
                                               : 8;
    for (char *p = dims; *p != '\0'; p += *p == ',')
        bytes *= strtoul(p, &p, 10);
    const int n = snprintf(json, room,
                           "\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],"
                           "\"data_offsets\":[%zu,%zu]}",
                           name, dtype, dims, *offset, *offset + bytes);
    *offset += bytes;
    return (size_t) n;
}

/* Makes only the header, because the clips of some cases would be large. */
static VaeTensorFile *
open_case(const Case *c, uint8_t **bytes, uint64_t *data_start)
{
    char json[2000];
    size_t used = 0, data = 0, size;
    json[used++] = '{';
    if (c->metadata != NULL)
        used +=
            (size_t) sprintf(json + used, "\"__metadata__\":{%s}", c->metadata);
    for (const char *t = c->tensors; t && *t; t = strchr(t, ';')) {
        if (used > 1)
            json[used++] = ',';
        t += strspn(t, "; ");
        used += entry(json + used, sizeof json - used, t, &data);
    }
    json[used++] = '}';
    *bytes = make_file(json, used, 0, &size);
    *data_start = size;
    VaeTensorFile *file;
    VaeError error = {0};
    if (vae_tensor_file_open_memory(*bytes, size, size + data, "f", &file,
                                    &error) != VAE_OK)
        printf("    %s\n", error.message);
    return file;
}

/* The parts of the sentence are there for programs, too. */
static void
check_parts(const char *what, const VaeError *error)
{
    check(!strstr(error->message, "tensor \"") || error->tensor[0],
          "%s: the tensor is a part of the error", what);
    check(!strstr(error->message, "expected ") ||
              (error->found[0] && error->expected[0]),
          "%s: found \"%s\" and expected \"%s\" are parts of the error", what,
          error->found, error->expected);
}

/* Collects warnings. */
static void
note(void *lines, const char *line)
{
    strcat(lines, line);
    strcat(lines, "\n");
}

static void
check_cases(const Case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Case *c = &cases[i];
        SCOPED_BLOCK uint8_t *bytes = NULL;
        uint64_t start;
        SCOPED_FILE VaeTensorFile *file = open_case(c, &bytes, &start);
        check(file != NULL, "%s: the file opens", c->what);
        if (file == NULL)
            continue;
        char lines[1000] = "";
        VaeError error = {0};
        VaeLatentClip clip = VAE_INIT(VaeLatentClip);
        const VaeLatentOptions options = {.struct_size = sizeof options,
                                          .warn = note,
                                          .user = lines,
                                          .tensor = c->name,
                                          .layout = c->layout,
                                          .batch_index = c->item - 1,
                                          .channels = c->channels,
                                          .temporal = c->temporal,
                                          .chunk = c->chunk,
                                          .space = c->space};
        const VaeStatus status =
            vae_latent_clip_find(file, &options, &clip, &error);
        if (c->status != VAE_OK) {
            check_refused(c->what, status, &error, c->status, c->words);
            check_parts(c->what, &error);
        } else if (status != VAE_OK) {
            check(false, "%s: %s", c->what, error.message);
        } else {
            const char *found = describe(&clip, start);
            check(c->warning ? strstr(lines, c->warning) != NULL : !lines[0],
                  "%s: warns \"%s\"", c->what, lines);
            check(clip.type == (clip.stored == VAE_TYPE_F64 ? VAE_TYPE_F32
                                                            : VAE_TYPE_F16) &&
                      clip.data == NULL && strcmp(found, c->words) == 0,
                  "%s: %s", c->what, found);
        }
    }
}

static void
check_metadata(void)
{
    const Case c = {
        .tensors = "x F16 16,1,2,3",
        .metadata = "\"vae.latent_space\":\"my-own\","
                    "\"vae.framerate\":\"24000/1001\",\"vae.width\":\"23\","
                    "\"vae.height\":\"15\",\"vae.frames\":\"1\"",
    };
    SCOPED_BLOCK uint8_t *bytes = NULL;
    uint64_t start;
    SCOPED_FILE VaeTensorFile *file = open_case(&c, &bytes, &start);
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeError error = {0};
    VaeStatus status = vae_latent_clip_find(file, NULL, &clip, &error);
    check(status == VAE_OK && clip.space != NULL &&
              strcmp(clip.space, "my-own") == 0 && clip.fps_n == 24000 &&
              clip.fps_d == 1001 && clip.width_px == 23 &&
              clip.height_px == 15 && clip.frames == 1 &&
              !clip.normalization_stated,
          "metadata: %s", error.message);
    vae_tensor_file_free(&file);
    free(bytes);

    const Case none = {.tensors = "x F16 16,1,2,3"};
    file = open_case(&none, &bytes, &start);
    status = vae_latent_clip_find(file, NULL, &clip, &error);
    check(status == VAE_OK && clip.space == NULL && clip.fps_n == 0 &&
              clip.fps_d == 0 && clip.width_px == 0 && clip.frames == 0 &&
              !clip.normalization_stated,
          "no metadata");
}

/* The value of each element is its place in [B,C,T,H,W]. Both orders of the
 * axes must find it. */
static void
check_read(void)
{
    enum { B = 2, C = 16, T = 3, H = 2, W = 5, N = B * C * T * H * W };
    for (int kind = 0; kind < 4; kind++) {
        static float values[N];
        static double wide[N];
        const bool tchw = kind % 2, is_wide = kind > 1;
        const int inner[3] = {tchw ? C : T, H, W};
        for (int i = 0; i < N; i++) {
            const int x = i % W, y = i / W % H, q = i / (W * H) % inner[0];
            const int p = i / (W * H * inner[0]) % (tchw ? T : C);
            const int b = i / (W * H * C * T);
            const int c = tchw ? q : p, t = tchw ? p : q;
            values[i] = (float) ((((b * C + c) * T + t) * H + y) * W + x);
            wide[i] = (double) values[i];
        }
        const size_t n_bytes = is_wide ? sizeof wide : sizeof values;
        const int64_t first = tchw ? T : C, second = tchw ? C : T;
        const VaeTensorOut tensor = {"x",
                                     is_wide ? VAE_TYPE_F64 : VAE_TYPE_F32,
                                     5,
                                     {B, first, second, H, W},
                                     NULL};
        SCOPED_BLOCK void *header = NULL;
        size_t size;
        VaeError error = {0};
        vae_tensor_header_make(&(VaeTensorHeader){.tensors = &tensor, .n = 1},
                               &header, &size, &error);
        SCOPED_BLOCK uint8_t *bytes = malloc(size + n_bytes);
        memcpy(bytes, header, size);
        memcpy(bytes + size, is_wide ? (void *) wide : values, n_bytes);
        SCOPED_FILE VaeTensorFile *file = NULL;
        VaeLatentClip clip = VAE_INIT(VaeLatentClip);
        vae_tensor_file_open_memory(bytes, size + n_bytes, size + n_bytes, "r",
                                    &file, &error);
        const VaeLatentOptions options = {.struct_size = sizeof options,
                                          .layout = tchw ? VAE_LAYOUT_TCHW
                                                         : VAE_LAYOUT_CTHW,
                                          .batch_index = 1};
        bool same =
            vae_latent_clip_find(file, &options, &clip, &error) == VAE_OK &&
            clip.data == bytes + clip.offset;
        for (int t = 0; same && t < T; t++) {
            float out[C * H * W + 1];
            out[C * H * W] = -1;
            vae_latent_clip_read(&clip, t, out);
            for (int i = 0; same && i < C * H * W; i++) {
                const int c = i / (H * W);
                same =
                    out[i] == (float) (((C + c) * T + t) * H * W + i % (H * W));
            }
            same = same && out[C * H * W] == -1;
        }
        check(same, "latents packed from %s%s", tchw ? "tchw" : "cthw",
              is_wide ? ", float64" : "");
        clip.struct_size = offsetof(VaeLatentClip, stored);
        check((vae_latent_clip_find(file, &options, &clip, &error) == VAE_OK) !=
                  is_wide,
              "  for a program with older headers");
    }
}

static void
check_npy(void)
{
    size_t size;
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeError error = {0};
    SCOPED_BLOCK uint8_t *bytes =
        make_npy(1,
                 "{'descr': '<f2', 'fortran_order': False, "
                 "'shape': (1, 16, 2, 3, 4)}",
                 1 * 16 * 2 * 3 * 4 * 2, &size);
    vae_tensor_file_open_memory(bytes, size, size, "n", &file, &error);
    const VaeStatus status = vae_latent_clip_find(file, NULL, &clip, &error);
    check(status == VAE_OK && strcmp(clip.tensor, "npy") == 0 && clip.t == 2 &&
              clip.channels == 16 && clip.type == VAE_TYPE_F16,
          "npy %s", error.message);
}

/* Statements that cannot be read are errors that name the option, or warnings
 * if the options override them. */
static void
check_overridden(void)
{
    const Case c = {.tensors = "x F16 16,1,2,3",
                    .metadata = "\"vae.layout\":\"xyz\","
                                "\"vae.normalization\":\"foo\","
                                "\"vae.framerate\":\"abc\","
                                "\"vae.recording\":\"maybe\""};
    static const char *const values[] = {"xyz", "foo", "abc", "maybe"};
    static const char *const names[] = {"layout", "normalization", "framerate"};
    SCOPED_BLOCK uint8_t *bytes = NULL;
    uint64_t start;
    SCOPED_FILE VaeTensorFile *file = open_case(&c, &bytes, &start);
    for (int set = 0; set < 8; set++) {
        char lines[2000] = "";
        VaeLatentClip clip = VAE_INIT(VaeLatentClip);
        VaeError error = {0};
        const VaeLatentOptions options = {.struct_size = sizeof options,
                                          .layout = set & 1 ? VAE_LAYOUT_CTHW
                                                            : VAE_LAYOUT_AUTO,
                                          .own_normalization = set & 2,
                                          .own_framerate = set & 4,
                                          .warn = note,
                                          .user = lines};
        vae_latent_clip_find(file, &options, &clip, &error);
        int first = 0;
        while (first < 3 && set & (1 << first)) {
            check(strstr(lines, values[first]) != NULL,
                  "a warning of a broken %s: %s", names[first], lines);
            first++;
        }
        if (first == 3)
            check(
                error.status == VAE_OK && clip.t == 1 && clip.fps_n == 0 &&
                    !clip.normalization_stated &&
                    strstr(lines, "vae.recording is \"maybe\", expected open"),
                "all are overridden: %s", lines);
        else
            check(error.status == VAE_ERR_FORMAT &&
                      strstr(error.message, values[first]) &&
                      strstr(error.message, "to override it, set ") &&
                      strstr(error.message, names[first]),
                  "%s", error.message);
    }
}

/* Of an open recording, the complete latents are read, and not the bytes of the
 * one that was being written. */
static void
check_recording(void)
{
    const VaeTensorOut tensor = {"x", VAE_TYPE_F32, 4, {0, 16, 1, 1}, NULL};
    const VaeMetadata open = {"vae.recording", "open"};
    const VaeTensorHeader parts = {
        .tensors = &tensor, .n = 1, .metadata = &open, .n_metadata = 1};
    SCOPED_BLOCK void *header = NULL;
    size_t size;
    VaeError error = {0};
    vae_tensor_header_make(&parts, &header, &size, &error);
    float values[2][16] = {{1}, {2}}, found[16] = {0};
    SCOPED_BLOCK uint8_t *bytes = calloc(1, size + sizeof values + 3);
    memcpy(bytes, header, size);
    memcpy(bytes + size, values, sizeof values);
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    vae_tensor_file_open_memory(bytes, size + sizeof values + 3,
                                size + sizeof values + 3, "r", &file, &error);
    vae_latent_clip_find(file, NULL, &clip, &error);
    check(clip.t == 2 && clip.data, "%d latents of a recording", clip.t);
    if (clip.data)
        vae_latent_clip_read(&clip, 1, found);
    check(found[0] == 2, "the second one");
}

int
main(void)
{
    check_recording();
    check_overridden();
    check_cases(good, COUNT(good));
    check_cases(bad, COUNT(bad));
    check_metadata();
    check_read();
    check_npy();
    return test_end();
}
