from __future__ import annotations

import pytest

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.interleaved.base import open_drawer

KEY = "sk-thisisnotarealkey"
ENVIRONMENT = {"OPENAI_API_KEY": KEY}


def signature_of(choice: str) -> str:
    return open_drawer(choice, ENVIRONMENT).signature


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        pytest.param(
            "image:flux", "no drawer `image`.\n\nhint: one of `images`, `diffusers`", id="name"
        ),
        pytest.param("", "no drawer ``", id="nothing"),
        pytest.param("images", "needs `model=...`.\n\nhint: `images:model=...`", id="no-model"),
        pytest.param("images:model=", "at least 1 character", id="empty-model"),
        pytest.param(
            "images:flux,sise=512x512",
            "no option `sise`.\n\nhint: its options: `size`",
            id="option",
        ),
        pytest.param(
            "images:flux,512", "`t2i` names a drawer in an invalid form, at option 2", id="form"
        ),
        pytest.param("images:flux,environment=x", "no option `environment`", id="environment"),
        pytest.param("images:flux,size=512", "`size=512` cannot", id="size"),
        pytest.param("images:flux,size=0x512", "`size=0x512` cannot", id="no-pixels"),
        pytest.param(
            "images:flux,size=10000x10000", "at most 16,777,216 pixels", id="100-million-pixels"
        ),
        pytest.param("images:flux,max_side_px=-1", "`max_side_px=-1`", id="side"),
        pytest.param("images:flux,steps=0", "`steps=0`", id="steps"),
        pytest.param("diffusers:flux,steps=0", "`steps=0`", id="steps-of-diffusers"),
        pytest.param("diffusers:flux,batch_size=0", "`batch_size=0`", id="batch"),
        pytest.param("diffusers:flux,max_side_px=-1", "`max_side_px=-1`", id="side-of-diffusers"),
        pytest.param("images:flux,guidance=nan", "`guidance=nan`", id="guidance"),
        pytest.param("images:flux,max_cost=5", "add `price=`", id="no-price"),
        pytest.param("images:flux,price=0", "`price=0`", id="price"),
        pytest.param(
            "images:flux,base_url=host/v1", "base URL `host/v1` is no address", id="address"
        ),
        pytest.param(
            "images:flux,api_key_env=NOT_SET", "`NOT_SET` that is not set", id="no-variable"
        ),
    ],
)
def test_a_wrong_name_or_option_is_refused_with_what_would_be_valid(
    choice: str, message: str
) -> None:
    with pytest.raises(MmieTasksError, match="hint: ") as raised:
        open_drawer(choice, ENVIRONMENT)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(f"images:flux,api_key={KEY}", id="option"),
        pytest.param(f"images:flux,{KEY}", id="pair"),
        pytest.param(f"images:flux,api_key_env={KEY}", id="variable"),
    ],
)
def test_a_key_as_an_option_is_refused_and_not_repeated(choice: str) -> None:
    with pytest.raises(SettingWrong) as raised:
        open_drawer(choice, ENVIRONMENT)
    assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        pytest.param("flux", "images,model=flux,size=512x512,stored=512px", id="defaults"),
        pytest.param(
            "gpt-image-1", "images,model=gpt-image-1,size=1024x1024,stored=512px", id="gpt-image"
        ),
        pytest.param(
            "dall-e-3", "images,model=dall-e-3,size=1024x1024,stored=512px", id="dall-e-3"
        ),
        pytest.param(
            "flux,size=64X32,max_side_px=0", "images,model=flux,size=64x32,stored=0px", id="sizes"
        ),
        pytest.param(
            "flux,quality=high,steps=4,guidance=3.5,negative_prompt=blurry",
            "images,model=flux,size=512x512,quality=high,num_inference_steps=4,guidance_scale=3.5,"
            "negative_prompt=a51b6dba6701,stored=512px",
            id="parameters",
        ),
        pytest.param(
            "flux,base_url=http://me:hush@b:8000/v1?k=hush https://a/v1",
            "images,model=flux,size=512x512,stored=512px,host=a+b",
            id="hosts",
        ),
        pytest.param("a|b", "images,model=a b,size=512x512,stored=512px", id="bar"),
    ],
)
def test_the_signature_holds_what_changes_a_picture(options: str, signature: str) -> None:
    assert signature_of(f"images:{options}") == signature


def test_the_signature_holds_no_limit_or_key_or_port() -> None:
    limits = "timeout=9,patience=9,max_concurrency=1,price=1,max_cost=9,base_url=http://h:1/v1"
    assert signature_of(f"images:flux,{limits}") == signature_of(
        "images:flux,base_url=http://h:2/v1"
    )
    assert KEY not in repr(open_drawer("images:flux", ENVIRONMENT))
