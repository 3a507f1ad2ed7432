/*
 * Tests valid and faulty safetensors headers.
 */
#include "test.h"

typedef struct Bad {
    const char *what, *json;
    size_t data;
    const char *words; /* in the message, separated by '|' */
} Bad;

#define A_U8_4 "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"

static const Bad bad[] = {
    {"data cut off", "{" A_U8_4 "}", 3,
     "tensor \"a\"|[0, 4]|past the end of the file"},
    {"data beyond the last tensor", "{" A_U8_4 "}", 9, "last 5 bytes"},
    {"data without tensors", "{}", 2, "last 2 bytes"},
    {"overlap",
     "{" A_U8_4
     ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
     6, "\"b\"|begins at 2|\"a\" that ends at 4"},
    {"the same place twice",
     "{" A_U8_4
     ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
     4, "begins at 0|ends at 4"},
    {"a hole",
     "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[7,9]}," A_U8_4
     "}",
     9, "\"b\"|bytes 4 to 6 before it belong to no tensor"},
    {"a hole at the start",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3,
     "\"a\"|bytes 0 to 0"},
    {"an empty tensor inside of another",
     "{" A_U8_4
     ",\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
     4, "\"b\"|begins at 2"},
    {"a name twice", "{" A_U8_4 "," A_U8_4 "}", 4, "duplicate|\"a\""},
    {"a long name twice",
     "{\"decoder.mid.norm.weight\":{\"dtype\":\"U8\",\"shape\":[4],"
     "\"data_offsets\":[0,4]},\"decoder.mid.norm.weight\":{}}",
     4, "duplicate key \"decoder.mid.norm.weight\" (byte"},
    {"a name with a quote twice", "{\"a\\\\\\\"b\":1,\"a\\\\\\\"b\":1}", 0,
     "duplicate key \"a\\\\\\\"b\" (byte"},
    {"a name twice, once escaped",
     "{" A_U8_4
     ",\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}",
     4, "duplicate key \"\\u0061\""},
    {"a key twice",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],"
     "\"data_offsets\":[0,0]}}",
     0, "duplicate key \"dtype\""},
    {"dtype unknown",
     "{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "\"a\"|\"F33\" is not known"},
    {"dtype in small letters",
     "{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "\"f32\" is not known"},
    {"dtype no string",
     "{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "no \"dtype\""},
    {"dtype missing", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
     "no \"dtype\""},
    {"shape missing", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1,
     "no \"shape\""},
    {"shape no array",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1,
     "no \"shape\""},
    {"shape negative",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[2,-1],\"data_offsets\":[0,1]}}", 1,
     "shape[1]"},
    {"shape a fraction",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1,
     "shape[0]"},
    {"nine dimensions",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],"
     "\"data_offsets\":[0,1]}}",
     1, "9 dimensions|8"},
    {"product over 64 bits",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],"
     "\"data_offsets\":[0,0]}}",
     0, "4294967296x4294967296|64 bits"},
    {"bytes over 64 bits",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
     "\"data_offsets\":[0,0]}}",
     0, "64 bits"},
    {"an integer over 63 bits",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775808],"
     "\"data_offsets\":[0,0]}}",
     0, "JSON"},
    {"size of another type",
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,4]}}", 4,
     "hold 4 bytes|2x1 of F32 needs 8"},
    {"half a byte",
     "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
     "no whole number of bytes"},
    {"offsets backwards",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1,
     "[1, 0] end before"},
    {"offset negative",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1,
     "data_offsets"},
    {"one offset",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}}", 1,
     "data_offsets"},
    {"three offsets",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1,
     "data_offsets"},
    {"offsets missing", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1,
     "data_offsets"},
    {"offset near 63 bits",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
     "\"data_offsets\":[9223372036854775806,9223372036854775807]}}",
     1, "past the end"},
    {"a tensor that is no object", "{\"a\":[1,2]}", 0, "\"a\"|no object"},
    {"metadata no object", "{\"__metadata__\":[]}", 0, "__metadata__"},
    {"metadata no string", "{\"__metadata__\":{\"k\":1}}", 0, "\"k\"|string"},
    {"JSON cut off", "{\"a\":{\"dtype\":", 0, "JSON"},
    {"JSON with more behind", "{} x", 0, "JSON"},
    {"two documents", "{}{}", 0, "JSON"},
    {"a bare word", "{\"a\":nul}", 0, "JSON"},
    {"escaped NUL in a name", "{\"a\\u0000b\":1}", 0, "JSON"},
    {"half a surrogate", "{\"\\ud800\":1}", 0, "JSON"},
    {"no UTF-8", "{\"\xff\xfe\":1}", 0, "JSON"},
    {"a control character in a string", "{\"a\nb\":1}", 0, "JSON"},
    {"nested deep", "{\"a\":[[[[[[[[[[[[]]]]]]]]]]]]}", 0, "deeper than 8"},
    {"brackets in strings are none", "{\"[[[[[[[[[[\":1,\"\\\"[[[[[[[[[\":2}",
     0, "no object"},
    {"an array", "[1,2]", 0, "0x5b|'{'"},
    {"blanks before", " {}", 0, "0x20|'{'"},
};

