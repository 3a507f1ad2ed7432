/*
 * The machine that runs a pickle: one function for each opcode.
 */
#include "pickle_stack.h"

#include <string.h>

#define MAX_PROTOCOL 5
#define MAX_GLOBAL ((size_t) 1 << 16)

/* arg: the opcode's argument, a little-endian number, or the length of the data
 * after it. */
typedef VaeStatus (*Step)(VaePickle *p, uint64_t arg, VaeError *error);

static VaeStatus
step_proto(VaePickle *p, uint64_t arg, VaeError *error)
{
    return arg <= MAX_PROTOCOL
               ? VAE_OK
               : vae_pickle_fail(p, "a protocol later than 5", error);
}

static VaeStatus
step_frame(VaePickle *p, uint64_t arg, VaeError *error)
{
    return arg <= p->size - p->at
               ? VAE_OK
               : vae_pickle_fail(p, "a frame reaches past its end", error);
}

static VaeStatus
step_mark(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push(p, (VaePickleValue){VAE_PICKLE_MARK}, error);
}

static VaeStatus
step_none(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push(p, (VaePickleValue){VAE_PICKLE_NONE}, error);
}

static VaeStatus
step_bool(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push(p, (VaePickleValue){VAE_PICKLE_BOOL}, error);
}

static VaeStatus
step_float(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push(p, (VaePickleValue){VAE_PICKLE_FLOAT}, error);
}

static VaeStatus
step_unsigned(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push(
        p, (VaePickleValue){VAE_PICKLE_INT, .number = (int64_t) arg}, error);
}

static VaeStatus
step_signed(VaePickle *p, uint64_t arg, VaeError *error)
{
    const int64_t number = (int32_t) (uint32_t) arg;
    return vae_pickle_push(
        p, (VaePickleValue){VAE_PICKLE_INT, .number = number}, error);
}

static VaeStatus
step_long(VaePickle *p, uint64_t arg, VaeError *error)
{
    const uint8_t *bytes;
    if (arg > 8)
        return vae_pickle_fail(p, "an integer of more than 64 bits", error);
    const VaeStatus status = vae_pickle_take(p, arg, &bytes, error);
    if (status != VAE_OK)
        return status;
    uint64_t v = arg > 0 && bytes[arg - 1] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = (size_t) arg; i-- > 0;)
        v = v << 8 | bytes[i];
    return step_unsigned(p, v, error);
}

static VaeStatus
step_text(VaePickle *p, uint64_t arg, VaeError *error)
{
    const uint8_t *bytes;
    const VaeStatus status = vae_pickle_take(p, arg, &bytes, error);
    if (status != VAE_OK)
        return status;
    const VaePickleValue value = {VAE_PICKLE_TEXT, (uint32_t) arg,
                                  bytes - p->bytes};
    return vae_pickle_push(p, value, error);
}

static VaeStatus
step_empty_list(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push_dict(p, VAE_PICKLE_LIST, error);
}

static VaeStatus
step_empty_dict(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_push_dict(p, VAE_PICKLE_DICT, error);
}

static VaeStatus
step_memoize(VaePickle *p, uint64_t arg, VaeError *error)
{
    return vae_pickle_put(p, p->memo.n, error);
}

/* Takes the text up to the end of the line. */
static VaeStatus
take_line(VaePickle *p, const char **text, size_t *n, VaeError *error)
{
    const size_t left = p->size - p->at;
    *text = (const char *) p->bytes + p->at;
    const char *end =
        memchr(*text, '\n', left < MAX_GLOBAL ? left : MAX_GLOBAL);
    if (end == NULL)
        return vae_pickle_fail(p, "it ends in the middle of a name", error);
    *n = (size_t) (end - *text);
    p->at += *n + 1;
    return VAE_OK;
}

static VaeStatus
step_global(VaePickle *p, uint64_t arg, VaeError *error)
{
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    VaeStatus status = take_line(p, &module, &n_module, error);
    if (status == VAE_OK)
        status = take_line(p, &name, &n_name, error);
    if (status == VAE_OK)
        status =
            vae_pickle_push_global(p, module, n_module, name, n_name, error);
    return status;
}

static VaeStatus
step_stack_global(VaePickle *p, uint64_t arg, VaeError *error)
{
    VaePickleValue module, name;
    VaeStatus status = vae_pickle_pop(p, &name, error);
    if (status == VAE_OK)
        status = vae_pickle_pop(p, &module, error);
    if (status != VAE_OK)
        return status;
    if (module.kind != VAE_PICKLE_TEXT || name.kind != VAE_PICKLE_TEXT)
        return vae_pickle_fail(p, "a name that is no text", error);
    return vae_pickle_push_global(p, vae_pickle_text(p, &module), module.n,
                                  vae_pickle_text(p, &name), name.n, error);
}

