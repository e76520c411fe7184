"""What is measured: the rows of the bench, in sections.

A section names the programs that run while it does, and its rows. A row takes
a figure of ours, of the limit and of alternatives; a figure is one of a
program's measurement (Of), or is carried over from another machine (Scaled).
"""

import dataclasses
from collections.abc import Callable

import programs

BATCH_KEYS = 13312


@dataclasses.dataclass
class Of:
    """The number that `value` makes of a measurement's figures."""
    program: str
    measurement: str
    value: Callable


@dataclasses.dataclass
class Scaled:
    """The reference machine's figure times (this limit / its limit), or, where
    the peer was run here, that figure: `name` is its name in --peers."""
    figure: float
    figure_of_limit: float
    name: str


@dataclasses.dataclass
class Row:
    name: str
    unit: str
    ours: Of
    limit: Of | None = None
    limit_name: str = ""
    # Name and Of, Scaled, or a constant. The first is the row's `peer`.
    peers: list = dataclasses.field(default_factory=list)
    # Speeds; otherwise times or sizes.
    more_is_better: bool = True
    # The least ratio to the limit and to each peer, where there is one.
    target_to_limit: float | None = None
    target_to_peers: list = dataclasses.field(default_factory=list)
    # What ours may be at most, or at least.
    target: float | None = None
    repetitions: int | None = None
    warm_up: bool = True
    # Other figures of the repetitions that were made for the row before: only
    # for rows without alternatives.
    seen_by_the_row_before: bool = False
    # Left out of a quick run: too long for what it adds.
    full_only: bool = False
    # Left out where the rows of real click logs are absent.
    real_ids: bool = False


@dataclasses.dataclass
class Starter:
    """How a program of a section starts."""
    # What Bazel builds for it.
    targets: list
    # Given the folder of what was built, and whether the run is a quick one.
    start: Callable


OARLOCK = "//cli:oarlock"


def serves(folder, name, kind=programs.Program, needs=(), **options):
    """A program of the bench, under --serve."""
    return Starter(
        [f"//{folder}:{name}", *needs],
        lambda built, quick: kind(f"{folder}/{name}", built=built, **options))


@dataclasses.dataclass
class Section:
    name: str
    # Name -> Starter.
    programs: dict
    rows: list

    def targets(self, row):
        """What Bazel builds for a row of it."""
        parts = [row.ours, row.limit, *(peer for _, peer in row.peers)]
        return [target for part in parts if isinstance(part, Of)
                for target in self.programs[part.program].targets]


def value_of(of, figures):
    """The number; figures of another version may lack it."""
    try:
        return of.value(figures)
    except KeyError as error:
        raise programs.Failed(f"{of.program} has no figure {error} of "
                              f"'{of.measurement}'") from error


def millions(figure):
    return lambda figures: figures[figure] / 1e6


def plain(figure):
    return lambda figures: figures[figure]


def in_process(operation, distribution, threads, limit_ratio, peer_ratios):
    """Lookup or adagrad of whole batches by some threads."""
    key = f"{distribution} {threads}"
    raw, mine = {"lookup": ("gather", "pull"),
                 "adagrad": ("adagrad", "adagrad")}[operation]
    value = millions("rows_per_second")
    return Row(
        name=f"{operation} {distribution} {threads}T", unit="M rows/s",
        ours=Of("table", f"{mine} {key}", value),
        limit=Of("raw_rows", f"{raw} {key}", value), limit_name=f"raw {raw}",
        peers=[(label, Of("maps", f"{prefix} {mine} {key}", value))
               for label, prefix in (
                   ("absl + slab", "flat_hash_map"),
                   ("std::unordered_map", "unordered_map"),
                   ("absl + slab, prefetched", "flat_hash_map prefetched"))],
        target_to_limit=limit_ratio, target_to_peers=peer_ratios)


def insert(threads):
    value = millions("rows_per_second_per_thread")
    return Row(
        name=f"insert 10M keys {threads}T", unit="M rows/s a thread",
        ours=Of("table", f"insert {threads}", value),
        limit=Of("raw_rows", "first touch", millions("rows_per_second")),
        limit_name="first touch of the memory, 1 thread",
        peers=[("absl + slab",
                Of("maps", f"flat_hash_map insert {threads}", value))],
        target_to_peers=[2], target=8, warm_up=False, full_only=threads > 1)


