"""Which samples of MMIE a task takes: all, a category, or a thousand drawn by their ids."""

import hashlib
from collections import Counter

import pytest
from support.mmie_data import conversation, conversations_folder, folder, in_file_order

from mmie_tasks.benchmarks.mmie.data import dataset, ids_of_1k
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.core.errors import DataMissing

ORDER = ["PBL-1", "SA-1", "PBL-3", "PBL-4", "SA-0", "PBL-2", "MSR-0", "PBL-0", "SA-2"]


def load(path, selection="all"):
    return dataset(selection, {"MMIE_DATA": str(path)})


def ids(counts):
    return {name: [f"{name}-{i}" for i in range(count)] for name, count in counts.items()}


def rows_of(counts):
    return [conversation(one) for some in ids(counts).values() for one in some]


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_is_its_rows_with_an_index_of_their_own(category, tmp_path):
    rows = load(conversations_folder(tmp_path, n=7), category.lower())
    expected = [f"{category}-{i}" for i in range(7) if CATEGORIES[i % 3] == category]
    assert list(in_file_order(rows)["id"]) == expected
    assert list(rows["row"]) == list(range(len(expected)))


@pytest.mark.parametrize("selection", ["all", "1k"])
def test_the_order_is_the_same_whatever_that_of_the_file(selection, tmp_path):
    rows = rows_of({"PBL": 5, "MSR": 1, "SA": 3})
    orders = []
    for order in (rows, rows[::-1]):
        docs = load(folder(tmp_path, order, pictures=False), selection)
        orders.append(list(docs["id"]))
        assert list(docs["row"]) == list(range(9))
        assert [order[index]["id"] for index in docs["index"]] == orders[-1]
    assert orders[0] == orders[1] == ORDER


def test_a_category_that_is_not_there_is_missing_data(tmp_path):
    with pytest.raises(DataMissing, match="has no row of the category MSR"):
        load(conversations_folder(tmp_path, n=2), "msr")


def test_other_counts_than_the_published_are_told(logs, tmp_path):
    load(conversations_folder(tmp_path, n=5))
    [line] = logs
    assert line.record["level"].name == "INFO"
    assert line.startswith("MMIE: 5 samples (2 SA + 2 PBL + 1 MSR); published are 20,103 (5,0")


@pytest.mark.parametrize(
    ("counts", "drawn"),
    [
        pytest.param((5005, 11482, 3616), (249, 571, 180), id="published"),
        pytest.param((2000, 2000, 2000), (334, 333, 333), id="a tie goes to the first"),
        pytest.param((1, 1000, 1000), (0, 500, 500), id="a category of one row has no place"),
        pytest.param((3, 2, 1), (3, 2, 1), id="fewer"),
    ],
)
def test_the_small_sample_has_the_shares_of_the_whole(counts, drawn):
    named = ids(dict(zip(CATEGORIES, counts, strict=True)))
    drawn_counts = Counter(one.partition("-")[0] for one in ids_of_1k(named))
    assert tuple(drawn_counts[name] for name in CATEGORIES) == drawn


def test_the_small_sample_is_of_the_smallest_hashes(tmp_path):
    path = folder(tmp_path, rows_of({"SA": 1500}), pictures=False)
    hashes = {
        f"SA-{i}": hashlib.sha256(f"mmie_1k:SA-{i}".encode()).hexdigest() for i in range(1500)
    }
    expected = set(sorted(hashes, key=hashes.__getitem__)[:1000])
    rows = load(path, "1k")
    assert set(rows["id"]) == expected
    assert list(in_file_order(rows)["id"]) == [one for one in hashes if one in expected]


def test_a_small_sample_of_little_is_all_of_it(logs, tmp_path):
    path = conversations_folder(tmp_path)
    assert load(path, "1k")["id"] == load(path)["id"]
    assert any("`mmie_1k` has all samples, as there are only 6" in line for line in logs)