/* ------------------------------------------------------------------ */

static VaeStatus
step_tuple(VaePickle *p, uint64_t arg, VaeError *error)
{
    const VaePickleValue *values = NULL;
    size_t n = 0;
    const VaeStatus status = vae_pickle_pop_to_mark(p, &values, &n, error);
    return status == VAE_OK ? vae_pickle_push_tuple(p, values, n, error)
                            : status;
}

static VaeStatus
small_tuple(VaePickle *p, size_t n, VaeError *error)
{
    VaePickleValue values[3] = {{0}};
    VaeStatus status = VAE_OK;
    for (size_t i = n; status == VAE_OK && i-- > 0;)
        status = vae_pickle_pop(p, &values[i], error);
    return status == VAE_OK ? vae_pickle_push_tuple(p, values, n, error)
                            : status;
}

static VaeStatus
step_tuple0(VaePickle *p, uint64_t arg, VaeError *error)
{
    return small_tuple(p, 0, error);
}

static VaeStatus
step_tuple1(VaePickle *p, uint64_t arg, VaeError *error)
{
    return small_tuple(p, 1, error);
}

static VaeStatus
step_tuple2(VaePickle *p, uint64_t arg, VaeError *error)
{
    return small_tuple(p, 2, error);
}

static VaeStatus
step_tuple3(VaePickle *p, uint64_t arg, VaeError *error)
{
    return small_tuple(p, 3, error);
}

static const char no_dict[] = "items are set in a value that is no dict";

static VaeStatus
step_setitem(VaePickle *p, uint64_t arg, VaeError *error)
{
    VaePickleValue pair[2], dict;
    VaeStatus status = vae_pickle_pop(p, &pair[1], error);
    if (status == VAE_OK)
        status = vae_pickle_pop(p, &pair[0], error);
    if (status == VAE_OK)
        status = vae_pickle_peek(p, VAE_PICKLE_DICT, no_dict, &dict, error);
    return status == VAE_OK ? vae_pickle_set_item(p, &dict, pair, error)
                            : status;
}

static VaeStatus
step_setitems(VaePickle *p, uint64_t arg, VaeError *error)
{
    const VaePickleValue *values;
    VaePickleValue dict;
    size_t n;
    VaeStatus status = vae_pickle_pop_to_mark(p, &values, &n, error);
    if (status == VAE_OK)
        status = vae_pickle_peek(p, VAE_PICKLE_DICT, no_dict, &dict, error);
    if (status == VAE_OK && n % 2 != 0)
        status = vae_pickle_fail(p, "a key is set without a value", error);
    for (size_t i = 0; status == VAE_OK && i < n; i += 2)
        status = vae_pickle_set_item(p, &dict, &values[i], error);
    return status;
}

static const char no_list[] = "items are added to a value that is no list";

static VaeStatus
step_append(VaePickle *p, uint64_t arg, VaeError *error)
{
    VaePickleValue item, list;
    VaeStatus status = vae_pickle_pop(p, &item, error);
    if (status == VAE_OK)
        status = vae_pickle_peek(p, VAE_PICKLE_LIST, no_list, &list, error);
    return status == VAE_OK ? vae_pickle_append(p, &list, &item, 1, error)
                            : status;
}

static VaeStatus
step_appends(VaePickle *p, uint64_t arg, VaeError *error)
{
    const VaePickleValue *values;
    VaePickleValue list;
    size_t n;
    VaeStatus status = vae_pickle_pop_to_mark(p, &values, &n, error);
    if (status == VAE_OK)
        status = vae_pickle_peek(p, VAE_PICKLE_LIST, no_list, &list, error);
    return status == VAE_OK ? vae_pickle_append(p, &list, values, n, error)
                            : status;
}

/* A state_dict() stores the versions of its modules so; they are ignored. */
static VaeStatus
step_build(VaePickle *p, uint64_t arg, VaeError *error)
{
    VaePickleValue state, dict;
    const VaeStatus status = vae_pickle_pop(p, &state, error);
    return status == VAE_OK
               ? vae_pickle_peek(
                     p, VAE_PICKLE_DICT,
                     "refused: attributes are set in a value that is no dict",
                     &dict, error)
               : status;
}

/* ------------------------------------------------------------------ */

/* True if the items are of these kinds. */
static bool
have_kinds(const VaePickleValue *items, const VaePickleKind *kinds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind != kinds[i])
            return false;
    }
    return true;
}