def reserved_insert():
    value = millions("rows_per_second_per_thread")
    return Row(
        name="insert 10M keys 1T, peer reserved", unit="M rows/s a thread",
        ours=Of("table", "insert 1", value),
        peers=[("absl + slab, reserved",
                Of("maps", "flat_hash_map reserved insert 1", value))],
        warm_up=False, full_only=True)


def longest_insert(threads, figure, what):
    return Row(
        name=f"insert {threads}T, longest call{what}", unit="ms",
        ours=Of("table", f"insert {threads}", plain(figure)),
        limit=Of("raw_rows", "first touch", plain("longest_batch_ms")),
        limit_name="longest first touch of a batch's memory",
        more_is_better=False, target=5, warm_up=False,
        seen_by_the_row_before=True, full_only=threads > 1)


def sparse_table_section():
    rows = []
    for distribution, one, two in (("uniform", .38, .42), ("zipf", .36, .38)):
        rows.append(in_process("lookup", distribution, 1, one, [2.5, 3]))
        rows.append(in_process("lookup", distribution, 2, two, [2.5, 3]))
    for distribution, one, two in (("uniform", .42, .50), ("zipf", .42, .52)):
        rows.append(in_process("adagrad", distribution, 1, one, [5, 5]))
        rows.append(in_process("adagrad", distribution, 2, two, [5, 5]))
    for threads in (1, 2):
        rows.append(insert(threads))
        rows.append(longest_insert(threads, "longest_call_ms", ""))
        rows.append(longest_insert(threads, "longest_call_cpu_ms",
                                   ", its CPU time"))
    rows.append(reserved_insert())
    rows.append(Row(
        name="memory per key", unit="B",
        ours=Of("table", "memory", plain("bytes_per_row")),
        limit=Of("table", "memory", plain("payload_bytes")),
        limit_name="payload", more_is_better=False,
        target_to_limit=1 / 1.35, repetitions=1, warm_up=False))
    return Section("sparse_table", {
        "table": serves("bench/sparse_table", "table_bench"),
        "raw_rows": serves("bench/sparse_table", "raw_rows"),
        "maps": serves("bench/sparse_table", "hash_maps",
                       environment=programs.HUGE_PAGES),
    }, rows)


def client_section():
    value = plain("us_per_batch")

    def row(what, target):
        return Row(
            name=f"{what} 13,312 zipf keys", unit="us",
            ours=Of("key_batch", f"{what} zipf", value),
            peers=[("std::sort", Of("sort_unique", f"{what} zipf", value))],
            more_is_better=False, target=target, target_to_peers=[10])

    return Section("client", {
        "key_batch": serves("bench/client", "key_batch_bench"),
        "sort_unique": serves("bench/client", "sort_unique"),
    }, [row("deduplicate", 40), row("merge", 60)])


# Pull and push of OpenEmbedding's prebuilt core, p50 on the reference machine
# (2-core Xeon with AVX-512 and AMX), us. Not scaled.
OPEN_EMBEDDING_US = {"pull uniform": 4591, "push uniform": 1026,
                     "pull zipf": 1900, "push zipf": 640}


def round_trip(operation, distribution, target):
    key = f"{operation} {distribution}"
    peers = []
    if key in OPEN_EMBEDDING_US:
        peers.append(("OpenEmbedding (reference machine)",
                      OPEN_EMBEDDING_US[key]))
    return Row(
        name=f"{key}, 1 in flight, p50", unit="us",
        ours=Of("client", key, plain("p50_us")),
        limit=Of("raw_tcp", key, plain("p50_us")),
        limit_name="raw TCP + rows", peers=peers, more_is_better=False,
        target_to_limit=target)


def throughput(distribution, target):
    return Row(
        name=f"pull throughput {distribution}, 4 in flight",
        unit="M batch keys/s",
        ours=Of("client", f"throughput {distribution}",
                lambda f: f["batches_per_second"] * BATCH_KEYS / 1e6),
        limit=Of("raw_tcp", f"pull {distribution}",
                 lambda f: programs.CORES * BATCH_KEYS / f["cpu_us"]),
        limit_name="cores / CPU of raw TCP + rows", target_to_limit=target)


