"""Reads files of latents for vaesend_file.py, without GStreamer and numpy."""
import array as arrays
import ast
import json
import math
import mmap
import os
import re
import struct
import sys
import types
import warnings

from vaesend import SIZES, SPACES, Array, counted

__all__ = ["is_torch", "open_latents", "open_torch", "stated"]


def read_npy(view, path):
    if len(view) < 12:
        raise ValueError(f"{path}: cut short")
    wide = view[6] > 1
    start = 12 if wide else 10
    end = start + struct.unpack_from("<I" if wide else "<H", view, 8)[0]
    try:
        facts = ast.literal_eval(bytes(view[start:end]).decode("latin-1"))
        kind, shape = facts["descr"], tuple(facts["shape"])
        rows_first = not facts["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError,
            MemoryError) as error:
        raise ValueError(f"{path}: no header of .npy ({error})") from error
    if not rows_first:
        raise ValueError(f"{path}: in Fortran order, expected C order")
    names = {"<f4": "float32", "<f2": "float16", "<f8": "float64"}
    return Array(names.get(str(kind), str(kind)), shape, view[end:]), {"tensor": "npy"}


def listed(header):
    """The first names of tensors."""
    return ", ".join(list(header)[:8]) + (", ..." if len(header) > 8 else "")


def choose_tensor(header, wanted, path, tell):
    """Name and entry of the latents, as vae_latent_tensor_select() finds them."""
    usual = [name for name in ["latent", "latents", "samples", "latent_tensor"]
             if name in header]
    named = [name for name in usual if len(header[name]["shape"]) in (4, 5)]
    if wanted in header:
        return wanted, header[wanted]
    if usual and not wanted:
        if len(named) > 1:
            others = " and ".join(f'"{name}"' for name in named[1:])
            tell(f'warning: {path}: tensor "{named[0]}" is taken, but {others} may also '
                 "be latents: to choose another one, set tensor")
        name = (named or usual)[0]
        return name, header[name]
    if not header:
        raise ValueError(f"{path}: has no tensors, expected one with latents")
    if wanted:
        raise ValueError(f"{path}: no tensor {wanted}; found {listed(header)}")
    fitting = {name: entry for name, entry in header.items()
               if len(entry["shape"]) in (4, 5)}
    fitting = fitting or {name: entry for name, entry in header.items()
                          if len(entry["shape"]) == 3}  # [C, h, w]
    if not fitting:
        raise ValueError(f"{path}: no tensor of 3 to 5 dimensions, as latents have; "
                         f"found {listed(header)}")
    if len(fitting) > 1:
        raise ValueError(f"{path}: {len(fitting)} tensors may be the latents "
                         f"({listed(fitting)}): select one by --tensor")
    return fitting.popitem()


def said_of(header, path):
    """Takes the metadata out of the header: texts by name."""
    facts = header.pop("__metadata__", {})
    if not isinstance(facts, dict):
        raise ValueError(f"{path}: __metadata__ is a {type(facts).__name__}, "
                         "expected names with texts")
    for name, text in facts.items():
        if not isinstance(text, str) or "\0" in name + text:
            raise ValueError(f"{path}: __metadata__ has {text!r} as {name}, "
                             "expected a text without NUL")
    return facts


def whole(text):
    """The whole number from 1 that the text is, or 0."""
    return int(text) if text and re.fullmatch("0*[1-9][0-9]{0,8}", text) else 0


def stated(facts, name, path):
    """A whole number that the metadata state, or 0."""
    text = facts.get(name)
    if text is not None and not whole(text):
        raise ValueError(f"{path}: {name} is {text!r}, expected a whole number from 1")
    return whole(text)


def unique(pairs, path):
    """An object of JSON, whose keys must differ."""
    found = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{path}: header: duplicate key {json.dumps(name)}")
        found[name] = value
    return found


def complete_recording(header, facts, size):
    """An open recording has as many latents as the file holds as a whole. Returns the
    bytes that count."""
    entry = next(iter(header.values()), {})
    if facts.get("vae.recording") != "open" or len(header) != 1 or entry["shape"][0] != 0:
        return size
    row = math.prod(entry["shape"][1:]) * WIDTHS[entry["dtype"]]
    entry["shape"][0] = size // row
    entry["data_offsets"] = [0, size // row * row]
    return entry["data_offsets"][1]


def check_cover(header, size, path):
    """Each byte of the data must belong to exactly one tensor."""
    end = 0
    for name, entry in sorted(header.items(),
                              key=lambda item: item[1]["data_offsets"]):
        place = entry["data_offsets"]
        if list(map(type, place)) != [int, int] or not end == place[0] <= place[1]:
            raise ValueError(f"{path}: the data of the tensor {name} are at {place}, "
                             f"expected two numbers from {end}")
        end = place[1]
    if end != size:
        raise ValueError(f"{path}: {size} bytes of data, expected {end} for the "
                         "tensors of its header")


WIDTHS = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}


