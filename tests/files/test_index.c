/*
 * Tests sharded files with an index, folders of models, and refused names in an
 * index.
 */
#include <limits.h>
#include <sys/stat.h>

#include "folder.h"
#include "torch/archive.h"

#define NAME "diffusion_pytorch_model"
#define WEIGHTS NAME ".safetensors"

static void
write_text(const char *name, const char *text)
{
    write_bytes(name, text, strlen(text));
}

/* Makes a tensor of two numbers for each letter of names. The first number is
 * v.
 */
static void
write_shard(const char *name, const char *names, float v)
{
    VaeTensorOut out[4];
    char each[4][2];
    const float data[2] = {v, 0};
    const size_t n = strlen(names);
    for (size_t i = 0; i < n; i++) {
        each[i][0] = names[i];
        each[i][1] = '\0';
        out[i] = (VaeTensorOut){.name = each[i],
                                .type = VAE_TYPE_F32,
                                .n_dims = 1,
                                .dims = {2},
                                .data = data};
    }
    const VaeMetadata meta = {"vae.variant", "tiny"};
    if (vae_tensor_file_write(path_of(name), out, n, &meta, 1, NULL) != VAE_OK)
        abort();
}

static float
first_of(const VaeTensorFile *file, const char *name)
{
    const VaeTensorInfo *t = vae_tensor_file_find(file, name);
    float v = -1;
    if (t != NULL && t->bytes == 8 && t->data != NULL)
        memcpy(&v, t->data, sizeof v);
    return v;
}

static VaeError last; /* of expect() */

static void
expect(const char *what, const char *index, VaeStatus expected,
       const char *words)
{
    SCOPED_FILE VaeTensorFile *file = NULL;
    write_text("i.json", index);
    const VaeStatus status =
        vae_tensor_file_open(path_of("i.json"), &file, &last);
    check_refused(what, status, &last, expected, words);
}

static void
check_shards(void)
{
    VaeError error = {0};
    SCOPED_FILE VaeTensorFile *file = NULL;
    write_shard("a.safetensors", "xz", 1);
    write_shard("b.safetensors", "y", 2);
    write_text("i.json", " {\"metadata\": {\"total_size\": 24},\n"
                         "\"weight_map\": {\"x\": \"a.safetensors\",\n"
                         "\"y\": \"b.safetensors\", "
                         "\"z\": \"a.safetensors\"}}\n");
    check(vae_tensor_file_open(path_of("i.json"), &file, &error) == VAE_OK &&
              vae_tensor_file_count(file) == 3 && first_of(file, "x") == 1 &&
              first_of(file, "y") == 2 && first_of(file, "z") == 1 &&
              strcmp(vae_tensor_file_at(file, 1)->name, "y") == 0 &&
              vae_tensor_file_find(file, "w") == NULL,
          "two shards are one file %s", error.message);
    check(file != NULL &&
              strcmp(vae_tensor_file_metadata(file, "vae.variant"), "tiny") ==
                  0 &&
              vae_tensor_file_metadata(file, "none") == NULL,
          "their metadata is found");
}

#define MAP(map) "{\"weight_map\": {" map "}}"