def wire_section():
    rows = []
    for operation, target in (("pull", .60), ("push", .55),
                              ("pull+push", .58)):
        for distribution in ("uniform", "zipf"):
            rows.append(round_trip(operation, distribution, target))
    rows += [throughput("uniform", .45), throughput("zipf", .55)]
    rows.append(Row(
        name="gRPC data plane, response of 852 KB, p50", unit="us",
        ours=Of("client", "dense pull", plain("p50_us")),
        limit=Of("grpc_echo", "dense pull", plain("p50_us")),
        limit_name="ByteBuffer echo", more_is_better=False,
        target_to_limit=.90))
    return Section("wire", {
        "client": serves("bench/wire", "client_bench",
                         programs.ClientAndServer, [OARLOCK]),
        "raw_tcp": serves("bench/wire", "raw_tcp"),
        "grpc_echo": serves("bench/wire", "grpc_echo"),
    }, rows)


# Real ids, OpenEmbedding on the reference machine, not scaled: p50 in us, 1
# server x 1 worker; examples/s of 2 x 2.
OPEN_EMBEDDING_IDS_US = {"pull": 852, "push": 510}
OPEN_EMBEDDING_STEPS = {512: 371_600, 4096: 599_000}


def real_round_trip(operation, ratio):
    return Row(
        name=f"{operation} of real ids, 1 in flight, p50", unit="us",
        ours=Of("client", f"{operation} ids", plain("p50_us")),
        peers=[("OpenEmbedding (reference machine)",
                OPEN_EMBEDDING_IDS_US[operation])],
        more_is_better=False, target_to_peers=[ratio], real_ids=True)


def steps_without_model(batch, ratio):
    return Row(
        name=f"deduplicate, pull, push real ids, 2 x 2, batch {batch}",
        unit="examples/s",
        ours=Of("workers", f"steps {batch}", plain("examples_per_second")),
        peers=[("OpenEmbedding (reference machine)",
                OPEN_EMBEDDING_STEPS[batch])],
        target_to_peers=[ratio], real_ids=True)


def ids_section():
    def starts(kind):
        def on_real_rows(path, built):
            rows = programs.RealRows(100_000)
            try:
                return kind(path, ["--ids", rows.path], built=built)
            finally:
                rows.close()
        return serves("bench/wire", "ids_bench", on_real_rows, [OARLOCK])

    return Section("ids", {
        "client": starts(programs.ClientAndServer),
        "workers": starts(programs.TwoWorkers),
    }, [real_round_trip("pull", 3), real_round_trip("push", 2),
        steps_without_model(512, 3), steps_without_model(4096, 2.5)])


# Examples/s on the reference machine, scaled by the ceilings of the two; its
# ceilings are of a net of 429 inputs, and 1.15 times as much with the 273 of
# this bench.
REFERENCE_CEILING = {100: 69_000 * 1.15, 512: 96_000 * 1.15}
REFERENCE_CEILING_BFLOAT16 = {512: 315_000 * 1.15, 4096: 357_000 * 1.15}
REFERENCE_PADDLE = {100: 16_100, 512: 35_000}
REFERENCE_PYTORCH = {512: 63_000}
REFERENCE_PYTORCH_BFLOAT16 = {512: 94_000, 4096: 172_000}
REFERENCE_VOWPAL_WABBIT = 288_000


def ctr_dnn(batch, math, target, peers):
    """Peers: label, name in --peers, figure and ceiling of the reference
    machine, target."""
    named = "" if math == "float32" else f", {math}"
    return Row(
        name=f"CTR-DNN end to end, batch {batch}{named}", unit="examples/s",
        ours=Of("training", f"cluster ctr_dnn {batch} {math}",
                plain("examples_per_second")),
        limit=Of("training", f"ceiling {batch} {math}",
                 plain("examples_per_second")),
        limit_name="dense math alone",
        peers=[(label, Scaled(figure, ceiling, name))
               for label, name, figure, ceiling, _ in peers],
        target_to_limit=target, target_to_peers=[peer[-1] for peer in peers],
        warm_up=False)


