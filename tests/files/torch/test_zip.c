/*
 * Reads the directory of a zip archive, and refuses faulty ones.
 */
#include "archive.h"
#include "zip.h"

static Member members[3];

static void
set_members(void)
{
    members[0] = (Member){"x/b", {(uint8_t *) "first", 5}};
    members[1] = (Member){"x/a", {(uint8_t *) "", 0}};
    members[2] = (Member){"x/c", {(uint8_t *) "third one", 9}};
}

static bool
holds(const VaeZip *zip, const Member *m)
{
    const VaeZipMember *found = vae_zip_find(zip, m->name, strlen(m->name));
    return found != NULL && found->size == m->content.n &&
           memcmp(zip->bytes + found->offset, m->content.data, m->content.n) ==
               0;
}

static VaeStatus
read_zip(VaeZip *zip, const uint8_t *bytes, size_t n, const char *label,
         VaeError *error)
{
    const VaeTensorFile file = {.label = label, .bytes = bytes, .size = n};
    return vae_zip_open(zip, &file, error);
}

static void
check_good(const char *what, ZipFault f)
{
    VaeZip zip;
    VaeError error = {0};
    set_members();
    const Bytes bytes = make_zip(members, 3, f);
    const VaeStatus status =
        read_zip(&zip, bytes.data, bytes.n, "good", &error);
    check(status == VAE_OK && zip.n == 3 && holds(&zip, &members[0]) &&
              holds(&zip, &members[1]) && holds(&zip, &members[2]) &&
              zip.first == vae_zip_find(&zip, "x/b", 3) &&
              vae_zip_find(&zip, "x/", 2) == NULL &&
              vae_zip_find(&zip, "x/cc", 4) == NULL,
          "%s %s", what, error.message);
    vae_zip_clear(&zip);
    free(bytes.data);
}

static void
expect(const char *what, Bytes bytes, const char *words)
{
    VaeZip zip;
    VaeError error = {0};
    const VaeStatus status =
        read_zip(&zip, bytes.data, bytes.n, "bad.zip", &error);
    check_refused(what, status, &error, VAE_ERR_FORMAT, words);
    vae_zip_clear(&zip);
    free(bytes.data);
}

static void
check_faults(void)
{
    static const struct {
        const char *what;
        ZipFault fault;
        const char *words;
    } cases[] = {
        {"two sizes", {.packed_more = 1}, "\"x/b\"|two sizes"},
        {"two sizes of 64 bits",
         {.zip64 = true, .packed_more = 1},
         "two sizes"},
        {"a member into the next", {.size_more = 4}, "\"x/a\"|overlaps"},
        {"a member past the end", {.size_more = 1 << 20}, "\"x/b\"|past"},
        {"a size of 2^63",
         {.zip64 = true, .size_more = INT64_MAX},
         "\"x/b\"|past"},
        {"a header inside of a member", {.header_more = -2}, "local header"},
        {"a header past the end", {.header_more = 1 << 20}, "past the end"},
        {"a header far past the end",
         {.zip64 = true, .header_more = INT64_MAX},
         "past the end"},
        {"a directory elsewhere", {.offset_more = -1}, "directory"},
        {"a directory past the end", {.offset_more = 1000}, "directory"},
        {"too many members", {.records_more = 1000}, "too small"},
        {"one more member", {.records_more = 1}, "too small"},
        {"one member less", {.records_more = -1}, "after its last"},
        {"no members", {.records_more = -3}, "no member"},
        {"2^40 members",
         {.zip64 = true, .records_more = 1L << 40},
         "end records differ"},
        {"a locator elsewhere", {.zip64 = true, .locator_more = -1}, "locator"},
        {"a locator past the end",
         {.zip64 = true, .locator_more = 1L << 62},
         "locator"},
        {"another name", {.other_name = true}, "\"x/b\"|another name"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        set_members();
        char words[100];
        snprintf(words, sizeof words, "bad.zip|%s", cases[i].words);
        expect(cases[i].what, make_zip(members, 3, cases[i].fault), words);
    }
}

static void
check_members(void)
{
    const ZipFault none = {0};
    set_members();
    members[1].method = 8;
    expect("a compressed member", make_zip(members, 3, none),
           "\"x/a\"|compressed");
    members[1].name = "latents.npy";
    expect("numpy's archive", make_zip(members, 3, none),
           "is an .npz archive of numpy|.npy|numpy.save()");
    members[1].name = "x/a";
    set_members();
    members[1].flags = 1;
    expect("an encrypted member", make_zip(members, 3, none),
           "\"x/a\"|encrypted");
    set_members();
    members[2].name = "x/b";
    expect("a name twice", make_zip(members, 3, none), "\"x/b\"|twice");

    set_members();
    Bytes zip = make_zip(members, 3, none);
    zip.data[members[2].header + 8] = 8; /* only in the local header */
    expect("compressed after all", zip, "\"x/c\"|local header");

    set_members();
    members[0].name = "x/a name that is longer than a record takes at least";
    expect("a record that is not there",
           make_zip(members, 3, (ZipFault){.records_more = 1}),
           "before its last");

    /* Two directory records point to one local header. */
    set_members();
    zip = make_zip(members, 1, none);
    members[1] = members[0];
    Bytes twice = {0};
    const size_t directory = members[0].header + 30 + 3 + 3 + 5;
    put(&twice, zip.data, directory);
    put_record(&twice, &members[0], &none, false, false);
    put_record(&twice, &members[1], &none, false, false);
    put_end(&twice, 2, directory, &none);
    free(zip.data);
    expect("one member under two records", twice, "overlaps");
}

/* Each truncated archive is refused, because its end is missing. */
static void
check_cut(bool zip64)
{
    set_members();
    const Bytes bytes =
        make_zip(members, 3, (ZipFault){.zip64 = zip64, .comment = "PK\5\6"});
    bool good = true;
    for (size_t n = 0; n < bytes.n; n++) {
        VaeZip zip;
        VaeError error = {0};
        SCOPED_BLOCK uint8_t *cut = malloc(n > 0 ? n : 1);
        memcpy(cut, bytes.data, n);
        good =
            good && read_zip(&zip, cut, n, "cut.zip", &error) == VAE_ERR_FORMAT;
        vae_zip_clear(&zip);
    }
    check(good, "cut short anywhere");
    free(bytes.data);
}

int
main(void)
{
    check_good("32 bits", (ZipFault){0});
    check_good("64 bits", (ZipFault){.zip64 = true});
    check_good("a comment", (ZipFault){.comment = "PK\5\6 something"});
    check_good("64 bits and a comment",
               (ZipFault){.zip64 = true, .comment = "something"});
    check_faults();
    check_members();
    check_cut(false);
    check_cut(true);
    return test_end();
}