static VaeStatus
open_json(const char *json, size_t json_size, size_t data, VaeTensorFile **file,
          uint8_t **bytes, VaeError *error)
{
    size_t size;
    *error = (VaeError){0};
    *bytes = make_file(json, json_size, data, &size);
    return vae_tensor_file_open_memory(*bytes, size, size, "x.safetensors",
                                       file, error);
}

static void
check_bad(void)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        VaeTensorFile *file;
        VaeError error;
        SCOPED_BLOCK uint8_t *bytes = NULL;
        const VaeStatus status = open_json(bad[i].json, strlen(bad[i].json),
                                           bad[i].data, &file, &bytes, &error);
        check_refused(bad[i].what, status, &error, VAE_ERR_FORMAT,
                      bad[i].words);
        check(file == NULL &&
                  strncmp(error.message, "x.safetensors: ", 15) == 0,
              "%s: names the file", bad[i].what);
        vae_tensor_file_free(&file);
    }
}

/* Headers that contain a zero byte or are too long for a string constant. */
static void
check_bad_bytes(void)
{
    VaeTensorFile *file;
    VaeError error;
    SCOPED_BLOCK uint8_t *bytes = NULL;
    VaeStatus status = open_json("{\"a\0\":1}", 8, 0, &file, &bytes, &error);
    check_refused("NUL in a name", status, &error, VAE_ERR_FORMAT, "JSON");
    free(bytes);
    status = open_json("{}\0", 3, 0, &file, &bytes, &error);
    check_refused("NUL behind", status, &error, VAE_ERR_FORMAT, "JSON");
    free(bytes);

    SCOPED_BLOCK char *json = malloc(100001);
    for (size_t i = 0; i < 100000; i++)
        json[i] = i == 0 ? '{' : i < 4 ? "\"a\""[i - 1] : '[';
    json[4] = ':';
    status = open_json(json, 100000, 0, &file, &bytes, &error);
    check_refused("nested 100000 deep", status, &error, VAE_ERR_FORMAT,
                  "deeper");
    free(bytes);
    for (size_t i = 5; i < 100000; i++)
        json[i] = "[[],"[i == 5 ? 0 : 1 + i % 3];
    status = open_json(json, 100000, 0, &file, &bytes, &error);
    check_refused("30000 empty arrays", status, &error, VAE_ERR_FORMAT,
                  "objects and arrays");
}

static VaeStatus
open_bytes(const void *bytes, size_t size, VaeError *error)
{
    VaeTensorFile *file;
    *error = (VaeError){0};
    /* A block of exactly this size, so that ASan sees a read past its end. */
    SCOPED_BLOCK void *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, bytes, size);
    const VaeStatus status =
        vae_tensor_file_open_memory(copy, size, size, "x", &file, error);
    vae_tensor_file_free(&file);
    return status;
}

static void
check_lengths(void)
{
    static const struct {
        const char *what;
        uint64_t length;
        const char *words;
    } cases[] = {
        {"length 0", 0, "header of 0 bytes, expected 2 to 104857600"},
        {"length 1", 1, "header of 1 byte,"},
        {"length past the end", 3, "header of 3 bytes|past the end|10 bytes"},
        {"length of the limit", 104857600, "past the end"},
        {"length over the limit", 104857601, "expected 2 to 104857600"},
        {"length of all bits", UINT64_MAX, "18446744073709551615"},
        {"length that wraps round", UINT64_MAX - 7, "expected 2 to"},
    };
    VaeError error;
    uint8_t bytes[64] = {0};
    memcpy(bytes + 8, "{}", 2);
    for (size_t i = 0; i < COUNT(cases); i++) {
        memcpy(bytes, &cases[i].length, 8);
        const VaeStatus status = open_bytes(bytes, 10, &error);
        check_refused(cases[i].what, status, &error, VAE_ERR_FORMAT,
                      cases[i].words);
    }
    for (size_t size = 0; size < 10; size++) {
        const VaeStatus status = open_bytes(bytes, size, &error);
        check_refused("a file too short", status, &error, VAE_ERR_FORMAT,
                      size == 0 ? "empty" : "too short");
    }
}

