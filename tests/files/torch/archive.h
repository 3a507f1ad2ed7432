/*
 * archive.h: writes valid and faulty zip archives and pickles.
 */
#ifndef VAE_FILES_ARCHIVE_H
#define VAE_FILES_ARCHIVE_H

#include "../test.h"

typedef struct Bytes {
    uint8_t *data;
    size_t n, room;
} Bytes;

static inline void
put(Bytes *b, const void *data, size_t n)
{
    if (b->n + n >= b->room) {
        b->room = 2 * (b->n + n) + 64;
        b->data = realloc(b->data, b->room);
    }
    if (b->data == NULL)
        abort();
    if (n > 0)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* A string literal with all its bytes. */
#define PUT(b, text) put(b, text, sizeof(text) - 1)

/* Appends a number of n bytes, little endian. */
static inline void
put_number(Bytes *b, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++, v >>= 8) {
        const uint8_t byte = (uint8_t) v;
        put(b, &byte, 1);
    }
}

typedef struct Member {
    const char *name;
    Bytes content;
    size_t method, flags, header;
} Member;

/* The faults of an archive; a valid archive has all members 0. */
typedef struct ZipFault {
    bool zip64;          /* no fault: writes the records of 64 bits */
    long packed_more;    /* the packed size of each member */
    long size_more;      /* both sizes of the first member */
    long header_more;    /* place of the last member's header */
    long offset_more;    /* place of the directory */
    long records_more;   /* number of members */
    long locator_more;   /* place of the 64-bit record */
    bool other_name;     /* in the local headers */
    const char *comment; /* no fault: at the end */
} ZipFault;

static inline void
put_record(Bytes *zip, const Member *m, const ZipFault *f, bool first,
           bool last)
{
    const uint64_t size = m->content.n + (uint64_t) (first ? f->size_more : 0);
    const uint64_t place = m->header + (uint64_t) (last ? f->header_more : 0);
    PUT(zip, "PK\1\2\0\0\0\0");
    put_number(zip, m->flags, 2);
    put_number(zip, m->method, 2);
    put_number(zip, 0, 8);
    put_number(zip, f->zip64 ? UINT32_MAX : size + (uint64_t) f->packed_more,
               4);
    put_number(zip, f->zip64 ? UINT32_MAX : size, 4);
    put_number(zip, strlen(m->name), 2);
    put_number(zip, f->zip64 ? 28 : 0, 2);
    put_number(zip, 0, 10);
    put_number(zip, f->zip64 ? UINT32_MAX : place, 4);
    put(zip, m->name, strlen(m->name));
    if (!f->zip64)
        return;
    PUT(zip, "\1\0\x18\0");
    put_number(zip, size, 8);
    put_number(zip, size + (uint64_t) f->packed_more, 8);
    put_number(zip, place, 8);
}

static inline void
put_end(Bytes *zip, size_t n, uint64_t directory, const ZipFault *f)
{
    const uint64_t size = zip->n - directory, end = zip->n;
    const uint64_t place = directory + (uint64_t) f->offset_more;
    n += (size_t) f->records_more;
    if (f->zip64) {
        PUT(zip, "PK\6\6\x2c\0\0\0\0\0\0\0\x1e\3\x2d\0\0\0\0\0\0\0\0\0");
        put_number(zip, n, 8);
        put_number(zip, n, 8);
        put_number(zip, size, 8);
        put_number(zip, place, 8);
        PUT(zip, "PK\6\7\0\0\0\0");
        put_number(zip, end + (uint64_t) f->locator_more, 8);
        put_number(zip, 1, 4);
    }
    PUT(zip, "PK\5\6\0\0\0\0");
    put_number(zip, n, 2);
    put_number(zip, n, 2);
    put_number(zip, f->zip64 ? UINT32_MAX : size, 4);
    put_number(zip, f->zip64 ? UINT32_MAX : place, 4);
    put_number(zip, f->comment != NULL ? strlen(f->comment) : 0, 2);
    if (f->comment != NULL)
        put(zip, f->comment, strlen(f->comment));
}

