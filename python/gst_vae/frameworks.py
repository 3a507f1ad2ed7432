"""Tensors of the caller's framework. No framework is imported here: only what the caller
has imported already is used."""
import sys

from . import _engine
from ._engine import Error


def fail(message, found="", expected=""):
    """An Error with its parts."""
    error = Error(message)
    error.status, error.tensor = "argument", ""
    error.found, error.expected = found, expected
    return error


def root_of(data):
    """The framework of a tensor: "torch", "numpy", ..."""
    root = type(data).__module__.split(".")[0]
    return {"jaxlib": "jax"}.get(root, root)


def type_of(dtype):
    """The name of a type, which may be one of a framework."""
    return str(getattr(dtype, "__name__", dtype)).rsplit(".", 1)[-1]


def device_of(data):
    """"cpu", or the device of a tensor of torch such as "cuda:1"."""
    return str(data.device) if root_of(data) == "torch" else "cpu"


def ready(data):
    """A tensor of torch on a GPU, after all work on it is done."""
    sys.modules["torch"].cuda.current_stream(data.device).synchronize()
    return data.detach()


def empty_on(data, shape, dtype):
    """Memory on the device of a tensor of torch."""
    torch = sys.modules["torch"]
    return ready(torch.empty(shape, dtype=getattr(torch, dtype), device=data.device))


def to_host(data):
    """The tensor in host memory, from which the engine reads latents and weights."""
    if root_of(data) == "torch":
        data = data.detach()
        return data if data.device.type == "cpu" else data.cpu()
    return data


def view(data, writable=False):
    """A Tensor that shares the memory of data."""
    try:
        return _engine.tensor(data, writable)
    except (BufferError, RuntimeError, ValueError) as error:
        raise fail(f"a tensor of {type(data).__module__} cannot be shared: {error}",
                   str(error)) from error


def like(data, made, dtype=None):
    """A Tensor for the framework of data. It shares the memory if it need not move to
    the device of data or change to dtype."""
    root = root_of(data)
    dtype = dtype or type_of(made.dtype)
    if root == "torch":
        torch = sys.modules["torch"]
        if root_of(made) != "torch":
            made = torch.from_dlpack(made)
        return made.to(device=data.device, dtype=getattr(torch, dtype))
    if root == "numpy" and dtype != "bfloat16":
        return sys.modules["numpy"].asarray(made).astype(dtype, copy=False)
    if dtype != made.dtype:
        raise fail(f"{dtype} needs torch, and the input is of {root}", root, "torch")
    if root == "jax":
        return sys.modules["jax"].dlpack.from_dlpack(made)
    return made


def to_float(data):
    """The tensor in 32 bits; only torch and numpy can convert."""
    root = root_of(data)
    if root == "torch":
        return data.float()
    return data.astype("float32") if root == "numpy" else data


def dims(tensor):
    return "x".join(map(str, tensor.shape)) or "scalar"


def is_state(weights):
    return hasattr(weights, "state_dict") or hasattr(weights, "items")


def pairs_of(weights):
    """(name, Tensor) of each tensor of a module or a dict."""
    state = weights.state_dict() if hasattr(weights, "state_dict") else weights
    pairs = []
    for name, data in state.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a tensor is {name!r}, expected a text")
        try:
            pairs.append((name, view(to_host(data)).packed()))
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
    return tuple(pairs)