static void
check_refusals(void)
{
    const VaeStatus format = VAE_ERR_FORMAT;
    expect("an absolute path", MAP("\"x\": \"/etc/x.safetensors\""), format,
           "refused|\"/etc/x.safetensors\"|absolute");
    check_error_parts("an absolute path", &last, NULL, "/etc/x.safetensors",
                      "*.safetensors beside the index");
    expect("a folder above", MAP("\"x\": \"../a.safetensors\""), format,
           "refused|\"../a.safetensors\"|beside");
    expect("a folder below", MAP("\"x\": \"s/../../a.safetensors\""), format,
           "refused|\"s/../../a.safetensors\"|beside");
    expect("the folder above", MAP("\"x\": \"..\""), format, "refused|\"..\"");
    expect("another kind of file", MAP("\"x\": \"a.pth\""), format,
           "\"a.pth\"|.safetensors");
    check_error_parts("another kind of file", &last, NULL, "a.pth",
                      "*.safetensors beside the index");
    expect("no text", MAP("\"x\": 3"), format, "\"x\"|no text");
    check_error_parts("no text", &last, "x", "no text", "the name of a file");
    expect("no map", "{\"_class_name\": \"x\"}", format, "weight_map");
    check_error_parts("no map", &last, NULL, "JSON without a \"weight_map\"",
                      "weights or their index");
    expect("an empty map", MAP(""), format, "weight_map");
    expect("a map that is no object", "{\"weight_map\": []}", format,
           "weight_map");
    expect("no JSON", "{\"weight_map\": {", format, "JSON");
    expect("a name twice",
           MAP("\"x\": \"a.safetensors\", \"x\": \"b.safetensors\""), format,
           "duplicate");
    expect("deep nesting", "{\"weight_map\":[[[[[[[[[[[[]]]]]]]]]]]]}", format,
           "nested");
    expect("a shard that is missing", MAP("\"x\": \"none.safetensors\""),
           VAE_ERR_NOT_FOUND, "\"none.safetensors\"|No such file");
    expect("a tensor that is missing",
           MAP("\"x\": \"a.safetensors\", \"z\": \"a.safetensors\", "
               "\"v\": \"a.safetensors\""),
           format, "\"v\"|\"a.safetensors\"|does not hold");
    check_error_parts("a tensor that is missing", &last, "v", "no such tensor",
                      "a.safetensors");
    expect("a tensor too many", MAP("\"x\": \"a.safetensors\""), format,
           "\"z\"|\"a.safetensors\"|does not name");
    check_error_parts("a tensor too many", &last, "z", "a.safetensors",
                      "a shard in the index");
}

/* Shards that are no files of tensors, or not those of the index. */
static void
check_refused_shards(void)
{
    const VaeStatus format = VAE_ERR_FORMAT;
    write_shard("c.safetensors", "xy", 3);
    expect("a tensor in two shards",
           MAP("\"x\": \"a.safetensors\", \"z\": \"a.safetensors\", "
               "\"y\": \"c.safetensors\""),
           format, "\"x\"|twice|\"c.safetensors\"");
    check_error_parts("a tensor in two shards", &last, "x", "c.safetensors",
                      "a.safetensors");
    write_text("d.safetensors", MAP("\"x\": \"d.safetensors\""));
    expect("an index as a shard", MAP("\"x\": \"d.safetensors\""), format,
           "\"d.safetensors\"|JSON");
    if (mkdir(path_of("m.safetensors"), 0777) != 0 ||
        mkfifo(path_of("p.safetensors"), 0666) != 0)
        abort();
    expect("a directory", MAP("\"x\": \"m.safetensors\""), VAE_ERR_READ,
           "\"m.safetensors\"|directory");
    check_error_parts("a directory", &last, NULL, "directory", "regular file");
    expect("a pipe", MAP("\"x\": \"p.safetensors\""), VAE_ERR_READ,
           "\"p.safetensors\"|pipe");
    Member member = {"x/data.pkl", {(uint8_t *) "N.", 2}};
    const Bytes zip = make_zip(&member, 1, (ZipFault){0});
    write_bytes("z.safetensors", zip.data, zip.n);
    free(zip.data);
    expect("an archive", MAP("\"x\": \"z.safetensors\""), format,
           "\"z.safetensors\"|no safetensors");
    char many[60000] = "{\"weight_map\": {\"x\": \"a.safetensors\"";
    size_t used = strlen(many);
    for (int i = 0; i < 1100; i++)
        used += (size_t) snprintf(many + used, sizeof many - used,
                                  ", \"%d\": \"%d.safetensors\"", i, i);
    snprintf(many + used, sizeof many - used, "}}");
    expect("many shards of which none is there", many, VAE_ERR_NOT_FOUND,
           "\"0.safetensors\"");
}

static void
expect_folder(const char *what, const char *name, const char *found, float v)
{
    VaeError error = {0};
    SCOPED_FILE VaeTensorFile *file = NULL;
    char expected[PATH_MAX];
    snprintf(expected, sizeof expected, "%s", path_of(found));
    check(vae_tensor_file_open(path_of(name), &file, &error) == VAE_OK &&
              first_of(file, "x") == v &&
              strcmp(vae_tensor_file_name(file), expected) == 0,
          "%s %s", what, error.message);
}

