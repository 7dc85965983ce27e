"""Images that a tested model is shown, in evaluations of one process."""

from PIL import Image

from mmie_tasks.hub.run_images import ImageOpener, forget_last_run


def test_an_image_that_is_repaired_between_two_evaluations_is_opened_in_the_second(tmp_path):
    path, opener = tmp_path / "a.png", ImageOpener()
    path.write_bytes(b"cut off")
    forget_last_run()
    assert opener.open("s", path).size == (64, 64)
    assert "s" in opener.failures
    Image.new("RGB", (3, 2)).save(path)
    forget_last_run()
    assert not opener.failures
    assert opener.open("s", path).size == (3, 2)
    assert not opener.failures


def test_a_sample_with_one_image_that_can_be_opened_keeps_the_failure_of_the_other(tmp_path):
    whole, opener = tmp_path / "a.png", ImageOpener()
    Image.new("RGB", (3, 2)).save(whole)
    for path in (tmp_path / "missing.png", whole):
        opener.open("s", path)
    assert "s" in opener.failures
