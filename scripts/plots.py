# SPDX-FileCopyrightText: The gpuinfer authors
# SPDX-License-Identifier: Apache-2.0
"""Figures of docs/h200.md, from recordings alone. usage: plots.py RECORDINGS FIGURES"""

import functools
import pathlib
import sys

import h5py
import matplotlib
import numpy
import yaml

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "gpuinfer", "svg.fonttype": "none", "font.size": 10, "axes.grid": True,
                            "grid.alpha": 0.3, "figure.figsize": (7, 3.4), "figure.constrained_layout.use": True})
import matplotlib.pyplot as plt  # noqa: E402

HIT, MISS = "#1b7837", "#b2182b"  # told apart in grey, too


class Recording:
    """The answered questions of an archive (probe/archive.hpp), in the order they were asked."""

    def __init__(self, path):
        self.questions = []
        with h5py.File(path) as file:
            launches = [file[link] for link in sorted(file, key=lambda link: (len(link), link)) if link.startswith("launch_")]
            offsets = numpy.concatenate([launch["offset"][:] for launch in launches]).astype(numpy.int64)
            for launch in launches:
                cycles = launch["latency_cycles"][:].astype(float)
                targets = launch["target"][:]
                circumstances = launch["circumstances"][:] if "circumstances" in launch else [b""] * len(targets)
                refused = set(launch["refused"][:]) if "refused" in launch else set()
                for number, row in enumerate(launch["question"][:]):
                    if number in refused:
                        continue
                    record = offsets[row["record_begin"] : row["record_end"]]
                    begin = int(row["latency_begin"])
                    self.questions.append(
                        {
                            "target": targets[number].decode(),
                            "circumstances": circumstances[number].decode(),
                            "warm": offsets[row["warm_begin"] : row["warm_end"]],
                            "record": record,
                            "cycles": cycles[begin : begin + len(record)],
                        }
                    )

    def of(self, target):
        return [question for question in self.questions if question["target"] == target and question["circumstances"] in ("", "{}")]


def file_of(folder, target, suffix):
    """The one of all targets, named after the folder, else that of the target."""
    whole = folder / f"{folder.name}{suffix}"
    return whole if whole.exists() else folder / f"{target}{suffix}"


def profile(folder, target):
    return yaml.safe_load(file_of(folder, target, ".yaml").read_text())


@functools.cache
def recording(folder, target):
    return Recording(file_of(folder, target, ".h5"))


def save(figure, folder, name):
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)


def latencies(recordings, figures, name, title, target=None):
    target = target or name
    cycles = numpy.concatenate([question["cycles"] for question in recording(recordings, name).of(target)])
    levels = profile(recordings, name)["caches"][target]["latency_cycles"]
    figure, axes = plt.subplots()
    last = numpy.percentile(cycles, 99.9)
    axes.hist(cycles, bins=numpy.arange(cycles.min() - 0.5, last + 1.5), color="#4d4d4d", histtype="stepfilled")
    axes.set(title=title, xlabel="latency of one load, cycles", ylabel="loads", yscale="log")
    for word, colour, line, height in (("hit", HIT, "-", 0.93), ("miss", MISS, "--", 0.85)):
        if levels[word] is not None:
            axes.axvline(levels[word], color=colour, linestyle=line)
            axes.annotate(f" {word} {levels[word]:g}", (levels[word], height), xycoords=("data", "axes fraction"), color=colour)
    save(figure, figures, f"{name}-latencies")


def is_contiguous_walk(question, stride):
    """Laps over the first n places, `stride` apart; n, or None."""
    lap = numpy.unique(question["record"])
    if len(lap) < 2 or len(question["record"]) % len(lap) or numpy.any(numpy.diff(lap) != stride):
        return None
    laps = question["record"].reshape(-1, len(lap))
    return len(lap) if numpy.array_equal(laps, numpy.tile(lap, (len(laps), 1))) and len(question["warm"]) else None


def overflow(recordings, figures, name, title, stride):
    level = profile(recordings, name)["caches"][name]["latency_cycles"]
    limit = (level["hit"] + level["miss"]) / 2
    shares = {}
    for question in recording(recordings, name).of(name):
        size = is_contiguous_walk(question, stride)
        if size:
            shares.setdefault(size, []).append(numpy.mean(question["cycles"] > limit))
    sizes = sorted(shares)
    figure, axes = plt.subplots()
    axes.plot([size * stride for size in sizes], [100 * numpy.mean(shares[size]) for size in sizes], "o-", color="#4d4d4d")
    onset = profile(recordings, name)["caches"][name].get("onset_bytes")
    if onset:
        axes.axvline(onset, color=HIT)
        axes.annotate(f" {onset:,} B fit", (onset, 0.93), xycoords=("data", "axes fraction"), color=HIT)
    axes.set(title=title, xlabel="contiguous array, bytes", ylabel="misses, %", xscale="log", ylim=(-3, 103))
    axes.set_xscale("log", base=2)
    save(figure, figures, f"{name}-overflow")


