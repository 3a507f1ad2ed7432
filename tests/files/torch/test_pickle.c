/*
 * Reads files of torch.save(). Tensors and dicts are read. Everything else is
 * refused with its name. The argument is a folder of files that PyTorch wrote.
 */
#include <limits.h>

#include "alloc.h"
#include "../../refuse.h"
#include "archive.h"
#include "vae-private/stream.h"

#define TENSOR(...)                                                            \
    &(const Tensor)                                                            \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

static const Tensor plain = {"FloatStorage", "0", 24, 0, 2, {4, 6}, {6, 1}};

static bool
is_tensor(const VaeTensorFile *file, const char *name, const char *type,
          const char *dims, int first)
{
    const VaeTensorInfo *t = file ? vae_tensor_file_find(file, name) : NULL;
    char text[100];
    return t != NULL && strcmp(t->type_name, type) == 0 &&
           strcmp(vae_dims_text(t->dims, t->n_dims, text, sizeof text), dims) ==
               0 &&
           t->data != NULL && ((const uint8_t *) t->data)[0] == first;
}

static void
check_tensors(void)
{
    VaeError error;
    VaeTensorFile *file;
    Bytes p = {0};
    PUT(&p, "\x80\2}(");
    put_text(&p, "b");
    put_tensor(&p, &plain);
    put_text(&p, "view");
    put_tensor(&p, TENSOR("HalfStorage", "1", 48, 6, 3, {3, 1, 2}, {2, 9, 1}));
    put_text(&p, "scalar");
    put_tensor(&p, TENSOR("DoubleStorage", "1", 12, 11, 0));
    put_text(&p, "whole");
    put_tensor(&p, TENSOR("LongStorage", "1", 12, 11, 0));
    put_text(&p, "empty");
    put_tensor(&p, TENSOR("BFloat16Storage", "1", 48, 48, 2, {0, 5}, {5, 1}));
    put_text(&p, "epoch");
    PUT(&p, "K\3u.");
    Bytes zip = make_torch(&p);
    VaeStatus status = open_zip("good.pth", &zip, &file, &error);
    check(status == VAE_OK && vae_tensor_file_count(file) == 5 &&
              is_tensor(file, "b", "F32", "4x6", 1) &&
              is_tensor(file, "view", "F16", "3x1x2", 13) &&
              is_tensor(file, "scalar", "F64", "scalar", 89),
          "views of storages by name %s", error.message);
    check(status == VAE_OK && vae_tensor_file_find(file, "empty")->bytes == 0 &&
              vae_tensor_file_find(file, "scalar")->type == VAE_TYPE_F64 &&
              !vae_tensor_file_find(file, "whole")->supported,
          "a tensor of nothing, and a type that is only listed");
    vae_tensor_file_free(&file);

    uint64_t need = 0;
    status = vae_tensor_header_size(zip.data, 16, zip.n, "x", &need, &error);
    check(status == VAE_OK && need == zip.n, "all of the file is its header");
    status =
        vae_tensor_header_size(zip.data, 16, UINT64_MAX, "x", &need, &error);
    check_refused("a file of unknown length", status, &error, VAE_ERR_FORMAT,
                  "PyTorch|end");
    status = vae_tensor_header_size(zip.data, 16, 1L << 40, "x", &need, &error);
    check_refused("a header of a terabyte", status, &error, VAE_ERR_FORMAT,
                  "PyTorch|at most");
    status = vae_tensor_file_open_memory(zip.data, zip.n - 1, zip.n, "x", &file,
                                         &error);
    check_refused("not all of it given", status, &error, VAE_ERR_ARGUMENT,
                  "x: |in memory");
    free(zip.data);
}

/* Makes a file of {"epoch": 1, "callbacks": {a class: None}, keys[0]: {"w":
 * tensor}, ...}, as PyTorch Lightning saves a checkpoint. */