static VaeStatus
step_persid(VaePickle *p, uint64_t arg, VaeError *error)
{
    static const VaePickleKind kinds[] = {VAE_PICKLE_TEXT, VAE_PICKLE_GLOBAL,
                                          VAE_PICKLE_TEXT, VAE_PICKLE_TEXT,
                                          VAE_PICKLE_INT};
    VaePickleValue id;
    const VaeStatus status = vae_pickle_pop(p, &id, error);
    if (status != VAE_OK)
        return status;
    const VaePickleValue *items =
        id.kind == VAE_PICKLE_TUPLE ? vae_pickle_items(p, &id) : NULL;
    if (items == NULL || id.n != 5 || !have_kinds(items, kinds, 5) ||
        items[0].n != 7 ||
        memcmp(vae_pickle_text(p, &items[0]), "storage", 7) != 0 ||
        vae_pickle_global(&items[1])->role != VAE_PICKLE_ROLE_STORAGE)
        return vae_pickle_fail(
            p, "a persistent id is no storage with type, key, device and size",
            error);
    id.kind = VAE_PICKLE_STORAGE;
    return vae_pickle_push(p, id, error);
}

static VaeStatus
reduce_tensor(VaePickle *p, VaePickleValue args, VaeError *error)
{
    static const VaePickleKind kinds[] = {VAE_PICKLE_STORAGE, VAE_PICKLE_INT,
                                          VAE_PICKLE_TUPLE,   VAE_PICKLE_TUPLE,
                                          VAE_PICKLE_BOOL,    VAE_PICKLE_DICT};
    if (args.n != 6 || !have_kinds(vae_pickle_items(p, &args), kinds, 6))
        return vae_pickle_fail(
            p,
            "a tensor is not made of storage, offset, size and "
            "stride alone",
            error);
    args.kind = VAE_PICKLE_TENSOR;
    return vae_pickle_push(p, args, error);
}

static VaeStatus
step_reduce(VaePickle *p, uint64_t arg, VaeError *error)
{
    VaePickleValue call, args;
    VaeStatus status = vae_pickle_pop(p, &args, error);
    if (status == VAE_OK)
        status = vae_pickle_pop(p, &call, error);
    if (status != VAE_OK)
        return status;
    if (call.kind != VAE_PICKLE_GLOBAL || args.kind != VAE_PICKLE_TUPLE)
        return vae_pickle_fail(
            p, "refused: it wants to call a value that is no function", error);
    const VaePickleGlobal *global = vae_pickle_global(&call);
    const VaePickleValue *items = vae_pickle_items(p, &args);
    if (global->role == VAE_PICKLE_ROLE_TENSOR)
        return reduce_tensor(p, args, error);
    if (global->role == VAE_PICKLE_ROLE_ORDERED_DICT && args.n == 0)
        return vae_pickle_push_dict(p, VAE_PICKLE_DICT, error);
    if (global->role == VAE_PICKLE_ROLE_PARAMETER && args.n == 3 &&
        items[0].kind == VAE_PICKLE_TENSOR)
        return vae_pickle_push(p, items[0], error);
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: refused: it wants to call %s.%s with arguments that "
                    "no saved tensor needs",
                    p->label, global->module, global->name);
}

/* ------------------------------------------------------------------ */

