#include "pickle_stack.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"

#define MAX_STACK ((size_t) 1 << 16)

typedef struct VaePickleDict {
    size_t first, last; /* index of an entry plus 1; 0: none */
    size_t n;
} VaePickleDict;

#define STORAGE(name, type_name, size, supported, type)                        \
    {                                                                          \
        "torch", name, VAE_PICKLE_ROLE_STORAGE, type_name, size, supported,    \
            type                                                               \
    }

static const VaePickleGlobal globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", VAE_PICKLE_ROLE_TENSOR},
    {"torch._utils", "_rebuild_parameter", VAE_PICKLE_ROLE_PARAMETER},
    {"collections", "OrderedDict", VAE_PICKLE_ROLE_ORDERED_DICT},
    {"pytorch_lightning.callbacks.model_checkpoint", "ModelCheckpoint",
     VAE_PICKLE_ROLE_KEY},
    STORAGE("FloatStorage", "F32", 4, true, VAE_TYPE_F32),
    STORAGE("HalfStorage", "F16", 2, true, VAE_TYPE_F16),
    STORAGE("BFloat16Storage", "BF16", 2, true, VAE_TYPE_BF16),
    STORAGE("ByteStorage", "U8", 1, true, VAE_TYPE_U8),
    STORAGE("DoubleStorage", "F64", 8, true, VAE_TYPE_F64),
    STORAGE("LongStorage", "I64", 8, false, 0),
    STORAGE("IntStorage", "I32", 4, false, 0),
    STORAGE("ShortStorage", "I16", 2, false, 0),
    STORAGE("CharStorage", "I8", 1, false, 0),
    STORAGE("BoolStorage", "BOOL", 1, false, 0),
};

VaeStatus
vae_pickle_fail(const VaePickle *p, const char *what, VaeError *error)
{
    return vae_fail(error, VAE_ERR_FORMAT, "%s: data.pkl: %s (byte %zu)",
                    p->label, what, p->at);
}

/* ------------------------------------------------------------------ */

static VaeStatus
pool_push(const VaePickle *p, VaePool *pool, const void *item, size_t size,
          VaeError *error)
{
    if (pool->n == pool->room) {
        const size_t room = pool->room > 0 ? 2 * pool->room : 64;
        void *items = vae_mem_alloc(room * size);
        if (items == NULL)
            return vae_fail(error, VAE_ERR_MEMORY,
                            "%s: no memory for the values of a pickle",
                            p->label);
        if (pool->n > 0)
            memcpy(items, pool->items, pool->n * size);
        vae_mem_free(pool->items);
        pool->items = items;
        pool->room = room;
    }
    memcpy((uint8_t *) pool->items + pool->n * size, item, size);
    pool->n++;
    return VAE_OK;
}

static VaePickleValue *
value_at(const VaePool *pool, size_t i)
{
    return (VaePickleValue *) pool->items + i;
}

VaeStatus
vae_pickle_push(VaePickle *p, VaePickleValue value, VaeError *error)
{
    if (p->stack.n >= MAX_STACK)
        return vae_pickle_fail(p, "more than 65536 values on the stack", error);
    return pool_push(p, &p->stack, &value, sizeof value, error);
}

VaeStatus
vae_pickle_pop(VaePickle *p, VaePickleValue *out, VaeError *error)
{
    if (p->stack.n == 0 ||
        value_at(&p->stack, p->stack.n - 1)->kind == VAE_PICKLE_MARK)
        return vae_pickle_fail(p, "a value is popped, but there is none",
                               error);
    *out = *value_at(&p->stack, --p->stack.n);
    return VAE_OK;
}

VaeStatus
vae_pickle_pop_to_mark(VaePickle *p, const VaePickleValue **values, size_t *n,
                       VaeError *error)
{
    size_t i = p->stack.n;
    while (i > 0 && value_at(&p->stack, i - 1)->kind != VAE_PICKLE_MARK)
        i--;
    if (i == 0)
        return vae_pickle_fail(p, "a mark is popped, but there is none", error);
    *n = p->stack.n - i;
    *values = value_at(&p->stack, i);
    p->stack.n = i - 1;
    return VAE_OK;
}

VaeStatus
vae_pickle_take(VaePickle *p, uint64_t n, const uint8_t **out, VaeError *error)
{
    if (n > p->size - p->at)
        return vae_pickle_fail(p, "it ends in the middle of a value", error);
    *out = p->bytes + p->at;
    p->at += (size_t) n;
    return VAE_OK;
}

VaeStatus
vae_pickle_peek(VaePickle *p, VaePickleKind kind, const char *what,
                VaePickleValue *out, VaeError *error)
{
    const VaeStatus status = vae_pickle_pop(p, out, error);
    if (status != VAE_OK)
        return status;
    p->stack.n++;
    return out->kind == kind ? VAE_OK : vae_pickle_fail(p, what, error);
}

VaeStatus
vae_pickle_push_dict(VaePickle *p, VaePickleKind kind, VaeError *error)
{
    const VaePickleDict dict = {0};
    const VaePickleValue value = {kind, .number = (int64_t) p->dicts.n};
    const VaeStatus status = pool_push(p, &p->dicts, &dict, sizeof dict, error);
    return status == VAE_OK ? vae_pickle_push(p, value, error) : status;
}

