"""The tables of docs/results.md and README.md, from the rows beside this file.

    python3 docs/results/tables.py             # prints them
    python3 docs/results/tables.py --check     # do the pages have them so?
    python3 docs/results/tables.py --write     # puts them there, over the old ones

Rows of whole runs are rounds.csv of `fedmrn run`, tables of many are summary.csv
of `fedmrn compare`; collect.py puts both here. Accuracies are in percent,
deviations those of a sample. With several seeds, what stands behind +- is the
deviation over them. Differences are of the same seed, as `fedmrn report` takes
them, since runs of one seed see the same clients and rise and fall together.
"""

import csv
import itertools
import math
import pathlib
import statistics
import sys
import tomllib

HERE = pathlib.Path(__file__).parent
LAST = 10  # rounds, also of a block
TABLE1 = "table1-fmnist-noniid2"
SPANS = [(1, 15), (16, 30), (31, 60), (61, 100)]

# Method: its name in the paper, and the paper's accuracy, the best round's mean
# over five seeds and their deviation (Table 1, FMNIST, Non-IID-2).
METHODS = {
    "fedavg": ("FedAvg", "88.8 ± 0.2"),
    "fedmrn": ("FedMRN", "88.6 ± 0.2"),
    "fedmrns": ("FedMRNS", "88.9 ± 0.3"),
    "eden": ("EDEN", "88.3 ± 0.3"),
    "drive": ("DRIVE", "88.1 ± 0.1"),
    "drive-biased": ("DRIVE, biased", ""),
    "terngrad": ("TernGrad", "87.9 ± 0.2"),
    "signsgd": ("SignSGD", "87.1 ± 0.3"),
    "topk": ("Top-k", "86.7 ± 0.2"),
    "topk-ef": ("Top-k, error feedback", ""),
    "fedbat": ("FedBAT", ""),
    "fedsparsify": ("FedSparsify", "78.8 ± 1.5"),
    "fedpm": ("FedPM", "74.6 ± 0.8"),
    "fedpm-sgd": ("FedPM, SGD", ""),
}
STATISTICS = "statistics-fmnist-30x3"
CIFAR = "cifar10-noniid2-60x2"
CIFAR_RATES = ["-lr0.03", "-lr0.1"]  # other than the grid's, folders of seed 1
CIFAR_SPANS = [(1, 20), (21, 40), (41, 60)]
CIFAR_GRID = HERE.parent.parent / "configs/grids/cifar10.toml"
ABLATION = "ablation-fmnist-60x5"
ABLATED = {
    "fedmrn": "FedMRN",
    "fedmrn-no-pm": "FedMRN w/o PM",
    "fedmrn-no-sm": "FedMRN w/o SM",
    "fedmrn-no-psm": "FedMRN w/o both",
    "fedavg-sm": "FedAvg, masked after training",
}


def rows_of(file):
    with open(HERE / file, newline="", encoding="utf-8") as rows:
        return list(csv.DictReader(rows))


class Run:
    def __init__(self, file, rounds=None):
        rows = rows_of(file)[:rounds]
        self.accuracies = [100 * float(row["accuracy"]) for row in rows]
        self.best = max(self.accuracies)
        self.last_ten = statistics.fmean(self.accuracies[-LAST:])
        self.swing = statistics.stdev(self.accuracies[-LAST:])
        self.megabytes = sum(int(row["uplink_bytes"]) for row in rows) / 1e6
        bits = [float(row["uplink_bits_per_param"]) for row in rows]
        self.bits, self.first_bits, self.last_bits = (
            statistics.fmean(bits), bits[0], bits[-1])


def runs_of(folder, methods=METHODS):
    """Method: seed: run, in this order."""
    runs = {method: {} for method in methods}
    for file in sorted((HERE / folder).glob("*-seed*.csv")):
        method, seed = file.stem.rsplit("-seed", 1)
        runs[method][int(seed)] = Run(file)
    return {method: seeds for method, seeds in runs.items() if seeds}