/* All opcodes of protocols 0 to 5; those without a step are refused. */
static const struct {
    uint8_t code;
    uint8_t size; /* of the argument */
    const char *name;
    Step step;
} opcodes[] = {
    {'(', 0, "MARK", step_mark},
    {')', 0, "EMPTY_TUPLE", step_tuple0},
    {'.', 0, "STOP", NULL},
    {'0', 0, "POP", NULL},
    {'1', 0, "POP_MARK", NULL},
    {'2', 0, "DUP", NULL},
    {'B', 0, "BINBYTES", NULL},
    {'C', 0, "SHORT_BINBYTES", NULL},
    {'F', 0, "FLOAT", NULL},
    {'G', 8, "BINFLOAT", step_float},
    {'I', 0, "INT", NULL},
    {'J', 4, "BININT", step_signed},
    {'K', 1, "BININT1", step_unsigned},
    {'L', 0, "LONG", NULL},
    {'M', 2, "BININT2", step_unsigned},
    {'N', 0, "NONE", step_none},
    {'P', 0, "PERSID", NULL},
    {'Q', 0, "BINPERSID", step_persid},
    {'R', 0, "REDUCE", step_reduce},
    {'S', 0, "STRING", NULL},
    {'T', 0, "BINSTRING", NULL},
    {'U', 0, "SHORT_BINSTRING", NULL},
    {'V', 0, "UNICODE", NULL},
    {'X', 4, "BINUNICODE", step_text},
    {']', 0, "EMPTY_LIST", step_empty_list},
    {'a', 0, "APPEND", step_append},
    {'b', 0, "BUILD", step_build},
    {'c', 0, "GLOBAL", step_global},
    {'d', 0, "DICT", NULL},
    {'e', 0, "APPENDS", step_appends},
    {'g', 0, "GET", NULL},
    {'h', 1, "BINGET", vae_pickle_get},
    {'i', 0, "INST", NULL},
    {'j', 4, "LONG_BINGET", vae_pickle_get},
    {'l', 0, "LIST", NULL},
    {'o', 0, "OBJ", NULL},
    {'p', 0, "PUT", NULL},
    {'q', 1, "BINPUT", vae_pickle_put},
    {'r', 4, "LONG_BINPUT", vae_pickle_put},
    {'s', 0, "SETITEM", step_setitem},
    {'t', 0, "TUPLE", step_tuple},
    {'u', 0, "SETITEMS", step_setitems},
    {'}', 0, "EMPTY_DICT", step_empty_dict},
    {0x80, 1, "PROTO", step_proto},
    {0x81, 0, "NEWOBJ", NULL},
    {0x82, 0, "EXT1", NULL},
    {0x83, 0, "EXT2", NULL},
    {0x84, 0, "EXT4", NULL},
    {0x85, 0, "TUPLE1", step_tuple1},
    {0x86, 0, "TUPLE2", step_tuple2},
    {0x87, 0, "TUPLE3", step_tuple3},
    {0x88, 0, "NEWTRUE", step_bool},
    {0x89, 0, "NEWFALSE", step_bool},
    {0x8a, 1, "LONG1", step_long},
    {0x8b, 0, "LONG4", NULL},
    {0x8c, 1, "SHORT_BINUNICODE", step_text},
    {0x8d, 0, "BINUNICODE8", NULL},
    {0x8e, 0, "BINBYTES8", NULL},
    {0x8f, 0, "EMPTY_SET", NULL},
    {0x90, 0, "ADDITEMS", NULL},
    {0x91, 0, "FROZENSET", NULL},
    {0x92, 0, "NEWOBJ_EX", NULL},
    {0x93, 0, "STACK_GLOBAL", step_stack_global},
    {0x94, 0, "MEMOIZE", step_memoize},
    {0x95, 8, "FRAME", step_frame},
    {0x96, 0, "BYTEARRAY8", NULL},
    {0x97, 0, "NEXT_BUFFER", NULL},
    {0x98, 0, "READONLY_BUFFER", NULL},
};

static VaeStatus
refuse_opcode(const VaePickle *p, uint8_t code, VaeError *error)
{
    const char *name = "of no name";
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        if (opcodes[i].code == code)
            name = opcodes[i].name;
    }
    return vae_fail(error, VAE_ERR_FORMAT,
                    "%s: refused: data.pkl has the opcode %s (0x%02x, byte "
                    "%zu), which no saved tensor needs",
                    p->label, name, code, p->at - 1);
}

static VaeStatus
run_opcode(VaePickle *p, uint8_t code, VaeError *error)
{
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        if (opcodes[i].code != code || opcodes[i].step == NULL)
            continue;
        const uint8_t *bytes;
        const VaeStatus status =
            vae_pickle_take(p, opcodes[i].size, &bytes, error);
        if (status != VAE_OK)
            return status;
        uint64_t arg = 0;
        for (int k = opcodes[i].size; k-- > 0;)
            arg = arg << 8 | bytes[k];
        return opcodes[i].step(p, arg, error);
    }
    return refuse_opcode(p, code, error);
}

VaeStatus
vae_pickle_run(VaePickle *p, const uint8_t *bytes, size_t size,
               const char *label, VaeError *error)
{
    *p = (VaePickle){.label = label, .bytes = bytes, .size = size};
    if (size > VAE_MAX_PICKLE)
        return vae_mismatch(
            error, VAE_ERR_FORMAT, NULL,
            "%s: data.pkl: {more than 4 MiB}, expected {=a list of tensors}",
            label);
    while (p->at < size) {
        const uint8_t code = bytes[p->at++];
        const VaeStatus status = code == '.'
                                     ? vae_pickle_pop(p, &p->result, error)
                                     : run_opcode(p, code, error);
        if (status != VAE_OK)
            return status;
        if (code == '.' && (p->stack.n != 0 || p->at != size))
            return vae_pickle_fail(p, "it stops before its end", error);
        if (code == '.')
            return VAE_OK;
    }
    return vae_pickle_fail(p, "it ends without a STOP; was it cut short?",
                           error);
}