static Bytes
nested(const char *const *keys, size_t n)
{
    Bytes p = {0};
    PUT(&p, "\x80\2}(");
    put_text(&p, "epoch");
    PUT(&p, "K\1");
    put_text(&p, "callbacks");
    PUT(&p, "}cpytorch_lightning.callbacks.model_checkpoint\n"
            "ModelCheckpoint\nNs");
    for (size_t i = 0; i < n; i++) {
        put_text(&p, keys[i]);
        PUT(&p, "}");
        put_text(&p, "w");
        put_tensor(&p, &plain);
        PUT(&p, "s");
    }
    PUT(&p, "u.");
    return make_torch(&p);
}

static void
check_nested(void)
{
    static const char *const one[] = {"optimizer", "state_dict"},
                             *const two[] = {"model_state", "ema"},
                             *const none[] = {"optimizer", "scheduler"};
    VaeError error;
    VaeTensorFile *file;
    Bytes zip = nested(one, 2);
    check(open_zip("nested.pth", &zip, &file, &error) == VAE_OK &&
              vae_tensor_file_count(file) == 1 &&
              is_tensor(file, "w", "F32", "4x6", 1),
          "the dict under a usual key %s", error.message);
    vae_tensor_file_free(&file);
    free(zip.data);
    expect_zip("two such dicts", nested(two, 2),
               "bad.pth|\"model_state\"|\"ema\"|"
               "torch.save(x[\"model_state\"], FILE)");
    expect_zip(
        "no such dict", nested(none, 2),
        "bad.pth|no tensors|x[\"optimizer\"] in it is a dict of 1 tensor|"
        "torch.save(x[\"optimizer\"], FILE)");
}

/* Dicts beside tensors, in other dicts, and of the parts of a network: a text
 * before a bracket is its key, "w" a tensor. */