static void
check_folders(void)
{
    VaeError error = {0};
    VaeTensorFile *file;
    if (mkdir(path_of("empty"), 0777) != 0 ||
        mkdir(path_of("empty/snapshots"), 0777) != 0)
        abort();
    VaeStatus status = vae_tensor_file_open(path_of("empty"), &file, &error);
    check_refused("a model without revisions in Hugging Face's cache", status,
                  &error, VAE_ERR_NOT_FOUND,
                  "/empty/snapshots: has 0 revisions of a model; expected one");
    mkdir(path_of("empty/snapshots/1a"), 0777);
    write_shard("empty/snapshots/1a/" WEIGHTS, "x", 4);
    expect_folder("a model in Hugging Face's cache", "empty",
                  "empty/snapshots/1a/" WEIGHTS, 4);
    mkdir(path_of("empty/snapshots/2b"), 0777);
    status = vae_tensor_file_open(path_of("empty"), &file, &error);
    check_refused("a model with two revisions", status, &error,
                  VAE_ERR_NOT_FOUND, "has 2 revisions of a model: |1a|2b|, or");
    unlink(path_of("empty/snapshots/1a/" WEIGHTS));
    rmdir(path_of("empty/snapshots/1a"));
    rmdir(path_of("empty/snapshots/2b"));
    rmdir(path_of("empty/snapshots"));
    status = vae_tensor_file_open(path_of("empty"), &file, &error);
    check_refused("a folder without weights", status, &error, VAE_ERR_NOT_FOUND,
                  "directory|diffusion_pytorch_model.safetensors|.index.json|"
                  "vae/|expected a file, or the folder of a model");
    if (symlink("none", path_of("empty/odd.pth")) != 0)
        abort();
    status = vae_tensor_file_open(path_of("empty"), &file, &error);
    check_refused("only a link of an odd name", status, &error,
                  VAE_ERR_NOT_FOUND, "/odd.pth: |symbolic link to none, which");
    write_shard("empty/my.safetensors", "x", 3);
    expect_folder("a file beside a link", "empty", "empty/my.safetensors", 3);
    unlink(path_of("empty/my.safetensors"));
    unlink(path_of("empty/odd.pth"));
    write_shard("empty/t_encoder.safetensors", "x", 3);
    if (symlink("none", path_of("empty/t_decoder.safetensors")) != 0)
        abort();
    status = vae_tensor_file_open(path_of("empty"), &file, &error);
    check_refused("a link for one of two", status, &error, VAE_ERR_NOT_FOUND,
                  "/t_decoder.safetensors: |symbolic link to none, which");
    unlink(path_of("empty/t_encoder.safetensors"));
    unlink(path_of("empty/t_decoder.safetensors"));
    rmdir(path_of("empty"));
    if (mkdir(path_of("vae"), 0777) != 0)
        abort();
    if (symlink("../blobs/none", path_of("vae/" WEIGHTS)) != 0)
        abort();
    status = vae_tensor_file_open(folder, &file, &error);
    check_refused("a link without a target", status, &error, VAE_ERR_NOT_FOUND,
                  "/vae/" WEIGHTS ": |symbolic link to ../blobs/none|exist");
    unlink(path_of("vae/" WEIGHTS));
    static const char *const variants[] = {
        NAME ".bin", NAME ".bf16.safetensors", WEIGHTS ".index.fp16.json",
        NAME ".fp16.safetensors"};
    for (int i = 0; i < 4; i++) {
        if (strstr(variants[i], ".json"))
            write_text(variants[i], MAP("\"x\": \"a.safetensors\", "
                                        "\"z\": \"a.safetensors\""));
        else
            write_shard(variants[i], "x", 2);
        expect_folder("another kind", "", variants[i],
                      strstr(variants[i], ".json") ? 1 : 2);
    }
    for (int i = 0; i < 4; i++)
        unlink(path_of(variants[i]));
    write_shard("vae/a.safetensors", "x", 5);
    write_text("vae/" WEIGHTS ".index.json", MAP("\"x\": \"a.safetensors\""));
    expect_folder("an index in vae/", "", "vae/" WEIGHTS ".index.json", 5);
    write_shard("vae/" WEIGHTS, "x", 6);
    expect_folder("weights in vae/", ".", "./vae/" WEIGHTS, 6);
    write_text(WEIGHTS ".index.json", MAP("\"x\": \"a.safetensors\", "
                                          "\"z\": \"a.safetensors\""));
    expect_folder("an index", "", WEIGHTS ".index.json", 1);
    write_shard(WEIGHTS, "x", 8);
    expect_folder("weights", "", WEIGHTS, 8);
}

