"""Drawers by name: their options, what is refused, and the signature of `images`."""

import pytest

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.drawing.registry import open_drawer

KEY = "sk-thisisnotarealkey"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("image:flux", "no drawer `image`"),
        ("images", "needs `model=...`"),
        ("images:model=", "at least 1 character"),
        ("images:flux,sise=512x512", "no option `sise`.\n\nhint: its options: `size`"),
        ("images:flux;512", "names a drawer in an invalid form, at option 2"),
        ("images:flux,size=512", "`size=512`"),
        ("images:flux,max_side_px=-1", "`max_side_px=-1`"),
        ("diffusers:flux,steps=0", "`steps=0`"),
        ("diffusers:flux,device=tpu", "`device=tpu`"),
        ("images:flux,guidance=nan", "`guidance=nan`"),
        ("images:flux,base_url=host/v1", "base URL is not the address"),
        ("images:flux,api_key_env=NOT_SET", "names no variable that is set"),
        (f"images:flux,api_key={KEY}", "no option `api_key`"),
    ],
)
def test_a_wrong_name_or_option_is_refused_and_no_key_is_repeated(choice, message):
    with pytest.raises(SettingWrong, match="hint: ") as raised:
        open_drawer(choice, ENVIRONMENT)
    assert message in str(raised.value)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        ("flux", "model=flux,max_side_px=512"),
        ("flux;size=64x32;max_side_px=0", "model=flux,size=64x32,max_side_px=0"),
        (
            "flux,quality=high,steps=4,guidance=3.5,negative_prompt=a|b",
            "model=flux,max_side_px=512,steps=4,guidance=3.5,negative_prompt=a b,quality=high",
        ),
        (
            "flux,base_url=http://me:hush@LocalHost:8000/v1,timeout=9,max_concurrency=1",
            "model=flux,max_side_px=512,host=127.0.0.1:8000",
        ),
    ],
)
def test_the_signature_has_what_changes_an_image_and_no_key_or_limit(options, signature):
    drawer = open_drawer(f"images:{options}", ENVIRONMENT)
    assert drawer.signature == f"images,{signature}"
    assert KEY not in repr(vars(drawer))
