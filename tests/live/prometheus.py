"""A strict reader of Prometheus' text format, version 0.0.4, and of the rules
for names and units. Raises ValueError with the line that is wrong."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(r"(%s)(?:\{(.*)\})? (\S+)" % NAME)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
TYPES = ("counter", "gauge", "summary")


def labels_of(text, line):
    labels = {}
    at = 0
    while at < len(text):
        found = LABEL.match(text, at)
        if not found or found[1] in labels:
            raise ValueError("labels: " + line)
        labels[found[1]] = found[2]
        at = found.end()
        if found[3] == "," and at == len(text):
            raise ValueError("a label is missing: " + line)
    return tuple(sorted(labels.items()))


def check_belongs(name, labels, family, kind, line):
    quantile = dict(labels).get("quantile")
    if kind == "summary":
        good = name in (family + "_sum", family + "_count")
        if name == family:
            good = quantile is not None and 0 <= float(quantile) <= 1
    else:
        good = name == family and quantile is None
    if not good:
        raise ValueError("not of %s %s: %s" % (kind, family, line))


def check_name(family, kind, line):
    if (kind == "counter") != family.endswith("_total"):
        raise ValueError("a counter, and only that, ends in _total: " + line)
    if re.search(r"_(ns|ms|us|nanoseconds|kib|mib|kilobytes)(_|$)", family):
        raise ValueError("not in base units: " + line)


def check_value(text, name, kind, line):
    if not re.fullmatch(r"[-+]?(\d+(\.\d*)?([eE][-+]?\d+)?|Inf)|NaN", text):
        raise ValueError("no number: " + line)
    value = float(text)
    if value < 0 and (kind == "counter" or name.endswith(("_sum", "_count"))):
        raise ValueError("below zero: " + line)
    return value


class Reader:
    def __init__(self):
        self.values = {}
        self.kinds = {}
        self.helped = set()
        self.family = None

    def comment(self, line):
        words = line.split(" ", 3)
        if len(words) != 4 or not re.fullmatch(NAME, words[2]):
            raise ValueError("comment: " + line)
        if words[1] == "HELP" and words[2] not in self.helped:
            self.helped.add(words[2])
        elif (
            words[1] == "TYPE"
            and words[3] in TYPES
            and words[2] in self.helped
            and words[2] not in self.kinds
        ):
            check_name(words[2], words[3], line)
            self.kinds[words[2]] = words[3]
            self.family = words[2]
        else:
            raise ValueError("comment: " + line)

    def sample(self, line):
        found = SAMPLE.fullmatch(line)
        if not found or not self.family:
            raise ValueError("sample: " + line)
        labels = labels_of(found[2] or "", line)
        kind = self.kinds[self.family]
        check_belongs(found[1], labels, self.family, kind, line)
        if (found[1], labels) in self.values:
            raise ValueError("twice: " + line)
        self.values[found[1], labels] = check_value(
            found[3], found[1], kind, line
        )


def read(text):
    """{(name, ((label, value), ...)): number} and {family: type}."""
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    reader = Reader()
    for line in text[:-1].split("\n"):
        if line.startswith("#"):
            reader.comment(line)
        else:
            reader.sample(line)
    return reader.values, reader.kinds


GOOD = "# HELP a_total Some.\n# TYPE a_total counter\na_total 1\n"
BAD = (
    GOOD[:-1],
    GOOD + "\n",
    GOOD.replace("# HELP a_total Some.\n", ""),
    GOOD.replace("# TYPE a_total counter\n", ""),
    GOOD.replace("a_total", "a"),
    GOOD.replace("counter", "gauge"),
    GOOD.replace("counter", "number"),
    GOOD.replace("a_total 1", "a_total -1"),
    GOOD.replace("a_total 1", "a_total 1,5"),
    GOOD.replace("a_total 1", "b_total 1"),
    GOOD.replace("a_total 1", 'a_total{x="1} 1'),
    GOOD.replace("a_total 1", 'a_total{x="1",} 1'),
    GOOD.replace("a_total 1", 'a_total{x="1",x="2"} 1'),
    GOOD.replace("a_total 1", 'a_total{quantile="0.5"} 1'),
    GOOD + "a_total 2\n",
    GOOD + GOOD,
    GOOD.replace("a_total", "a_ns_total"),
)


def check_itself():
    read(GOOD)
    for text in BAD:
        try:
            read(text)
        except ValueError:
            continue
        raise AssertionError("taken as good:\n" + text)