/* Shards that are symbolic links, also as huggingface_hub makes them. */
static void
check_links(void)
{
    static const struct {
        const char *folder, *to;
        bool good;
    } rows[] = {
        {"", "a.safetensors", true},
        {"repo/snapshots/1/vae/", "../../../blobs/0f", true},
        {"repo/snapshots/1/vae/", "../../../blobs/below/0f", false},
        {"repo/snapshots/1/vae/", "../../../0f", false},
        {"repo/", "blobs/0f", false},
        {"", "repo/blobs/0f", false},
        {"", "/dev/null", false},
        {"", "none", false},
    };
    static const char *const folders[] = {"repo",
                                          "repo/snapshots",
                                          "repo/snapshots/1",
                                          "repo/snapshots/1/vae",
                                          "repo/blobs",
                                          "repo/blobs/below"};
    for (size_t i = 0; i < COUNT(folders); i++)
        if (mkdir(path_of(folders[i]), 0777) != 0)
            abort();
    write_shard("repo/blobs/0f", "xz", 1);
    write_shard("repo/blobs/below/0f", "xz", 1);
    write_shard("repo/0f", "xz", 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        VaeError error = {0};
        SCOPED_FILE VaeTensorFile *file = NULL;
        char link[64], index[64];
        snprintf(link, sizeof link, "%sl.safetensors", rows[i].folder);
        snprintf(index, sizeof index, "%s" WEIGHTS ".index.json",
                 rows[i].folder);
        write_text(index, MAP("\"x\": \"l.safetensors\", "
                              "\"z\": \"l.safetensors\""));
        if (symlink(rows[i].to, path_of(link)) != 0)
            abort();
        const VaeStatus status =
            vae_tensor_file_open(path_of(index), &file, &error);
        if (rows[i].good)
            check(status == VAE_OK && first_of(file, "x") == 1,
                  "a link to %s %s", rows[i].to, error.message);
        else if (strcmp(rows[i].to, "none") == 0)
            check_refused(
                rows[i].to, status, &error, VAE_ERR_NOT_FOUND,
                "\"l.safetensors\"|is a symbolic link to none, which");
        else
            check_refused(rows[i].to, status, &error, VAE_ERR_FORMAT,
                          "\"l.safetensors\"|refused: is a symbolic link to|"
                          "beside the index|Replace the link by a copy");
        unlink(path_of(link));
        unlink(path_of(index));
    }
    static const char *const files[] = {"repo/blobs/0f", "repo/blobs/below/0f",
                                        "repo/0f"};
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(path_of(files[i]));
    for (size_t i = COUNT(folders); i > 0; i--)
        rmdir(path_of(folders[i - 1]));
}

static void
remove_all(void)
{
    static const char *const names[] = {"a.safetensors",
                                        "b.safetensors",
                                        "c.safetensors",
                                        "d.safetensors",
                                        "p.safetensors",
                                        "z.safetensors",
                                        "i.json",
                                        WEIGHTS,
                                        WEIGHTS ".index.json",
                                        "vae/a.safetensors",
                                        "vae/" WEIGHTS,
                                        "vae/" WEIGHTS ".index.json"};
    for (size_t i = 0; i < COUNT(names); i++)
        unlink(path_of(names[i]));
    rmdir(path_of("vae"));
    rmdir(path_of("m.safetensors"));
    rmdir(folder);
}

int
main(void)
{
    snprintf(folder, sizeof folder, "%s", test_folder());
    check_shards();
    check_refusals();
    check_refused_shards();
    check_links();
    check_folders();
    remove_all();
    return test_end();
}
