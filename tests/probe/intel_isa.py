# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the listings of machine code for GPUs of Intel that ANV of Mesa prints where INTEL_DEBUG has `cs`.

Data is followed through registers, in bytes of the register file: a first reading of the clock (of the register tm0)
that a load does not depend on could come after it, wherever it stands. Instructions start in the order in which they
are listed, and one that uses what a load brings waits for it; from Gen12 on the waiting is in the listing as well.
"""

import re

REGISTER_BYTES = 32
WORD_BYTES = 4
TYPE_BYTES = {"UB": 1, "B": 1, "UW": 2, "W": 2, "HF": 2, "UD": 4, "D": 4, "F": 4, "UQ": 8, "Q": 8, "DF": 8}

INSTRUCTION = re.compile(
    r"(?:\([+-](?P<predicate>f\d\.\d)\S*\) )?(?P<opcode>[a-z]\w*(?: [a-z]+)?)(?P<modifiers>\.[.\w]+)?"
    r"\((?P<channels>\d+)\)\s+(?P<operands>[^{\n]*)(?P<message>[^{]*)\{(?P<options>[^}]*)\}"
)
LABEL = re.compile(r"\w+:$")
FLAG = re.compile(r"f\d\.\d")
# Its distances between elements: one of a target, three of a source, none of what is sent.
OPERAND = re.compile(
    r"(?:-|~|\(abs\))*(?P<file>g|tm)(?P<number>\d+)(?:\.(?P<element>\d+))?(?:<(?P<region>[\d,]+)>)?(?P<type>[A-Z]+)"
)
# A register by its address in bytes: of the first channel that runs, four bytes for each, and what is added to that.
INDIRECT = re.compile(r"g\[a0(?: (\d+))?\]<0,1,0>")
INDIRECT_BEGIN = re.compile(r"add\(1\)\s+a0<1>UD\s+a0<0,1,0>UD\s+0x([0-9a-f]+)UD")
CLOCK = [("tm", byte) for byte in range(WORD_BYTES)]


class Instruction:
    """One instruction, or a label that some jump names."""

    def __init__(self, text):
        self.text = re.sub(r"\s+", " ", text)
        found = INSTRUCTION.match(text)
        self.is_label = LABEL.match(text) is not None
        if found is None and not self.is_label:
            raise ValueError(f"no instruction: {text}")
        field = found.groupdict() if found else {}
        self.predicate = field.get("predicate")
        self.opcode = field.get("opcode", "label")
        self.channels = int(field.get("channels", 0))
        self.message = field.get("message", "")
        operands = field.get("operands", "").split()
        self.target, self.sources = (operands[0], operands[1:]) if operands else ("null", [])
        flag = FLAG.search(field.get("modifiers") or "")
        self.flag = flag[0] if flag else None
        # What it waits for before it starts and, of a message, by which name others wait for it (from Gen12 on).
        self.tokens = re.findall(r"\$(\d+)(?:\.(\w+))?", field.get("options", ""))

    def __str__(self):
        return self.text

    @property
    def is_message(self):
        return self.opcode.startswith("send")

    @property
    def reads_clock(self):
        return any(each.startswith("tm0") for each in self.sources)

    def registers(self, *names):
        """How many registers of its target (rlen, dst_len) or a source (mlen, ex_mlen, src0_len, src1_len) it takes: at
        least one where the listing does not know."""
        found = re.search(rf"\b(?:{'|'.join(names)})\s*=?\s*(\d+)", self.message)
        return int(found[1]) if found else 1

    @property
    def answer(self):
        """The bytes that a message brings."""
        return sent(self.target, self.registers("rlen", "dst_len")) if self.is_message else []

    @property
    def steps(self):
        """What is read and what is written from it, bytes and flags: by a message at once, else by each channel."""
        if self.is_message:
            first, second = (self.sources + ["null", "null"])[:2]
            read = sent(first, self.registers("mlen", "src0_len")) + sent(second, self.registers("ex_mlen", "src1_len"))
            return [(read, self.answer)]
        steps = []
        for channel in range(self.channels):
            read = [place for each in self.sources for place in element(each, channel)]
            written = element(self.target, channel)
            if self.predicate:
                read.append((self.predicate, channel))
            if self.flag and self.opcode != "sel":
                written.append((self.flag, channel))
            steps.append((read, written))
        return steps


def element(operand, channel):
    """The bytes that a channel takes of an operand; of constants and registers that are not followed, none."""
    found = OPERAND.fullmatch(operand)
    if not found:
        return []
    size = TYPE_BYTES[found["type"]]
    region = [int(each) for each in (found["region"] or "1").split(",")]
    if len(region) == 1:
        distance = channel * region[0]
    else:
        rows, width, columns = region
        distance = channel // width * rows + channel % width * columns
    begin = int(found["number"]) * REGISTER_BYTES + (int(found["element"] or 0) + distance) * size
    return [(found["file"], byte) for byte in range(begin, begin + size)]


def sent(operand, registers):
    found = OPERAND.fullmatch(operand)
    if not found:
        return []
    begin = int(found["number"]) * REGISTER_BYTES
    return [(found["file"], byte) for byte in range(begin, begin + registers * REGISTER_BYTES)]


def followed(code, places):
    """The bytes and flags that depend on `places` after the instructions in `code`, which has no labels."""
    depending = set(places)
    for each in code:
        before = set(depending)
        for read, written in each.steps:
            if not before.isdisjoint(read):
                depending.update(written)
            elif not each.predicate:
                depending.difference_update(written)
    return depending


def is_awaited(load, after):
    """Whether some instruction in `after` uses what the load brings, and waits for it."""
    names = {number for number, kind in load.tokens if not kind}
    is_there = not names
    for each in after:
        is_there |= any(number in names and kind == "dst" for number, kind in each.tokens) or each.opcode == "sync allwr"
        if any(not set(load.answer).isdisjoint(read) for read, _ in each.steps):
            return is_there
    return False


def faults(code, load):
    """Yields a sentence for each promise that `code`, a list of instructions, breaks. `load`: None where it has none."""
    clocks = [i for i, each in enumerate(code) if each.reads_clock]
    if len(clocks) != 2:
        yield f"reads the clock {len(clocks)} times instead of twice"
        return
    timed = code[clocks[0] + 1 : clocks[1]]
    if any(each.is_label for each in timed):
        yield "can be entered between the clocks"
        return
    loads = [i for i, each in enumerate(timed) if each.answer]
    if load is None:
        if loads:
            yield f"loads with {timed[loads[0]]} where nothing is timed"
        return
    if len(loads) != 1 or not re.search(load, timed[loads[0]].message):
        yield f"does {[str(timed[i]) for i in loads]} between the clocks instead of one {load}"
        return
    at = loads[0]
    # The first word of a message is the place, or the lower half of it, where the first invocation loads.
    place = sent(timed[at].sources[0], 1)[:WORD_BYTES]
    if not followed(code[clocks[0] : clocks[0] + 1 + at], CLOCK).issuperset(place):
        yield "loads from a place that does not depend on the first clock"
    if not is_awaited(timed[at], timed[at + 1 :]):
        yield "reads the second clock before the value is there"


def register_at(byte):
    return f"g{byte // REGISTER_BYTES}.{byte % REGISTER_BYTES // WORD_BYTES}<0,1,0>"


def listing(lines):
    """The instructions in the lines of one listing. What a message does stands in the line behind it.

    Only the first channel runs where accesses are played, so a register by its address is one that is known.
    """
    code, begun, indirect = [], "", 0
    for line in lines:
        text = line.strip()
        if not text or re.match(r"(START|END) B\d|nop\s*;", text):
            continue
        begun += "\n" + text if begun else text
        if "{" in text or LABEL.match(text):
            if found := INDIRECT_BEGIN.match(begun):
                indirect = int(found[1], 16)
            code.append(Instruction(INDIRECT.sub(lambda each: register_at(indirect + int(each[1] or 0)), begun)))
            begun = ""
    return code


def shaders(text):
    """Yields the instructions of each shader."""
    for part in re.split(r"^Native code for .*\n", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()[1:]
        # Behind the last block is an empty line.
        ends = (i for i, line in enumerate(lines) if re.match(r"\s+END B", line) and not "".join(lines[i + 1 : i + 2]).strip())
        yield listing(lines[: next(ends, len(lines))])