static void
check_mistakes(void)
{
    static const struct {
        const char *begin, *words;
    } cases[] = {
        {"PK\3\4aaaabbbbccccdddd", "zip archive"},
        {"\x80\2aaaaaabbbbccccdddd", "pickle"},
        {"\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8", "before 1.6"},
        {"GGUFaaaabbbbccccdddd", "GGUF"},
        {"version https://git-lfs.github.com/spec/v1", "git LFS"},
        {"<!DOCTYPE html><html>", "web page"},
        {"\1\1\1\x20"
         "ftypisom\1\1",
         "is a video file (MP4 or MOV); expected a "
         "safetensors, npy or PyTorch file"},
        {"\x1a\x45\xdf\xa3\1\1\1\1\1\1", "video file (WebM or Matroska)"},
        {"YUV4MPEG2 W16 H16", "video file (Y4M)"},
        {"RIFF\1\1\1\1AVI LIST", "RIFF file, such as AVI"},
        {"\x89PNG\r\n\x1a\n\1\1", "picture (PNG)"},
        {"A fox jumps over\n", "is a text file; expected a safetensors"},
        {"# a line\r\n", "is a text file"},
        {"\xff\xd8\xff\xe0\1\1JFIF", "picture (JPEG)"},
        {"{\"a\": 1, \"b\": 2, \"c\": 3}", "is JSON; open an index of shards"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        VaeError error;
        const VaeStatus status =
            open_bytes(cases[i].begin, strlen(cases[i].begin), &error);
        check_refused("another kind of file", status, &error, VAE_ERR_FORMAT,
                      cases[i].words);
    }
}

static void
check_good(void)
{
    static const char json[] =
        "{\"z\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[6,14]},"
        "\"__metadata__\":{\"format\":\"pt\",\"empty\":\"\"},"
        "\"a.b\":{\"shape\":[3],\"dtype\":\"BF16\",\"data_offsets\":[0,6]},"
        "\"e\":{\"dtype\":\"F16\",\"shape\":[4,0],\"data_offsets\":[6,6]},"
        "\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[14,22],"
        "\"more\":{\"x\":[1]}},"
        "\"q\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[22,24]},"
        "\"h\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[24,26]}}   \n";
    VaeTensorFile *file;
    VaeError error;
    SCOPED_BLOCK uint8_t *bytes = NULL;
    const VaeStatus status =
        open_json(json, strlen(json), 26, &file, &bytes, &error);
    check(status == VAE_OK, "a good file opens: %s", error.message);
    if (status != VAE_OK)
        return;
    static const char *const order[] = {"z", "a.b", "e", "s", "q", "h"};
    bool good = vae_tensor_file_count(file) == COUNT(order);
    for (size_t i = 0; i < COUNT(order) && good; i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        good = strcmp(info->name, order[i]) == 0 &&
               vae_tensor_file_find(file, order[i]) == info;
    }
    check(good, "tensors in the order of the header, each found by name");
    check(vae_tensor_file_at(file, 6) == NULL, "no tensor past the end");
    check(vae_tensor_file_find(file, "") == NULL &&
              vae_tensor_file_find(file, "zz") == NULL &&
              vae_tensor_file_find(file, "__metadata__") == NULL,
          "names that are not there");
    const VaeTensorInfo *z = vae_tensor_file_find(file, "z");
    check(z->type == VAE_TYPE_F32 && z->supported && z->n_dims == 2 &&
              z->dims[0] == 2 && z->dims[1] == 1 && z->bytes == 8 &&
              z->offset == 8 + strlen(json) + 6 &&
              *(const uint8_t *) z->data == 7,
          "F32: type, shape, place and data");
    const VaeTensorInfo *s = vae_tensor_file_find(file, "s");
    check(!s->supported && strcmp(s->type_name, "I64") == 0 && s->n_dims == 0 &&
              s->bytes == 8,
          "I64 is listed as not supported");
    check(!vae_tensor_file_find(file, "q")->supported, "F8 too");
    const char *format = vae_tensor_file_metadata(file, "format");
    const char *empty = vae_tensor_file_metadata(file, "empty");
    check(format != NULL && strcmp(format, "pt") == 0 && empty != NULL &&
              empty[0] == '\0' && vae_tensor_file_metadata(file, "x") == NULL,
          "metadata");
    check(strcmp(vae_tensor_file_name(file), "x.safetensors") == 0, "name");
    vae_tensor_file_free(&file);
    check(file == NULL, "freed");
    vae_tensor_file_free(&file);
    vae_tensor_file_free(NULL);
}

static void
check_empty(void)
{
    VaeTensorFile *file;
    VaeError error;
    SCOPED_BLOCK uint8_t *bytes = NULL;
    const VaeStatus status = open_json("{}", 2, 0, &file, &bytes, &error);
    check(status == VAE_OK && vae_tensor_file_count(file) == 0 &&
              vae_tensor_file_find(file, "a") == NULL &&
              vae_tensor_file_metadata(file, "a") == NULL,
          "a file without tensors");
    vae_tensor_file_free(&file);
}

/* Finds each of thousands of names. */
static void
check_many(void)
{
    enum { N = 3000 };
    char *json = malloc((size_t) N * 80), name[16];
    size_t used = 0;
    for (int i = 0; i < N; i++)
        used += (size_t) sprintf(json + used,
                                 "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[%d,%d]}",
                                 i == 0 ? "{" : ",", i, i, i + 1);
    json[used++] = '}';
    VaeTensorFile *file;
    VaeError error;
    SCOPED_BLOCK uint8_t *bytes = NULL;
    const VaeStatus status = open_json(json, used, N, &file, &bytes, &error);
    bool good = status == VAE_OK;
    for (int i = 0; good && i < N; i++) {
        snprintf(name, sizeof name, "t%d", i);
        const VaeTensorInfo *info = vae_tensor_file_find(file, name);
        good =
            info != NULL && *(const uint8_t *) info->data == (uint8_t) (i + 1);
    }
    check(good, "%d tensors by name", N);
    vae_tensor_file_free(&file);
    free(json);
}

/* Checks the parts of the error for too few or too many bytes in memory. */
static void
check_numbers(const VaeError *error, size_t found, const char *limit,
              size_t expected)
{
    char texts[2][48];
    snprintf(texts[0], sizeof texts[0], "%zu bytes", found);
    snprintf(texts[1], sizeof texts[1], "%s %zu", limit, expected);
    check_error_parts("the error has both sizes", error, NULL, texts[0],
                      texts[1]);
}

static void
check_header_only(void)
{
    static const char json[] =
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[1000,1000],"
        "\"data_offsets\":[0,2000000]}}";
    const size_t need = 8 + strlen(json);
    const uint64_t total = need + 2000000;
    size_t size;
    SCOPED_BLOCK uint8_t *bytes = make_file(json, strlen(json), 0, &size);
    VaeError error = {0};
    VaeTensorFile *file;
    uint64_t told = 0;
    VaeStatus status =
        vae_tensor_header_size(bytes, 16, total, "h", &told, &error);
    check(status == VAE_OK && told == need, "16 bytes tell the header's size");
    status = vae_tensor_header_size(bytes, 7, total, "h", &told, &error);
    check(status == VAE_OK && told == 16, "7 bytes do not tell");
    status = vae_tensor_header_size(bytes, 16, UINT64_MAX, "h", &told, &error);
    check(status == VAE_OK && told == need, "with unknown length");
    status = vae_tensor_header_size(bytes, 16, 50, "h", &told, &error);
    check_refused("header past a known length", status, &error, VAE_ERR_FORMAT,
                  "past the end|50 bytes");

    status =
        vae_tensor_file_open_memory(bytes, size, total, "h", &file, &error);
    const VaeTensorInfo *a =
        status == VAE_OK ? vae_tensor_file_find(file, "a") : NULL;
    check(a != NULL && a->data == NULL && a->offset == need &&
              a->bytes == 2000000,
          "header only: no data");
    vae_tensor_file_free(&file);
    status = vae_tensor_file_open_memory(bytes, size, UINT64_MAX, "h", &file,
                                         &error);
    check(status == VAE_OK && vae_tensor_file_at(file, 0)->data == NULL,
          "header only, unknown length");
    vae_tensor_file_free(&file);
    status =
        vae_tensor_file_open_memory(bytes, size, total - 1, "h", &file, &error);
    check_refused("header only, data cut off", status, &error, VAE_ERR_FORMAT,
                  "\"a\"|past the end");
    status =
        vae_tensor_file_open_memory(bytes, size, total + 1, "h", &file, &error);
    check_refused("header only, data beyond", status, &error, VAE_ERR_FORMAT,
                  "last 1 byte of the file");
    status =
        vae_tensor_file_open_memory(bytes, size - 1, total, "h", &file, &error);
    check_refused("half a header given", status, &error, VAE_ERR_ARGUMENT,
                  "bytes of the file are in memory");
    check_numbers(&error, size - 1, "at least", size);
    status = vae_tensor_file_open_memory(bytes, 3, total, "h", &file, &error);
    check_numbers(&error, 3, "at least", 16);
    status =
        vae_tensor_file_open_memory(bytes, size, size - 1, "h", &file, &error);
    check_refused("more given than there is", status, &error, VAE_ERR_ARGUMENT,
                  "bytes of the file are in memory");
    check_numbers(&error, size, "at most", size - 1);
}

int
main(void)
{
    check_bad();
    check_bad_bytes();
    check_lengths();
    check_mistakes();
    check_good();
    check_empty();
    check_many();
    check_header_only();
    return test_end();
}
