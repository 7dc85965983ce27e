"""Drawers by name: their options, what is refused, and the signature of `images`."""

from __future__ import annotations

import pytest

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.interleaved.registry import open_drawer

KEY = "sk-thisisnotarealkey"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


def signature_of(choice):
    return open_drawer(choice, ENVIRONMENT).signature


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("image:flux", "no drawer `image`.\n\nhint: one of `images`, `diffusers`"),
        ("images", "needs `model=...`.\n\nhint: `images:model=...`"),
        ("images:model=", "at least 1 character"),
        ("images:flux,sise=512x512", "no option `sise`.\n\nhint: its options: `size`"),
        ("images:flux,512", "`t2i` names a drawer in an invalid form, at option 2"),
        ("images:flux,environment=x", "no option `environment`"),
        ("images:flux,size=512", "`size=512` cannot"),
        ("images:flux,size=0x512", "`size=0x512` cannot"),
        ("images:flux,size=10000x10000", "at most 16,777,216 pixels"),
        ("images:flux,max_side_px=-1", "`max_side_px=-1`"),
        ("diffusers:flux,steps=0", "`steps=0`"),
        ("diffusers:flux,_pipeline=x", "no option `_pipeline`"),
        ("images:flux,guidance=nan", "`guidance=nan`"),
        ("images:flux,max_cost=5", "add `price=`"),
        ("images:flux,base_url=host/v1", "base URL is not the address"),
        ("images:flux,api_key_env=NOT_SET", "names no variable that is set"),
    ],
)
def test_a_wrong_name_or_option_is_refused_with_what_would_be_valid(choice, message):
    with pytest.raises(MmieTasksError, match="hint: ") as raised:
        open_drawer(choice, ENVIRONMENT)
    assert message in str(raised.value)


@pytest.mark.parametrize("option", [f"api_key={KEY}", KEY, f"api_key_env={KEY}"])
def test_a_key_as_an_option_is_refused_and_not_repeated(option):
    with pytest.raises(SettingWrong) as raised:
        open_drawer(f"images:flux,{option}", ENVIRONMENT)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        ("flux", "model=flux,size=512x512,stored=512px"),
        ("gpt-image-2", "model=gpt-image-2,size=1024x1024,stored=512px"),
        ("dall-e-3", "model=dall-e-3,size=1024x1024,stored=512px"),
        ("flux,size=64X32,max_side_px=0", "model=flux,size=64x32,stored=0px"),
        (
            "flux,quality=high,steps=4,guidance=3.5,negative_prompt=blurry",
            (
                "model=flux,size=512x512,quality=high,num_inference_steps=4,guidance_scale=3.5,"
                "negative_prompt=a51b6dba6701,stored=512px"
            ),
        ),
        ("flux,base_url=http://me:hush@b:8000/v1", "model=flux,size=512x512,stored=512px,host=b"),
        ("a|b", "model=a b,size=512x512,stored=512px"),
    ],
)
def test_the_signature_holds_what_changes_a_picture(options, signature):
    assert signature_of(f"images:{options}") == f"images,{signature}"


@pytest.mark.parametrize(
    ("address", "servers"),
    [
        pytest.param("http://h:1/v1", ",servers=h:1", id="port"),
        pytest.param("http://localhost:1", ",servers=127.0.0.1:1", id="localhost"),
        pytest.param("https://h:443/a/v1", ",servers=h/a", id="path"),
        pytest.param("https://api.openai.com/v1", "", id="openai"),
    ],
)
def test_pictures_of_two_servers_of_one_machine_are_stored_apart(address, servers):
    drawer = open_drawer(f"images:flux,base_url={address}", ENVIRONMENT)
    assert drawer.storage_signature == f"{drawer.signature}{servers}"


def test_the_signature_holds_no_limit_or_key_or_port():
    limits = "timeout=9,patience=9,max_concurrency=1,price=1,max_cost=9,base_url=http://h:1/v1"
    plain = signature_of("images:flux,base_url=http://h:2/v1")
    assert signature_of(f"images:flux,{limits}") == plain
    assert KEY not in repr(open_drawer("images:flux", ENVIRONMENT))