def training_section():
    paddle = "PaddlePaddle's PS"
    pytorch = "PyTorch, one process"
    float32, bfloat16 = REFERENCE_CEILING, REFERENCE_CEILING_BFLOAT16
    return Section("training", {
        "training": Starter(
            [OARLOCK, "//bench/dense:dense_ceiling"],
            lambda built, quick: programs.Training(
                120_000 if quick else 400_000, built)),
    }, [
        ctr_dnn(512, "float32", .80, [
            (paddle, "paddle 512", REFERENCE_PADDLE[512], float32[512], 2.5),
            (pytorch, "pytorch 512", REFERENCE_PYTORCH[512], float32[512],
             1.4)]),
        ctr_dnn(100, "float32", .60, [
            (paddle, "paddle 100", REFERENCE_PADDLE[100], float32[100], 2.5)]),
        ctr_dnn(512, "bfloat16", .52, [
            (paddle, "paddle 512", REFERENCE_PADDLE[512], bfloat16[512], 5),
            (f"{pytorch}, bfloat16", "pytorch bfloat16 512",
             REFERENCE_PYTORCH_BFLOAT16[512], bfloat16[512], 2)]),
        ctr_dnn(4096, "bfloat16", None, [
            (f"{pytorch}, bfloat16", "pytorch bfloat16 4096",
             REFERENCE_PYTORCH_BFLOAT16[4096], bfloat16[4096], 1.2)]),
        Row(name="LR with ftrl end to end, raw text in", unit="examples/s",
            ours=Of("training", "cluster lr 512 float32",
                    plain("examples_per_second")),
            limit=Of("training", "ceiling 512 float32",
                     plain("examples_per_second")),
            limit_name="dense math alone, for scale",
            peers=[("Vowpal Wabbit",
                    Scaled(REFERENCE_VOWPAL_WABBIT, float32[512],
                           "vowpal wabbit"))],
            target_to_peers=[1.2], warm_up=False),
    ])


def all_reduce(size, value, target=None):
    """Of two processes; a speed where `value` is one, else a time."""
    return Row(
        name=f"all-reduce of {size}, 2 ranks",
        unit="GB/s" if target else "us",
        ours=Of("ranks", size, value),
        limit=Of("raw_exchange", size, value),
        limit_name="raw TCP exchange of the bytes",
        peers=[("gloo", Of("gloo", size, value))],
        more_is_better=bool(target), target_to_limit=target)


def collective_section():
    speed = lambda figures: figures["bytes_per_second"] / 1e9
    return Section("collective", {
        "ranks": serves("bench/collective", "allreduce_bench"),
        "raw_exchange": serves("bench/collective", "raw_exchange"),
        "gloo": serves("bench/collective", "gloo_allreduce"),
    }, [
        all_reduce("64 MB", speed, .70),
        Row(name="all-reduce of 64 MB, 2 ranks, CPU time", unit="us",
            ours=Of("ranks", "64 MB", plain("cpu_us")),
            limit=Of("raw_exchange", "64 MB", plain("cpu_us")),
            limit_name="raw TCP exchange of the bytes", more_is_better=False,
            target_to_limit=.70, seen_by_the_row_before=True),
        all_reduce("1 MB", plain("p50_us")),
        all_reduce("1 KB", plain("p50_us")),
    ])


def data_section():
    lines = millions("lines_per_second")
    scan = Of("text_scan", "scan", lines)

    def row(transform, target):
        return Row(
            name=f"Criteo text to batches, {transform}, 1T",
            unit="M lines/s of CPU", ours=Of("reader", transform, lines),
            limit=scan, limit_name="memchr over the same bytes",
            target=target)

    return Section("data", {
        "reader": serves("bench/data", "reader_bench"),
        "text_scan": serves("bench/data", "text_scan"),
    }, [row("log1p", 1.5), row("quick_start", 1.5), row("bucket", 1.5)])


def all_sections():
    return [sparse_table_section(), client_section(), wire_section(),
            ids_section(), data_section(), collective_section(),
            training_section()]


def named(sections, texts):
    """Of the sections what has one of the texts in a row's name, or is called
    so; without empty ones."""
    chosen = [dataclasses.replace(section, rows=[
        row for row in section.rows
        if any(text in row.name or text == section.name for text in texts)])
        for section in sections]
    return [section for section in chosen if section.rows]


def names(sections):
    """Of all their rows."""
    return [row.name for section in sections for row in section.rows]


def targets(sections, is_wanted):
    """What Bazel builds for the rows that are wanted."""
    return sorted({target for section in sections for row in section.rows
                   if is_wanted(row) for target in section.targets(row)})