def carveouts(recordings, figures):
    figure, axes = plt.subplots()
    rows = profile(recordings, "L1tex")["caches"]["L1tex"]["carveouts"]
    asked = [row["carveout_kb"] for row in rows]
    axes.plot(asked, [256 - kb for kb in asked], ":", color="#4d4d4d", label="256 KB less the carve-out")
    axes.plot(asked, [row["onset_bytes"] / 1024 for row in rows], "o", color=HIT, label="largest contiguous array that stays")
    axes.errorbar(
        asked,
        [sum(row["resident_bytes"]) / 2048 for row in rows],
        yerr=[(row["resident_bytes"][1] - row["resident_bytes"][0]) / 2048 for row in rows],
        fmt="_",
        color=MISS,
        capsize=4,
        label="present during random loads",
    )
    axes.set(title="L1 of an H200 by carve-out", xlabel="shared memory asked for, KB", ylabel="L1, KB", ylim=(0, 260))
    axes.legend()
    save(figure, figures, "L1tex-carveouts")


def sectors(recordings, figures):
    width = 2048
    hits = {}
    for question in recording(recordings, "Texture2D").of("Texture2D"):
        if len(question["warm"]) == 1 and len(question["record"]) == 1:
            hits.setdefault(int(question["warm"][0]) // 4, {})[int(question["record"][0]) // 4] = question["cycles"][0]
    loaded, around = next((texel, cycles) for texel, cycles in hits.items() if len(cycles) > 4000)
    level = profile(recordings, "Texture2D")["textures"]["Texture2D"]["latency_cycles"]
    limit = (level["hit"] + level["miss"]) / 2
    left, top = loaded % width // 8 * 8 - 8, loaded // width // 8 * 8 - 8
    picture = numpy.array([[around[x + width * y] > limit for x in range(left, left + 24)] for y in range(top, top + 24)])
    figure, axes = plt.subplots(figsize=(4.4, 4.4))
    axes.imshow(picture, cmap=matplotlib.colors.ListedColormap([HIT, "#f0f0f0"]), extent=(left, left + 24, top + 24, top))
    axes.plot(loaded % width + 0.5, loaded // width + 0.5, "wo", markersize=5)
    axes.set(title="Texels that hit after one was loaded", xlabel="x", ylabel="y")
    axes.set_xticks(range(left, left + 25, 4))
    axes.set_yticks(range(top, top + 25, 4))
    save(figure, figures, "Texture2D-sector")


def code(recordings, figures):
    of_length = {}
    for question in recording(recordings, "Instruction").of("Instruction"):
        of_length.setdefault(int(max(question["record"])) // 1024 + 1, []).extend(question["cycles"])
    lengths = sorted(of_length)
    figure, axes = plt.subplots(figsize=(7.2, 3.4))
    for share, style in ((0.25, ":"), (0.5, "-"), (0.75, ":")):
        axes.plot(lengths, [numpy.quantile(of_length[length], share) for length in lengths], style, color=HIT)
    levels = profile(recordings, "Instruction")["code"]["Instruction"]["levels"] or []
    for level in levels[:-1]:
        axes.axvline(level["fits_bytes"] / 1024, color=MISS, linestyle="--")
    axes.set(title="Laps over straight-line code", xlabel="length, KB", ylabel="cycles for 1 KB (quartiles)", ylim=(0, None))
    save(figure, figures, "Instruction-lengths")


def main():
    recordings, figures = map(pathlib.Path, sys.argv[1:3])
    figures.mkdir(parents=True, exist_ok=True)
    carveouts(recordings, figures)
    carveout_kb = profile(recordings, "L1tex")["caches"]["L1tex"]["carveout_kb"]
    latencies(recordings, figures, "L1tex", f"Loads through L1 at a carve-out of {carveout_kb} KB")
    latencies(recordings, figures, "ConstL15", "Loads of constants from eight banks by one SM")
    latencies(recordings, figures, "L2", "Loads through L2 by one SM")
    latencies(recordings, figures, "L1TLB", "Loads from pages, first TLB")
    latencies(recordings, figures, "L2TLB", "Loads from pages, second TLB")
    overflow(recordings, figures, "L1tex", f"L1 at a carve-out of {carveout_kb} KB", 32)
    overflow(recordings, figures, "ConstL1", "First-level constant cache", 64)
    sectors(recordings, figures)
    code(recordings, figures)


main()