def seed_1(runs):
    """Rows with other seeds see other clients: their columns do not compare."""
    return {method: {1: seeds[1]} for method, seeds in runs.items()
            if 1 in seeds}


def of_several_seeds(runs):
    return {method: seeds for method, seeds in runs.items() if len(seeds) > 1}


def table(head, align, rows):
    return ["| " + " | ".join(cells) + " |"
            for cells in [head, align, *rows]]


def spread(values, digits):
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return (f"{statistics.fmean(values):.{digits}f} ± "
            f"{statistics.stdev(values):.{digits}f}")


def standard_error(samples):
    return statistics.stdev(samples) / math.sqrt(len(samples))


def with_error(value, error, digits):
    text = f"{error:.{digits}f}"
    return f"{value:+.{digits}f} ± " + (text if float(text) else f"{error:.1g}")


def told(samples, digits):
    """Their mean: a difference has to exceed twice its standard error to be
    one."""
    value, error = statistics.fmean(samples), standard_error(samples)
    text = with_error(value, error, digits)
    return text if abs(value) > 2 * error else text + ", not told apart"


def less(seeds, base, value):
    """The difference to the base of a run's value."""
    if seeds is base:
        return ""
    samples = [value(seeds[seed]) - value(base[seed])
               for seed in seeds if seed in base]
    return "one seed" if len(samples) < 2 else told(samples, 2)


def accuracy_table(all_runs, papers=True):
    several = any(len(seeds) > 1 for seeds in all_runs.values())
    rows = []
    for method, seeds in all_runs.items():
        runs = list(seeds.values())
        name, papers_best = METHODS[method]
        swing = math.sqrt(statistics.fmean(run.swing**2 for run in runs))
        rows.append(
            [name] + ([str(len(runs))] if several else []) +
            [spread([run.best for run in runs], 2)] +
            ([papers_best] if papers else []) +
            ([less(seeds, all_runs["fedavg"], lambda run: run.best)]
             if several else []) +
            [spread([run.last_ten for run in runs], 1), f"{swing:.1f}",
             f"{statistics.fmean(run.megabytes for run in runs):,.1f}",
             f"{statistics.fmean(run.bits for run in runs):.3f}"])
    head = (["method"] + (["seeds"] if several else []) +
            ["best, %"] + (["paper's best, %"] if papers else []) +
            (["less FedAvg's best"] if several else []) +
            ["last ten, %", "they swing by", "uploaded MB", "bits/parameter"])
    return table(head, ["---"] + (len(head) - 1) * ["---:"], rows)


def difference(seeds, base, first, last):
    """Of the means of these rounds; of one seed with the standard error over
    blocks of ten rounds, since rounds beside each other are not independent."""
    def of(seed):
        return [ours - theirs for ours, theirs in zip(
            seeds[seed].accuracies[first - 1:last],
            base[seed].accuracies[first - 1:last])]
    shared = [seed for seed in seeds if seed in base]
    if len(shared) > 1:
        return told([statistics.fmean(of(seed)) for seed in shared], 1)
    rounds = of(shared[0])
    blocks = [statistics.fmean(rounds[i:i + LAST])
              for i in range(0, len(rounds) - LAST + 1, LAST)]
    value = statistics.fmean(rounds)
    return (with_error(value, standard_error(blocks), 1) if len(blocks) > 2
            else f"{value:+.1f}")


def span_table(runs, spans=None):
    spans = spans or SPANS
    several = any(len(seeds) > 1 for seeds in runs.values())
    rows = []
    for method, seeds in runs.items():
        cells = [METHODS[method][0]] + ([str(len(seeds))] if several else [])
        for first, last in spans:
            mean = statistics.fmean(
                x for run in seeds.values()
                for x in run.accuracies[first - 1:last])
            cells.append(f"{mean:.1f}" + ("" if method == "fedavg" else
                f" ({difference(seeds, runs['fedavg'], first, last)})"))
        rows.append(cells)
    head = (["rounds"] + (["seeds"] if several else []) +
            [f"{first} to {last}" for first, last in spans])
    return table(head, ["---"] + ["---:"] * (len(head) - 1), rows)