static inline Bytes
make_zip(Member *members, size_t n, ZipFault f)
{
    Bytes zip = {0};
    for (size_t i = 0; i < n; i++) {
        Member *m = &members[i];
        m->header = zip.n;
        PUT(&zip, "PK\3\4\0\0");
        put_number(&zip, m->flags, 2);
        put_number(&zip, m->method, 2);
        put_number(&zip, 0, 16); /* only the directory states it */
        put_number(&zip, strlen(m->name), 2);
        put_number(&zip, 3, 2);
        put(&zip, m->name, strlen(m->name));
        if (f.other_name)
            zip.data[zip.n - 1] ^= 1;
        PUT(&zip, "xyz");
        put(&zip, m->content.data, m->content.n);
    }
    const uint64_t directory = zip.n;
    for (size_t i = 0; i < n; i++)
        put_record(&zip, &members[i], &f, i == 0, i + 1 == n);
    put_end(&zip, n, directory, &f);
    return zip;
}

/* ------------------------------------------------------------------ */

static inline void
put_text(Bytes *b, const char *text)
{
    PUT(b, "X");
    put_number(b, strlen(text), 4);
    put(b, text, strlen(text));
}

static inline void
put_int(Bytes *b, int64_t v)
{
    PUT(b, "\x8a\10");
    put_number(b, (uint64_t) v, 8);
}

typedef struct Tensor {
    const char *storage; /* "FloatStorage" */
    const char *key;
    int64_t elements; /* of the storage */
    int64_t offset;
    int n_dims;
    int64_t dims[9], strides[9];
} Tensor;

static inline void
put_tensor(Bytes *b, const Tensor *t)
{
    PUT(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_text(b, "storage");
    PUT(b, "ctorch\n");
    put(b, t->storage, strlen(t->storage));
    PUT(b, "\n");
    put_text(b, t->key);
    put_text(b, "cpu");
    put_int(b, t->elements);
    PUT(b, "tQ");
    put_int(b, t->offset);
    for (int k = 0; k < 2; k++) {
        PUT(b, "(");
        for (int i = 0; i < t->n_dims; i++)
            put_int(b, k == 0 ? t->dims[i] : t->strides[i]);
        PUT(b, "t");
    }
    PUT(b, "\x89"
           "ccollections\nOrderedDict\n)RtR");
}

/* An archive with this pickle and storages "0" and "1" of 96 bytes 1, 2, 3 ...
 * Frees the pickle. */
static inline Bytes
make_torch(Bytes *pickle)
{
    uint8_t content[96];
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t) (i + 1);
    Member members[] = {{"x/data.pkl", *pickle},
                        {"x/byteorder", {(uint8_t *) "little", 6}},
                        {"x/data/0", {content, sizeof content}},
                        {"x/data/1", {content, sizeof content}}};
    const Bytes zip = make_zip(members, COUNT(members), (ZipFault){0});
    free(pickle->data);
    *pickle = (Bytes){0};
    return zip;
}

/* Opens a block of exactly this size, so that ASan sees a read past its end. */
static inline VaeStatus
open_zip(const char *name, Bytes *zip, VaeTensorFile **file, VaeError *error)
{
    *error = (VaeError){0};
    return vae_tensor_file_open_memory(zip->data, zip->n, zip->n, name, file,
                                       error);
}

static VaeError zip_error; /* of expect_zip() */

/* Checks that the archive is refused with these words, and frees it. */
static inline void
expect_zip(const char *what, Bytes zip, const char *words)
{
    VaeTensorFile *file = NULL;
    const VaeStatus status = open_zip("bad.pth", &zip, &file, &zip_error);
    check_refused(what, status, &zip_error, VAE_ERR_FORMAT, words);
    vae_tensor_file_free(&file);
    free(zip.data);
}

#endif