VaeStatus
vae_pickle_put(VaePickle *p, uint64_t i, VaeError *error)
{
    VaePickleValue value;
    const VaeStatus status = vae_pickle_pop(p, &value, error);
    if (status != VAE_OK)
        return status;
    p->stack.n++;
    if (i > p->memo.n)
        return vae_pickle_fail(p, "the memo is written with a gap", error);
    if (i == p->memo.n)
        return pool_push(p, &p->memo, &value, sizeof value, error);
    *value_at(&p->memo, (size_t) i) = value;
    return VAE_OK;
}

VaeStatus
vae_pickle_get(VaePickle *p, uint64_t i, VaeError *error)
{
    if (i >= p->memo.n)
        return vae_pickle_fail(p, "the memo is read past its end", error);
    return vae_pickle_push(p, *value_at(&p->memo, (size_t) i), error);
}

VaeStatus
vae_pickle_set_item(VaePickle *p, const VaePickleValue *dict,
                    const VaePickleValue *pair, VaeError *error)
{
    const VaePickleEntry entry = {pair[0], pair[1], 0};
    const VaeStatus status =
        pool_push(p, &p->entries, &entry, sizeof entry, error);
    if (status != VAE_OK)
        return status;
    VaePickleDict *d = (VaePickleDict *) p->dicts.items + dict->number;
    if (d->last > 0)
        ((VaePickleEntry *) p->entries.items)[d->last - 1].next = p->entries.n;
    else
        d->first = p->entries.n;
    d->last = p->entries.n;
    d->n++;
    return VAE_OK;
}

VaeStatus
vae_pickle_append(VaePickle *p, const VaePickleValue *list,
                  const VaePickleValue *values, size_t n, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (size_t i = 0; status == VAE_OK && i < n; i++) {
        const VaePickleDict *d =
            (VaePickleDict *) p->dicts.items + list->number;
        const VaePickleValue pair[2] = {
            {VAE_PICKLE_INT, .number = (int64_t) d->n}, values[i]};
        status = vae_pickle_set_item(p, list, pair, error);
    }
    return status;
}

VaeStatus
vae_pickle_push_global(VaePickle *p, const char *module, size_t n_module,
                       const char *name, size_t n_name, VaeError *error)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (strlen(globals[i].module) == n_module &&
            strlen(globals[i].name) == n_name &&
            memcmp(globals[i].module, module, n_module) == 0 &&
            memcmp(globals[i].name, name, n_name) == 0)
            return vae_pickle_push(
                p, (VaePickleValue){VAE_PICKLE_GLOBAL, .number = (int64_t) i},
                error);
    }
    static const char newer[] = "_rebuild_tensor_v3";
    if (n_name == strlen(newer) && memcmp(name, newer, n_name) == 0)
        return vae_mismatch(
            error, VAE_ERR_FORMAT, NULL,
            "%s: has tensors of {a newer type of PyTorch, such as float8}, "
            "expected {=float32, float16, bfloat16 or float64}: convert them, "
            "by x.float() of torch",
            p->label);
    char first[VAE_NAME_SHOWN], second[VAE_NAME_SHOWN];
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: refused: it wants to call %s.%s; only tensors, and "
                    "dicts, lists and tuples of tensors are read, such as a "
                    "state_dict()",
                    p->label, vae_shown(module, n_module, first, sizeof first),
                    vae_shown(name, n_name, second, sizeof second));
}

VaeStatus
vae_pickle_push_tuple(VaePickle *p, const VaePickleValue *values, size_t n,
                      VaeError *error)
{
    const VaePickleValue tuple = {VAE_PICKLE_TUPLE, (uint32_t) n,
                                  (int64_t) p->items.n};
    VaeStatus status = VAE_OK;
    for (size_t i = 0; status == VAE_OK && i < n; i++)
        status = pool_push(p, &p->items, &values[i], sizeof *values, error);
    return status == VAE_OK ? vae_pickle_push(p, tuple, error) : status;
}

void
vae_pickle_clear(VaePickle *p)
{
    vae_mem_free(p->stack.items);
    vae_mem_free(p->memo.items);
    vae_mem_free(p->items.items);
    vae_mem_free(p->dicts.items);
    vae_mem_free(p->entries.items);
    *p = (VaePickle){0};
}

const VaePickleGlobal *
vae_pickle_global(const VaePickleValue *value)
{
    return &globals[value->number];
}

const char *
vae_pickle_text(const VaePickle *p, const VaePickleValue *value)
{
    return (const char *) p->bytes + value->number;
}

const VaePickleValue *
vae_pickle_items(const VaePickle *p, const VaePickleValue *value)
{
    /* The pool is NULL if all tuples are empty. */
    return p->items.n > 0 ? value_at(&p->items, (size_t) value->number) : NULL;
}

const VaePickleEntry *
vae_pickle_next(const VaePickle *p, const VaePickleValue *dict,
                const VaePickleEntry *entry)
{
    const VaePickleDict *d =
        (const VaePickleDict *) p->dicts.items + dict->number;
    const size_t next = entry != NULL ? entry->next : d->first;
    return next > 0 ? (const VaePickleEntry *) p->entries.items + (next - 1)
                    : NULL;
}
