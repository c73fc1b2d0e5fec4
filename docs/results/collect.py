"""Puts the rows of finished runs here, from the results of `fedmrn compare`.

    python3 docs/results/collect.py runs/table1-fmnist-paper table1-fmnist-noniid2 --commit 713c5f2 --cpu "AMD EPYC (Zen 5; AVX-512)"
    python3 docs/results/collect.py runs/tune-all tune.csv --commit ... --cpu ...

A folder gets each run's rounds.csv as METHOD-seedN.csv, and in models.csv commit,
CPU and the SHA-256 of its final model. A .csv gets the rows of summary.csv, those
of the same configuration replaced, in the columns that it has; runs of one
configuration are of one program. tables.py makes the pages' tables of them.
"""

import argparse
import csv
import json
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).parent


def read(file):
    with open(file, newline="", encoding="utf-8") as rows:
        reader = csv.DictReader(rows)
        return list(reader), list(reader.fieldnames)


def write(file, columns, rows):
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def method_of(run):
    """noniid2-fedavg-sm-seed1: fedavg-sm. What tables.py has no name for, such as
    a partition, stands before the method."""
    return re.sub(r"^(iid|noniid1|noniid2|fmnist|cifar10)-|-seed\d+$", "", run)


def collect_runs(results, folder, commit, cpu):
    folder.mkdir(parents=True, exist_ok=True)
    models = {}
    if (folder / "models.csv").exists():
        models = {row["run"]: row for row in read(folder / "models.csv")[0]}
    sources = {}
    for file in sorted(results.glob("*/run.json")):
        run = json.loads(file.read_text())
        if not run["finished"]:
            continue
        name = f"{method_of(file.parent.name)}-seed{run['config']['seed']}"
        if sources.setdefault(name, file) != file:
            sys.exit(f"collect.py: {sources[name].parent} and {file.parent} "
                     f"would both be {name}")
        model = run["model_sha256"]
        if models.get(name, {}).get("model_sha256") == model:
            continue  # here already, with the program that made it first
        shutil.copyfile(file.parent / "rounds.csv", folder / f"{name}.csv")
        models[name] = {"run": name, "commit": commit, "cpu": cpu,
                        "model_sha256": model}
        print(name)
    write(folder / "models.csv", ["run", "commit", "cpu", "model_sha256"],
          [models[name] for name in sorted(models)])


def collect_summary(results, file, commit, cpu):
    new, new_columns = read(results / "summary.csv")
    measured = new_columns.index("seeds")
    old, columns = read(file) if file.exists() else ([], new_columns)
    columns += [name for name in ("commit", "cpu") if name not in columns]
    # What stands before the number of seeds names the configuration.
    axes = [name for name in new_columns[:measured] if name in columns]
    rows = {tuple(row[axis] for axis in axes): row for row in old}
    for row in new:
        if int(row["seeds"]) == 0:
            continue
        key = tuple(row[axis] for axis in axes)
        if not all(rows.get(key, {}).get(name) == row[name]
                   for name in ("best_accuracy", "last_accuracy")):
            rows[key] = {**row, "commit": commit, "cpu": cpu}
            print(*key)
    write(file, columns, [{name: row.get(name, "") for name in columns}
                          for row in rows.values()])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("results", type=pathlib.Path,
                        help="the folder of fedmrn compare")
    parser.add_argument("here", help="a folder beside collect.py, or a .csv")
    parser.add_argument("--commit", required=True, help="of the program")
    parser.add_argument("--cpu", required=True, help="that it ran on")
    its = parser.parse_args()
    if not its.results.is_dir():
        sys.exit(f"collect.py: {its.results} is no folder")
    collect = collect_summary if its.here.endswith(".csv") else collect_runs
    collect(its.results, HERE / its.here, its.commit, its.cpu)


if __name__ == "__main__":
    main()
