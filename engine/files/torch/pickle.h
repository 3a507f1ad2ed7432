/*
 * pickle.h: reads a pickle that torch.save() wrote. A stack machine for the
 * opcodes and the few globals that saved tensors need. It runs no code, and
 * refuses all other opcodes and globals by name.
 */
#ifndef VAE_PICKLE_H
#define VAE_PICKLE_H

#include "files.h"

/* Bytes; far more than the list of a model's tensors takes. */
#define VAE_MAX_PICKLE ((size_t) 4 << 20)

typedef enum VaePickleKind {
    VAE_PICKLE_NONE,
    VAE_PICKLE_BOOL,
    VAE_PICKLE_INT, /* number */
    VAE_PICKLE_FLOAT,
    VAE_PICKLE_TEXT,    /* n bytes from byte `number` of the pickle */
    VAE_PICKLE_GLOBAL,  /* see vae_pickle_global() */
    VAE_PICKLE_TUPLE,   /* n items, see vae_pickle_items() */
    VAE_PICKLE_LIST,    /* a dict whose keys are the numbers 0, 1 ... */
    VAE_PICKLE_DICT,    /* see vae_pickle_next() */
    VAE_PICKLE_STORAGE, /* 5 items: "storage", type, key, device, elements */
    VAE_PICKLE_TENSOR,  /* 6 items: storage, offset in elements, size, stride,
                           requires_grad, hooks */
    VAE_PICKLE_MARK     /* on the stack only */
} VaePickleKind;

typedef struct VaePickleValue {
    VaePickleKind kind;
    uint32_t n;
    int64_t number;
} VaePickleValue;

typedef struct VaePickleEntry {
    VaePickleValue key, value;
    size_t next; /* index of the dict's next entry plus 1; 0: none */
} VaePickleEntry;

typedef enum VaePickleRole {
    VAE_PICKLE_ROLE_TENSOR,
    VAE_PICKLE_ROLE_PARAMETER,
    VAE_PICKLE_ROLE_ORDERED_DICT,
    VAE_PICKLE_ROLE_STORAGE,
    VAE_PICKLE_ROLE_KEY /* of a dict beside the weights; a call is refused */
} VaePickleRole;

typedef struct VaePickleGlobal {
    const char *module, *name;
    VaePickleRole role;
    const char
        *type_name; /* a storage's element type, as safetensors names it */
    int size;
    bool supported;
    VaeType type;
} VaePickleGlobal;

typedef struct VaePool {
    void *items;
    size_t n, room;
} VaePool;

typedef struct VaePickle {
    const char *label;
    const uint8_t *bytes; /* borrowed */
    size_t size, at;
    VaePool stack, memo, items; /* of VaePickleValue */
    VaePool dicts;              /* of struct VaePickleDict */
    VaePool entries;            /* of VaePickleEntry */
    VaePickleValue result;
} VaePickle;

/* Runs the pickle to its end. It takes memory of at most about 50 times its
 * size. vae_pickle_clear() frees *p, also after an error or if it is all zeros.
 */
VaeStatus vae_pickle_run(VaePickle *p, const uint8_t *bytes, size_t size,
                         const char *label, VaeError *error);
void vae_pickle_clear(VaePickle *p);

const VaePickleGlobal *vae_pickle_global(const VaePickleValue *value);
const char *vae_pickle_text(const VaePickle *p, const VaePickleValue *value);
/* The items of a tuple, storage or tensor. */
const VaePickleValue *vae_pickle_items(const VaePickle *p,
                                       const VaePickleValue *value);
/* The entry of a dict or list after `entry`; the first if `entry` is NULL; NULL
 * at the end. A dict may contain itself. */
const VaePickleEntry *vae_pickle_next(const VaePickle *p,
                                      const VaePickleValue *dict,
                                      const VaePickleEntry *entry);

#endif