def read_safetensors(view, path, tensor, tell):
    names = {"F32": "float32", "F16": "float16", "BF16": "bfloat16",
             "F64": "float64"}
    if view[:2] == b"PK" and b".npy" in bytes(view[30:200]):
        raise ValueError(f"{path}: an .npz archive of numpy, which is not read: save the "
                         "array alone, as .npy, with numpy.save()")
    if view[8:9] != b"{":
        raise ValueError(f"{path}: neither .npy nor safetensors nor of PyTorch")
    length = struct.unpack_from("<Q", view)[0]
    end = 8 + length
    if end > len(view):
        raise ValueError(f"{path}: the first 8 bytes state a header of {length} bytes, "
                         f"but {len(view) - 8} follow")
    try:
        header = json.loads(bytes(view[8:end]),
                            object_pairs_hook=lambda pairs: unique(pairs, path))
        facts = said_of(header, path)
        check_cover(header, complete_recording(header, facts, len(view) - end), path)
        name, entry = choose_tensor(header, tensor, path, tell)
        kind = names.get(str(entry["dtype"]), str(entry["dtype"]))
        shape = tuple(entry["shape"])
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: header of {length} bytes: no valid JSON "
                         f"({error})") from error
    except (KeyError, TypeError, AttributeError, IndexError, UnicodeDecodeError,
            ZeroDivisionError, RecursionError) as error:
        raise ValueError(f"{path}: neither .npy nor safetensors "
                         f"({error})") from error
    for table in {"latent_times", "latent_sequences"} & set(header):
        first, last = header[table]["data_offsets"]
        facts[table] = bytes(view[end + first:end + last])
    if name == "latent_tensor":
        marked = "latent_format_version_0" in {**header, **facts}
        facts["usual normalization" if marked else "no mark of ComfyUI"] = "comfyui"
    facts["tensor"] = name
    first, last = entry["data_offsets"]
    return Array(kind, shape, view[end + first:end + last]), facts


def type_words(kind):
    """The name of a type in a file, as "<i8", "|u1" or "I64", in words, as vaetool says
    it."""
    if kind in ("|b1", "BOOL"):
        return "bool"
    words = {"f": "float", "i": "int", "u": "uint", "c": "complex", "bf": "bfloat"}
    npy = re.fullmatch(r"([<>|=])([fiuc])(\d\d?)", kind)
    if npy:
        order = "big-endian " if npy[1] == ">" else ""
        return f"{order}{words[npy[2]]}{8 * int(npy[3])}"
    other = re.fullmatch(r"(F|I|U|C|BF)(\d\d?)", kind)
    return words[other[1].lower()] + other[2] if other else kind


def narrowed(array):
    """float64 as float32: caps have no float64."""
    numbers = arrays.array("d")
    numbers.frombytes(array.data)
    if sys.byteorder == "big":
        numbers.byteswap()
    numbers = arrays.array("f", numbers)
    if sys.byteorder == "big":
        numbers.byteswap()
    return Array("float32", array.shape, numbers.tobytes())


def is_torch(path):
    """True for a zip archive, unless it is one of numpy."""
    with open(path, "rb") as file:
        head = file.read(200)
    return head[:4] == b"PK\3\4" and b".npy" not in head[30:]


def open_torch(path, tensor, tell, **reading):
    """As open_latents(), with a clip [C, T, h, w], of a file of PyTorch. The package
    gst_vae reads it; reading: the arguments of its Latents."""
    try:
        import gst_vae
    except ImportError as error:
        raise ValueError(f"{path}: of PyTorch, which the package gst_vae reads ({error}); "
                         f"where it is, gst-launch-1.0 filesrc location={path} ! "
                         "latentdemux ! latentmux ! filesink location=OUT.safetensors "
                         "makes safetensors") from None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            clip = gst_vae.Latents(path, tensor, **reading)
            space = SPACES.get(reading["latent_space"])
            if space:
                clip = clip.of_model(types.SimpleNamespace(
                    latent_channels=space.channels, temporal=space.temporal,
                    chunk=space.chunk))
            latents = clip.latents.narrowed().packed()
        except gst_vae.Error as error:
            raise ValueError(str(error)) from None
    for warning in said:
        tell(f"warning: {warning.message}")
    facts = {"tensor": clip.info.tensor, "vae.layout": "cthw"}
    if clip.info.layout_guessed:
        facts["layout guessed"] = True
    return Array(latents.dtype, latents.shape, latents.tobytes()), facts


def open_latents(path, tensor=None, tell=lambda words: None):
    """The latents of a .safetensors, ComfyUI or .npy file, and its metadata:
    (Array, {"vae.latent_space": ...})."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ValueError(f"{path}: empty, expected a file of latents")
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    if len(view) < 10:
        raise ValueError(f"{path}: {counted(len(view), 'byte')}, too short for a file of "
                         "latents")
    if view[:6] == b"\x93NUMPY":
        array, facts = read_npy(view, path)
    else:
        array, facts = read_safetensors(view, path, tensor, tell)
    if not all(isinstance(n, int) and n >= 0 for n in array.shape):
        raise ValueError(f"{path}: latents of shape {list(array.shape)}, "
                         "expected whole numbers")
    sizes = {**SIZES, "float64": 8}
    if array.type not in sizes:
        raise TypeError(f"{path}: the latents are {type_words(array.type)}, expected "
                        f"{', '.join(sizes)}")
    size = math.prod(array.shape) * sizes[array.type]
    if len(array.data) != size:
        raise ValueError(f"{path}: {len(array.data)} bytes of latents, expected "
                         f"{size} for {list(array.shape)}")
    return narrowed(array) if array.type == "float64" else array, facts
