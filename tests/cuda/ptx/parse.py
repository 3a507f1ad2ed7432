"""Reads kernels from the PTX text that nvcc writes."""
import re

import numpy as np

# The type of the values of a PTX type.
TYPES = {
    "pred": np.bool_, "f32": np.float32, "f64": np.float64,
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8,
    "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "f16": np.uint16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
}
SIZES = {name: np.dtype(type).itemsize for name, type in TYPES.items()}

LABEL = re.compile(r"^(\$?[\w$]+):\s*")
INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)


class Error(Exception):
    """The kernel did something that a device does not allow, or that this
    interpreter does not know."""


class Instruction:
    """One instruction: `@predicate name.parts operands;`."""

    def __init__(self, text):
        found = INSTRUCTION.match(text)
        if not found:
            raise Error("cannot parse: " + text)
        negated, self.predicate, name, operands = found.groups()
        self.negated = bool(negated)
        self.parts = name.split(".")
        self.jumps = (self.parts[0] in ("bra", "ret", "exit") or
                      self.parts[:2] == ["bar", "sync"])
        self.operands = split_operands(operands)
        self.text = " ".join(text.split())


class Kernel:
    """One entry of a PTX file.

    parameters: (name, bytes) in order. registers: name to numpy type. code: the
    instructions. labels: name to index in code. constants: name to bytes, of the
    whole file.
    """

    def __init__(self, name, parameters, body, constants):
        self.name = name
        self.parameters = [
            (parameter, SIZES[type] * int(count or 1))
            for type, parameter, count in re.findall(
                r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(\w+)(?:\[(\d+)\])?",
                parameters)
        ]
        self.constants = constants
        self.registers = {}
        self.code = []
        self.labels = {}
        body = re.sub(r"//[^\n]*", "", body)
        # Inner scopes only declare registers, which may become outer ones.
        body = re.sub(r"\{\s*(\.reg[^;]*;)", r"\1", body)
        for statement in body.split(";"):
            self._add(statement)

    def _add(self, statement):
        statement = statement.strip()
        while True:
            statement = statement.lstrip("}").strip()
            label = LABEL.match(statement)
            if not label:
                break
            self.labels[label.group(1)] = len(self.code)
            statement = statement[label.end():]
        declared = re.match(r"\.reg\s+\.(\w+)\s+(.*)", statement, re.S)
        if declared:
            self._declare(*declared.groups())
        elif statement and not statement.startswith("."):
            self.code.append(Instruction(statement))

    def _declare(self, type, names):
        for name in names.split(","):
            many = re.match(r"(%\w+)<(\d+)>", name.strip())
            if many:
                for i in range(int(many.group(2))):
                    self.registers[many.group(1) + str(i)] = TYPES[type]
            else:
                self.registers[name.strip()] = TYPES[type]


def split_operands(text):
    """Splits the text at commas outside of braces and brackets."""
    operands, depth, current = [], 0, ""
    for c in text:
        depth += (c in "{[") - (c in "}]")
        if c == "," and depth == 0:
            operands.append(current.strip())
            current = ""
        else:
            current += c
    if current.strip():
        operands.append(current.strip())
    return operands


def read(path, change=None):
    """Returns the entries of a file: a dict from a name to a function that makes
    the Kernel. change: a function from an entry's name and body to a new body."""
    with open(path, encoding="ascii") as file:
        text = file.read()
    constants = {
        name: bytes(int(x) for x in values.split(","))
        for name, values in re.findall(
            r"\.global \.align \d+ \.b8 (\w+)\[\d+\] = \{([^}]*)\}", text)
    }
    entries = {}
    starts = list(re.finditer(
        r"\.entry\s+(\w+)\s*\((.*?)\)[^{]*\{", text, re.S))
    for found in starts:
        name, parameters = found.groups()
        depth, end = 1, found.end()
        for brace in re.finditer(r"[{}]", text[found.end():]):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                end = found.end() + brace.start()
                break
        body = text[found.end():end]
        if change:
            body = change(name, body)
        entries[name] = lambda a=(name, parameters, body, constants): Kernel(*a)
    return entries