static void
check_dicts(void)
{
    static const struct {
        const char *dicts, *name; /* name: of the only tensor, or of one of 2 */
        size_t n;
        const char *words; /* of the error */
    } rows[] = {
        {"rng w state_dict { a w b w }", "b", 2, NULL},
        {"a w model { b w }", "a", 1, NULL},
        {"model { state_dict { a w } }", "a", 1, NULL},
        {"model { loss w vae { a w b w } }", "a", 2, NULL},
        {"encoder { a w } decoder { a w }", "decoder.a", 2, NULL},
        {"state_dict { encoder { a w } conv1 { b w } }", "conv1.b", 2, NULL},
        {"encoder { a w } conv1.b w", "conv1.b", 2, NULL},
        {"model { net { a w } }", NULL, 0,
         "x[\"model\"][\"net\"] in it is a dict of 1 tensor|"
         "torch.save(x[\"model\"][\"net\"], FILE)"},
        {"model { vae { a w } ema { a w } }", NULL, 0,
         "tensors under x[\"model\"][\"vae\"] and x[\"model\"][\"ema\"]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        VaeError error;
        VaeTensorFile *file = NULL;
        char text[100], *rest = NULL;
        Bytes p = {0};
        PUT(&p, "\x80\2}(");
        strcpy(text, rows[i].dicts);
        for (char *word = strtok_r(text, " ", &rest); word;
             word = strtok_r(NULL, " ", &rest))
            if (*word == '{')
                PUT(&p, "}(");
            else if (*word == '}')
                PUT(&p, "u");
            else if (strcmp(word, "w") == 0)
                put_tensor(&p, &plain);
            else
                put_text(&p, word);
        PUT(&p, "u.");
        Bytes zip = make_torch(&p);
        if (rows[i].words) {
            expect_zip(rows[i].dicts, zip, rows[i].words);
            continue;
        }
        check(open_zip("dicts.pth", &zip, &file, &error) == VAE_OK &&
                  vae_tensor_file_count(file) == rows[i].n &&
                  is_tensor(file, rows[i].name, "F32", "4x6", 1),
              "%s %s", rows[i].dicts, error.message);
        vae_tensor_file_free(&file);
        free(zip.data);
    }
}

/* A dict with a list or a tuple of tensors. */
static void
check_listed(void)
{
    for (int i = 0; i < 2; i++) {
        Bytes p = {0};
        PUT(&p, "\x80\2}");
        put_text(&p, "latents");
        put(&p, i ? "(" : "](", i ? 1 : 2);
        put_tensor(&p, &plain);
        put_tensor(&p, &plain);
        put(&p, i ? "ts." : "es.", 3);
        expect_zip("a list in a dict", make_torch(&p),
                   i ? "x[\"latents\"] in it is a tuple of 2 tensors"
                     : "x[\"latents\"] in it is a list of 2 tensors");
    }
}

/* A list, a tuple, and a list of one tensor twice. */
static void
check_lists(void)
{
    static const struct {
        const char *before, *between, *after;
        size_t n_before, n_between, n_after;
    } rows[] = {
#define ROW(a, b, c) {a, b, c, sizeof(a) - 1, sizeof(b) - 1, sizeof(c) - 1}
        ROW("\x80\2](", "N", "e."), ROW("\x80\2(", "N", "t."),
        ROW("\x80\2]", "aNa", "a."), ROW("\x80\2", "N", "\x87.")};
    /* Beside another tensor, one that is not contiguous is no error. */
    const Tensor *const others[] = {
        &plain, TENSOR("FloatStorage", "0", 24, 0, 2, {6, 4}, {1, 6}),
        TENSOR("FloatStorage", "0", 24, 0, 2, {9, 24}, {0, 1})};
    static const char *const dims[] = {"4x6", "6x4"};
    for (size_t k = 0; k < COUNT(others) * COUNT(rows); k++) {
        const size_t other = k % COUNT(others), i = k / COUNT(others);
        const bool strided = other > 0;
        VaeError error = {0};
        SCOPED_FILE VaeTensorFile *file = NULL;
        Bytes p = {0};
        put(&p, rows[i].before, rows[i].n_before);
        put_tensor(&p, &plain);
        put(&p, rows[i].between, rows[i].n_between);
        put_tensor(&p, others[other]);
        put(&p, rows[i].after, rows[i].n_after);
        Bytes zip = make_torch(&p);
        check(open_zip("list.pt", &zip, &file, &error) == VAE_OK &&
                  vae_tensor_file_count(file) == 2 &&
                  is_tensor(file, "0", "F32", "4x6", 1) &&
                  (other == 2 || is_tensor(file, "2", "F32", dims[other], 1)) &&
                  vae_tensor_file_find(file, "2")->strided == strided &&
                  vae_tensor_file_find(file, "2")->supported == !strided,
              "a list or tuple, %zu %s", i, error.message);
        free(zip.data);
    }
}

/* A tensor of a list that is not contiguous, taken as latents. */
static void
check_strided(void)
{
    const Tensor turned = {"FloatStorage", "0",           24, 0, 4,
                           {4, 6, 1, 1},   {1, 4, 24, 24}};
    VaeError error = {0};
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    VaeLatentOptions options = VAE_INIT(VaeLatentOptions);
    Bytes p = {0};
    options.tensor = "0";
    options.batch_index = -1;
    PUT(&p, "\x80\2](");
    put_tensor(&p, &turned);
    put_tensor(&p, &turned);
    PUT(&p, "e.");
    Bytes zip = make_torch(&p);
    VaeStatus status = open_zip("list.pt", &zip, &file, &error);
    if (status == VAE_OK)
        status = vae_latent_clip_find(file, &options, &clip, &error);
    check_refused("a transposed tensor of a list", status, &error,
                  VAE_ERR_FORMAT,
                  "list.pt: tensor \"0\" (4x6x1x1) is not contiguous (save it "
                  "after .contiguous())");
    free(zip.data);
}

static void
check_single(void)
{
    VaeError error;
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    Bytes p = {0};
    put_tensor(
        &p, TENSOR("HalfStorage", "0", 48, 0, 4, {16, 1, 1, 3}, {3, 3, 3, 1}));
    PUT(&p, ".");
    Bytes zip = make_torch(&p);
    check(open_zip("one.pt", &zip, &file, &error) == VAE_OK &&
              is_tensor(file, "latent", "F16", "16x1x1x3", 1),
          "a tensor alone %s", error.message);
    check(file != NULL &&
              vae_latent_clip_find(file, NULL, &clip, &error) == VAE_OK &&
              clip.channels == 16 && clip.t == 1 && clip.width == 3 &&
              clip.normalization == VAE_NORMALIZED &&
              !clip.normalization_stated,
          "is a clip of latents, taken to be normalized but not stated so");
    free(zip.data);
}

/* ------------------------------------------------------------------ */

static void
check_calls(void)
{
    static const struct {
        const char *what, *bytes;
        size_t size;
        const char *words;
    } cases[] = {
#define CASE(what, bytes, words) {what, bytes, sizeof(bytes) - 1, words}
        CASE("a tensor of float8", "ctorch._utils\n_rebuild_tensor_v3\n.",
             "such as float8, expected float32|x.float()"),
        CASE("os.system", "cos\nsystem\n(X\2\0\0\0lstR.",
             "bad.pth: refused: |wants to call os.system"),
        CASE("posix.system", "\x80\2cposix\nsystem\nX\2\0\0\0ls\x85R.",
             "bad.pth: refused: |wants to call posix.system"),
        CASE("eval from the stack",
             "\x80\4\x95\x19\0\0\0\0\0\0\0\x8c\10builtins\x8c\4eval\x93\x8c\3"
             "1+1\x85R.",
             "wants to call builtins.eval"),
        CASE("eval of Python 2", "c__builtin__\neval\n.",
             "wants to call __builtin__.eval"),
        CASE("a global that only begins right", "ctorch\nFloatStorageX\n.",
             "wants to call torch.FloatStorageX"),
        CASE("a name that would spoil a terminal", "c\x1b[2Jx\n\xff\x80\n.",
             "wants to call ?[2Jx.??"),
        CASE("a class of a model", "ctorch.nn.modules.linear\nLinear\n)\x81.",
             "wants to call torch.nn.modules.linear.Linear|state_dict"),
        CASE("INST", "(X\2\0\0\0lsiposix\nsystem\n.", "refused: |INST (0x69"),
        CASE("OBJ", "(No.", "refused: |OBJ (0x6f"),
        CASE("NEWOBJ", "N)\x81.", "refused: |NEWOBJ (0x81"),
        CASE("NEWOBJ_EX", "N)}\x92.", "refused: |NEWOBJ_EX (0x92"),
        CASE("EXT1", "\x82\1.", "refused: |EXT1 (0x82"),
        CASE("DUP", "N2.", "refused: |DUP (0x32"),
        CASE("PERSID", "Pabc\n.", "refused: |PERSID (0x50"),
        CASE("NEXT_BUFFER", "\x97.", "refused: |NEXT_BUFFER (0x97"),
        CASE("an opcode of no name", "\xff.", "refused: |no name (0xff"),
        CASE("a call of what is no function", "NN\x85R.",
             "refused: |no function"),
        CASE("a call of a type", "ctorch\nFloatStorage\n)R.",
             "refused: |call torch.FloatStorage"),
        CASE("a call of a key",
             "cpytorch_lightning.callbacks.model_checkpoint\n"
             "ModelCheckpoint\n)R.",
             "refused: |call pytorch_lightning.callbacks.model_checkpoint."),
        CASE("a dict of arguments", "ccollections\nOrderedDict\nN\x85R.",
             "refused: |call collections.OrderedDict"),
        CASE("a parameter of no tensor",
             "ctorch._utils\n_rebuild_parameter\nN\x88N\x87R.",
             "refused: |_rebuild_parameter"),
        CASE("a tensor of nothing", "ctorch._utils\n_rebuild_tensor_v2\n)R.",
             "tensor is not made"),
        CASE("attributes of a list", "]}b.", "refused: |attributes"),
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Bytes p = {0};
        put(&p, cases[i].bytes, cases[i].size);
        expect_zip(cases[i].what, make_torch(&p), cases[i].words);
    }
}

static void
check_streams(void)
{
    static const struct {
        const char *what, *bytes;
        size_t size;
        const char *words;
    } cases[] = {
        CASE("nothing", "", "STOP"),
        CASE("no STOP", "\x80\2}", "STOP"),
        CASE("a STOP of nothing", ".", "there is none"),
        CASE("a STOP on a mark", "(.", "there is none"),
        CASE("a STOP too early", "N.N.", "before its end"),
        CASE("values left", "NN.", "before its end"),
        CASE("no tensor", "N.", "holds None, expected a tensor, or a dict"),
        CASE("a list", "].", "holds a list, expected a tensor|torch.save(x,"),
        CASE("an empty dict", "}.", "no tensors"),
        CASE("a later protocol", "\x80\6.", "protocol"),
        CASE("a text past the end", "X\xff\xff\xff\xff.", "middle"),
        CASE("a number past the end", "J\0\0", "middle"),
        CASE("a name without its end", "cposix\nsystem", "middle of a name"),
        CASE("a frame past the end", "\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
             "frame"),
        CASE("a long integer", "\x8a\11\1\2\3\4\5\6\7\10\11.", "64 bits"),
        CASE("a tuple without a mark", "Nt.", "mark"),
        CASE("a tuple of a mark", "(\x85.", "there is none"),
        CASE("a memo with a gap", "Nr\xff\xff\xff\x7f.", "gap"),
        CASE("a memo of nothing", "h\0.", "memo"),
        CASE("a memo far away", "Nq\0j\xff\xff\xff\xff.", "memo"),
        CASE("an item of no dict", "NNNs.", "no dict"),
        CASE("items of no dict", "](NNu.", "no dict"),
        CASE("a key without a value", "}(Nu.", "without a value"),
        CASE("an element of no list", "}Na.", "no list"),
        CASE("elements of no list", "}(Ne.", "no list"),
        CASE("a persistent id of no tuple", "NQ.", "no storage"),
        CASE("a persistent id that is a number", "N\x85\x8a\10abcdefghQ.",
             "no storage"),
        CASE("a persistent id of another kind",
             "(X\5\0\0\0otherctorch\nFloatStorage\nX\1\0\0\0"
             "0X\3\0\0\0cpuK\1tQ.",
             "no storage"),
        CASE("a storage that is no type",
             "(X\7\0\0\0storageccollections\nOrderedDict\nX\1\0\0\0"
             "0X\3\0\0\0cpuK\1tQ.",
             "no storage"),
        CASE("a global of no text", "NN\x93.", "no text"),
        CASE("a dict in itself", "}q\0X\1\0\0\0ah\0s.", "no tensors"),
        CASE("a state in itself", "}q\0X\12\0\0\0state_dicth\0s.",
             "no tensors"),
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Bytes p = {0};
        put(&p, cases[i].bytes, cases[i].size);
        expect_zip(cases[i].what, make_torch(&p), cases[i].words);
    }
}

static void
check_views(void)
{
    static const struct {
        const char *what;
        Tensor tensor;
        const char *words;
    } cases[] = {
        {"no such storage",
         {"FloatStorage", "7", 24, 0, 1, {24}, {1}},
         "\"t\"|storage \"7\" is not"},
        {"a storage elsewhere",
         {"FloatStorage", "../../y", 24, 0, 1, {24}, {1}},
         "\"../../y\" is not"},
        {"a storage too small",
         {"FloatStorage", "0", 25, 0, 1, {24}, {1}},
         "\"t\"|96 bytes|25 elements of 4"},
        {"a storage too large",
         {"FloatStorage", "0", 23, 0, 1, {23}, {1}},
         "96 bytes|23 elements"},
        {"a storage of less than nothing",
         {"FloatStorage", "0", -24, 0, 1, {24}, {1}},
         "-24 elements"},
        {"a storage of 2^62",
         {"FloatStorage", "0", 1L << 62, 0, 1, {24}, {1}},
         "96 bytes"},
        {"a view past the end",
         {"FloatStorage", "0", 24, 1, 1, {24}, {1}},
         "shape 24 from element 1|24 elements"},
        {"a view far away",
         {"FloatStorage", "0", 24, INT64_MAX, 1, {24}, {1}},
         "past its storage"},
        {"a view before the start",
         {"FloatStorage", "0", 24, -1, 1, {2}, {1}},
         "past its storage"},
        {"a shape too large",
         {"FloatStorage", "0", 24, 0, 3, {1L << 32, 1L << 32, 2}, {0, 0, 1}},
         "past its storage"},
        {"a shape of 2^63 elements",
         {"FloatStorage", "0", 24, 0, 2, {1L << 40, 1L << 23}, {1L << 23, 1}},
         "past its storage"},
        {"a shape of less than nothing",
         {"FloatStorage", "0", 24, 0, 2, {-4, -6}, {6, 1}},
         "dimension 0"},
        {"too many dimensions",
         {"FloatStorage", "0", 24, 0, 9, {1}, {1}},
         "9 dimensions"},
        {"transposed",
         {"FloatStorage", "0", 24, 0, 2, {6, 4}, {1, 6}},
         "\"t\"|not contiguous|stride 1 is 6, expected 1"},
        {"a stride of nothing",
         {"FloatStorage", "0", 24, 0, 2, {9, 1}, {0, 1}},
         "not contiguous|stride 0 is 0"},
        {"expanded",
         {"FloatStorage", "0", 24, 0, 3, {9, 4, 6}, {0, 6, 1}},
         "not contiguous|stride 0 is 0, expected 24"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Bytes p = {0};
        PUT(&p, "}");
        put_text(&p, "t");
        put_tensor(&p, &cases[i].tensor);
        PUT(&p, "s.");
        expect_zip(cases[i].what, make_torch(&p), cases[i].words);
    }
}

static void
check_names(void)
{
    static const struct {
        const char *what, *key;
        size_t size;
        const char *words;
    } cases[] = {
        CASE("a name of zeros", "X\2\0\0\0a\0", "a?"),
        CASE("a name of no UTF-8", "X\2\0\0\0a\xff", "\"a?\"|UTF-8"),
        CASE("a name that is a number", "K\1",
             "is a number, 1, expected a text|torch.save({str(k): t"),
        CASE("a name that is None", "N", "is None, expected a text"),
        CASE("a name twice", "X\1\0\0\0b", "\"b\" appears twice"),
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Bytes p = {0};
        PUT(&p, "}(");
        put_text(&p, "b");
        put_tensor(&p, &plain);
        put(&p, cases[i].key, cases[i].size);
        put_tensor(&p, &plain);
        PUT(&p, "u.");
        expect_zip(cases[i].what, make_torch(&p), cases[i].words);
    }
}

/* Small pickles that would need much memory or stack are refused. */
static void
check_bombs(void)
{
    Bytes p = {0};
    for (int i = 0; i < 100000; i++)
        PUT(&p, "(");
    PUT(&p, "N.");
    expect_zip("deep nesting", make_torch(&p), "values on the stack");

    for (int i = 0; i < 60000; i++)
        PUT(&p, "}N");
    for (int i = 0; i < 60000; i++)
        PUT(&p, "s");
    PUT(&p, ".");
    expect_zip("many dicts", make_torch(&p), "values on the stack");

    PUT(&p, "]q\0");
    for (int i = 0; i < 60000; i++)
        PUT(&p, "h\0h\0h\0\x87q\0");
    PUT(&p, ".");
    expect_zip("tuples of tuples", make_torch(&p), "before its end");

    /* One long name for many tensors. */
    static char name[100001];
    memset(name, 'n', sizeof name - 1);
    PUT(&p, "\x80\2}(");
    put_text(&p, name);
    PUT(&p, "q\0");
    put_tensor(&p, &plain);
    PUT(&p, "q\1");
    for (int i = 0; i < 30000; i++)
        PUT(&p, "h\0h\1");
    PUT(&p, "u.");
    expect_zip("a long name for many tensors", make_torch(&p),
               "names of tensors appear twice");

    p.n = 5 << 20;
    p.data = calloc(1, p.n);
    expect_zip("a pickle too large", make_torch(&p), "4 MiB");
}

static void
check_archives(void)
{
    Member members[] = {{"x/data.pkl", {(uint8_t *) "N.", 2}},
                        {"x/byteorder", {(uint8_t *) "big", 3}},
                        {"x/constants.pkl", {(uint8_t *) "N.", 2}}};
    const ZipFault none = {0};
    expect_zip("of a large end", make_zip(members, 2, none), "byte order");
    check_error_parts("of a large end", &zip_error, NULL, "big", "little");
    expect_zip("a program", make_zip(members, 3, none), "TorchScript");
    Member other = {"arr_0.txt", {(uint8_t *) "\x93NUMPY", 6}};
    expect_zip("another archive", make_zip(&other, 1, none),
               "none of PyTorch|arr_0.txt");
    members[0].method = 8;
    expect_zip("compressed", make_zip(members, 1, none),
               "\"x/data.pkl\"|compressed");
}

/* Every shorter pickle is refused. */
static void
check_cut(void)
{
    Bytes whole = {0};
    bool good = true;
    PUT(&whole, "\x80\2}(");
    put_text(&whole, "b");
    put_tensor(&whole, &plain);
    PUT(&whole, "u.");
    for (size_t n = 0; n < whole.n; n++) {
        VaeError error;
        SCOPED_FILE VaeTensorFile *file = NULL;
        Bytes p = {0};
        put(&p, whole.data, n);
        Bytes zip = make_torch(&p);
        good = good && open_zip("cut", &zip, &file, &error) == VAE_ERR_FORMAT;
        free(zip.data);
    }
    check(good, "cut short anywhere");
    free(whole.data);
}

/* Each refused allocation gives an error and leaks nothing. */
static void
check_memory(void)
{
    static const char *const keys[] = {"model"};
    Bytes zip = nested(keys, 1);
    VaeError error;
    VaeTensorFile *file;
    Refusals r = {.refuse = vae_mem_refuse};
    while (refuse_next(&r)) {
        refuse_begin(&r);
        const VaeStatus status = open_zip("full", &zip, &file, &error);
        const bool refused = refuse_end(&r);
        r.wrong += status != (refused ? VAE_ERR_MEMORY : VAE_OK) ||
                   (refused && error.status != status);
        vae_tensor_file_free(&file);
    }
    check(r.wrong == 0 && r.refused > 5, "each of %d allocations refused",
          r.refused);
    free(zip.data);
}

static void
check_written(const char *folder)
{
    char path[PATH_MAX];
    VaeError error = {0};
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    snprintf(path, sizeof path, "%s/latent.pt", folder);
    check(vae_tensor_file_open(path, &file, &error) == VAE_OK &&
              vae_latent_clip_find(file, NULL, &clip, &error) == VAE_OK &&
              clip.type == VAE_TYPE_F16 && clip.channels == 16 && clip.t == 1 &&
              clip.height == 2 && clip.width == 2,
          "PyTorch's latent.pt is a clip %s", error.message);
    if (file != NULL) {
        float values[4];
        uint16_t half[64];
        vae_latent_clip_read(&clip, 0, half);
        vae_type_to_float(values, half + 60, VAE_TYPE_F16, 4);
        check(values[0] == 7.5f && values[3] == 7.875f, "with its values");
    }
    vae_tensor_file_free(&file);
    error.message[0] = '\0';
    snprintf(path, sizeof path, "%s/state.pth", folder);
    check(vae_tensor_file_open(path, &file, &error) == VAE_OK &&
              vae_tensor_file_count(file) == 3,
          "PyTorch's state.pth, of protocol 4, has 3 tensors %s",
          error.message);
    if (file != NULL) {
        const VaeTensorInfo *w = vae_tensor_file_find(file, "a.weight");
        const VaeTensorInfo *b = vae_tensor_file_find(file, "a.bias");
        float weight[6] = {0}, bias[2] = {0};
        if (w != NULL && b != NULL && w->bytes == 24 && b->bytes == 4) {
            memcpy(weight, w->data, 24);
            vae_type_to_float(bias, b->data, b->type, 2);
        }
        check(weight[5] == 5 && bias[1] == -2, "with their values");
    }
}

int
main(int argc, char **argv)
{
    check_tensors();
    check_nested();
    check_dicts();
    check_listed();
    check_lists();
    check_strided();
    check_single();
    check_calls();
    check_streams();
    check_views();
    check_names();
    check_bombs();
    check_archives();
    check_cut();
    check_memory();
    if (argc > 1)
        check_written(argv[1]);
    return test_end();
}