def ablation_table():
    runs = runs_of(ABLATION, ABLATED)
    rows = []
    for method, seeds in runs.items():
        its = list(seeds.values())
        last = len(its[0].accuracies)
        rows.append([
            ABLATED[method], str(len(its)),
            spread([run.best for run in its], 2),
            less(seeds, runs["fedmrn"], lambda run: run.best),
            spread([run.last_ten for run in its], 1),
            "" if method == "fedmrn" else
            difference(seeds, runs["fedmrn"], last // 2 + 1, last),
            f"{statistics.fmean(run.bits for run in its):.3f}"])
    return table(
        ["method", "seeds", "best, %", "less FedMRN's best", "last ten, %",
         "less FedMRN, rounds 31 to 60", "bits/parameter"],
        ["---"] + 6 * ["---:"], rows)


def cifar_rates_table():
    """The published rates, and others, beside those of the grid."""
    grid = tomllib.loads(CIFAR_GRID.read_text())["variants"]["method"]
    rows = []
    for folder in [""] + CIFAR_RATES:
        for method, seeds in runs_of(CIFAR + folder).items():
            rate = folder.removeprefix("-lr") or grid[method]["train"]["lr"]
            run = seeds[1]
            rows.append(
                [METHODS[method][0], str(rate)] +
                [f"{statistics.fmean(run.accuracies[first - 1:last]):.1f}"
                 for first, last in CIFAR_SPANS] + [f"{run.best:.2f}"])
    rows.sort(key=lambda row: (
        [name for name, _ in METHODS.values()].index(row[0]), float(row[1])))
    several = {name for name, group in itertools.groupby(
        rows, lambda row: row[0]) if len(list(group)) > 1}
    return table(
        ["method", "rate"] + [f"rounds {first} to {last}"
                              for first, last in CIFAR_SPANS] + ["best, %"],
        ["---"] + 5 * ["---:"], [row for row in rows if row[0] in several])


def tune_table(file, head):
    """Of each method and rate: mean of the last ten rounds; the best is bold."""
    cells = {(row["method"], row["lr"]): row for row in rows_of(file)}
    rates = ["0.01", "0.03", "0.1", "0.3", "1"]
    rows = []
    for method in dict.fromkeys(method for method, _ in cells):
        values = {rate: 100 * float(cells[method, rate]["last_ten_accuracy"])
                  for rate in rates if (method, rate) in cells}
        best = max(values.values())
        row = [method]
        for rate in rates:
            text = f"{values[rate]:.1f}" if rate in values else ""
            row.append(f"**{text}**" if values.get(rate) == best
                       and len(values) > 1 else text)
        rows.append(row)
    return table([head] + rates,
                 ["---"] + ["---:"] * len(rates), rows)


def close_rates_table():
    """Neighbouring rates with several seeds: the second's mean of the last ten
    rounds less the first's."""
    one = {(row["method"], row["lr"]): 100 * float(row["last_ten_accuracy"])
           for row in rows_of("tune.csv")}
    rows = []
    for method, first, second in CLOSE_RATES:
        differences = [one[method, second] - one[method, first]]
        for seed in 2, 3:
            before, after = (
                Run(f"tune-seeds/lr{lr}-{method}-seed{seed}.csv").last_ten
                for lr in (first, second))
            differences.append(after - before)
        rows.append([METHODS[method][0], f"{second} less {first}",
                     ", ".join(f"{value:+.1f}" for value in differences),
                     told(differences, 1)])
    return table(["method", "learning rates", "seeds 1, 2, 3", "mean"],
                 ["---", "---:", "---:", "---:"], rows)


CLOSE_RATES = [("fedavg", "0.03", "0.1"), ("eden", "0.03", "0.1"),
               ("terngrad", "0.03", "0.1"), ("fedmrn", "0.1", "0.3"),
               ("fedmrns", "0.1", "0.3")]
BITS = [  # noise, batch norm, rows
    ("FedAvg, for comparison", "float32", TABLE1 + "/fedavg-seed1.csv"),
    ("uniform 0.01", "float32", "bits-uniform.csv"),
    ("uniform 0.01", "delta", "bits-uniform-delta.csv"),
    ("**Bernoulli, magnitude auto**", "delta", "bits-bernoulli-auto.csv"),
    ("signed, uniform 0.005 (FedMRNS)", "delta", "bits-signed-delta.csv"),
    ("Bernoulli 0.005", "delta", "bits-bernoulli-005.csv"),
    ("Bernoulli 0.007", "delta", "bits-bernoulli-007.csv"),
    ("**Bernoulli 0.01**", "delta", "bits-bernoulli-01.csv"),
]


def bits_table():
    rows = []
    for noise, dense, file in BITS:
        run = Run(file, 30)
        means = [statistics.fmean(run.accuracies[first - 1:last])
                 for first, last in SPANS[:2]]
        rows.append([
            noise, dense,
            f"{run.bits:.3f} ({run.first_bits:.3f}, {run.last_bits:.3f})",
            f"{run.megabytes:.1f}", f"{run.best:.2f}",
            f"{run.last_ten:.1f} ± {run.swing:.1f}",
            ", ".join(f"{mean:.1f}" for mean in means)])
    return table(
        ["noise", "batch norm", "bits/parameter (first, last round)",
         "uploaded MB", "best, %", "last ten, %", "rounds 1-15, 16-30, %"],
        ["---", "---"] + 5 * ["---:"], rows)


def time_table():
    """Of `fedmrn report --csv`."""
    names = {"fedpm-sgd": "FedPM, SGD", "topk-ef": "Top-k, error feedback",
             "fedmrn-plain": "FedMRN, masks sent plainly"}
    rows = []
    for row in rows_of("complexity.csv"):
        train, encode = float(row["train_s"]), 1000 * float(row["encode_s"])
        rows.append([names.get(row["label"], row["label"]), f"{train:.2f}",
                     f"{encode:.2f}", f"{encode / train / 10:.2f}"])
    return table(["method", "training, s", "compression, ms",
                  "of training, %"], ["---"] + 3 * ["---:"], rows)


def noise_table(method):
    cells = {(row["noise"], row["magnitude"]): row
             for row in rows_of("noise.csv") if row["name"] == method}
    kinds = ["uniform", "gaussian", "bernoulli"]
    rows = []
    for magnitude in dict.fromkeys(magnitude for _, magnitude in cells):
        row = [magnitude]
        for kind in kinds:
            cell = cells[kind, magnitude]
            best, last = (100 * float(cell[f"{which}_accuracy"])
                          for which in ("best", "last"))
            bits = float(cell["uplink_bits_per_param"])
            row.append(f"{best:.1f} / {last:.1f}, {bits:.3f}")
        rows.append(row)
    return table([METHODS[method][0] + ", magnitude", "uniform", "Gaussian",
                  "Bernoulli"], 4 * ["---:"], rows)


def statistics_table():
    """Means of ten rounds with the statistics of training, and how much higher
    they are with those of the decoded update."""
    rows = []
    spans = [(1, 10), (11, 20), (21, 30)]
    for method in ("signsgd", "topk", "drive-biased", "terngrad", "eden"):
        training, decoded = (
            Run(f"{STATISTICS}/{method}-decoded_statistics{taken}-seed1.csv")
            for taken in ("false", "true"))
        row = [METHODS[method][0]]
        for first, last in spans:
            before, after = (statistics.fmean(run.accuracies[first - 1:last])
                             for run in (training, decoded))
            row.append(f"{before:.1f} ({after - before:+.1f})")
        row.append(f"{training.best:.1f} ({decoded.best - training.best:+.1f})")
        rows.append(row)
    return table(["method"] + [f"rounds {first} to {last}"
                               for first, last in spans] + ["best"],
                 ["---"] + 4 * ["---:"], rows)


def headline():
    """Seed 1, one row a method of the paper's table, and the best of several
    seeds where there are some."""
    rows = []
    all_runs = runs_of(TABLE1)
    for method, seeds in all_runs.items():
        name, paper = METHODS[method]
        if not paper:
            continue
        run = seeds[1]
        rows.append([
            name, f"{run.best:.2f}",
            spread([its.best for its in seeds.values()], 2)
            if len(seeds) > 1 else "", paper,
            f"{run.last_ten:.1f} ± {run.swing:.1f}", f"{run.megabytes:,.1f} MB",
            f"{run.bits:.3f}",
            f"{all_runs['fedavg'][1].megabytes / run.megabytes:.1f}x"])
    return table(
        ["method", "best accuracy, %", "best, three seeds, %", "paper's best, %",
         "mean of the last 10 rounds, %", "uploaded", "bits/parameter",
         "compression"],
        ["---"] + 7 * ["---:"], rows)


# Name: the page, and the table.
TABLES = {
    "Headline": ("README.md", headline),
    "Table 1": ("docs/results.md",
                lambda: accuracy_table(seed_1(runs_of(TABLE1)))),
    "Rounds": ("docs/results.md", lambda: span_table(seed_1(runs_of(TABLE1)))),
    "Seeds": ("docs/results.md",
              lambda: accuracy_table(of_several_seeds(runs_of(TABLE1)))),
    "Rounds, seeds": ("docs/results.md",
                      lambda: span_table(of_several_seeds(runs_of(TABLE1)))),
    "Below one bit": ("docs/results.md", bits_table),
    "Ablation": ("docs/results.md", ablation_table),
    "CIFAR-10": ("docs/results.md", lambda: accuracy_table(
        seed_1(runs_of(CIFAR)), papers=False)),
    "CIFAR-10, rounds": ("docs/results.md", lambda: span_table(
        seed_1(runs_of(CIFAR)), CIFAR_SPANS)),
    "CIFAR-10, seeds": ("docs/results.md", lambda: accuracy_table(
        of_several_seeds(runs_of(CIFAR)), papers=False)),
    "CIFAR-10, rounds, seeds": ("docs/results.md", lambda: span_table(
        of_several_seeds(runs_of(CIFAR)), CIFAR_SPANS)),
    "CIFAR-10, rates": ("docs/results.md", cifar_rates_table),
    "CIFAR-10, tuning": ("docs/results.md", lambda: tune_table(
        "tune-cifar10.csv", "learning rate, CIFAR-10")),
    "Learning rates": ("docs/results.md", lambda: tune_table(
        "tune.csv", "learning rate")),
    "Close rates": ("docs/results.md", close_rates_table),
    "Statistics": ("docs/results.md", statistics_table),
    "Time of a client": ("docs/results-short.md", time_table),
    "Noise": ("docs/results-short.md", lambda: noise_table("fedmrn")),
    "Noise, signed": ("docs/results-short.md",
                      lambda: noise_table("fedmrns")),
}


def table_at(page, head):
    """The page's lines of the table with this head."""
    if head not in page:
        return []
    start = page.index(head)
    return list(itertools.takewhile(lambda line: line.startswith("|"),
                                    page[start:]))


def replaced(page, lines):
    """The page's lines with these in the place of the table of this head."""
    old = table_at(page, lines[0])
    if not old:
        sys.exit(f"no table begins with {lines[0]}")
    start = page.index(lines[0])
    return page[:start] + lines + page[start + len(old):]


def main(arguments):
    if arguments not in ([], ["--check"], ["--write"]):
        sys.exit("usage: tables.py [--check | --write]")
    missing = 0
    for name, (page, make) in TABLES.items():
        lines = make()
        text = "\n".join(lines)
        file = HERE.parent.parent / page
        if not arguments:
            print(f"{name}: {page}\n\n{text}\n")
        elif arguments == ["--write"]:
            page_lines = file.read_text(encoding="utf-8").split("\n")
            file.write_text("\n".join(replaced(page_lines, lines)),
                            encoding="utf-8")
        elif table_at(
                file.read_text(encoding="utf-8").split("\n"), lines[0]) != lines:
            print(f"{page} does not have the table '{name}' as it is:\n{text}")
            missing += 1
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
